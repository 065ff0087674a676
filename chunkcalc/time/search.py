"""Exact searches over whole-numbered chunks, and for the highest load.

A `Limit` is a quantity that must not exceed a value, with its bounds over a range of chunks. A
range whose least is too high holds no answer; one whose most is low enough holds nothing else;
any other is split. For a monotone quantity this is bisection; TTFT, which is not monotone, costs
a little more and stays exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from chunkcalc.time.service import Bounds

SLOWEST = 1e-3  # rate from which a highest one is looked for [request/s]
MOST_LOAD = 1e5  # requests per second, or users, beyond which no higher load is looked for
HALVINGS = 24  # of a range of loads: to one part in ten million
RangeBounds = Callable[[int, int, float], Bounds]


class Limit(NamedTuple):
    """`bounds(low, high, limit)` of a quantity that must be at most `value`; exact for low = high."""

    name: str
    value: float
    bounds: RangeBounds

    def holds(self, c: int) -> bool:
        """Whether chunk c keeps the limit.

        Parameters
        ----------
        c : chunk [token]
        """
        return self.bounds(c, c, self.value).least <= self.value

    def on(self, grid: range) -> Limit:
        """The same limit over the indices of a grid of chunks.

        Parameters
        ----------
        grid : chunks in rising order [token]
        """
        return self._replace(bounds=lambda low, high, value: self.bounds(grid[low], grid[high], value))


def first(limits: Sequence[Limit], low: int, high: int) -> int | None:
    """The smallest chunk in low..high that keeps every limit; None if none does.

    Parameters
    ----------
    limits : what must hold
    low, high : range, both included [token]
    """
    return _end(limits, low, high, forward=True)


def last(limits: Sequence[Limit], low: int, high: int) -> int | None:
    """The largest chunk in low..high that keeps every limit; None if none does.

    Parameters
    ----------
    limits : what must hold
    low, high : range, both included [token]
    """
    return _end(limits, low, high, forward=False)


def _end(limits: Sequence[Limit], low: int, high: int, forward: bool) -> int | None:
    ranges = [(low, high, tuple(limits))] if low <= high else []
    while ranges:
        low, high, open_limits = ranges.pop()
        still_open = _open(open_limits, low, high)
        if still_open is None:
            continue
        if not still_open or low == high:
            return low if forward else high
        middle = _middle(low, high)
        halves = [(low, middle, still_open), (middle + 1, high, still_open)]
        ranges += reversed(halves) if forward else halves
    return None


def _open(limits: Sequence[Limit], low: int, high: int) -> tuple[Limit, ...] | None:
    """The limits that the range may still break; None when it breaks one everywhere."""
    out = []
    for limit in limits:
        bounds = limit.bounds(low, high, limit.value)
        if bounds.least > limit.value:
            return None
        if bounds.most > limit.value:
            out.append(limit)
    return tuple(out)


def _middle(low: int, high: int) -> int:
    """Wide ranges are halved in ratio, narrow ones (and those from 0) in the middle."""
    return math.isqrt(low * high) if high > 2 * low > 0 else (low + high) // 2


def has_gap(limits: Sequence[Limit], low: int, high: int) -> bool:
    """Whether some chunk in low..high breaks a limit.

    Parameters
    ----------
    limits : what must hold
    low, high : range, both included [token]
    """
    ranges = [(low, high, tuple(limits))] if low <= high else []
    while ranges:
        low, high, open_limits = ranges.pop()
        still_open = _open(open_limits, low, high)
        if still_open is None or (still_open and low == high):
            return True
        if still_open:
            middle = _middle(low, high)
            ranges += [(low, middle, still_open), (middle + 1, high, still_open)]
    return False


def highest(
    holds: Callable[[float], bool],
    low: float,
    high: float,
    close: float = 0.0,
    *,
    whole: bool = False,
    most: float = 0.0,
) -> float:
    """The highest load at which something holds that more load only makes worse.

    Parameters
    ----------
    holds : whether it does at a load
    low : a load at which it does, or none
    high : the first to try; it is doubled while it holds, as far as `MOST_LOAD`
    close : relative, at which the load is found; 0 for as many halvings as there are [1]
    whole : loads are whole numbers
    most : beyond which no higher load is looked for; 0 for `MOST_LOAD`

    Returns
    -------
    load, of the unit of `low`

    Examples
    --------
    >>> highest(lambda load: load <= 100, 0, 1, whole=True), round(highest(lambda load: load * load < 2, 0, 1), 6)
    (100, 1.414214)
    """
    most = most or MOST_LOAD
    while holds(high):
        if high >= most:
            return high
        low, high = high, min(2 * high, max(most, high + 1))
    for _ in range(HALVINGS):
        if high - low <= (1 if whole else close * low):
            break
        middle = (low + high) // 2 if whole else (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def largest(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The largest whole number in low..high at which something holds that more only makes worse.

    Parameters
    ----------
    holds : whether it does; taken to hold at `low`
    low, high : range, both included

    Examples
    --------
    >>> largest(lambda batch: batch <= 7, 0, 100), largest(lambda batch: True, 0, 100)
    (7, 100)
    """
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def best(
    candidates: Sequence[int], score: Callable[[int], float], ceiling: Callable[[int, int], float], alike: float = 0.0
) -> int | None:
    """The candidate with the highest score; the smallest of equals; None if all are -inf.

    Parameters
    ----------
    candidates : chunks in rising order [token]
    score : score of a chunk, -inf where it is out of the question [1]
    ceiling : an upper bound of the score over a range of chunks [1]
    alike : relative: a score this much higher is not looked for [1]
    """
    winner, top = None, -math.inf
    ranges = [(0, len(candidates) - 1)] if candidates else []
    while ranges:
        low, high = ranges.pop()
        if low == high:
            found = score(candidates[low])
            if found > top or (found == top and winner is not None and candidates[low] < winner):
                winner, top = candidates[low], found
            continue
        if ceiling(candidates[low], candidates[high]) < (top + alike * abs(top) if winner is not None else top):
            continue
        middle = (low + high) // 2
        halves = [(low, middle), (middle + 1, high)]
        # The more promising half is looked at first: it raises the bar for the other.
        halves.sort(key=lambda half: ceiling(candidates[half[0]], candidates[half[1]]))
        ranges += halves
    return winner
