"""(query, key) pairs of a chunk: c tokens of a prompt after p cached ones.

Their sum over the chunks of a prompt does not depend on how it is cut. What a small chunk costs
extra is reading the prefix again, and for MLA expanding it again.
"""

from __future__ import annotations

from typing import Any

from chunkcalc import ops


def causal_pairs(c: Any, p: Any) -> Any:
    """Pairs under full causal attention.

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
    """Pairs where a query sees at most w keys, itself included: the sum of min(p + i, w).

    Holds for a sliding window and for a selection of the top w keys alike.

    Parameters
    ----------
    c : tokens of the chunk [token]
    p : tokens cached before it [token]
    w : keys a query sees at most [token]

    Returns
    -------
    pairs [1]
    """
    n_g = growing(c, p, w)
    return window_pairs_of(n_g, c, p, w)


def growing(c: Any, p: Any, w: Any) -> Any:
    """Queries of a chunk that still see fewer than w keys.

    Parameters
    ----------
    c : tokens of the chunk [token]
    p : tokens cached before it [token]
    w : keys a query sees at most [token]

    Returns
    -------
    queries [token]
    """
    return ops.minimum(ops.maximum(w - p, 0), c)


def window_pairs_of(n_g: Any, c: Any, p: Any, w: Any) -> Any:
    """Pairs of a chunk whose first n_g queries see all that is before them, and the others w keys.

    Parameters
    ----------
    n_g : of `growing` [token]
    c : tokens of the chunk [token]
    p : tokens cached before it [token]
    w : keys a query sees at most [token]

    Returns
    -------
    pairs [1]
    """
    return causal_pairs(n_g, p) + (c - n_g) * w


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
