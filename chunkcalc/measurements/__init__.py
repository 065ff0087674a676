"""Measurement files -> records: tables, and what the benchmark harnesses write. Read, never executed.

read(Path("results.csv"), {"gpu": "h100-sxm"}).runs
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from chunkcalc.errors import ChunkcalcError
from chunkcalc.measurements.documents import split
from chunkcalc.measurements.facts import given
from chunkcalc.measurements.harnesses import read_documents
from chunkcalc.measurements.logs import is_log, read_log
from chunkcalc.measurements.run import MeasuredTrace, Measurements, Run, Skipped, StepRow, Timed
from chunkcalc.measurements.serving import PER_SECOND, Unit
from chunkcalc.measurements.tables import read_table

__all__ = ["MeasuredTrace", "Measurements", "Run", "Skipped", "StepRow", "Timed", "Unit", "liked", "parse", "read"]

MAX_BYTES = 64 * 2**20


def read(
    path: Path, defaults: Mapping[str, object] | None = None, unit: Unit | None = None,
    mapped: Mapping[str, str] = MappingProxyType({}),
) -> Measurements:  # fmt: skip
    """What a measurement file holds; its format is told by its content.

    Parameters
    ----------
    path : a CSV table of runs, steps or requests, or what `vllm bench serve`, `sglang.bench_serving`,
        GuideLLM, AIPerf or GenAI-Perf wrote, or a log of an engine
    defaults : facts by name (`facts.OPTIONS`) that the file does not say. They fill the blanks of a table;
        of a harness, which knows what a server calls itself, they also overrule the file
    unit : of latencies whose column says milliseconds; None: what the column says, if the magnitude bears it out
    mapped : columns of a table by the names that are known

    Returns
    -------
    the records, in SI units, and the rows that are none

    Raises
    ------
    ChunkcalcError : unreadable, unknown format, missing columns or facts, doubtful units
    """
    where = str(path)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no such name"
        raise ChunkcalcError(f"cannot be read ({reason})", where, "give a CSV table or a JSON result") from None
    if len(data) > MAX_BYTES:
        hint = "give a part of it, or the result without the records of single requests"
        raise ChunkcalcError(f"is larger than {MAX_BYTES >> 20} MiB", where, hint)
    try:
        content = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ChunkcalcError("is not UTF-8 text", where, "save it as UTF-8") from None
    return parse(content, where, defaults, unit, mapped)


def parse(
    content: str, path: str, defaults: Mapping[str, object] | None = None, unit: Unit | None = None,
    mapped: Mapping[str, str] = MappingProxyType({}),
) -> Measurements:  # fmt: skip
    """What the text of a measurement file holds.

    Raises
    ------
    ChunkcalcError : as for `read`
    """
    if unit is not None and unit not in PER_SECOND:
        raise ChunkcalcError(f"'{unit}' is no unit of time", "--unit", f"give one of {', '.join(PER_SECOND)}")
    stated = given(defaults or {})
    start = content.lstrip()[:1]
    if not start:
        raise ChunkcalcError("is empty", path, "give a table, or the result of a benchmark")
    if is_log(content):
        return read_log(content, path, stated)
    if start in "{[":
        return read_documents(split(content, path), path, stated, unit)
    return read_table(content, path, stated, unit, mapped)


def liked(found: Measurements, like: Mapping[str, str]) -> Measurements:
    """Measurements of models that are shaped like others, read as those.

    Parameters
    ----------
    found : what a file holds
    like : names as the file has them -> names that are known

    Raises
    ------
    ChunkcalcError : a name that no row has
    """
    named = {each.model for each in found.runs} | {each.model for each in found.steps}
    named |= {each.model for each in found.traces}
    unknown = next((name for name in like if name not in named), None)
    if unknown is not None:
        raise ChunkcalcError(f"no row is of '{unknown:.60}'", "--like", "name models as the file does")
    return found._replace(
        runs=tuple(replace(each, model=like.get(each.model, each.model)) for each in found.runs),
        steps=tuple(replace(each, model=like.get(each.model, each.model)) for each in found.steps),
        traces=tuple(replace(each, model=like.get(each.model, each.model)) for each in found.traces),
    )
