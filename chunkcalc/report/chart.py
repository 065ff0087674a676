"""A sweep as a chart of 80 columns: a row per deployment, batch and context."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from chunkcalc.answer.resolve import Case
from chunkcalc.answer.window import Window
from chunkcalc.grids.points import HOLDS, Point
from chunkcalc.report.lines import Line, Segment
from chunkcalc.report.sweep import MEANING, Strip
from chunkcalc.report.tables import WIDTH, table
from chunkcalc.units import format_count, format_duration

LABELS = (8, 44)  # columns of the rows' names, at least and at most
STRIP, ENDS = 44, 16  # columns of the chunk axis at most, and of the window beside it
ROWS = 40  # rows of the chart
DETAIL = 14  # chunks of the table for a single row
BLANK = " "
LETTERS = {HOLDS: "█", "memory": "m", "tpot": "p", "itl": "g", "ttft": "t", "utilisation": "u"}
STYLES = {
    HOLDS: "bold green", "memory": "dim", "utilisation": "yellow", "ttft": "blue", "tpot": "red", "itl": "magenta",
    BLANK: "",
}  # fmt: skip


def chart(case: Case, strips: Sequence[Strip], left_out: Sequence[str], detail: Sequence[Point] = ()) -> list[Line]:
    """Which chunks hold, a row per deployment, batch and context.

    Parameters
    ----------
    case : any deployment of the sweep, for the workload and the limits
    strips : the rows
    left_out : deployments that are no part of it, and why
    detail : points of the only row, for a table of times
    """
    out: list[Line] = [[Segment(row)] for row in textwrap.wrap(_subject(case, strips), WIDTH)]
    out.append([])
    if strips:
        shown = sorted(strips, key=_best) if len({strip.keys["gpu"] for strip in strips}) > 1 else list(strips)
        low, high = min(strip.chunks[0] for strip in strips), max(strip.chunks[-1] for strip in strips)
        labels = [_label(strip, strips) for strip in shown[:ROWS]]
        width = min(max(LABELS[0], 1 + max(map(len, labels))), LABELS[1])
        scale = Scale(low, high, min(STRIP, WIDTH - width - ENDS))
        out.append([Segment(f"{'chunk':<{width}}{_axis(scale)}"), Segment("  window", "bold")])
        windows = [strip.find() for strip in shown[:ROWS]]
        for strip, window, label in zip(shown, windows, labels, strict=False):
            out.append([Segment(f"{label:<{width}.{width - 1}}"), *_row(strip, window, scale)])
        if len(shown) > ROWS:
            some = sum(strip.held is not None for strip in shown[ROWS:])
            out.append(
                [Segment(f"and {len(shown) - ROWS} rows more, {some} with a window; -o out.csv has all of them")]
            )
        seen = {state for strip in strips for state in strip.states} | {HOLDS if any(map(_open, windows)) else ""}
        out += [[], *_legend([state for state in MEANING if state in seen])]
        out.append([Segment("the first limit that fails, by the prediction alone; solve adds its error band", "dim")])
        out += [[Segment(words, "dim")] for words, holds in MARKS.items() if any(map(holds, windows))]
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


def _subject(case: Case, strips: Sequence[Strip]) -> str:
    """What all rows share."""
    slo, deployment = case.slo, case.deployment
    named = (("TTFT", slo.ttft), ("TPOT", slo.tpot), ("longest gap", slo.itl))
    limits = ", ".join(f"{name} {format_duration(value)}" for name, value in named if value is not None)
    lengths = f"{format_count(case.workload.prompt)} prompt + {format_count(case.workload.output)} output tokens"
    every = {key: {strip.keys[key] for strip in strips} for key in ("gpu", "tp")}
    unit = deployment.hardware.id if len(every["gpu"]) == 1 else ""
    if unit and len(every["tp"]) == 1:
        unit = f"{deployment.parallelism.gpus} x {unit}"
    batches = {strip.batch for strip in strips}
    batch = f", batch {format_count(next(iter(batches)))}" if len(batches) == 1 else ""
    where = f"on {unit} under" if unit else "under"
    model = f"{deployment.model.id}, {deployment.precision.weights} weights, {where} {deployment.engine.name}"
    return f"{model}: {lengths}{batch}, {limits or 'no latency limit'}"


def _open(window: Window) -> bool:
    return window.chunk_min is not None


def _best(strip: Strip) -> tuple[int, float]:
    """Wide windows first."""
    held = strip.held
    return (0, -held[1] / held[0]) if held else (1, 0.0)


class Scale(NamedTuple):
    """The chunk axis: its ends [token] and its columns."""

    low: int
    high: int
    columns: int

    def at(self, chunk: float) -> int:
        """The column of a chunk; the nearest end beyond them.

        Parameters
        ----------
        chunk : the chunk [token]
        """
        if self.high == self.low:
            return 0
        inside = min(max(chunk, self.low), self.high)
        return round((self.columns - 1) * math.log(inside / self.low) / math.log(self.high / self.low))


def _axis(scale: Scale) -> str:
    """The chunk axis: powers of two where there is room."""
    out, end = [" "] * scale.columns, -2
    inner = (2**power for power in range(40) if scale.low < 2**power < scale.high)
    for tick in sorted({scale.low, scale.high, *inner}):
        name = str(tick)
        start = max(0, min(scale.columns - len(name), scale.at(tick) - len(name) // 2))
        if start > end:
            out[start : start + len(name)] = name
            end = start + len(name)
    return "".join(out)


def _row(strip: Strip, window: Window, scale: Scale) -> Line:
    line: Line = [Segment(LETTERS.get(state, BLANK), STYLES[state]) for state in _cells(strip, window, scale)]
    if window.chunk_min is None or window.chunk_max is None:
        return [*line, Segment("  none", "dim")]
    more, star = ("+" if _capped(window) else ""), ("*" if window.gaps else "")
    return [*line, Segment(f"  {format_count(window.chunk_min)}-{format_count(window.chunk_max)}{more}{star}", "bold")]


def _capped(window: Window) -> bool:
    """Whether only the largest chunk of any use ends it."""
    return window.binding_max == "largest chunk of use"


MARKS = {"+ no limit ends it: the largest chunk of any use": _capped, "* some chunks inside fail": lambda w: w.gaps}


def _cells(strip: Strip, window: Window, scale: Scale) -> list[str]:
    """The state of each column: of its chunk, of its neighbours where they agree, else none."""
    cells = [BLANK] * scale.columns
    columns = [scale.at(chunk) for chunk in strip.chunks]
    for at, state in zip(columns, strip.states, strict=True):
        if cells[at] != HOLDS:  # a narrow window is not lost between two columns
            cells[at] = state
    for left, right in pairwise(columns):
        if cells[left] == cells[right]:
            cells[left + 1 : right] = [cells[left]] * max(0, right - left - 1)
    low, high = window.chunk_min, window.chunk_max
    if low is not None and high is not None and not window.gaps and high >= scale.low and low <= scale.high:
        first, last = scale.at(low), scale.at(high)
        inside = [at for at in range(first, last + 1) if cells[at] == BLANK]
        for at in inside or ([first] if HOLDS not in cells else []):
            cells[at] = HOLDS
    return cells


def _label(strip: Strip, strips: Sequence[Strip]) -> str:
    """What differs between the rows; the GPU where nothing does."""
    keys = strip.keys
    several = {name: len({row.keys[name] for row in strips}) > 1 for name in ("gpu", "tp")}
    parts = [str(keys["gpu"])] if several["gpu"] else []
    if several["tp"]:
        parts.append(f"tp {keys['tp']}" if not parts else f"x{keys['tp']}")
    if len({row.batch for row in strips}) > 1:
        parts.append(f"b {format_count(strip.batch)}")
    if len({row.context for row in strips}) > 1:
        parts.append(f"s {format_count(strip.context)}")
    return " ".join(parts) or str(keys["gpu"])


def _table(points: Sequence[Point]) -> str:
    step = max(1, math.ceil(len(points) / DETAIL))
    shown = sorted({*range(0, len(points), step), len(points) - 1})
    head = ("chunk", "budget", "TTFT", "step", "gap", "TPOT", "busy", "")
    rows = [
        (
            format_count(point.chunk), format_count(point.budget), format_duration(point.ttft_s),
            format_duration(point.step_s), format_duration(point.itl_s), format_duration(point.tpot_s),
            f"{point.utilisation:.2f}", "ok" if point.state == HOLDS else MEANING[point.state],
        )
        for point in (points[index] for index in shown)
    ]  # fmt: skip
    return table(head, rows)
