"""A deployment under traffic: requests at a rate, or users that each wait for an answer.

The decode batch follows from Little's law, the step time from the batch, and so on to a fixed
point. A prompt of several chunks queues for the prefill (M/G/1); where a step takes several
prompts, every step takes what arrived during the one before, and the lengths of successive steps
make a chain whose first two moments have a closed form. `replay.py` is the judge of all of this.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from chunkcalc.capacity import capacity
from chunkcalc.load import accepted_tokens
from chunkcalc.prefill import Prefill
from chunkcalc.queueing import FULL, closed_loop, mean_wait, sum_quantile, wait_quantile
from chunkcalc.records import Deployment, Workload
from chunkcalc.step import StepTimer

NOTHING = 1e-9  # a wait that need not be told [s]
ROUNDS = 300  # of the fixed point of a batch
CLOSE = 1e-3  # relative, at which it is reached
SETTLED = 8  # rounds before that is believed
MOST_BATCH = 8192.0  # decoding requests of a rank beyond which there is no steady state
SHARING = 1.5  # prompts per step from which they share steps
# While prompts queue, decodes pile up, and their steps hold the queue longer: what the mean batch does
# not show. Found on three setups of benchmarks/load_table.py, held on others.
FEEDBACK, FARTHEST = 0.036, 4.3
SPAN = 4.0  # prompts over which the marginal time of one more is taken


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """A steady state of one replica.

    rate : requests [request/s]
    batch : decoding requests of the replica [token]
    utilisation : of the prefill; the queue has no steady state at 1 [1]
    chunk : prompt tokens of a step beside the decodes, on one rank [token]
    wait : mean time before the first step [s]
    ttft : mean time to first token, wait and overhead included [s]
    tpot : mean time per output token [s]
    step, decode_step : with and without prompt tokens [s]
    prompt_share : share of the steps that carry prompt tokens [1]
    spread : quantile -> time to first token [s]
    held : share of the places in the KV cache that are taken [1]
    """

    rate: float
    batch: float
    utilisation: float
    chunk: int
    wait: float
    ttft: float
    tpot: float
    step: float
    decode_step: float
    prompt_share: float
    spread: Callable[[float], float]
    held: float = 0.0

    def ttft_at(self, percentile: float | None) -> float:
        """The time to first token: its mean, or a percentile.

        Parameters
        ----------
        percentile : such as 99; None for the mean

        Returns
        -------
        time [s]
        """
        return self.ttft if percentile is None else self.ttft_quantile(percentile / 100)

    def ttft_quantile(self, q: float) -> float:
        """A quantile of the time to first token.

        Parameters
        ----------
        q : such as 0.99 [1]

        Returns
        -------
        time [s]
        """
        return max(self.ttft if q > 0.5 else 0.0, self.spread(q))

    def gap_quantile(self, q: float) -> float:
        """A quantile of the gap between two tokens of a stream: steps with prompt tokens are the longest.

        Parameters
        ----------
        q : such as 0.99 [1]

        Returns
        -------
        time [s]
        """
        return self.step if q > 1 - self.prompt_share else self.decode_step


@dataclass(frozen=True, slots=True)
class _State:
    """A rank with b decodes, some of it as a request sees it."""

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


class Traffic:
    """A deployment that takes requests.

    Parameters
    ----------
    deployment : the replica
    workload : lengths; its batch does not count
    budget : tokens of a step on one rank; prompt tokens where prompts go first [token]
    timer : of the deployment, to share what it remembers
    C : coefficient of variation of the prompt's length [1]
    most : requests in flight on a rank; None for what its KV cache holds at the mean context [1]
    """

    def __init__(
        self, deployment: Deployment, workload: Workload, budget: int, timer: StepTimer | None = None, C: float = 0.0,
        most: int | None = None,
    ) -> None:  # fmt: skip
        self.deployment, self.workload, self.budget, self.C = deployment, workload, budget, C
        self.timer = timer or StepTimer(deployment, workload.draft_tokens)
        self.mixed = deployment.engine.composition == "mixed"
        self.accepted = accepted_tokens(workload.draft_tokens, workload.draft_acceptance)
        cached = min(int(workload.prompt * workload.prefix_hit), workload.prompt - 1)
        self.tokens, self.cached = workload.prompt - cached, cached
        self.context = float(workload.context)
        self.answer = max(1, workload.output - 1)
        self.ranks = deployment.parallelism.dp
        self.stages = deployment.parallelism.pp
        self.most = self._room() if most is None else most

    def _room(self) -> int:
        """Requests at their mean context that a rank's KV cache holds."""
        room = capacity(self.deployment, self.workload, self.budget)
        held = 0 if room.kv_tokens is None else int(room.kv_tokens / self.context)
        return max(room.max_concurrency, held) // self.ranks

    def at_rate(self, rate: float) -> Flow | None:
        """The steady state at a rate of arrivals; None where there is none.

        Parameters
        ----------
        rate : of the replica [request/s]
        """
        own = rate / self.ranks
        b, seen, cv, away, turns = 0.0, 1.0, 0.0, 0.0, 0
        for count in range(ROUNDS):
            state = self._state(own, b, b + seen, cv)
            more = self._state(own, b * 1.05 + 0.05, b * 1.05 + 0.05 + seen, cv)
            if state is None or more is None:
                return None
            wanted = own * self.answer * state.tpot / self.stages
            if wanted > MOST_BATCH:
                return None
            step = b * 0.05 + 0.05
            elasticity = min(0.9, max(0.0, (more.tpot - state.tpot) / step * b / state.tpot))
            clumps = 1 + min(1.0, state.utilisation) if self.mixed else 1 / (1 - min(0.9, state.utilisation)) ** 2
            # A request sees itself and the others, whose number varies the more the slower they are for it.
            seen = 0.5 * seen + 0.5 * clumps / (1 - elasticity)
            cv = (more.hold - state.hold) / step * math.sqrt(b / (1 - elasticity)) / state.hold if b else 0.0
            # The number of chunks jumps with b: to and fro around such a jump only ever smaller moves settle.
            before, away = away, wanted - b
            turns += away * before < 0
            move = away / (1 + turns / 5)
            if count >= SETTLED and abs(move) <= CLOSE * max(1.0, wanted):
                admitted = self._admitted(own, state)
                if admitted is None:
                    return None
                held = own * (state.ttft - state.wait + self.answer * state.tpot) / self.most
                return replace(self._flow(rate, wanted, admitted), held=held)
            b += move
        return None

    def _admitted(self, rate: float, state: _State) -> _State | None:
        """The state with the wait for room in the KV cache, a place for each request; None where it has no end."""
        stay = state.ttft - state.wait + self.answer * state.tpot
        if not self.most or rate * stay >= FULL * self.most:
            return None
        # The chance to wait at all is Sakasegawa's, as the mean is.
        wait, taken = mean_wait(rate, stay, self.most), (rate * stay / self.most) ** (math.sqrt(2 * self.most + 2) - 1)
        spread = state.spread
        return replace(
            state, wait=state.wait + wait, ttft=state.ttft + wait,
            spread=lambda q: spread(q) + wait_quantile(wait, taken, q) if wait > NOTHING else spread(q),
        )  # fmt: skip

    def with_users(self, users: int) -> Flow:
        """The steady state with users that each send their next request when the last is answered.

        Parameters
        ----------
        users : of the replica [1]
        """
        asked = max(1, math.ceil(users / self.ranks))
        own = min(asked, max(1, self.most))  # the others wait for room in the KV cache
        b = float(own)
        found = closed_loop(own, 0.0, 1.0)
        state = None
        for _ in range(ROUNDS):
            state = self._state(found.rate if state is not None else 0.0, max(0.0, b - 1), b, 0.0, closed=True)
            assert state is not None
            k = max(1.0, state.chunk / self.tokens)
            found = closed_loop(own, state.hold * (k if k >= SHARING else 1.0), self.answer * state.tpot, max(1.0, k))
            if abs(found.decoding - b) <= CLOSE * max(1.0, b):
                break
            b = 0.5 * b + 0.5 * max(0.1, found.decoding)
        assert state is not None
        wait = found.wait + (asked - own) / found.rate
        waited = replace(state, wait=wait, ttft=state.ttft - state.wait + wait)
        quantile = waited.spread

        def spread(q: float) -> float:
            # Users that wait for each other come more evenly than strangers: from no wait to twice the mean.
            return quantile(q) + 2 * q * found.wait + (asked - own) / found.rate

        flow = self._flow(found.rate * self.ranks, found.decoding * self.stages, waited)
        return replace(flow, batch=min(flow.batch, users), utilisation=found.busy, spread=spread)

    def limit(self) -> float:
        """The rate at which the last steady state is lost [request/s]."""
        return self.highest(lambda flow: True)

    def highest(self, holds: Callable[[Flow], bool]) -> float:
        """The highest rate at which something holds that higher rates only make worse.

        Parameters
        ----------
        holds : whether it does

        Returns
        -------
        rate; 0 where it never holds [request/s]
        """

        def fine(rate: float) -> bool:
            flow = self.at_rate(rate)
            return flow is not None and holds(flow)

        low, high = 0.0, 1e-3
        while fine(high) and high < 1e5:
            low, high = high, 2 * high
        for _ in range(24):
            middle = (low + high) / 2
            low, high = (middle, high) if fine(middle) else (low, middle)
        return low

    def _flow(self, rate: float, b: float, state: _State) -> Flow:
        return Flow(
            rate=rate, batch=b * self.ranks * self.stages, utilisation=state.utilisation, chunk=state.chunk,
            wait=state.wait, ttft=state.ttft, tpot=state.tpot, step=state.step, decode_step=state.decode_step,
            prompt_share=state.prompt_share, spread=state.spread,
        )  # fmt: skip

    def _time(self, c: float, p: float, b: float, prompts: float = 1.0) -> float:
        return float(self.timer.expected(c, p, b, self.context, max(1.0, prompts)))

    def _state(self, rate: float, b: float, seen: float, cv: float, *, closed: bool = False) -> _State | None:
        """A rank at a rate with b decodes; None where its prefill has no steady state."""
        beside = b if self.mixed else 0.0
        c = self.budget - (b * (1 + self.workload.draft_tokens) if self.mixed else 0.0)
        if c < 1:
            c = 1.0
            if not closed:
                return None
        # A step without prompts, where anything decodes at all.
        alone = self._time(0, 0, b) * -math.expm1(-b) if b > 0 else 0.0
        # A batch that varies takes less than its mean where a step's time bends down: experts that are read anyway.
        spread = min(seen - 1, math.sqrt(b * (seen - b))) if seen > 1 else 0.0
        own = (self._time(0, 0, seen - spread) + self._time(0, 0, seen + spread)) / 2
        if self.tokens * SHARING > c:
            return self._chunked(rate, int(c), beside, seen, alone, own, cv, closed)
        return self._shared(rate, c, beside, seen, alone, own, closed)

    def _chunked(
        self, rate: float, c: int, b: float, seen: float, alone: float, own: float, cv: float, closed: bool
    ) -> _State | None:
        """A prompt takes one or several steps of its own."""
        step = self.timer.expected
        prefill = Prefill(step, self.tokens, self.cached, b, self.context, self.stages)
        held = Prefill(step, self.tokens, self.cached, seen if self.mixed else 0.0, self.context, self.stages)
        total, count = prefill.total(c), prefill.count(c)
        full, left = divmod(self.tokens, c)
        # What is left of the last step's room goes to the next prompt.
        last = self._time(c, self.cached + full * c, b) * left / c if left and full else 0.0
        hold = (sum(prefill.steps(c)[:full]) + last if full else total) / self.stages
        rho = rate * hold
        if rho >= FULL and not closed:
            return None
        wait = 0.0 if closed else mean_wait(rate, hold, 1.0, math.hypot(cv, self.C))
        if self.mixed and not closed:
            wait *= 1 + FEEDBACK * min(FARTHEST, rho / (1 - rho)) ** 2
        overhead = self.deployment.engine.request_overhead
        # TPOT = t + rate * added * TPOT: as many prompts arrive per token as its time lets.
        idle = 1 - min(1.0, rho)
        ttft = wait + total + idle * alone / 2 + overhead
        added = max(0.0, sum(held.steps(c)) - count * own) / self.stages if self.mixed else hold
        if closed:  # as many prompts come as the others finish
            tpot = own / self.accepted + seen / self.answer * added
        else:
            tpot = own / self.accepted / max(1e-9, 1 - rate * added)
        longest = held.longest_step(min(c, self.tokens)) if self.mixed else prefill.total(c) + own
        return _State(
            tpot=tpot, ttft=ttft, wait=wait, hold=hold, utilisation=rho, step=longest, decode_step=own, chunk=c,
            prompt_share=min(1.0, rho * own / max(own, hold / count)) if self.mixed else min(1.0, rate * own),
            spread=lambda q: sum_quantile(wait, rho, total, self.C, q) + idle * alone * q + overhead,
        )  # fmt: skip

    def _shared(
        self, rate: float, c: float, b: float, seen: float, alone: float, own: float, closed: bool
    ) -> _State | None:
        """A step takes all prompts that arrived during the one before."""
        k = c / self.tokens
        many = min(k, SPAN)
        one, several = self._prompts(1, b), self._prompts(many, b)
        more = (several - one) / (many - 1)
        first = one - more - (alone if self.mixed else 0.0)
        full = self._prompts(k, b)
        rho = rate * full / k
        if (rho >= FULL or rate * more >= FULL) and not closed:
            return None
        rate = min(rate, (FULL - 1e-3) * min(k / full, 1 / more))
        length, square = _chain(rate, alone, first, more, mixed=self.mixed)
        length = max(length, 1e-9)
        batch = rate * square / length  # others that arrive in the step in which a request arrives
        wait = 0.0 if closed else mean_wait(rate, full, k, self.C)
        base = (alone if self.mixed else 0.0) + first
        overhead = self.deployment.engine.request_overhead
        ttft = wait + square / (2 * length) + base + more * (1 + batch) + overhead
        none = math.exp(-rate * length)
        busy = ((1 - none) * first + more * rate * length) / length
        if closed:
            tpot = own / self.accepted + seen / self.answer * (more if seen > 1 else first + more)
        else:
            tpot = (own + length - alone if self.mixed else own / max(1e-9, 1 - busy)) / self.accepted

        def spread(q: float) -> float:
            from statistics import NormalDist  # noqa: PLC0415 - 10 ms that a lone step needs not

            crowd = 1 + batch + max(0.0, NormalDist().inv_cdf(q)) * math.sqrt(batch)
            return wait_quantile(wait, rho, q) + q * square / length + base + more * crowd + overhead

        return _State(
            tpot=tpot, ttft=ttft, wait=wait, hold=full / k, utilisation=rho if self.mixed else max(rho, busy),
            step=full if self.mixed else full + own, decode_step=own, prompt_share=1 - none, chunk=int(c),
            spread=spread,
        )  # fmt: skip

    def _prompts(self, count: float, b: float) -> float:
        """A step with so many whole prompts."""
        return self._time(count * self.tokens, self.cached, b, count)


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
