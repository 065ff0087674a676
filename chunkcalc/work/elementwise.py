"""Norms, rotary embedding, activation functions: small kernels between the products.

They count only in the expected reading: an engine can fuse them away, so the floor leaves them
out (least_bytes = 0).
"""

from __future__ import annotations

from typing import Any

from chunkcalc.records import Dense, Deployment, Kernel, LayerGroup
from chunkcalc.work import attention

NORM_BYTES = 8  # residual read and written, activation read and written, 16 bit each, both in place
ROTARY_BYTES = 4  # queries and keys read and written in place
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
    norms = 2 if group.attention.kind != "none" and group.ffn.kind != "none" else 1
    # Bytes per token, the part of them in distinct places, and how often.
    sizes: list[tuple[float, float, int]] = [(NORM_BYTES * deployment.model.hidden, 0.5, norms)]
    if group.attention.kind != "none":
        sizes.append((ROTARY_BYTES * attention.width(group.attention, tp), 0.5, 1))
    if isinstance(group.ffn, Dense):
        sizes.append((ACTIVATION_BYTES * group.ffn.intermediate / tp, 1.0, 1))
    return [
        Kernel(
            "elementwise", "elementwise", "bf16",
            bytes=n * size, resident=n * size * distinct, launches=times * launches,
        )
        for size, distinct, times in sizes
    ]  # fmt: skip
