"""What the functions give back: the records of the program, which know how they are shown and written."""

from __future__ import annotations

import html
import json as standard
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

from chunkcalc.answer.records import Answer
from chunkcalc.answer.replay import Simulation
from chunkcalc.answer.resolve import Case
from chunkcalc.derivation.derive import Derivation
from chunkcalc.gate.check import FailOn, Report, Unknown
from chunkcalc.report import json
from chunkcalc.scoring.calibrate import Calibrated
from chunkcalc.scoring.found import Score
from chunkcalc.scoring.usable import LeftOut
from chunkcalc.sizing.fleet import Fleet

R = TypeVar("R", bound="Shown")


class Shown:
    """A result: `str()` is what the command prints, `to_dict()` what it writes with --json."""

    __slots__ = ()
    told: tuple[str, ...] = ()  # what `repr` shows

    def _document(self) -> Mapping[str, Any]:
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """The same as the command's --json: lists, texts, finite numbers and None."""
        found: dict[str, Any] = standard.loads(json.dumps(self._document()))
        return found

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.told)
        return f"{type(self).__name__}({shown})"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def become(kind: type[R], record: Any, **more: Any) -> R:
    """A record of the program as a result.

    Parameters
    ----------
    kind : of result, which adds no fields
    record : of the kind that the result is made from
    more : what the result needs to show itself
    """
    found = kind(**{field.name: getattr(record, field.name) for field in fields(record)})
    for name, value in more.items():
        object.__setattr__(found, name, value)
    return found


class Solution(Shown, Answer):
    """The answer of `solve`."""

    __slots__ = ()
    told = ("verdict", "chunk", "budget", "reasons")
    __repr__ = Shown.__repr__

    def _document(self) -> Mapping[str, Any]:
        return json.solve(self)

    def __str__(self) -> str:
        from chunkcalc.report import lines, text  # noqa: PLC0415 - to be shown only

        return lines.plain(text.solve(self))


class Explanation(Shown, Derivation):
    """The derivation of `explain`."""

    __slots__ = ()
    told = ("notes",)
    __repr__ = Shown.__repr__

    def _document(self) -> Mapping[str, Any]:
        from chunkcalc.report import explain  # noqa: PLC0415

        return explain.json(self)

    def __str__(self) -> str:
        from chunkcalc.report import explain, lines  # noqa: PLC0415

        return lines.plain(explain.text(self))


class FleetPlan(Shown, Fleet):
    """The shapes of `fleet`."""

    __slots__ = ()
    told = ("rate", "chosen", "reasons")
    __repr__ = Shown.__repr__

    def _document(self) -> Mapping[str, Any]:
        from chunkcalc.report import fleet  # noqa: PLC0415

        return fleet.json(self)

    def __str__(self) -> str:
        from chunkcalc.report import fleet  # noqa: PLC0415

        return fleet.text(self)


class Replayed(Shown, Simulation):
    """What `replay` gave."""

    __slots__ = ("case",)
    case: Case
    told = ("duration_s", "batch", "busy", "steps")
    __repr__ = Shown.__repr__

    def _document(self) -> Mapping[str, Any]:
        from chunkcalc.report import replay  # noqa: PLC0415

        return replay.json(self)

    def __str__(self) -> str:
        from chunkcalc.report import replay  # noqa: PLC0415

        return replay.text(self.case, self)


class Scored(Shown, Score):
    """Predictions against measurements, of `score`."""

    __slots__ = ("assumed",)
    assumed: Sequence[str]  # what was read into the file
    told = ("kind", "rows", "scored", "tpot", "ttft")
    __repr__ = Shown.__repr__

    def _document(self) -> Mapping[str, Any]:
        from chunkcalc.report import score  # noqa: PLC0415

        return score.json(self)

    def __str__(self) -> str:
        from chunkcalc.report import score  # noqa: PLC0415

        return score.text(self)


class Calibration(Shown, Calibrated):
    """A profile fitted by `calibrate`; not `calibrated` where the shipped one predicts as well."""

    __slots__ = ("assumed", "extends", "files", "left_out", "path")
    left_out: Sequence[LeftOut]
    files: Sequence[Any]
    path: str
    assumed: Sequence[str]  # what was read into the files
    extends: str  # the profile below it
    told = ("engine", "calibrated", "configurations")
    __repr__ = Shown.__repr__

    def _document(self) -> Mapping[str, Any]:
        from chunkcalc.report import calibration  # noqa: PLC0415

        return calibration.json(self, self.left_out, self.files, self.path)

    def __str__(self) -> str:
        from chunkcalc.report import calibration  # noqa: PLC0415

        return calibration.text(self, self.left_out, self.path)

    def profile(self) -> str:
        """The calibrated profile as TOML text: write it to a file and give that as `gpu`."""
        from datetime import UTC, datetime  # noqa: PLC0415

        from chunkcalc.report import calibration  # noqa: PLC0415

        return calibration.profile(self, self.extends, self.files, datetime.now(UTC).date().isoformat())


class Checked(Shown, Report):
    """The findings of `check`."""

    __slots__ = ("fail_on", "policy")
    fail_on: FailOn
    policy: Unknown
    told = ("passes", "files", "deployments", "findings")

    @property
    def passes(self) -> bool:
        """Whether the gate opens."""
        return not self.fails(self.fail_on, self.policy)

    def __repr__(self) -> str:
        counts = f"files={self.files}, deployments={len(self.deployments)}, findings={len(self.findings)}"
        return f"Checked(passes={self.passes}, {counts})"

    def _document(self) -> Mapping[str, Any]:
        from chunkcalc.report.gate import json as gate  # noqa: PLC0415

        return gate.data(self)

    def __str__(self) -> str:
        from chunkcalc.report.gate import text  # noqa: PLC0415

        return text.render(self)


class Points(Shown, dict[str, Any]):
    """The columns of `sweep` as numpy arrays, by name: pandas.DataFrame and polars.DataFrame take it as it is."""

    document: Mapping[str, Any]
    text: str

    def _document(self) -> Mapping[str, Any]:
        return self.document

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        rows = len(next(iter(self.values()), ()))
        return f"Points({rows} points: {', '.join(self)})"
