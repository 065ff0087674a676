"""The memory that SGLang keeps free of weights and cache when no fraction is given, by version.

Read from sglang/srt/server_args.py and arg_groups/memory_hook.py of the versions in tables/sglang.toml.
"""

from __future__ import annotations

from typing import Any

from chunkcalc import ops
from chunkcalc.engines.tables import Table
from chunkcalc.records import Parallelism

MIB = 2**20
# 0.5.3 and later (server_args.py, memory_hook.py): MiB kept free when no fraction is given.
BASE, PER_TOKEN, LEAST_TOKENS, PER_8_GPUS = 512, 1.5, 2048, 1024
LEAST, LARGE_GPU = 10 * 1024, 60 * 1024
PER_GRAPH_REQUEST, PER_RANK_REQUEST, PER_RANK_REQUEST_MORE, MANY_REQUESTS = 2, 3, 1.5, 300
# Memory of the GPU [MiB] from which, and largest batch of the decode graphs below and from tp 4 on.
GRAPH_BATCHES = ((163840, 512, 512), (61440, 256, 512), (35840, 32, 160), (20480, 48, 160), (0, 8, 8))


def reserve_bytes(memory: float, parallelism: Parallelism, n: Any) -> Any:
    """Memory that 0.5.3 and later keep free of weights and cache when no fraction is given.

    Parameters
    ----------
    memory : of one GPU [byte]
    parallelism : of the replica
    n : tokens of the largest step, over all attention ranks [token]

    Returns
    -------
    reserve [byte]
    """
    size, ranks = parallelism.stage_gpus, parallelism.dp
    small, large = next(batches for least, *batches in GRAPH_BATCHES if memory >= least * MIB)
    graphs = small if size < 4 else large
    mib = BASE + PER_TOKEN * ops.maximum(n, LEAST_TOKENS) + PER_8_GPUS * parallelism.gpus / 8
    mib = mib + PER_GRAPH_REQUEST * graphs
    if ranks > 1:
        mib = mib + (PER_RANK_REQUEST + (PER_RANK_REQUEST_MORE if graphs > MANY_REQUESTS else 0)) * graphs * ranks
    return MIB * (ops.maximum(mib, LEAST) if memory > LARGE_GPU * MIB else mib)


def default_fraction(table: Table, memory: float, parallelism: Parallelism, drafts: float = 0.0) -> float | None:
    """The fraction that versions before 0.5.3 choose without looking at the chunk.

    Parameters
    ----------
    table : the version
    memory : of one GPU [byte]
    parallelism : of the replica
    drafts : kept free for a draft model [MiB]

    Returns
    -------
    fraction; None where the reserve grows with the chunk
    """
    if table.since("0.5.3"):
        return None
    mib, gpus = memory / MIB, parallelism.gpus
    if not table.since("0.4.8"):
        if mib > 81920:
            return (mib - 13 * 1024) / mib
        return next(share for least, share in ((16, 0.79), (8, 0.81), (4, 0.85), (2, 0.87), (1, 0.88)) if gpus >= least)
    kept = 32.0 if mib >= 160 * 1024 else 12 + gpus / 2 if mib >= 90 * 1024 else 9.5 + gpus / 2
    if mib < 35 * 1024:
        kept = 2.8 + gpus / 10
    return round(1 - ((kept + (4 if parallelism.dp > 1 else 0)) * 1024 + drafts) / mib, 3)
