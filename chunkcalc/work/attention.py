"""Attention: what a chunk of a prompt and a batch of decodes must compute and read.

Pairs are the (query, key) products: c p + c (c + 1)/2 for a chunk of c tokens after p cached ones
under full causal attention. Their sum over the chunks of a prompt does not depend on c. What a
small chunk costs extra is reading the prefix again, and for MLA expanding it again.
"""

from __future__ import annotations

from typing import Any

from chunkcalc import ops
from chunkcalc.records import KV_BYTES, WEIGHT_BYTES, Deployment, Gqa, Kernel, LayerGroup, Mla
from chunkcalc.work.linear import gemm, kv_heads_per_rank

FULL_TILE = 128  # query rows of an attention tile: a shorter chunk still fills one per head
UNIFIED_ROWS = 64  # query rows that each decode of a joint call pays; twice as many above 64 decodes


def causal_pairs(c: Any, p: Any) -> Any:
    """(query, key) pairs of c tokens after p cached ones under full causal attention.

    Parameters
    ----------
    c : tokens of the chunk [token]
    p : tokens cached before it [token]

    Returns
    -------
    pairs [1]
    """
    return c * p + c * (c + 1) / 2


def window_pairs(c: Any, p: Any, w: Any) -> Any:
    """Pairs under a sliding window: the sum over i = 1..c of min(p + i, w).

    Parameters
    ----------
    c : tokens of the chunk [token]
    p : tokens cached before it [token]
    w : window [token]

    Returns
    -------
    pairs [1]
    """
    growing = ops.minimum(ops.maximum(w - p, 0), c)
    return causal_pairs(growing, p) + (c - growing) * w


def chunked_pairs(c: Any, p: Any, block: Any) -> Any:
    """Pairs where positions see only their own block: position modulo the block size.

    Parameters
    ----------
    c : tokens of the chunk [token]
    p : tokens cached before it [token]
    block : block of positions that see each other [token]

    Returns
    -------
    pairs [1]
    """
    return _block_sum(p + c, block) - _block_sum(p, block)


def _block_sum(x: Any, block: Any) -> Any:
    full = ops.floor(x / block)
    rest = x - full * block
    return full * (block * (block + 1) / 2) + rest * (rest + 1) / 2


def pairs(attention: Gqa | Mla, c: Any, p: Any) -> Any:
    """Pairs of a chunk under this kind of attention.

    Parameters
    ----------
    attention : the kind
    c : tokens of the chunk [token]
    p : tokens cached before it [token]

    Returns
    -------
    pairs [1]
    """
    if isinstance(attention, Gqa) and attention.window:
        return window_pairs(c, p, attention.window)
    if isinstance(attention, Gqa) and attention.chunk:
        return chunked_pairs(c, p, attention.chunk)
    return causal_pairs(c, p)


def visible(attention: Gqa | Mla, s: Any) -> Any:
    """Cached tokens that a query at context s reads.

    Parameters
    ----------
    attention : the kind
    s : context [token]

    Returns
    -------
    tokens [token]
    """
    if isinstance(attention, Gqa) and (attention.window or attention.chunk):
        return ops.minimum(s, attention.window or attention.chunk)
    return s


def kv_row_bytes(attention: Gqa | Mla, kv: str, tp: int = 1) -> float:
    """KV cache per token and layer on one of tp ranks.

    Parameters
    ----------
    attention : the kind
    kv : KV format
    tp : tensor parallel degree [1]

    Returns
    -------
    bytes per token [byte]
    """
    if isinstance(attention, Mla):
        return (attention.kv_lora + attention.rope) * KV_BYTES[kv]
    if attention.shares_kv:
        return 0.0
    return read_row_bytes(attention, kv, tp)


def read_row_bytes(attention: Gqa | Mla, kv: str, tp: int = 1) -> float:
    """What one query reads per visible token and layer; shared caches are read by each sharer.

    Parameters
    ----------
    attention : the kind
    kv : KV format
    tp : tensor parallel degree [1]

    Returns
    -------
    bytes per token [byte]
    """
    if isinstance(attention, Mla):
        return (attention.kv_lora + attention.rope) * KV_BYTES[kv]
    width = attention.head_dim + (attention.v_head_dim or attention.head_dim)
    return kv_heads_per_rank(attention, tp) * width * KV_BYTES[kv]


def prefill_kernels(
    deployment: Deployment,
    group: LayerGroup,
    c: Any,
    p: Any,
    prompts: Any,
    launches: Any,
    absorbed: bool = False,
) -> list[Kernel]:
    """Attention of c prompt tokens, shared out evenly over `prompts` prompts with p cached each.

    Parameters
    ----------
    deployment : the replica
    group : the kind of layer
    c : prompt tokens of the step on this rank [token]
    p : tokens of each prompt cached before [token]
    prompts : prompts that share the step, at least 1; may be fractional [1]
    launches : layers of this kind, 0 in a step without prompt tokens [1]
    absorbed : MLA only: attend in the latent space instead of expanding keys and values
    """
    attention, tp, kv = group.attention, deployment.parallelism.tp, deployment.precision.kv
    heads = attention.heads / tp
    share = c / prompts
    seen = prompts * pairs(attention, share, p)
    traffic = prompts * (visible(attention, p) + share) * read_row_bytes(attention, kv, tp)
    if isinstance(attention, Gqa):
        per_pair = 2 * heads * (attention.head_dim + (attention.v_head_dim or attention.head_dim))
        return [_prefill("prefill_attention", kv, per_pair, seen, c, traffic, heads, launches)]
    if absorbed:
        per_pair = 2 * heads * (2 * attention.kv_lora + attention.rope)
        products = [_absorb(attention, heads, c, size, launches) for size in (attention.nope, attention.v_head_dim)]
        return [_prefill("mla_prefill", kv, per_pair, seen, c, traffic, heads, launches), *products]
    per_pair = 2 * heads * (attention.nope + attention.rope + attention.v_head_dim)
    expansion = gemm(
        "kv expansion", prompts * p + c, heads * (attention.nope + attention.v_head_dim),
        attention.kv_lora, deployment.precision.attention, launches,
    )  # fmt: skip
    return [_prefill("mla_prefill", kv, per_pair, seen, c, traffic, heads, launches), expansion]


def _prefill(
    form: str,
    kv: str,
    per_pair: float,
    seen: Any,
    c: Any,
    traffic: Any,
    heads: float,
    launches: Any,
) -> Kernel:
    """The attention kernel of a chunk; a unit of waste is one more key per query on the diagonal."""
    flops = per_pair * seen
    return Kernel(
        "prefill attention", form, kv, flops, traffic, flops, traffic,
        waste=per_pair * c / 2, rows=ops.maximum(c, FULL_TILE) * heads, launches=launches,
    )  # fmt: skip


def decode_kernels(
    deployment: Deployment,
    group: LayerGroup,
    b: Any,
    s: Any,
    drafts: Any,
    launches: Any,
    unified: bool = False,
) -> list[Kernel]:
    """Attention of b decodes at mean context s; the drafts of a request share one cache read.

    Parameters
    ----------
    deployment : the replica
    group : the kind of layer
    b : decoding requests on this rank [token]
    s : mean context [token]
    drafts : draft tokens verified per request [token]
    launches : layers of this kind, 0 in a step without decodes [1]
    unified : the call is shared with a prompt chunk, and every decode pays a whole query tile
    """
    attention, tp, kv = group.attention, deployment.parallelism.tp, deployment.precision.kv
    heads = attention.heads / tp
    keys = b * visible(attention, s)
    traffic = keys * read_row_bytes(attention, kv, tp)
    if isinstance(attention, Gqa):
        per_pair = 2 * heads * (attention.head_dim + (attention.v_head_dim or attention.head_dim))
        form = "unified_attention" if unified else "decode_attention"
        flops = per_pair * keys * (1 + drafts)
        tile = UNIFIED_ROWS * ops.where(b > UNIFIED_ROWS, 2, 1)
        waste = per_pair * keys * (tile - 1) if unified else 0.0
        return [
            Kernel(
                "decode attention",
                form,
                kv,
                flops,
                traffic,
                flops,
                traffic,
                waste=waste,
                launches=launches,
            )
        ]
    per_pair = 2 * heads * (2 * attention.kv_lora + attention.rope)
    flops = per_pair * keys * (1 + drafts)
    core = Kernel("decode attention", "mla_decode", kv, flops, traffic, flops, traffic, launches=launches)
    queries = b * (1 + drafts)
    return [
        core,
        *(_absorb(attention, heads, queries, size, launches) for size in (attention.nope, attention.v_head_dim)),
    ]


def _absorb(attention: Mla, heads: float, queries: Any, size: int, launches: Any) -> Kernel:
    """The batched product that carries queries into, or values out of, the latent space."""
    weights = heads * size * attention.kv_lora
    flops = 2 * queries * weights
    return Kernel(
        "decode attention",
        "mla_absorb",
        "bf16",
        flops,
        weights * WEIGHT_BYTES["bf16"],
        flops,
        launches=launches,
    )
