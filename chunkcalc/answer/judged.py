"""A deployment under a workload and its limits: every quantity, and the limit on it."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

from chunkcalc import ops
from chunkcalc.answer.resolve import decode_tokens
from chunkcalc.engines.capacity import largest_step, needed_bytes, pool_bytes
from chunkcalc.frozen import dataclass
from chunkcalc.records import Band, Deployment, Slo, Workload
from chunkcalc.time.search import Limit
from chunkcalc.time.service import Bounds, Queueing, Service, accepted_tokens, request_overhead
from chunkcalc.time.step import StepTimer, timer_for
from chunkcalc.work.counts import kind

LARGEST_DEFAULT_BUDGET = 16384  # of any engine: chunks beyond it matter only for longer prompts
HOPPER_FP8_ALIGNMENT = 256  # fp8 products on Hopper step up by half and more right after these


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """A deployment under a workload and its limits: the quantities and the limits on them."""

    deployment: Deployment
    workload: Workload
    slo: Slo
    timer: StepTimer
    queueing: Queueing

    @cached_property
    def expected(self) -> Service:
        """The predicted reading, with what traffic adds."""
        deployment, workload = self.deployment, self.workload
        return Service(
            self.timer.expected, workload, deployment.parallelism, mixed=self._mixed,
            accepted=accepted_tokens(workload.draft_tokens, workload.draft_acceptance),
            request_overhead=request_overhead(deployment, workload.prompt),
            interval=deployment.engine.prefill_interval, queueing=self.queueing,
        )  # fmt: skip

    @cached_property
    def floor(self) -> Service:
        """The reading that no engine undercuts: every draft accepted, nothing queues."""
        return Service(
            self.timer.floor, self.workload, self.deployment.parallelism, mixed=self._mixed,
            accepted=self.workload.draft_tokens + 1.0, request_overhead=0.0, whole=False,
            interval=self.deployment.engine.prefill_interval,
        )  # fmt: skip

    @property
    def _mixed(self) -> bool:
        return self.deployment.engine.composition == "mixed"

    @property
    def longest_chunk(self) -> int:
        """The largest chunk that makes a difference [token]."""
        return max(self.expected.prefill.tokens, LARGEST_DEFAULT_BUDGET)

    @property
    def aligned(self) -> range:
        """Chunks whose budget is a multiple of the alignment [token]."""
        return self.grid(self.alignment)

    def grid(self, step: int) -> range:
        """Chunks whose budget is a multiple of a step [token].

        Parameters
        ----------
        step : the step [token]
        """
        start = (self.offset // step + 1) * step - self.offset
        return range(start, self.longest_chunk + 1, step)

    @property
    def alignment(self) -> int:
        """Budgets are recommended in multiples of this [token]."""
        fp8 = self.deployment.precision.weights in ("fp8", "fp8_block")
        if fp8 and self.deployment.hardware.arch == "hopper":
            return HOPPER_FP8_ALIGNMENT
        return self.deployment.engine.alignment

    @cached_property
    def offset(self) -> int:
        """Budget less chunk [token]."""
        return decode_tokens(self.deployment, self.workload, self.workload.batch)

    @cached_property
    def bands(self) -> tuple[float, float]:
        """Half-widths of the error of TPOT and TTFT, as fractions [1]."""
        tpot, ttft, _ = self._band
        return tpot, max(ttft, self.expected.queueing.error)

    @cached_property
    def gap_band(self) -> float:
        """Half-width of the error of the longest gap between two tokens, as a fraction [1]."""
        return max(self._band.tpot, self._band.gap)

    def band(self, limit: str) -> float:
        """Half-width of the error of what a latency limit judges, as a fraction [1]."""
        tpot, ttft = self.bands
        return {"ttft": ttft, "tpot": tpot, "itl": self.gap_band}[limit]

    @cached_property
    def _band(self) -> Band:
        """Of this engine and kind of model, wider where less was measured."""
        deployment = self.deployment
        widen = 0.10 if self.uncalibrated else 0.0
        if deployment.parallelism.tp > 1 and deployment.hardware.link.kind.startswith("pcie"):
            widen += 0.10
        return Band(
            *(width + widen for width in deployment.hardware.bands[deployment.engine.name][kind(deployment.model)])
        )

    @property
    def uncalibrated(self) -> tuple[str, ...]:
        """Kernel forms of this deployment that run on generic constants."""
        return self.timer.uncalibrated

    def judged_tpot(self, service: Service, c: int) -> Any:
        """What the TPOT limit judges at a chunk: every step, or the mean.

        Parameters
        ----------
        service : the reading
        c : chunk [token]

        Returns
        -------
        time [s]
        """
        return service.gap(c) / service.accepted if self.slo.tpot_basis == "step" else service.tpot(c)

    def memory_share(self, c: int) -> Any:
        """KV cache needed over KV cache left when the budget allows chunk c.

        Parameters
        ----------
        c : chunk [token]

        Returns
        -------
        share; infinite where the weights alone do not fit [1]
        """
        pool = pool_bytes(self.deployment, *largest_step(self.deployment, self.workload, c))
        needed = needed_bytes(self.deployment, self.workload, self.workload.batch)
        return ops.where(pool > 0, needed / ops.maximum(pool, 1.0), math.inf)

    def rules(self, service: Service) -> list[Limit]:
        """What must hold whatever the latency limits are: memory and a steady state."""
        return [
            self.memory_rule(),
            Limit("utilisation", self.slo.max_utilisation, service.utilisation_bounds),
        ]

    def memory_rule(self) -> Limit:
        """The KV cache of the batch fits beside the activations of the budget."""
        return Limit(
            "memory",
            1.0,
            lambda low, high, _: Bounds(self.memory_share(low), self.memory_share(high)),
        )

    def latency_limits(self, service: Service, *, margin: bool = False) -> list[Limit]:
        """The latency limits, tightened by their error bands where a margin is wanted."""
        slo, out = self.slo, []

        def tightened(name: str, limit: float) -> float:
            return limit / (1 + self.band(name)) if margin else limit

        if slo.ttft is not None:
            out.append(Limit("ttft", tightened("ttft", slo.ttft), service.ttft_bounds))
        if slo.tpot is not None:
            per_step = slo.tpot_basis == "step"
            limit = tightened("tpot", slo.tpot) * (service.accepted if per_step else 1)
            out.append(Limit("tpot", limit, service.gap_bounds if per_step else service.tpot_bounds))
        if slo.itl is not None:
            out.append(Limit("itl", tightened("itl", slo.itl), service.gap_bounds))
        return out

    def ratios(self, c: int) -> dict[str, float]:
        """Limit over prediction for each latency limit at a chunk; above 1 it holds.

        Parameters
        ----------
        c : chunk [token]
        """
        slo, service, out = self.slo, self.expected, {}
        if slo.ttft is not None:
            out["ttft"] = slo.ttft / service.ttft(c)
        if slo.tpot is not None:
            out["tpot"] = slo.tpot / self.judged_tpot(service, c)
        if slo.itl is not None:
            out["itl"] = slo.itl / service.gap(c)
        return out

    def headroom(self, c: int) -> float:
        """The smallest of `ratios`; infinite without limits [1].

        Parameters
        ----------
        c : chunk [token]
        """
        return min(self.ratios(c).values(), default=math.inf)

    def headroom_ceiling(self, low: int, high: int) -> float:
        """An upper bound of `headroom` over chunks low..high [1].

        Parameters
        ----------
        low, high : range [token]
        """
        slo, service = self.slo, self.expected
        ceilings = [math.inf]
        if slo.ttft is not None:
            ceilings.append(slo.ttft / service.ttft_bounds(low, high, slo.ttft * 100).least)
        if slo.tpot is not None:
            per_step = slo.tpot_basis == "step"
            bounds = (service.gap_bounds if per_step else service.tpot_bounds)(low, high, slo.tpot * 100)
            ceilings.append(slo.tpot * (service.accepted if per_step else 1) / bounds.least)
        if slo.itl is not None:
            ceilings.append(slo.itl / service.gap_bounds(low, high, slo.itl * 100).least)
        return min(ceilings)


def outlook(
    deployment: Deployment,
    workload: Workload,
    slo: Slo,
    timer: StepTimer | None = None,
    queueing: Queueing | None = None,
) -> Outlook:
    """Set up both readings of a deployment under a workload.

    Parameters
    ----------
    deployment : the replica
    workload : lengths and batch
    slo : limits
    timer : of the same deployment and drafts, to share what it remembers
    queueing : what traffic adds to the prediction; the floor has none
    """
    timer = timer or timer_for(deployment, workload.draft_tokens)
    return Outlook(
        deployment=deployment, workload=workload, slo=slo, timer=timer, queueing=queueing or Queueing()
    )  # fmt: skip
