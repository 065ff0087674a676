"""What to write instead of what an engine refuses, or reads otherwise than it looks."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

from chunkcalc.engines.dialects import dialect
from chunkcalc.gate.evaluation import Evaluation
from chunkcalc.gate.finding import Fix

Facts = Mapping[str, Any]  # of a `Remark`


def fix_for(number: str, found: Evaluation, word: str, facts: Facts) -> Fix | None:
    """What to write instead of what an engine refuses or reads otherwise; None where it is not one thing."""
    make_fix = _FIXES.get(number)
    return make_fix(found, word, facts) if make_fix is not None else None


def _raise_budget(found: Evaluation, word: str, facts: Facts) -> Fix | None:
    if found.reading is None:
        return None
    flag = dialect(found.reading.table.engine).budget
    return Fix(text=f"leave chunked prefill on, or {flag} {found.reading.max_model_len}",
               flag=found.word("enable_chunked_prefill"), remove=True)  # fmt: skip


def _fewer_requests(found: Evaluation, word: str, facts: Facts) -> Fix | None:
    if found.reading is None:
        return None
    flag = dialect(found.reading.table.engine).requests
    value = str(max(1, found.reading.budget // (2 * (1 + found.reading.draft_tokens))))  # half is left for prompts
    return Fix(text=f"{flag} {value}, or a larger budget", flag=flag, value=value)


def _remove(found: Evaluation, word: str, facts: Facts) -> Fix | None:
    flag, equals, _ = word.partition("=")
    if equals and (facts.get("switch") or word.lower().endswith(("=true", "=false"))):
        off = word.lower().endswith(("false", "0"))
        text = f"--no-{flag.removeprefix('--')}" if off else flag
        return Fix(text=f"write {text}", flag=flag, value=text)
    if word.lower() in ("true", "false"):
        return Fix(text="write --no-... for false, the bare flag for true", flag=word)
    options = found.table.options() if found.table is not None else {}
    near = get_close_matches(flag.lstrip("-").replace("_", "-"), options, n=1, cutoff=0.8)
    if near and found.table is not None and not found.table.span(flag):
        return Fix(text=f"did you mean --{near[0]}?", flag=flag)
    return Fix(text=f"remove {flag or 'it'}", flag=flag, remove=True)


def _two_words(found: Evaluation, word: str, facts: Facts) -> Fix | None:
    path = word.partition("=")[2]
    return Fix(text=f"two words: --config {path}", flag="--config", value=path)


def _plain_number(found: Evaluation, word: str, facts: Facts) -> Fix | None:
    match = re.match(r"(\d+)([kKmMgG]i?)", facts.get("given", ""))
    if not match:
        return None
    factor = {"k": 2**10, "m": 2**20, "g": 2**30}[match[2][0].lower()]
    flag, value = facts["flag"], str(int(match[1]) * factor)
    return Fix(text=f"{flag} {value}", flag=flag, value=value)


def _draft_room(found: Evaluation, word: str, facts: Facts) -> Fix | None:
    """The three flags that draft slots tie together."""
    if "slots" not in facts:
        return None
    words, value = dialect("vllm"), str(facts["slots"] * facts["requests"] + 2048)
    return Fix(text=f"{words.budget} {value}, or lower {words.requests} or num_speculative_tokens",
               flag=words.budget, value=value)  # fmt: skip


def _room_for_prompts(found: Evaluation, word: str, facts: Facts) -> Fix | None:
    """Decodes that fill the budget: half of it for them, half for prompts."""
    reading = found.reading
    if reading is None or not facts.get("filled"):
        return None
    flag = dialect(reading.table.engine).requests
    value = str(max(1, reading.budget // (2 * (1 + reading.draft_tokens))) * reading.parallelism.dp)
    return Fix(text=f"{flag} {value}, or a larger budget", flag=flag, value=value)


def _whole_pages(found: Evaluation, word: str, facts: Facts) -> Fix | None:
    if "page" not in facts:
        return None
    size, page = facts["chunk"], facts["page"]
    value = max(page, size // page * page) * (found.reading.parallelism.dp if found.reading is not None else 1)
    flag = dialect("sglang").budget
    return Fix(text=f"{flag} {value}", flag=flag, value=str(value))


def _written_out(found: Evaluation, word: str, facts: Facts) -> Fix | None:
    whole = facts.get("whole")
    return Fix(text=f"write {whole}", flag=word.partition("=")[0], value=whole) if whole else None


def _negative(found: Evaluation, word: str, facts: Facts) -> Fix | None:
    name = word.replace("_", "-")
    return Fix(text=f"--no-{name} on the command line instead", flag=word, value=f"--no-{name}")


def _shorter(found: Evaluation, word: str, facts: Facts) -> Fix | None:
    tokens = found.inspection.kv_tokens if found.inspection is not None else None
    if not tokens or found.reading is None or tokens >= found.reading.max_model_len:
        return None
    value = max(1, tokens // found.reading.parallelism.dp // 1024 * 1024)
    flag = dialect(found.reading.table.engine).context
    return Fix(text=f"{flag} {value}", flag=flag, value=str(value))


def _more_gpus(found: Evaluation, word: str, facts: Facts) -> Fix | None:
    """A smaller chunk where its activations are too many, else enough GPUs for the weights."""
    if found.reading is None:
        return None
    parallelism = found.reading.parallelism
    words = dialect(found.reading.table.engine)
    if facts.get("activations"):
        value = str(2048 * parallelism.dp)
        return Fix(text=f"{words.budget} {value}", flag=words.budget, value=value)
    shared = words.ranks_share
    share = facts.get("share", 1.0)
    factor = 2 ** max(1, math.ceil(math.log2(share / (0.8 * found.reading.memory_fraction))))
    tp = parallelism.tp * (parallelism.dp if shared else 1) * factor
    return Fix(text=f"{words.tensor} {tp}, or lighter weights", flag=words.tensor, value=str(tp))


def _whole_step(found: Evaluation, word: str, facts: Facts) -> Fix | None:
    """A budget that an image or a block fits."""
    flag, value = dialect("vllm").budget, str(facts["budget"])
    return Fix(text=f"{flag} {value}", flag=flag, value=value)


def _fewer_states(found: Evaluation, word: str, facts: Facts) -> Fix | None:
    flag, value = dialect("vllm").requests, str(facts["requests"])
    return Fix(text=f"{flag} {value}", flag=flag, value=value)


_FIXES: dict[str, Callable[[Evaluation, str, Facts], Fix | None]] = {
    "E01": _raise_budget, "E02": _fewer_requests, "E03": _remove, "E04": _two_words, "E05": _plain_number,
    "E10": _draft_room, "E07": _whole_pages, "E15": _written_out, "E17": _negative, "E19": _shorter,
    "E20": _more_gpus, "E08": _whole_step, "E09": _whole_step, "E30": _fewer_states,
    "E25": _room_for_prompts,
}  # fmt: skip
