"""Grouped-query attention: full, sliding window, chunked, or sparse behind an indexer."""

from __future__ import annotations

from typing import Any

from chunkcalc import ops
from chunkcalc.records import KV_BYTES, Deployment, Gqa, Kernel
from chunkcalc.work import indexer
from chunkcalc.work.gemm import Weight, split
from chunkcalc.work.pairs import causal_pairs, chunked_pairs, window_pairs

UNIFIED_ROWS = 64  # query rows that each decode of a joint call pays; twice as many above 64 decodes


def projections(attention: Gqa, hidden: int, tp: int) -> list[Weight]:
    """Each weight on one of tp ranks: q, k and v fused, output, indexer.

    Parameters
    ----------
    attention : the kind
    hidden : hidden size [1]
    tp : tensor parallel degree [1]
    """
    heads, v_dim = attention.heads / tp, attention.v_head_dim or attention.head_dim
    queries = heads * attention.head_dim * (2 if attention.gate else 1)
    row = 0 if attention.shares_kv else attention.head_dim + (0 if attention.k_is_v else v_dim)
    fused = Weight(queries + kv_heads_per_rank(attention, tp) * row, hidden, queries + attention.kv_heads / tp * row)
    return [fused, split(hidden, heads * v_dim), *indexer.projections(attention.indexer, hidden, None, tp)]


def kv_heads_per_rank(attention: Gqa, tp: int) -> float:
    """KV heads on each rank; a head is replicated where there are fewer heads than ranks.

    Parameters
    ----------
    attention : the kind
    tp : tensor parallel degree [1]
    """
    return max(attention.kv_heads / tp, 1.0)


def width(attention: Gqa, tp: int) -> float:
    """Elements of q, k and v per token on one of tp ranks.

    Parameters
    ----------
    attention : the kind
    tp : tensor parallel degree [1]
    """
    return (attention.heads / tp + 2 * kv_heads_per_rank(attention, tp)) * attention.head_dim


def pairs(attention: Gqa, c: Any, p: Any) -> Any:
    """(query, key) pairs of a chunk.

    Parameters
    ----------
    attention : the kind
    c : tokens of the chunk [token]
    p : tokens cached before it [token]
    """
    if attention.chunk:
        return chunked_pairs(c, p, attention.chunk)
    most = attention.window or attention.top_k
    return window_pairs(c, p, most) if most else causal_pairs(c, p)


def visible(attention: Gqa, s: Any) -> Any:
    """Cached tokens that a query at context s reads.

    Parameters
    ----------
    attention : the kind
    s : context [token]
    """
    most = attention.window or attention.chunk or attention.top_k
    return ops.minimum(s, most) if most else s


def row_bytes(attention: Gqa, kv: str, tp: int) -> float:
    """Keys and values of one token on one of tp ranks, as read by attention [byte].

    Parameters
    ----------
    attention : the kind
    kv : KV format
    tp : tensor parallel degree [1]
    """
    both = attention.head_dim + (attention.v_head_dim or attention.head_dim)
    return kv_heads_per_rank(attention, tp) * both * KV_BYTES[kv]


def unreplicated(attention: Gqa, tp: int) -> float:
    """The share of a rank's cache that no other rank holds too [1].

    Parameters
    ----------
    attention : the kind
    tp : tensor parallel degree [1]
    """
    return min(1.0, attention.kv_heads / tp)


def growth_bytes(attention: Gqa, kv: str, tp: int) -> float:
    """Cache per token of context beyond any window [byte].

    Parameters
    ----------
    attention : the kind
    kv : KV format
    tp : tensor parallel degree [1]
    """
    own = 0.0 if attention.shares_kv or attention.window or attention.chunk else row_bytes(attention, kv, tp)
    return own + indexer.cache_row_bytes(attention.indexer)


def cache_bytes(attention: Gqa, kv: str, tp: int, s: Any) -> Any:
    """Cache of one sequence of s tokens [byte].

    Parameters
    ----------
    attention : the kind
    kv : KV format
    tp : tensor parallel degree [1]
    s : context [token]
    """
    kept = attention.window or attention.chunk
    tokens = ops.minimum(s, kept) if kept else s
    own = 0.0 if attention.shares_kv else tokens * row_bytes(attention, kv, tp)
    return own + s * indexer.cache_row_bytes(attention.indexer)


def prefill_forms(
    deployment: Deployment, attention: Gqa, c: Any, p: Any, prompts: Any, launches: Any
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
    per_pair = pair_flops(attention, tp)
    traffic = prompts * (visible(attention, p) + share) * row_bytes(attention, kv, tp)
    useful = per_pair * prompts * pairs(attention, share, p)
    least = traffic * unreplicated(attention, tp)
    # A unit of waste: the last tile of a prompt's own queries, beside which every other unit idles.
    core = prefill_kernel("prefill_attention", kv, useful, tile_padding(deployment, share), traffic, least, launches)
    core = core._replace(
        idle=idle(deployment, c, heads),
        waste=per_pair / heads * visible(attention, share) * full_rows(deployment),
        activation_bytes=c * token_bytes(attention, tp),
        head_dim=per_pair / (4 * heads),
    )
    return [[core, *indexer.prefill_kernels(attention.indexer, c, p, prompts, launches, tp)]]


def prefill_kernel(form: str, kv: str, useful: Any, padding: Any, traffic: Any, least: Any, launches: Any) -> Kernel:
    """The attention kernel of a chunk.

    Parameters
    ----------
    form : roofline form
    kv : KV format
    useful : arithmetic of the pairs [FLOP]
    padding : arithmetic done over useful, because a tile of queries is always whole [1]
    traffic, least : cache read, and its part that no other rank reads too [byte]
    launches : how often it runs in a step [1]
    """
    return Kernel("prefill attention", form, kv, useful * padding, traffic, useful, least, launches=launches)


def tile_padding(deployment: Deployment, c: Any) -> Any:
    """Arithmetic done over useful: a chunk shorter than a tile of queries pays the whole tile.

    Measured on H800 (FlashInfer, NetX-lab/Frontier, MIT): 64 queries after 6,144 tokens take as
    long as 128.

    Parameters
    ----------
    deployment : the replica
    c : queries of one prompt [token]

    Returns
    -------
    factor, at least 1 [1]
    """
    return ops.maximum(1.0, deployment.hardware.tile_rows / ops.maximum(c, 1))


def idle(deployment: Deployment, c: Any, heads: float) -> Any:
    """Multiprocessors over tiles of queries: a kernel with fewer tiles leaves the others idle.

    Parameters
    ----------
    deployment : the replica
    c : queries of the step [token]
    heads : query heads on this rank [1]

    Returns
    -------
    factor, at least 1 [1]
    """
    rows = ops.maximum(c, deployment.hardware.tile_rows) * heads
    return ops.maximum(1.0, full_rows(deployment) / rows)


def full_rows(deployment: Deployment) -> float:
    """Query rows that give every multiprocessor one tile; 0 where their number is not known [1].

    Parameters
    ----------
    deployment : the replica
    """
    return deployment.hardware.tile_rows * float(deployment.hardware.sms or 0)


def token_bytes(attention: Gqa, tp: int) -> float:
    """What a prompt token moves besides reading the cache: its query, output, key and value, the
    last two once more into the cache; 16 bit each [byte].

    Parameters
    ----------
    attention : the kind
    tp : tensor parallel degree [1]
    """
    both = attention.head_dim + (attention.v_head_dim or attention.head_dim)
    return 2 * both * (attention.heads / tp + 2 * kv_heads_per_rank(attention, tp))


def pair_flops(attention: Gqa, tp: int) -> float:
    """Arithmetic per (query, key) pair on one of tp ranks [FLOP].

    Parameters
    ----------
    attention : the kind
    tp : tensor parallel degree [1]
    """
    return 2 * attention.heads / tp * (attention.head_dim + (attention.v_head_dim or attention.head_dim))


def decode_kernels(
    deployment: Deployment, attention: Gqa, b: Any, s: Any, drafts: Any, launches: Any, unified: bool = False
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
    unified : the call is shared with a prompt chunk, and every decode pays a whole query tile
    """
    tp, kv = deployment.parallelism.tp, deployment.precision.kv
    keys = b * visible(attention, s)
    traffic = keys * row_bytes(attention, kv, tp)
    flops = pair_flops(attention, tp) * keys * (1 + drafts)
    tile = UNIFIED_ROWS * ops.where(b > UNIFIED_ROWS, 2, 1)
    waste = pair_flops(attention, tp) * keys * (tile - 1) if unified else 0.0
    form = "unified_attention" if unified else "decode_attention"
    least = traffic * unreplicated(attention, tp)
    new = b * row_bytes(attention, "bf16", tp)  # keys and values of the new tokens
    core = Kernel(
        "decode attention", form, kv, flops, traffic, flops, least, waste=waste, activation_bytes=new, launches=launches
    )
    return [core, *indexer.decode_kernels(attention.indexer, b, s, drafts, launches, tp)]
