"""How many GPUs carry a rate, in which shape: together, or prefill and decode apart; the cheapest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from chunkcalc.answer.measured import WHERE
from chunkcalc.answer.pools import KV_LINK
from chunkcalc.answer.question import Question
from chunkcalc.answer.records import FEASIBLE
from chunkcalc.answer.resolve import OF_A_GPU, resolve
from chunkcalc.errors import ChunkcalcError
from chunkcalc.frozen import dataclass
from chunkcalc.progress import Progress, silent
from chunkcalc.sizing.money import check_priced
from chunkcalc.sizing.shapes import COLOCATED, DISAGGREGATED, Shape, Unit, describe, every_unit, separated, with_spares

LOOSER = 1.5  # times a limit, to see what it would save


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The answer.

    shapes : cheapest first
    chosen : the cheapest that is sure, else the cheapest; None where none carries the rate
    reasons : why, the runner-up, what would change it
    left_out : shapes that do not count, and why
    spend : the most per hour; None without a limit
    spare : units of each kind that may be lost, included in every shape [1]
    kv_link : bandwidth between prefill and decode units [byte/s]
    """

    question: Question
    rate: float
    shapes: tuple[Shape, ...]
    chosen: Shape | None
    reasons: tuple[str, ...]
    left_out: tuple[str, ...]
    kv_link: float
    spend: float | None = None
    spare: int = 0


def fleet(
    question: Question, gpus: Sequence[tuple[str, float | None]] = (), max_gpus: int | None = None,
    progress: Progress = silent, spend: float | None = None, spare: int = 0,
) -> Fleet:  # fmt: skip
    """Every shape that carries a rate within the limits.

    Parameters
    ----------
    question : with the rate of the whole fleet; tp and pp do not count
    gpus : names and prices per GPU and hour; empty for the question's GPU
    max_gpus : shapes with more are left out, and said to be
    progress : told how far it is
    spend : the most per hour; shapes that cost more are left out, and said to be
    spare : units of each kind that may be lost while the rest still carries the rate [1]

    Raises
    ------
    ChunkcalcError : no rate, no limit, an unknown name
    """
    if question.rate is None:
        raise ChunkcalcError("needs a rate", "--rate", "give the requests per second of the whole fleet")
    if question.ttft is None and question.tpot is None and question.itl is None:
        raise ChunkcalcError("needs a limit", "--ttft", "give --ttft, --tpot or both")
    rate, question = question.rate, _taught(question, (gpus or [(str(question.gpu), None)])[0][0])
    shapes: list[Shape] = []
    left_out: list[str] = []
    named = gpus or [(str(question.gpu), None)]
    check_priced(named, spend)
    whole = len(named) + 1  # the last part: what would change the choice
    for index, (name, price) in enumerate(named):
        try:
            units = list(every_unit(replace(question, gpu=name), price, left_out))
        except ChunkcalcError as error:
            if len(named) == 1 or error.where not in OF_A_GPU:
                raise
            left_out.append(f"{name}: {error.what}")
            continue
        for done, unit in enumerate(units):
            progress(index + done / (len(units) + 1), whole)
            shape = unit.best()
            if shape is None:
                left_out.append(f"{name} {unit.degrees}: a lone request already misses the limits")
            else:
                shapes.append(shape)
        shapes += separated(units, rate)
    progress(whole - 1, whole)
    shapes = [with_spares(shape, spare) for shape in shapes] if spare else shapes
    shapes.sort(key=lambda shape: shape.order)
    kept = [shape for shape in shapes if max_gpus is None or shape.gpus <= max_gpus]
    bought = [shape for shape in kept if spend is None or (shape.cost is not None and shape.cost <= spend)]
    if len(bought) < len(kept):
        least = min(shape.cost for shape in kept if shape.cost is not None)
        left_out.append(f"{len(kept) - len(bought)} shapes cost more than {spend:,.2f} per hour; the cheapest of all "
                        f"costs {least:,.2f}")  # fmt: skip
    if len(kept) < len(shapes):
        fewest = min(shape.gpus for shape in shapes)
        left_out.append(f"{len(shapes) - len(kept)} shapes need more than {max_gpus} GPUs; the smallest has {fewest}")
    kept = bought
    chosen = next((shape for shape in kept if shape.status == FEASIBLE), kept[0] if kept else None)
    return Fleet(
        question=question, rate=rate, shapes=tuple(kept), chosen=chosen,
        reasons=tuple(_reasons(question, kept, chosen)), left_out=tuple(left_out),
        kv_link=question.kv_link or KV_LINK, spend=spend, spare=spare,
    )  # fmt: skip


def _taught(question: Question, gpu: str) -> Question:
    """The question with what its numbers teach of the first GPU; they hold for that one."""
    if not question.measured:
        return question
    if any(each.given("tp") is None for each in question.measured):
        raise ChunkcalcError("a fleet tries every layout, and the number is of one", WHERE, "add for example 'tp 4'")
    return replace(question, taught=resolve(replace(question, gpu=gpu)).question.taught)


def _reasons(question: Question, shapes: Sequence[Shape], chosen: Shape | None) -> Iterator[str]:
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
        words = f"{carried[0]:.3g} against {carried[1]:.3g} requests/s per GPU"
        if apart.gpus == together.gpus and carried[0] > carried[1]:
            yield f"as many GPUs ({apart.gpus}) apart as together, and the simpler shape carries it: {words}"
        else:
            yield f"do not disaggregate: {apart.gpus} GPUs apart against {together.gpus} together, {words}"
    cheaper = next((shape for shape in shapes if shape.order < chosen.order and shape.status != FEASIBLE), None)
    if cheaper is not None and chosen.status == FEASIBLE:
        yield f"{cheaper.gpus} GPUs ({describe(cheaper)}) may do: the limits lie inside the error band; measure"
    yield from _changes(question, chosen)


def _changes(question: Question, chosen: Shape) -> Iterator[str]:
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
        try:
            shape = Unit(replace(asked, **change)).best()
        except ChunkcalcError:
            continue
        if shape is not None and shape.status == chosen.status and shape.gpus < chosen.gpus:
            yield f"{words} would need {shape.gpus} GPU{'s' if shape.gpus > 1 else ''}"
