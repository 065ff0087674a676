"""Matrix products with weights: attention projections, dense MLPs, per-layer embeddings.

Tensor parallelism splits the output or the input dimension of each.
"""

from __future__ import annotations

from typing import Any

from chunkcalc.records import Dense, Deployment, Kernel, LayerGroup
from chunkcalc.work import attention
from chunkcalc.work.gemm import Weight, copied, product, split


def mlp(ffn: Dense, hidden: int, tp: int) -> list[Weight]:
    """The weights of a dense MLP on one of tp ranks; gate and up are one product.

    Parameters
    ----------
    ffn : the MLP
    hidden : hidden size [1]
    tp : tensor parallel degree [1]
    """
    width = ffn.intermediate / tp
    return [split((2 if ffn.gated else 1) * width, hidden), split(hidden, width)]


def per_layer_embedding(width: int, hidden: int, tp: int) -> list[Weight]:
    """The weights that add a layer's own embedding: project, gate, project back; on every rank.

    Parameters
    ----------
    width : width of that embedding, 0 where there is none [1]
    hidden : hidden size [1]
    tp : tensor parallel degree [1]
    """
    if not width:
        return []
    return [copied(width, hidden, tp), copied(width, hidden, tp), copied(hidden, width, tp)]


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
    weights = attention.projections(group.attention, hidden, tp)
    out = [product("attention projections", n, weight, precision.attention, launches) for weight in weights]
    if isinstance(group.ffn, Dense):
        out += [product("mlp", n, weight, precision.dense, launches) for weight in mlp(group.ffn, hidden, tp)]
    own = per_layer_embedding(model.per_layer_embedding, hidden, tp)
    return out + [product("per-layer embedding", n, weight, "bf16", launches) for weight in own]
