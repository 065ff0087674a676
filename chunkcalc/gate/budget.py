"""The budget of a deployment in its engine's own words: as it is written, and as it would be better."""

from __future__ import annotations

from chunkcalc.answer.records import Answer
from chunkcalc.engines.dialects import dialect
from chunkcalc.gate.evaluation import Evaluation
from chunkcalc.gate.finding import Fix
from chunkcalc.units import format_count, format_duration


def budget_flag(found: Evaluation) -> str:
    """How the engine's budget or chunk is set."""
    engine = found.reading.table.engine if found.reading is not None else "vllm"
    return dialect(engine).quoted


def ranks(found: Evaluation) -> int:
    """Attention ranks over which the engine divides the flag's number: SGLang's chunk is of all of them."""
    reading = found.reading
    return 1 if reading is None or dialect(reading.table.engine).budget_per_rank else reading.parallelism.dp


def written(found: Evaluation) -> str:
    """The budget as it stands, or the default that stands for it."""
    assert found.reading is not None and found.given is not None
    given = found.given.given.get(found.budget_field)
    if given is None:
        return f"{budget_flag(found)} {format_count(found.reading.budget)} (the default)"
    shown = format_count(given.value) if isinstance(given.value, int) else given.text
    return f"{budget_flag(found)} {shown}" + (f" ({found.reading.budget:,} a rank)" if ranks(found) > 1 else "")


def setting(found: Evaluation, better: Answer) -> Fix:
    """The best setting of the same deployment, in the flag's own counting."""
    flag, value = budget_flag(found), better.budget * ranks(found)
    tpot = f", {format_duration(better.expected.step_s)} a step" if better.expected.tpot_s is not None else ""
    gives = f"TTFT {format_duration(better.expected.ttft_s)}{tpot}"
    also = [*_chunking_on(found, better), *_fewer_running(found, better)]
    more = "".join(f" with {name}{' ' + content if content else ''}" for name, content in also)
    return Fix(text=f"{flag} {value}{more} gives {gives}", flag=flag, value=str(value), also=tuple(also))


def _chunking_on(found: Evaluation, better: Answer) -> list[tuple[str, str]]:
    """A budget below the prompt needs chunked prefill, which TensorRT-LLM leaves off."""
    assert found.reading is not None
    switch = found.reading.values.get("enable_chunked_prefill")
    if switch is None or switch.value or better.budget >= better.workload.prompt:
        return []
    return [dialect(found.reading.table.engine).chunking]


def _fewer_running(found: Evaluation, better: Answer) -> list[tuple[str, str]]:
    """vLLM refuses a budget below its limit of requests."""
    reading = found.reading
    assert reading is not None
    if reading.table.engine != "vllm" or better.budget >= reading.max_num_seqs:
        return []
    return [(dialect(reading.table.engine).requests, str(max(found.load.batch, better.budget // 2)))]
