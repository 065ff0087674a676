"""Arguments as people write them: numbers in SI units, or the texts that the command line reads."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from chunkcalc import units
from chunkcalc.answer.gateway import parse_gateway
from chunkcalc.answer.measured import parse_numbers
from chunkcalc.answer.question import Question, option
from chunkcalc.errors import ChunkcalcError

P = ParamSpec("P")
T = TypeVar("T")
Duration = float | str  # seconds, or "30ms"
Count = int | str  # tokens or requests, or "8k"
Share = float | str  # from 0 to 1, or "25%"
Bandwidth = float | str  # bytes per second one way, or "16GB/s"; of a link also "16GB/s,20us"

# How the texts of a question's fields are read; the others are what they are.
PARSERS: Mapping[str, Callable[[str, str], Any]] = {
    **dict.fromkeys(("prompt", "output", "batch", "context", "chunk", "budget", "concurrency", "prompt_p95",
                     "max_num_seqs"),
                    units.parse_count),
    "rate": units.parse_number, "percentile": units.parse_percentile, "itl": units.parse_gap,
    **dict.fromkeys(("ttft", "tpot"), units.parse_duration),
    "gateway": parse_gateway, "measured": parse_numbers,
    "kv_link": lambda text, where: units.parse_rate(text, "B/s", where),
    **dict.fromkeys(("draft_acceptance", "memory_fraction", "max_utilisation", "prefix_hit"), units.parse_fraction),
}  # fmt: skip
# Seconds from which a bare number was meant in milliseconds.
FAR = {"ttft": 300.0, "tpot": 5.0, "itl": 5.0}
# Options of the command line, as arguments.
ARGUMENTS = {
    option(name).lstrip("-"): name
    for name in (*(field.name for field in fields(Question)), "kv_link", "max_gpus", "price", "unit")
}


def question(**values: Any) -> Question:
    """The question that arguments ask.

    Parameters
    ----------
    values : fields of `Question`, as numbers or texts; None where one was left out

    Raises
    ------
    ChunkcalcError : a value that cannot be read
    """
    bandwidth, latency = link(values.pop("link", None))
    read = {name: value(name, given) for name, given in values.items() if given is not None}
    if bandwidth is not None:
        read |= {"link": bandwidth, "link_latency": latency}
    return Question(**read)


def value(name: str, given: Any) -> Any:
    """The value of an argument.

    Parameters
    ----------
    name : of the argument
    given : a number, a text, or a record
    """
    parse = PARSERS.get(name)
    if parse is not None and (isinstance(given, str) or name == "measured"):
        return parse(given, name)
    if name in FAR and isinstance(given, int | float) and math.inf > given >= FAR[name]:
        asked = f"{given:g} are seconds"
        raise ChunkcalcError(asked, name, f"write '{given:g}ms' for milliseconds, or '{given:g}s' if you mean them")
    if parse is units.parse_count and isinstance(given, float) and given.is_integer():
        return int(given)
    return given


def link(given: Bandwidth | None) -> tuple[float | None, float | None]:
    """Bandwidth and latency of a link from `16GB/s,20us`, or a bandwidth alone.

    Parameters
    ----------
    given : as written; None where it was left out

    Raises
    ------
    ChunkcalcError : what cannot be read
    """
    if not isinstance(given, str):
        return given, None
    bandwidth, comma, latency = given.partition(",")
    if comma and not latency:
        raise ChunkcalcError(f"'{given}' ends in a comma", "--link", "write for example 16GB/s,20us")
    return units.parse_rate(bandwidth, "B/s", "--link"), units.parse_duration(latency, "--link") if comma else None


def pythonic(function: Callable[P, T]) -> Callable[P, T]:
    """A function whose errors name its arguments, not the options of the command line.

    Parameters
    ----------
    function : the function
    """

    @wraps(function)
    def asked(*given: P.args, **named: P.kwargs) -> T:
        try:
            return function(*given, **named)
        except ChunkcalcError as error:
            what, where, hint = (OPTION.sub(_argument, text) for text in (error.what, error.where, error.hint))
            raise type(error)(what, where, hint) from None

    return asked


OPTION = re.compile(r"--([a-z][a-z0-9-]*)")


def _argument(match: re.Match[str]) -> str:
    return ARGUMENTS.get(match[1], match[0])
