"""The window of chunks at which every limit holds."""

from __future__ import annotations

from collections.abc import Sequence

from chunkcalc.answer.judged import Outlook
from chunkcalc.frozen import dataclass
from chunkcalc.time.search import Limit, first, has_gap, last


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


NO_WINDOW = Window(chunk_min=None, chunk_max=None, binding_min=None, binding_max=None, gaps=False)


def window(view: Outlook, limits: Sequence[Limit]) -> Window:
    """The smallest and the largest chunk that keep every limit, and what binds them."""
    low = first(limits, 1, view.longest_chunk)
    if low is None:
        return NO_WINDOW
    high = last(limits, low, view.longest_chunk)
    assert high is not None
    return Window(
        chunk_min=low,
        chunk_max=high,
        binding_min=binding(limits, low - 1) if low > 1 else "smallest chunk",
        binding_max=binding(limits, high + 1) if high < view.longest_chunk else "largest chunk of use",
        gaps=has_gap(limits, low, high),
    )


def binding(limits: Sequence[Limit], c: int) -> str:
    """The first limit that a chunk breaks.

    Parameters
    ----------
    limits : what must hold
    c : chunk [token]
    """
    return next(limit.name for limit in limits if not limit.holds(c))


def keeps(view: Outlook, *, margin: bool = False) -> bool:
    """Whether some chunk keeps every limit and rule."""
    return last(every_limit(view, margin), 1, view.longest_chunk) is not None


def every_limit(view: Outlook, margin: bool = False) -> list[Limit]:
    """What the expected reading must keep: the latency limits, memory and a steady state."""
    return [*view.latency_limits(view.expected, margin=margin), *view.rules(view.expected)]
