"""What the engines' writers of flags share."""

from __future__ import annotations

from chunkcalc.engines.dialects import dialect
from chunkcalc.engines.reserve import default_fraction
from chunkcalc.engines.tables import Table
from chunkcalc.records import Deployment

Options = list[tuple[str, ...]]


def when(condition: object, *option: str) -> Options:
    """An option, where something asks for it."""
    return [option] if condition else []


def changed_fraction(deployment: Deployment, found: Table) -> str | None:
    """The memory fraction where it is not the engine's default."""
    fraction = deployment.engine.memory_fraction
    default = found.default(dialect(found.engine).fraction, deployment.hardware)
    own = default.value if default else default_fraction(found, deployment.hardware.memory, deployment.parallelism)
    return None if fraction in (None, own) else f"{fraction:g}"
