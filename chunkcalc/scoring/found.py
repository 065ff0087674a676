"""What a score is, as records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, NamedTuple

from chunkcalc.answer.judged import half_widths
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

    def width(self, name: str) -> float:
        """Half-width of its error band, as an answer for this deployment has it [1]."""
        return float(getattr(half_widths(self.served.timer), name))

    @property
    def below_floor(self) -> bool:
        """Whether the row says what its hardware cannot do."""
        tpot = self.served.run.tpot
        return tpot is not None and tpot < self.floor


class Coverage(NamedTuple):
    """How often the error bands hold.

    rows : measured [1]
    inside : share within predicted x (1 - band) and predicted x (1 + band) [1]
    above : share beyond predicted x (1 + band) [1]
    """

    rows: int = 0
    inside: float | None = None
    above: float | None = None


class Decisions(NamedTuple):
    """Limits drawn around every measured value, and how they would have been judged.

    limits : how many [1]
    right : share whose verdict is that of the measurement [1]
    kept, sure : of those predicted to be kept, and to be kept with the band, the share that were [1]
    """

    limits: int = 0
    right: float | None = None
    kept: float | None = None
    sure: float | None = None


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
    medians_tpot, medians_ttft : predicted medians against published ones, where no mean was
    bands, decisions : by latency
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
    bands: Mapping[str, Coverage] = field(default_factory=dict)
    decisions: Mapping[str, Decisions] = field(default_factory=dict)
    plug_ins: Mapping[str, tuple[Summary, Summary]] = field(default_factory=dict)
    step: Summary = NONE
    excluded: tuple[Exclusion, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    groups: tuple[Group, ...] = ()
    predictions: tuple[Scored, ...] = ()
