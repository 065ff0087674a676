"""Norms, rotary embedding, activation functions: small kernels between the products.

They count only in the expected reading: an engine can fuse them away, so the floor leaves them
out (least_bytes = 0).
"""

from __future__ import annotations

from typing import Any

from chunkcalc.records import Deployment, Kernel, LayerGroup

NORM_BYTES = 8  # residual read and written, activation read and written, 16 bit each
ROTARY_BYTES = 5  # q, k, v read and written in place, v only read into the cache
ACTIVATION_BYTES = 6  # gate and up read, product written


def kernels(deployment: Deployment, group: LayerGroup, n: Any, launches: Any) -> list[Kernel]:
    """Two norms, one rotary kernel and, for a dense MLP, one activation per layer.

    Parameters
    ----------
    deployment : the replica
    group : the kind of layer
    n : tokens of the step on this rank [token]
    launches : layers of this kind [1]
    """
    attention, tp = group.attention, deployment.parallelism.tp
    if attention.kind == "mla":
        width = attention.heads / tp * (attention.nope + attention.rope) + attention.kv_lora + attention.rope
    else:
        width = (attention.heads / tp + 2 * max(attention.kv_heads / tp, 1)) * attention.head_dim
    sizes = [(NORM_BYTES * deployment.model.hidden, 2), (ROTARY_BYTES * width, 1)]
    if group.ffn.kind == "dense":
        sizes.append((ACTIVATION_BYTES * group.ffn.intermediate / tp, 1))
    return [
        Kernel("elementwise", "elementwise", "bf16", bytes=n * size, launches=times * launches) for size, times in sizes
    ]
