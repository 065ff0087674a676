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

ENGINES = {
    "vllm": Engine(
        name="vllm", version="0.33.0", memory_rule="total", memory_fraction=0.92, tpot_band=0.15, ttft_band=0.40
    ),
    "sglang": Engine(
        name="sglang", version="0.5.23", composition="prefill_first", budget_counts_decodes=False,
        half_prefilled="one", memory_rule="total_less_reserve", tpot_band=0.25, ttft_band=0.60,
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
    parallelism, engine = deployment.parallelism, deployment.engine
    per_rank = max(1, math.ceil(workload.batch / parallelism.dp))
    tp, dp, pp, ep = (str(n) for n in (parallelism.tp, parallelism.dp, parallelism.pp, parallelism.ep))
    several = {name for name, n in (("dp", dp), ("pp", pp), ("ep", ep)) if n != "1"}
    if engine.name == "vllm":
        out = [
            "--max-num-batched-tokens",
            str(budget),
            "--max-num-seqs",
            str(per_rank),
            "--tensor-parallel-size",
            tp,
        ]
        out += ["--data-parallel-size", dp] if "dp" in several else []
        out += ["--pipeline-parallel-size", pp] if "pp" in several else []
        return (*out, "--enable-expert-parallel") if "ep" in several else tuple(out)
    if engine.name == "sglang":
        # The flag is divided by the attention ranks, and its tp counts all of them.
        size = (budget if engine.composition == "mixed" else chunk) * parallelism.dp
        out = [
            "--chunked-prefill-size",
            str(size),
            "--max-running-requests",
            str(max(1, workload.batch)),
        ]
        out += ["--tp-size", str(parallelism.stage_gpus)]
        out += ["--dp-size", dp, "--enable-dp-attention"] if "dp" in several else []
        out += ["--pp-size", pp] if "pp" in several else []
        out += ["--ep-size", ep] if "ep" in several else []
        return (*out, "--enable-mixed-chunk") if engine.composition == "mixed" else tuple(out)
    out = [
        "--max_num_tokens",
        str(budget),
        "--max_batch_size",
        str(per_rank),
        "--tp_size",
        str(parallelism.stage_gpus),
    ]
    out += ["--pp_size", pp] if "pp" in several else []
    out += ["--ep_size", ep] if "ep" in several else []
    return (*out, "--enable_chunked_prefill")
