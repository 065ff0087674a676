"""Mixture of experts: which experts a step touches, and the products they run.

A step reads each *distinct* expert its tokens are routed to once: a chunk of a few hundred tokens
touches nearly all of them, a decode step only some. Rows per expert, n k / E, are the height of
its products, so the knee of a MoE stands E/k times higher than that of a dense model.
"""

from __future__ import annotations

from typing import Any

from chunkcalc import ops
from chunkcalc.records import WEIGHT_BYTES, Deployment, Kernel, LayerGroup, Moe
from chunkcalc.work.gemm import copied, gemm, product

# Routing is skewed, so real steps touch fewer experts than a uniform draw: 0.7-0.85 of them near
# n = E/k, within 10 % elsewhere (measured; physics of the step, docs/architecture.md). The least.
LEAST_COVERAGE = 0.7
# Rows of the busiest rank over the mean after load balancing (measured 1.1-1.3).
BUSIEST_ROWS = 1.25


def distinct_experts(E: Any, k: Any, n: Any) -> Any:
    """Experts that n tokens touch when each draws k of E at random, E (1 - (1 - k/E)^n).

    Parameters
    ----------
    E : experts of a layer [1]
    k : experts per token [1]
    n : tokens [token]

    Returns
    -------
    expected distinct experts [1]

    Examples
    --------
    >>> round(distinct_experts(256, 8, 256), 1)
    255.9
    """
    return E * (1 - (1 - k / E) ** n)


def least_experts(E: Any, k: Any, n: Any) -> Any:
    """A lower bound of the experts read: skewed routing, but never fewer than one token's k.

    Parameters
    ----------
    E : experts of a layer [1]
    k : experts per token [1]
    n : tokens [token]

    Returns
    -------
    experts [1]
    """
    return ops.maximum(LEAST_COVERAGE * distinct_experts(E, k, n), ops.minimum(k * n, k))


def routes(ffn: Moe) -> float:
    """Experts that compute for a token; identity experts take their share of the routes [1].

    Parameters
    ----------
    ffn : the mixture
    """
    return ffn.top_k * ffn.experts / (ffn.experts + ffn.identity_experts)


def kernels(deployment: Deployment, group: LayerGroup, n: Any, n_all: Any, launches: Any) -> list[Kernel]:
    """Router, routed experts and shared experts of a MoE layer.

    Parameters
    ----------
    deployment : the replica
    group : the kind of layer; its ffn is a Moe
    n : tokens of the step on this attention rank [token]
    n_all : tokens of the step over all attention ranks [token]
    launches : layers of this kind [1]
    """
    ffn = group.ffn
    assert isinstance(ffn, Moe)
    model, parallelism, precision = deployment.model, deployment.parallelism, deployment.precision
    out = [product("router", n, copied(ffn.experts, model.hidden, parallelism.tp), "bf16", launches)]
    out.append(
        grouped(
            ffn,
            model.hidden,
            parallelism.stage_gpus,
            parallelism.ep,
            precision.experts,
            n_all,
            launches,
        )
    )
    if ffn.latent:
        out.append(gemm("experts", n, ffn.latent, model.hidden, precision.shared, 2 * launches))
    if ffn.shared_intermediate:
        matrices = 2 if ffn.gated else 1
        width = ffn.shared_intermediate / parallelism.tp
        out.append(gemm("shared experts", n, matrices * width, model.hidden, precision.shared, launches))
        out.append(gemm("shared experts", n, model.hidden, width, precision.shared, launches))
    return out


def grouped(ffn: Moe, hidden: int, gpus: int, ep: int, dtype: str, n: Any, launches: Any) -> Kernel:
    """The grouped products of the routed experts on one GPU.

    Parameters
    ----------
    ffn : the mixture
    hidden : width of the model [1]
    gpus, ep : that share the experts, and over how many of them whole experts spread [1]
    dtype : weight format
    n : tokens over all of them [token]
    launches : layers of this kind [1]
    """
    width = ffn.latent or hidden
    slice_width = ffn.intermediate * ep / gpus
    weights_per_expert = (3 if ffn.gated else 2) * width * slice_width
    expert_bytes = weights_per_expert * WEIGHT_BYTES[dtype]
    top_k = routes(ffn)
    rows = n * top_k / ep
    touched = distinct_experts(ffn.experts, top_k, n) / ep
    useful = 2 * weights_per_expert * rows
    return Kernel(
        "experts", "moe", dtype,
        flops=useful * (BUSIEST_ROWS if ep > 1 else 1.0),
        bytes=expert_bytes * touched,
        least_flops=useful,
        least_bytes=expert_bytes * least_experts(ffn.experts, top_k, n) / ep,
        waste=2 * weights_per_expert * touched,
        activation_bytes=rows * (2 * width + 2 * slice_width) * 2,
        launches=launches,
    )  # fmt: skip
