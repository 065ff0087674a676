"""A derivation for a person, in 80 columns, and as chunkcalc.explain/2."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from chunkcalc.derivation.derive import Derivation, Shown
from chunkcalc.derivation.sensitivity import Change, Values
from chunkcalc.report.json import inputs
from chunkcalc.report.lines import Line, Segment
from chunkcalc.report.tables import WIDTH
from chunkcalc.units import format_count, format_duration

SCHEMA = "chunkcalc.explain/2"
INDENT = 5
NAME = 30
NOTHING = 5e-10  # [s]
GLUE = "\u00a0"
TEXTBOOK = "The textbook: the published equations on datasheet peaks"
CORRECTED = "What the prediction adds"
DEPARTURES = "Where this departs from the published equations, and why"
FLOOR = "The floor of this deployment, as a function of the chunk"
TERMS = "From the textbook's numbers to the expected ones"
QUESTIONS = "The three questions, for this deployment"
CHANGES = "What 10 % more of something changes, at the same budget"


def subject(found: Derivation) -> str:
    """What is explained."""
    answer = found.answer
    deployment, workload = answer.case.deployment, answer.workload
    return (
        f"{deployment.model.id}, {deployment.precision.weights} weights, on {deployment.parallelism.gpus} x "
        f"{deployment.hardware.id} under {deployment.engine.name}: {format_count(workload.prompt)} prompt + "
        f"{format_count(workload.output)} output tokens, batch {format_count(workload.batch)}"
    )


def conclusion(found: Derivation) -> str:
    """The answer in one sentence."""
    answer = found.answer
    ends = answer.window
    verb = "judged" if answer.given else "set" if answer.holds and ends.chunk_min else "closest"
    window = "no chunk is predicted to keep every limit"
    if ends.chunk_min is not None and ends.chunk_max is not None:
        window = f"chunks {format_count(ends.chunk_min)} to {format_count(ends.chunk_max)} keep every limit"
    return (
        f"{answer.verdict.replace('_', ' ')}: {window}; {verb} {format_count(answer.chunk)} "
        f"(budget {format_count(answer.budget)}), step {format_duration(answer.expected.step_s)}, "
        f"TTFT {format_duration(answer.expected.ttft_s)}"
    )


def text(found: Derivation) -> list[Line]:
    """The whole derivation."""
    out: list[Line] = [[Segment(row, "bold")] for row in textwrap.wrap(subject(found), WIDTH)]
    for head, equations in ((TEXTBOOK, found.textbook), (CORRECTED, found.corrected)):
        out += [[], [Segment(head, "bold underline")]]
        out += _items(found.notes if head == TEXTBOOK else (), "dim")
        for each in equations:
            out += [[], *equation(each)]
    if found.departures:
        out += [[], [Segment(DEPARTURES, "bold underline")], [], *_items(found.departures)]
    if found.floor is not None:
        out += [[], [Segment(FLOOR, "bold underline")], [], *_floor(found)]
    out += [[], [Segment(TERMS, "bold underline")], [], *_terms(found)]
    out += [[], [Segment(CHANGES, "bold underline")], [], *_changes(found)]
    told = (f"{each.question}: {each.answer}" for each in found.questions)
    out += [[], [Segment(QUESTIONS, "bold underline")], [], *_items(told)]
    rows = textwrap.wrap(conclusion(found), WIDTH)
    return [*out, [], *([Segment(row, "bold")] for row in rows)]


def _items(sentences: Iterable[str], style: str = "") -> list[Line]:
    """A list of sentences."""
    glued = (re.sub(r"(?<=\d) (?=[mun]?s\b|[kMGT]?B\b)", GLUE, each) for each in sentences)
    rows = (textwrap.wrap(each, WIDTH, initial_indent="- ", subsequent_indent="  ") for each in glued)
    return [[Segment(row.replace(GLUE, " "), style)] for each in rows for row in each]


def equation(shown: Shown) -> list[Line]:
    """One equation: symbols, inverse, numbers, result, and what it means."""
    out: list[Line] = [[Segment(f"{shown.key:<{INDENT}}", "bold cyan"), Segment(shown.title, "bold")]]
    head = f"{shown.left} = "
    out += _formula(head, shown.symbols)
    out += _formula(" " * (len(head) - 2) + "= ", shown.numbers)
    out += _formula(" " * (len(head) - 2) + "= ", shown.value)
    if shown.inverse:
        out += _formula("from ", shown.inverse)
    rows = textwrap.wrap(shown.takeaway, WIDTH - INDENT)
    return [*out, *([Segment(" " * INDENT), Segment(row, "bold")] for row in rows)]


def _formula(head: str, formula: str) -> list[Line]:
    """Wrapped between terms, never between a number and its unit."""
    glued = re.sub(r"(?<=[\d)]) (?=[A-Za-z])", GLUE, formula)
    rows = textwrap.wrap(glued, WIDTH - INDENT - len(head), break_long_words=False, break_on_hyphens=False)
    indents = [head, *[" " * len(head)] * (len(rows) - 1)]
    return [
        [Segment(" " * INDENT + indent + row.replace(GLUE, " "))] for indent, row in zip(indents, rows, strict=True)
    ]


def floor_words(found: Derivation) -> str:
    """What the floor means."""
    assert found.floor is not None
    if not found.floor.judged:
        return f"no engine takes less than {format_duration(found.floor.step)} at this chunk"
    if found.floor.largest is None:
        return "even the whole prompt in one step would keep TPOT on perfect hardware: what limits the chunk is above"
    if not found.floor.largest:
        return "the decodes alone miss TPOT on this hardware, whatever the engine"
    return f"beyond {format_count(int(found.floor.largest))} tokens no engine keeps TPOT on this hardware"


def floor_rows(found: Derivation) -> list[str]:
    """The floor's formula, a line for each resource, and its value at the answer's chunk."""
    assert found.floor is not None
    sides = found.floor.sides
    rows = [f"{'t >= max(' if not index else ' ' * 9}{side}{',' if index + 1 < len(sides) else ')'}"
            for index, side in enumerate(sides)] if len(sides) > 1 else [f"t >= {sides[0]}"]  # fmt: skip
    return [*rows, f"  = {floor_value(found)}"]


def floor_value(found: Derivation) -> str:
    """The floor at the answer's chunk."""
    assert found.floor is not None
    return f"{format_duration(found.floor.step)} at c = {format_count(found.answer.chunk)}"


def _floor(found: Derivation) -> Iterator[Line]:
    assert found.floor is not None
    yield from ([Segment(" " * INDENT + row)] for row in floor_rows(found))
    for row in textwrap.wrap(floor_words(found), WIDTH - INDENT):
        yield [Segment(" " * INDENT), Segment(row, "bold")]


def signed(seconds: float | None) -> str:
    """A time with its sign."""
    if seconds is None:
        return ""
    if abs(seconds) < NOTHING:
        return "0"
    return f"{'-' if seconds < 0 else '+'}{format_duration(abs(seconds))}"


def term_rows(found: Derivation) -> list[tuple[str, str, str, str]]:
    """(name, longest step, TTFT, why) of every term: the textbook's, what each adds, and their sum."""
    first, *more = found.terms
    expected = found.answer.expected
    return [
        (first.name, format_duration(first.step or 0.0), format_duration(first.ttft or 0.0), first.why),
        *((term.name, signed(term.step), signed(term.ttft), term.why) for term in more),
        ("expected", format_duration(expected.step_s), format_duration(expected.ttft_s), ""),
    ]


def _terms(found: Derivation) -> Iterator[Line]:
    rows = term_rows(found)
    yield [Segment(f"{'':<{NAME}}{'longest step':>13}{'TTFT':>11}", "bold")]
    for name, step, ttft, why in rows:
        yield [Segment(f"{name:<{NAME}}{step:>13}{ttft:>11}", "" if why else "bold")]
        yield from ([Segment(f"  {row}", "dim")] for row in textwrap.wrap(why, WIDTH - 4))
    yield from ([Segment(row, "bold")] for row in textwrap.wrap(terms_words(found), WIDTH))


def terms_words(found: Derivation) -> str:
    """The largest difference between the textbook's step and the expected one."""
    largest = max(found.terms[1:], key=lambda term: abs(term.step or 0.0))
    by = format_duration(abs(largest.step or 0.0))
    if (largest.step or 0.0) < 0:
        return f"the largest correction is {largest.name}: without it the textbook's step is {by} too long"
    return f"the largest correction is {largest.name}: without it the textbook's step is {by} too short"


def change_cells(base: Values, change: Change) -> tuple[str, ...]:
    """Window, and how step, TTFT and mean TPOT move."""
    after = change.values
    window = "none"
    if after.chunk_min is not None and after.chunk_max is not None:
        window = f"{format_count(after.chunk_min)} to {format_count(after.chunk_max)}"
    moved = "" if after.chunk_max is None or base.chunk_max is None else f"{after.chunk_max - base.chunk_max:+,}"
    pairs = ((base.step, after.step), (base.ttft, after.ttft), (base.tpot, after.tpot))
    return (window, moved, *("" if not x or y is None else _percent(y / x - 1) for x, y in pairs))


def _percent(share: float) -> str:
    """With its sign; what rounds to nothing has none."""
    text = f"{100 * share:+.1f} %"
    return "0.0 %" if text[1:] == "0.0 %" else text


def change_name(change: Change) -> str:
    """What was changed, and by how much where that is a whole number."""
    if change.amount is None:
        return change.what
    return f"{change.what}, {format_count(change.amount[1])}"


def change_words(found: Derivation) -> str:
    """What moves the upper end of the window most, in one sentence."""
    base = found.base.chunk_max
    moves = [] if base is None else [
        (change.values.chunk_max - base, change.what) for change in found.changes
        if change.values.chunk_max is not None and not change.limit
    ]  # fmt: skip
    if not moves:
        return "no chunk keeps every limit, so there is no window to move"
    if found.answer.window.binding_max == "largest chunk of use":
        return "c_max is the largest chunk that is of any use, so nothing here moves it"
    by, what = max(moves, key=lambda move: abs(move[0]))
    return f"10 % more {what} moves c_max by {by:+,} tokens" if by else "none of these moves c_max"


def _changes(found: Derivation) -> Iterator[Line]:
    head = ("", "window", "c_max", "step", "TTFT", "TPOT")
    widths = (NAME, 15, 8, 8, 8, 10)
    yield [Segment(_columns(head, widths), "bold")]
    for change in found.changes:
        yield [Segment(_columns((change_name(change), *change_cells(found.base, change)), widths))]
    yield from ([Segment(row, "bold")] for row in textwrap.wrap(change_words(found), WIDTH))


def _columns(cells: Sequence[str], widths: Sequence[int]) -> str:
    pairs = zip(cells, widths, strict=True)
    return "".join(f"{cell:>{width}}" if index else f"{cell:<{width}}" for index, (cell, width) in enumerate(pairs))


def json(found: Derivation) -> dict[str, Any]:
    """chunkcalc.explain/2."""
    floor = found.floor
    return {
        "schema": SCHEMA, "inputs": inputs(found.answer), "verdict": found.answer.verdict,
        "chunk": found.answer.chunk, "budget": found.answer.budget,
        "equations": [json_equation(each) for each in (*found.textbook, *found.corrected)],
        "notes": list(found.notes), "departures": list(found.departures),
        "floor": None if floor is None else {"step_s": floor.step, "chunk_max": floor.largest, "sides": floor.sides},
        "terms": [{"name": t.name, "why": t.why, "step_s": t.step, "ttft_s": t.ttft} for t in found.terms],
        "base": found.base._asdict(),
        "ten_per_cent_more": [
            {"what": each.what, "amount": each.amount, **each.values._asdict()} for each in found.changes
        ],
        "questions": [each._asdict() for each in found.questions],
    }  # fmt: skip


def json_equation(shown: Shown) -> dict[str, Any]:
    """An equation as JSON."""
    return {
        "key": shown.key, "title": shown.title, "source": shown.source, "left": shown.left, "formula": shown.symbols,
        "inverse": shown.inverse, "numbers": shown.numbers, "value": shown.value, "result": shown.result,
        "latex": list(shown.tex), "takeaway": shown.takeaway,
    }  # fmt: skip
