"""A prompt cut into chunks: how long its steps take together, and the longest of them.

`total(c)` is the exact sum over the chunks. It is not monotone in c: between two chunk counts it
rises with c and falls where ceil(s/c) drops. `least` and `most` bound it over a range of chunks,
from the one thing that does hold: a step never gets faster when c or p grows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import field, replace
from itertools import accumulate
from typing import Any

from chunkcalc import ops
from chunkcalc.frozen import dataclass

StepTime = Callable[..., float]  # step(c, p, b, s, prompts) -> seconds


def cached_tokens(prompt: int, hit: float) -> int:
    """Prompt tokens that the prefix cache holds; an engine computes the last one always.

    Parameters
    ----------
    prompt : tokens [token]
    hit : share of them found in the prefix cache [1]

    Returns
    -------
    cached tokens [token]

    Examples
    --------
    >>> cached_tokens(4000, 0.5), cached_tokens(4000, 1.0)
    (2000, 3999)
    """
    return min(int(prompt * hit), prompt - 1)


@dataclass(frozen=True, slots=True)
class Prefill:
    """A prompt of which `cached` tokens need no work, processed beside b decodes.

    step : time of a step, step(c, p, b, s, prompts) [s]
    tokens : prompt tokens to process [token]
    cached : prompt tokens found in the prefix cache [token]
    b, s : decodes that ride along on this rank, and their mean context [token]
    stages : pipeline stages; chunks follow each other through them [1]
    between : time that other steps take between two chunks of the prompt [s]
    """

    step: StepTime
    tokens: int
    cached: int
    b: float
    s: float
    stages: int = 1
    between: float = 0.0
    _summed: dict[int, list[float]] = field(default_factory=dict, repr=False, compare=False)
    _longest: dict[int, float] = field(default_factory=dict, repr=False, compare=False)

    def chunks(self, c: int) -> list[tuple[int, int]]:
        """(tokens, tokens cached before) of each chunk.

        Parameters
        ----------
        c : chunk [token]
        """
        return [(min(c, self.tokens - done), self.cached + done) for done in range(0, self.tokens, c)]

    def steps(self, c: int) -> list[float]:
        """Time of each chunk's step, all pipeline stages together.

        Parameters
        ----------
        c : chunk [token]

        Returns
        -------
        times [s]
        """
        return [self.step(size, p, self.b, self.s) for size, p in self.chunks(c)]

    def total(self, c: int) -> float:
        """From the first chunk's start to the last chunk's end.

        Parameters
        ----------
        c : chunk [token]

        Returns
        -------
        time [s]
        """
        full = self._full(c)
        last = self._last(full, c)
        summed = self.first(c, full) + last
        if self.stages > 1:
            longest = ops.maximum(last, self._row(c, full)[-1]) if full else last
            summed = (summed + (self.stages - 1) * longest) / self.stages
        return summed + full * self.between

    def occupancy(self, c: int) -> float:
        """How long each pipeline stage is busy with the prompt: it limits the rate of prompts.

        Parameters
        ----------
        c : chunk [token]

        Returns
        -------
        time [s]
        """
        full = self._full(c)
        return (self.first(c, full) + self._last(full, c)) / self.stages

    def rate(self, c: int) -> float:
        """Prompt tokens that a rank processes while every step carries a chunk.

        Parameters
        ----------
        c : chunk [token]

        Returns
        -------
        rate [token/s]
        """
        if c > self.tokens:
            return c * self.stages / self.longest_step(c)
        return self.tokens / self.occupancy(c)

    def pace(self, low: int, high: int) -> tuple[float, float]:
        """The least and the most time per prompt token, one over `rate`, of chunks low..high.

        Parameters
        ----------
        low, high : range of chunks [token]

        Returns
        -------
        times per token [s]
        """
        if low == high:
            return (1 / self.rate(low),) * 2
        least, most = math.inf, 0.0
        if low <= self.tokens:
            serial, end = self.serial(), min(high, self.tokens)
            least = serial.least(low, end) / (self.stages * self.tokens)
            most = serial.most(low, end) / (self.stages * self.tokens)
        if high > self.tokens:
            start = max(low, self.tokens + 1)
            least = min(least, self.longest_step(start) / (high * self.stages))
            most = max(most, self.longest_step(high) / (start * self.stages))
        return least, most

    def count(self, c: int) -> int:
        """Chunks of the prompt.

        Parameters
        ----------
        c : chunk [token]
        """
        return self._full(c) + 1

    def longest_step(self, c: int) -> float:
        """The longest step that carries c prompt tokens: the last full chunk of a prompt.

        An engine that fills a budget from several prompts can put c tokens at any position, so
        this holds for every prompt, not only for those that c divides. Beyond the prompt's length
        several prompts share a step.

        Parameters
        ----------
        c : chunk [token]

        Returns
        -------
        time [s]
        """
        if not isinstance(c, int):  # arrays cannot be remembered
            return self.step(*self.longest(c))
        found = self._longest.get(c)
        if found is None:
            found = self._longest[c] = self.step(*self.longest(c))
        return found

    def longest(self, c: Any) -> tuple[Any, Any, float, float, Any]:
        """(prompt tokens, tokens cached before, decodes, context, prompts) of the longest step.

        Parameters
        ----------
        c : chunk [token]
        """
        before = self.cached + ops.maximum(0, self.tokens - c)
        return c, before, self.b, self.s, ops.maximum(1, c / self.tokens)

    def least(self, low: int, high: int, limit: float = math.inf) -> float:
        """A lower bound of `total` over chunks low..high; exact for a single chunk.

        Parameters
        ----------
        low, high : range of chunks [token]
        limit : a bound above this may be returned before it is complete [s]

        Returns
        -------
        time [s]
        """
        if low == high:
            return self.total(low)
        first = self.step(min(low, self.tokens), self.cached, self.b, self.s)
        full = self._full(high)
        cheap = full * first / self.stages
        if cheap > limit:
            return cheap
        same = self._full(low) == full
        last = self._last(full, high) if same else self.step(1, self.cached, self.b, self.s)
        summed = self.first(low, full) + last
        return (summed + (self.stages - 1) * max(last, first)) / self.stages + full * self.between

    def most(self, low: int, high: int, limit: float = math.inf) -> float:
        """An upper bound of `total` over chunks low..high; exact for a single chunk.

        Parameters
        ----------
        low, high : range of chunks [token]
        limit : infinity may be returned for a bound above this [s]

        Returns
        -------
        time [s]
        """
        if low == high:
            return self.total(low)
        full, size = self._full(low), min(high, self.tokens)
        longest = self.longest_step(size)
        cheap = (full + self.stages) * longest / self.stages + full * self.between
        if cheap <= limit < math.inf:
            return cheap
        if high > 2 * low:
            return math.inf  # a range this wide is split anyway
        fewest = self._full(high)
        if fewest == full:
            summed = self.first(size, full) + self._last(full, low)
        else:
            # Every further chunk is at most one of this size at the very end of the prompt.
            end = self.step(size, self.cached + self.tokens - 1, self.b, self.s)
            summed = self.first(size, fewest + 1) + (full - fewest) * end
        return (summed + (self.stages - 1) * longest) / self.stages + full * self.between

    def serial(self) -> Prefill:
        """The same prompt with `total` the plain sum of its steps, whatever runs between them."""
        return replace(self, stages=1, between=0.0)

    def _full(self, c: int) -> int:
        """Full chunks before the last one."""
        return math.ceil(self.tokens / c) - 1

    def first(self, c: int, count: int) -> float:
        """The first `count` full chunks together; every prefix sum is remembered.

        Parameters
        ----------
        c : chunk [token]
        count : of chunks, no more than the prompt has of c tokens [1]

        Returns
        -------
        time [s]
        """
        sums = self._summed.setdefault(c, [0.0])
        if len(sums) <= count:
            sums += accumulate(self._row(c, count)[len(sums) - 1 :], initial=sums.pop())
        return sums[count]

    def _row(self, c: int, count: int) -> list[float]:
        """Times of the first `count` full chunks."""
        starts = range(self.cached, self.cached + count * c, c)
        row: Callable[..., list[float]] | None = getattr(self.step, "row", None)  # of `StepTimes`
        return [self.step(c, p, self.b, self.s) for p in starts] if row is None else row(c, starts, self.b, self.s)

    def _last(self, full: int, c: int) -> float:
        """What is left after `full` chunks of c tokens."""
        done = min(full * c, self.tokens - 1)
        return self.step(self.tokens - done, self.cached + done, self.b, self.s)
