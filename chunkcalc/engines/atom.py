"""ATOM, AMD's own server: what its arguments mean, from 0.1.2 on.

Read from atom/model_engine/arg_utils.py, atom/config.py, atom/model_engine/scheduler.py and model_runner.py of the
versions in tables/atom.toml. A step runs prompts or decodes, prompts first; a prompt is cut into chunks from 0.1.3 on.
"""

from __future__ import annotations

from chunkcalc.engines.grammar import Arguments, Grammar
from chunkcalc.engines.literals import whole
from chunkcalc.engines.reading import Reading, Target, Values
from chunkcalc.engines.tables import Table
from chunkcalc.engines.writing import Options, Wanted, changed_fraction, when
from chunkcalc.records import Parallelism

BOTH_SPELLINGS = "0.1.7"  # from here on `_` and `-` are the same in every flag (utils/arg_parser.py)
UNDERSCORED = frozenset(
    ("enable-prefix-caching", "kv-cache-dtype", "load-dummy", "enable-chunked-prefill", "online-quant-config")
)  # before that, these were written with `_` alone, and all others with `-`
LARGEST_TP = 8  # config.py asserts it
KV = {"bf16": "bf16", "fp8": "fp8"}
ONLINE = {"ptpc_fp8": "fp8", "mxfp4": "mxfp4"}


def grammar(table: Table) -> Grammar:
    """How ATOM reads its arguments."""
    both = table.since(BOTH_SPELLINGS)
    options = {
        name.replace("-", "_") if name in UNDERSCORED and not both else name: kind
        for name, kind in table.options().items()
    }
    return Grammar(options=options, aliases=table.aliases(), human=whole, underscores=both)


def read(arguments: Arguments, table: Table, target: Target) -> Reading:
    """What the arguments mean."""
    values = Values(arguments, table, target)
    values.strangers(arguments.positional)
    model = str(values.take("model") or "")
    length = values.length("max_model_len", longer=True)
    if length > target.max_position:
        length = values.derive("max_model_len", target.max_position, "never beyond the model's own")
    parallelism = _parallelism(values)
    budget: int = values.take("max_num_batched_tokens")
    requests: int = values.take("max_num_seqs")
    drafts = values.take("num_speculative_tokens", 1, least=0) if values.take("method") else 0
    if drafts:
        values.notes.append("memory and time of the draft model are left out")
    if requests * (1 + drafts) > budget:
        text = f"a budget of {budget:,} lets {budget // (1 + drafts):,} of {requests:,} requests decode at once"
        values.differ("E02", text, "max_num_seqs", "max_num_batched_tokens", level="warning")
        requests = values.derive("max_num_seqs", max(1, budget // (1 + drafts)), "by the budget")
    chunk = _chunk(values, budget, length)
    values.take("block_size")
    values.take("enable_prefix_caching")
    values.left_out(
        decode_context_parallel_size="decode context parallelism is left out",
        prefill_context_parallel_size="prefill context parallelism is left out",
        scheduler_delay_factor="the delay before prompts is left out",
        enable_rapidserve="prompts and decodes on parts of one GPU are left out",
    )
    return Reading(
        table=table, entry=target.entry, model=model, values=values.found,
        budget=budget, chunk=chunk, chunk_full=chunk, max_num_seqs=requests, max_model_len=length,
        composition="prefill_first", parallelism=parallelism, draft_tokens=drafts,
        weights=_weights(values), kv=_kv(values), memory_fraction=_fraction(values),
        unknown_flags=tuple(arguments.unknown), refusals=tuple(values.refusals),
        differences=tuple(values.differences), notes=tuple(values.notes),
    )  # fmt: skip


def _parallelism(values: Values) -> Parallelism:
    tp: int = values.take("tensor_parallel_size", 1)
    pp: int = values.take("pipeline_parallel_size", 1)
    replicas: int = values.take("data_parallel_size", 1)
    if tp > LARGEST_TP:
        values.refuse("E23", f"{tp} GPUs of a tensor parallel group: at most {LARGEST_TP}", "tensor_parallel_size")
    ranks = tp * replicas if values.take("enable_dp_attention") else 1
    if pp > 1 and max(ranks, replicas) > 1:
        values.refuse("E23", "pipeline stages do not go with data parallelism", "pipeline_parallel_size")
    if ranks == 1 and replicas > 1:
        text = (
            f"--data-parallel-size {replicas} without attention data parallelism starts {replicas} independent "
            "replicas: the figures are those of one"
        )
        values.differ("E25", text, "data_parallel_size")
    gpus = max(tp, ranks)
    return Parallelism(
        tp=1 if ranks > 1 else tp, dp=ranks, pp=pp, ep=gpus if values.take("enable_expert_parallel") else 1
    )


def _chunk(values: Values, budget: int, length: int) -> int:
    """Prompt tokens of a step on one rank."""
    if not values.take("enable_chunked_prefill") and budget < length:
        ends = "is refused" if values.table.since("0.1.3") else "is never scheduled and holds up all behind it"
        text = f"without chunked prefill a prompt above {budget:,} tokens {ends}, though the context allows {length:,}"
        values.differ("E12", text, "max_num_batched_tokens", "max_model_len", of_prompts=True)
    threshold: int = values.take("long_prefill_token_threshold", 0, "off", least=0)
    block = values.arguments.value("block_size") or 16
    if threshold and not block <= threshold <= length:
        limits = f"between the block of {block} and the context of {length:,}"
        text = f"--long-prefill-token-threshold {threshold:,} must lie {limits}"
        values.refuse("E21", text, "long_prefill_token_threshold")
        return budget
    return min(budget, threshold) if threshold else budget


def _kv(values: Values) -> str | None:
    word = values.arguments.value("kv_cache_dtype")
    if word is not None and word not in KV:
        values.refuse("E21", f"--kv_cache_dtype {word:.30}: choose from {', '.join(KV)}", "kv_cache_dtype")
    return values.format("kv_cache_dtype", KV)


def _weights(values: Values) -> str | None:
    config = values.take("online_quant_config")
    word = config.get("global_quant_config") if isinstance(config, dict) else None
    if isinstance(config, dict) and len(config) > (word is not None):
        values.notes.append("formats of single layers (--online_quant_config) are not modelled")
    return ONLINE.get(str(word)) if word is not None else None


def _fraction(values: Values) -> float:
    fraction = values.take("gpu_memory_utilization", least=None)
    if 0 < fraction <= 1:
        return float(fraction)
    text = f"--gpu-memory-utilization {fraction:g}: must be above 0 and at most 1"
    values.refuse("E21", text, "gpu_memory_utilization")
    return float(values.derive("gpu_memory_utilization", 0.9, "to go on"))


def written(wanted: Wanted) -> Options:
    """The options that realise an answer."""
    parallelism, fraction = wanted.deployment.parallelism, changed_fraction(wanted.deployment, wanted.table)
    return [
        ("--max-num-batched-tokens", str(wanted.chunk)),
        ("--max-num-seqs", str(wanted.requests)),
        ("--tensor-parallel-size", str(parallelism.stage_gpus)),
        *when(parallelism.dp > 1, "--enable-dp-attention"),
        *when(parallelism.pp > 1, "--pipeline-parallel-size", str(parallelism.pp)),
        *when(parallelism.ep > 1, "--enable-expert-parallel"),
        *when(wanted.deployment.precision.kv == "fp8", "--kv_cache_dtype", "fp8"),
        *when(fraction, "--gpu-memory-utilization", fraction or ""),
    ]
