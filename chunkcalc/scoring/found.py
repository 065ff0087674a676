"""What a score is, as records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from chunkcalc.frozen import dataclass
from chunkcalc.measurements import Skipped
from chunkcalc.scoring.errors import Summary
from chunkcalc.scoring.healthy import Exclusion
from chunkcalc.scoring.served import Served
from chunkcalc.traffic.closed_loop import Closed

NONE = Summary(n=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """A run with its prediction.

    served : the run, and what served it
    predicted : the closed loop
    of : what it counts for: `tpot`, `ttft`, both, or neither
    floor : a decode step of one request on the datasheet's figures: less is impossible [s]
    """

    served: Served
    predicted: Closed
    of: tuple[str, ...]
    floor: float

    def ratio(self, name: str) -> float | None:
        """Predicted over measured [1]; None where it was not measured."""
        measured = getattr(self.served.run, name)
        return getattr(self.predicted, name) / measured if measured else None

    @property
    def below_floor(self) -> bool:
        """Whether the row says what its hardware cannot do."""
        tpot = self.served.run.tpot
        return tpot is not None and tpot < self.floor


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Errors of the rows that share some columns.

    key : column -> value
    tpot, ttft : errors of the rows that count
    """

    key: Mapping[str, Any]
    tpot: Summary
    ttft: Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The whole score.

    kind : of the file
    rows : of the file [1]
    scored : rows that count for TPOT or TTFT [1]
    tpot, ttft : errors of the rows that count
    every_tpot, every_ttft : errors with nothing left out
    medians_tpot, medians_ttft : predicted means against published medians, where no mean was
    plug_ins : errors by engine and kernels, where those are another engine's; not counted in the others
    step : errors of single steps, where the file holds those
    excluded, skipped : rows left out of the errors; rows that could not be predicted
    groups : errors by columns
    predictions : every predicted run
    """

    kind: str
    rows: int
    scored: int
    tpot: Summary
    ttft: Summary
    every_tpot: Summary
    every_ttft: Summary
    medians_tpot: Summary = NONE
    medians_ttft: Summary = NONE
    plug_ins: Mapping[str, tuple[Summary, Summary]] = field(default_factory=dict)
    step: Summary = NONE
    excluded: tuple[Exclusion, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    groups: tuple[Group, ...] = ()
    predictions: tuple[Scored, ...] = ()
