"""vLLM: what its arguments mean, from 0.6.6 (V0 engine) to 0.33.

Read from vllm/engine/arg_utils.py, vllm/config/ and vllm/utils/argparse_utils.py of the versions in
tables/vllm.toml. A step runs the decodes first and fills what is left of its budget with prompts.
"""

from __future__ import annotations

from typing import Any

from chunkcalc.engines.grammar import Arguments, Grammar, suffixed
from chunkcalc.engines.reading import Reading, Target, Values
from chunkcalc.engines.tables import Table
from chunkcalc.records import Parallelism

HUMAN = suffixed(
    {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40},
    frozenset("kmgt"),
    "write a whole number, 8k (8,000) or 8K (8,192)",
)
BATCHED_DP_BUDGET = 256  # config/scheduler.py: DEFAULT_MAX_NUM_BATCHED_TOKENS_FOR_BATCHED_DP
V0_LONG_CONTEXT = 32768  # 0.6.6 chunks prompts of its own accord above this context
_QUANTISED = {
    "fp8": "fp8", "fp8_per_tensor": "fp8", "fp8_per_block": "fp8", "fp8_per_channel": "fp8", "fbgemm_fp8": "fp8",
    "modelopt": "fp8", "awq": "int4", "awq_marlin": "int4", "gptq": "int4", "gptq_marlin": "int4",
    "int8_per_channel_weight_only": "int8", "modelopt_fp4": "nvfp4", "nvfp4_per_token": "nvfp4", "petit_nvfp4": "nvfp4",
    "mxfp4": "mxfp4",
}  # fmt: skip


def grammar(table: Table) -> Grammar:
    """How vLLM reads its arguments.

    Parameters
    ----------
    table : the version
    """
    return Grammar(
        options=table.options(), aliases=table.aliases(), human=HUMAN,
        dotted=table.since("0.9.0"), pairs=table.since("0.33.0"),
    )  # fmt: skip


def read(arguments: Arguments, table: Table, target: Target) -> Reading:
    """What the arguments mean.

    Parameters
    ----------
    arguments : parsed
    table : the version
    target : device, model and entry point
    """
    values = Values(arguments, table, target)
    values.suffixes("kmg", str.upper, "max_num_batched_tokens", "max_model_len", "max_num_queued_tokens")
    model = _model(values)
    length = _max_model_len(values)
    parallelism = Parallelism(
        tp=values.take("tensor_parallel_size", 1),
        pp=values.take("pipeline_parallel_size", 1),
        dp=values.take("data_parallel_size", 1),
        ep=1,
    )
    chunked = _chunked(values, length)
    budget, requests = _batch(values, length, chunked, parallelism)
    for name in (
        "block_size", "kv_cache_memory_bytes", "num_gpu_blocks_override", "cpu_offload_gb", "dtype", "enforce_eager",
        "enable_prefix_caching", "prefill_schedule_interval", "max_num_queued_tokens", "max_num_queued_reqs",
        "decode_context_parallel_size", "scheduling_policy", "async_scheduling", "enable_lora",
    ):  # fmt: skip
        values.take(name, least=None)
    fraction = values.take("gpu_memory_utilization", least=None)
    if not 0 < fraction <= 1:
        values.refusals.append(f"--gpu-memory-utilization {fraction:g}: must be above 0 and at most 1")
        fraction = values.derive("gpu_memory_utilization", 0.9, "to go on")
    threshold = values.take("long_prefill_token_threshold", 0, "off", least=0)
    _check(values, budget, requests, length, chunked, threshold)
    drafts, per_decode, scheduled, active = _speculation(values, budget, requests)
    budget = values.take("max_num_scheduled_tokens", scheduled, "the whole budget")
    full = budget - active * per_decode
    if full <= 0:
        values.differences.append(
            f"{active:,} running decodes take the whole budget of {budget:,}: prompts wait until some finish"
        )
    kv, weights = values.take("kv_cache_dtype", "auto"), values.take("quantization")
    experts = bool(values.take("enable_expert_parallel", False))
    return Reading(
        table=table, entry=target.entry, model=model, values=values.found,
        budget=budget, chunk=budget, chunk_full=max(0, full),
        max_num_seqs=requests, max_model_len=length,
        parallelism=Parallelism(
            tp=parallelism.tp, pp=parallelism.pp, dp=parallelism.dp, ep=parallelism.stage_gpus if experts else 1
        ),
        draft_tokens=drafts,
        weights=_QUANTISED.get(str(weights)), kv=None if kv == "auto" else ("fp8" if "fp8" in kv else "bf16"),
        memory_fraction=fraction, role=_role(values),
        unknown_flags=values.unknown(), refusals=tuple(values.refusals), differences=tuple(values.differences),
    )  # fmt: skip


def _model(values: Values) -> str:
    positional = values.arguments.positional
    named = values.arguments.value("model")
    if positional and named and positional[0] != named:
        values.differences.append(f"the model is named twice: {positional[0]} counts, --model {named} does not")
    if len(positional) > 1:
        values.refusals.append(f"'{positional[1]}' belongs to no flag")
    return str(positional[0] if positional else named or "")


def _max_model_len(values: Values) -> int:
    longest = values.target.max_position
    length: int = values.take("max_model_len", longest, "the model's longest context", least=None)
    if length == -1:
        return int(values.derive("max_model_len", longest, "auto: the longest that fits"))
    if length > longest:
        values.refusals.append(f"--max-model-len {length:,} exceeds the model's {longest:,}")
    if length < 1:
        values.refusals.append(f"--max-model-len {length}: must be at least 1")
        return int(values.derive("max_model_len", longest, "to go on"))
    return length


def _chunked(values: Values, length: int) -> bool:
    table = values.table
    if not table.since("0.8.0"):
        automatic = length > V0_LONG_CONTEXT
        return bool(values.take("enable_chunked_prefill", automatic, f"V0: on above {V0_LONG_CONTEXT:,} of context"))
    chunked = bool(values.take("enable_chunked_prefill", True, "on for models that support it"))
    if not chunked and not table.since("0.11.2"):
        values.differences.append(f"vLLM {table.read} chunks prompts even with --no-enable-chunked-prefill (V1)")
        values.derive("enable_chunked_prefill", True, "V1 always chunks")
        return True
    return chunked


def _batch(values: Values, length: int, chunked: bool, parallelism: Parallelism) -> tuple[int, int]:
    """Budget and requests, settled in the engine's order."""
    table = values.table
    budget: int = values.take("max_num_batched_tokens")
    requests: int = values.take("max_num_seqs")
    free_budget = not values.given("max_num_batched_tokens")
    free_requests = not values.given("max_num_seqs")
    backend = values.take("all2all_backend") if "all2all-backend" in table.options() else None
    low_latency = backend in ("deepep_low_latency", "nixl_ep") and values.arguments.value("enable_expert_parallel")
    if free_budget and low_latency and parallelism.dp > 1 and table.since("0.20.0"):
        budget = values.derive("max_num_batched_tokens", BATCHED_DP_BUDGET, f"all-to-all backend {backend}")
    if values.take("performance_mode") == "throughput":
        rule = "doubled by --performance-mode throughput"
        budget = values.derive("max_num_batched_tokens", 2 * budget, rule) if free_budget else budget
        requests = values.derive("max_num_seqs", 2 * requests, rule) if free_requests else requests
    if free_budget and not chunked:
        budget = values.derive("max_num_batched_tokens", max(length, budget), "whole prompts: the longest context")
    if free_budget and table.since("0.11.2"):
        budget = values.derive(
            "max_num_batched_tokens", min(budget, requests * length), "all that max_num_seqs requests can hold"
        )
    if free_requests and table.since("0.10.1"):
        requests = values.derive("max_num_seqs", min(requests, budget), "no more than the budget")
    return budget, requests


def _check(values: Values, budget: int, requests: int, length: int, chunked: bool, threshold: int) -> None:
    """The engine's own checks at start (config/scheduler.py)."""
    if not chunked and budget < length:
        values.refusals.append(
            f"a budget of {budget:,} is below the context of {length:,} and chunked prefill is off: "
            "raise --max-num-batched-tokens or lower --max-model-len"
        )
    if budget < requests:
        values.refusals.append(f"--max-num-batched-tokens {budget:,} is below --max-num-seqs {requests:,}")
    if threshold > length:
        values.refusals.append(f"--long-prefill-token-threshold {threshold:,} exceeds the context of {length:,}")
    if budget > requests * length:
        values.differences.append(
            f"a budget of {budget:,} is more than {requests:,} requests of {length:,} tokens can fill (warned only)"
        )
    for name in ("max_num_partial_prefills", "max_long_partial_prefills"):
        if values.given(name):
            values.take(name)
            if values.table.since("0.8.0"):
                values.differences.append(f"--{name.replace('_', '-')} has no effect in the V1 engine (PR 49075)")


def _speculation(values: Values, budget: int, requests: int) -> tuple[int, int, int, int]:
    """Draft tokens, budget that each decode takes, what may be scheduled, and most decodes at once."""
    table = values.table
    active: int = values.take("max_num_active_seqs") or requests
    if active > requests:
        values.refusals.append(f"--max-num-active-seqs {active:,} exceeds --max-num-seqs {requests:,}")
    config: Any = values.take("speculative_config")
    config = dict(config) if isinstance(config, dict) else {}
    for key, flag in (("method", "spec_method"), ("model", "spec_model"), ("num_speculative_tokens", "spec_tokens")):
        if values.take(flag) is not None:
            config[key] = values.arguments.value(flag)
    drafts = config.get("num_speculative_tokens", values.take("num_speculative_tokens") or 0)
    if not isinstance(drafts, int) or isinstance(drafts, bool) or drafts < 0:
        values.refusals.append(f"num_speculative_tokens is {drafts!r:.30}: must be a whole number")
        drafts = 0
    if not drafts:
        return 0, 1, budget, active
    slots = _slots(str(config.get("method") or ("draft_model" if config.get("model") else "")), drafts, config)
    scheduled = budget
    if slots and table.since("0.17.0") and not table.since("0.28.0"):
        scheduled = budget - slots * requests
        if scheduled <= 0:
            values.refusals.append(
                f"{slots} draft slots for each of {requests:,} requests leave {scheduled:,} of the budget of "
                f"{budget:,}: raise --max-num-batched-tokens or lower --max-num-seqs"
            )
            scheduled = budget
        slots = 0
    elif budget <= max(slots, drafts):
        values.refusals.append(f"a budget of {budget:,} has no room for {drafts} draft tokens")
    if table.since("0.33.0") and config.get("method") in ("dflash", "dspark") and budget // drafts < active:
        active = values.derive("max_num_active_seqs", budget // drafts, f"draft pass of {config['method']}")
    return drafts, 1 + drafts + slots, scheduled, active


def _slots(method: str, drafts: int, config: dict[str, Any]) -> int:
    """Extra draft slots of a request (config/speculative.py: max_num_new_slots_for_drafting)."""
    parallel = bool(config.get("parallel_drafting"))
    if method == "draft_model":
        return drafts if parallel else 1
    if method == "dflash":
        return drafts
    return drafts - 1 if parallel or method == "dspark" else 0


def _role(values: Values) -> str:
    config = values.take("kv_transfer_config")
    role = config.get("kv_role") if isinstance(config, dict) else None
    return {"kv_producer": "prefill", "kv_consumer": "decode"}.get(str(role), "")
