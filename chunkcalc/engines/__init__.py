"""What each engine does with a step: three records, current versions.

Composition and budgets as read from the engines' own sources: vLLM 0.33 and TensorRT-LLM 1.x mix
decodes and prompt chunks in a step and count both in the budget; SGLang 0.5.23 runs a prompt
batch or the decodes, prompts first, and its chunk counts prompt tokens alone.
"""

from __future__ import annotations

import math
from dataclasses import replace

from chunkcalc.records import Deployment, Engine, Hardware, Workload

# Where vLLM's single attention call over chunk and decodes was measured to cost 1.3-1.8 times its
# two parts (RTX PRO 6000 and RTX 4090); on Hopper and data-centre Blackwell it is taken as split.
UNIFIED_ARCHITECTURES = frozenset(("ada", "blackwell-rtx"))

SGLANG_MAX_PREFILL = 16384  # default of --max-prefill-tokens, which also bounds a prompt batch

ENGINES = {
    "vllm": Engine(
        name="vllm", version="0.33.0", memory_rule="total", memory_fraction=0.92, tpot_band=0.15, ttft_band=0.40
    ),
    "sglang": Engine(
        name="sglang", version="0.5.23", composition="prefill_first", budget_counts_decodes=False,
        memory_rule="total_less_reserve", tpot_band=0.25, ttft_band=0.60,
    ),
    "trtllm": Engine(
        name="trtllm", version="1.0", memory_rule="left", memory_fraction=0.90, tpot_band=0.25, ttft_band=0.60
    ),
}  # fmt: skip


def engine_for(name: str, hardware: Hardware) -> Engine:
    """The engine as it runs on this GPU.

    Parameters
    ----------
    name : `vllm`, `sglang` or `trtllm`
    hardware : the GPU
    """
    engine = ENGINES[name]
    if name == "vllm" and hardware.arch in UNIFIED_ARCHITECTURES:
        return replace(engine, attention="unified")
    return engine


def flags(deployment: Deployment, workload: Workload, chunk: int, budget: int) -> tuple[str, ...]:
    """The engine's flags that realise an answer.

    Parameters
    ----------
    deployment : the replica
    workload : its batch becomes the engine's limit of requests in flight
    chunk, budget : prompt tokens and all tokens of a step, per attention rank [token]

    Returns
    -------
    flag, value, flag, value ...
    """
    engine, parallelism = deployment.engine, deployment.parallelism
    per_rank = max(1, math.ceil(workload.batch / parallelism.dp))
    if engine.name == "vllm":
        out = _vllm(deployment, budget, per_rank)
    elif engine.name == "sglang":
        size = (budget if engine.composition == "mixed" else chunk) * parallelism.dp
        out = _sglang(deployment, size, max(1, workload.batch))
    else:
        out = _trtllm(deployment, budget, per_rank)
    return tuple(word for option in out for word in option)


Options = list[tuple[str, ...]]


def _when(condition: object, *option: str) -> Options:
    return [option] if condition else []


def _changed_fraction(engine: Engine) -> str | None:
    """The memory fraction where it is not the engine's default."""
    default = ENGINES[engine.name].memory_fraction
    return f"{engine.memory_fraction:g}" if engine.memory_fraction not in (None, default) else None


def _vllm(deployment: Deployment, budget: int, requests: int) -> Options:
    parallelism, fraction = deployment.parallelism, _changed_fraction(deployment.engine)
    return [
        ("--max-num-batched-tokens", str(budget)),
        ("--max-num-seqs", str(requests)),
        ("--tensor-parallel-size", str(parallelism.tp)),
        *_when(parallelism.dp > 1, "--data-parallel-size", str(parallelism.dp)),
        *_when(parallelism.pp > 1, "--pipeline-parallel-size", str(parallelism.pp)),
        *_when(parallelism.ep > 1, "--enable-expert-parallel"),
        *_when(deployment.precision.kv == "fp8", "--kv-cache-dtype", "fp8"),
        *_when(fraction, "--gpu-memory-utilization", fraction or ""),
    ]


def _sglang(deployment: Deployment, size: int, requests: int) -> Options:
    """The chunk is divided by the attention ranks, and the tensor parallel size counts them all."""
    parallelism, fraction = deployment.parallelism, _changed_fraction(deployment.engine)
    interval = deployment.engine.prefill_interval
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
        *_when(size > SGLANG_MAX_PREFILL, "--max-prefill-tokens", str(size)),
        *_when(deployment.precision.kv == "fp8", "--kv-cache-dtype", "fp8_e4m3"),
        *_when(fraction, "--mem-fraction-static", fraction or ""),
    ]


def _trtllm(deployment: Deployment, budget: int, requests: int) -> Options:
    """Attention data parallelism and the KV format have no flag: they go into the YAML options."""
    parallelism, fraction = deployment.parallelism, _changed_fraction(deployment.engine)
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
