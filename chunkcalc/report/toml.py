"""A model's record as a profile: TOML that reads back as the same record."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from chunkcalc.records import Model

_HEAD = (
    "id", "name", "family", "aliases", "source", "note", "published_params", "published_active_params", "hidden",
    "vocab", "tied_embeddings", "max_position", "mtp_layers", "per_layer_embedding", "weights", "kv",
)  # fmt: skip


def model(record: Model) -> str:
    """The text of a profile; fields at their default are left out."""
    given = _given(record)
    lines = [f"{name} = {_value(given[name])}" for name in _HEAD if name in given]
    for name in ("formats", "unquantised", "variants"):
        if given.get(name):
            lines += ["", f"[{name}]", *(f"{json.dumps(key)} = {_value(item)}" for key, item in given[name].items())]
    for group in record.layers:
        lines += ["", "[[layers]]", f"count = {group.count}"]
        lines += [f"attention = {_table(group.attention)}", f"ffn = {_table(group.ffn)}"]
    return "\n".join(lines) + "\n"


def _given(record: Any) -> dict[str, Any]:
    """Fields that differ from their default; `kind` always."""
    out = {}
    for field in fields(record):
        value = getattr(record, field.name)
        default = field.default_factory() if field.default_factory is not MISSING else field.default
        if field.name == "kind" or value != default:
            out[field.name] = value
    return out


def _table(record: Any) -> str:
    return "{ " + ", ".join(f"{name} = {_value(value)}" for name, value in _given(record).items()) + " }"


def _value(value: Any) -> str:
    if hasattr(value, "__dataclass_fields__"):
        return _table(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_value(item)}" for key, item in value.items()) + " }"
    # A JSON string is a TOML basic string, but for the one escape that TOML lacks.
    return json.dumps(value).replace("\\/", "/") if isinstance(value, str) else str(value)
