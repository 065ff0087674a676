"""TensorRT-LLM 1.x: what the arguments of `trtllm-serve` mean.

Read from the repository's tensorrt_llm/commands/serve.py and llmapi/llm_args.py. Its YAML options
overrule the command line, the reverse of the other engines. Without chunked prefill a prompt longer
than `max_num_tokens` is refused (issues 9277, 6539, 2717).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chunkcalc.engines.grammar import Arguments, Given, Grammar
from chunkcalc.engines.literals import LARGEST, whole
from chunkcalc.engines.reading import Reading, Target, Values
from chunkcalc.engines.tables import Table
from chunkcalc.engines.writing import Options, Wanted, changed_fraction, when
from chunkcalc.records import Parallelism

KV = {"fp8": "fp8", "bfloat16": "bf16", "bf16": "bf16"}
# Key of the YAML options, where it differs -> field.
_NESTED = {
    ("kv_cache_config", "free_gpu_memory_fraction"): "free_gpu_memory_fraction",
    ("kv_cache_config", "dtype"): "kv_cache_dtype",
    ("kv_cache_config", "tokens_per_block"): "tokens_per_block",
    ("kv_cache_config", "max_tokens"): "max_tokens",
    ("speculative_config", "max_draft_len"): "draft_tokens",
    ("speculative_config", "num_nextn_predict_layers"): "draft_tokens",
}
_READ = frozenset(
    ("max_num_tokens", "max_batch_size", "max_seq_len", "tensor_parallel_size", "pipeline_parallel_size",
     "moe_expert_parallel_size", "enable_chunked_prefill", "enable_attention_dp", "free_gpu_memory_fraction")
)  # fmt: skip
MOST_UNREAD = 8  # that are named


def grammar(table: Table) -> Grammar:
    """How TensorRT-LLM reads its arguments."""
    return Grammar(options=table.options(), aliases=table.aliases(), human=whole, underscores=False, prefixes=False)


def overrule(arguments: Arguments, options: dict[str, Any]) -> None:
    """Put the YAML options over the command line; null leaves a default."""
    for key, value in options.items():
        if isinstance(value, dict):
            for inner, each in value.items():
                if (key, inner) not in _NESTED:
                    arguments.unread.append(f"{key}.{inner}")
                elif each is not None:
                    _put(arguments, _NESTED[key, inner], inner, each)
        elif key not in _READ:
            arguments.unread.append(key)
        elif value is not None:
            _put(arguments, str(key), key, value)


def _put(arguments: Arguments, field: str, key: str, value: Any) -> None:
    before = arguments.given.get(field)
    if before is not None and before.value != value and before.flag.startswith("--"):
        arguments.differ("E12", f"the YAML options overrule {before.flag} {before.text}: {value}", before.word)
    arguments.given[field] = Given(value, str(value), f"{field} (YAML)", key)


def read(arguments: Arguments, table: Table, target: Target) -> Reading:
    """What the arguments mean."""
    values = Values(arguments, table, target)
    _whole_numbers(values)
    values.strangers(arguments.positional[1:])
    length = values.length("max_seq_len", longer=True)
    tp: int = values.take("tensor_parallel_size", 1)
    pp: int = values.take("pipeline_parallel_size", 1)
    ep: int = values.take("moe_expert_parallel_size", 1)
    ranks = tp if values.take("enable_attention_dp", False, "off") else 1
    budget: int = values.take("max_num_tokens")
    requests: int = values.take("max_batch_size")
    if tp % ep:
        values.refuse("E23", f"moe_expert_parallel_size {ep} does not divide {tp} GPUs", "moe_expert_parallel_size")
        ep = 1
    chunked = bool(values.take("enable_chunked_prefill"))
    values.take("tokens_per_block")
    values.take("max_tokens")
    drafts: int = values.take("draft_tokens", 0, "off", least=0)
    if not chunked and budget < length:
        text = (
            f"without chunked prefill a prompt above {budget:,} tokens is refused, though the context allows {length:,}"
        )
        values.differ("E12", text, "max_num_tokens", "max_seq_len", of_prompts=True)
    if requests > budget:
        text = f"max_batch_size {requests:,} exceeds max_num_tokens {budget:,} (warned only)"
        values.differ("E02", text, "max_batch_size", "max_num_tokens", level="warning")
    full = budget - requests * (1 + drafts)
    if full <= 0:
        text = f"{requests:,} running decodes take the whole budget of {budget:,}: prompts wait until some finish"
        values.differ("E25", text, "max_num_tokens", "max_batch_size", filled=True, of_prompts=True)
    if arguments.unread:
        more = ", ..." if len(arguments.unread) > MOST_UNREAD else ""
        values.notes.append(f"YAML options that play no part here: {', '.join(arguments.unread[:MOST_UNREAD])}{more}")
    if drafts:
        values.notes.append("memory and time of the draft model are left out")
    kv = values.format("kv_cache_dtype", KV)
    fraction = values.take("free_gpu_memory_fraction", least=None)
    if not 0 < fraction < 1:
        text = f"free_gpu_memory_fraction {fraction:g}: must lie between 0 and 1"
        values.refuse("E21", text, "free_gpu_memory_fraction")
        fraction = 0.9
    return Reading(
        table=table, entry=target.entry, model=next(iter(arguments.positional), ""), values=values.found,
        budget=budget, chunk=budget, chunk_full=max(0, full),
        max_num_seqs=requests, max_model_len=length,
        parallelism=Parallelism(tp=tp // ranks, dp=ranks, pp=pp, ep=ep),
        draft_tokens=drafts, kv=kv, memory_fraction=fraction,
        unknown_flags=tuple(arguments.unknown), refusals=tuple(values.refusals),
        differences=tuple(values.differences), notes=tuple(values.notes),
    )  # fmt: skip


def _whole_numbers(values: Values) -> None:
    """A value in the YAML options may be anything: refuse what the engine's own types refuse."""
    for name in ("max_num_tokens", "max_batch_size", "max_seq_len", "tensor_parallel_size", "pipeline_parallel_size",
                 "moe_expert_parallel_size", "draft_tokens", "tokens_per_block", "max_tokens"):  # fmt: skip
        _must_be(values, name, "a whole number", lambda value: isinstance(value, int) and abs(value) <= LARGEST)
    _must_be(
        values,
        "free_gpu_memory_fraction",
        "a number",
        lambda value: isinstance(value, (int, float)) and abs(value) <= LARGEST,
    )
    for name in ("enable_chunked_prefill", "enable_attention_dp"):
        given = values.arguments.given.get(name)
        if given is not None and not isinstance(given.value, bool):
            values.refuse("E21", f"{given.flag} is {given.value!r:.40}, neither true nor false", name)
            del values.arguments.given[name]


def _must_be(values: Values, name: str, what: str, suits: Callable[[Any], bool]) -> None:
    given = values.arguments.given.get(name)
    if given is not None and (isinstance(given.value, bool) or not suits(given.value)):
        values.refuse("E21", f"{given.flag} is {str(given.value)[:40]!r}, not {what}", name)
        del values.arguments.given[name]


def written(wanted: Wanted) -> Options:
    """The options that realise an answer."""
    # Attention data parallelism and the KV format have no flag: they go into the YAML options.
    parallelism = wanted.deployment.parallelism
    fraction = changed_fraction(wanted.deployment, wanted.table)
    return [
        ("--max_num_tokens", str(wanted.budget)),
        ("--max_batch_size", str(wanted.requests)),
        ("--tp_size", str(parallelism.stage_gpus)),
        *when(parallelism.pp > 1, "--pp_size", str(parallelism.pp)),
        *when(parallelism.ep > 1, "--ep_size", str(parallelism.ep)),
        ("--enable_chunked_prefill",),
        *when(fraction, "--kv_cache_free_gpu_memory_fraction", fraction or ""),
    ]
