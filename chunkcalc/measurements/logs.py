"""The steps that an engine logs itself, and what its start-up log says of it: vLLM, SGLang and TensorRT-LLM.

vLLM and TensorRT-LLM write a line per step where they are told to, SGLang one in forty decode steps. The mean
context of the decodes follows from the use of the KV cache.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from chunkcalc.engines.dialects import dialect
from chunkcalc.errors import ChunkcalcError
from chunkcalc.measurements.cells import UnreadableError, engine_name, kv_format, text, weight_format
from chunkcalc.measurements.facts import require
from chunkcalc.measurements.run import Measurements, Skipped, StepRow

VLLM = re.compile(
    r"(\d+) context requests, (\d+) context tokens, (\d+) generation requests, (\d+) generation tokens, "
    r"iteration elapsed time: ([\d.]+) ms(?:, \w+ KV cache usage: ([\d.]+)%)?"
)
TRTLLM = re.compile(
    r"iter = (\d+), global_rank = (\d+),.{0,400}?prev_device_step_time = (?:([\d.]+)ms|N/A).{0,400}?"
    r"'num_ctx_requests': (\d+), 'num_ctx_tokens': (\d+), 'num_generation_tokens': (\d+)"
    r"(?:, 'cached_kv_(?:tokens|len)': (\d+))?"
)
SGLANG = re.compile(r"Decode batch\W+#running-req: (\d+), #token: (\d+),.{0,400}?gen throughput \(token/s\): ([\d.]+)")
PREFILL = re.compile(r"Prefill batch\W")
MARKS: Mapping[str, re.Pattern[str]] = {
    "vllm": re.compile("context requests, "), "trtllm": re.compile("prev_device_step_time"),
    "sglang": re.compile(r"Decode batch\W"),
}  # fmt: skip
STARTED = re.compile("non-default args: ")
START = re.compile(r"non-default args: (\{.*\})")
VERSION = re.compile(r"(?:LLM engine \(v|\bversion )(\d+\.\d+\.\d+[\w.+]*)")
CAPACITY = re.compile(r"KV cache size: ([\d,]+) tokens|max_total_num_tokens=(\d+)")
DUMMY = "(dummy)"  # an idle step of a data-parallel rank
LONGEST_LINE = 20_000
LAUNCH = {"max_num_batched_tokens": "budget", "tensor_parallel_size": "tp", "max_num_seqs": "max_num_seqs"}


class Seen(NamedTuple):
    """A step as a line of a log has it.

    line : of the log
    requests, c : prompts that share the step, and their tokens [1], [token]
    b : decodes [token]
    tokens : in the KV cache after it, or their share of it; None where the log does not say [token], [1]
    time : of the step [s]
    """

    line: int
    requests: int
    c: int
    b: int
    tokens: float | None
    time: float


def is_log(content: str) -> bool:
    """Whether a text is the log of an engine: its steps, or its start."""
    head = content[: 1 << 20]
    return any(mark.search(head) for mark in MARKS.values()) or bool(STARTED.search(head) or CAPACITY.search(head))


def read_log(content: str, path: str, given: Mapping[str, object]) -> Measurements:
    """The steps of a log, and what it says of the server.

    Parameters
    ----------
    content : of the log
    path : of the file
    given : facts from options, over what the log says

    Raises
    ------
    ChunkcalcError : neither steps nor the size of the KV cache, or a fact that nothing says
    """
    lines = [line[:LONGEST_LINE] for line in content.split("\n")]
    engine = next((name for name, mark in MARKS.items() if mark.search(content)), "vllm")
    launch = _launch(lines)
    seen = list(STEPS[engine](lines))
    own = launch.pop("kv_tokens", None)
    said = given.get("kv_tokens")
    capacity = own or (int(str(said)) if said else None)
    if not seen:
        if own is None:
            words = {each.title: each.logs_steps for each in map(dialect, MARKS) if each.logs_steps}
            hint = f"start it with {' or '.join(f'{flag} ({title})' for title, flag in words.items())}"
            raise ChunkcalcError("logs no steps", path, hint)
        return Measurements("steps", launch={**launch, "kv_tokens": own})
    facts: dict[str, Any] = {"engine": engine, **launch, **given}
    require(facts, path)
    steps, skipped = [], []
    for each, s, p in _contexts(seen, capacity):
        try:
            steps.append(_row(each, s, p, path, facts))
        except UnreadableError as reason:
            skipped.append(Skipped(each.line, str(reason)))
    return Measurements("steps", steps=tuple(steps), skipped=tuple(skipped), launch={**launch, "kv_tokens": own})


def _row(seen: Seen, s: float, p: float, path: str, facts: Mapping[str, Any]) -> StepRow:
    return StepRow(
        row=seen.line, path=path, gpu=text(facts["gpu"]), model=text(facts["model"]), tp=int(facts.get("tp") or 1),
        engine=engine_name(facts["engine"]), engine_version=text(facts.get("engine_version")),
        dtype=weight_format(facts.get("weights")), kv=kv_format(facts.get("kv")), c=seen.c, p=round(p), b=seen.b, s=s,
        prompts=max(1, seen.requests), time=seen.time,
        used=seen.tokens if seen.tokens is not None and seen.tokens <= 1 else None,
    )  # fmt: skip


_MODEL = re.compile(r"with config: model='([^']{1,200})'")
_BUDGET = re.compile(r"Chunked prefill is enabled with max_num_batched_tokens=(\d{1,9})\b")


def started(content: str) -> dict[str, Any]:
    """What the start of a log says: arguments that are no default, the version, the model, the tokens of the KV cache.

    Parameters
    ----------
    content : of the log
    """
    lines = [line[:LONGEST_LINE] for line in content.split("\n")]
    model = next((found[1] for line in lines if (found := _MODEL.search(line))), None)
    budget = next((int(found[1]) for line in lines if (found := _BUDGET.search(line))), None)
    told = {"model": model, "budget": budget}
    return {name: value for name, value in told.items() if value is not None} | _launch(lines)


def _launch(lines: Sequence[str]) -> dict[str, Any]:
    """What the start of a log says: arguments that are no default, the version, the tokens of the KV cache."""
    out: dict[str, Any] = {}
    for line in lines:
        found = START.search(line)
        if found:
            out |= _arguments(found[1])
        version = VERSION.search(line)
        if version and "engine_version" not in out:
            out["engine_version"] = version[1].partition("+")[0]
        capacity = CAPACITY.search(line)
        if capacity:
            out["kv_tokens"] = int((capacity[1] or capacity[2]).replace(",", ""))
    return out


def _arguments(written: str) -> dict[str, Any]:
    try:
        said = ast.literal_eval(written)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return {}
    if not isinstance(said, dict):
        return {}
    return {name: said[key] for key, name in LAUNCH.items() if isinstance(said.get(key), int)}


def _vllm(lines: Sequence[str]) -> Iterator[Seen]:
    for number, line in enumerate(lines, 1):
        found = VLLM.search(line)
        if found and DUMMY not in line:
            requests, c, b, _, elapsed, used = found.groups()
            share = None if used is None else float(used) / 100
            yield Seen(number, int(requests), int(c), int(b), share, float(elapsed) / 1e3)


def _trtllm(lines: Sequence[str]) -> Iterator[Seen]:
    """The time of a step stands on the line of the next one of its rank."""
    before: dict[str, tuple[int, Seen]] = {}
    for number, line in enumerate(lines, 1):
        found = TRTLLM.search(line)
        if not found:
            continue
        index, rank, device, requests, c, b, cached = found.groups()
        last = before.get(rank)
        if device and last is not None and last[0] == int(index) - 1 and last[1].c + last[1].b:
            yield last[1]._replace(time=float(device) / 1e3)
        tokens = None if cached is None else float(cached) + int(c) + int(b)
        before[rank] = int(index), Seen(number, int(requests), int(c), int(b), tokens, 0.0)


def _sglang(lines: Sequence[str]) -> Iterator[Seen]:
    """Decode steps between two lines without a prompt between them; the first line counts from the start."""
    plain = False
    for number, line in enumerate(lines, 1):
        if PREFILL.search(line):
            plain = False
        found = SGLANG.search(line)
        if found:
            running, tokens, rate = int(found[1]), float(found[2]), float(found[3])
            if plain and running and rate > 0:
                yield Seen(number, 0, 0, running, max(2.0, tokens), running / rate)
            plain = True


STEPS = {"vllm": _vllm, "trtllm": _trtllm, "sglang": _sglang}


def _contexts(seen: Sequence[Seen], capacity: int | None) -> Iterator[tuple[Seen, float, float]]:
    """Each step with the mean context of its decodes and the tokens before its prompts, as far as the cache tells.

    A step without prompts tells the context; before the first of these all in flight count as alike.
    """
    s = 0.0
    for each in seen:
        held = each.tokens
        if held is not None and held <= 1:
            held = None if capacity is None else held * capacity
        if held is None:
            yield each, 0.0, 0.0
            continue
        before = max(0.0, held - each.c)
        if not each.c:
            s = held / max(1, each.b)
            yield each, s, 0.0
        elif not each.b:
            yield each, 0.0, before / max(1, each.requests)
        elif s:
            yield each, s, max(0.0, before - each.b * s) / max(1, each.requests)
        else:
            yield each, before / (each.b + each.requests), before / (each.b + each.requests)
