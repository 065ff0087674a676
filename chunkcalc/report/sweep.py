"""A sweep as a chart of 80 columns, as CSV, JSON lines and chunkcalc.sweep/1."""

from __future__ import annotations

import csv
import io
import json
import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chunkcalc.case import Case
from chunkcalc.report.tables import WIDTH, table
from chunkcalc.report.text import Line, Segment
from chunkcalc.sweep import HOLDS, Point
from chunkcalc.units import format_count, format_duration

SCHEMA = "chunkcalc.sweep/1"
KEYS = ("model", "gpu", "tp", "engine")
COLUMNS = (*KEYS, *Point._fields)
STRIP = 44  # columns of the chunk axis
LABEL = 22
ROWS = 40  # rows of the chart
DETAIL = 14  # chunks of the table for a single row
LETTERS = {HOLDS: "█", "memory": "m", "tpot": "p", "itl": "g", "ttft": "t", "utilisation": "u"}
MEANING = {
    HOLDS: "every limit holds", "ttft": "TTFT too long", "tpot": "tokens too slow (TPOT)", "itl": "gap too long",
    "utilisation": "prompts pile up", "memory": "KV cache too small",
}  # fmt: skip
STYLES = {
    HOLDS: "bold green",
    "memory": "dim",
    "utilisation": "yellow",
    "ttft": "blue",
    "tpot": "red",
    "itl": "magenta",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """The chunks of one deployment at one batch and context.

    keys : model, GPU, tensor parallel degree and engine
    batch, context : of its points [token]
    chunks, states : of its points, rising
    window : the smallest and the largest chunk that hold, on the grid or between; None where none does [token]
    """

    keys: Mapping[str, Any]
    batch: int
    context: int
    chunks: Sequence[int]
    states: Sequence[str]
    window: tuple[int, int] | None


def keys_of(case: Case) -> dict[str, Any]:
    """What tells a deployment of a sweep from the others.

    Parameters
    ----------
    case : the deployment
    """
    deployment = case.deployment
    return {"model": deployment.model.id, "gpu": deployment.hardware.id, "tp": deployment.parallelism.tp,
            "engine": deployment.engine.name}  # fmt: skip


def csv_rows(rows: Iterable[Sequence[Any]]) -> str:
    """Lines of CSV.

    Parameters
    ----------
    rows : their values
    """
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


def json_line(keys: Mapping[str, Any], point: Point) -> str:
    """A point as one line of JSON.

    Parameters
    ----------
    keys : of its deployment
    point : the point
    """
    return json.dumps(record(keys, point)) + "\n"


def record(keys: Mapping[str, Any], point: Point) -> dict[str, Any]:
    """A point as JSON; what is infinite is null.

    Parameters
    ----------
    keys : of its deployment
    point : the point
    """
    values = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in point._asdict().items()
    }
    return {**keys, **values}


def document(rows: Sequence[Mapping[str, Any]], strips: Sequence[Strip], left_out: Sequence[str]) -> dict[str, Any]:
    """chunkcalc.sweep/1.

    Parameters
    ----------
    rows : every point
    strips : their windows
    left_out : deployments that are no part of it, and why
    """
    windows = [
        {**strip.keys, "batch": strip.batch, "context": strip.context,
         "chunk_min": strip.window[0] if strip.window else None, "chunk_max": strip.window[1] if strip.window else None}
        for strip in strips
    ]  # fmt: skip
    return {"schema": SCHEMA, "windows": windows, "rows": rows, "left_out": list(left_out)}


def chart(case: Case, strips: Sequence[Strip], left_out: Sequence[str], detail: Sequence[Point] = ()) -> list[Line]:
    """Which chunks hold, a row per deployment, batch and context.

    Parameters
    ----------
    case : any deployment of the sweep, for the workload and the limits
    strips : the rows
    left_out : deployments that are no part of it, and why
    detail : points of the only row, for a table of times
    """
    slo, workload = case.slo, case.workload
    named = (("TTFT", slo.ttft), ("TPOT", slo.tpot), ("longest gap", slo.itl))
    limits = ", ".join(f"{name} {format_duration(value)}" for name, value in named if value is not None)
    lengths = f"{format_count(workload.prompt)} prompt + {format_count(workload.output)} output tokens"
    out: list[Line] = [[Segment(f"{case.deployment.model.id}, {lengths}, {limits or 'no latency limit'}")], []]
    if strips:
        shown = sorted(strips, key=_best) if len({strip.keys["gpu"] for strip in strips}) > 1 else list(strips)
        low, high = min(strip.chunks[0] for strip in strips), max(strip.chunks[-1] for strip in strips)
        out.append([Segment(f"{'chunk':<{LABEL}}{_axis(low, high)}"), Segment("  window", "bold")])
        out += [_row(strip, strips, low, high) for strip in shown[:ROWS]]
        if len(shown) > ROWS:
            out.append([Segment(f"and {len(shown) - ROWS} rows more: write them with -o out.csv")])
        seen = {state for strip in strips for state in strip.states}
        out += [[], *_legend([state for state in MEANING if state in seen])]
    if detail:
        out += [[], *([Segment(row)] for row in _table(detail).splitlines())]
    if left_out:
        out.append([])
    for line in left_out[:5]:
        wrapped = textwrap.wrap(line, WIDTH, initial_indent="left out: ", subsequent_indent="  ")
        out += [[Segment(row)] for row in wrapped]
    if len(left_out) > 5:
        out.append([Segment(f"and {len(left_out) - 5} more left out: see --json")])
    return out


def _legend(states: Sequence[str]) -> list[Line]:
    rows: list[Line] = []
    for state in states:
        word = f"{LETTERS[state]} {MEANING[state]}   "
        if not rows or sum(len(segment.text) for segment in rows[-1]) + len(word) - 3 > WIDTH:
            rows.append([])
        rows[-1] += [Segment(LETTERS[state], STYLES[state]), Segment(word[1:])]
    return rows


def _best(strip: Strip) -> tuple[int, float]:
    """Wide windows first."""
    window = strip.window
    return (0, -window[1] / window[0]) if window else (1, 0.0)


def _at(chunk: float, low: int, high: int) -> int:
    """The column of a chunk."""
    return round((STRIP - 1) * math.log(chunk / low) / math.log(high / low)) if high > low else 0


def _axis(low: int, high: int) -> str:
    """The chunk axis: powers of two where there is room."""
    out = [" "] * STRIP
    end = -2
    for tick in sorted({low, high, *(2**power for power in range(40) if low < 2**power < high)}):
        name = str(tick)
        start = max(0, min(STRIP - len(name), _at(tick, low, high) - len(name) // 2))
        if start > end:
            out[start : start + len(name)] = name
            end = start + len(name)
    return "".join(out)


def _row(strip: Strip, strips: Sequence[Strip], low: int, high: int) -> Line:
    cells = [""] * STRIP
    for chunk, state in zip(strip.chunks, strip.states, strict=True):
        at = _at(chunk, low, high)
        if cells[at] != HOLDS:  # a narrow window is not lost between two columns
            cells[at] = state
    for index in range(STRIP):  # between two chunks of a coarse grid, the one before
        cells[index] = cells[index] or (cells[index - 1] if index else strip.states[0])
    line: Line = [Segment(f"{_label(strip, strips):<{LABEL}.{LABEL - 1}}")]
    for state in cells:
        line.append(Segment(LETTERS[state], STYLES[state]))
    window = strip.window
    ends = f"{format_count(window[0])}-{format_count(window[1])}" if window else "none"
    return [*line, Segment(f"  {ends}", "bold" if window else "dim")]


def _label(strip: Strip, strips: Sequence[Strip]) -> str:
    """What differs between the rows."""
    keys = strip.keys
    several = {name: len({row.keys[name] for row in strips}) > 1 for name in ("gpu", "tp")}
    parts = [str(keys["gpu"])] if several["gpu"] or not several["tp"] else []
    if several["tp"] or keys["tp"] > 1:
        parts.append(f"tp {keys['tp']}" if not parts else f"x{keys['tp']}")
    if len({row.batch for row in strips}) > 1 or len(strips) == 1:
        parts.append(f"b {format_count(strip.batch)}")
    if len({row.context for row in strips}) > 1:
        parts.append(f"s {format_count(strip.context)}")
    return " ".join(parts)


def _table(points: Sequence[Point]) -> str:
    step = max(1, math.ceil(len(points) / DETAIL))
    shown = sorted({*range(0, len(points), step), len(points) - 1})
    head = ("chunk", "budget", "TTFT", "longest step", "mean TPOT", "busy", "")
    rows = [
        (
            format_count(point.chunk), format_count(point.budget), format_duration(point.ttft_s),
            format_duration(point.step_s), format_duration(point.tpot_s), f"{point.utilisation:.2f}",
            "ok" if point.state == HOLDS else MEANING[point.state],
        )
        for point in (points[index] for index in shown)
    ]  # fmt: skip
    return table(head, rows)
