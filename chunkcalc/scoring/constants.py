"""What a calibration may move: constants of an engine on a GPU, how far, and which of them together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from chunkcalc.catalog.profiles import SCALED
from chunkcalc.records import HOST


class Constant(NamedTuple):
    """A field of `records.Overheads`.

    spread : by how much clusters are expected to differ from the shipped value, in its own unit
    low, high : its physical range
    meaning : in words
    """

    spread: float
    low: float
    high: float
    meaning: str


# Times in seconds, shares as fractions. The spreads are what the shipped values differ by between engines and
# architectures; a cluster further off still gets there, as the loss is robust for them too.
CONSTANTS: Mapping[str, Constant] = {
    "decode_layer": Constant(20e-6, 0.0, 500e-6, "small kernels per layer of a step"),
    "launches": Constant(0.3, 0.05, 6.0, "share of a kernel's launch time that is left"),
    "experts": Constant(0.08, 0.5, 4.0, "time of expert products over the kernels'"),
    "narrow_expert_launches": Constant(0.2, 0.05, 2.0, "the same for launches of 4-bit experts"),
    "expert_layer": Constant(20e-6, 0.0, 200e-6, "routing per layer with experts"),
    "cache": Constant(0.15, 0.3, 1.0, "share of bandwidth that decode attention gets"),
    "sequence": Constant(5e-6, 0.0, 100e-6, "bookkeeping per request of a step"),
    "request": Constant(20e-3, 0.0, 0.5, "time per request outside its steps"),
    "prompt_token": Constant(5e-6, 0.0, 50e-6, "the same per prompt token"),
    "host_dense": Constant(200e-6, 0.0, 2e-3, "host time per layer of a prompt step, dense models"),
    "host_moe": Constant(300e-6, 0.0, 4e-3, "the same with experts"),
    "host_latent": Constant(400e-6, 0.0, 4e-3, "the same with latent attention"),
    "host_hybrid": Constant(500e-6, 0.0, 4e-3, "the same of hybrids"),
    "latent_request": Constant(500e-6, 0.0, 4e-3, "time per latent layer outside the steps of a request"),
}
# Where the shipped value is zero the engine has no such cost, and a fit invents none.
ENGINES_OWN = frozenset(("latent_request",))
DECODE = ("decode_layer", "launches", "experts", "narrow_expert_launches", "expert_layer", "cache", "sequence")
PROMPT = ("request", "prompt_token", *HOST, "latent_request")
# What cross-validation chooses between, fewest constants first.
CHOICES: Mapping[str, tuple[str, ...]] = {
    "request": ("request",),
    "overheads": ("decode_layer", "request"),
    "prompts": PROMPT,
    "decodes": DECODE,
    "all": (*DECODE, *PROMPT),
}


def key(name: str) -> tuple[str, float]:
    """How a profile writes a constant: its key, and the unit in seconds.

    >>> key("decode_layer"), key("cache")
    (('decode_layer_us', 1e-06), ('cache', 1.0))
    """
    for written, unit in SCALED.items():
        if written.rsplit("_", 1)[0] == name:
            return written, unit
    return name, 1.0
