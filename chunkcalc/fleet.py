"""How many GPUs carry a rate, in which shape: together, or prefill and decode apart; the cheapest first."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from chunkcalc.answer import FEASIBLE, MARGINAL
from chunkcalc.capacity import capacity
from chunkcalc.case import Case, resolve
from chunkcalc.demand import Demand, Settled, variation
from chunkcalc.disaggregation import KV_LINK, alone, exposed_transfer, transfer_time
from chunkcalc.errors import ChunkcalcError
from chunkcalc.outlook import outlook
from chunkcalc.question import Question
from chunkcalc.queueing import mean_wait, sum_quantile
from chunkcalc.step import StepTimer

COLOCATED, DISAGGREGATED = "colocated", "disaggregated"
MORE = 1.5  # times the replicas that the rate asks for: the error band may want as many
MOST_BATCH = 1024  # decodes of a rank: the engines' default for requests in flight on a large GPU
HALVINGS = 30
LOOSER = 1.5  # times a limit, to see what it would save
Progress = Callable[[str], None]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The answer.

    shapes : cheapest first
    chosen : the cheapest that is sure, else the cheapest; None where none carries the rate
    reasons : why, the runner-up, what would change it
    left_out : shapes that do not count, and why
    kv_link : bandwidth between prefill and decode units [byte/s]
    """

    question: Question
    rate: float
    shapes: tuple[Shape, ...]
    chosen: Shape | None
    reasons: tuple[str, ...]
    left_out: tuple[str, ...]
    kv_link: float


class _Unit:
    """One tensor parallel degree on one GPU, under the whole rate."""

    def __init__(self, question: Question, price: float | None, kv_link: float) -> None:
        self.question, self.price, self.kv_link = question, price, kv_link
        self.case: Case = resolve(question)
        self.timer = StepTimer(self.case.deployment, question.draft_tokens)
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
        return Demand(replace_rate(self.case, self.rate / replicas), self.timer).best()

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
        """Per hour; None without a price.

        Parameters
        ----------
        gpus : how many
        """
        return None if self.price is None else gpus * self.price

    def prefill(self) -> tuple[float, Callable[[float], float], int] | None:
        """Rate of a prefill unit within TTFT, TTFT at a rate, and its chunk; None where it misses TTFT alone."""
        view = outlook(self.case.deployment, replace(self.case.workload, batch=0), self.case.slo, self.timer)
        service = alone(view, view.expected)
        tokens = service.prefill.tokens
        time, hold = service.prefill.total(tokens), service.prefill.occupancy(tokens)
        layers = sum(group.count for group in self.case.deployment.model.layers)
        moved = transfer_time(self.case.deployment, self.question.prompt, service.prefill.cached, self.kv_link)
        base = time + exposed_transfer(moved, time, layers) + service.request_overhead
        ranks, C = self.case.deployment.parallelism.dp, variation(self.question.prompt, self.question.prompt_p95)

        def ttft(rate: float) -> float:
            wait = mean_wait(rate / ranks, hold, 1.0, C)
            q = self.question.percentile
            if q is None:
                return base + wait
            # Long prompts are slow in themselves: the tail that a colocated replica is judged by, too.
            return base - time + sum_quantile(wait, rate / ranks * hold, time, C, q / 100)

        slo = self.case.slo
        if slo.ttft is not None and ttft(0.0) > slo.ttft:
            return None
        low, high = 0.0, slo.max_utilisation * ranks / hold
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if slo.ttft is None or ttft(middle) <= slo.ttft else (low, middle)
        return low, ttft, tokens

    def decode(self) -> tuple[float, Callable[[float], tuple[int, float, float]]] | None:
        """Rate of a decode unit within TPOT and memory, and batch, step and TPOT at a rate; None where one misses."""
        slo, workload, service = self.case.slo, self.case.workload, self.demand.alone(self.demand.step).view.expected
        spread = self.case.deployment.parallelism.dp * self.case.deployment.parallelism.pp
        accepted = service.accepted

        def step(batch: int) -> float:
            return float(self.timer.expected(0, 0, batch / spread, float(workload.context)))

        def fine(batch: int) -> bool:
            late = slo.tpot is not None and step(batch) / accepted > slo.tpot
            return not late and (slo.itl is None or step(batch) <= slo.itl)

        low, high = 0, capacity(self.case.deployment, workload, 1).max_concurrency
        high = min(high, MOST_BATCH * spread)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if fine(middle) else (low, middle - 1)
        # The batch varies about its mean: room for as many more as a standard deviation.
        mean = math.floor(low - math.sqrt(low)) if low > 1 else low
        if mean < 1:
            return None
        tokens = max(1, workload.output - 1)

        def settle(rate: float) -> tuple[int, float, float]:
            batch = 1
            while batch < mean and batch < rate * tokens * step(batch) / accepted:
                batch += 1
            return batch, step(batch), step(batch) / accepted

        return mean * accepted / (tokens * step(mean)), settle


def replace_rate(case: Case, rate: float) -> Case:
    """The case at another rate.

    Parameters
    ----------
    case : the case
    rate : of the replica [request/s]
    """
    return replace(case, question=replace(case.question, rate=rate))


def fleet(
    question: Question, gpus: Sequence[tuple[str, float | None]] = (), max_gpus: int | None = None,
    kv_link: float = KV_LINK, progress: Progress = lambda _: None,
) -> Fleet:  # fmt: skip
    """Every shape that carries a rate within the limits.

    Parameters
    ----------
    question : with the rate of the whole fleet; tp and pp do not count
    gpus : names and prices per GPU and hour; empty for the question's GPU
    max_gpus : shapes with more are left out, and said to be
    kv_link : bandwidth between prefill and decode units [byte/s]
    progress : told what is looked at

    Raises
    ------
    ChunkcalcError : no rate, no limit, an unknown name
    """
    if question.rate is None:
        raise ChunkcalcError("needs a rate", "--rate", "give the requests per second of the whole fleet")
    if question.ttft is None and question.tpot is None and question.itl is None:
        raise ChunkcalcError("needs a limit", "--ttft", "give --ttft, --tpot or both")
    shapes: list[Shape] = []
    left_out: list[str] = []
    for name, price in gpus or [(str(question.gpu), None)]:
        units = list(_units(replace(question, gpu=name), price, kv_link, left_out, progress))
        found = [(unit, unit.colocated()) for unit in units]
        for unit, shape in found:
            if shape is None:
                left_out.append(f"{name} {_degrees(unit.question)}: a lone request already misses the limits")
        shapes += [shape for _, shape in found if shape is not None]
        progress(f"{name}: prefill and decode apart")
        shapes += _apart(units, question.rate)
    shapes.sort(key=lambda shape: shape.order)
    kept = [shape for shape in shapes if max_gpus is None or shape.gpus <= max_gpus]
    if len(kept) < len(shapes):
        fewest = min(shape.gpus for shape in shapes)
        left_out.append(f"{len(shapes) - len(kept)} shapes need more than {max_gpus} GPUs; the smallest has {fewest}")
    chosen = next((shape for shape in kept if shape.status == FEASIBLE), kept[0] if kept else None)
    return Fleet(
        question=question, rate=question.rate, shapes=tuple(kept), chosen=chosen,
        reasons=tuple(_reasons(question, kept, chosen, progress)), left_out=tuple(left_out), kv_link=kv_link,
    )  # fmt: skip


def _units(
    question: Question, price: float | None, kv_link: float, left_out: list[str], progress: Progress
) -> Iterator[_Unit]:
    """Every tensor parallel degree within a node; two and more stages where no node holds the model."""
    node = resolve(replace(question, tp=1, pp=1, ep=1, attention_dp=1)).deployment.hardware.link.gpus_per_node
    degrees = [2**power for power in range(11) if 2**power <= max(1, node)]
    for pp in (1, 2, 4):
        fitting = 0
        for tp in degrees if pp == 1 else degrees[-1:]:
            progress(f"{question.gpu}: tensor parallel {tp}")
            try:
                unit = _Unit(replace(question, tp=tp, pp=pp), price, kv_link)
            except ChunkcalcError as error:
                left_out.append(f"{question.gpu} tp {tp}: {error.what}")
                continue
            if not capacity(unit.case.deployment, unit.case.workload, unit.demand.step).fits:
                left_out.append(f"{question.gpu} {_degrees(unit.question)}: does not fit")
                continue
            fitting += 1
            yield unit
        if fitting:
            return


def _degrees(question: Question) -> str:
    return f"tp {question.tp}{f' pp {question.pp}' if question.pp > 1 else ''}"


def _apart(units: Sequence[_Unit], rate: float) -> list[Shape]:
    """The best pair of pools of each pair of degrees, whole units that keep up with the rate."""
    out: list[Shape] = []
    prefills = [(unit, able) for unit in units if (able := unit.prefill()) is not None and able[0] > 0]
    decodes = [(unit, kept) for unit in units if (kept := unit.decode()) is not None]
    for (first, (served, ttft, chunk)), (second, (carried, settle)) in product(prefills, decodes):
        x, y = math.ceil(rate / served), math.ceil(rate / carried)
        batch, step, tpot = settle(rate / y)
        gpus, time, slo = x * first.gpus + y * second.gpus, ttft(rate / x), first.case.slo
        tpot_band, ttft_band = first.demand.alone(first.demand.step).view.bands
        sure = (slo.ttft is None or time * (1 + ttft_band) <= slo.ttft) and (
            slo.tpot is None or tpot * (1 + tpot_band) <= slo.tpot
        )
        sure = sure and (slo.itl is None or step * (1 + tpot_band) <= slo.itl)
        shape = Shape(
            kind=DISAGGREGATED, gpu=first.case.deployment.hardware.id, tp=second.question.tp, pp=second.question.pp,
            replicas=x + y, prefill=(x, first.question.tp), gpus=gpus, budget=chunk, chunk=chunk,
            batch=batch, max_rate=min(x * served, y * carried),
            ttft_s=time, tpot_s=tpot, status=FEASIBLE if sure else MARGINAL, cost=first.cost(gpus),
        )  # fmt: skip
        out.append(shape)
    return out


def _reasons(question: Question, shapes: Sequence[Shape], chosen: Shape | None, progress: Progress) -> Iterator[str]:
    if chosen is None:
        return
    together = next((shape for shape in shapes if shape.kind == COLOCATED and shape.status == chosen.status), None)
    apart = next((shape for shape in shapes if shape.kind == DISAGGREGATED and shape.status == chosen.status), None)
    if apart is None:
        yield "do not disaggregate: no pair of pools is as sure of the limits"
    elif together is None:
        yield "disaggregate: no colocated shape is as sure of the limits"
    elif apart.order < together.order and apart.gpus != together.gpus:
        yield f"disaggregate: {apart.gpus} GPUs apart carry what needs {together.gpus} together"
    else:
        carried = [shape.max_rate / shape.gpus for shape in (apart, together)]
        yield (
            f"do not disaggregate: {apart.gpus} GPUs apart against {together.gpus} together, "
            f"{carried[0]:.3g} against {carried[1]:.3g} requests/s per GPU"
        )
    cheaper = next((shape for shape in shapes if shape.order < chosen.order and shape.status != FEASIBLE), None)
    if cheaper is not None and chosen.status == FEASIBLE:
        yield f"{cheaper.gpus} GPUs ({describe(cheaper)}) may do: the limits lie inside the error band; measure"
    yield from _changes(question, chosen, progress)


def _changes(question: Question, chosen: Shape, progress: Progress) -> Iterator[str]:
    """What would save GPUs in the chosen colocated shape."""
    if chosen.kind != COLOCATED:
        return
    asked = replace(question, gpu=chosen.gpu, tp=chosen.tp, pp=chosen.pp)
    tried: list[tuple[str, dict[str, Any]]] = []
    if question.ttft is not None:
        tried.append(("a TTFT limit half as long again", {"ttft": LOOSER * question.ttft}))
    if question.tpot is not None:
        tried.append(("a TPOT limit half as long again", {"tpot": LOOSER * question.tpot}))
    tried += [("fp8 weights", {"weights": "fp8"}), ("fp8 KV cache", {"kv": "fp8"})]
    for words, change in tried:
        progress(words)
        try:
            shape = _Unit(replace(asked, **change), None, KV_LINK).colocated()
        except ChunkcalcError:
            continue
        if shape is not None and shape.status == chosen.status and shape.gpus < chosen.gpus:
            yield f"{words} would need {shape.gpus} GPU{'s' if shape.gpus > 1 else ''}"


def describe(shape: Shape) -> str:
    """A shape in a few words.

    Parameters
    ----------
    shape : the shape
    """
    stages = f" pp {shape.pp}" if shape.pp > 1 else ""
    if shape.prefill is None:
        return f"{shape.replicas} x tp {shape.tp}{stages}"
    x, tp = shape.prefill
    return f"{x} prefill x tp {tp}, {shape.replicas - x} decode x tp {shape.tp}{stages}"
