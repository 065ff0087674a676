"""The window of chunks at which every limit holds, and the chunk to set inside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from chunkcalc.answer.judged import Outlook
from chunkcalc.record import dataclass
from chunkcalc.time.search import Limit, best, first, has_gap, last
from chunkcalc.time.service import Bounds

FINE_ALIGNMENT = 16  # captured CUDA graphs step by 8 or 16 tokens: where a window is too narrow for more
THROUGHPUT_SLACK = 0.02  # with one limit only: the smallest chunk this close to the best throughput


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Chunks that keep every limit [token]; None where there is none.

    binding_min, binding_max : what fails just outside each end
    gaps : some chunk between the ends fails
    """

    chunk_min: int | None
    chunk_max: int | None
    binding_min: str | None
    binding_max: str | None
    gaps: bool


def window(view: Outlook, limits: Sequence[Limit]) -> Window:
    """The smallest and the largest chunk that keep every limit, and what binds them.

    Parameters
    ----------
    view : the deployment
    limits : what must hold
    """
    low = first(limits, 1, view.longest_chunk)
    if low is None:
        return Window(chunk_min=None, chunk_max=None, binding_min=None, binding_max=None, gaps=False)
    high = last(limits, low, view.longest_chunk)
    assert high is not None
    return Window(
        chunk_min=low,
        chunk_max=high,
        binding_min=_binding(limits, low - 1) if low > 1 else "smallest chunk",
        binding_max=_binding(limits, high + 1) if high < view.longest_chunk else "largest chunk of use",
        gaps=has_gap(limits, low, high),
    )


def _binding(limits: Sequence[Limit], c: int) -> str:
    return next(limit.name for limit in limits if not limit.holds(c))


class Recommended(NamedTuple):
    """A chunk to set [token], and whether it keeps every limit."""

    chunk: int
    keeps: bool


def recommend(view: Outlook) -> Recommended | None:
    """The chunk to set; None where the batch does not fit at any chunk.

    First those that keep every limit with its error band to spare, then those that keep every
    limit; in each, aligned budgets before others. Where none keeps every limit, the largest
    headroom among those that keep the rules, then among those that fit.

    Parameters
    ----------
    view : the deployment
    """
    grids = (view.aligned, view.grid(FINE_ALIGNMENT), range(1, view.longest_chunk + 1))
    for margin in (True, False):
        limits = every_limit(view, margin)
        if last(limits, 1, view.longest_chunk) is None:
            continue
        for grid in grids:
            chosen = _choose(view, limits, grid)
            if chosen is not None:
                return Recommended(chosen, True)
    for kept in (view.rules(view.expected), [view.memory_rule()]):
        for grid in grids:
            inside = _inside(kept, grid)
            if inside:
                # Without a latency limit nothing tells chunks apart but the load they carry.
                chosen = best(inside, view.headroom, view.headroom_ceiling) if view.slo.latency else inside[-1]
                assert chosen is not None
                return Recommended(chosen, False)
    return None


def keeps(view: Outlook, *, margin: bool = False) -> bool:
    """Whether some chunk keeps every limit and rule.

    Parameters
    ----------
    view : the deployment
    margin : keep the error bands to spare
    """
    return last(every_limit(view, margin), 1, view.longest_chunk) is not None


def aligned_best(view: Outlook, *, margin: bool) -> int | None:
    """The best chunk with an aligned budget that keeps every limit and rule.

    Parameters
    ----------
    view : the deployment
    margin : keep the error bands to spare

    Returns
    -------
    chunk [token]
    """
    return _choose(view, every_limit(view, margin), view.aligned)


def every_limit(view: Outlook, margin: bool = False) -> list[Limit]:
    """What the expected reading must keep: the latency limits, memory and a steady state.

    Parameters
    ----------
    view : the deployment
    margin : the latency limits with their error band to spare
    """
    return [*view.latency_limits(view.expected, margin=margin), *view.rules(view.expected)]


def _inside(limits: Sequence[Limit], grid: range) -> range:
    """The part of a grid between the first and the last chunk that keep the limits."""
    on_grid = [limit.on(grid) for limit in limits]
    low = first(on_grid, 0, len(grid) - 1)
    if low is None:
        return range(0)
    high = last(on_grid, low, len(grid) - 1)
    assert high is not None
    return grid[low : high + 1]


def _choose(view: Outlook, limits: Sequence[Limit], grid: range) -> int | None:
    """The chunk of a grid that keeps the limits and is best among those.

    With two limits or more, the one with the largest headroom. With one, headroom would only push
    to an end of the window: the smallest chunk within 2 % of the best prompt throughput.
    """
    inside = _inside(limits, grid)
    if not inside:
        return None
    prefill, slo = view.expected.prefill, view.slo

    def kept(score: float, c: int) -> float:
        return score if all(limit.holds(c) for limit in limits) else -math.inf

    if len(slo.latency) > 1:
        return best(inside, lambda c: kept(view.headroom(c), c), view.headroom_ceiling)
    fastest = best(inside, lambda c: kept(-prefill.total(c), c), lambda low, high: -prefill.least(low, high))
    assert fastest is not None
    enough = prefill.total(fastest) * (1 + THROUGHPUT_SLACK)
    fast = Limit(
        "throughput",
        enough,
        lambda low, high, limit: Bounds(prefill.least(low, high, limit), prefill.most(low, high, limit)),
    )
    index = first([limit.on(inside) for limit in (*limits, fast)], 0, len(inside) - 1)
    return fastest if index is None else inside[index]
