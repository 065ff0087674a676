"""A deployment under a workload and its limits: every quantity, and the limit on it."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, NamedTuple

from chunkcalc import ops
from chunkcalc.engines.capacity import decode_tokens, largest_step, needed_bytes, pool_bytes
from chunkcalc.frozen import dataclass
from chunkcalc.records import Band, Deployment, Slo, Workload
from chunkcalc.time.search import Limit, RangeBounds
from chunkcalc.time.service import Bounds, Queueing, Service, accepted_tokens, request_overhead
from chunkcalc.time.step import StepTimer, timer_for
from chunkcalc.work.counts import kind

LARGEST_DEFAULT_BUDGET = 16384  # of any engine: chunks beyond it matter only for longer prompts
TINY = 1e-12  # what nothing is divided by
HOPPER_FP8_ALIGNMENT = 256  # fp8 products on Hopper step up by half and more right after these


class Judged(NamedTuple):
    """A latency limit of a deployment.

    name : `ttft`, `tpot` or `itl`
    value : the limit [s]
    band : half-width of the error of what it judges, as a fraction [1]
    """

    name: str
    value: float
    band: float

    def of(self, service: Service, c: int) -> Any:
        """What it judges at a chunk.

        Parameters
        ----------
        service : the reading
        c : chunk [token]

        Returns
        -------
        time [s]
        """
        return {"ttft": service.ttft, "tpot": service.tpot, "itl": service.gap}[self.name](c)

    def bounds(self, service: Service) -> RangeBounds:
        """The same over a range of chunks."""
        return {"ttft": service.ttft_bounds, "tpot": service.tpot_bounds, "itl": service.gap_bounds}[self.name]


def half_widths(timer: StepTimer) -> Band:
    """Half-widths of the errors of a deployment's predictions, wider where less was measured, less where its user did.

    Parameters
    ----------
    timer : of the deployment

    Returns
    -------
    of TPOT, TTFT and the longest gap, as fractions [1]
    """
    deployment = timer.deployment
    widen = 0.10 if timer.uncalibrated else 0.0
    if deployment.parallelism.tp > 1 and deployment.hardware.link.kind.startswith("pcie"):
        widen += 0.10
    shipped = deployment.hardware.bands[deployment.engine.name][kind(deployment.model)]
    tpot, ttft, gap = ((width + widen) * part for width, part in zip(shipped, deployment.narrowed, strict=True))
    return Band(tpot, ttft, max(tpot, gap))


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
        """The reading that no engine undercuts: every draft is accepted, nothing waits."""
        return Service(
            self.timer.floor, self.workload, self.deployment.parallelism, mixed=self._mixed,
            accepted=self.workload.draft_tokens + 1.0, finishing=self.expected.accepted, request_overhead=0.0,
            whole=False, interval=self.deployment.engine.prefill_interval,
            queueing=Queueing(crowding=min(1.0, self.queueing.crowding)),  # fewer prompts than a full batch brings
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
    def error(self) -> Band:
        """Half-widths of the errors of TPOT, TTFT and the gap, as fractions: wider where less was measured."""
        own = half_widths(self.timer)
        return own._replace(ttft=max(own.ttft, self.queueing.error))

    def band(self, limit: str) -> float:
        """Half-width of the error of what a latency limit judges, as a fraction [1]."""
        return float(getattr(self.error, {"itl": "gap"}.get(limit, limit)))

    @property
    def uncalibrated(self) -> tuple[str, ...]:
        """Kernel forms of this deployment that run on generic constants."""
        return self.timer.uncalibrated

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

    @cached_property
    def judged(self) -> tuple[Judged, ...]:
        """The latency limits that were given."""
        named = (("ttft", self.slo.ttft), ("tpot", self.slo.tpot), ("itl", self.slo.itl))
        return tuple(Judged(name, value, self.band(name)) for name, value in named if value is not None)

    def latency_limits(self, service: Service, *, margin: bool = False) -> list[Limit]:
        """The latency limits, tightened by their error bands where a margin is wanted."""
        return [
            Limit(each.name, each.value / (1 + each.band) if margin else each.value, each.bounds(service))
            for each in self.judged
        ]

    def ratios(self, c: int) -> dict[str, float]:
        """Limit over prediction for each latency limit at a chunk; above 1 it holds.

        Parameters
        ----------
        c : chunk [token]
        """
        return {each.name: each.value / each.of(self.expected, c) for each in self.judged}

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
        least = (each.value / each.bounds(self.expected)(low, high, each.value * 100).least for each in self.judged)
        return min(least, default=math.inf)

    def closeness(self, c: int) -> float:
        """Like `headroom`, with memory and the steady state among the limits [1].

        Parameters
        ----------
        c : chunk [token]
        """
        return self.closeness_ceiling(c, c)

    def closeness_ceiling(self, low: int, high: int) -> float:
        """An upper bound of `closeness` over chunks low..high [1].

        Parameters
        ----------
        low, high : range [token]
        """
        rules = (rule.value / max(rule.bounds(low, high, math.inf).least, TINY) for rule in self.rules(self.expected))
        return min(self.headroom_ceiling(low, high), *rules)


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
