"""The rules: stable ids, why each exists, an example that breaks it and one that keeps it. Data in rules.toml."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Literal

from chunkcalc.catalog.profiles import read_toml
from chunkcalc.errors import ChunkcalcError
from chunkcalc.frozen import dataclass

Level = Literal["error", "warning", "note"]
Kind = Literal["exact", "bound", "estimate"]
KINDS: dict[str, Kind] = {"1": "exact", "2": "bound", "3": "estimate"}
PREFIXES = {"E": "CC1", "B": "CC2", "W": "CC3"}
DEFAULT = "CC304"  # a default decides
UNKNOWN = "CC000"  # what could not be evaluated; its level follows --unknown
LEVELS: tuple[Level, ...] = ("error", "warning", "note")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule of the gate.

    id : stable, CC1NN exact, CC2NN bound, CC3NN estimate
    kind : `exact` (the engine's own rule), `bound` (no engine can do it), `estimate` (the prediction)
    level : of its findings, where nothing says otherwise
    title : in a few words
    why : what goes wrong
    remedy : what to do
    bad, good : a script that breaks it, and one that keeps it
    """

    id: str
    kind: Kind
    level: Level
    title: str
    why: str
    remedy: str
    bad: str
    good: str


@cache
def rules() -> tuple[Rule, ...]:
    """Every rule, by id."""
    data: dict[str, Any] = read_toml(Path(__file__).parent / "rules.toml")
    return tuple(
        Rule(id=name, kind=KINDS.get(name[2], "exact"), **{key: _text(value) for key, value in entry.items()})
        for name, entry in sorted(data.items())
    )


def _text(value: str) -> Any:
    return value.strip("\n")


def rule(name: str) -> Rule:
    """A rule by its id, or by its number within its class (`E02`).

    Raises
    ------
    ChunkcalcError : no such rule
    """
    wanted = PREFIXES[name[0]] + name[1:] if name[:1] in PREFIXES and len(name) == 3 else name
    found = next((each for each in rules() if each.id == wanted.upper()), None)
    if found is None:
        raise ChunkcalcError(f"no rule '{name[:40]}'", "rule", "'chunkcalc rules' lists all, such as CC102")
    return found
