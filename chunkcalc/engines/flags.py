"""From an answer back to the engine's flags; reading them gives the same chunk again."""

from __future__ import annotations

import math

from chunkcalc.engines.dialects import DIALECTS
from chunkcalc.engines.graphs import flag
from chunkcalc.engines.reserve import default_fraction
from chunkcalc.engines.tables import Table, table
from chunkcalc.records import Deployment, Workload

Options = list[tuple[str, ...]]


def flags(
    deployment: Deployment, workload: Workload, chunk: int, budget: int, queued: int | None = None
) -> tuple[str, ...]:
    """The engine's flags that realise an answer.

    Parameters
    ----------
    deployment : the replica
    workload : its batch becomes the engine's limit of requests in flight
    chunk, budget : prompt tokens and all tokens of a step, per attention rank [token]
    queued : prompt tokens that may wait before requests are turned away [token]

    Returns
    -------
    flag, value, flag, value ...
    """
    engine, parallelism = deployment.engine, deployment.parallelism
    found = table(engine.name, engine.version)
    per_rank = max(1, math.ceil(workload.batch / parallelism.dp))
    if engine.name == "vllm":
        out = _vllm(deployment, found, budget, per_rank, queued)
        # What is predicted is captured, though vLLM would not capture it for so few requests.
        graph = flag(found, per_rank, workload.draft_tokens, min(budget, engine.captured))
        out += _when(graph, *graph)
    elif engine.name == "sglang":
        size = (budget if engine.composition == "mixed" else chunk) * parallelism.dp
        out = _sglang(deployment, found, size, max(1, per_rank * parallelism.dp))
    else:
        out = _trtllm(deployment, budget, per_rank)
    return tuple(word for option in out for word in option)


def _when(condition: object, *option: str) -> Options:
    return [option] if condition else []


def _changed_fraction(deployment: Deployment, found: Table) -> str | None:
    """The memory fraction where it is not the engine's default."""
    fraction = deployment.engine.memory_fraction
    default = found.default(DIALECTS[found.engine].fraction, deployment.hardware)
    own = default.value if default else default_fraction(found, deployment.hardware.memory, deployment.parallelism)
    return None if fraction in (None, own) else f"{fraction:g}"


def _vllm(deployment: Deployment, found: Table, budget: int, requests: int, queued: int | None) -> Options:
    parallelism, fraction = deployment.parallelism, _changed_fraction(deployment, found)
    return [
        ("--max-num-batched-tokens", str(budget)),
        ("--max-num-seqs", str(requests)),
        ("--tensor-parallel-size", str(parallelism.tp)),
        *_when(parallelism.dp > 1, "--data-parallel-size", str(parallelism.dp)),
        *_when(parallelism.pp > 1, "--pipeline-parallel-size", str(parallelism.pp)),
        *_when(parallelism.ep > 1, "--enable-expert-parallel"),
        *_when(not found.since("0.8.0"), "--enable-chunked-prefill"),
        *_when(deployment.precision.kv == "fp8", "--kv-cache-dtype", "fp8"),
        *_when(fraction, "--gpu-memory-utilization", fraction or ""),
        *_when(queued and found.since("0.29.0"), "--max-num-queued-tokens", str(queued)),
    ]


def _sglang(deployment: Deployment, found: Table, size: int, requests: int) -> Options:
    """The chunk is divided by the attention ranks, and the tensor parallel size counts them all."""
    parallelism, fraction = deployment.parallelism, _changed_fraction(deployment, found)
    interval = deployment.engine.prefill_interval
    batched = found.default("max_prefill_tokens", deployment.hardware)
    return [
        ("--chunked-prefill-size", str(size)),
        ("--max-running-requests", str(requests)),
        ("--tp-size", str(parallelism.stage_gpus)),
        *_when(parallelism.dp > 1, "--dp-size", str(parallelism.dp)),
        *_when(parallelism.dp > 1, "--enable-dp-attention"),
        *_when(parallelism.pp > 1, "--pp-size", str(parallelism.pp)),
        *_when(parallelism.ep > 1, "--ep-size", str(parallelism.ep)),
        *_when(deployment.engine.composition == "mixed", "--enable-mixed-chunk"),
        *_when(interval, "--prefill-decode-interval", str(interval)),
        # A prompt batch takes no further prompt beyond --max-prefill-tokens.
        *_when(batched is not None and size > batched.value, "--max-prefill-tokens", str(size)),
        *_when(deployment.precision.kv == "fp8", "--kv-cache-dtype", "fp8_e4m3"),
        *_when(fraction, "--mem-fraction-static", fraction or ""),
    ]


def _trtllm(deployment: Deployment, budget: int, requests: int) -> Options:
    """Attention data parallelism and the KV format have no flag: they go into the YAML options."""
    parallelism = deployment.parallelism
    fraction = _changed_fraction(deployment, table("trtllm", deployment.engine.version))
    return [
        ("--max_num_tokens", str(budget)),
        ("--max_batch_size", str(requests)),
        ("--tp_size", str(parallelism.stage_gpus)),
        *_when(parallelism.pp > 1, "--pp_size", str(parallelism.pp)),
        *_when(parallelism.ep > 1, "--ep_size", str(parallelism.ep)),
        ("--enable_chunked_prefill",),
        *_when(fraction, "--kv_cache_free_gpu_memory_fraction", fraction or ""),
    ]


def yaml_options(deployment: Deployment) -> tuple[str, ...]:
    """What TensorRT-LLM takes only from its YAML options (`--config`).

    Parameters
    ----------
    deployment : the replica

    Returns
    -------
    lines of YAML
    """
    if deployment.engine.name != "trtllm":
        return ()
    out = ["enable_attention_dp: true"] if deployment.parallelism.dp > 1 else []
    return (*out, "kv_cache_config: {dtype: fp8}") if deployment.precision.kv == "fp8" else tuple(out)
