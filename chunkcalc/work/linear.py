"""Matrix products with weights: attention projections and dense MLPs, and how many they hold.

FLOPs are 2 * m * out * in for m tokens; a step reads each matrix once. Tensor parallelism splits
the output or the input dimension; KV heads are replicated where there are fewer than ranks, and
MLA's low-rank projections stand on every rank.
"""

from __future__ import annotations

from typing import Any

from chunkcalc.records import WEIGHT_BYTES, Dense, Deployment, Gqa, Kernel, LayerGroup, Mla

# Activation bytes per element that a product of this weight format reads: weight-only formats
# keep 16-bit activations, the others quantise them first.
ACTIVATION_BYTES = {
    "bf16": 2.0, "fp8": 1.0, "fp8_block": 1.0, "int8": 1.0, "int4": 2.0, "mxfp4": 2.0, "nvfp4": 0.5625,
}  # fmt: skip
QUANTISED_ACTIVATIONS = frozenset(("fp8", "fp8_block", "int8", "nvfp4"))


def gemm(name: str, m: Any, out: float, inner: float, dtype: str, launches: Any = 1) -> Kernel:
    """One product of m tokens with an (inner x out) weight matrix.

    Parameters
    ----------
    name : class of work for the breakdown
    m : tokens [token]
    out, inner : dimensions of the weight on this GPU [1]
    dtype : weight format
    launches : times it runs in a step [1]

    Returns
    -------
    the kernel; its waste and quantisation are zero for 16-bit and weight-only formats
    """
    weights = out * inner * WEIGHT_BYTES[dtype]
    activations = m * inner * ACTIVATION_BYTES[dtype] + 2 * m * out
    quantised = 3 * m * inner if dtype in QUANTISED_ACTIVATIONS else 0.0
    flops = 2 * m * out * inner
    return Kernel(
        name, "gemm", dtype, flops, weights + activations, flops, weights,
        quantised_bytes=quantised, launches=launches,
    )  # fmt: skip


def projections(attention: Gqa | Mla, hidden: int, tp: int) -> list[tuple[float, float]]:
    """(out, in) of each attention weight on one of tp ranks, MLA's key-value expansion excluded.

    That expansion is a product with every key it attends to, not with the step's tokens:
    `attention.py` holds it.

    Parameters
    ----------
    attention : the kind
    hidden : hidden size [1]
    tp : tensor parallel degree [1]
    """
    heads = attention.heads / tp
    if attention.kind == "mla":
        head_width = attention.nope + attention.rope
        value_out = (hidden, heads * attention.v_head_dim)
        latent = attention.kv_lora + attention.rope
        if attention.q_lora is None:
            return [(latent + heads * head_width, hidden), value_out]
        return [
            (attention.q_lora + latent, hidden),
            (heads * head_width, attention.q_lora),
            value_out,
        ]
    v_dim = attention.v_head_dim or attention.head_dim
    queries = heads * attention.head_dim * (2 if attention.gate else 1)
    keys_values = 0.0
    if not attention.shares_kv:
        keys_values = kv_heads_per_rank(attention, tp) * (attention.head_dim + v_dim)
    return [(queries + keys_values, hidden), (hidden, heads * v_dim)]


def kv_heads_per_rank(attention: Gqa, tp: int) -> float:
    """KV heads on each rank; a head is replicated where there are fewer heads than ranks.

    Parameters
    ----------
    attention : the kind
    tp : tensor parallel degree [1]
    """
    return max(attention.kv_heads / tp, 1.0)


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


def kernels(deployment: Deployment, group: LayerGroup, n: Any, launches: Any) -> list[Kernel]:
    """Projections of a layer, and its MLP where that is dense, for n tokens.

    Parameters
    ----------
    deployment : the replica
    group : the kind of layer
    n : tokens of the step on this rank [token]
    launches : layers of this kind [1]
    """
    hidden, tp = deployment.model.hidden, deployment.parallelism.tp
    precision = deployment.precision
    out = [
        gemm("attention projections", n, rows, columns, precision.attention, launches)
        for rows, columns in projections(group.attention, hidden, tp)
    ]
    if group.ffn.kind == "dense":
        out += [
            gemm("mlp", n, rows, columns, precision.dense, launches) for rows, columns in mlp(group.ffn, hidden, tp)
        ]
    return out
