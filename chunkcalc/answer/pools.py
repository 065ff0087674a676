"""Prefill and decode on separate units: what one of each carries within the limits, waits and transfer included.

A pair of pools is sure where the limits hold with their bands at the load that each unit gets. A unit without prompts
has no gap longer than its decode step and what an arriving request adds, whose error is that of the time per token.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from chunkcalc.answer.judged import Outlook
from chunkcalc.engines.capacity import IN_FLIGHT, capacity
from chunkcalc.records import Deployment, Overheads
from chunkcalc.time import search
from chunkcalc.time.service import Service
from chunkcalc.traffic.queueing import mean_wait, sum_quantile, wait_error, waited_error
from chunkcalc.work import counts

KV_LINK = 50e9  # one 400 Gb/s network card per unit, the usual least [byte/s]
CUTS_PER_STAGE = 8  # chunks tried per pipeline stage


class Arrivals(NamedTuple):
    """How requests come to the pools.

    percentile : of the time to first token that its limit judges; None for the mean
    C : coefficient of variation of the prompt's length [1]
    kv_link : bandwidth between the units [byte/s]
    """

    percentile: float | None = 95.0
    C: float = 0.0
    kv_link: float = KV_LINK


def transfer_time(deployment: Deployment, prompt: float, cached: float = 0.0, link: float = KV_LINK) -> float:
    """Time to move a prompt's KV cache from a prefill to a decode unit, after the prefill; replicas travel once.

    Parameters
    ----------
    deployment : the replica
    prompt : tokens [token]
    cached : tokens of it that the decode unit's prefix cache holds already [token]
    link : bandwidth between the units [byte/s]

    Returns
    -------
    time [s]
    """
    model, kv = deployment.model, deployment.precision.kv
    moved = counts.sequence_bytes(model, kv, 1, prompt) - (counts.sequence_bytes(model, kv, 1, cached) if cached else 0)
    return float(moved / link)


class Handover(NamedTuple):
    """What an engine adds where a request passes from a prefill to a decode unit, beside the transfer.

    first : from the end of the prefill to the first token [s]
    stall : by which an arriving request holds up the decodes of its unit [s]
    """

    first: float
    stall: float


def handover(overheads: Overheads, *, alike: bool) -> Handover:
    """The handover between units; heads must be regrouped where their tensor parallel degrees differ.

    Parameters
    ----------
    overheads : of the engine
    alike : both units have the same tensor parallel degree
    """
    if alike:
        return Handover(overheads.handover, overheads.handover_stall)
    return Handover(overheads.reshard, overheads.reshard_stall)


def token_time(step: float, stall: float, batch: float, accepted: float, tokens: float) -> float:
    """Time per step that a request of a decode unit sees: it is held up when it arrives, and by all who do after it.

    By Little's law as many arrive during its stay as decode on average.

    Parameters
    ----------
    step : a decode step [s]
    stall : by which an arriving request holds it up [s]
    batch : decoding requests of the unit [1]
    accepted : tokens that a step yields to each [token]
    tokens : of an answer, beyond the first [token]

    Returns
    -------
    time [s]
    """
    return step + stall * (1 + batch) * accepted / tokens


def alone(view: Outlook, service: Service) -> Service:
    """The same service with nothing decoding beside the prompt."""
    return Service(
        service.step, replace(view.workload, batch=0), view.deployment.parallelism, mixed=service.mixed,
        accepted=service.accepted, request_overhead=service.request_overhead,
    )  # fmt: skip


class PrefillUnit:
    """A unit that does nothing but prefill, and sends its KV cache on.

    Parameters
    ----------
    view : the deployment of the unit, with its limits
    arrivals : how requests come
    alike : the decode units have the same tensor parallel degree
    """

    def __init__(self, view: Outlook, arrivals: Arrivals, *, alike: bool = True) -> None:
        service = alone(view, view.expected)
        self.slo, self.ranks, self.arrivals = view.slo, view.deployment.parallelism.dp, arrivals
        tpot_band, self.own, _ = view.error
        self.step_band = tpot_band
        prefill = service.prefill
        # Alone, a prompt is fastest whole, or in a few even chunks that overlap in the pipeline.
        cuts = range(1, CUTS_PER_STAGE * prefill.stages + 1) if prefill.stages > 1 else (1,)
        self.chunk = min({math.ceil(prefill.tokens / cut) for cut in cuts}, key=prefill.total)
        self.time, self.hold = prefill.total(self.chunk), prefill.occupancy(self.chunk)
        self.transfer = transfer_time(view.deployment, view.workload.prompt, prefill.cached, arrivals.kv_link)
        passing = handover(view.deployment.engine.overheads, alike=alike)
        self.rest = self.transfer + service.request_overhead + passing.first

    def utilisation(self, rate: float) -> float:
        """The share of the time that prompts hold the unit.

        Parameters
        ----------
        rate : of arrivals [request/s]

        Returns
        -------
        utilisation [1]
        """
        return rate / self.ranks * self.hold

    def ttft(self, rate: float) -> float:
        """The time to first token that is judged: its mean, or a percentile.

        Parameters
        ----------
        rate : of arrivals [request/s]

        Returns
        -------
        time [s]
        """
        percentile, C = self.arrivals.percentile, self.arrivals.C
        wait = mean_wait(rate / self.ranks, self.hold, 1.0, C)
        if percentile is None:
            return wait + self.time + self.rest
        # Long prompts are slow in themselves: the tail that a colocated replica is judged by, too.
        return sum_quantile(wait, self.utilisation(rate), self.time, C, percentile / 100) + self.rest

    def ttft_band(self, rate: float) -> float:
        """Half-width of the error of `ttft`, which its wait widens, as that of a colocated replica's.

        Parameters
        ----------
        rate : of arrivals [request/s]

        Returns
        -------
        half-width, as a fraction [1]
        """
        ttft = self.ttft(rate)
        waiting = max(0.0, ttft - self.time - self.rest) / ttft
        return waited_error(self.own, wait_error(self.step_band, self.utilisation(rate)), waiting)

    def highest(self, *, margin: bool = False) -> float:
        """The highest rate within the limit of TTFT; 0 where a lone prompt misses it [request/s]."""

        def holds(rate: float) -> bool:
            return self.keeps(rate, margin=margin)

        return search.highest(holds, 0.0, search.SLOWEST) if holds(0.0) else 0.0

    def keeps(self, rate: float, *, margin: bool) -> bool:
        """Whether the limit of TTFT holds at a rate, with its band to spare where a margin is wanted."""
        if self.utilisation(rate) > self.slo.max_utilisation:
            return False
        return self.slo.ttft is None or self.ttft(rate) * (1 + margin * self.ttft_band(rate)) <= self.slo.ttft


class DecodeUnit:
    """A unit that does nothing but decode.

    Parameters
    ----------
    view : the deployment of the unit, with its limits
    alike : the prefill units have the same tensor parallel degree
    """

    def __init__(self, view: Outlook, *, alike: bool = True) -> None:
        self.stall = handover(view.deployment.engine.overheads, alike=alike).stall
        self.view, self.slo, self.band = view, view.slo, view.error.tpot
        self.spread = view.deployment.parallelism.dp * view.deployment.parallelism.pp
        self.accepted = view.expected.accepted
        self.tokens = max(1, view.workload.output - 1)
        lone = replace(view.workload, batch=1)
        self.room = min(capacity(view.deployment, lone, 1).max_concurrency, IN_FLIGHT * self.spread)

    def step(self, batch: int) -> float:
        """A decode step.

        Parameters
        ----------
        batch : requests of the unit [token]

        Returns
        -------
        time [s]
        """
        return float(self.view.timer.expected(0, 0, batch / self.spread, float(self.view.workload.context)))

    def token(self, batch: int) -> float:
        """A decode step with its share of the arrivals that hold it up.

        Parameters
        ----------
        batch : requests of the unit [token]

        Returns
        -------
        time [s]
        """
        return token_time(self.step(batch), self.stall, batch, self.accepted, self.tokens)

    def most(self, *, margin: bool = False) -> int:
        """The mean batch within the limits: the batch varies about it by a standard deviation; 0 where none is."""
        most = search.largest(lambda batch: self.keeps(batch, margin=margin), 0, self.room)
        return math.floor(most - math.sqrt(most)) if most > 1 else most

    def highest(self, *, margin: bool = False) -> float:
        """The highest rate within the limits of a step and the memory; 0 where one request misses them [request/s]."""
        batch = self.most(margin=margin)
        return batch * self.accepted / (self.tokens * self.token(batch)) if batch else 0.0

    def batch_at(self, rate: float) -> int:
        """Decoding requests at a rate, by Little's law.

        Parameters
        ----------
        rate : of arrivals [request/s]

        Returns
        -------
        requests of the unit [token]
        """
        batch, most = 1, self.most()
        while batch < most and batch < rate * self.tokens * self.token(batch) / self.accepted:
            batch += 1
        return batch

    def keeps(self, batch: int, *, margin: bool) -> bool:
        """Whether the limits hold at a batch, with the band to spare where a margin is wanted."""
        slo, more = self.slo, 1 + margin * self.band
        mean, longest = self.token(batch) / self.accepted * more, (self.step(batch) + self.stall) * more
        return (slo.tpot is None or mean <= slo.tpot) and (slo.itl is None or longest <= slo.itl)


class Pair(NamedTuple):
    """Units of a prefill and of a decode pool at a rate.

    prefills, decodes : units [1]
    rate : highest of both pools within the limits [request/s]
    batch : decoding requests of a decode unit, on average [token]
    ttft_s, tpot_s : at the rate that is asked, waits and transfer included [s]
    sure : both limits hold with their bands to spare
    """

    prefills: int
    decodes: int
    rate: float
    batch: int
    ttft_s: float
    tpot_s: float
    sure: bool


def paired(
    prefill: PrefillUnit, decode: DecodeUnit, units: Callable[[float, float], tuple[int, int] | None],
    rate: float | None = None,
) -> list[Pair]:  # fmt: skip
    """Pools that keep the limits: with their bands to spare where that can be, and by prediction where that is less.

    Parameters
    ----------
    prefill, decode : the units
    units : from what a unit of each carries to how many of each
    rate : that is asked; None for all that the pools carry [request/s]
    """
    out: list[Pair] = []
    for margin in (True, False):
        served, carried = prefill.highest(margin=margin), decode.highest(margin=margin)
        count = units(served, carried) if served and carried else None
        if count is None or count in [(pair.prefills, pair.decodes) for pair in out]:
            continue
        x, y = count
        most = min(x * served, y * carried)
        asked = most if rate is None else rate
        batch, ttft = decode.batch_at(asked / y), prefill.ttft(asked / x)
        sure = prefill.keeps(asked / x, margin=True) and decode.keeps(batch, margin=True)
        out.append(Pair(x, y, most, batch, ttft, decode.token(batch) / decode.accepted, sure))
    return out
