"""A deployment under traffic: requests at a rate, or users that each wait for an answer.

The decode batch follows from Little's law, the step time from the batch (`rank.py`), and so on to a
fixed point. `scheduler.py` is the judge of all of this.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from chunkcalc.engines.capacity import capacity
from chunkcalc.frozen import dataclass
from chunkcalc.records import Deployment, Workload
from chunkcalc.time import search
from chunkcalc.time.prefill import cached_tokens
from chunkcalc.time.step import StepTimer, timer_for
from chunkcalc.traffic.queueing import FULL, chance_to_wait, closed_loop, mean_wait, wait_quantile
from chunkcalc.traffic.rank import SHARING, Rank, State

QUANTILES = 1000  # of a table, without its ends: a tail has none
SHARE = 1e-4  # to which a share of requests is found
NOTHING = 1e-9  # a wait that need not be told [s]
ROUNDS = 300  # of the fixed point of a batch
CLOSE = 1e-3  # relative, at which it is reached
SETTLED = 8  # rounds before that is believed
ENDLESS = 8192.0  # decoding requests of a rank beyond which there is no steady state
# Both stand in 1 / (1 - x) and are held off 1, where a round far from the fixed point would be thrown
# beyond every batch: the growth of a step with the batch, relative to both, and the prefill's utilisation.
STEEPEST = BUSIEST = 0.9
CALMING = 5  # times that the batch has gone to and fro after which it moves half as far


@dataclass(frozen=True, slots=True)
class Quantiles:
    """A distribution by its values at even shares, which other processes can be sent."""

    values: tuple[float, ...]

    def __call__(self, q: float) -> float:
        """The value at a share, between its neighbours."""
        place = max(0.0, q * QUANTILES - 1)
        low = min(int(place), len(self.values) - 2)
        return self.values[low] + (place - low) * (self.values[low + 1] - self.values[low])


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

    def tabulated(self) -> Flow:
        """The same with its distribution as a table."""
        return replace(self, spread=Quantiles(tuple(self.spread(n / QUANTILES) for n in range(1, QUANTILES))))

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

    def within(self, limit: float) -> float:
        """The share of requests whose first token comes within a limit: SLO attainment (DistServe, section 2).

        Parameters
        ----------
        limit : of the time to first token [s]

        Returns
        -------
        share, exact to 1e-4 [1]
        """
        low, high = 0.0, 1.0
        while high - low > SHARE:
            middle = (low + high) / 2
            low, high = (middle, high) if self.spread(middle) <= limit else (low, middle)
        return 1.0 if high == 1.0 else low

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
        self.deployment, self.timer = deployment, timer or timer_for(deployment, workload.draft_tokens)
        self.rank = Rank(deployment, workload, budget, self.timer, C)
        self.mixed, self.answer = self.rank.mixed, self.rank.answer
        self.ranks, self.stages = deployment.parallelism.dp, deployment.parallelism.pp
        self.most = _room(deployment, workload, budget) // self.ranks if most is None else most

    def at_rate(self, rate: float) -> Flow | None:
        """The steady state at a rate of arrivals; None where there is none.

        Parameters
        ----------
        rate : of the replica [request/s]
        """
        own = rate / self.ranks
        b, seen, cv, away, turns = 0.0, 1.0, 0.0, 0.0, 0
        for count in range(ROUNDS):
            state = self.rank.pace(own, b, b + seen, cv)
            more = self.rank.pace(own, b * 1.05 + 0.05, b * 1.05 + 0.05 + seen, cv)
            if state is None or more is None:
                return None
            wanted = own * self.answer * state.tpot / self.stages
            if wanted > ENDLESS:
                return None
            step = b * 0.05 + 0.05
            elasticity = min(STEEPEST, max(0.0, (more.tpot - state.tpot) / step * b / state.tpot))
            clumps = 1 + min(1.0, state.utilisation) if self.mixed else 1 / (1 - min(BUSIEST, state.utilisation)) ** 2
            # A request sees itself and the others, whose number varies the more the slower they are for it.
            seen = 0.5 * seen + 0.5 * clumps / (1 - elasticity)
            cv = (more.hold - state.hold) / step * math.sqrt(b / (1 - elasticity)) / state.hold if b else 0.0
            # The number of chunks jumps with b: to and fro around such a jump only ever smaller moves settle.
            before, away = away, wanted - b
            turns += away * before < 0
            move = away / (1 + turns / CALMING)
            if count >= SETTLED and abs(move) <= CLOSE * max(1.0, wanted):
                found = state.state()
                admitted = self._admitted(own, found)
                if admitted is None:
                    return None
                held = own * (found.ttft - found.wait + self.answer * found.tpot) / self.most
                return replace(self.flow(rate, wanted, admitted), held=held)
            b += move
        return None

    def _admitted(self, rate: float, state: State) -> State | None:
        """The state with the wait for room in the KV cache, a place for each request; None where it has no end."""
        stay = state.ttft - state.wait + self.answer * state.tpot
        if not self.most or rate * stay >= FULL * self.most:
            return None
        wait, taken = mean_wait(rate, stay, self.most), chance_to_wait(rate * stay / self.most, self.most)
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
        pace, before = None, (0.0, 0.0)
        for _ in range(ROUNDS):
            rate = found.rate if pace is not None else 0.0
            if (rate, b) == before:
                break
            before = rate, b
            others = b * (own - 1) / own  # a request meets what the other users do
            pace = self.rank.pace(rate, others, 1 + others, 0.0, closed=True)
            assert pace is not None
            k = max(1.0, pace.chunk / self.rank.tokens)
            found = closed_loop(own, pace.hold * (k if k >= SHARING else 1.0), self.answer * pace.tpot, max(1.0, k))
            if abs(found.decoding - b) <= CLOSE * max(1.0, b):
                break
            b = 0.5 * b + 0.5 * max(0.1, found.decoding)
        assert pace is not None
        state = pace.state()
        wait = found.wait + (asked - own) / found.rate
        waited = replace(state, wait=wait, ttft=state.ttft - state.wait + wait)
        quantile = waited.spread

        def spread(q: float) -> float:
            # Users that wait for each other come more evenly than strangers: from no wait to twice the mean.
            return quantile(q) + 2 * q * found.wait + (asked - own) / found.rate

        flow = self.flow(found.rate * self.ranks, found.decoding * self.stages, waited)
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

        return search.highest(fine, 0.0, search.SLOWEST)

    def flow(self, rate: float, b: float, state: State) -> Flow:
        """A steady state of the replica.

        Parameters
        ----------
        rate : of the replica [request/s]
        b : decoding requests of a rank [token]
        state : of a rank
        """
        return Flow(
            rate=rate, batch=b * self.ranks * self.stages, utilisation=state.utilisation, chunk=state.chunk,
            wait=state.wait, ttft=state.ttft, tpot=state.tpot, step=state.step, decode_step=state.decode_step,
            prompt_share=state.prompt_share, spread=state.spread,
        )  # fmt: skip


def _room(deployment: Deployment, workload: Workload, budget: int) -> int:
    """Requests at their mean context that the KV cache of a replica holds."""
    room = capacity(deployment, workload, budget)
    shared = cached_tokens(workload.prompt, workload.prefix_hit) if workload.prefix_shared else 0
    held = 0 if room.kv_tokens is None else int(max(0, room.kv_tokens - shared) / (workload.context - shared))
    return max(room.max_concurrency, held)
