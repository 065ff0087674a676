"""The chunk to set.

Of the chunks that keep every limit with its band to spare: the smallest whose prefill throughput is at least 95 % of
the best of all chunks that fit the memory; where none reaches that, the fastest. Where none is so sure, the chunk
whose worst ratio of prediction to limit is least, among those that keep every limit, else among all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from chunkcalc.answer.judged import Outlook
from chunkcalc.answer.window import every_limit
from chunkcalc.frozen import remembered
from chunkcalc.time.search import Limit, best, first, last
from chunkcalc.time.service import Bounds

FINE_ALIGNMENT = 16  # captured CUDA graphs step by 8 or 16 tokens: where a window is too narrow for more
ENOUGH = 0.95  # of the best prefill throughput
ALIKE = 5e-3  # relative: throughputs that need not be told apart
MOST_CUTS = 32  # of a prompt, that are tried for the best throughput


class Recommended(NamedTuple):
    """A chunk to set [token], and whether it keeps every limit by prediction."""

    chunk: int
    keeps: bool


def recommend(view: Outlook) -> Recommended:
    """The chunk to set, on aligned budgets where some do; the closest where none keeps every limit."""
    chosen = keeping(view)
    if chosen is not None:
        return Recommended(chosen, True)
    closest = (_closest(view, [], grid) for grid in _grids(view)[1:])  # nothing to be paid for alignment
    return Recommended(next((found for found in closest if found is not None), view.aligned.start), False)


@partial(remembered, most=4)  # a deployment is judged as written, and again for what would be better
def keeping(view: Outlook) -> int | None:
    """The chunk to set of those that keep every limit, for sure where some do; None where none does [token]."""
    for limits, choose in ((every_limit(view, margin=True), _smallest_fast), (every_limit(view), _closest)):
        if last(limits, 1, view.longest_chunk) is not None:
            chosen = (choose(view, limits, grid) for grid in _grids(view))
            found = next((each for each in chosen if each is not None), None)
            if found is not None:
                return found
    return None


def safest(view: Outlook) -> int | None:
    """The chunk with most to spare of those that keep every limit with its band; None where none does.

    Returns
    -------
    chunk [token]
    """
    certain = every_limit(view, margin=True)
    return next((chosen for grid in _grids(view) if (chosen := _closest(view, certain, grid)) is not None), None)


def aligned_best(view: Outlook) -> int | None:
    """The chunk to set among aligned budgets that keep every limit with its band; None where there is none.

    Returns
    -------
    chunk [token]
    """
    return _first_of(_inside(every_limit(view, margin=True), view.aligned))


def _grids(view: Outlook) -> tuple[range, ...]:
    return view.aligned, view.grid(FINE_ALIGNMENT), range(1, view.longest_chunk + 1)


def _first_of(inside: range) -> int | None:
    return inside[0] if inside else None


def _inside(limits: Sequence[Limit], grid: range) -> range:
    """The part of a grid between the first and the last chunk that keep the limits."""
    on_grid = [limit.on(grid) for limit in limits]
    low = first(on_grid, 0, len(grid) - 1)
    if low is None:
        return range(0)
    high = last(on_grid, low, len(grid) - 1)
    assert high is not None
    return grid[low : high + 1]


@partial(remembered, most=4)
def best_pace(view: Outlook) -> float:
    """The least time per prompt token of all chunks that fit the memory.

    Cut into so many chunks a prompt is fastest in even ones; several prompts in one step, in the largest; and where
    steps run from a captured graph, up to its size. So these are tried; a test holds the rest against them.

    Returns
    -------
    time [s]
    """
    prefill, fits = view.expected.prefill, view.memory_rule()
    most = last([fits], 1, view.longest_chunk) or view.longest_chunk
    edge = view.deployment.engine.captured - view.offset
    tried = {math.ceil(prefill.tokens / cuts) for cuts in range(1, MOST_CUTS + 1)} | {most, edge, most // 2}
    return min(prefill.pace(c, c)[0] for c in tried if 1 <= c <= most) if most else math.inf


def _fastest(view: Outlook, limits: Sequence[Limit], grid: range) -> int | None:
    prefill = view.expected.prefill

    def score(c: int) -> float:
        return -prefill.pace(c, c)[0] if all(limit.holds(c) for limit in limits) else float("-inf")

    return best(grid, score, lambda low, high: -prefill.pace(low, high)[0], ALIKE)


def _smallest_fast(view: Outlook, limits: Sequence[Limit], grid: range) -> int | None:
    """The smallest chunk of a grid that keeps the limits and is fast enough, else the fastest that keeps them."""
    inside = _inside(limits, grid)
    if not inside:
        return None
    prefill = view.expected.prefill
    fast = Limit("throughput", best_pace(view) / ENOUGH, lambda low, high, _: Bounds(*prefill.pace(low, high)))
    index = first([limit.on(inside) for limit in (*limits, fast)], 0, len(inside) - 1)
    return _fastest(view, limits, inside) if index is None else inside[index]


def _closest(view: Outlook, limits: Sequence[Limit], grid: range) -> int | None:
    """The chunk of a grid that keeps the limits and has most to spare, or is least beyond them."""
    inside = _inside(limits, grid)
    if not inside:
        return None
    if not view.judged and limits:  # nothing tells chunks apart but the load they carry
        return inside[-1]

    if not limits:
        return best(inside, view.closeness, view.closeness_ceiling)

    def score(c: int) -> float:
        return view.headroom(c) if all(limit.holds(c) for limit in limits) else float("-inf")

    return best(inside, score, view.headroom_ceiling)
