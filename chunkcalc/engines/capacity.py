"""Does it fit, and how much KV cache is left: by the rule of each engine.

vLLM's fraction is of the GPU's total memory and must hold everything; SGLang's covers weights and
KV and leaves a reserve that grows with the chunk; TensorRT-LLM's is of what the weights and the
activations leave. A larger budget needs more activation memory, hence leaves less KV.
"""

from __future__ import annotations

import math
from typing import Any

from chunkcalc import ops
from chunkcalc.engines.reserve import reserve_bytes
from chunkcalc.frozen import dataclass
from chunkcalc.records import Absent, Deployment, LayerGroup, Mla, Moe, Workload
from chunkcalc.time.prefill import cached_tokens
from chunkcalc.work import attention, counts

GIB = 2**30
IN_FLIGHT = 1024  # requests per attention rank: the engines' default for those at once on a large GPU
GRAPH_BYTES = 1.0 * GIB  # captured CUDA graphs: 0.5-3 GB seen
# What the frameworks see is less than the driver reports: 79.11 of 79.65 GiB (H100), 23.58 of 24.0
# (RTX 3090, vllm issue 10517).
DRIVER_BYTES = 0.5 * GIB
# Outside the framework's allocator: "non_torch_memory" of 0.20-0.39 GiB in vLLM's logs (issues 10517
# and 13061, PR 14447), on one GPU and on several.
OUTSIDE_BYTES = 0.36 * GIB
# SGLang's communicators over NVLink: "Init torch distributed ends" with 1.8-2.0 GB (PR 11716, 8 x H200).
NVLINK_BYTES = 2.0 * GIB
LOGIT_BYTES = 10  # per logit: 32 bit, two to three copies alive while sampling


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """Memory of one replica: sizes per GPU [byte], tokens and requests of the whole replica.

    activation_bytes : peak of a step at this budget
    pool_bytes : left for the KV cache; below zero when the weights do not fit
    kv_tokens : tokens that the pool holds; None where the cache does not grow with context
    max_concurrency : requests at the workload's mean context, beside one prompt per rank
    """

    weights_bytes: float
    kv_bytes_per_token: float
    activation_bytes: float
    pool_bytes: float
    kv_tokens: int | None
    max_concurrency: int

    @property
    def fits(self) -> bool:
        """Whether the weights leave room for a single request."""
        return self.max_concurrency > 0


def activation_bytes(deployment: Deployment, n: Any, sampled: Any) -> Any:
    """Peak of the activations of a step: the widest layer, and the logits.

    Parameters
    ----------
    deployment : the replica
    n : tokens of the step on one rank [token]
    sampled : sampled rows [token]

    Returns
    -------
    activations on one GPU [byte]
    """
    model, tp = deployment.model, deployment.parallelism.tp
    widest: Any = 0.0
    for group in model.layers:
        widest = ops.maximum(widest, _layer_activations(deployment, group, n))
    return widest + LOGIT_BYTES * sampled * model.vocab / tp


def _layer_activations(deployment: Deployment, group: LayerGroup, n: Any) -> Any:
    hidden, parallelism = deployment.model.hidden, deployment.parallelism
    ffn = group.ffn
    width = 4 * hidden + attention.width(group.attention, parallelism.tp)
    if isinstance(group.attention, Mla):
        # An expanded prompt holds keys and values of every head.
        width += group.attention.heads * (group.attention.nope + group.attention.v_head_dim) / parallelism.tp
    if isinstance(ffn, Absent):
        return 2 * n * width
    if not isinstance(ffn, Moe):
        return 2 * n * (width + 2 * ffn.intermediate / parallelism.tp)
    slice_width = ffn.intermediate * parallelism.ep / parallelism.stage_gpus
    rows = n * parallelism.dp * ffn.top_k / parallelism.ep
    return 2 * (n * (width + 2 * ffn.shared_intermediate / parallelism.tp) + rows * (2 * slice_width + hidden))


def sequence_bytes(deployment: Deployment, s: Any) -> Any:
    """KV cache of one sequence of s tokens on one GPU; windows hold no more than their size.

    Parameters
    ----------
    deployment : the replica
    s : context [token]

    Returns
    -------
    cache [byte]
    """
    parallelism = deployment.parallelism
    return counts.sequence_bytes(deployment.model, deployment.precision.kv, parallelism.tp, s) / parallelism.pp


def pool_bytes(deployment: Deployment, n: Any, sampled: Any) -> Any:
    """Memory of one GPU left for the KV cache.

    Parameters
    ----------
    deployment : the replica
    n : tokens of the largest step on one rank [token]
    sampled : sampled rows of that step [token]

    Returns
    -------
    pool, below zero when it does not fit [byte]
    """
    hardware, parallelism, engine = deployment.hardware, deployment.parallelism, deployment.engine
    memory = hardware.memory - DRIVER_BYTES
    weights = counts.gpu_weight_bytes(deployment.model, deployment.precision, parallelism)
    if engine.memory_rule == "total_less_reserve":
        fraction = engine.memory_fraction
        if fraction is None:
            fraction = 1 - reserve_bytes(hardware.memory, parallelism, n * parallelism.dp) / hardware.memory
        if parallelism.stage_gpus > 1:
            memory -= NVLINK_BYTES if "nvlink" in hardware.link.kind else OUTSIDE_BYTES
        return fraction * memory - weights + engine.kv_shift
    other = activation_bytes(deployment, n, sampled) + OUTSIDE_BYTES
    if engine.graphs_inside:
        other = other + GRAPH_BYTES
    fraction = engine.memory_fraction or 0.9
    if engine.memory_rule == "left":
        return fraction * (memory - weights - other) + engine.kv_shift
    return fraction * memory - engine.memory_margin * hardware.memory - weights - other + engine.kv_shift


def needed_bytes(deployment: Deployment, workload: Workload, batch: float) -> Any:
    """KV cache that a GPU must hold: its decodes at their mean context and one prompt in flight.

    Parameters
    ----------
    deployment : the replica
    workload : lengths
    batch : decoding requests of the whole replica [token]

    Returns
    -------
    cache [byte]
    """
    shared = shared_bytes(deployment, workload)
    own = sequence_bytes(deployment, workload.context) - shared
    return batch / deployment.parallelism.dp * own + sequence_bytes(deployment, workload.prompt)


def shared_bytes(deployment: Deployment, workload: Workload) -> Any:
    """KV cache of the prefix that all requests share, which is stored once, on one GPU.

    Parameters
    ----------
    deployment : the replica
    workload : lengths, and whether their cached prefix is one

    Returns
    -------
    cache; 0 where each request has its own prefix [byte]
    """
    if not workload.prefix_shared or not workload.prefix_hit:
        return 0.0
    return sequence_bytes(deployment, cached_tokens(workload.prompt, workload.prefix_hit))


def decode_tokens(deployment: Deployment, workload: Workload, batch: int) -> int:
    """What the decodes of a step take out of the engine's budget, on one rank.

    Parameters
    ----------
    deployment : the replica
    workload : drafts per decode
    batch : decoding requests of the replica [token]

    Returns
    -------
    tokens [token]
    """
    if not deployment.engine.budget_counts_decodes:
        return 0
    ranks = deployment.parallelism.dp * deployment.parallelism.pp
    return math.ceil(batch / ranks) * (1 + workload.draft_tokens)


def largest_step(deployment: Deployment, workload: Workload, c: float) -> tuple[float, float]:
    """Tokens and sampled rows of the largest step of one rank.

    Parameters
    ----------
    deployment : the replica
    workload : batch and drafts
    c : chunk [token]

    Returns
    -------
    tokens, sampled rows [token]
    """
    parallelism = deployment.parallelism
    decodes = workload.batch / (parallelism.dp * parallelism.pp) * (1 + workload.draft_tokens)
    mixed = deployment.engine.composition == "mixed"
    return (c + decodes if mixed else ops.maximum(c, decodes)), decodes + 1


def capacity(deployment: Deployment, workload: Workload, c: float) -> Capacity:
    """The memory of a replica at a chunk.

    Parameters
    ----------
    deployment : the replica
    workload : lengths and batch
    c : chunk [token]
    """
    model, parallelism, kv = deployment.model, deployment.parallelism, deployment.precision.kv
    n, sampled = largest_step(deployment, workload, c)
    pool = pool_bytes(deployment, n, sampled)
    per_token = counts.kv_bytes_per_token(model, kv, parallelism.tp) / parallelism.pp
    one = max(1.0, sequence_bytes(deployment, workload.context) - shared_bytes(deployment, workload))
    room = (pool - sequence_bytes(deployment, workload.prompt)) / one
    return Capacity(
        weights_bytes=counts.gpu_weight_bytes(model, deployment.precision, parallelism),
        kv_bytes_per_token=per_token,
        activation_bytes=activation_bytes(deployment, n, sampled),
        pool_bytes=pool,
        kv_tokens=int(max(0.0, pool) / per_token) * parallelism.dp if per_token else None,
        max_concurrency=max(0, int(room * parallelism.dp)),
    )
