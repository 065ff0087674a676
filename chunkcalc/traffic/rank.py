"""One attention rank with its decodes while prompts arrive: what its steps and its waits are.

A prompt of several chunks queues for the prefill (M/G/1); where a step takes several prompts, every
step takes what arrived during the one before, and the lengths of successive steps make a chain whose
first two moments have a closed form.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from chunkcalc.frozen import dataclass
from chunkcalc.records import Deployment, Workload
from chunkcalc.time.prefill import Prefill, cached_tokens
from chunkcalc.time.service import accepted_tokens, request_overhead
from chunkcalc.time.step import StepTimer
from chunkcalc.time.steptimes import StepTimes
from chunkcalc.traffic.queueing import FULL, mean_wait, sum_quantile, wait_quantile

SHARING = 1.5  # prompts per step from which they share steps
# While prompts queue, decodes pile up, and their steps hold the queue longer: what the mean batch does
# not show. Found on three setups of benchmarks/load_table.py, held on others.
FEEDBACK, FARTHEST = 0.036, 4.3
SPAN = 4.0  # prompts over which the marginal time of one more is taken
LEAST_MORE = 1e-9  # of it [s]
ROUNDS = 300  # of the moments of a chain of steps


@dataclass(frozen=True, slots=True)
class State:
    """A rank with b decodes, some of it as a request sees it.

    tpot, ttft : mean time per output token; mean time to first token, wait and overhead included [s]
    wait : mean time before the first step [s]
    hold : time for which a prompt holds the prefill [s]
    utilisation : of the prefill [1]
    step, decode_step : with and without prompt tokens [s]
    prompt_share : share of the steps that carry prompt tokens [1]
    chunk : prompt tokens of a step beside the decodes [token]
    spread : quantile -> time to first token [s]
    """

    tpot: float
    ttft: float
    wait: float
    hold: float
    utilisation: float
    step: float
    decode_step: float
    prompt_share: float
    chunk: int
    spread: Callable[[float], float]


class Pace(NamedTuple):
    """What a fixed point of the batch needs of a state, and the rest of it on demand.

    tpot, hold, utilisation, chunk : as in State
    state : makes the State
    """

    tpot: float
    hold: float
    utilisation: float
    chunk: int
    state: Callable[[], State]


class Rank:
    """An attention rank of a deployment.

    Parameters
    ----------
    deployment : the replica
    workload : lengths; its batch does not count
    budget : tokens of a step; prompt tokens where prompts go first [token]
    timer : of the deployment
    C : coefficient of variation of the prompt's length [1]
    """

    def __init__(
        self, deployment: Deployment, workload: Workload, budget: int, timer: StepTimer, C: float = 0.0
    ) -> None:
        self.workload, self.budget, self.timer, self.C = workload, budget, timer, C
        self.overhead = request_overhead(deployment, workload.prompt)
        self.stages = deployment.parallelism.pp
        self.mixed = deployment.engine.composition == "mixed"
        self.accepted = accepted_tokens(workload.draft_tokens, workload.draft_acceptance)
        self.cached = cached_tokens(workload.prompt, workload.prefix_hit)
        self.tokens = workload.prompt - self.cached
        self.context = float(workload.context)
        self.answer = max(1, workload.output - 1)
        self._within = Within(timer.expected, budget if self.mixed else None, 1 + workload.draft_tokens)

    def pace(self, rate: float, b: float, seen: float, cv: float, *, closed: bool = False) -> Pace | None:
        """The rank with b decodes; None where its prefill has no steady state.

        Parameters
        ----------
        rate : of arrivals [request/s]
        b : decoding requests, on average [token]
        seen : decoding requests that a request meets, itself among them [token]
        cv : coefficient of variation of the prefill's time by the batch alone [1]
        closed : users come as others finish: no rate is too much
        """
        beside = b if self.mixed else 0.0
        c = self.budget - (b * (1 + self.workload.draft_tokens) if self.mixed else 0.0)
        if c < 1:
            c = 1.0
            if not closed:
                return None
        # A batch that varies takes less than its mean where a step's time bends down: experts that are read anyway.
        spread = min(seen - 1, math.sqrt(b * (seen - b))) if seen > 1 else 0.0
        own = (self._time(0, 0, seen - spread) + self._time(0, 0, seen + spread)) / 2
        if self.tokens * SHARING > c:
            return self._chunked(rate, int(c), b, beside, seen, own, cv, closed)
        return self._shared(rate, c, b, beside, seen, own, closed)

    def _alone(self, b: float) -> float:
        """A step without prompts, where anything decodes at all."""
        return self._time(0, 0, b) * -math.expm1(-b) if b > 0 else 0.0

    def _chunked(
        self, rate: float, c: int, b: float, beside: float, seen: float, own: float, cv: float, closed: bool
    ) -> Pace | None:
        """A prompt takes one or several steps of its own."""
        expected, within, s = self.timer.expected, self._within, self.context
        full, left = divmod(self.tokens, c)
        starts = range(self.cached, self.cached + full * c, c)
        if full:  # what is left of the last step's room goes to the next prompt
            last = self._time(c, self.cached + full * c, beside) * left / c if left else 0.0
            hold = (sum(expected.row(c, starts, beside, s)) + last) / self.stages
        else:
            hold = self._time(self.tokens, self.cached, beside) / self.stages
        count = full + (left > 0)
        rho = rate * hold
        if rho >= FULL and not closed:
            return None
        # TPOT = t + rate * added * TPOT: as many prompts arrive per token as its time lets.
        added = hold
        if self.mixed:
            done = (count - 1) * c
            held = sum(within.row(c, starts[: count - 1], seen, s))
            held += within(self.tokens - done, self.cached + done, seen, s)
            added = max(0.0, (held - count * own) / self.stages)
        if closed:  # as many prompts come as the others finish
            tpot = own / self.accepted + (seen - 1) / self.answer * added
        else:
            tpot = own / self.accepted / max(1e-9, 1 - rate * added)

        def state() -> State:
            wait = 0.0 if closed else mean_wait(rate, hold, 1.0, math.hypot(cv, self.C))
            if self.mixed and not closed:
                wait *= 1 + FEEDBACK * min(FARTHEST, rho / (1 - rho)) ** 2
            prefill = Prefill(expected, self.tokens, self.cached, beside, s, self.stages)
            total, alone, idle = prefill.total(c), self._alone(b), 1 - min(1.0, rho)
            longest = total + own
            if self.mixed:
                longest = Prefill(within, self.tokens, self.cached, seen, s).longest_step(min(c, self.tokens))
            return State(
                tpot=tpot, ttft=wait + total + idle * alone / 2 + self.overhead, wait=wait, hold=hold,
                utilisation=rho, step=longest, decode_step=own, chunk=c,
                prompt_share=min(1.0, rho * own / max(own, hold / count)) if self.mixed else min(1.0, rate * own),
                spread=lambda q: sum_quantile(wait, rho, total, self.C, q) + idle * alone * q + self.overhead,
            )  # fmt: skip

        return Pace(tpot, hold, rho, c, state)

    def _shared(
        self, rate: float, c: float, b: float, beside: float, seen: float, own: float, closed: bool
    ) -> Pace | None:
        """A step takes all prompts that arrived during the one before."""
        k = c / self.tokens
        many = min(k, SPAN)
        one, several, full = (self._prompts(count, beside) for count in (1, many, k))
        # A step that takes as long as the host needs to launch it is no longer with several prompts.
        more = max(LEAST_MORE, (several - one) / (many - 1))
        rho = rate * full / k
        if (rho >= FULL or rate * more >= FULL) and not closed:
            return None
        alone = self._alone(b)
        first = one - more - (alone if self.mixed else 0.0)
        rate = min(rate, (FULL - 1e-3) * min(k / full, 1 / more))
        length, square = _chain(rate, alone, first, more, mixed=self.mixed)
        length = max(length, 1e-9)
        none = math.exp(-rate * length)
        busy = ((1 - none) * first + more * rate * length) / length
        if closed:
            tpot = own / self.accepted + (seen - 1) / self.answer * more
        else:
            tpot = (own + length - alone if self.mixed else own / max(1e-9, 1 - busy)) / self.accepted
        utilisation = rho if self.mixed else max(rho, busy)

        def state() -> State:
            batch = rate * square / length  # others that arrive in the step in which a request arrives
            wait = 0.0 if closed else mean_wait(rate, full, k, self.C)
            base = (alone if self.mixed else 0.0) + first

            def spread(q: float) -> float:
                from statistics import NormalDist  # noqa: PLC0415 - 10 ms that a lone step needs not

                crowd = 1 + batch + max(0.0, NormalDist().inv_cdf(q)) * math.sqrt(batch)
                return wait_quantile(wait, rho, q) + q * square / length + base + more * crowd + self.overhead

            return State(
                tpot=tpot, ttft=wait + square / (2 * length) + base + more * (1 + batch) + self.overhead, wait=wait,
                hold=full / k, utilisation=utilisation, step=full if self.mixed else full + own, decode_step=own,
                prompt_share=1 - none, chunk=int(c), spread=spread,
            )  # fmt: skip

        return Pace(tpot, full / k, utilisation, int(c), state)

    def _prompts(self, count: float, b: float) -> float:
        """A step with so many whole prompts."""
        return self._time(count * self.tokens, self.cached, b, count)

    def _time(self, c: float, p: float, b: float, prompts: float = 1.0) -> float:
        return float(self.timer.expected(c, p, b, self.context, max(1.0, prompts)))


class Within:
    """Steps whose prompt tokens leave room for their decodes, also where more decode than on average.

    Parameters
    ----------
    expected : times of steps
    budget : of a step; None where prompts go first [token]
    slots : tokens of the budget that a decode takes [token]
    """

    def __init__(self, expected: StepTimes, budget: int | None, slots: int) -> None:
        self.expected, self.budget, self.slots = expected, budget, slots

    def __call__(self, c: Any, p: Any, b: Any, s: Any, prompts: Any = 1) -> Any:
        """Time of a step.

        Parameters
        ----------
        c, p, b, s, prompts : as of `StepTimes`
        """
        return self.expected(self._fitting(c, b), p, b, s, prompts)

    def row(self, c: float, starts: range, b: float, s: float) -> list[float]:
        """Times of a row of steps.

        Parameters
        ----------
        c, starts, b, s : as of `StepTimes`
        """
        return self.expected.row(self._fitting(c, b), starts, b, s)

    def _fitting(self, c: float, b: float) -> float:
        return c if self.budget is None else min(c, max(1.0, self.budget - b * self.slots))


def _chain(rate: float, idle: float, first: float, more: float, *, mixed: bool) -> tuple[float, float]:
    """First two moments of the length of successive steps.

    A step that follows one of length T carries the N prompts that arrived in it, N Poisson with mean
    rate T: it takes `first + more N` where N > 0, on top of `idle` where the engine mixes, instead of
    it where prompts go first.

    Parameters
    ----------
    rate : of arrivals [request/s]
    idle : a step without prompts [s]
    first, more : of a step with prompts: whatever their number, and for each [s]
    mixed : prompts come on top

    Returns
    -------
    mean [s], mean square [s2]
    """
    length = max(idle, first + more, 1e-6)
    for _ in range(ROUNDS):
        none = math.exp(-rate * length)
        rest = idle if mixed else none * idle
        after = rest + (1 - none) * first + more * rate * length
        if abs(after - length) < 1e-9:
            break
        length = after
    none = math.exp(-rate * length)
    arrivals = rate * length
    if mixed:
        variance = more * more * arrivals / (1 - (rate * more) ** 2)
        return length, length * length + variance
    square = length * length
    for _ in range(ROUNDS):
        after = none * idle**2 + (1 - none) * first**2 + 2 * first * more * arrivals
        after += more * more * (arrivals + rate * rate * square)
        if abs(after - square) < 1e-12:
            break
        square = after
    return length, square
