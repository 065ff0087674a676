"""What ships: models and GPUs."""

from __future__ import annotations

from chunkcalc.catalog import lookup
from chunkcalc.records import Hardware, Model


def models() -> tuple[Model, ...]:
    """Every shipped model, by id."""
    return tuple(lookup.models())


def gpus() -> tuple[Hardware, ...]:
    """Every shipped GPU, by id."""
    return tuple(lookup.gpus())
