"""vLLM: what its arguments mean, from 0.6.6 (V0 engine) to 0.33.

Read from vllm/engine/arg_utils.py, vllm/config/ and vllm/utils/argparse_utils.py of the versions in
tables/vllm.toml. A step runs the decodes first and fills what is left of its budget with prompts.
"""

from __future__ import annotations

from typing import Any

from chunkcalc.engines.grammar import Arguments, Grammar
from chunkcalc.engines.graphs import captured, eager
from chunkcalc.engines.graphs import flag as capturing
from chunkcalc.engines.literals import suffixed
from chunkcalc.engines.reading import Reading, Target, Values
from chunkcalc.engines.tables import Table
from chunkcalc.engines.writing import Options, Wanted, changed_fraction, when
from chunkcalc.records import Parallelism

HUMAN = suffixed(
    {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40},
    frozenset("kmgt"),
    "write a whole number, 8k (8,000) or 8K (8,192)",
)
DRAFT_FIELDS = ("speculative_config", "spec_tokens", "num_speculative_tokens")
MOST_DRAFTS = 64  # of a step: more is a mistake
BATCHED_DP_BUDGET = 256  # config/scheduler.py: DEFAULT_MAX_NUM_BATCHED_TOKENS_FOR_BATCHED_DP
V0_LONG_CONTEXT = 32768  # 0.6.6 chunks prompts of its own accord above this context
QUANTISED = {
    "fp8": "fp8", "fp8_per_tensor": "fp8", "fp8_per_block": "fp8", "fp8_per_channel": "fp8", "fbgemm_fp8": "fp8",
    "modelopt": "fp8", "awq": "int4", "awq_marlin": "int4", "gptq": "int4", "gptq_marlin": "int4",
    "int8_per_channel_weight_only": "int8", "modelopt_fp4": "nvfp4", "nvfp4_per_token": "nvfp4", "petit_nvfp4": "nvfp4",
    "mxfp4": "mxfp4", "bitsandbytes": "int4",
}  # fmt: skip
KV = {
    "fp8": "fp8", "fp8_e4m3": "fp8", "fp8_e5m2": "fp8", "fp8_inc": "fp8", "fp8_ds_mla": "fp8", "bfloat16": "bf16",
}  # fmt: skip


def grammar(table: Table) -> Grammar:
    """How vLLM reads its arguments."""
    return Grammar(
        options=table.options(), aliases=table.aliases(), human=HUMAN,
        dotted=table.since("0.9.0"), pairs=table.since("0.33.0"), empty=True, loose=not table.since("0.10.0"),
    )  # fmt: skip


def read(arguments: Arguments, table: Table, target: Target) -> Reading:
    """What the arguments mean."""
    values = Values(arguments, table, target)
    values.suffixes("kmg", str.upper, "max_num_batched_tokens", "max_model_len", "max_num_queued_tokens")
    model = _model(values)
    longer = target.environment.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN") == "1"
    changed = any(values.given(name) for name in ("hf_overrides", "rope_scaling", "hf_config_path"))
    length = values.length("max_model_len", longer or changed)
    parallelism = Parallelism(
        tp=values.take("tensor_parallel_size", 1),
        pp=values.take("pipeline_parallel_size", 1),
        dp=values.take("data_parallel_size", 1),
        ep=1,
    )
    chunked = _chunked(values, length)
    budget, requests = _batch(values, length, chunked, parallelism)
    _others(values)
    fraction = values.take("gpu_memory_utilization", least=None)
    if not 0 < fraction <= 1:
        text = f"--gpu-memory-utilization {fraction:g}: must be above 0 and at most 1"
        values.refuse("E21", text, "gpu_memory_utilization")
        fraction = values.derive("gpu_memory_utilization", 0.9, "to go on")
    threshold = _pace(values, budget)
    _check(values, budget, requests, length, chunked, threshold)
    drafts, slots, scheduled, active = _speculation(values, budget, requests)
    budget = values.take("max_num_scheduled_tokens", scheduled, "the whole budget")
    full = budget - slots - active * (1 + drafts + slots)
    if full <= 0:
        text = f"{active:,} running decodes take the whole budget of {budget:,}: prompts wait until some finish"
        values.differ("E25", text, "max_num_batched_tokens", "max_num_seqs", filled=True, of_prompts=True)
    drafter = _method(_draft_config(values)) if drafts else ""
    if drafts:
        values.notes.append("memory and time of the draft model are left out")
    kv, weights = values.format("kv_cache_dtype", KV), values.format("quantization", QUANTISED)
    experts = bool(values.take("enable_expert_parallel", False))
    return Reading(
        table=table, entry=target.entry, model=model, values=values.found,
        budget=budget, chunk=max(1, budget - slots), chunk_full=max(0, full),
        max_num_seqs=requests, max_model_len=length,
        parallelism=Parallelism(
            tp=parallelism.tp, pp=parallelism.pp, dp=parallelism.dp, ep=parallelism.stage_gpus if experts else 1
        ),
        draft_tokens=drafts, drafter=drafter, captured=captured(values, requests, drafts), eager=eager(values),
        weights=weights, kv=kv, memory_fraction=fraction,
        unknown_flags=tuple(arguments.unknown), refusals=tuple(values.refusals),
        differences=tuple(values.differences), notes=tuple(values.notes),
    )  # fmt: skip


def _others(values: Values) -> None:
    """What else decides capacity, and what the figures leave out."""
    for name in (
        "block_size", "num_gpu_blocks_override", "kv_cache_memory_bytes",
        "max_num_queued_tokens", "max_num_queued_reqs", "enforce_eager", "enable_prefix_caching", "scheduling_policy",
        "async_scheduling",
    ):  # fmt: skip
        values.take(name)
    values.take("cpu_offload_gb", least=0)
    values.left_out(
        enable_lora="memory of the LoRA adapters is left out",
        decode_context_parallel_size="decode context parallelism is left out: it holds more tokens than stated",
        prefill_context_parallel_size="prefill context parallelism is left out",
        kv_offloading_size="KV offloading is left out",
        kv_transfer_config="memory of the KV connector is left out: it can take half of the cache",
    )
    values.dtype()


def _pace(values: Values, budget: int) -> int:
    """How prompts share the budget with each other; the most that one takes beside others, 0 for all."""
    threshold = values.take("long_prefill_token_threshold", 0, "off", least=0)
    if 0 < threshold < budget:
        values.notes.append(f"beside other requests a prompt takes at most {threshold:,} tokens of a step")
    interval = values.take("prefill_schedule_interval") or 1
    if interval > 1:
        values.notes.append(
            f"prompts are admitted every {interval} steps only: the first token can take that much longer"
        )
    return int(threshold)


def _model(values: Values) -> str:
    positional = values.arguments.positional
    named = values.arguments.value("model")
    if positional and named and positional[0] != named:
        values.differ("E14", f"the model is named twice: {positional[0]} counts, --model {named} does not", "model")
    values.strangers(positional[1:])
    return str(positional[0] if positional else named or "")


def _chunked(values: Values, length: int) -> bool:
    table = values.table
    if values.target.latent and table.since("0.7.0") and not table.since("0.8.0"):
        values.derive("enable_chunked_prefill", False, "V0: forced off for latent attention")
        return False
    if not table.since("0.8.0"):
        automatic = length > V0_LONG_CONTEXT
        return bool(values.take("enable_chunked_prefill", automatic, f"V0: on above {V0_LONG_CONTEXT:,} of context"))
    chunked = bool(values.take("enable_chunked_prefill", True, "on for models that support it"))
    if not chunked and not table.since("0.11.2"):
        text = f"vLLM {table.read} chunks prompts even with --no-enable-chunked-prefill (V1)"
        values.differ("E24", text, "enable_chunked_prefill")
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
    backend = values.take("all2all_backend")
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
        text = (
            f"a budget of {budget:,} is below the context of {length:,} and chunked prefill is off: "
            "raise --max-num-batched-tokens or lower --max-model-len"
        )
        values.refuse("E01", text, "max_num_batched_tokens", "max_model_len", "enable_chunked_prefill")
    if budget < requests:
        text = f"--max-num-batched-tokens {budget:,} is below --max-num-seqs {requests:,}"
        values.refuse("E02", text, "max_num_batched_tokens", "max_num_seqs")
    if threshold > length and values.table.since("0.27.0"):
        text = f"--long-prefill-token-threshold {threshold:,} exceeds the context of {length:,}"
        values.refuse("E16", text, "long_prefill_token_threshold")
    if budget > requests * length:
        text = f"a budget of {budget:,} is more than {requests:,} requests of {length:,} tokens can fill (warned only)"
        values.differ("E25", text, "max_num_batched_tokens", "max_num_seqs", level="warning")
    for name in ("max_num_partial_prefills", "max_long_partial_prefills"):
        if (values.take(name) or 1) != 1 and values.table.since("0.8.0"):
            flag = f"--{name.replace('_', '-')}"
            if values.table.since("0.11.2"):
                values.refuse("E03", f"{flag} other than 1: concurrent partial prefills are not supported", name)
            else:
                values.differ("E03", f"{flag} other than 1 falls back to the V0 engine, with other defaults", name)


def _draft_config(values: Values) -> dict[str, Any]:
    config: Any = values.take("speculative_config")
    if config is not None and not (isinstance(config, dict) and config):
        values.refuse("E21", "--speculative-config is not a mapping of settings", "speculative_config")
    config = dict(config) if isinstance(config, dict) else {}
    for key, flag in (("method", "spec_method"), ("model", "spec_model"), ("num_speculative_tokens", "spec_tokens")):
        if values.take(flag) is not None:
            config[key] = values.arguments.value(flag)
    if values.take("num_speculative_tokens") is not None:  # 0.6 and 0.7
        config.setdefault("num_speculative_tokens", values.arguments.value("num_speculative_tokens"))
    return dict(config)


def _speculation(values: Values, budget: int, requests: int) -> tuple[int, int, int, int]:
    """Draft tokens, further slots of each request, what may be scheduled, and most decodes at once."""
    table = values.table
    active: int = values.take("max_num_active_seqs") or requests
    if active > requests:
        text = f"--max-num-active-seqs {active:,} exceeds --max-num-seqs {requests:,}"
        values.refuse("E21", text, "max_num_active_seqs")
    config = _draft_config(values)
    drafts = config.get("num_speculative_tokens") or 0
    if not isinstance(drafts, int) or isinstance(drafts, bool) or not 0 <= drafts <= MOST_DRAFTS:
        text = f"num_speculative_tokens is {drafts!r:.30}: must be a whole number up to {MOST_DRAFTS}"
        values.refuse("E21", text, *DRAFT_FIELDS)
        drafts = 0
    if not drafts:
        return 0, 0, budget, active
    least = requests * (drafts + 1)
    if values.arguments.value("enable_lora") and table.since("0.11.2") and budget < least:
        text = f"with LoRA, {drafts} draft tokens for {requests:,} requests need {least:,} tokens"
        fields = ("max_num_batched_tokens", "max_num_seqs", *DRAFT_FIELDS)
        values.refuse("E10", text, *fields, slots=drafts, requests=requests)
    method = _method(config)
    slots = _slots(method, drafts, bool(config.get("parallel_drafting")), table)
    if not table.since("0.28.0"):
        return drafts, 0, _less_slots(values, budget, slots, requests), active
    lookahead = drafts + (method == "dflash") if method != "ngram" else 0
    if budget <= (lookahead if table.since("0.33.0") else slots):
        text = f"a budget of {budget:,} has no room for {drafts} draft tokens"
        values.refuse("E10", text, "max_num_batched_tokens", *DRAFT_FIELDS)
    if table.since("0.33.0") and method in ("dflash", "dspark") and budget // lookahead < active:
        active = int(values.derive("max_num_active_seqs", max(1, budget // lookahead), f"draft pass of {method}"))
    return drafts, slots, budget, active


def _less_slots(values: Values, budget: int, slots: int, requests: int) -> int:
    """Before 0.28 the slots of every request that could run were taken off the budget beforehand."""
    scheduled = budget - slots * requests
    if not slots or not values.table.since("0.17.0"):
        return budget
    if scheduled > 0:
        return scheduled
    problem = (
        f"{slots} draft slots for each of {requests:,} requests leave {scheduled:,} of the budget of {budget:,}: "
        "raise --max-num-batched-tokens or lower --max-num-seqs"
    )
    fields, facts = ("max_num_batched_tokens", "max_num_seqs", *DRAFT_FIELDS), {"slots": slots, "requests": requests}
    if values.table.since("0.20.0"):
        values.refuse("E10", problem, *fields, **facts)
    else:
        values.differ("E10", f"nothing can be scheduled: {problem}", *fields, **facts)
    return budget


def _method(config: dict[str, Any]) -> str:
    """How it drafts: said, or seen from the name of the draft model (config/speculative.py)."""
    name = str(config.get("model") or "").lower()
    if config.get("method"):
        return str(config["method"])
    for part, method in (("dflash", "dflash"), ("dspark", "dspark"), ("eagle-", "eagle"), ("eagle3", "eagle3"),
                         ("medusa", "medusa"), ("mlp_speculator", "mlp_speculator")):  # fmt: skip
        if part in name:
            return method
    return "draft_model" if name and name not in ("ngram", "[ngram]") else name.strip("[]") or "mtp"


def _slots(method: str, drafts: int, parallel: bool, table: Table) -> int:
    """Extra draft slots of a request (config/speculative.py: max_num_new_slots_for_drafting)."""
    if method == "draft_model":
        return drafts if parallel else 1
    if method in ("dflash", "dspark"):
        if table.since("0.33.0"):
            return 0
        return drafts if method == "dflash" and table.since("0.28.0") else drafts - 1
    return drafts - 1 if parallel else 0


def written(wanted: Wanted) -> Options:
    """The options that realise an answer."""
    parallelism, fraction = wanted.deployment.parallelism, changed_fraction(wanted.deployment, wanted.table)
    # What is predicted is captured, though vLLM would not capture it for so few requests.
    captured = min(wanted.budget, wanted.deployment.engine.captured)
    graph = capturing(wanted.table, wanted.requests, wanted.drafts, captured)
    return [
        ("--max-num-batched-tokens", str(wanted.budget)),
        ("--max-num-seqs", str(wanted.requests)),
        ("--tensor-parallel-size", str(parallelism.tp)),
        *when(parallelism.dp > 1, "--data-parallel-size", str(parallelism.dp)),
        *when(parallelism.pp > 1, "--pipeline-parallel-size", str(parallelism.pp)),
        *when(parallelism.ep > 1, "--enable-expert-parallel"),
        *when(not wanted.table.since("0.8.0"), "--enable-chunked-prefill"),
        *when(wanted.deployment.precision.kv == "fp8", "--kv-cache-dtype", "fp8"),
        *when(fraction, "--gpu-memory-utilization", fraction or ""),
        *when(wanted.queued and wanted.table.since("0.29.0"), "--max-num-queued-tokens", str(wanted.queued)),
        *when(graph, *graph),
    ]
