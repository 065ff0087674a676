"""A deployment under its workload: what a user sees at a given chunk.

`Service` turns step times into TTFT, TPOT, the longest gap and utilisation, for engines that mix
prompt chunks with decodes and for engines that run one or the other. Each quantity comes with its
lower and upper bound over a range of chunks, which is what the exact search in `search.py` needs.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

from chunkcalc.prefill import Prefill, StepTime
from chunkcalc.records import Parallelism, Workload


def accepted_tokens(gamma: float, a: float) -> float:
    """Tokens a speculative step yields on average, (1 - a^(gamma+1)) / (1 - a).

    Parameters
    ----------
    gamma : draft tokens per step [token]
    a : chance that a draft token holds [1]

    Returns
    -------
    accepted tokens per step [token]

    Notes
    -----
    Leviathan et al., arXiv 2211.17192, equation 1.

    Examples
    --------
    >>> accepted_tokens(0, 0.7), round(accepted_tokens(3, 0.7), 3)
    (1.0, 2.533)
    """
    return gamma + 1.0 if a == 1 else (1 - a ** (gamma + 1)) / (1 - a)


def requests_per_step(b: float, A: float, o: float) -> float:
    """Requests that b decodes finish in a step; as many prompts must be prefilled.

    Parameters
    ----------
    b : decoding requests [token]
    A : accepted tokens per step [token]
    o : output tokens of a request, the first of which the prefill yields [token]

    Returns
    -------
    requests per step [1]
    """
    return b * A / (o - 1) if o > 1 else (math.inf if b else 0.0)


def balance_chunk(b: float, A: float, s_eff: float, o: float) -> float:
    """Prompt tokens that each step must carry for a steady state, c_bal = b A s_eff / (o - 1).

    Parameters
    ----------
    b : decoding requests [token]
    A : accepted tokens per step [token]
    s_eff : prompt tokens that are not cached [token]
    o : output tokens of a request [token]

    Returns
    -------
    chunk of balance [token]
    """
    return requests_per_step(b, A, o) * s_eff


class Bounds(NamedTuple):
    """A quantity over a range of chunks lies between least and most."""

    least: float
    most: float


class Service:
    """A workload on one attention rank of one pipeline micro-batch, timed by one reading.

    Parameters
    ----------
    step : time of a step, step(c, p, b, s, prompts) [s]
    workload : lengths and batch of the whole replica
    parallelism : degrees; the batch spreads over attention ranks and micro-batches
    mixed : steps carry prompt chunks and decodes together
    accepted : tokens a decode yields per step [token]
    request_overhead : time per request outside its steps [s]
    """

    def __init__(
        self, step: StepTime, workload: Workload, parallelism: Parallelism, *, mixed: bool, accepted: float,
        request_overhead: float,
    ) -> None:  # fmt: skip
        self.step, self.mixed, self.accepted = step, mixed, accepted
        self.request_overhead = request_overhead
        self.b = workload.batch / (parallelism.dp * parallelism.pp)
        self.s = float(workload.context)
        cached = min(int(workload.prompt * workload.prefix_hit), workload.prompt - 1)
        tokens = workload.prompt - cached
        self.prefill = Prefill(step, tokens, cached, self.b if mixed else 0.0, self.s, parallelism.pp)
        self.rate = requests_per_step(self.b, accepted, workload.output)
        self.balance = balance_chunk(self.b, accepted, tokens, workload.output)

    @cached_property
    def decode_step(self) -> float:
        """A step without prompt tokens [s]; zero when nothing decodes."""
        return self.step(0, 0, self.b, self.s) if self.b else 0.0

    def ttft(self, c: int) -> float:
        """Time to first token without queueing.

        Parameters
        ----------
        c : chunk [token]

        Returns
        -------
        time [s]
        """
        return self.prefill.total(c) + self.request_overhead

    def ttft_bounds(self, low: int, high: int, limit: float = math.inf) -> Bounds:
        """`ttft` over chunks low..high.

        Parameters
        ----------
        low, high : range [token]
        limit : bounds may stop at it [s]
        """
        rest = limit - self.request_overhead
        return Bounds(
            self.prefill.least(low, high, rest) + self.request_overhead,
            self.prefill.most(low, high, rest) + self.request_overhead,
        )

    def gap(self, c: int) -> float:
        """The longest gap between two tokens of a stream.

        Mixed steps: the longest step. Prompts first: all chunks of a prompt, then a decode step.

        Parameters
        ----------
        c : chunk [token]

        Returns
        -------
        time [s]
        """
        return self.prefill.longest_step(c) if self.mixed else self.prefill.total(c) + self.decode_step

    def gap_bounds(self, low: int, high: int, limit: float = math.inf) -> Bounds:
        """`gap` over chunks low..high.

        Parameters
        ----------
        low, high : range [token]
        limit : bounds may stop at it [s]
        """
        if self.mixed:
            return Bounds(self.gap(low), self.gap(high))
        rest = limit - self.decode_step
        return Bounds(
            self.prefill.least(low, high, rest) + self.decode_step,
            self.prefill.most(low, high, rest) + self.decode_step,
        )

    def duty(self, c: int) -> float:
        """Share of steps that carry prompt tokens; 1 at and beyond the balance.

        Parameters
        ----------
        c : chunk [token]

        Returns
        -------
        share [1]
        """
        return min(1.0, self.rate * max(1.0, self.prefill.tokens / c))

    def tpot(self, c: int) -> float:
        """Mean time per output token of a request in a steady state.

        Parameters
        ----------
        c : chunk [token]

        Returns
        -------
        time [s]
        """
        if not self.mixed:
            return (self.decode_step + self.rate * self.prefill.total(c)) / self.accepted
        return self._mean_step(self.duty(c), self._mean_mixed_step(c)) / self.accepted

    def _mean_step(self, duty: float, mixed_step: float) -> float:
        return duty * mixed_step + (1 - duty) * self.decode_step

    def _mean_mixed_step(self, c: int) -> float:
        """The mean of the steps that carry a prompt; several prompts share one where they must."""
        if c > self.prefill.tokens and self.rate > 1:
            return self.prefill.longest_step(min(c, math.ceil(self.balance)))
        return self.prefill.mean_step(c)

    def tpot_bounds(self, low: int, high: int, limit: float = math.inf) -> Bounds:
        """`tpot` over chunks low..high.

        Parameters
        ----------
        low, high : range [token]
        limit : bounds may stop at it where prompts go first [s]
        """
        if low == high:
            return Bounds(self.tpot(low), self.tpot(low))
        prefill = self.prefill
        if not self.mixed:
            rest = (limit * self.accepted - self.decode_step) / self.rate if self.rate else math.inf
            times = (prefill.least(low, high, rest), prefill.most(low, high, rest))
            return Bounds(*((self.decode_step + self.rate * time) / self.accepted for time in times))
        # The mean of the mixed steps lies between their sum's bounds over the chunk counts.
        counts = [max(1, math.ceil(prefill.tokens / c)) for c in (low, high)]
        serial = prefill.serial()
        shortest = max(self.step(1, prefill.cached, self.b, self.s), serial.least(low, high) / counts[0])
        longest = prefill.longest_step(high)
        if not (high > prefill.tokens and self.rate > 1):
            longest = min(longest, serial.most(low, high) / counts[1])
        least = self._mean_step(self.duty(high), shortest) / self.accepted
        return Bounds(least, self._mean_step(self.duty(low), longest) / self.accepted)

    def utilisation(self, c: int) -> float:
        """How much of the capacity for prompts the steady state needs; the queue grows at 1.

        Mixed steps: balance over chunk. Prompts first: the share of time spent on prompts.

        Parameters
        ----------
        c : chunk [token]

        Returns
        -------
        utilisation [1]
        """
        if self.mixed:
            return self.balance / c
        return self._busy_share(self.prefill.total(c)) if self.rate else 0.0

    def utilisation_bounds(self, low: int, high: int, limit: float = math.inf) -> Bounds:
        """`utilisation` over chunks low..high.

        Parameters
        ----------
        low, high : range [token]
        limit : bounds may stop at it [1]
        """
        if self.mixed:
            return Bounds(self.balance / high, self.balance / low)
        if not self.rate:
            return Bounds(0.0, 0.0)
        time = limit / (1 - limit) * self.decode_step / self.rate if limit < 1 else math.inf
        return Bounds(
            self._busy_share(self.prefill.least(low, high, time)), self._busy_share(self.prefill.most(low, high, time))
        )

    def _busy_share(self, prefill: float) -> float:
        busy = self.rate * prefill
        return busy / (busy + self.decode_step) if busy < math.inf else 1.0
