"""Bounds: what no engine can do on this hardware, and what the memory does not hold."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from chunkcalc.answer.disaggregation import decode_certificate, prefill_certificate
from chunkcalc.answer.judged import Outlook, outlook
from chunkcalc.answer.pools import alone
from chunkcalc.engines.dialects import dialect
from chunkcalc.gate.evaluation import Evaluation
from chunkcalc.gate.exact import make
from chunkcalc.gate.finding import Finding, Fix
from chunkcalc.time.search import first
from chunkcalc.units import format_duration


def bounds(found: Evaluation) -> Iterator[Finding]:
    """Every bound that a deployment violates."""
    if found.case is None:
        return
    view = found.loaded
    certain = [*_prefill(found, view), *_decode(found, view)]
    yield from certain or _pair(found, view)
    yield from _rate(found, view)
    yield from _memory(found)


def _prefill(found: Evaluation, view: Outlook) -> Iterator[Finding]:
    """B01: a prompt alone, in one piece, by datasheet speed."""
    if found.process.role == "decode" or view.slo.ttft is None or not prefill_certificate(view, view.floor, view.slo):
        return
    least = alone(view, view.floor).ttft(view.longest_chunk)
    yield make(found, "B01", f"a prompt of {view.workload.prompt:,} tokens takes at least {format_duration(least)} on "
               f"{found.names()['gpus']} by datasheet speed, whatever the chunk: TTFT {format_duration(view.slo.ttft)} "
               "cannot hold", fix=_more(found, least / view.slo.ttft), size=least / view.slo.ttft)  # fmt: skip


def _decode(found: Evaluation, view: Outlook) -> Iterator[Finding]:
    """B02: the decodes alone, by datasheet speed."""
    if found.process.role == "prefill" or not decode_certificate(view.floor, view.slo):
        return
    least = view.floor.decode_step / view.floor.accepted
    limit = min(x for x in (view.slo.tpot, view.slo.itl) if x is not None)
    batch = view.workload.batch
    decodes = f"{batch} decode{'s' if batch != 1 else ''}"
    yield make(found, "B02", f"reading weights and KV cache for {decodes} takes at least "
               f"{format_duration(least)} a step on {found.names()['gpus']}, without any prompt: "
               f"{format_duration(limit)} per token cannot hold", fix=_more(found, least / limit),
               size=least / limit)  # fmt: skip


def _more(found: Evaluation, ratio: float) -> Fix:
    """More tensor parallelism, by how much the floor is missed."""
    assert found.reading is not None
    tp = found.reading.parallelism.tp
    wanted = tp * 2 ** max(1, math.ceil(math.log2(max(1.01, ratio))))
    node = found.hardware.record.link.gpus_per_node if found.hardware is not None else 8
    if wanted > node:
        return Fix(text=f"more than a node of these GPUs ({node}) is needed: a faster GPU, or lighter weights")
    flag = dialect(found.reading.table.engine).tensor
    return Fix(text=f"{flag} {wanted} at least", flag=flag, value=str(wanted))


def _pair(found: Evaluation, view: Outlook) -> Iterator[Finding]:
    """B03: each limit can hold alone, all together cannot, however the engine composes its steps."""
    if found.process.role != "both" or not (view.slo.ttft and (view.slo.tpot or view.slo.itl)):
        return
    if found.answer is not None and found.answer.window.chunk_min is not None:
        return  # what the prediction allows, the floor allows
    mixing = _mixing(view)
    limits = mixing.latency_limits(mixing.floor)
    if first(limits, 1, view.longest_chunk) is not None:
        return
    stated = {"TTFT": view.slo.ttft, "TPOT": view.slo.tpot, "the longest gap": view.slo.itl}
    said = " and ".join(f"{name} {format_duration(limit)}" for name, limit in stated.items() if limit is not None)
    yield make(found, "B03", f"no chunk meets {said} together on {found.names()['gpus']} at "
               f"{found.at}, even by datasheet speed",
               fix=Fix(text="separate prefill and decode workers, or more tensor parallelism"))  # fmt: skip


def _mixing(view: Outlook) -> Outlook:
    """The deployment with decodes mixed into the chunks, which every engine can be told to do."""
    deployment = view.deployment
    if deployment.engine.composition == "mixed":
        return view
    engine = replace(deployment.engine, composition="mixed", budget_counts_decodes=True, prefill_interval=0)
    return outlook(replace(deployment, engine=engine), view.workload, view.slo)


def _rate(found: Evaluation, view: Outlook) -> Iterator[Finding]:
    """B04: more prompts arrive than the replica can prefill."""
    rate = found.settings.get("rate")
    if rate is None or found.process.role == "decode":
        return
    ranks = found.case.deployment.parallelism.dp if found.case is not None else 1
    prefill = view.floor.prefill
    most = ranks * prefill.rate(found.chunk(view.workload.batch)) / prefill.tokens
    if rate <= most:
        return
    replicas = math.ceil(rate / most)
    yield make(found, "B04", f"{rate:g} requests per second are more than the {most:.3g} whose prompts "
               f"{found.names()['gpus']} can process at best: the queue grows without bound",
               fix=Fix(text=f"at least {replicas} replicas of this load"), size=rate / most)  # fmt: skip


def _memory(found: Evaluation) -> Iterator[Finding]:
    """B05: more requests at once than the KV cache or the engine's limit holds."""
    asked, load = found.load.asked, found.load
    if asked is None or found.process.role == "prefill" or found.reading is None:
        return
    context = found.case.workload.context if found.case is not None else 0
    if asked > load.admits:
        yield make(found, "B05", f"{asked:,} requests at once need more KV cache than there is: it holds "
                   f"{load.admits:,} of {context:,} tokens beside weights and activations; the others wait",
                   found.word("gpu_memory_utilization", "mem_fraction_static", "free_gpu_memory_fraction"),
                   fix=_room(found, asked), size=asked / max(1, load.admits))  # fmt: skip
    elif asked > found.most_running:
        flag = dialect(found.reading.table.engine).requests
        value = str(math.ceil(asked / found.reading.parallelism.dp))
        yield make(found, "B05", f"{asked:,} requests at once are more than the {found.most_running:,} that the engine "
                   "runs: the others wait", found.word("max_num_seqs", "max_running_requests", "max_batch_size"),
                   level="error" if _late(found) else "warning",
                   fix=Fix(text=f"{flag} {value}", flag=flag, value=value),
                   size=asked / found.most_running)  # fmt: skip


def _late(found: Evaluation) -> bool:
    """Whether those beyond the engine's limit of requests wait longer than TTFT allows, even at datasheet speed."""
    view, asked, limit = found.loaded, found.load.asked or 0, found.settings.get("ttft")
    stay = view.workload.output * view.floor.decode_step / view.floor.accepted
    return limit is not None and (asked / found.most_running - 1) * stay > limit


def _room(found: Evaluation, asked: int) -> Fix:
    """The cheapest way to more KV cache: 8-bit cache where that is enough, else replicas."""
    assert found.inspection is not None and found.inspection.deployment is not None
    kv = found.inspection.deployment.precision.kv
    if kv == "bf16" and asked <= 2 * found.load.admits:
        words = dialect(found.inspection.reading.table.engine)
        flag, value = words.cache_type, words.eight_bit_cache
        return Fix(text=f"{flag} {value} about doubles it", flag=flag, value=value)
    if not found.load.admits:
        return Fix(text="more tensor parallelism, or lighter weights")
    return Fix(
        text=f"at most {found.load.admits} requests at once per replica: more replicas, or GPUs with more memory"
    )
