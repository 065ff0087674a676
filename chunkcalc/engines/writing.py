"""What the engines' writers of flags share."""

from __future__ import annotations

from typing import NamedTuple

from chunkcalc.engines.dialects import dialect
from chunkcalc.engines.reserve import default_fraction
from chunkcalc.engines.tables import Table
from chunkcalc.records import Deployment

Options = list[tuple[str, ...]]


class Wanted(NamedTuple):
    """What the options are to realise, per attention rank.

    deployment : the replica
    table : the version
    chunk, budget : prompt tokens and all tokens of a step [token]
    requests : in flight [1]
    drafts : speculative tokens per decode and step [token]
    queued : prompt tokens that may wait [token]
    """

    deployment: Deployment
    table: Table
    chunk: int
    budget: int
    requests: int
    drafts: int
    queued: int | None


def when(condition: object, *option: str) -> Options:
    """An option, where something asks for it."""
    return [option] if condition else []


def changed_fraction(deployment: Deployment, found: Table) -> str | None:
    """The memory fraction where it is not the engine's default."""
    fraction = deployment.engine.memory_fraction
    default = found.default(dialect(found.engine).fraction, deployment.hardware)
    own = default.value if default else default_fraction(found, deployment.hardware.memory, deployment.parallelism)
    return None if fraction in (None, own) else f"{fraction:g}"
