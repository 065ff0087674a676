"""The published chunked-prefill equations, one small function each, in their order.

Sources: Agrawal et al., SARATHI, arXiv 2308.16369; Agrawal et al., Sarathi-Serve, arXiv
2403.02310; Zhong et al., DistServe, arXiv 2401.09670. They see a model as one number of
parameters and a GPU as one peak and one bandwidth, and leave out attention arithmetic, links,
launches and achieved efficiencies: read them to understand, decide on the step of `step.py`.

Symbols: c prompt tokens of the step; b decoding requests of mean context s; Psi parameters;
P peak [FLOP/s]; B memory bandwidth [byte/s]; s_p prompt tokens; k chunks. Every function takes
floats, numpy arrays and sympy symbols.
"""

from __future__ import annotations

from typing import Any

from chunkcalc import ops


def step_flops(c: Any, b: Any, Psi: Any) -> Any:
    """E1. Arithmetic of a mixed step: two operations per parameter and token.

    Parameters
    ----------
    c : prompt tokens [token]
    b : decoding requests [token]
    Psi : parameters [1]

    Returns
    -------
    arithmetic of the step [FLOP]
    """
    return 2 * (c + b) * Psi


def weight_bytes(Psi: Any, s_Psi: Any) -> Any:
    """E2. Weights, read once by a step however many tokens it carries.

    Parameters
    ----------
    Psi : parameters [1]
    s_Psi : bytes per parameter [byte]

    Returns
    -------
    weight traffic [byte]
    """
    return s_Psi * Psi


def kv_read_bytes(layers: Any, kv_heads: Any, head_dim: Any, s: Any, b: Any, s_kv: Any) -> Any:
    """E3. KV cache read by the decodes of a step.

    Often printed without the bytes per element; leaving them out halves the traffic of a 16-bit
    cache and moves the optimal chunk of an 8B model with 64 x 4,096 tokens from 863 to 547.

    Parameters
    ----------
    layers : attention layers [1]
    kv_heads : KV heads [1]
    head_dim : head dimension [1]
    s : mean context of the decodes [token]
    b : decoding requests [token]
    s_kv : bytes per cached element [byte]

    Returns
    -------
    KV traffic [byte]
    """
    return 2 * layers * kv_heads * head_dim * s * b * s_kv


def kv_read_of_sequences(b: Any, one: Any) -> Any:
    """E3 for any kind of attention: windows, latent caches and fixed states are what one sequence holds.

    Parameters
    ----------
    b : decoding requests [token]
    one : cache of one sequence at the mean context [byte]

    Returns
    -------
    KV traffic [byte]
    """
    return b * one


def intensity(flops: Any, weight_traffic: Any, kv_traffic: Any) -> Any:
    """E4. Arithmetic intensity of the mixed step.

    Parameters
    ----------
    flops : E1 [FLOP]
    weight_traffic : E2 [byte]
    kv_traffic : E3 [byte]

    Returns
    -------
    intensity [FLOP/byte]
    """
    return flops / (weight_traffic + kv_traffic)


def ridge_intensity(P: Any, B: Any) -> Any:
    """E5. The intensity at which arithmetic and memory take equally long.

    Parameters
    ----------
    P : peak arithmetic [FLOP/s]
    B : memory bandwidth [byte/s]

    Returns
    -------
    ridge point I* [FLOP/byte]
    """
    return P / B


def optimal_chunk(I_star: Any, weight_traffic: Any, kv_traffic: Any, Psi: Any, b: Any) -> Any:
    """E6. The chunk c* at which the step's intensity (E4) reaches the ridge (E5).

    Parameters
    ----------
    I_star : E5 [FLOP/byte]
    weight_traffic : E2 [byte]
    kv_traffic : E3 [byte]
    Psi : parameters [1]
    b : decoding requests [token]

    Returns
    -------
    optimal chunk c* [token]

    Examples
    --------
    An 8B model in bf16 on an H100 without decodes:

    >>> round(optimal_chunk(ridge_intensity(989.4e12, 3.35e12), weight_bytes(8.03e9, 2), 0, 8.03e9, 0))
    295
    """
    return I_star * (weight_traffic + kv_traffic) / (2 * Psi) - b


def compute_time(flops: Any, P: Any) -> Any:
    """E7a. Time of the arithmetic at peak.

    Parameters
    ----------
    flops : E1 [FLOP]
    P : peak arithmetic [FLOP/s]

    Returns
    -------
    compute time [s]
    """
    return flops / P


def memory_time(weight_traffic: Any, kv_traffic: Any, B: Any) -> Any:
    """E7b. Time of the traffic at full bandwidth.

    Parameters
    ----------
    weight_traffic : E2 [byte]
    kv_traffic : E3 [byte]
    B : memory bandwidth [byte/s]

    Returns
    -------
    memory time [s]
    """
    return (weight_traffic + kv_traffic) / B


def step_time(t_compute: Any, t_memory: Any) -> Any:
    """E7. The step takes the longer of its two times.

    Parameters
    ----------
    t_compute : E7a [s]
    t_memory : E7b [s]

    Returns
    -------
    step time [s]
    """
    return ops.maximum(t_compute, t_memory)


def chunk_count(s_p: Any, c: Any) -> Any:
    """E8. Chunks of a prompt.

    Parameters
    ----------
    s_p : prompt [token]
    c : chunk [token]

    Returns
    -------
    chunks k [1]
    """
    return ops.ceil(s_p / c)


def ttft_of_full_steps(k: Any, t_step: Any) -> Any:
    """E9a. Time of k steps that follow each other, each with a full chunk.

    An estimate, and no bound: it charges a short last chunk as a full one, up to one step too much.

    Parameters
    ----------
    k : E8 [1]
    t_step : E7 [s]

    Returns
    -------
    time of the prompt's steps [s]
    """
    return k * t_step


def ttft_bound(s_p: Any, c: Any, t_step: Any) -> Any:
    """E9. Lower bound of the time to first token: no token of the prompt costs less than one of a full chunk.

    E7 grows slower than its chunk, so whatever is left for the last step takes at least its share of a full one.

    Parameters
    ----------
    s_p : prompt [token]
    c : chunk, no more than the prompt [token]
    t_step : E7 [s]

    Returns
    -------
    bound of TTFT [s]
    """
    return s_p / c * t_step


def largest_chunk(tpot: Any, P: Any, Psi: Any, b: Any) -> Any:
    """E10. The chunk (a real number) whose compute time equals the TPOT limit.

    Valid where the memory time (E7b) is within the limit; otherwise no chunk holds it.

    Parameters
    ----------
    tpot : limit of the step time [s]
    P : peak arithmetic [FLOP/s]
    Psi : parameters [1]
    b : decoding requests [token]

    Returns
    -------
    largest chunk c_max [token]
    """
    return tpot * P / (2 * Psi) - b


def smallest_chunk(ttft: Any, s_p: Any, P: Any, Psi: Any, b: Any, t_memory: Any) -> Any:
    """E11. The chunk (a real number) at which the bound of TTFT (E9) equals its limit.

    Valid where the whole prompt in one step is within the limit; otherwise no chunk holds it.

    Parameters
    ----------
    ttft : limit of TTFT [s]
    s_p : prompt [token]
    P : peak arithmetic [FLOP/s]
    Psi : parameters [1]
    b : decoding requests [token]
    t_memory : E7b [s]

    Returns
    -------
    smallest chunk c_min [token]
    """
    t_token = 2 * Psi / P
    return ops.maximum(s_p * t_memory / ttft, s_p * b * t_token / (ttft - s_p * t_token))


def feasible(c_min: Any, c_max: Any, t_memory: Any, tpot: Any) -> Any:
    """E12. Both limits hold for some chunk; otherwise more hardware or disaggregation.

    The traffic has a say too: it is read whatever the chunk, and E10 inverts the arithmetic alone.

    Parameters
    ----------
    c_min : E11 [token]
    c_max : E10 [token]
    t_memory : E7b [s]
    tpot : limit of the step time [s]

    Returns
    -------
    whether a chunk exists [bool]
    """
    return (c_min <= c_max) & (t_memory <= tpot)
