"""A prompt cut into chunks: how long its steps take together, and the longest of them.

`total(c)` is the exact sum over the chunks. It is not monotone in c: between two chunk counts it
rises with c and falls where ceil(s/c) drops. `least` and `most` bound it over a range of chunks,
from the one thing that does hold: a step never gets faster when c or p grows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

StepTime = Callable[..., float]  # step(c, p, b, s, prompts) -> seconds


class Prefill(NamedTuple):
    """A prompt of which `cached` tokens need no work, processed beside b decodes.

    step : time of a step, step(c, p, b, s, prompts) [s]
    tokens : prompt tokens to process [token]
    cached : prompt tokens found in the prefix cache [token]
    b, s : decodes that ride along on this rank, and their mean context [token]
    stages : pipeline stages; chunks follow each other through them [1]
    """

    step: StepTime
    tokens: int
    cached: int
    b: float
    s: float
    stages: int = 1

    def chunks(self, c: int) -> list[tuple[int, int]]:
        """(tokens, tokens cached before) of each chunk.

        Parameters
        ----------
        c : chunk [token]
        """
        return [
            (min(c, self.tokens - done), self.cached + done) for done in range(0, self.tokens, c)
        ]  # fmt: skip

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
        times = self.steps(c)
        return (sum(times) + (self.stages - 1) * max(times)) / self.stages

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
        if c > self.tokens:
            return self.step(c, self.cached, self.b, self.s, c / self.tokens)
        return self.step(c, self.cached + self.tokens - c, self.b, self.s)

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
        count = math.ceil(self.tokens / high)
        enough, summed = limit * self.stages, 0.0
        cheap = (count - 1) * self.step(low, self.cached, self.b, self.s)
        if cheap > enough:
            return cheap / self.stages
        for index in range(count - 1):
            summed += self.step(low, self.cached + index * low, self.b, self.s)
            if summed > enough:
                return summed / self.stages
        last = (
            self._last(count, high)
            if math.ceil(self.tokens / low) == count
            else self.step(1, self.cached, self.b, self.s)
        )
        longest = max(last, self.step(min(low, self.tokens), self.cached, self.b, self.s))
        return (summed + last + (self.stages - 1) * longest) / self.stages

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
        count = math.ceil(self.tokens / low)
        same = math.ceil(self.tokens / high) == count
        size = min(high, self.tokens)
        longest = self.longest_step(size)
        cheap = (count + self.stages - 1) * longest / self.stages
        if cheap <= limit < math.inf:
            return cheap
        if high > 2 * low:
            return math.inf  # a range this wide is split anyway
        enough, summed = limit * self.stages, 0.0
        for index in range(count - 1 if same else count):
            before = self.cached + min(index * size, self.tokens - 1)
            summed += self.step(size, before, self.b, self.s)
            if summed > enough:
                return math.inf
        if same:
            summed += self._last(count, low)
        return (summed + (self.stages - 1) * longest) / self.stages

    def _last(self, count: int, c: int) -> float:
        """The last of `count` chunks: what is left after the full ones."""
        done = min((count - 1) * c, self.tokens - 1)
        return self.step(self.tokens - done, self.cached + done, self.b, self.s)
