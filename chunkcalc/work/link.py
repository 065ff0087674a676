"""Traffic between GPUs: all-reduces of tensor parallelism, expert exchange, pipeline hand-over."""

from __future__ import annotations

from typing import Any

from chunkcalc.records import Deployment, Kernel, LayerGroup

BYTES = 2  # activations travel in 16 bit


def kernels(deployment: Deployment, group: LayerGroup, n: Any, n_all: Any, launches: Any) -> list[Kernel]:
    """All-reduces of a layer.

    Without data parallel attention every layer reduces over its tp ranks after attention and after
    the feed-forward part. With it, attention and dense MLPs reduce over tp, and a MoE layer gathers
    and scatters the tokens of all ranks once.

    Parameters
    ----------
    deployment : the replica
    group : the kind of layer
    n : tokens of the step on this attention rank [token]
    n_all : tokens of the step over all attention ranks [token]
    launches : layers of this kind [1]
    """
    parallelism, hidden = deployment.parallelism, deployment.model.hidden
    spread = group.ffn.kind == "moe" and parallelism.dp > 1
    parts = (group.attention.kind != "none") + (group.ffn.kind != "none" and not spread)
    out = []
    if parallelism.tp > 1 and parts:
        out.append(allreduce(n * hidden, parallelism.tp, parts * launches))
    if spread:
        # At least this rank's own tokens must leave it, in 8 bit, but for those routed back to it.
        leaving = n * hidden * (1 - 1 / parallelism.stage_gpus)
        out.append(allreduce(n_all * hidden, parallelism.stage_gpus, launches)._replace(least_link_bytes=leaving))
    return out


def handover(deployment: Deployment, n: Any) -> list[Kernel]:
    """The activations that each pipeline stage sends to the next.

    Parameters
    ----------
    deployment : the replica
    n : tokens of the step on this rank [token]
    """
    stages = deployment.parallelism.pp
    if stages == 1:
        return []
    size = BYTES * n * deployment.model.hidden
    return [Kernel("link", "handover", "bf16", link_bytes=size, least_link_bytes=size, launches=stages - 1)]


def allreduce(elements: Any, gpus: int, launches: Any) -> Kernel:
    """One all-reduce of 16-bit elements.

    Parameters
    ----------
    elements : elements of the message [1]
    gpus : GPUs that take part [1]
    launches : how often it runs in a step [1]
    """
    size = BYTES * elements
    return Kernel("link", "allreduce", "bf16", link_bytes=size, least_link_bytes=size, launches=launches, group=gpus)
