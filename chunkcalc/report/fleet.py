"""A fleet as text and as chunkcalc.fleet/2."""

from __future__ import annotations

import math
import textwrap
from dataclasses import asdict
from typing import Any

from chunkcalc.answer.question import USUAL_PERCENTILE
from chunkcalc.answer.resolve import DEFAULT_OUTPUT
from chunkcalc.report.tables import WIDTH, table
from chunkcalc.sizing.fleet import Fleet
from chunkcalc.sizing.money import Costs, costs
from chunkcalc.sizing.shapes import Shape, describe
from chunkcalc.units import format_count, format_duration, format_si

SCHEMA = "chunkcalc.fleet/2"
SHOWN = 10


def text(found: Fleet) -> str:
    """The report of `chunkcalc fleet`."""
    question, chosen = found.question, found.chosen
    output = DEFAULT_OUTPUT if question.output is None else question.output
    lengths = f"{format_count(question.prompt)} prompt + {format_count(output)} output tokens"
    if chosen is None:
        head = f"NONE: no shape carries {found.rate:g} requests/s of {lengths} within the limits"
    else:
        sure = "" if chosen.status == "feasible" else " (marginal: measure before relying on it)"
        money = "" if chosen.cost is None else f", {chosen.cost:,.2f} per hour"
        spare = 100 * (chosen.max_rate / found.rate - 1)
        lost = f", {found.spare} of each kind to lose" if found.spare else ""
        head = f"{chosen.gpus} x {chosen.gpu} as {describe(chosen)}{lost}{money}: {spare:.0f}% more traffic fits{sure}"
    rows = textwrap.wrap(head, WIDTH, subsequent_indent="  ")
    for line in _money(found):
        rows += textwrap.wrap(line, WIDTH, initial_indent="- ", subsequent_indent="  ")
    for reason in found.reasons:
        rows += textwrap.wrap(reason, WIDTH, initial_indent="- ", subsequent_indent="  ")
    rows += [*textwrap.wrap(f"{question.model}, {found.rate:g} requests/s, {lengths}, {_limits(found)}", WIDTH), ""]
    if found.shapes:
        rows.append(_table(found))
    if len(found.shapes) > SHOWN:
        rows.append(f"and {len(found.shapes) - SHOWN} dearer shapes: see --json")
    for words in dict.fromkeys(shape.composition for shape in found.shapes[:SHOWN] if shape.composition):
        rows += textwrap.wrap(f"* {words}", WIDTH, subsequent_indent="  ")
    if any(shape.prefill for shape in found.shapes[:SHOWN]):
        rows.append(f"P, D: prefill and decode units, {format_si(found.kv_link, 'B/s')} between them")
    if found.left_out:
        rows.append("")
    for line in found.left_out:
        rows += textwrap.wrap(line, WIDTH, initial_indent="left out: ", subsequent_indent="  ")
    return "\n".join(rows)


def _money(found: Fleet) -> list[str]:
    """What tokens and requests cost, at the rate that is asked and at the most that is carried."""
    chosen, question = found.chosen, found.question
    if chosen is None or chosen.cost is None:
        return []
    asked, most = _costs(found, chosen)
    return [
        f"{asked.per_million_output:,.2f} per million output tokens at {found.rate:g} requests/s, "
        f"{most.per_million_output:,.2f} at the {chosen.max_rate:.3g} that it carries; "
        f"{asked.per_thousand_requests:,.2f} per 1,000 requests of "
        f"{format_count(question.prompt)} + {format_count(_output(found))} tokens"
    ]


def _output(found: Fleet) -> int:
    return DEFAULT_OUTPUT if found.question.output is None else found.question.output


def _costs(found: Fleet, shape: Shape) -> tuple[Costs, Costs]:
    assert shape.cost is not None
    lengths = (found.question.prompt, _output(found))
    return costs(shape.cost, found.rate, *lengths), costs(shape.cost, shape.max_rate, *lengths)


def _limits(found: Fleet) -> str:
    question = found.question
    itl = question.itl if question.itl not in (None, math.inf) else None
    named = (("TTFT", question.ttft), ("TPOT", question.tpot), ("longest gap", itl))
    percentile = USUAL_PERCENTILE if question.percentile is None else question.percentile
    which = f" (p{percentile:g})" if percentile else " (mean)"
    return ", ".join(
        f"{name}{which if name == 'TTFT' else ''} {format_duration(limit)}" for name, limit in named if limit
    )


def _table(found: Fleet) -> str:
    several = len({shape.gpu for shape in found.shapes}) > 1
    priced = found.shapes[0].cost is not None
    head = ("shape", *(("GPU",) if several else ()), "GPUs", *(("per h",) if priced else ()), "budget", "rate",
            "TTFT", "TPOT", "")  # fmt: skip
    rows = []
    for shape in found.shapes[:SHOWN]:
        rows.append(
            (_short(shape), *((shape.gpu,) if several else ()), str(shape.gpus),
             *((f"{shape.cost:,.2f}",) if priced else ()), format_count(shape.budget), f"{shape.max_rate:.3g}/s",
             format_duration(shape.ttft_s), format_duration(shape.tpot_s),
             "ok" if shape.status == "feasible" else "close")
        )  # fmt: skip
    return table(head, rows)


def _short(shape: Shape) -> str:
    own = _degrees(shape.tp, shape.pp)
    if shape.prefill is None:
        return f"{shape.replicas}x{own}{shape.composition and ' *'}"
    x, tp, pp = shape.prefill
    return f"P {x}x{_degrees(tp, pp)} + D {shape.replicas - x}x{own}"


def _degrees(tp: int, pp: int) -> str:
    return f"tp{tp}{f' pp{pp}' if pp > 1 else ''}"


def json(found: Fleet) -> dict[str, Any]:
    """The schema chunkcalc.fleet/2."""
    return {
        "schema": SCHEMA,
        "rate": found.rate,
        "spend": found.spend,
        "spare": found.spare,
        "shapes": [_shape(shape, found) for shape in found.shapes],
        "chosen": None if found.chosen is None else _shape(found.chosen, found),
        "runner_up": next((_shape(shape, found) for shape in found.shapes if shape is not found.chosen), None),
        "reasons": list(found.reasons),
        "left_out": list(found.left_out),
    }


def _shape(shape: Shape, found: Fleet) -> dict[str, Any]:
    row = asdict(shape)
    priced = None if shape.cost is None else _costs(found, shape)
    row["cost_at_rate"], row["cost_at_most"] = (None, None) if priced is None else map(asdict, priced)
    prefill = row.pop("prefill")
    row["prefill_units"], row["prefill_tp"], row["prefill_pp"] = prefill or (None, None, None)
    return {**row, "headroom": shape.max_rate / found.rate - 1}
