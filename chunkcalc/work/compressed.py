"""Compressed attention of DeepSeek V4: a short raw window, and behind it one entry per `ratio` tokens.

Every layer keeps the last `window` tokens as they are. Compressed sparse layers (ratio 4) add one
entry per 4 tokens and read the best `top_k` of them, picked by an indexer over compressed keys;
heavily compressed layers (ratio 128) read all of their few entries. One key-value head serves all
query heads, and keys are values. The output is projected in groups through a low rank, and the
residual stream is widened (hyper-connections).
Sources: configuration class of huggingface/transformers 5.24; DeepSeek V4 report, section 2.
"""

from __future__ import annotations

from typing import Any

from chunkcalc import ops
from chunkcalc.records import KV_BYTES, Compressed, Deployment, Kernel
from chunkcalc.work import indexer
from chunkcalc.work.gemm import Weight, copied, split
from chunkcalc.work.gqa import full_rows, idle, prefill_kernel, tile_padding
from chunkcalc.work.pairs import causal_pairs, window_pairs


def projections(attention: Compressed, hidden: int, tp: int) -> list[Weight]:
    """Each weight on one of tp ranks: queries, keys, grouped output, compressors, indexer.

    A sparse layer's compressor has two overlapping branches, each with values and gates; the
    indexer has a compressor of its own.

    Parameters
    ----------
    attention : the kind
    hidden : hidden size [1]
    tp : tensor parallel degree [1]
    """
    heads_out = attention.heads / tp * attention.head_dim
    out = [
        copied(attention.q_lora + attention.head_dim, hidden, tp),
        split(heads_out, attention.q_lora),
        split(attention.o_lora, heads_out),
        split(hidden, attention.o_groups * attention.o_lora / tp),
    ]
    if attention.ratio:
        branches = 4 if attention.indexer else 2
        out.append(copied(branches * attention.head_dim, hidden, tp))
    if attention.indexer:
        out += indexer.projections(attention.indexer, hidden, attention.q_lora, tp)
        out.append(copied(3 * attention.indexer.dim, hidden, tp))  # the first of its four branches stands above
    mixing = attention.hyper_connections
    if mixing:
        # Two mappings per layer: read, write and mix `mixing` copies of the residual stream.
        out.append(copied(2 * (mixing**2 + 2 * mixing), mixing * hidden, tp))
    return out


def width(attention: Compressed, tp: int) -> float:
    """Elements of queries and the one key-value head per token on one of tp ranks.

    Parameters
    ----------
    attention : the kind
    tp : tensor parallel degree [1]
    """
    return (attention.heads / tp + 1) * attention.head_dim


def _row_bytes(attention: Compressed, kv: str) -> float:
    return attention.head_dim * KV_BYTES[kv]


def growth_bytes(attention: Compressed, kv: str, tp: int) -> float:
    """Cache per token of context beyond the window [byte].

    Parameters
    ----------
    attention : the kind
    kv : KV format
    tp : tensor parallel degree [1]
    """
    if not attention.ratio:
        return 0.0
    return (_row_bytes(attention, kv) + indexer.cache_row_bytes(attention.indexer)) / attention.ratio


def cache_bytes(attention: Compressed, kv: str, tp: int, s: Any) -> Any:
    """Cache of one sequence of s tokens [byte].

    Parameters
    ----------
    attention : the kind
    kv : KV format
    tp : tensor parallel degree [1]
    s : context [token]
    """
    return ops.minimum(s, attention.window) * _row_bytes(attention, kv) + s * growth_bytes(attention, kv, tp)


def pairs(attention: Compressed, c: Any, p: Any) -> Any:
    """(query, entry) pairs of a chunk: the raw window, and the compressed entries before it.

    Parameters
    ----------
    attention : the kind
    c : tokens of the chunk [token]
    p : tokens cached before it [token]
    """
    near = window_pairs(c, p, attention.window)
    if not attention.ratio:
        return near
    # One entry per `ratio` tokens: both the count and its limit scale, so the sum does.
    far = causal_pairs(c, p) if not attention.top_k else window_pairs(c, p, attention.top_k * attention.ratio)
    return near + far / attention.ratio


def visible(attention: Compressed, s: Any) -> Any:
    """Entries that a query at context s reads.

    Parameters
    ----------
    attention : the kind
    s : context [token]
    """
    near = ops.minimum(s, attention.window)
    if not attention.ratio:
        return near
    far = s / attention.ratio
    return near + (ops.minimum(far, attention.top_k) if attention.top_k else far)


def prefill_forms(
    deployment: Deployment, attention: Compressed, c: Any, p: Any, prompts: Any, launches: Any
) -> list[list[Kernel]]:
    """The one way to attend to a chunk: its kernels.

    Parameters
    ----------
    deployment : the replica
    attention : the kind
    c : prompt tokens of the step on this rank [token]
    p : tokens of each prompt cached before [token]
    prompts : prompts that share the step, at least 1; may be fractional [1]
    launches : layers of this kind, 0 in a step without prompt tokens [1]
    """
    tp, kv = deployment.parallelism.tp, deployment.precision.kv
    heads, share = attention.heads / tp, c / prompts
    per_pair = 4 * heads * attention.head_dim
    useful = per_pair * prompts * pairs(attention, share, p)
    traffic = prompts * (visible(attention, p) + share) * _row_bytes(attention, kv)
    form = "mla_sparse" if attention.top_k else "prefill_attention"
    core = prefill_kernel(form, kv, useful, tile_padding(deployment, share), traffic, traffic / tp, launches)
    if not attention.top_k:
        core = core._replace(
            idle=idle(deployment, c, heads),
            waste=per_pair / heads * visible(attention, share) * full_rows(deployment),
            activation_bytes=4 * attention.head_dim * c * (heads + 1),  # queries, outputs; keys, which are values
            head_dim=attention.head_dim,
        )
    # The scan runs over compressed keys: one per `ratio` tokens.
    scan = indexer.prefill_kernels(attention.indexer, c, p, prompts, launches, tp)
    return [[core, *(_compressed(kernel, attention) for kernel in scan)]]


def decode_kernels(
    deployment: Deployment, attention: Compressed, b: Any, s: Any, drafts: Any, launches: Any, unified: bool = False
) -> list[Kernel]:
    """Attention of b decodes at mean context s; the drafts of a request share one cache read.

    Parameters
    ----------
    deployment : the replica
    attention : the kind
    b : decoding requests on this rank [token]
    s : mean context [token]
    drafts : draft tokens verified per request [token]
    launches : layers of this kind, 0 in a step without decodes [1]
    unified : without effect: no engine joins these calls
    """
    tp, kv = deployment.parallelism.tp, deployment.precision.kv
    keys = b * visible(attention, s)
    traffic = keys * _row_bytes(attention, kv)
    flops = 4 * attention.heads / tp * attention.head_dim * keys * (1 + drafts)
    core = Kernel("decode attention", "mla_decode", kv, flops, traffic, flops, traffic / tp, launches=launches)
    scan = indexer.decode_kernels(attention.indexer, b, s, drafts, launches, tp)
    return [core, *(_compressed(kernel, attention) for kernel in scan)]


def _compressed(scan: Kernel, attention: Compressed) -> Kernel:
    ratio = attention.ratio or 1
    return scan._replace(
        flops=scan.flops / ratio, bytes=scan.bytes / ratio,
        least_flops=scan.least_flops / ratio, least_bytes=scan.least_bytes / ratio,
    )  # fmt: skip
