"""What hardware could do at best: a lone request on the floor of every shipped GPU of a vendor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from chunkcalc.answer.disaggregation import decode_certificate, outlook_for, prefill_certificate
from chunkcalc.answer.judged import Outlook
from chunkcalc.catalog.lookup import gpus
from chunkcalc.catalog.precision import peak, precision_for
from chunkcalc.engines import engine_for
from chunkcalc.engines.capacity import needed_bytes
from chunkcalc.frozen import remembered
from chunkcalc.records import WEIGHT_BYTES, Hardware, Parallelism
from chunkcalc.work import attention, counts

ANNOUNCED = "C"  # confidence of figures of what is not shipped yet
FREE_LINK = 1e30  # bandwidth of a link that costs nothing [byte/s]


@partial(remembered, most=4)
def reached(view: Outlook) -> str | None:
    """The least hardware of the vendor on whose floor a lone request keeps the limits; None where none does.

    The GPU of the deployment comes first, then faster ones. Without the link a floor only falls with more GPUs, so a
    GPU and format that fail so at the largest number fail at every number; and a GPU that is no better in any figure
    than one that fails is not looked at.
    """
    lone = replace(view, workload=replace(view.workload, batch=min(1, view.workload.batch)))
    own, failed = view.deployment.hardware.id, list[Hardware]()
    order = sorted(_shipped(view), key=lambda gpu: (gpu.id != own, gpu.bandwidth))
    fastest = order[-1]  # where nothing holds, it fails for all that it is better than
    for hardware in (order[0], fastest, *order[1:]):
        if any(_no_better(hardware, other) for other in failed):
            continue
        found = _on(lone, hardware)
        if found is None:
            failed.append(hardware)
        elif hardware is not fastest or hardware is order[0]:
            return found
    return None if fastest in failed else _on(lone, fastest)


def _on(view: Outlook, hardware: Hardware) -> str | None:
    """The fewest GPUs of a kind, and the heaviest format, on whose floor the limits hold."""
    for weights in _formats(hardware):
        degrees = list(_degrees(view, hardware))
        if _keeps(view, _linkless(hardware), degrees[0], weights):
            for tp in reversed(degrees):
                if _keeps(view, hardware, tp, weights):
                    return f"{tp} x {hardware.id} ({weights})"
    return None


def _shipped(view: Outlook) -> list[Hardware]:
    own = view.deployment.hardware
    others = [gpu for gpu in gpus() if gpu.vendor == own.vendor and gpu.confidence != ANNOUNCED and "bf16" in gpu.peak]
    return others if any(gpu.id == own.id for gpu in others) else [*others, own]


def _no_better(hardware: Hardware, other: Hardware) -> bool:
    return (
        hardware.bandwidth <= other.bandwidth
        and hardware.memory <= other.memory
        and max(hardware.link.domain, hardware.link.gpus_per_node) <= max(other.link.domain, other.link.gpus_per_node)
        and all(rate <= other.peak.get(dtype, 0.0) for dtype, rate in hardware.peak.items())
    )


def _formats(hardware: Hardware) -> Iterator[str]:
    """Formats that the GPU computes in, the heaviest first."""
    able = [name for name in WEIGHT_BYTES if peak(hardware, name) is not None]
    yield from sorted(able, key=lambda name: -WEIGHT_BYTES[name])


def _degrees(view: Outlook, hardware: Hardware) -> Iterator[int]:
    """Numbers of GPUs that divide the attention heads, the most first."""
    heads = [attention.heads(group.attention) for group in view.deployment.model.layers]
    most = max(hardware.link.domain, hardware.link.gpus_per_node)
    yield from (n for n in range(most, 0, -1) if all(count % n == 0 for count in heads))


def _linkless(hardware: Hardware) -> Hardware:
    link = replace(hardware.link, bandwidth=FREE_LINK, pair_bandwidth=None)
    return replace(hardware, link=link)


def _keeps(view: Outlook, hardware: Hardware, tp: int, weights: str) -> bool:
    kv = "fp8" if "fp8" in hardware.peak else view.deployment.precision.kv
    parallelism = Parallelism(tp=tp)
    other = outlook_for(
        view, hardware=hardware, parallelism=parallelism, precision=precision_for(view.deployment.model, weights, kv),
        engine=engine_for(view.deployment.engine.name, hardware, view.deployment.engine.version, parallelism),
    )  # fmt: skip
    held = counts.gpu_weight_bytes(other.deployment.model, other.deployment.precision, parallelism)
    if held + needed_bytes(other.deployment, other.workload, other.workload.batch) > hardware.memory:
        return False
    floor, slo = other.floor, other.slo
    return not decode_certificate(floor, slo) and not prefill_certificate(other, floor, slo)
