"""The shapes a fleet can have: replicas of one degree, or pools of prefill and decode units."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

from chunkcalc.answer.demand import Demand, Settled
from chunkcalc.answer.disaggregation import sure
from chunkcalc.answer.question import Question
from chunkcalc.answer.records import FEASIBLE, MARGINAL
from chunkcalc.answer.resolve import Case, resolve
from chunkcalc.engines.capacity import capacity
from chunkcalc.errors import ChunkcalcError
from chunkcalc.frozen import dataclass
from chunkcalc.sizing.pools import DecodeUnit, PrefillUnit
from chunkcalc.time.step import timer_for

COLOCATED, DISAGGREGATED = "colocated", "disaggregated"
MORE = 1.5  # times the replicas that the rate asks for: the error band may want as many


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A fleet that carries the rate.

    kind : colocated or disaggregated
    tp, pp : of a replica, or of a decode unit [1]
    replicas : of both kinds of unit together
    prefill : units and tp of the prefill pool; None where colocated
    budget, chunk : tokens of a step; of a prefill unit where disaggregated [token]
    batch : decoding requests of a replica or decode unit, on average [1]
    max_rate : of the whole fleet within both limits [request/s]
    ttft_s, tpot_s : what the limits judge, at the asked rate
    status : feasible, marginal
    cost : per hour; None without a price
    """

    kind: str
    gpu: str
    tp: int
    pp: int
    replicas: int
    prefill: tuple[int, int] | None
    gpus: int
    budget: int
    chunk: int
    batch: int
    max_rate: float
    ttft_s: float
    tpot_s: float
    status: str
    cost: float | None

    @property
    def order(self) -> tuple[float, float, int, float]:
        """Cheapest first; of equals, those that are sure, the simpler, the one with more to spare."""
        money = self.cost if self.cost is not None else self.gpus
        return money, self.status != FEASIBLE, self.kind != COLOCATED, -self.max_rate


class Unit:
    """One tensor parallel degree on one GPU, under the whole rate."""

    def __init__(self, question: Question, price: float | None = None) -> None:
        self.question, self.price = question, price
        self.case: Case = resolve(question)
        self.timer = timer_for(self.case.deployment, question.draft_tokens)
        self.demand = Demand(self.case, self.timer)
        self.gpus = self.case.deployment.parallelism.gpus
        assert question.rate is not None
        self.rate = question.rate

    def colocated(self) -> Shape | None:
        """The fewest replicas that carry the rate, with the error band to spare where a few more do."""
        most = self.demand.fullest()
        if not most.keeps:
            return None
        low = max(1, math.ceil(self.rate / most.load - 1e-9))
        fewest, high = self._share(low), math.ceil(low * MORE)
        surest = fewest if low == high else self._share(high)
        if surest is None or surest.status != FEASIBLE or (fewest is not None and fewest.status == FEASIBLE):
            return None if fewest is None else self._shape(low, fewest)
        while high - low > 1:  # less load on each is never less sure
            middle = (low + high) // 2
            found = self._share(middle)
            if found is not None and found.status == FEASIBLE:
                high, surest = middle, found
            else:
                low = middle
        return self._shape(high, surest)

    def _share(self, replicas: int) -> Settled | None:
        return Demand(_at_rate(self.case, self.rate / replicas), self.timer).best()

    def _shape(self, replicas: int, best: Settled) -> Shape:
        view, gpus = best.view, replicas * self.gpus
        return Shape(
            kind=COLOCATED, gpu=self.case.deployment.hardware.id, tp=self.question.tp, pp=self.question.pp,
            replicas=replicas, prefill=None, gpus=gpus, budget=best.budget, chunk=best.chunk,
            batch=view.workload.batch, max_rate=replicas * self.demand.highest(best.budget),
            ttft_s=view.expected.ttft(best.chunk),
            tpot_s=view.judged_tpot(view.expected, best.chunk), status=best.status, cost=self.cost(gpus),
        )  # fmt: skip

    def cost(self, gpus: int) -> float | None:
        """Per hour; None without a price."""
        return None if self.price is None else gpus * self.price

    @property
    def degrees(self) -> str:
        """Its degrees in words."""
        return f"tp {self.question.tp}{f' pp {self.question.pp}' if self.question.pp > 1 else ''}"


def _at_rate(case: Case, rate: float) -> Case:
    return replace(case, question=replace(case.question, rate=rate))


def every_unit(question: Question, price: float | None, left_out: list[str]) -> Iterator[Unit]:
    """Every tensor parallel degree within a node; two and more stages where no node holds the model.

    Parameters
    ----------
    question : with the rate of the whole fleet; tp and pp do not count
    price : per GPU and hour; None where there is none
    left_out : gets the degrees that do not count, and why
    """
    node = resolve(replace(question, tp=1, pp=1, ep=1, attention_dp=1)).deployment.hardware.link.gpus_per_node
    degrees = [2**power for power in range(11) if 2**power <= max(1, node)]
    for pp in (1, 2, 4):
        fitting = 0
        for tp in degrees if pp == 1 else degrees[-1:]:
            try:
                unit = Unit(replace(question, tp=tp, pp=pp), price)
            except ChunkcalcError as error:
                left_out.append(f"{question.gpu} tp {tp}: {error.what}")
                continue
            if not capacity(unit.case.deployment, unit.case.workload, unit.demand.step).fits:
                left_out.append(f"{question.gpu} {unit.degrees}: does not fit")
                continue
            fitting += 1
            yield unit
        if fitting:
            return


def separated(units: Sequence[Unit], rate: float, kv_link: float) -> list[Shape]:
    """The best pair of pools of each pair of degrees: whole units that keep up with the rate.

    Parameters
    ----------
    units : of one GPU
    rate : of the whole fleet [request/s]
    kv_link : bandwidth between prefill and decode units [byte/s]
    """
    prefills = [(unit, PrefillUnit(unit.case, unit.timer, kv_link)) for unit in units]
    decodes = [(unit, DecodeUnit(unit.case, unit.timer)) for unit in units]
    able = [(unit, prefill, served) for unit, prefill in prefills if (served := prefill.highest())]
    kept = [(unit, decode, carried) for unit, decode in decodes if (carried := decode.highest())]
    out: list[Shape] = []
    for (first, prefill, served), (second, decode, carried) in product(able, kept):
        x, y = math.ceil(rate / served), math.ceil(rate / carried)
        batch, ttft, gpus = decode.batch_at(rate / y), prefill.ttft(rate / x), x * first.gpus + y * second.gpus
        step, bands = decode.step(batch), (decode.tpot_band, prefill.ttft_band(rate / x))
        certain = sure(first.case.slo, bands, ttft, step, decode.accepted)
        shape = Shape(
            kind=DISAGGREGATED, gpu=first.case.deployment.hardware.id, tp=second.question.tp, pp=second.question.pp,
            replicas=x + y, prefill=(x, first.question.tp), gpus=gpus, budget=prefill.chunk, chunk=prefill.chunk,
            batch=batch, max_rate=min(x * served, y * carried), ttft_s=ttft, tpot_s=step / decode.accepted,
            status=FEASIBLE if certain else MARGINAL, cost=first.cost(gpus),
        )  # fmt: skip
        out.append(shape)
    return out


def describe(shape: Shape) -> str:
    """A shape in a few words."""
    stages = f" pp {shape.pp}" if shape.pp > 1 else ""
    if shape.prefill is None:
        return f"{shape.replicas} x tp {shape.tp}{stages}"
    x, tp = shape.prefill
    return f"{x} prefill x tp {tp}, {shape.replicas - x} decode x tp {shape.tp}{stages}"
