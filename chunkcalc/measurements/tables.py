"""CSV tables of runs, of single steps and of requests one by one, told apart by their columns."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from chunkcalc.errors import ChunkcalcError
from chunkcalc.measurements.cells import blank, text
from chunkcalc.measurements.facts import OPTIONS, REQUIRED, assumed, option
from chunkcalc.measurements.magnitude import check_columns, check_steps, sound
from chunkcalc.measurements.run import Kind, Measurements, Skipped
from chunkcalc.measurements.serving import (
    LATENCIES,
    LENGTHS,
    LOADS,
    PER_SECOND,
    RUN_ALIASES,
    RUN_COLUMNS,
    Unit,
    runs_of,
)
from chunkcalc.measurements.steps import STEP_ALIASES, STEP_COLUMNS, steps_of
from chunkcalc.measurements.traces import TRACE_COLUMNS, traces_of

LONGEST_SHOWN = 60  # characters of a header that are shown
MOST_ROWS = 500_000
SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}
Rows = list[tuple[int, Mapping[str, object]]]


class Table(NamedTuple):
    """A table as text.

    header : its columns in lower case
    rows : 1-based numbers and values by column, rows without any value left out
    skipped : rows that do not fit the header
    """

    header: tuple[str, ...]
    rows: Rows
    skipped: list[Skipped]


def read_table(
    content: str, path: str, given: Mapping[str, object], unit: Unit | None, mapped: Mapping[str, str] | None = None
) -> Measurements:
    """What a CSV table holds.

    Parameters
    ----------
    content : of the file
    path : of the file
    given : facts from options, for cells that are blank and columns that are missing
    unit : of the columns that end in _ms; None: what their name says, if their magnitude bears it out
    mapped : columns by the names that are known

    Raises
    ------
    ChunkcalcError : no such table, missing columns, another unit than it says, no row
    """
    table = _split(content, path, mapped or {})
    kind = _kind(table.header, path)
    _require(kind, set(table.header) | set(given), path)
    if not table.rows and not table.skipped:
        raise ChunkcalcError("has a header and no rows", path, "give a table with at least one row")
    filled: Rows = [(row, {**given, **{k: v for k, v in values.items() if not blank(v)}}) for row, values in table.rows]
    found = _records(kind, filled, path, unit)
    return found._replace(skipped=tuple(sorted((*table.skipped, *found.skipped))))


def _records(kind: Kind, rows: Rows, path: str, unit: Unit | None) -> Measurements:
    per_second = PER_SECOND[unit or "ms"]
    if kind == "steps":
        steps, skipped = steps_of(rows, path, per_second)
        check_steps([step.time for step in steps], unit, path)
        return Measurements(kind, steps=tuple(steps), skipped=tuple(skipped))
    if kind == "traces":
        traces, skipped = traces_of(rows, path, per_second)
        timed = [each for trace in traces for each in trace.requests]
        check_columns({"ttft": [each.ttft for each in timed], "tpot": [each.tpot for each in timed]}, unit, path)
        return Measurements(kind, traces=tuple(traces), skipped=tuple(skipped))
    runs, skipped = runs_of(rows, path, per_second)
    runs, odd = sound(runs, unit, path)
    return Measurements(kind, tuple(runs), skipped=(*skipped, *odd), assumed=assumed([values for _, values in rows]))


def _split(content: str, path: str, mapped: Mapping[str, str]) -> Table:
    try:
        lines = list(islice((line for line in csv.reader(io.StringIO(content, newline="")) if line), MOST_ROWS + 2))
    except csv.Error as error:
        raise ChunkcalcError(f"is not a CSV file ({error!s:.80})", path, "give a CSV file with a header") from None
    if len(lines) > MOST_ROWS + 1:
        raise ChunkcalcError(f"has more than {MOST_ROWS:,} rows", path, "give a part of it")
    header = tuple(cell.strip().lower() for cell in lines[0]) if lines else ()
    header = _known(header, mapped, path)
    twice = sorted(name for name in {*RUN_COLUMNS, *STEP_COLUMNS, *TRACE_COLUMNS} if header.count(name) > 1)
    if twice:
        raise ChunkcalcError(f"has the column '{twice[0]}' twice", path, "leave one of them")
    rows: Rows = []
    skipped = []
    for row, line in enumerate(lines[1:], 1):
        if len(line) != len(header):
            skipped.append(Skipped(row, f"{len(line)} cells under {len(header)} columns"))
        elif not all(blank(cell) for cell in line):
            rows.append((row, dict(zip(header, line, strict=True))))
    return Table(header, rows, skipped)


def _known(header: tuple[str, ...], mapped: Mapping[str, str], path: str) -> tuple[str, ...]:
    """The columns by the names that are known: as the user says, then as harnesses and engines call them."""
    chosen = {written.strip().lower(): name for name, written in mapped.items()}
    for written, name in chosen.items():
        if written not in header:
            raise ChunkcalcError(f"has no column '{written:.40}'", path, "--map names columns of the file")
        if name not in (*RUN_COLUMNS, *STEP_COLUMNS, *TRACE_COLUMNS):
            raise ChunkcalcError(
                f"'{name:.40}' is no column that is known", "--map", f"such as {', '.join(LATENCIES[:2])}"
            )
    header = tuple(chosen.get(name, name if name not in chosen.values() else f"{name} of the file") for name in header)
    if set(header) >= set(STEP_ALIASES):
        return tuple(STEP_ALIASES.get(name, name) for name in header)
    taken, out = set(header), []
    for name in header:
        other = RUN_ALIASES.get(name)
        if other and other not in taken:
            taken.add(other)
            name = other  # noqa: PLW2901
        out.append(name)
    return tuple(out)


def _kind(header: Sequence[str], path: str) -> Kind:
    names = set(header)
    if names >= set(STEP_COLUMNS) - {"gpu", "model"}:
        return "steps"
    if names >= set(TRACE_COLUMNS) - {"gpu", "model"}:
        return "traces"
    if len(names & {*LENGTHS, *LOADS, *LATENCIES}) >= 2:
        return "serving"
    other = next((word for mark, word in SEPARATORS.items() if len(header) == 1 and mark in header[0]), "")
    hint = f"give a table with the columns {', '.join((*REQUIRED, *LENGTHS, LOADS[0], *LATENCIES[:2]))}"
    hint = f"separate the columns by commas, not by {other}" if other else hint
    hint = "give the JSON that lies beside it" if {"metric", "avg"} <= names else hint  # AIPerf and GenAI-Perf
    shown = text(", ".join(header))[:LONGEST_SHOWN]
    raise ChunkcalcError(f"is no table of measurements that is known (its header: '{shown}')", path, hint)


def _require(kind: Kind, names: set[str], path: str) -> None:
    """Every column that the kind cannot do without, or an option in its place."""
    needed = {"steps": STEP_COLUMNS, "traces": TRACE_COLUMNS}.get(kind, (*REQUIRED, *LENGTHS))
    for name in needed:
        if name not in names:
            hint = f"add it, or give {option(name)}" if name in OPTIONS else "add it"
            raise ChunkcalcError(f"has no column '{name}'", path, hint)
    if kind == "serving" and not names & set(LATENCIES):
        raise ChunkcalcError("has no column with a latency", path, f"add one of {', '.join(LATENCIES[:4])}")
    if kind == "serving" and not names & set(LOADS):
        raise ChunkcalcError("has no column with the load", path, f"add {' or '.join(LOADS)}")
