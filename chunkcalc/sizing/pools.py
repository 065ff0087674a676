"""Prefill and decode on separate units under a rate: what one of each carries within the limits."""

from __future__ import annotations

import math
from dataclasses import replace

from chunkcalc.answer.disaggregation import alone, exposed_transfer, transfer_time
from chunkcalc.answer.judged import outlook
from chunkcalc.answer.resolve import Case
from chunkcalc.engines.capacity import IN_FLIGHT, capacity
from chunkcalc.time import search
from chunkcalc.time.service import accepted_tokens
from chunkcalc.time.step import StepTimer
from chunkcalc.traffic.lengths import variation
from chunkcalc.traffic.queueing import mean_wait, sum_quantile, wait_error, waited_error


class PrefillUnit:
    """A unit that does nothing but prefill, and sends its KV cache on.

    Parameters
    ----------
    case : the deployment of the unit, the workload and the limits
    timer : of its deployment
    kv_link : bandwidth to the decode units [byte/s]
    """

    def __init__(self, case: Case, timer: StepTimer, kv_link: float) -> None:
        deployment, question = case.deployment, case.question
        view = outlook(deployment, replace(case.workload, batch=0), case.slo, timer)
        service = alone(view, view.expected)
        self.slo, self.bands, self.ranks = case.slo, view.bands, deployment.parallelism.dp
        self.percentile, self.C = question.percentile, variation(question.prompt, question.prompt_p95)
        self.chunk = service.prefill.tokens  # whole prompts: nothing waits for them but each other
        self.time, self.hold = service.prefill.total(self.chunk), service.prefill.occupancy(self.chunk)
        layers = sum(group.count for group in deployment.model.layers)
        moved = transfer_time(deployment, question.prompt, service.prefill.cached, kv_link)
        self.rest = exposed_transfer(moved, self.time, layers) + service.request_overhead

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
        wait = mean_wait(rate / self.ranks, self.hold, 1.0, self.C)
        if self.percentile is None:
            return wait + self.time + self.rest
        # Long prompts are slow in themselves: the tail that a colocated replica is judged by, too.
        return sum_quantile(wait, self.utilisation(rate), self.time, self.C, self.percentile / 100) + self.rest

    def ttft_band(self, rate: float) -> float:
        """Half-width of the error of `ttft`, which its wait widens, as that of a colocated replica's.

        Parameters
        ----------
        rate : of arrivals [request/s]

        Returns
        -------
        half-width, as a fraction [1]
        """
        tpot_band, own = self.bands
        ttft = self.ttft(rate)
        waiting = max(0.0, ttft - self.time - self.rest) / ttft
        return waited_error(own, wait_error(tpot_band, self.utilisation(rate)), waiting)

    def highest(self) -> float:
        """The highest rate within the limit of TTFT; 0 where a lone prompt misses it [request/s]."""
        return search.highest(self._keeps, 0.0, search.SLOWEST) if self._keeps(0.0) else 0.0

    def _keeps(self, rate: float) -> bool:
        if self.utilisation(rate) > self.slo.max_utilisation:
            return False
        return self.slo.ttft is None or self.ttft(rate) <= self.slo.ttft


class DecodeUnit:
    """A unit that does nothing but decode.

    Parameters
    ----------
    case : the deployment of the unit, the workload and the limits
    timer : of its deployment
    """

    def __init__(self, case: Case, timer: StepTimer) -> None:
        self.case, self.timer = case, timer
        self.spread = case.deployment.parallelism.dp * case.deployment.parallelism.pp
        self.accepted = accepted_tokens(case.workload.draft_tokens, case.workload.draft_acceptance)
        self.tokens = max(1, case.workload.output - 1)
        self.tpot_band = outlook(case.deployment, replace(case.workload, batch=1), case.slo, timer).bands[0]
        room = min(capacity(case.deployment, case.workload, 1).max_concurrency, IN_FLIGHT * self.spread)
        most = search.largest(self._keeps, 0, room)
        # The batch varies about its mean: room for as many more as a standard deviation.
        self.batch = math.floor(most - math.sqrt(most)) if most > 1 else most

    def step(self, batch: int) -> float:
        """A decode step.

        Parameters
        ----------
        batch : requests of the unit [token]

        Returns
        -------
        time [s]
        """
        return float(self.timer.expected(0, 0, batch / self.spread, float(self.case.workload.context)))

    def highest(self) -> float:
        """The highest rate within the limits of a step and the memory; 0 where one request misses them [request/s]."""
        return self.batch * self.accepted / (self.tokens * self.step(self.batch)) if self.batch else 0.0

    def batch_at(self, rate: float) -> int:
        """Decoding requests at a rate, by Little's law.

        Parameters
        ----------
        rate : of arrivals [request/s]

        Returns
        -------
        requests of the unit [token]
        """
        batch = 1
        while batch < self.batch and batch < rate * self.tokens * self.step(batch) / self.accepted:
            batch += 1
        return batch

    def _keeps(self, batch: int) -> bool:
        slo, step = self.case.slo, self.step(batch)
        return (slo.tpot is None or step / self.accepted <= slo.tpot) and (slo.itl is None or step <= slo.itl)
