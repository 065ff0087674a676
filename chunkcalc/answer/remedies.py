"""The changes that would make the limits hold, cheapest first, each solved again."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from chunkcalc.answer.composition import other_ways
from chunkcalc.answer.disaggregation import Disaggregation
from chunkcalc.answer.question import Question
from chunkcalc.answer.records import FEASIBLE, MARGINAL, Answer, Load, Remedy
from chunkcalc.catalog.lookup import gpus
from chunkcalc.errors import ChunkcalcError
from chunkcalc.progress import Progress, silent
from chunkcalc.units import format_count

MOST = 8
MORE_REPLICAS = 3  # than the rate within the limits asks for: the error band may want them
PREFIX_HITS = (0.25, 0.5, 0.75, 0.9)
FREE: dict[str, Any] = {"chunk": None, "budget": None}
Ask = Callable[[Question], Answer | None]  # the answer where it holds


class Change(NamedTuple):
    """A change to try: the fields it sets, and in words, which may name {budget} and {batch}."""

    words: str
    set: dict[str, Any]
    replicas: int = 1


def remedies(found: Answer, pools: Disaggregation | None, ask: Ask, progress: Progress = silent) -> tuple[Remedy, ...]:
    """At most eight changes whose answer holds, fewest GPUs first; one alone where it is free.

    Parameters
    ----------
    found : the answer without remedies
    pools : disaggregation that meets the limits, where there is one
    ask : answers a question whose limits hold
    progress : told how many kinds of change were tried, of how many
    """
    question, settings = found.case.question, []
    for change in _settings(found):
        remedy = _try(question, change, ask)
        if remedy is not None and remedy.verdict == FEASIBLE:
            return (remedy,)
        if remedy is not None and not found.holds:
            settings.append(remedy)
    out = [*settings, *_smaller_batch(found, ask)]
    families = list(_families(found))
    for done, family in enumerate(families):
        progress(done, len(families) + 1)
        out += _smallest(question, family, ask, found)
    progress(len(families), len(families) + 1)
    if not out:
        out += _smallest(question, _combined(found), ask, found)
    if pools is not None:
        out.append(_apart(pools, found))
    out.sort(key=lambda remedy: remedy.gpus)
    return tuple(out[:MOST])


def _smallest(question: Question, family: list[Change], ask: Ask, found: Answer) -> list[Remedy]:
    """The first change of a family, from small to large, that is feasible; else that is marginal.

    A marginal answer is only mended by a feasible one.
    """
    marginal: list[Remedy] = []
    for change in family:
        remedy = _try(question, change, ask)
        if remedy is not None and remedy.verdict == FEASIBLE:
            return [remedy]
        if remedy is not None and not marginal and not found.holds:
            marginal = [remedy]
    return marginal


def _try(question: Question, change: Change, ask: Ask) -> Remedy | None:
    try:
        answer = ask(replace(question, **change.set))
    except ChunkcalcError:
        return None  # such a deployment does not exist: tp beyond the node, a format the GPU lacks
    return _remedy(change, answer) if answer is not None and answer.holds else None


def _remedy(change: Change, answer: Answer) -> Remedy:
    window = answer.window
    ends = None if window.chunk_min is None or window.chunk_max is None else (window.chunk_min, window.chunk_max)
    words = change.words.format(budget=format_count(answer.budget), batch=answer.workload.batch)
    return Remedy(
        change=words, set=change.set, verdict=answer.verdict,
        gpus=answer.case.deployment.parallelism.gpus * change.replicas,
        ttft_s=answer.expected.ttft_s, tpot_s=answer.expected.tpot_s, window=ends,
    )  # fmt: skip


def _smaller_batch(found: Answer, ask: Ask) -> list[Remedy]:
    """The largest batch that holds, and as many replicas of it as carry the whole load."""
    if found.load is not None:
        return _replicas(found, found.load, ask)
    batch = found.workload.batch
    if batch <= 1:
        return []
    answer = ask(replace(found.case.question, **FREE, batch=None))
    if answer is None or answer.verdict != FEASIBLE or answer.workload.batch >= batch:
        return []
    most = answer.workload.batch
    out = [_remedy(Change(f"batch {{batch}} instead of {batch}", {**FREE, "batch": most}), answer)]
    count = math.ceil(batch / most)
    share = math.ceil(batch / count)
    change = Change(f"{count} replicas of batch {share}", {**FREE, "batch": share}, count)
    replicas = _try(found.case.question, change, ask)
    return out if replicas is None else [*out, replicas]


def _replicas(found: Answer, load: Load, ask: Ask) -> list[Remedy]:
    """As many replicas as carry the traffic: first by what one carries, then one more where that is not sure."""
    name, asked = ("rate", load.rate) if load.users is None else ("concurrency", load.users)
    if not load.highest or asked is None:
        return []
    out = []
    for count in range(max(2, math.ceil(asked / load.highest)), math.ceil(asked / load.highest) + MORE_REPLICAS):
        share = asked / count if name == "rate" else math.ceil(asked / count)
        words = f"{count} replicas, {share:.3g} {'requests/s' if name == 'rate' else 'users'} each, budget {{budget}}"
        remedy = _try(found.case.question, Change(words, {**FREE, name: share}, count), ask)
        if remedy is not None:
            out.append(remedy)
        if remedy is not None and remedy.verdict == FEASIBLE:
            break
    return out


def _apart(pools: Disaggregation, found: Answer) -> Remedy:
    words = (
        f"separate prefill and decode units, {pools.prefill_units} : {pools.decode_units} "
        "(isolates latency; compare throughput at equal GPU count)"
    )
    return Remedy(
        change=words,
        set={},
        verdict=FEASIBLE if pools.sure else MARGINAL,
        gpus=pools.gpus,
        ttft_s=pools.ttft_s,
        tpot_s=pools.tpot_s,
        window=None,
    )


def _kept(found: Answer) -> dict[str, Any]:
    """A changed deployment keeps the batch, or the traffic, and finds its own chunk."""
    if found.load is not None:
        return FREE
    return {**FREE, "batch": found.workload.batch or None}


def _settings(found: Answer) -> Iterator[Change]:
    """Changes of the engine's settings alone."""
    kept = _kept(found)
    if found.given:
        yield Change(f"budget {{budget}} instead of {format_count(found.budget)}", kept)
    engine = found.case.deployment.engine
    for words, changes, _ in other_ways(engine, found.workload.draft_tokens):
        yield Change(f"{words}, budget {{budget}}", {**kept, **changes})


def _families(found: Answer) -> Iterator[list[Change]]:
    """Kinds of change on the same deployment or on a larger one, each from small to large."""
    question, kept = found.case.question, _kept(found)
    precision = found.case.deployment.precision
    yield [
        Change(f"prefix cache that holds {100 * hit:.0f}% of each prompt", {**kept, "prefix_hit": hit})
        for hit in PREFIX_HITS
        if hit > question.prefix_hit
    ]
    if precision.kv == "bf16":
        yield [Change("fp8 KV cache", {**kept, "kv": "fp8"})]
    yield [Change(f"{name} weights", {**kept, "weights": name}) for name in _lighter(precision.weights)]
    node = found.case.deployment.hardware.link.gpus_per_node
    yield [Change(f"tensor parallel {tp}", {**kept, "tp": tp}) for tp in _doublings(question.tp, node)]
    if not found.capacity.fits:
        yield [Change(f"pipeline parallel {pp}", {**kept, "pp": pp}) for pp in _doublings(question.pp, 8)]
    yield [Change(f"{name} instead", {**kept, "gpu": name}) for name in _faster(found)]


def _combined(found: Answer) -> list[Change]:
    """Two changes at once, tried where none alone is enough."""
    kept, question = _kept(found), found.case.question
    node = found.case.deployment.hardware.link.gpus_per_node
    degrees = _doublings(question.tp, node)
    out = [
        Change(f"{name} weights and fp8 KV cache", {**kept, "weights": name, "kv": "fp8"})
        for name in _lighter(found.case.deployment.precision.weights)
    ]
    for name in _lighter(found.case.deployment.precision.weights):
        words = "tensor parallel {tp}, {name} weights"
        out += [Change(words.format(tp=tp, name=name), {**kept, "tp": tp, "weights": name}) for tp in degrees]
    for gpu in _faster(found):
        out += [Change(f"tensor parallel {tp} on {gpu}", {**kept, "tp": tp, "gpu": gpu}) for tp in degrees]
    return out


def _lighter(weights: str) -> tuple[str, ...]:
    """Formats with fewer bytes per weight that engines serve widely."""
    return {"bf16": ("fp8", "nvfp4", "int4"), "fp8": ("nvfp4",), "fp8_block": ("nvfp4",)}.get(weights, ())


def _doublings(tp: int, node: int) -> list[int]:
    return [tp * 2**power for power in range(1, 6) if tp * 2**power <= node]


def _faster(found: Answer) -> list[str]:
    """Shipped GPUs of the same vendor with more bandwidth and no less arithmetic, slowest first.

    Only those whose figures are sure, and where the vendor has measured ones, only these.
    """
    mine = found.case.deployment.hardware
    sure = [gpu for gpu in gpus() if gpu.vendor == mine.vendor and gpu.confidence == "A"]
    measured = [gpu for gpu in sure if "gemm.bf16" not in gpu.generic]
    better = [
        gpu for gpu in measured or sure if gpu.bandwidth > mine.bandwidth and gpu.peak["bf16"] >= mine.peak["bf16"]
    ]
    return [gpu.id for gpu in sorted(better, key=lambda gpu: (gpu.bandwidth, gpu.peak["bf16"]))]


def describe(remedy: Remedy) -> str:
    """A remedy in one line."""
    window = (
        "" if remedy.window is None else f", window {format_count(remedy.window[0])}-{format_count(remedy.window[1])}"
    )
    return f"{remedy.change}: {remedy.verdict}, {remedy.gpus} GPU{'s' if remedy.gpus > 1 else ''}{window}"
