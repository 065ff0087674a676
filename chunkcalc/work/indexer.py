"""The indexer of sparse attention: a light scan of the whole context that picks the keys to read.

DeepSeek-V3.2 (DSA), GLM-5 and MiniMax-M3: a few small heads score every cached token and attention
then reads only the best `top_k`. The scan still grows with the context, so it, not attention,
is what a long prompt pays for. Keys are cached in fp8, once per token, on every rank.
"""

from __future__ import annotations

from typing import Any

from chunkcalc.records import Indexer, Kernel
from chunkcalc.work.gemm import Weight, copied
from chunkcalc.work.pairs import causal_pairs

KEY_BYTES = 1  # of a cached element: fp8


def projections(indexer: Indexer | None, hidden: int, q_lora: int | None, tp: int) -> list[Weight]:
    """The indexer's weights; queries come from the query latent where there is one.

    Parameters
    ----------
    indexer : the indexer; None where a layer reuses another's selection
    hidden : hidden size [1]
    q_lora : rank of the query latent [1]
    tp : ranks, each with a copy [1]
    """
    if indexer is None:
        return []
    queries = copied(indexer.heads * indexer.dim, q_lora or hidden, tp)
    return [queries, copied(indexer.dim + indexer.heads, hidden, tp)]


def cache_row_bytes(indexer: Indexer | None) -> float:
    """Indexer keys cached per token and layer.

    Parameters
    ----------
    indexer : the indexer

    Returns
    -------
    bytes per token [byte]
    """
    return indexer.dim * KEY_BYTES if indexer else 0.0


def prefill_kernels(indexer: Indexer | None, c: Any, p: Any, prompts: Any, launches: Any, tp: int) -> list[Kernel]:
    """The scan of a chunk's queries over all keys before them.

    Parameters
    ----------
    indexer : the indexer
    c : prompt tokens of the step [token]
    p : tokens of each prompt cached before [token]
    prompts : prompts that share the step [1]
    launches : layers that own an indexer, 0 without prompt tokens [1]
    tp : ranks, each of which scans everything [1]
    """
    if indexer is None:
        return []
    flops = 2 * indexer.heads * indexer.dim * prompts * causal_pairs(c / prompts, p)
    traffic = (prompts * p + c) * cache_row_bytes(indexer)
    return [_scan(flops, traffic, launches, tp)]


def decode_kernels(indexer: Indexer | None, b: Any, s: Any, drafts: Any, launches: Any, tp: int) -> list[Kernel]:
    """The scan of b decodes over their contexts.

    Parameters
    ----------
    indexer : the indexer
    b : decoding requests [token]
    s : mean context [token]
    drafts : draft tokens verified per request [token]
    launches : layers that own an indexer, 0 without decodes [1]
    tp : ranks, each of which scans everything [1]
    """
    if indexer is None:
        return []
    flops = 2 * indexer.heads * indexer.dim * b * s * (1 + drafts)
    return [_scan(flops, b * s * cache_row_bytes(indexer), launches, tp)]


def _scan(flops: Any, traffic: Any, launches: Any, tp: int) -> Kernel:
    return Kernel("indexer", "indexer", "fp8", flops, traffic, flops / tp, traffic / tp, launches=launches)
