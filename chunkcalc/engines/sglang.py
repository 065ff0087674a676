"""SGLang: what its arguments mean, from 0.4.6 to 0.5.23.

Read from sglang/srt/server_args.py, arg_groups/ and mem_cache/kv_cache_configurator.py of the versions
in tables/sglang.toml. A step runs prompts or decodes, prompts first, unless `--enable-mixed-chunk`.
"""

from __future__ import annotations

from chunkcalc.engines.grammar import Arguments, Grammar
from chunkcalc.engines.literals import suffixed
from chunkcalc.engines.reading import Reading, Target, Values
from chunkcalc.engines.reserve import MIB, default_fraction, reserve_bytes
from chunkcalc.engines.tables import Table
from chunkcalc.engines.writing import Options, Wanted, changed_fraction, when
from chunkcalc.records import Parallelism

HUMAN = suffixed(
    {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40},
    frozenset("kMGT"),
    "write a whole number, 8k (8,000) or 8Ki (8,192)",
)
LEAST_RUNNING, MOST_RUNNING, RUNNING_PER_CONTEXT = 2048, 4096, 512
SPECULATIVE_RUNNING = 48  # speculative_hook.py: requests in flight when the flag is left out
MIXES_WITH_DRAFTS = frozenset(("EAGLE", "EAGLE3", "NEXTN", "DFLASH", "DSPARK"))  # spec_info.py, from 0.5.19 on
KV = {"fp8_e4m3": "fp8", "fp8_e5m2": "fp8", "bf16": "bf16", "bfloat16": "bf16"}
QUANTISED = {
    "fp8": "fp8", "w8a8_fp8": "fp8", "modelopt": "fp8", "modelopt_fp8": "fp8", "awq": "int4", "awq_marlin": "int4",
    "gptq": "int4", "gptq_marlin": "int4", "w8a8_int8": "int8", "modelopt_fp4": "nvfp4", "mxfp4": "mxfp4",
}  # fmt: skip


def grammar(table: Table) -> Grammar:
    """How SGLang reads its arguments."""
    return Grammar(options=table.options(), aliases=table.aliases(), human=HUMAN, underscores=False)


def read(arguments: Arguments, table: Table, target: Target) -> Reading:
    """What the arguments mean."""
    mode = arguments.value("disaggregation_mode")
    values = Values(arguments, table, target, role="" if mode in (None, "null") else str(mode))
    values.suffixes("kMG", "{}i".format, "context_length", "max_total_tokens", "max_prefill_tokens")
    model = str(values.take("model_path") or next(iter(arguments.positional), ""))
    values.strangers(arguments.positional[1:])
    longer = target.environment.get("SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN", "").lower() in ("1", "true")
    length = values.length("context_length", longer or values.given("json_model_override_args"))
    parallelism = _parallelism(values)
    mixed = _mixed(values)
    asked: int = values.take("chunked_prefill_size", least=-1)
    chunk = _chunk(values, asked, parallelism.dp, length)
    requests = _requests(values, parallelism.dp)
    for name in ("page_size", "max_total_tokens", "schedule_policy", "disable_radix_cache",
                 "num_continuous_decode_steps", "disaggregation_mode"):  # fmt: skip
        values.take(name)
    values.take("cpu_offload_gb", least=0)
    values.left_out(
        enable_lora="memory of the LoRA adapters is left out",
        dcp_size="decode context parallelism is left out",
        enable_hierarchical_cache="the cache in host memory is left out",
    )
    values.dtype()
    _check_page(values, asked, arguments.value("page_size") or 1)
    fraction = _fraction(values, asked, parallelism)
    drafts = values.take("speculative_num_draft_tokens") if values.take("speculative_algorithm") else 0
    if values.given("speculative_algorithm"):
        values.notes.append("memory and time of the draft model are left out")
        if not drafts:
            values.notes.append("SGLang chooses the number of draft tokens by model: they are not counted here")
    kv, weights = values.format("kv_cache_dtype", KV), values.format("quantization", QUANTISED)
    interval = values.take("prefill_decode_interval", 0, "off", least=0)
    if mixed and requests >= chunk:
        text = f"{requests:,} running decodes take the whole chunk of {chunk:,}"
        values.differ("E25", text, "chunked_prefill_size", filled=True)
    return Reading(
        table=table, entry=target.entry, model=model, values=values.found,
        budget=chunk, chunk=chunk, chunk_full=max(0, chunk - requests) if mixed else chunk,
        max_num_seqs=requests, max_model_len=length,
        composition="mixed" if mixed else "prefill_first", interval=0 if mixed else interval,
        parallelism=parallelism, draft_tokens=max(0, (drafts or 0) - 1),
        eager=bool(values.take("disable_cuda_graph", False)),
        weights=weights, kv=kv, memory_fraction=fraction,
        unknown_flags=tuple(arguments.unknown), refusals=tuple(values.refusals),
        differences=tuple(values.differences), notes=tuple(values.notes),
    )  # fmt: skip


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
        text = (
            f"--dp-size {replicas} without attention data parallelism starts {replicas} independent replicas: "
            "the figures are those of one"
        )
        values.differ("E25", text, "dp_size")
    if tp % ranks:
        values.refuse("E23", f"{ranks} attention ranks do not divide --tp-size {tp}", "dp_size", "attn_dp_size")
        ranks = 1
    backend = str(values.arguments.value("moe_a2a_backend") or "")
    if backend in ("deepep", "mooncake") and ep != tp:
        ep = values.derive("ep_size", tp, f"all GPUs with --moe-a2a-backend {backend}")
    if tp % ep:
        values.refuse("E23", f"--ep-size {ep} does not divide --tp-size {tp}", "ep_size")
        ep = 1
    return Parallelism(tp=tp // ranks, dp=ranks, pp=pp, ep=ep)


def _mixed(values: Values) -> bool:
    if not values.take("enable_mixed_chunk", False, "off: prompts first"):
        return False
    algorithm = values.arguments.value("speculative_algorithm")
    able = MIXES_WITH_DRAFTS if values.table.since("0.5.19") else frozenset()
    if algorithm and str(algorithm).upper() not in able:
        text = f"--enable-mixed-chunk is switched off by speculative algorithm {algorithm}"
        values.differ("E18", text, "enable_mixed_chunk")
        values.derive("enable_mixed_chunk", False, "speculative decoding")
        return False
    return True


def _chunk(values: Values, size: int, ranks: int, length: int) -> int:
    """Prompt tokens of a step on one rank, of the `size` asked for."""
    most: int = values.take("max_prefill_tokens")
    if size <= 0:
        text = "chunked prefill is off: a prompt runs whole and stalls every decode until it ends"
        values.differ("E24", text, "chunked_prefill_size")
        return int(values.derive("chunked_prefill_size", max(most, length), "off: whole prompts"))
    if ranks > 1:
        rule = f"divided by {ranks} attention ranks"
        text = f"a chunk of {size:,} is {rule}: {size // ranks:,} each (only a log line says so)"
        values.differ("E06", text, "chunked_prefill_size", "dp_size", "attn_dp_size")
        size = values.derive("chunked_prefill_size", max(1, size // ranks), rule)
    if most < size and values.given("max_prefill_tokens"):
        text = (
            f"--max-prefill-tokens {most:,} does not shorten the chunk of {size:,}: it only keeps further prompts out"
        )
        values.differ("E25", text, "max_prefill_tokens")
    return size


def _check_page(values: Values, asked: int, page: int) -> None:
    """The engine asserts that chunks are whole pages."""
    size = asked if asked <= 0 else values.found["chunked_prefill_size"].value
    skipped = values.table.since("0.5.3") and (size <= 0 or values.role == "decode")
    if page > 1 and size % page and not skipped:
        text = f"a chunk of {size:,} is not a multiple of --page-size {page}"
        values.refuse("E07", text, "chunked_prefill_size", "page_size", chunk=size, page=page)


def _fraction(values: Values, asked: int, parallelism: Parallelism) -> float:
    """Share of the memory for weights and cache."""
    memory, table = values.target.hardware.memory, values.table
    given: float | None = values.take("mem_fraction_static", least=None)
    if given is not None and 0 < given < 1:
        return given
    if given is not None:
        values.refuse("E21", f"--mem-fraction-static {given:g}: must lie between 0 and 1", "mem_fraction_static")
    algorithm = str(values.arguments.value("speculative_algorithm") or "").upper()
    drafts = 0 if algorithm in ("", "NGRAM") or table.since("0.5.16") else 6144 if algorithm == "STANDALONE" else 2048
    fraction = default_fraction(table, memory, parallelism, drafts)
    if fraction is not None:
        return float(values.derive("mem_fraction_static", fraction, "by the size of the GPU"))
    # The reserve is settled before the chunk is divided among the ranks; without chunks, by the batch.
    tokens = asked if asked > 0 else values.found["max_prefill_tokens"].value
    left = round(1 - (reserve_bytes(memory, parallelism, tokens) + drafts * MIB) / memory, 3)
    if left <= 0:
        values.refuse(
            "E20",
            f"the activations of {tokens:,} tokens leave no memory: lower --chunked-prefill-size",
            "chunked_prefill_size",
            activations=True,
        )
        left = 0.01
    return float(values.derive("mem_fraction_static", left, f"what the activations of {tokens:,} tokens leave"))


def _requests(values: Values, ranks: int) -> int:
    algorithm = str(values.arguments.value("speculative_algorithm") or "").upper()
    if algorithm and (values.table.since("0.5.2") or algorithm in ("EAGLE", "EAGLE3", "NEXTN")):
        rule = f"speculative algorithm {algorithm}"
        if not values.given("max_running_requests"):
            return int(values.derive("max_running_requests", max(1, SPECULATIVE_RUNNING // ranks), rule))
    limit: int = values.take("max_running_requests", LEAST_RUNNING, "2,048 to 4,096 by the memory left")
    if ranks > 1 and values.given("max_running_requests"):
        return int(values.derive("max_running_requests", max(1, limit // ranks), f"divided by {ranks} attention ranks"))
    return limit


def written(wanted: Wanted) -> Options:
    """The options that realise an answer."""
    # The chunk is divided by the attention ranks, and the tensor parallel size counts them all.
    ranks = wanted.deployment.parallelism.dp
    size = (wanted.budget if wanted.deployment.engine.composition == "mixed" else wanted.chunk) * ranks
    parallelism, fraction = wanted.deployment.parallelism, changed_fraction(wanted.deployment, wanted.table)
    interval = wanted.deployment.engine.prefill_interval
    batched = wanted.table.default("max_prefill_tokens", wanted.deployment.hardware)
    return [
        ("--chunked-prefill-size", str(size)),
        ("--max-running-requests", str(max(1, wanted.requests * ranks))),
        ("--tp-size", str(parallelism.stage_gpus)),
        *when(parallelism.dp > 1, "--dp-size", str(parallelism.dp)),
        *when(parallelism.dp > 1, "--enable-dp-attention"),
        *when(parallelism.pp > 1, "--pp-size", str(parallelism.pp)),
        *when(parallelism.ep > 1, "--ep-size", str(parallelism.ep)),
        *when(wanted.deployment.engine.composition == "mixed", "--enable-mixed-chunk"),
        *when(interval, "--prefill-decode-interval", str(interval)),
        # A prompt batch takes no further prompt beyond --max-prefill-tokens.
        *when(batched is not None and size > batched.value, "--max-prefill-tokens", str(size)),
        *when(wanted.deployment.precision.kv == "fp8", "--kv-cache-dtype", "fp8_e4m3"),
        *when(fraction, "--mem-fraction-static", fraction or ""),
    ]
