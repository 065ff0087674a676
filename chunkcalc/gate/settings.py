"""What is known of a deployment beyond its file: limits, workload, GPU, model. Five sources, in one order."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import date
from typing import Any, NamedTuple

from chunkcalc import units
from chunkcalc.answer.gateway import parse_gateway
from chunkcalc.answer.measured import parse_numbers
from chunkcalc.errors import ChunkcalcError
from chunkcalc.frozen import dataclass

ALIASES = {"isl": "prompt", "osl": "output", "version": "engine-version", "batch": "concurrency"}
DURATIONS = ("ttft", "tpot", "itl")
COUNTS = ("prompt", "prompt-p95", "output", "concurrency")
NAMES = ("gpu", "model", "engine-version", "tpot-basis", "prefix-shared")
KEYS = (*DURATIONS, *COUNTS, "rate", "percentile", "prefix-hit", "max-utilisation", "gateway", "measured", *NAMES)
FACTS = ("gpu", "model", "engine-version")  # what files state themselves
CHOICES = {"tpot-basis": ("step", "mean"), "prefix-shared": ("yes", "no")}
WAIVING = ("ignore", "reason", "until")


class Setting(NamedTuple):
    """A value, where it came from, and whether it counts only where the file leaves it open."""

    value: Any
    source: str
    default: bool = False


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that is known of a deployment beyond its file, by key.

    values : the settings
    """

    values: Mapping[str, Setting] = field(default_factory=dict)

    def get(self, key: str) -> Any:
        """A value; None where nothing says it."""
        return self.values[key].value if key in self.values else None

    def is_default(self, key: str) -> bool:
        """Whether a setting counts only where the file leaves it open."""
        return key in self.values and self.values[key].default

    def defaults(self) -> Settings:
        """These settings, their facts as defaults for what files leave open."""
        return Settings({k: s._replace(default=k in FACTS) for k, s in self.values.items()})

    def under(self, more: Mapping[str, Setting]) -> Settings:
        """These settings, with those of another source where these say nothing."""
        return Settings({**more, **self.values})

    @property
    def has_limits(self) -> bool:
        """Whether any latency limit is stated."""
        return any(key in self.values for key in DURATIONS)

    @property
    def has_load(self) -> bool:
        """Whether a concurrency or a rate is stated."""
        return "concurrency" in self.values or "rate" in self.values


def parsed(given: Mapping[str, Any], source: str, where: str) -> dict[str, Setting]:
    """Settings as a source writes them -> values in SI units.

    Parameters
    ----------
    given : key -> text, or number where the source has numbers
    source : its name, for reports
    where : for errors

    Raises
    ------
    ChunkcalcError : an unknown key or a value of another kind
    """
    out: dict[str, Setting] = {}
    for key, value in given.items():
        if value is None:
            continue
        name = str(key).replace("_", "-").lower()
        name = ALIASES.get(name, name)
        if name not in KEYS:
            known = ", ".join(sorted(KEYS))
            raise ChunkcalcError(f"unknown setting '{key!s:.40}'", where, f"choose from {known}")
        place = f"{where}: {key}" if where else str(key)
        text = ";".join(map(str, value)) if isinstance(value, list) else str(value)
        out[name] = Setting(_value(name, text, f"--{name}" if where == "command line" else place), source)
    if "concurrency" in out and "rate" in out:
        raise ChunkcalcError("a concurrency and a rate contradict each other", where, "give only one of the two")
    return out


def _value(name: str, text: str, where: str) -> Any:
    parse = PARSERS.get(name)
    if parse is not None:
        return parse(text, where)
    if name in CHOICES and text not in CHOICES[name]:
        raise ChunkcalcError(f"'{text:.40}' is not a choice", where, f"choose from {', '.join(CHOICES[name])}")
    return text


def _prefix_hit(text: str, where: str) -> float:
    return units.parse_fraction(text, where, high=0.999)


def _percentile(text: str, where: str) -> float:
    found = units.parse_percentile(text, where)
    if not 0 <= found < 100:
        raise ChunkcalcError(f"'{text:.40}' is no percentile", where, "write mean, or a number below 100 such as 95")
    return found


def _rate(text: str, where: str) -> float:
    match = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*(/s|req/s|rps)?\s*", text)
    if not match or float(match[1]) == 0:
        raise ChunkcalcError(f"'{text:.40}' is not a request rate", where, "write requests per second, such as 3.5")
    return float(match[1])


def parse_date(text: str, where: str) -> date:
    """A date as 2027-01-31.

    Raises
    ------
    ChunkcalcError : no date
    """
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ChunkcalcError(f"'{text:.40}' is no date", where, "write it as 2027-01-31") from None


PARSERS: Mapping[str, Callable[[str, str], Any]] = {
    "ttft": units.parse_duration, "tpot": units.parse_duration, "itl": units.parse_gap, "rate": _rate,
    "percentile": _percentile,
    "gateway": parse_gateway, "measured": parse_numbers,
    "prefix-hit": _prefix_hit, "max-utilisation": units.parse_fraction,
    **dict.fromkeys(COUNTS, units.parse_count),
}  # fmt: skip
