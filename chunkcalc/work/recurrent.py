"""Linear attention and state-space layers: a fixed state per sequence instead of a growing cache.

Gated DeltaNet (arXiv 2412.06464), Kimi delta attention (arXiv 2510.26692) and Mamba-2 (arXiv
2405.21060). Work per token does not grow with the context; a decode reads and writes its whole
state, kept in 32 bit.
"""

from __future__ import annotations

from typing import Any

from chunkcalc.records import Delta, Deployment, Kernel, Mamba2
from chunkcalc.work.gemm import Weight, copied, split

STATE_BYTES = 4  # the recurrent state is kept in fp32
TAIL_BYTES = 2  # the last inputs of the short convolution, 16 bit


def projections(attention: Delta | Mamba2, hidden: int, tp: int) -> list[Weight]:
    """Each weight on one of tp ranks.

    Parameters
    ----------
    attention : the kind
    hidden : hidden size [1]
    tp : tensor parallel degree [1]
    """
    if isinstance(attention, Mamba2):
        inner, groups = _inner(attention), 2 * attention.groups * attention.state
        return [split((2 * inner + groups + attention.heads) / tp, hidden), split(hidden, inner / tp)]
    keys, values = _keys(attention), _values(attention)
    small = attention.value_heads / tp
    out = split(hidden, values / tp)
    if attention.style == "gdn":  # q, k, v, gate; beta and decay per head
        return [split((2 * keys + 2 * values) / tp, hidden), split(2 * small, hidden), out]
    # KDA: a decay per channel and an output gate, each through a rank of one head; beta per head.
    rank = copied(attention.value_dim, hidden, tp)
    decay = [rank, split(keys / tp, attention.value_dim)]
    gate = [split(values / tp, hidden)] if attention.full_gate else [rank, split(values / tp, attention.value_dim)]
    return [split((2 * keys + values) / tp, hidden), split(small, hidden), *decay, *gate, out]


def convolution_parameters(attention: Delta | Mamba2) -> float:
    """Parameters of the short convolution; it is no matrix product [1].

    Parameters
    ----------
    attention : the kind
    """
    return attention.conv * _channels(attention)


def width(attention: Delta | Mamba2, tp: int) -> float:
    """Elements that the convolution and the gates touch per token on one of tp ranks.

    Parameters
    ----------
    attention : the kind
    tp : tensor parallel degree [1]
    """
    return 2 * _channels(attention) / tp


def _inner(attention: Mamba2) -> int:
    return attention.heads * attention.head_dim


def _keys(attention: Delta) -> int:
    return attention.key_heads * attention.key_dim


def _values(attention: Delta) -> int:
    return attention.value_heads * attention.value_dim


def _channels(attention: Delta | Mamba2) -> int:
    """Channels of the short convolution."""
    if isinstance(attention, Mamba2):
        return _inner(attention) + 2 * attention.groups * attention.state
    return 2 * _keys(attention) + _values(attention)


def state_elements(attention: Delta | Mamba2) -> int:
    """Elements of the recurrent state of a sequence [1].

    Parameters
    ----------
    attention : the kind
    """
    if isinstance(attention, Mamba2):
        return _inner(attention) * attention.state
    return _values(attention) * attention.key_dim


def growth_bytes(attention: Delta | Mamba2, kv: str, tp: int) -> float:
    """Nothing grows with the context [byte].

    Parameters
    ----------
    attention : the kind
    kv : KV format
    tp : tensor parallel degree [1]
    """
    return 0.0


def cache_bytes(attention: Delta | Mamba2, kv: str, tp: int, s: Any) -> Any:
    """State and convolution tail of one sequence, whatever its length [byte].

    Parameters
    ----------
    attention : the kind
    kv : KV format; without effect
    tp : tensor parallel degree [1]
    s : context; without effect [token]
    """
    tail = (attention.conv - 1) * _channels(attention) * TAIL_BYTES
    return (state_elements(attention) * STATE_BYTES + tail) / tp


def pairs(attention: Delta | Mamba2, c: Any, p: Any) -> Any:
    """Tokens that update the state: work is per token, not per pair.

    Parameters
    ----------
    attention : the kind
    c : tokens of the chunk [token]
    p : tokens cached before it; without effect [token]
    """
    return c


def prefill_forms(
    deployment: Deployment, attention: Delta | Mamba2, c: Any, p: Any, prompts: Any, launches: Any
) -> list[list[Kernel]]:
    """The scan over a chunk: about four operations per state element and token.

    Parameters
    ----------
    deployment : the replica
    attention : the kind
    c : prompt tokens of the step on this rank [token]
    p : tokens of each prompt cached before; without effect [token]
    prompts : prompts that share the step [1]
    launches : layers of this kind, 0 in a step without prompt tokens [1]
    """
    tp = deployment.parallelism.tp
    flops = 4 * c * state_elements(attention) / tp
    traffic = 2 * prompts * state_elements(attention) * STATE_BYTES / tp
    return [[_scan("prefill attention", "recurrent_prefill", flops, traffic, launches)]]


def decode_kernels(
    deployment: Deployment, attention: Delta | Mamba2, b: Any, s: Any, drafts: Any, launches: Any, unified: bool = False
) -> list[Kernel]:
    """The state of each decode, read and written once.

    Parameters
    ----------
    deployment : the replica
    attention : the kind
    b : decoding requests on this rank [token]
    s : mean context; without effect [token]
    drafts : draft tokens verified per request [token]
    launches : layers of this kind, 0 in a step without decodes [1]
    unified : without effect
    """
    tp = deployment.parallelism.tp
    flops = 4 * b * (1 + drafts) * state_elements(attention) / tp
    traffic = 2 * b * state_elements(attention) * STATE_BYTES / tp
    return [_scan("decode attention", "recurrent_decode", flops, traffic, launches)]


def _scan(name: str, form: str, flops: Any, traffic: Any, launches: Any) -> Kernel:
    return Kernel(name, form, "bf16", flops, traffic, flops, traffic, launches=launches)
