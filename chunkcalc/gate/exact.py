"""Exact rules: what the engine refuses, or silently does otherwise than is written."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from chunkcalc.engines.dialects import dialect
from chunkcalc.engines.words import Remark, Word
from chunkcalc.gate.catalogue import Level, rule
from chunkcalc.gate.evaluation import Evaluation
from chunkcalc.gate.facts import about_model, gpu_of
from chunkcalc.gate.finding import Finding, Fix
from chunkcalc.gate.fixes import fix_for
from chunkcalc.units import format_count

NEARLY = 0.9  # of the longest context: within what the memory model is sure of


def make(
    found: Evaluation, number: str, message: str, word: str = "", *, level: Level | None = None,
    fix: Fix | None = None, size: float | None = None,
) -> Finding:  # fmt: skip
    """A finding at the word that causes it; at the process where a default does."""
    process, known = found.process, rule(number)
    line, pointer = process.line, process.pointer
    if isinstance(word, Word) and word.line > 0:
        line, pointer = word.line, word.pointer or pointer
    return Finding(
        rule=known.id, kind=known.kind, level=level or known.level, message=message, file=process.file, line=line,
        pointer=pointer, begin=(process.line, process.command_line), subject=process.name,
        flag=word.partition("=")[0] if word else "", fix=fix, number=size,
    )  # fmt: skip


def misread(found: Evaluation, line: int, problem: str) -> Finding:
    """CC128: a setting of this tool in a file that cannot be read."""
    return make(found, "E28", f"a setting for this check cannot be read: {problem}", Word("setting", line))


def exact(found: Evaluation) -> Iterator[Finding]:
    """Every exact finding of a deployment."""
    yield from _remarks(found)
    checks = (_duplicate_keys, _cut_off, _one_item, _gpus, _context, _decode_slots, _dispatch, _unchunked, _other_gpu)
    for check in checks:
        yield from check(found)


def _other_gpu(found: Evaluation) -> Iterator[Finding]:
    """CC129: the file names one GPU, the settings another."""
    asked = found.settings.values.get("gpu")
    stated = gpu_of(found.process, None).found
    if asked is None or stated is None or found.hardware is None:
        return
    given = gpu_of(found.process, asked.value).found
    if given is None or given.record.id == stated.record.id:
        return
    message = (
        f"the file names {stated.record.id}, the {asked.source} says {given.record.id}: judged on "
        f"{found.hardware.record.id}"
    )
    yield make(found, "E29", message, found.process.gpu[0])


def _remarks(found: Evaluation) -> Iterator[Finding]:
    """What the engine's own parser and checks say."""
    reading, given = found.reading, found.given
    if reading is not None:
        refusals, differences = reading.refusals, reading.differences
    elif given is not None:
        refusals, differences = tuple(given.refusals), tuple(given.differences)
    else:
        return
    for texts, refused in ((refusals, True), (differences, False)):
        for text in texts:
            number = text.rule if isinstance(text, Remark) and text.rule else "E21"
            word, facts = (text.word, text.facts) if isinstance(text, Remark) else ("", {})
            if number == "E21" and word.startswith("--") and " " in word.partition("=")[0]:
                continue  # said by its own rule
            level: Level = facts.get("level") or ("error" if refused else rule(number).level)
            message = str(text)
            if facts.get("of_model") and any(about_model(told) for told in found.missing):
                continue
            if found.process.role == "decode" and facts.get("of_prompts"):
                continue
            if facts.get("filled") and not _reached(found, refusals):
                continue
            tokens = found.inspection.kv_tokens if found.inspection is not None else None
            if number == "E19" and tokens and reading is not None and tokens >= NEARLY * reading.max_model_len:
                level, message = "warning", f"{message} (by a few percent: the prediction's own error)"
            if number in ("E03", "E15") and refused and not found.version_known:
                level, message = "warning", f"{message} (the version is not stated: the newest is taken)"
            engine = reading.table.engine if reading is not None else ""
            if refused and engine:
                message = f"{_refuser(found, engine)} to start: {message}"
            yield make(found, number, message, word, level=level, fix=fix_for(number, found, word, facts))


def _refuser(found: Evaluation, engine: str) -> str:
    """Which engine refuses: the version that is known, or the one that is assumed."""
    name = dialect(engine).title
    if found.version_known or found.table is None:
        return f"{name} refuses"
    return f"{name} {found.table.version} would refuse"


def _reached(found: Evaluation, refusals: Sequence[str]) -> bool:
    """Whether the load can ever fill the budget with decodes; said once, by the sharper rule."""
    said = any(getattr(text, "rule", "") in ("E02", "E10") for text in refusals)
    asked = found.load.asked if found.case is not None else None
    few = asked is not None and found.reading is not None and 2 * asked <= found.reading.budget
    return not said and not few and bool(found.word("max_num_seqs", "max_running_requests", "max_batch_size"))


def _duplicate_keys(found: Evaluation) -> Iterator[Finding]:
    for word in found.process.twice:
        yield make(found, "E14", f"the key '{word}' stands twice in one mapping: the last one counts here, and "
                   "Kubernetes refuses it when it is strict", word, fix=Fix(text="keep one of the two"))  # fmt: skip


def _cut_off(found: Evaluation) -> Iterator[Finding]:
    if found.process.cut is not None:
        word = found.process.cut
        yield make(found, "E26", f"a comment inside the continued command ends it: {word} and what follows never "
                   "reach the engine", word, fix=Fix(text="move the comment above the command"))  # fmt: skip


def _one_item(found: Evaluation) -> Iterator[Finding]:
    command = found.process.command
    for word in command.words if command is not None else ():
        if word.startswith("--") and " " in word.partition("=")[0]:
            flag, _, value = word.partition(" ")
            yield make(found, "E26", f"'{word:.60}' is one word: the engine sees no flag {flag} in it", word,
                       fix=Fix(text=f"two items: {flag} and {value}", flag=flag, value=value))  # fmt: skip


def _gpus(found: Evaluation) -> Iterator[Finding]:
    """TP x PP x DP against the GPUs of the replica."""
    reading, gpus = found.reading, found.process.gpus
    if reading is None or gpus is None:
        return
    parallelism = reading.parallelism
    wanted = parallelism.gpus
    if wanted == gpus:
        return
    parts = f"tp {parallelism.tp} x pp {parallelism.pp} x dp {parallelism.dp}"
    word = found.word("tensor_parallel_size", "tp_size", "data_parallel_size", "dp_size", "pipeline_parallel_size")
    flag = dialect(reading.table.engine).tensor
    if wanted > gpus:
        yield make(found, "E13", f"{parts} needs {wanted} GPUs, the replica has {gpus}", word,
                   fix=Fix(text=f"request {wanted} GPUs"))  # fmt: skip
    elif reading.table.engine == "vllm" and _spread(found):
        return
    else:
        tp = gpus // (parallelism.pp * parallelism.dp)
        yield make(found, "E13", f"{parts} uses {wanted} of the {gpus} GPUs of the replica: the rest is idle", word,
                   level="warning", fix=Fix(text=f"{flag} {tp}", flag=flag, value=str(tp)))  # fmt: skip


def _spread(found: Evaluation) -> bool:
    """Data parallel ranks that are started elsewhere."""
    return bool(found.word("data_parallel_start_rank", "data_parallel_rank", "data_parallel_address", "headless"))


def _context(found: Evaluation) -> Iterator[Finding]:
    """The stated requests against the longest context."""
    prompt, reading = found.settings.get("prompt"), found.reading
    if prompt is None or reading is None or found.inspection is None:
        return
    output = found.settings.get("output") or 1
    if prompt + output > reading.max_model_len:
        word = found.word("max_model_len", "context_length", "max_seq_len")
        flag = dialect(reading.table.engine).context
        value = str(prompt + output)
        most = found.model.record.max_position if found.model is not None else 0
        fix = Fix(text=f"{flag} {value} or more", flag=flag, value=value)
        if prompt + output > most:
            fix = Fix(text=f"the model itself takes at most {most:,} tokens: shorter requests, or another model")
        yield make(found, "E27", f"a request of {prompt:,} + {output:,} tokens is longer than the context of "
                   f"{reading.max_model_len:,}: it is refused or cut", word,
                   fix=fix)  # fmt: skip


def _decode_slots(found: Evaluation) -> Iterator[Finding]:
    """A decode worker whose budget is smaller than its decodes with their drafts."""
    reading = found.reading
    if reading is None or found.process.role != "decode" or reading.composition != "mixed":
        return
    needed = reading.max_num_seqs * (1 + reading.draft_tokens)
    if needed > reading.budget and (found.inspection is not None or found.word(found.budget_field)):
        flag = dialect(reading.table.engine).budget
        drafts = f" x (1 + {reading.draft_tokens} drafts)" if reading.draft_tokens else ""
        yield make(found, "E10", f"a budget of {reading.budget:,} does not hold the {reading.max_num_seqs:,} decodes"
                   f"{drafts} of this decode worker", found.word(found.budget_field, "max_num_seqs"),
                   fix=Fix(text=f"{flag} {needed}", flag=flag, value=str(needed)))  # fmt: skip


def _dispatch(found: Evaluation) -> Iterator[Finding]:
    """DeepEP's low-latency mode takes so many tokens per rank and no more."""
    reading, given = found.reading, found.given
    words = dialect(reading.table.engine) if reading is not None else None
    if reading is None or given is None or words is None or words.deepep_cap is None:
        return
    name, cap = words.deepep_cap
    process = found.process
    stated = process.command.environment.get(name, "") if process.command is not None else ""
    cap = int(stated) if stated.isdigit() else cap
    if reading.table.engine == "vllm":
        variables = process.command.environment if process.command is not None else {}
        backend = str(given.value("all2all_backend") or variables.get("VLLM_ALL2ALL_BACKEND", ""))
        if backend == "deepep_low_latency" and given.value("enable_expert_parallel") and reading.budget > cap:
            word = found.word("max_num_batched_tokens", "all2all_backend")
            yield make(found, "E11", f"DeepEP's low-latency mode moves {cap} tokens per rank at a time: a budget of "
                       f"{reading.budget:,} runs every MoE layer in {math.ceil(reading.budget / cap)} slices", word,
                       level="warning", fix=Fix(text=f"{words.budget} {cap}, or {name}={reading.budget}",
                                                flag=words.budget, value=str(cap)))  # fmt: skip
    elif str(given.value("moe_a2a_backend") or "") == "deepep" and given.value("deepep_mode") == "low_latency":
        rows = reading.max_num_seqs * (1 + reading.draft_tokens)
        limited = found.word("max_running_requests")
        if limited and rows > cap:
            value = cap // (1 + reading.draft_tokens)
            yield make(found, "E11", f"{rows:,} decode tokens per rank exceed the {cap} that DeepEP's low-latency mode "
                       "takes: SGLang asserts", limited,
                       fix=Fix(text=f"{words.requests} {value * reading.parallelism.dp}, or {name}={rows}",
                               flag=words.requests, value=str(value * reading.parallelism.dp)))  # fmt: skip
        if process.role != "decode" and reading.chunk > cap:
            word = found.word("chunked_prefill_size", "deepep_mode")
            fix = Fix(text=f"{words.deepep_mode} auto", flag=words.deepep_mode, value="auto")
            yield make(found, "E11", f"a chunk of {reading.chunk:,} per rank exceeds the {cap} tokens that DeepEP's "
                       "low-latency mode takes", word, fix=fix)  # fmt: skip


def _unchunked(found: Evaluation) -> Iterator[Finding]:
    """TensorRT-LLM without chunked prefill refuses prompts above its budget."""
    reading, prompt = found.reading, found.settings.get("prompt")
    if reading is None or prompt is None or reading.table.engine != "trtllm" or found.inspection is None:
        return
    chunked = reading.values.get("enable_chunked_prefill")
    if (chunked is None or not chunked.value) and prompt > reading.budget and found.process.role != "decode":
        fix = Fix(text="enable_chunked_prefill: true", flag="enable_chunked_prefill", value="true")
        yield make(found, "E12", f"chunked prefill is off: a prompt of {prompt:,} tokens is refused at max_num_tokens "
                   f"{format_count(reading.budget)}", found.word("max_num_tokens"), level="error", fix=fix)  # fmt: skip
