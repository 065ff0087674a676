"""Answers side by side: text, Markdown and chunkcalc.compare/1."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from chunkcalc.answer.records import Answer
from chunkcalc.report.tables import WIDTH, table
from chunkcalc.units import format_count, format_duration

SCHEMA = "chunkcalc.compare/1"
NEARLY = 0.01  # relative, below which two numbers are called the same


class Compared(NamedTuple):
    """An answer with its name.

    name : what tells it from the others
    answer : of it
    price : per hour; None where there is none
    """

    name: str
    answer: Answer
    price: float | None = None


class _Row(NamedTuple):
    name: str
    key: str
    value: Callable[[Compared], float | None]
    shown: Callable[[float], str]


def _rate(each: Compared) -> float | None:
    load = each.answer.load
    return None if load is None or load.rate is None else load.highest


def _cost(each: Compared) -> float | None:
    """Per million output tokens at the most that is carried; without a rate, of the batch that decodes."""
    answer, price = each.answer, each.price
    if price is None:
        return None
    rate = _rate(each)
    per_second = rate * answer.workload.output if rate else answer.chunking.output_tokens_per_s
    return None if not per_second else 1e6 * price / (3600 * per_second)


ROWS = (
    _Row("budget", "budget", lambda e: e.answer.budget, lambda v: format_count(int(v))),
    _Row("TTFT", "ttft_s", lambda e: e.answer.expected.ttft_s, format_duration),
    _Row("mean TPOT", "tpot_s", lambda e: e.answer.expected.tpot_s, format_duration),
    _Row("gap", "itl_s", lambda e: e.answer.expected.itl_s, format_duration),
    _Row("batch", "batch", lambda e: e.answer.workload.batch, lambda v: format_count(int(v))),
    _Row("KV tokens", "kv_tokens", lambda e: e.answer.capacity.kv_tokens, lambda v: format_count(int(v))),
    _Row("most requests/s", "highest_rate", _rate, lambda v: f"{v:.3g}"),
    _Row("GPUs", "gpus", lambda e: e.answer.case.deployment.parallelism.gpus, lambda v: format_count(int(v))),
    _Row("per hour", "per_hour", lambda e: e.price, lambda v: f"{v:,.2f}"),
    _Row("per M output", "per_million_output", _cost, lambda v: f"{v:,.2f}"),
)


def text(found: Sequence[Compared]) -> str:
    """The report of `chunkcalc compare`."""
    rows = _table(found)
    head = ("", *_names(found), *(("",) if len(found) == 2 else ()))
    told = [row for line in _legend(found) for row in textwrap.wrap(line, WIDTH, subsequent_indent="    ")]
    out = [*told, *([""] if told else []), table(head, rows), ""]
    for line in _because(found):
        out += textwrap.wrap(line, WIDTH, initial_indent="- ", subsequent_indent="  ")
    return "\n".join(out).rstrip()


def markdown(found: Sequence[Compared]) -> str:
    """The same for a pull request."""
    head = ["", *(f"`{name}`" for name in _names(found)), *(["difference"] if len(found) == 2 else [])]
    told = [f"- {line}" for line in _legend(found)]
    out = [*told, *([""] if told else []), "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    out += ["| " + " | ".join(row) + " |" for row in _table(found)]
    return "\n".join([*out, "", *(f"- {line}" for line in _because(found))]) + "\n"


def json(found: Sequence[Compared]) -> dict[str, Any]:
    """The schema chunkcalc.compare/1."""
    return {
        "schema": SCHEMA,
        "compared": [
            {
                "name": each.name,
                "verdict": each.answer.verdict,
                **{row.key: row.value(each) for row in ROWS},
                "breakdown": _terms(each.answer),
            }
            for each in found
        ],
        "because": list(_because(found)),
    }


def _names(found: Sequence[Compared]) -> list[str]:
    """What tells each from the others, short enough for a column: numbers where it is not."""
    width = max(12, (WIDTH - 18) // (len(found) + 1))
    if all(len(each.name) <= width for each in found) and len({each.name for each in found}) == len(found):
        return [each.name for each in found]
    return [f"({index})" for index in range(1, len(found) + 1)]


def _legend(found: Sequence[Compared]) -> list[str]:
    """What the numbers of the columns stand for."""
    pairs = zip(_names(found), found, strict=True)
    return [f"{name} {each.name}" for name, each in pairs if name != each.name]


def _table(found: Sequence[Compared]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("verdict", *(each.answer.verdict for each in found))]
    rows[0] += ("",) if len(found) == 2 else ()
    for row in ROWS:
        values = [row.value(each) for each in found]
        if all(value is None for value in values):
            continue
        cells = [row.name, *("-" if value is None else row.shown(value) for value in values)]
        if len(found) == 2:
            cells.append(_change(*values))
        rows.append(tuple(cells))
    return rows


def _change(before: float | None, after: float | None) -> str:
    if before is None or after is None or not before:
        return ""
    change = after / before - 1
    return "same" if abs(change) < NEARLY else f"{100 * change:+.0f} %"


def _terms(answer: Answer) -> dict[str, float]:
    """What the longest step is made of [s]."""
    return dict(answer.step.breakdown)


def _because(found: Sequence[Compared]) -> list[str]:
    """Where each stands against the first: which limit, and which term of the step makes the difference."""
    names = dict(zip(map(id, found), _names(found), strict=True))
    first = found[0]
    out = []
    for each in found[1:]:
        if each.answer.holds != first.answer.holds:
            better, worse = (each, first) if each.answer.holds else (first, each)
            missed = [line.name.upper() for line in worse.answer.limits if line.holds == "no"]
            over = f": {' and '.join(missed)} {'is' if len(missed) == 1 else 'are'} over" if missed else ""
            out.append(f"{names[id(better)]} keeps the limits, {names[id(worse)]} does not{over}")
        tokens = [answer.budget for answer in (first.answer, each.answer)]
        before, after = _terms(first.answer), _terms(each.answer)
        moved = {name: after.get(name, 0.0) - before.get(name, 0.0) for name in {**before, **after}}
        name = max(moved, key=lambda term: abs(moved[term]), default="")
        whole = each.answer.expected.step_s - first.answer.expected.step_s
        if abs(whole) < NEARLY * first.answer.expected.step_s or not name:
            out.append(f"the longest step takes the same {format_duration(first.answer.expected.step_s)}")
            continue
        longer = "longer" if whole > 0 else "shorter"
        sizes = f" ({tokens[1]:,} tokens against {tokens[0]:,})" if tokens[0] != tokens[1] else ""
        out.append(
            f"the longest step of {names[id(each)]} is {format_duration(abs(whole))} {longer}{sizes}, most of it by "
            f"{name}: {format_duration(before.get(name, 0.0))} -> {format_duration(after.get(name, 0.0))}"
        )
    return out
