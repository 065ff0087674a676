"""One kernel on one GPU -> seconds, and what it cannot take less than.

Every kernel is a roofline: arithmetic at a measured fraction of peak, traffic at a measured
fraction of bandwidth, joined by a q-norm (attention: by the larger), plus a time per launch. The fractions and the
launch time come from the GPU's profile, by the kernel's form and dtype.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from chunkcalc import ops
from chunkcalc.records import Allreduce, Hardware, Kernel

RAMP_BYTES = 1e6  # all-reduces reach their bandwidth after about one megabyte
# The arithmetic that runs a weight format: weight-only formats compute in 16 bit.
COMPUTE_DTYPE = {
    "bf16": "bf16", "fp8": "fp8", "fp8_block": "fp8", "int8": "int8", "int4": "bf16", "int4_g32": "bf16",
    "mxfp4": "fp4", "nvfp4": "fp4",
}  # fmt: skip
WEIGHT_ONLY = frozenset(("int4", "int4_g32", "mxfp4"))
# Forms on the 16-bit peak that take the larger of arithmetic and traffic.
ATTENTION_FORMS = frozenset(
    (
        "prefill_attention", "decode_attention", "unified_attention", "mla_prefill", "mla_decode", "mla_absorb",
        "mla_sparse", "recurrent_prefill", "recurrent_decode",
    )
)  # fmt: skip
FILLED_FORMS = frozenset(("prefill_attention", "mla_prefill"))  # few heads leave multiprocessors idle


class Bound(NamedTuple):
    """Times that no engine undercuts, by resource: arithmetic, memory, link [s]."""

    compute: float = 0.0
    memory: float = 0.0
    link: float = 0.0


def peak(hardware: Hardware, dtype: str) -> float | None:
    """Peak arithmetic for weights of a format; None where the GPU cannot compute in it.

    Weight-only formats run at the 16-bit peak where the GPU has no 4-bit arithmetic.

    Parameters
    ----------
    hardware : the GPU
    dtype : weight format

    Returns
    -------
    peak [FLOP/s]
    """
    own = hardware.peak.get(COMPUTE_DTYPE[dtype])
    return hardware.peak["bf16"] if own is None and dtype in WEIGHT_ONLY else own


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
    if form in ATTENTION_FORMS:
        rate = hardware.peak["bf16"]
        if form in FILLED_FORMS and hardware.sms:
            rate = rate * ops.minimum(1.0, kernel.rows / (hardware.tile_rows * hardware.sms))
    else:
        rate = peak(hardware, kernel.dtype) or hardware.peak["bf16"]
    compute = (kernel.flops + found.waste * kernel.waste) / (found.compute * rate)
    memory = kernel.bytes / (found.memory * hardware.bandwidth)
    moved = found.activations * kernel.activation_bytes / hardware.bandwidth
    attention = form in ATTENTION_FORMS
    busy = ops.maximum(compute, memory) if attention else ops.qsum(compute, memory, found.knee)
    return kernel.launches * (busy + moved + found.latency)


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
