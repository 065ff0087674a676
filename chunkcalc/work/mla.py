"""Multi-head latent attention: one latent per token is cached, replicated on every tensor rank.

A prompt can be attended to in two ways: expand keys and values from the latents of the whole
prefix (less arithmetic per pair, but every chunk expands the prefix again), or carry the queries
into the latent space (absorbed). Decodes are always absorbed.
"""

from __future__ import annotations

from typing import Any

from chunkcalc import ops
from chunkcalc.records import KV_BYTES, WEIGHT_BYTES, Deployment, Kernel, Mla
from chunkcalc.work import indexer
from chunkcalc.work.gemm import Weight, product, split
from chunkcalc.work.gqa import idle, prefill_kernel, tile_padding
from chunkcalc.work.pairs import causal_pairs, window_pairs


def projections(attention: Mla, hidden: int, tp: int) -> list[Weight]:
    """Each weight on one of tp ranks, the key-value expansion excluded.

    Low-rank projections stand on every rank. The expansion is a product with every key it attends
    to, not with the step's tokens: `expansion` has it.

    Parameters
    ----------
    attention : the kind
    hidden : hidden size [1]
    tp : tensor parallel degree [1]
    """
    heads = attention.heads / tp
    queries, values = heads * (attention.nope + attention.rope), heads * attention.v_head_dim
    latent = attention.kv_lora + attention.rope
    gate = values if attention.gate else 0.0
    if attention.q_lora is None:
        out = [Weight(latent + queries + gate, hidden, latent / tp + queries + gate)]
    else:
        down = attention.q_lora + latent
        out = [Weight(down + gate, hidden, down / tp + gate), split(queries, attention.q_lora)]
    return [*out, split(hidden, values), *indexer.projections(attention.indexer, hidden, attention.q_lora, tp)]


def expansion(attention: Mla, tp: int) -> Weight:
    """The weight that expands a latent into keys and values.

    Parameters
    ----------
    attention : the kind
    tp : tensor parallel degree [1]
    """
    return split(attention.heads / tp * (attention.nope + attention.v_head_dim), attention.kv_lora)


def width(attention: Mla, tp: int) -> float:
    """Elements of queries and latent per token on one of tp ranks.

    Parameters
    ----------
    attention : the kind
    tp : tensor parallel degree [1]
    """
    queries = attention.heads / tp * (attention.nope + attention.rope)
    return queries + attention.kv_lora + attention.rope


def growth_bytes(attention: Mla, kv: str, tp: int) -> float:
    """Cache per token of context [byte].

    Parameters
    ----------
    attention : the kind
    kv : KV format
    tp : tensor parallel degree [1]
    """
    return _row_bytes(attention, kv) + indexer.cache_row_bytes(attention.indexer)


def cache_bytes(attention: Mla, kv: str, tp: int, s: Any) -> Any:
    """Cache of one sequence of s tokens [byte].

    Parameters
    ----------
    attention : the kind
    kv : KV format
    tp : tensor parallel degree [1]
    s : context [token]
    """
    return s * growth_bytes(attention, kv, tp)


def _row_bytes(attention: Mla, kv: str) -> float:
    return (attention.kv_lora + attention.rope) * KV_BYTES[kv]


def pairs(attention: Mla, c: Any, p: Any) -> Any:
    """(query, key) pairs of a chunk.

    Parameters
    ----------
    attention : the kind
    c : tokens of the chunk [token]
    p : tokens cached before it [token]
    """
    return window_pairs(c, p, attention.top_k) if attention.top_k else causal_pairs(c, p)


def prefill_forms(
    deployment: Deployment, attention: Mla, c: Any, p: Any, prompts: Any, launches: Any
) -> list[list[Kernel]]:
    """The two ways to attend to a chunk, expanded and absorbed, each with its kernels.

    With a top-k selection the expanded form still sees every pair: it is what engines run while a
    prompt is shorter than k.

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
    traffic = (prompts * p + c) * _row_bytes(attention, kv)
    every = prompts * causal_pairs(share, p)

    per_pair = 2 * heads * (attention.nope + attention.rope + attention.v_head_dim)
    least, few = traffic / tp, idle(deployment, c, heads)
    padding = tile_padding(deployment, share)
    core = prefill_kernel("mla_prefill", kv, per_pair * every, padding, traffic, least, launches)
    core = core._replace(idle=few, waste=few * per_pair * c / 2)  # a unit of waste: one more key per query
    dtype = deployment.precision.attention
    expand = product("kv expansion", prompts * p + c, expansion(attention, tp), dtype, launches)

    per_pair = absorbed_pair_flops(attention, tp)
    useful = per_pair * prompts * pairs(attention, share, p)
    form = "mla_sparse" if attention.top_k else "mla_prefill"
    latent = prefill_kernel(form, kv, useful, padding, traffic, least, launches)
    if not attention.top_k:
        latent = latent._replace(idle=few, waste=few * per_pair * c / 2)
    scan = indexer.prefill_kernels(attention.indexer, c, p, prompts, launches, tp)
    return [[core, expand, *scan], [latent, *_absorb(attention, heads, c, launches), *scan]]


def absorbed_pair_flops(attention: Mla, tp: int) -> float:
    """Arithmetic per (query, key) pair in the latent space on one of tp ranks [FLOP].

    Parameters
    ----------
    attention : the kind
    tp : tensor parallel degree [1]
    """
    return 2 * attention.heads / tp * (2 * attention.kv_lora + attention.rope)


def decode_kernels(
    deployment: Deployment, attention: Mla, b: Any, s: Any, drafts: Any, launches: Any, unified: bool = False
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
    unified : without effect: MLA prefill and decode are different kernels in every engine
    """
    tp, kv = deployment.parallelism.tp, deployment.precision.kv
    keys = b * (ops.minimum(s, attention.top_k) if attention.top_k else s)
    traffic = keys * _row_bytes(attention, kv)
    flops = absorbed_pair_flops(attention, tp) * keys * (1 + drafts)
    core = Kernel("decode attention", "mla_decode", kv, flops, traffic, flops, traffic / tp, launches=launches)
    absorb = _absorb(attention, attention.heads / tp, b * (1 + drafts), launches)
    return [core, *absorb, *indexer.decode_kernels(attention.indexer, b, s, drafts, launches, tp)]


def _absorb(attention: Mla, heads: float, queries: Any, launches: Any) -> list[Kernel]:
    """The batched products that carry queries into, and values out of, the latent space.

    They run in 16 bit whatever the weights are; the floor leaves them out.
    """
    out = []
    for size in (attention.nope, attention.v_head_dim):
        weights = heads * size * attention.kv_lora
        flops, traffic = 2 * queries * weights, weights * WEIGHT_BYTES["bf16"]
        out.append(Kernel("decode attention", "mla_absorb", "bf16", flops, traffic, launches=launches))
    return out
