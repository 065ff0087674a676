"""SGLang: what its arguments mean, from 0.4.6 to 0.5.23, and the memory it keeps free.

Read from sglang/srt/server_args.py, arg_groups/ and mem_cache/kv_cache_configurator.py of the versions
in tables/sglang.toml. A step runs prompts or decodes, prompts first, unless `--enable-mixed-chunk`.
"""

from __future__ import annotations

from typing import Any

from chunkcalc import ops
from chunkcalc.engines.grammar import Arguments, Grammar, suffixed
from chunkcalc.engines.reading import Reading, Target, Values
from chunkcalc.engines.tables import Table
from chunkcalc.records import Parallelism

HUMAN = suffixed(
    {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40},
    frozenset("kMGT"),
    "write a whole number, 8k (8,000) or 8Ki (8,192)",
)
MIB = 2**20
# 0.5.3 and later (server_args.py, memory_hook.py): MiB kept free when no fraction is given.
BASE, PER_TOKEN, LEAST_TOKENS, PER_8_GPUS, GRAPHS = 512, 1.5, 2048, 1024, 1024
LEAST, LARGE_GPU = 10 * 1024, 60 * 1024
LEAST_RUNNING, MOST_RUNNING, RUNNING_PER_CONTEXT = 2048, 4096, 512
_KV = {"fp8_e4m3": "fp8", "fp8_e5m2": "fp8", "bf16": "bf16", "bfloat16": "bf16"}
_QUANTISED = {
    "fp8": "fp8", "w8a8_fp8": "fp8", "modelopt": "fp8", "modelopt_fp8": "fp8", "awq": "int4", "awq_marlin": "int4",
    "gptq": "int4", "gptq_marlin": "int4", "w8a8_int8": "int8", "modelopt_fp4": "nvfp4", "mxfp4": "mxfp4",
}  # fmt: skip


def grammar(table: Table) -> Grammar:
    """How SGLang reads its arguments.

    Parameters
    ----------
    table : the version
    """
    return Grammar(options=table.options(), aliases=table.aliases(), human=HUMAN, underscores=False)


def read(arguments: Arguments, table: Table, target: Target) -> Reading:
    """What the arguments mean.

    Parameters
    ----------
    arguments : parsed
    table : the version
    target : device and model
    """
    mode = arguments.value("disaggregation_mode")
    values = Values(arguments, table, target, role="" if mode in (None, "null") else str(mode))
    values.suffixes("kMG", "{}i".format, "context_length", "max_total_tokens", "max_prefill_tokens")
    model = str(values.take("model_path") or next(iter(arguments.positional), ""))
    longest = target.max_position
    length: int = values.take("context_length", longest, "the model's longest context")
    if length > longest:
        values.refusals.append(f"--context-length {length:,} exceeds the model's {longest:,}")
    parallelism = _parallelism(values)
    mixed = _mixed(values)
    chunk = _chunk(values, parallelism.dp, length)
    requests = _requests(values, parallelism.dp)
    for name in ("page_size", "max_total_tokens", "cpu_offload_gb", "dtype", "schedule_policy",
                 "disable_radix_cache", "num_continuous_decode_steps", "disaggregation_mode"):  # fmt: skip
        values.take(name, least=None)
    page = arguments.value("page_size") or 1
    if page > 1 and chunk % page:
        values.refusals.append(f"a chunk of {chunk:,} is not a multiple of --page-size {page}")
    fraction = values.take("mem_fraction_static", least=None)
    if fraction is None:
        fraction = default_fraction(table, target.hardware.memory, parallelism)
        left = 1 - reserve_bytes(target.hardware.memory, parallelism.gpus, chunk) / target.hardware.memory
        rule = "by size of the GPU" if fraction else "what the activations of the chunk leave"
        values.derive("mem_fraction_static", fraction or round(left, 3), rule)
    elif not 0 < fraction < 1:
        values.refusals.append(f"--mem-fraction-static {fraction:g}: must lie between 0 and 1")
        fraction = None
    drafts = values.take("speculative_num_draft_tokens") if values.take("speculative_algorithm") else 0
    kv, weights = values.take("kv_cache_dtype", "auto"), values.take("quantization")
    interval = values.take("prefill_decode_interval", 0, "off", least=0) if table.since("0.5.19") else 0
    return Reading(
        table=table, entry=target.entry, model=model, values=values.found,
        budget=chunk, chunk=chunk, chunk_full=max(0, chunk - requests) if mixed else chunk,
        max_num_seqs=requests, max_model_len=length,
        composition="mixed" if mixed else "prefill_first", interval=0 if mixed else interval,
        parallelism=parallelism, draft_tokens=max(0, (drafts or 0) - 1),
        weights=_QUANTISED.get(str(weights)), kv=_KV.get(str(kv)), memory_fraction=fraction, role=values.role,
        unknown_flags=values.unknown(), refusals=tuple(values.refusals), differences=tuple(values.differences),
    )  # fmt: skip


def reserve_bytes(memory: float, gpus: int, n: Any) -> Any:
    """Memory that 0.5.3 and later keep free of weights and cache when no fraction is given.

    Parameters
    ----------
    memory : of one GPU [byte]
    gpus : of the replica [1]
    n : tokens of the largest step [token]

    Returns
    -------
    reserve [byte]
    """
    mib = BASE + PER_TOKEN * ops.maximum(n, LEAST_TOKENS) + PER_8_GPUS * gpus / 8 + GRAPHS
    return MIB * (ops.maximum(mib, LEAST) if memory > LARGE_GPU * MIB else mib)


def default_fraction(table: Table, memory: float, parallelism: Parallelism) -> float | None:
    """The fraction that versions before 0.5.3 choose without looking at the chunk.

    Parameters
    ----------
    table : the version
    memory : of one GPU [byte]
    parallelism : of the replica

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
    return round(1 - (kept + (4 if parallelism.dp > 1 else 0)) * 1024 / mib, 3)


def running_requests(kv_tokens: int, length: int) -> int:
    """Most requests in flight on a rank when the flag is left out (kv_cache_configurator.py).

    Parameters
    ----------
    kv_tokens : tokens that the rank's pool holds [token]
    length : longest context [token]
    """
    by_context = int(kv_tokens / length * RUNNING_PER_CONTEXT)
    return max(1, min(max(LEAST_RUNNING, min(by_context, MOST_RUNNING)), kv_tokens // 2))


def _parallelism(values: Values) -> Parallelism:
    tp: int = values.take("tp_size", 1)
    pp: int = values.take("pp_size", 1)
    ep: int = values.take("ep_size", 1)
    replicas: int = values.take("dp_size", 1)
    ranks = values.take("attn_dp_size") or (replicas if values.take("enable_dp_attention") else 1)
    if replicas > 1 and ranks == 1:
        values.differences.append(
            f"--dp-size {replicas} without attention data parallelism starts {replicas} independent replicas: "
            "the figures are those of one"
        )
    if tp % ranks:
        values.refusals.append(f"{ranks} attention ranks do not divide --tp-size {tp}")
        ranks = 1
    return Parallelism(tp=tp // ranks, dp=ranks, pp=pp, ep=ep if tp % ep == 0 else 1)


def _mixed(values: Values) -> bool:
    if not values.take("enable_mixed_chunk", False, "off: prompts first"):
        return False
    algorithm = values.arguments.value("speculative_algorithm")
    if algorithm and str(algorithm).upper() != "DSPARK":
        values.differences.append(f"--enable-mixed-chunk is switched off by speculative algorithm {algorithm}")
        values.derive("enable_mixed_chunk", False, "speculative decoding")
        return False
    return True


def _chunk(values: Values, ranks: int, length: int) -> int:
    """Prompt tokens of a step on one rank."""
    size: int = values.take("chunked_prefill_size", least=-1)
    most: int = values.take("max_prefill_tokens")
    if size <= 0:
        values.differences.append("chunked prefill is off: a prompt runs whole and stalls every decode until it ends")
        return int(values.derive("chunked_prefill_size", max(most, length), "off: whole prompts"))
    if ranks > 1:
        rule = f"divided by {ranks} attention ranks"
        values.differences.append(f"a chunk of {size:,} is {rule}: {size // ranks:,} each (only a log line says so)")
        size = values.derive("chunked_prefill_size", max(1, size // ranks), rule)
    if most < size:
        values.differences.append(f"--max-prefill-tokens {most:,} is tighter than the chunk of {size:,}")
        size = most
    return size


def _requests(values: Values, ranks: int) -> int:
    limit: int = values.take("max_running_requests", LEAST_RUNNING, "2,048 to 4,096 by the memory left")
    if ranks > 1 and values.given("max_running_requests"):
        return int(values.derive("max_running_requests", max(1, limit // ranks), f"divided by {ranks} attention ranks"))
    return limit
