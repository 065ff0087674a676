"""One kernel on one GPU -> seconds, and what it cannot take less than.

Every kernel is a roofline: arithmetic at a measured fraction of peak, traffic at a measured
fraction of bandwidth, joined by a q-norm (attention: by the larger), plus a time per launch. The fractions and the
launch time come from the GPU's profile, by the kernel's form and dtype.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from chunkcalc import ops
from chunkcalc.catalog.precision import WEIGHT_ONLY, peak
from chunkcalc.records import Allreduce, Efficiency, Hardware, Kernel, Overheads

CACHE_KEEPS = 0.5  # share of the last-level cache that still holds what the kernel before wrote
RAMP_BYTES = 1e6  # all-reduces reach their bandwidth after about one megabyte
# Forms on the 16-bit peak that take the larger of arithmetic and traffic.
ATTENTION_FORMS = frozenset(
    (
        "prefill_attention", "decode_attention", "unified_attention", "mla_prefill", "mla_decode", "mla_absorb",
        "mla_sparse", "recurrent_prefill", "recurrent_decode",
    )
)  # fmt: skip

CACHE_FORMS = frozenset(("decode_attention", "mla_decode", "unified_attention"))


class Bound(NamedTuple):
    """Times that no engine undercuts, by resource: arithmetic, memory, link [s]."""

    compute: float = 0.0
    memory: float = 0.0
    link: float = 0.0


def seconds(kernel: Kernel, hardware: Hardware) -> Any:
    """Expected time of all launches of a kernel.

    Parameters
    ----------
    kernel : its work
    hardware : the GPU, every efficiency of it resolved

    Returns
    -------
    time [s]
    """
    form = kernel.form
    if form == "allreduce":
        return kernel.launches * allreduce_time(kernel.link_bytes, allreduce_fit(hardware, kernel.group))
    if form == "handover":
        return kernel.launches * (hardware.link.latency + kernel.link_bytes / link_bandwidth(hardware, 2))
    found = hardware.efficiency[f"{form}.{kernel.dtype}"]
    attention = form in ATTENTION_FORMS
    rate = hardware.peak["bf16"] if attention else peak(hardware, kernel.dtype) or hardware.peak["bf16"]
    work = kernel.flops * kernel.idle + found.waste * kernel.waste
    if found.fill:  # fewer tiles than multiprocessors take as long as one on each
        work = ops.maximum(work, found.fill * (hardware.sms or 0) * kernel.tile)
    if found.softmax:
        work = work * ops.maximum(1.0, found.softmax / kernel.head_dim)
    compute = work / (found.compute * rate)
    memory = kernel.bytes / (found.memory * hardware.bandwidth)
    if found.cached and hardware.l2:
        hit = CACHE_KEEPS * hardware.l2 / ops.maximum(kernel.resident, CACHE_KEEPS * hardware.l2)
        memory = memory * (1 - hit + hit * found.memory / found.cached)
    moved = found.activations * kernel.activation_bytes / hardware.bandwidth
    busy = ops.maximum(compute, memory) if attention else ops.qsum(compute, memory, found.knee)
    return kernel.launches * (busy + moved + found.latency)


NARROW_EXPERTS = frozenset(("moe.nvfp4", "moe.mxfp4", "moe.int4", "moe.int4_g32"))


def served(hardware: Hardware, overheads: Overheads, engine: str = "") -> Hardware:
    """A GPU as the kernels of an engine's steps see it: its own kernels, captured launches, fused quantisation.

    Parameters
    ----------
    hardware : the GPU, its kernels measured alone
    overheads : of the engine
    engine : whose kernels run, where its own were measured
    """
    if overheads == Overheads() and engine not in hardware.kernels:
        return hardware
    found = hardware.under(engine).items()
    generic = hardware.generic - hardware.kernels.get(engine, {}).keys()
    inside = {key: _scaled(_inside(key, each, overheads), overheads) for key, each in found}
    links = hardware.allreduce
    if overheads.kernels != 1.0:
        slower = max(1.0, overheads.kernels)  # a link is not faster than it was measured
        links = {
            gpus: Allreduce(each.latency * overheads.kernels, each.bandwidth / slower, each.ramp * slower)
            for gpus, each in links.items()
        }
    return replace(hardware, efficiency=inside, allreduce=links, generic=generic)


def _scaled(inside: Efficiency, overheads: Overheads) -> Efficiency:
    """A kernel's constants on a system that is slower or faster than what was measured; never above its peaks."""
    slower, more = overheads.kernels, overheads.prompts
    if slower == more == 1.0:
        return inside
    return inside._replace(
        compute=min(1.0, inside.compute / more), memory=min(1.0, inside.memory / slower),
        latency=inside.latency * slower,
    )  # fmt: skip


def _inside(key: str, alone: Efficiency, overheads: Overheads) -> Efficiency:
    """A kernel's constants inside an engine's step."""
    form = key.split(".", maxsplit=1)[0]
    alone = alone._replace(compute=min(1.0, alone.compute / overheads.arithmetic))
    if form == "moe":
        return alone._replace(
            latency=alone.latency * (overheads.narrow_expert_launches if key in NARROW_EXPERTS else 1.0),
            compute=min(1.0, alone.compute / overheads.experts),
            memory=min(1.0, alone.memory / overheads.experts),
        )
    found = alone._replace(latency=alone.latency * overheads.launches)
    if form == "gemm":
        return found._replace(activations=alone.activations * overheads.quantising)
    if form in CACHE_FORMS:
        return found._replace(memory=min(1.0, alone.memory * overheads.cache))
    return found


def link_bandwidth(hardware: Hardware, gpus: int) -> float:
    """One-way bandwidth that each of a group of GPUs has to the others.

    In a full mesh without a switch each pair has a link of its own, so a small group reaches only
    a part of the total.

    Parameters
    ----------
    hardware : the GPU
    gpus : GPUs of the group [1]

    Returns
    -------
    bandwidth [byte/s]
    """
    link = hardware.link
    return (
        link.bandwidth if link.pair_bandwidth is None else min(link.bandwidth, max(1, gpus - 1) * link.pair_bandwidth)
    )


def allreduce_fit(hardware: Hardware, gpus: int) -> Allreduce:
    """Constants of an all-reduce: those of the next larger measured group, else of the largest.

    Parameters
    ----------
    hardware : the GPU
    gpus : GPUs that take part [1]
    """
    measured = hardware.allreduce
    if 0 in measured:  # the generic one, a share of the link
        share = link_bandwidth(hardware, gpus) / hardware.link.bandwidth
        return measured[0]._replace(bandwidth=measured[0].bandwidth * share)
    return measured.get(gpus) or measured[min((n for n in measured if n >= gpus), default=max(measured))]


def allreduce_time(message: Any, fit: Allreduce) -> Any:
    """Time of one all-reduce.

    Parameters
    ----------
    message : bytes of the message [byte]
    fit : the constants of this many GPUs

    Returns
    -------
    time [s]
    """
    return fit.latency + message / fit.bandwidth + fit.ramp * ops.minimum(message, RAMP_BYTES) / RAMP_BYTES


def bound(kernel: Kernel, hardware: Hardware) -> Bound:
    """What a kernel occupies at least of each resource, at datasheet peaks and nothing else.

    Attention counts at the fastest arithmetic the GPU has for its KV format, weight-only formats
    at the 4-bit peak where there is one.

    Parameters
    ----------
    kernel : its work
    hardware : the GPU

    Returns
    -------
    times by resource [s]
    """
    rate = peak(hardware, kernel.dtype) or hardware.peak["bf16"]
    if kernel.dtype in WEIGHT_ONLY:
        rate = max(rate, hardware.peak.get("fp4", 0.0))
    launches = kernel.launches
    return Bound(
        launches * kernel.least_flops / rate,
        launches * kernel.least_bytes / hardware.bandwidth,
        launches * kernel.least_link_bytes / link_bandwidth(hardware, kernel.group),
    )
