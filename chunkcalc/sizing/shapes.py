"""The shapes a fleet can have: replicas of one degree, or pools of prefill and decode units."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product

from chunkcalc.answer.composition import other_ways
from chunkcalc.answer.demand import Demand, Settled
from chunkcalc.answer.disaggregation import EXACT, whole_units
from chunkcalc.answer.judged import outlook
from chunkcalc.answer.pools import DecodeUnit, Pair, PrefillUnit, paired
from chunkcalc.answer.question import Question
from chunkcalc.answer.records import FEASIBLE, MARGINAL
from chunkcalc.answer.resolve import Case, resolve
from chunkcalc.engines.capacity import capacity
from chunkcalc.errors import ChunkcalcError
from chunkcalc.frozen import dataclass
from chunkcalc.time.search import SLOWEST
from chunkcalc.time.step import timer_for

COLOCATED, DISAGGREGATED = "colocated", "disaggregated"
MOST_TIMES = 64  # the replicas that the rate asks for, up to which sure ones are looked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A fleet that carries the rate.

    kind : colocated or disaggregated
    tp, pp : of a replica, or of a decode unit [1]
    replicas : of both kinds of unit together
    prefill : units, tp and pp of the prefill pool; None where colocated
    budget, chunk : tokens of a step; of a prefill unit where disaggregated [token]
    batch : decoding requests of a replica or decode unit, on average [1]
    max_rate : of the whole fleet within both limits [request/s]
    ttft_s, tpot_s : what the limits judge, at the asked rate
    status : feasible, marginal
    composition : how steps are composed where that is not as the engine does by itself, in words with its flag
    cost : per hour; None without a price
    """

    kind: str
    gpu: str
    tp: int
    pp: int
    replicas: int
    prefill: tuple[int, int, int] | None
    gpus: int
    budget: int
    chunk: int
    batch: int
    max_rate: float
    ttft_s: float
    tpot_s: float
    status: str
    cost: float | None
    composition: str = ""

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

    def best(self) -> Shape | None:
        """The cheapest shape of replicas, however steps are composed where the engine's own way is not sure."""
        own = self.colocated()
        question = self.question
        if question.mixed_chunk or question.prefill_interval or (own is not None and own.status == FEASIBLE):
            return own
        found = [own]
        for way in other_ways(self.case.deployment.engine, question.draft_tokens):
            other = Unit(replace(question, **way.changes), self.price).colocated()
            found.append(None if other is None else replace(other, composition=way.words))
        kept = [shape for shape in found if shape is not None]
        return min(kept, key=lambda shape: (shape.status != FEASIBLE, *shape.order), default=None)

    def colocated(self) -> Shape | None:
        """The fewest replicas that carry the rate with the error bands to spare, else by prediction."""
        most = self.demand.fullest()
        if not most.keeps:
            return None
        low = max(1, math.ceil(self.rate / most.load - EXACT))
        fewest, high = self._share(low), low
        while fewest is None or not fewest.keeps:  # a whole share may round beyond what one carries
            low, high = low + 1, low + 1
            fewest = self._share(low)
        surest: Settled | None = fewest
        while surest is None or surest.status != FEASIBLE:
            high *= 2
            if high > low * MOST_TIMES or self.rate / high < SLOWEST:
                return self._shape(low, fewest)
            surest = self._share(high)
        bound = max(low, high // 2)
        while high - bound > 1:  # less load on each is never less sure
            middle = (bound + high) // 2
            found = self._share(middle)
            if found is not None and found.status == FEASIBLE:
                high, surest = middle, found
            else:
                bound = middle
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
            tpot_s=view.expected.tpot(best.chunk), status=best.status, cost=self.cost(gpus),
        )  # fmt: skip

    def cost(self, gpus: int) -> float | None:
        """Per hour; None without a price."""
        return None if self.price is None else gpus * self.price

    @property
    def degrees(self) -> str:
        """Its degrees in words."""
        return degrees(self.question.tp, self.question.pp)


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


def separated(units: Sequence[Unit], rate: float) -> list[Shape]:
    """The best pair of pools of each pair of degrees: whole units that keep up with the rate.

    Parameters
    ----------
    units : of one GPU
    rate : of the whole fleet [request/s]
    """
    views = [(unit, outlook(unit.case.deployment, unit.case.workload, unit.case.slo, unit.timer)) for unit in units]
    out: list[Shape] = []
    for alike in (True, False):
        prefills = [(unit, PrefillUnit(view, unit.demand.arrivals, alike=alike)) for unit, view in views]
        decodes = [(unit, DecodeUnit(view, alike=alike)) for unit, view in views]
        for (first, prefill), (second, decode) in product(prefills, decodes):
            if (first.question.tp == second.question.tp) == alike:
                pairs = paired(prefill, decode, partial(whole_units, rate), rate)
                out += [_apart(first, second, prefill.chunk, pair) for pair in pairs]
    return out


def _apart(first: Unit, second: Unit, chunk: int, pair: Pair) -> Shape:
    gpus = pair.prefills * first.gpus + pair.decodes * second.gpus
    return Shape(
        kind=DISAGGREGATED, gpu=first.case.deployment.hardware.id, tp=second.question.tp, pp=second.question.pp,
        replicas=pair.prefills + pair.decodes, prefill=(pair.prefills, first.question.tp, first.question.pp),
        gpus=gpus, budget=chunk, chunk=chunk, batch=pair.batch, max_rate=pair.rate, ttft_s=pair.ttft_s,
        tpot_s=pair.tpot_s, status=FEASIBLE if pair.sure else MARGINAL, cost=first.cost(gpus),
    )  # fmt: skip


def with_spares(shape: Shape, spare: int) -> Shape:
    """A shape with units that may be lost; what it carries is what the rest carries.

    Parameters
    ----------
    shape : that carries the rate
    spare : units of each kind more [1]
    """
    each = shape.tp * shape.pp
    more = spare * each
    prefill = shape.prefill
    if prefill is not None:
        more += spare * prefill[1] * prefill[2]
        prefill = (prefill[0] + spare, *prefill[1:])
    gpus = shape.gpus + more
    return replace(
        shape, replicas=shape.replicas + spare * (1 if prefill is None else 2), prefill=prefill, gpus=gpus,
        cost=None if shape.cost is None else shape.cost / shape.gpus * gpus,
    )  # fmt: skip


def degrees(tp: int, pp: int) -> str:
    """The degrees of a unit in words."""
    return f"tp {tp}{f' pp {pp}' if pp > 1 else ''}"


def describe(shape: Shape) -> str:
    """A shape in a few words."""
    each = degrees(shape.tp, shape.pp)
    if shape.prefill is None:
        return f"{shape.replicas} x {each}"
    x, tp, pp = shape.prefill
    return f"{x} prefill x {degrees(tp, pp)}, {shape.replicas - x} decode x {each}"
