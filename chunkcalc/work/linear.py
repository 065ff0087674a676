"""Matrix products with weights: attention projections, dense MLPs, per-layer embeddings.

Tensor parallelism splits the output or the input dimension of each.
"""

from __future__ import annotations

from typing import Any

from chunkcalc.records import Dense, Deployment, Kernel, LayerGroup
from chunkcalc.work import attention
from chunkcalc.work.gemm import gemm


def mlp(ffn: Dense, hidden: int, tp: int) -> list[tuple[float, float]]:
    """(out, in) of the weights of a dense MLP on one of tp ranks; gate and up are one product.

    Parameters
    ----------
    ffn : the MLP
    hidden : hidden size [1]
    tp : tensor parallel degree [1]
    """
    width = ffn.intermediate / tp
    return [((2 if ffn.gated else 1) * width, hidden), (hidden, width)]


def per_layer_embedding(width: int, hidden: int) -> list[tuple[float, float]]:
    """(out, in) of the weights that add a layer's own embedding: project, gate, project back.

    Parameters
    ----------
    width : width of that embedding, 0 where there is none [1]
    hidden : hidden size [1]
    """
    return [(width, hidden), (width, hidden), (hidden, width)] if width else []


def kernels(deployment: Deployment, group: LayerGroup, n: Any, launches: Any) -> list[Kernel]:
    """Projections of a layer, and its MLP where that is dense, for n tokens.

    Parameters
    ----------
    deployment : the replica
    group : the kind of layer
    n : tokens of the step on this rank [token]
    launches : layers of this kind [1]
    """
    model, tp = deployment.model, deployment.parallelism.tp
    precision, hidden = deployment.precision, deployment.model.hidden
    out = [
        gemm("attention projections", n, rows, columns, precision.attention, launches)
        for rows, columns in attention.projections(group.attention, hidden, tp)
    ]
    if isinstance(group.ffn, Dense):
        out += [
            gemm("mlp", n, rows, columns, precision.dense, launches) for rows, columns in mlp(group.ffn, hidden, tp)
        ]
    return out + [
        gemm("per-layer embedding", n, rows, columns, "bf16", launches)
        for rows, columns in per_layer_embedding(model.per_layer_embedding, hidden)
    ]
