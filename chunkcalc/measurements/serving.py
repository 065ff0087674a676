"""The columns of a serving table -> a run. The harnesses are read through the same columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, Literal

from chunkcalc.measurements.cells import UnreadableError, count, latency, number, text
from chunkcalc.measurements.facts import MOST_TOKENS, REQUIRED, parsed
from chunkcalc.measurements.run import Run, Skipped

Unit = Literal["s", "ms", "us"]
PER_SECOND: Mapping[str, float] = {"s": 1.0, "ms": 1e3, "us": 1e6}
LENGTHS = ("prompt_tokens", "output_tokens")
LOADS = ("concurrency", "rate_rps")
LATENCIES = (
    "ttft_ms", "tpot_ms", "ttft_p50_ms", "ttft_p95_ms", "ttft_p99_ms", "tpot_p50_ms", "tpot_p99_ms",
    "itl_mean_ms", "itl_p50_ms", "itl_p95_ms", "itl_p99_ms",
)  # fmt: skip
# The same columns as harnesses and people call them, in lower case.
RUN_ALIASES: Mapping[str, str] = {
    "isl": "prompt_tokens", "input_len": "prompt_tokens", "input_tokens": "prompt_tokens",
    "random_input_len": "prompt_tokens", "osl": "output_tokens", "output_len": "output_tokens",
    "random_output_len": "output_tokens", "mean_ttft_ms": "ttft_ms", "mean_tpot_ms": "tpot_ms",
    "median_ttft_ms": "ttft_p50_ms", "median_tpot_ms": "tpot_p50_ms", "p95_ttft_ms": "ttft_p95_ms",
    "p99_ttft_ms": "ttft_p99_ms", "p99_tpot_ms": "tpot_p99_ms", "mean_itl_ms": "itl_mean_ms",
    "median_itl_ms": "itl_p50_ms", "p95_itl_ms": "itl_p95_ms", "p99_itl_ms": "itl_p99_ms",
    "max_concurrency": "concurrency", "users": "concurrency", "conc": "concurrency", "num_prompts": "requests",
    "request_rate": "rate_rps", "tensor_parallel_size": "tp", "hardware": "gpu", "model_id": "model",
    "framework": "engine", "backend": "engine", "quantization": "weights", "precision": "weights",
}  # fmt: skip
APART = ("p_num", "p_tp", "d_num", "d_tp")  # units of prefill and decode apart
# Percentiles of one quantity, in rising order.
RISING = (("ttft_p50", "ttft_p95", "ttft_p99"), ("tpot_p50", "tpot_p99"), ("itl_p50", "itl_p95", "itl_p99"))
MOST_RATE = 1e6  # request/s
WIDE = "sharegpt"
UNIFORM = re.compile(r"uniform in \[(\d+\.?\d*), ?(\d*[1-9]\d*\.?\d*)\] x nominal")  # lengths, in a note
RUN_COLUMNS = (
    *REQUIRED, *LENGTHS, *LOADS, *LATENCIES, "source", "engine_version", "weights", "kv", "requests", "tp", "dp",
    "ep", "pp", *APART, "budget", "input_ratio", "max_num_seqs", "spec", "prefix_cache", "date",
    "source_url_or_repo", "note",
)  # fmt: skip


def run_of(row: int, path: str, values: Mapping[str, object], per_second: float) -> Run:
    """A run from one row.

    Parameters
    ----------
    row, path : where it stands
    values : by column, options included; other columns are ignored
    per_second : units of the columns that end in _ms in a second [1]

    Raises
    ------
    UnreadableError : a value is missing, impossible or contradicts another one of its row
    """
    facts: dict[str, Any] = parsed({**values, "reference": values.get("source_url_or_repo")})
    del facts["kv_tokens"]  # of logs
    for name in REQUIRED:
        if not facts[name]:
            raise UnreadableError(f"{name} is blank")
    facts |= {name: _length(values, name) for name in LENGTHS}
    facts["rate"] = number(values.get("rate_rps"), "rate_rps", 1e-9, MOST_RATE)
    if facts["concurrency"] is None and facts["rate"] is None:
        raise UnreadableError("neither concurrency nor rate_rps says the load")
    facts |= {degree: facts[degree] or 1 for degree in ("tp", "dp", "ep", "pp")}
    facts |= _units(facts)
    facts |= _latencies(values, per_second)
    ratio = text(values.get("input_ratio")).lower()
    facts["wide"] = ratio == WIDE
    facts["least_ratio"] = None if facts["wide"] else number(ratio, "input_ratio", 0.0, 1.0)
    lengths = UNIFORM.search(text(values.get("note")))
    if lengths and not ratio:
        facts["least_ratio"] = min(1.0, float(lengths[1]) / float(lengths[2]))
    return Run(row=row, path=path, **facts)


def _units(facts: Mapping[str, Any]) -> dict[str, int]:
    """The units of a run whose prefill and decode are apart: all of them, and the degree of its decodes as its own."""
    given = [name for name in APART if facts[name] is not None]
    if not given:
        return {}
    missing = next((name for name in ("p_num", "d_num") if name not in given), None)
    if missing:
        raise UnreadableError(f"{given[0]} without {missing}")
    prefill, decode = facts["p_tp"] or facts["tp"], facts["d_tp"] or facts["tp"]
    return {"p_tp": prefill, "d_tp": decode, "tp": decode}


def runs_of(
    rows: Iterable[tuple[int, Mapping[str, object]]], path: str, per_second: float
) -> tuple[list[Run], list[Skipped]]:
    """The runs of all rows, and the rows that are none."""
    runs, skipped = [], []
    for row, values in rows:
        try:
            runs.append(run_of(row, path, values, per_second))
        except UnreadableError as reason:
            skipped.append(Skipped(row, str(reason)))
    return runs, skipped


def whole(value: object, name: str, least: int = 1, most: int = MOST_TOKENS) -> int:
    """A whole number that a row cannot do without.

    Raises
    ------
    UnreadableError : blank, no whole number, out of bounds
    """
    found = count(value, name, least, most)
    if found is None:
        raise UnreadableError(f"{name} is blank")
    return found


def _length(values: Mapping[str, object], name: str) -> float:
    found = number(values.get(name), name, 1.0, MOST_TOKENS)
    if found is None:
        raise UnreadableError(f"{name} is blank")
    return found


def _latencies(values: Mapping[str, object], per_second: float) -> dict[str, float | None]:
    """Every latency of a row [s]; a gap of 0 is two tokens in one message."""
    found = {
        column.removesuffix("_ms"): latency(values.get(column), column, per_second, zero=column.startswith("itl"))
        for column in LATENCIES
    }
    if all(value is None for value in found.values()):
        raise UnreadableError("no latency")
    for names in RISING:
        known = [(name, value) for name in names if (value := found[name]) is not None]
        for (lower, least), (upper, most) in pairwise(known):
            if least > most * (1 + 1e-6):
                raise UnreadableError(f"{lower} is above {upper}")
    return found
