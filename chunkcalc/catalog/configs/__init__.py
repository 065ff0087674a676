"""A model from its Hugging Face config.json: which keys mean what in which architecture.

    model_from_config(json.load(file), "config.json")

Every architecture that is read is named in `families.py`. An unknown one is refused by name: keys
mean different things in different architectures, and guessing would give plausible wrong sizes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from chunkcalc.catalog.configs.families import FAMILIES, family_of
from chunkcalc.catalog.configs.keys import Config, read_json
from chunkcalc.catalog.configs.layers import layer_groups
from chunkcalc.catalog.configs.quantisation import weight_format
from chunkcalc.catalog.profiles import check_layers
from chunkcalc.records import Model

__all__ = ["FAMILIES", "model_from_config", "read_json"]


def model_from_config(data: Mapping[str, Any], where: str, name: str = "") -> Model:
    """A Model from a configuration.

    Raises
    ------
    ChunkcalcError : an unknown architecture, a missing key, an impossible value; each by name
    """
    config = Config.of_text_model(data, where)
    family = family_of(config)
    weights, unquantised = weight_format(config, family)
    written = name or str(data.get("_name_or_path") or "") or config.model_type
    found = Model(
        id=re.sub(r"[^a-z0-9.]+", "-", written.rsplit("/", 1)[-1].lower()).strip("-") or "model",
        name=written[:200],
        family=config.model_type,
        source=f"imported from {where}"[:2000],
        hidden=config.whole("hidden_size"),
        vocab=config.whole("vocab_size"),
        tied_embeddings=config.flag("tie_word_embeddings", default=family.tied),
        max_position=config.whole("max_position_embeddings", "model_max_length", "max_seq_len", "seq_length"),
        mtp_layers=config.whole(
            "num_nextn_predict_layers", "num_mtp_modules", "mtp_num_hidden_layers", default=0, least=0
        ),
        per_layer_embedding=config.whole("hidden_size_per_layer_input", default=0, least=0),
        weights=weights,
        unquantised=unquantised,
        layers=layer_groups(config, family),
    )
    check_layers(found, where)
    return found
