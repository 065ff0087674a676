"""Rows of a table of requests -> one trace per server that served them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from chunkcalc.measurements.cells import UnreadableError, count, engine_name, latency, number, text
from chunkcalc.measurements.facts import MOST_GPUS, MOST_REQUESTS, MOST_TOKENS
from chunkcalc.measurements.run import MeasuredTrace, Skipped, Timed
from chunkcalc.measurements.serving import whole
from chunkcalc.traffic.arrivals import Request

TRACE_COLUMNS = ("gpu", "model", "arrival_s", "input", "output", "ttft_ms")
LONGEST_TRACE = 1e10  # s, so that arrivals may also be times since 1970


def traces_of(
    rows: Iterable[tuple[int, Mapping[str, object]]], path: str, per_second: float
) -> tuple[list[MeasuredTrace], list[Skipped]]:
    """The traces of all rows by server, in the order of the file, and the rows that are no request.

    Parameters
    ----------
    rows : their numbers and values, options included
    path : the file
    per_second : units of the latencies in a second [1]
    """
    servers: dict[tuple[tuple[str, Any], ...], list[Timed]] = {}
    skipped = []
    for row, values in rows:
        try:
            server, timed = _server(values), _timed(row, values, per_second)
        except UnreadableError as reason:
            skipped.append(Skipped(row, str(reason)))
        else:
            servers.setdefault(server, []).append(timed)
    traces = [MeasuredTrace(path=path, requests=_from_zero(timed), **dict(server)) for server, timed in servers.items()]
    return traces, skipped


def _server(values: Mapping[str, object]) -> tuple[tuple[str, Any], ...]:
    """What sets the traces of a file apart. Its columns are named after vLLM's options."""
    gpu, model = text(values.get("gpu")), text(values.get("model"))
    if not gpu or not model:
        raise UnreadableError(f"{'model' if gpu else 'gpu'} is blank")
    budget = values.get("max_num_batched_tokens") or values.get("budget")
    return (
        ("engine", engine_name(values.get("engine")) or "vllm"),
        ("gpu", gpu),
        ("model", model),
        ("tp", count(values.get("tp"), "tp", 1, MOST_GPUS) or 1),
        ("budget", count(budget, "max_num_batched_tokens", 1, MOST_TOKENS)),
        ("max_num_seqs", count(values.get("max_num_seqs"), "max_num_seqs", 1, MOST_REQUESTS)),
    )


def _timed(row: int, values: Mapping[str, object], per_second: float) -> Timed:
    arrival = number(values.get("arrival_s"), "arrival_s", 0.0, LONGEST_TRACE)
    ttft = latency(values.get("ttft_ms"), "ttft_ms", per_second)
    if arrival is None or ttft is None:
        raise UnreadableError(f"{'arrival_s' if arrival is None else 'ttft_ms'} is blank")
    prompt, output = (whole(values.get(name), name) for name in ("input", "output"))
    tpot = latency(values.get("tpot_ms"), "tpot_ms", per_second, zero=output == 1)
    return Timed(row, Request(arrival, prompt, output), ttft, tpot or None)


def _from_zero(timed: list[Timed]) -> tuple[Timed, ...]:
    """By arrival, counted from the first."""
    ordered = sorted(timed, key=lambda each: each.request.arrival)
    first = ordered[0].request.arrival
    return tuple(each._replace(request=each.request._replace(arrival=each.request.arrival - first)) for each in ordered)
