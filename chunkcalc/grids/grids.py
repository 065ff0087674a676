"""Lists and ranges of whole numbers as a user writes them: `8,32,128`, `128:16384`, `1k:8k:256`."""

from __future__ import annotations

from collections.abc import Callable

from chunkcalc.errors import ChunkcalcError
from chunkcalc.units import parse_count

SPREAD = 64  # values of a range without a step, evenly spaced on a log scale
MOST_VALUES = 100_000


def parse_values(text: str, where: str) -> list[int]:
    """The numbers of a list of numbers and ranges, rising, each once.

    A range `low:high` has up to 64 values that grow by a constant factor; `low:high:step` has every
    step. Both ends of a range are included.

    Returns
    -------
    values

    Raises
    ------
    ChunkcalcError : no number, a range that falls, more than 100,000 values

    Examples
    --------
    >>> parse_values("8,2:4,1k", "--batch"), parse_values("128:512:128", "--chunk")
    ([2, 3, 4, 8, 1000], [128, 256, 384, 512])
    """
    found: set[int] = set()
    for part in text.split(","):
        words = part.strip().split(":")
        if not 1 <= len(words) <= 3 or not all(words):
            hint = "write values and ranges such as 128, 128:16384 or 128:16384:256, with commas between them"
            raise ChunkcalcError(f"'{text:.40}' is no list of numbers", where, hint)
        low, *rest = (parse_count(word, where) for word in words)
        found.update(_range(part, low, *rest, where=where) if rest else (low,))
        if len(found) > MOST_VALUES:
            raise ChunkcalcError(f"more than {MOST_VALUES:,} values", where, "give a larger step")
    return sorted(found)


def _range(text: str, low: int, high: int, step: int | None = None, *, where: str) -> list[int]:
    if low > high:
        raise ChunkcalcError(f"the range '{text}' falls", where, f"write {high}:{low}")
    if step is not None:
        if (high - low) // step > MOST_VALUES:
            raise ChunkcalcError(f"more than {MOST_VALUES:,} values", where, "give a larger step")
        return [*range(low, high, step), high]
    if high - low < SPREAD:
        return list(range(low, high + 1))
    return [round(each) for each in _even(low, high, SPREAD)]


def _even(low: float, high: float, count: int) -> list[float]:
    """Values from low to high, each as much larger than the one before."""
    factor = (high / low) ** (1 / (count - 1))
    return [*(low * factor**index for index in range(count - 1)), high]


def spaced(text: str, count: int, parse: Callable[[str], float], where: str) -> list[float]:
    """Values as written: `1,3,9`, or `1:12` for some of a range, each as much larger than the one before.

    Parameters
    ----------
    text : as written
    count : values of a range
    parse : reads one value
    where : for errors

    Raises
    ------
    ChunkcalcError : no number, a range that falls

    >>> spaced("1:16", 5, float, "--rate")
    [1.0, 2.0, 4.0, 8.0, 16.0]
    """
    ends = text.split(":")
    if len(ends) == 1:
        return [float(parse(word.strip())) for word in text.split(",")]
    low, high = (float(parse(word.strip())) for word in ends) if len(ends) == 2 else (1.0, 0.0)
    if not 0 < low < high:
        raise ChunkcalcError(f"'{text:.40}' is no range", where, "write low:high, such as 1:12")
    return _even(low, high, count)
