"""A deployment under its workload: what a user sees at a given chunk.

`Service` turns step times into TTFT, TPOT, the longest gap and utilisation, for engines that mix
prompt chunks with decodes and for engines that run one or the other. Each quantity comes with its
lower and upper bound over a range of chunks, which is what the exact search in `search.py` needs.
"""

from __future__ import annotations

import math
import sys
from functools import cached_property
from typing import Any, NamedTuple

from chunkcalc import ops
from chunkcalc.records import Deployment, Parallelism, Workload
from chunkcalc.time.prefill import Prefill, StepTime, cached_tokens


def accepted_tokens(gamma: Any, chance: Any) -> Any:
    """Tokens a speculative step yields on average, (1 - a^(gamma+1)) / (1 - a).

    Parameters
    ----------
    gamma : draft tokens per step [token]
    chance : a, that a draft token holds [1]

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
    return gamma + 1.0 if chance == 1 else (1 - chance ** (gamma + 1)) / (1 - chance)


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
    return b * A / (o - 1) if o != 1 else ops.where(b > 0, math.inf, 0.0)


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


def request_overhead(deployment: Deployment, prompt: float) -> float:
    """Time of a request outside its steps.

    Parameters
    ----------
    deployment : the replica
    prompt : its prompt tokens, cached ones too [token]

    Returns
    -------
    time [s]
    """
    each = deployment.engine.overheads
    latent = sum(group.count for group in deployment.model.layers if group.attention.kind == "mla")
    return each.request + each.latent_request * latent + each.prompt_token * prompt


class Bounds(NamedTuple):
    """A quantity over a range of chunks lies between least and most."""

    least: float
    most: float


class Queueing(NamedTuple):
    """What traffic adds to a service, as it was found at one setting.

    wait : time that a request waits beyond its own prefill [s]
    error : half-width of the error of the time to first token with that wait, as a fraction [1]
    crowding : mean time per token over that with the mean batch: a request meets more than the mean [1]
    pressure : utilisation over that of a steady stream [1]
    """

    wait: float = 0.0
    error: float = 0.0
    crowding: float = 1.0
    pressure: float = 1.0


class Service:
    """A workload on one attention rank of one pipeline micro-batch, timed by one reading.

    Parameters
    ----------
    step : time of a step, step(c, p, b, s, prompts) [s]
    workload : lengths and batch of the whole replica
    parallelism : degrees; the batch spreads over attention ranks and micro-batches
    mixed : steps carry prompt chunks and decodes together
    accepted : tokens a decode yields per step [token]
    finishing : tokens per step by which requests finish, and prompts follow; None for `accepted` [token]
    request_overhead : time per request outside its steps [s]
    whole : the fullest rank decides: its share of the batch is rounded up
    interval : decode steps that an engine which runs prompts first puts after every prompt step;
        0 runs all chunks of a prompt in a row [1]
    queueing : what traffic adds
    """

    def __init__(
        self, step: StepTime, workload: Workload, parallelism: Parallelism, *, mixed: bool, accepted: float,
        request_overhead: float, whole: bool = True, interval: int = 0, queueing: Queueing = Queueing(),  # noqa: B008
        finishing: float | None = None,
    ) -> None:  # fmt: skip
        self.step, self.mixed, self.accepted = step, mixed, accepted
        self.request_overhead, self.queueing = request_overhead, queueing
        share = workload.batch / (parallelism.dp * parallelism.pp)
        self.b = ops.ceil(share) * 1.0 if whole else share
        self.s = workload.context * 1.0
        cached = cached_tokens(workload.prompt, workload.prefix_hit)
        tokens = workload.prompt - cached
        self._decodes = not isinstance(share, (int, float)) or share > 0
        self.interval = interval if self._decodes and not mixed else 0
        between = self.interval * self.decode_step if self.interval else 0.0
        self.prefill = Prefill(step, tokens, cached, self.b if mixed else 0.0, self.s, parallelism.pp, between)
        self._serial = self.prefill.serial()
        ending = accepted if finishing is None else finishing
        self.rate = requests_per_step(share, ending, workload.output)
        self.balance = balance_chunk(share, ending, tokens, workload.output)

    @cached_property
    def decode_step(self) -> float:
        """A step without prompt tokens [s]; zero when nothing decodes."""
        return self.step(0, 0, self.b, self.s) if self._decodes else 0.0

    def ttft(self, c: int) -> float:
        """Time to first token, with the queueing that was given.

        Parameters
        ----------
        c : chunk [token]

        Returns
        -------
        time [s]
        """
        return self.prefill.total(c) + self.request_overhead + self.queueing.wait

    def ttft_bounds(self, low: int, high: int, limit: float = math.inf) -> Bounds:
        """`ttft` over chunks low..high.

        Parameters
        ----------
        low, high : range [token]
        limit : bounds may stop at it [s]
        """
        extra = self.request_overhead + self.queueing.wait
        least = self.prefill.least(low, high, limit - extra) + extra
        if least > limit:
            return Bounds(least, math.inf)  # decided: nobody asks how far above
        return Bounds(least, self.prefill.most(low, high, limit - extra) + extra)

    def prompt_time(self, c: int) -> Any:
        """Time that each prompt takes where prompts go first; several may share a chunk.

        As many prompts run together as arrive between two decode steps, at most what the chunk
        holds.

        Parameters
        ----------
        c : chunk [token]

        Returns
        -------
        time per prompt [s]
        """
        together, alone = self._together(c), self._serial.total(c)
        if c <= self.prefill.tokens:
            return alone
        shared = ops.maximum(1.0, together)
        return ops.where(together > 1, self._batch_step(shared) / shared, alone)

    def _together(self, c: float) -> Any:
        return ops.minimum(c / self.prefill.tokens, ops.maximum(1.0, self.rate))

    def _batch_step(self, prompts: float) -> float:
        prefill = self.prefill
        return self.step(prompts * prefill.tokens, prefill.cached, prefill.b, prefill.s, prompts)

    def _prompt_time_bounds(self, low: int, high: int, limit: float) -> Bounds:
        few, many = self._together(low), self._together(high)
        if few > 1:
            return Bounds(self._batch_step(few) / many, self._batch_step(many) / few)
        alone = Bounds(self._serial.least(low, high, limit), self._serial.most(low, high, limit))
        if many <= 1:
            return alone
        return Bounds(min(alone.least, self._batch_step(1.0) / many), max(alone.most, self._batch_step(many)))

    def gap(self, c: int) -> Any:
        """The longest gap between two tokens of a stream.

        Mixed steps: the longest step. Prompts first: everything that runs between two decode
        steps, and the decode step: all chunks of a prompt, a whole chunk of short prompts, or the
        prompts of a steady state, whichever takes longest; with an interval, one prompt step.

        Parameters
        ----------
        c : chunk [token]

        Returns
        -------
        time [s]
        """
        if self.mixed:
            return self.prefill.longest_step(c)
        if self.interval:
            return self.prefill.longest_step(c) + self.decode_step
        burst = self.prefill.longest_step(c) if c > self.prefill.tokens else self.prefill.total(c)
        return ops.maximum(burst, self.rate * self.prompt_time(c)) + self.decode_step

    def gap_bounds(self, low: int, high: int, limit: float = math.inf) -> Bounds:
        """`gap` over chunks low..high.

        Parameters
        ----------
        low, high : range [token]
        limit : bounds may stop at it [s]
        """
        if low == high or self.mixed or self.interval:
            lowest = self.gap(low)
            return Bounds(lowest, lowest if low == high else math.inf if lowest > limit else self.gap(high))
        rest, prefill = limit - self.decode_step, self.prefill
        least, most = prefill.least(low, high, rest), prefill.most(low, high, rest)
        if low > prefill.tokens:
            least, most = prefill.longest_step(low), prefill.longest_step(high)
        elif high > prefill.tokens:
            least, most = min(least, prefill.longest_step(low)), max(most, prefill.longest_step(high))
        steady = self._prompt_time_bounds(low, high, rest / self.rate if self.rate else math.inf)
        if self.rate:
            least, most = max(least, self.rate * steady.least), max(most, self.rate * steady.most)
        return Bounds(least + self.decode_step, most + self.decode_step)

    def tpot(self, c: int) -> Any:
        """Mean time per output token of a request in a steady state.

        Every step takes the decode step, and each request's prompt adds the time by which its
        steps are longer (prompts first: its whole steps). Where prompts arrive faster than one
        chunk per step they share steps, and the mean is at most the step that carries what must
        arrive.

        Parameters
        ----------
        c : chunk [token]

        Returns
        -------
        time [s]
        """
        return self._tpot(c) * self.queueing.crowding

    def _tpot(self, c: int) -> Any:
        if not self.mixed:
            added = self.rate * self.prompt_time(c) if self._decodes else 0.0
            return (self.decode_step + added) / self.accepted
        fullest = ops.minimum(c, ops.maximum(self.prefill.tokens, ops.ceil(ops.minimum(self.balance, c))))
        lone = self._added(self._serial.total(c), self._serial.count(c)) if self._decodes else self.decode_step
        return ops.minimum(lone, ops.maximum(self.decode_step, self.prefill.longest_step(fullest))) / self.accepted

    def tpot_bounds(self, low: int, high: int, limit: float = math.inf) -> Bounds:
        """`tpot` over chunks low..high.

        Parameters
        ----------
        low, high : range [token]
        limit : bounds may stop at it where prompts go first [s]
        """
        crowding = self.queueing.crowding
        return Bounds(*(bound * crowding for bound in self._tpot_bounds(low, high, limit / crowding)))

    def _tpot_bounds(self, low: int, high: int, limit: float) -> Bounds:
        if low == high or not self.rate:
            return Bounds(self._tpot(low), self._tpot(low))
        serial = self._serial
        if not self.mixed:
            rest = (limit * self.accepted - self.decode_step) / self.rate
            times = self._prompt_time_bounds(low, high, rest)
            return Bounds(*((self.decode_step + self.rate * time) / self.accepted for time in times))
        # Below the prompt's length the mean is what a lone prompt adds, at most the longest step; at
        # and beyond it, it only grows.
        if low >= self.prefill.tokens:
            return Bounds(self._tpot(low), self._tpot(high))
        least = self._added(serial.least(low, high), serial.count(low))
        most = self._added(serial.most(low, high), serial.count(high))
        return Bounds(
            min(least, self.prefill.longest_step(low)) / self.accepted,
            min(most, self.prefill.longest_step(high)) / self.accepted,
        )

    def _added(self, prompt_steps: float, count: int) -> Any:
        """The decode step and what each request's prompt adds to it."""
        return self.decode_step + self.rate * ops.maximum(0.0, prompt_steps - count * self.decode_step)

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
            return self.queueing.pressure * self.balance / c
        return self.queueing.pressure * self._busy_share(self.prompt_time(c)) if self._decodes else 0.0

    def utilisation_bounds(self, low: int, high: int, limit: float = math.inf) -> Bounds:
        """`utilisation` over chunks low..high.

        Parameters
        ----------
        low, high : range [token]
        limit : bounds may stop at it [1]
        """
        pressure = self.queueing.pressure
        if self.mixed:
            return Bounds(pressure * self.balance / high, pressure * self.balance / low)
        if not self.rate:
            return Bounds(0.0, 0.0)
        share = limit / pressure
        time = share / (1 - share) * self.decode_step / self.rate if share < 1 else math.inf
        return Bounds(*(pressure * self._busy_share(prompt) for prompt in self._prompt_time_bounds(low, high, time)))

    def _busy_share(self, prefill: float) -> Any:
        busy = self.rate * prefill
        finite = ops.minimum(busy, sys.float_info.max / 4)  # an answer of one token leaves no time for decodes
        return finite / (finite + self.decode_step)
