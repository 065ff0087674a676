"""Where a step with attention reaches the ridge: E6 with the arithmetic and the reads that it leaves out.

Our derivation for dense models with full attention: E4 with the quadratic attention term of
Sarathi-Serve, arXiv 2403.02310. Letters as in `equations.py`.
"""

from __future__ import annotations

from typing import Any


def flops_less_ridge_per_token(W_lin: Any, a: Any, p: Any, I_star: Any, kappa: Any) -> Any:
    """Arithmetic that the first token of a chunk adds, less what the ridge asks for the cache it writes.

    Parameters
    ----------
    W_lin : matmul parameters touched per token, without embedding and head [1]
    a : attention arithmetic per query and key, all layers: 4 heads head_dim layers [FLOP]
    p : prompt tokens already cached [token]
    I_star : E5 [FLOP/byte]
    kappa : KV cache per token of context, all layers [byte]

    Returns
    -------
    h [FLOP]
    """
    return 2 * W_lin + a * (p + 0.5) - I_star * kappa


def flops_less_ridge_of_decodes(
    W_lin: Any, b: Any, head_flops: Any, a: Any, s: Any, I_star: Any, weight_traffic: Any, kappa: Any, p: Any
) -> Any:
    """Arithmetic of a step's decodes, less what the ridge asks for all that the step reads before a chunk adds to it.

    Parameters
    ----------
    W_lin : matmul parameters touched per token, without embedding and head [1]
    b : decoding requests [token]
    head_flops : arithmetic of the output head [FLOP]
    a : attention arithmetic per query and key, all layers [FLOP]
    s : mean context of the decodes [token]
    I_star : E5 [FLOP/byte]
    weight_traffic : weights read by the step, head included [byte]
    kappa : KV cache per token of context, all layers [byte]
    p : prompt tokens already cached [token]

    Returns
    -------
    g, negative while the step waits for memory [FLOP]
    """
    return 2 * W_lin * b + head_flops + a * b * s - I_star * (weight_traffic + kappa * (b * s + p))


def optimal_chunk_with_attention(a: Any, h: Any, g: Any) -> Any:
    """E6 with attention arithmetic and prefix reads: where the step's intensity reaches the ridge.

    The positive root of (a/2) c^2 + h c + g = 0.

    Parameters
    ----------
    a : attention arithmetic per query and key, all layers [FLOP]
    h : of `flops_less_ridge_per_token` [FLOP]
    g : of `flops_less_ridge_of_decodes` [FLOP]

    Returns
    -------
    optimal chunk [token]
    """
    return ((h**2 - 2 * a * g) ** 0.5 - h) / a
