"""Requests over time: drawn from a Poisson process, all at once, one after the other, or recorded."""

from __future__ import annotations

import csv
import math
import random
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from chunkcalc.errors import ChunkcalcError
from chunkcalc.traffic.lengths import draw

MAX_BYTES = 256 * 2**20  # of a trace
MOST_REQUESTS = 1_000_000
# Column names of published traces -> ours: our own evidence, Azure's (TIMESTAMP, ContextTokens,
# GeneratedTokens), Splitwise's and BurstGPT's.
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "arrival": ("arrival_s", "arrival", "timestamp", "arrived_at", "arrival_timestamp", "arrival_time"),
    "prompt": ("input", "prompt", "prompt_tokens", "contexttokens", "context_tokens", "num_prefill_tokens",
               "request tokens", "prompt_size", "input_tokens"),
    "output": ("output", "output_tokens", "generatedtokens", "generated_tokens", "num_decode_tokens",
               "response tokens", "token_size", "completion_tokens"),
}  # fmt: skip


class Request(NamedTuple):
    """A request.

    arrival : when it arrives [s]
    prompt : prompt tokens [token]
    output : output tokens, at least one [token]
    """

    arrival: float
    prompt: int
    output: int


def poisson(rate: float, count: int, prompt: int, output: int, seed: int = 0, spread: float = 0.0) -> list[Request]:
    """Requests with exponential gaps.

    Parameters
    ----------
    rate : of arrivals [request/s]
    count : requests [1]
    prompt, output : mean lengths [token]
    seed : of the draws
    spread : coefficient of variation of the prompt's length, a lognormal; 0 for equal prompts [1]

    Returns
    -------
    requests in their order
    """
    draws, now, out = random.Random(seed), 0.0, []
    for _ in range(count):
        now += draws.expovariate(rate)
        out.append(Request(now, draw(draws, prompt, spread), output))
    return out


def burst(count: int, prompt: int, output: int, seed: int = 0, spread: float = 0.0) -> list[Request]:
    """Requests that all arrive at once.

    Parameters
    ----------
    count : requests [1]
    prompt, output : mean lengths [token]
    seed, spread : as for `poisson`
    """
    draws = random.Random(seed)
    return [Request(0.0, draw(draws, prompt, spread), output) for _ in range(count)]


class Trace(NamedTuple):
    """A recorded trace.

    requests : by arrival, the first at 0 s
    unanswered : rows without output tokens, which are left out
    """

    requests: list[Request]
    unanswered: int


def read_trace(path: Path) -> Trace:
    """A recorded trace: a CSV with arrival times, prompt and output tokens.

    Parameters
    ----------
    path : the file

    Returns
    -------
    its requests

    Raises
    ------
    ChunkcalcError : unreadable, no such columns, a row that makes no sense
    """
    where = f"trace {path}"
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ChunkcalcError(f"is larger than {MAX_BYTES >> 20} MiB", where, "give a part of it")
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file)
            names = _columns(rows.fieldnames or [], where)
            read = [_request(row, names, number, where) for number, row in enumerate(rows, 2)]
    except OSError as error:
        raise ChunkcalcError(f"cannot be read ({error.strerror})", where, "give a CSV file") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise ChunkcalcError(f"is not a CSV file ({error!s:.80})", where, "give a CSV file with a header") from None
    out = [request for request in read if request.output]
    if not out:
        raise ChunkcalcError("holds no request", where, "give a trace with at least one row")
    if any(later.arrival < earlier.arrival for earlier, later in pairwise(out)):
        raise ChunkcalcError("is not sorted by arrival", where, "sort its rows by time")
    first = out[0].arrival
    requests = [request._replace(arrival=request.arrival - first) for request in out]
    return Trace(requests, len(read) - len(out))


def _columns(header: Sequence[str], where: str) -> dict[str, str]:
    known = {name.strip().lower(): name for name in header}
    out = {}
    for column, names in COLUMNS.items():
        found = next((known[name] for name in names if name in known), None)
        if found is None:
            hint = f"give one of {', '.join(names[:4])}"
            raise ChunkcalcError(f"has no column for the {column}", where, hint)
        out[column] = found
    return out


def _request(row: Mapping[str, str], names: Mapping[str, str], number: int, where: str) -> Request:
    if number > MOST_REQUESTS:
        raise ChunkcalcError(f"has more than {MOST_REQUESTS:,} requests", where, "give a part of it")
    try:
        arrival = _seconds(row[names["arrival"]])
        prompt, output = (int(float(row[names[key]])) for key in ("prompt", "output"))
    except (TypeError, ValueError, OverflowError):
        raise ChunkcalcError(f"row {number} is no request", where, "give numbers in all three columns") from None
    if not math.isfinite(arrival) or prompt < 1 or output < 0:
        hint = "the arrival is a time, prompt and output are token counts"
        raise ChunkcalcError(f"row {number} is no request", where, hint)
    return Request(arrival, prompt, output)


def _seconds(text: str) -> float:
    """Seconds, or a date and time as Azure's traces have them."""
    try:
        return float(text)
    except ValueError:
        from datetime import UTC, datetime  # noqa: PLC0415 - few traces have dates

        when = datetime.fromisoformat(text.strip())
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
