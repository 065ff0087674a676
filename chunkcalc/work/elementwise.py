"""Norms, rotary embedding, activation functions: small kernels between the products.

They count only in the expected reading: an engine can fuse them away, so the floor leaves them
out (least_bytes = 0).
"""

from __future__ import annotations

from typing import Any

from chunkcalc.records import Dense, Deployment, Kernel, LayerGroup
from chunkcalc.work import attention

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
    tp = deployment.parallelism.tp
    sizes: list[tuple[float, int]] = [
        (NORM_BYTES * deployment.model.hidden, 2 if group.attention.kind != "none" and group.ffn.kind != "none" else 1)
    ]
    if group.attention.kind != "none":
        sizes.append((ROTARY_BYTES * attention.width(group.attention, tp), 1))
    if isinstance(group.ffn, Dense):
        sizes.append((ACTIVATION_BYTES * group.ffn.intermediate / tp, 1))
    return [
        Kernel("elementwise", "elementwise", "bf16", bytes=n * size, launches=times * launches) for size, times in sizes
    ]
