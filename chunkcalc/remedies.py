"""The changes that would make the limits hold, cheapest first, each solved again."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from chunkcalc.answer import FEASIBLE, Answer, Remedy
from chunkcalc.catalog import gpus
from chunkcalc.disaggregation import Disaggregation
from chunkcalc.errors import ChunkcalcError
from chunkcalc.outlook import Outlook
from chunkcalc.question import Question
from chunkcalc.units import format_count

MOST = 8
PREFIX_HITS = (0.25, 0.5, 0.75, 0.9)
REPLICAS = (2, 3, 4, 6, 8)
Ask = Callable[[Question], Answer]


class Change(NamedTuple):
    """A change to try: in words, the fields it sets, and how many replicas it needs."""

    words: str
    set: dict[str, Any]
    replicas: int = 1


def remedies(found: Answer, view: Outlook, pools: Disaggregation | None, ask: Ask) -> tuple[Remedy, ...]:
    """At most eight changes whose answer holds, fewest GPUs first.

    Parameters
    ----------
    found : the answer without remedies
    view : its deployment
    pools : disaggregation that meets the limits, where there is one
    ask : answers a question without looking for remedies
    """
    question, out = found.case.question, []
    for family in _families(found, view):
        remedy = _smallest(question, family, ask)
        if remedy is not None and (remedy.verdict == FEASIBLE or not found.holds):
            out.append(remedy)
    if pools is not None:
        out.append(_apart(pools, found))
    out.sort(key=lambda remedy: remedy.gpus)
    return tuple(out[:MOST])


def _smallest(question: Question, family: list[Change], ask: Ask) -> Remedy | None:
    """The first change of a family, from small to large, that is feasible; else that is marginal."""
    marginal = None
    for change in family:
        remedy = _try(question, change, ask)
        if remedy is not None and remedy.verdict == FEASIBLE:
            return remedy
        marginal = marginal or remedy
    return marginal


def _try(question: Question, change: Change, ask: Ask) -> Remedy | None:
    try:
        answer = ask(replace(question, **change.set))
    except ChunkcalcError:
        return None  # such a deployment does not exist: tp beyond the node, a format the GPU lacks
    if not answer.holds:
        return None
    window = answer.window
    ends = None if window.chunk_min is None or window.chunk_max is None else (window.chunk_min, window.chunk_max)
    return Remedy(
        change=change.words, set=change.set, verdict=answer.verdict,
        gpus=answer.case.deployment.parallelism.gpus * change.replicas,
        ttft_s=answer.expected.ttft_s, tpot_s=answer.expected.tpot_s, window=ends,
    )  # fmt: skip


def _apart(pools: Disaggregation, found: Answer) -> Remedy:
    words = (
        f"separate prefill and decode units, {pools.prefill_units} : {pools.decode_units} "
        "(isolates latency; compare throughput at equal GPU count)"
    )
    return Remedy(
        change=words,
        set={},
        verdict=FEASIBLE,
        gpus=pools.gpus,
        ttft_s=pools.ttft_s,
        tpot_s=pools.tpot_s,
        window=None,
    )


def _families(found: Answer, view: Outlook) -> Iterator[list[Change]]:
    """Kinds of change, cheapest first. A new batch or engine is judged at its own best chunk."""
    question, batch = found.case.question, found.workload.batch
    free: dict[str, Any] = {"chunk": None, "budget": None}
    kept = {**free, "batch": batch or None}
    if found.given:
        yield [Change("let the chunk be chosen", kept)]
    if found.case.deployment.engine.composition == "prefill_first":
        yield [
            Change(
                "mix decodes into prompt chunks (--enable-mixed-chunk)",
                {**kept, "mixed_chunk": True},
            )
        ]
    yield [Change(f"batch {size} instead of {batch}", {**free, "batch": size}) for size in _smaller(batch)]
    yield [
        Change(f"prefix cache that holds {100 * hit:.0f}% of each prompt", {**kept, "prefix_hit": hit})
        for hit in PREFIX_HITS
        if hit > question.prefix_hit
    ]
    precision = found.case.deployment.precision
    if precision.kv == "bf16":
        yield [Change("fp8 KV cache", {**kept, "kv": "fp8"})]
    if precision.weights == "bf16":
        yield [Change(f"{name} weights", {**kept, "weights": name}) for name in ("fp8", "nvfp4", "int4")]
    elif precision.weights in ("fp8", "fp8_block"):
        yield [Change("nvfp4 weights", {**kept, "weights": "nvfp4"})]
    node = found.case.deployment.hardware.link.gpus_per_node
    yield [Change(f"tensor parallel {tp}", {**kept, "tp": tp}) for tp in _doublings(question.tp, node)]
    if batch > 1:
        yield [
            Change(
                f"{n} replicas of batch {math.ceil(batch / n)}",
                {**free, "batch": math.ceil(batch / n)},
                n,
            )
            for n in REPLICAS
            if n <= batch
        ]
    yield [Change(f"{name} instead", {**kept, "gpu": name}) for name in _faster(found)]


def _smaller(batch: int) -> list[int]:
    """Batches below this one, largest first, about an eighth apart."""
    return sorted({batch * eighths // 8 for eighths in range(1, 8)} - {0, batch}, reverse=True)


def _doublings(tp: int, node: int) -> list[int]:
    return [tp * 2**power for power in range(1, 6) if tp * 2**power <= node]


def _faster(found: Answer) -> list[str]:
    """Shipped GPUs with more arithmetic or bandwidth than this one, slowest first."""
    mine = found.case.deployment.hardware
    better = [gpu for gpu in gpus() if gpu.bandwidth > mine.bandwidth and gpu.peak["bf16"] >= mine.peak["bf16"]]
    return [gpu.id for gpu in sorted(better, key=lambda gpu: (gpu.bandwidth, gpu.peak["bf16"]))]


def describe(remedy: Remedy) -> str:
    """A remedy in one line.

    Parameters
    ----------
    remedy : the remedy
    """
    window = (
        "" if remedy.window is None else f", window {format_count(remedy.window[0])}-{format_count(remedy.window[1])}"
    )
    return f"{remedy.change}: {remedy.verdict}, {remedy.gpus} GPU{'s' if remedy.gpus > 1 else ''}{window}"
