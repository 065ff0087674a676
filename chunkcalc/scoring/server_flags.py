"""How published benchmark servers were launched: step budget, KV cache format and the like, as data."""

from __future__ import annotations

import csv
import datetime
import math
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from chunkcalc.catalog.lookup import load_hardware
from chunkcalc.engines.tables import VERSION, order

_FILE = Path(__file__).parent / "server_flags.csv"
_READING = 14  # days between two readings of the source
_LONGEST = len("nightly-") + 16  # characters of a nightly build's name: its hash is cut


class Launch(NamedTuple):
    """What a server was told at its start; None leaves it to the engine.

    budget : tokens of a step as the engine's flag was given (vLLM and ATOM max_num_batched_tokens,
        SGLang chunked_prefill_size, TensorRT-LLM max_num_tokens) [token]
    kv : format of the KV cache, bf16 standing for any 16-bit one
    max_num_seqs : largest batch, of one attention rank where these serve their own requests [1]
    prefill_whole : a prompt is never cut
    graph_batch : largest batch with a captured graph [1]
    match : `exact`, or the most important thing in which the entry found differs: `other weights`,
        `other gpu`, `other speculation`, `nearest version`, `nearest date`, `nearest lengths`,
        `nearest parallelism`, `nearest concurrency`; `none` where there is no entry
    """

    budget: int | None = None
    kv: str | None = None
    max_num_seqs: int | None = None
    prefill_whole: bool = False
    graph_batch: int | None = None
    match: str = "none"


class Shape(NamedTuple):
    """Degrees of a server and the concurrencies it was run at."""

    tp: int
    ep: int
    dp: int
    least: int
    most: int


# Decode steps between two looks of SGLang for new requests (scheduler_recv_interval), below 16 requests in
# flight and from there on: launch scripts of SemiAnalysisAI/InferenceX, read in August 2026. The first that fits.
_POLLS: tuple[tuple[str, str, str, int, int], ...] = (  # model, architecture, weights, below, from
    ("deepseek-v3", "blackwell", "", 10, 30),
    ("qwen3.5", "blackwell", "", 10, 30),
    ("qwen3.5", "cdna", "", 30, 30),
    ("glm-5", "blackwell", "nvfp4", 10, 10),
    ("glm-5", "cdna3", "", 30, 30),
)


def poll_for(model_id: str, gpu_id: str, weights: str, concurrency: int) -> int:
    """Decode steps between two looks for new requests, as the servers under SGLang were told.

    Parameters
    ----------
    model_id, gpu_id : ids of the catalogue
    weights : label of the weight format
    concurrency : requests in flight [1]
    """
    arch = _arch(gpu_id)
    for model, built, label, below, above in _POLLS:
        if model_id.startswith(model) and arch.startswith(built) and label in ("", weights):
            return above if concurrency >= 16 else below
    return 1


class Entry(NamedTuple):
    """One line of the data: where it holds, and what it says."""

    engine: str
    model: str
    gpu: str
    weights: str
    speculative: bool
    versions: tuple[str, ...]
    first: datetime.date
    last: datetime.date
    lengths: tuple[tuple[int, int], ...]
    shapes: tuple[Shape, ...]
    budget: str
    kv: str
    max_num_seqs: str
    whole: bool
    graph_batch: str
    config: str


class Run(NamedTuple):
    """The run whose launch is looked for."""

    gpu: str
    weights: str
    tp: int
    ep: int
    dp: int
    concurrency: int
    prompt: float
    output: float
    version: str | None
    day: datetime.date | None
    speculative: bool


def launch_for(
    engine: str,
    model_id: str,
    gpu_id: str,
    weights: str,
    tp: int,
    ep: int,
    dp: int,
    concurrency: int,
    prompt: float,
    output: float,
    version: str | None = None,
    date: str | None = None,
    speculative: bool = False,
) -> Launch:
    """The launch that fits a benchmark run best.

    Entries of the engine and model on this GPU, or on one of its architecture, are compared in
    this order: weights, GPU, speculation, version, date, lengths, degrees, concurrency. The first
    difference decides. A run without version and date takes the earliest entry: the first
    published results carried neither.

    Parameters
    ----------
    engine : `vllm`, `sglang`, `trtllm` or `atom`
    model_id, gpu_id : ids of the catalogue
    weights : label of the weight format
    tp, ep, dp : degrees; tp is that of one attention rank [1]
    concurrency : requests in flight, at least 1 [1]
    prompt, output : tokens of a request, mean or nominal, at least 1 [token]
    version : of the engine; None where unknown
    date : of the run, `2026-01-31` or `2026-01`; None where unknown
    speculative : whether drafts were used

    Returns
    -------
    the launch, and how well it fits

    Raises
    ------
    ChunkcalcError : the GPU is not in the catalogue

    Examples
    --------
    >>> launch_for("vllm", "llama-3.1-70b", "h100-sxm", "fp8", 4, 1, 1, 16, 921, 921)
    Launch(budget=8192, kv='fp8', max_num_seqs=16, prefill_whole=False, graph_batch=None, match='exact')
    """
    run = Run(
        gpu_id, weights, tp, ep, dp, concurrency, prompt, output, version, _day(date) if date else None, speculative
    )
    entries = [e for e in _entries().get((engine, model_id), ()) if e.gpu == gpu_id or _arch(e.gpu) == _arch(gpu_id)]
    if not entries:
        return Launch()
    # What is said of few concurrencies goes before what is said of many.
    entry = min(
        entries,
        key=lambda each: ([gap(each, run) for gap in _GAPS.values()], _days(each, run), each.first, _shape(each, run)),
    )
    return Launch(
        budget=_number(entry.budget, concurrency),
        kv=entry.kv,
        max_num_seqs=_number(entry.max_num_seqs, concurrency),
        prefill_whole=entry.whole,
        graph_batch=_number(entry.graph_batch, concurrency),
        match=next((name for name, gap in _GAPS.items() if gap(entry, run)), "exact"),
    )


def _version_gap(entry: Entry, run: Run) -> float:
    """Zero where the entry was seen with the version; else the distance of the numbers."""
    if run.version is None or {run.version, run.version[:_LONGEST]} & set(entry.versions):
        return 0
    if not VERSION.fullmatch(run.version):
        return math.inf
    asked = _height(run.version)
    return min((abs(_height(seen) - asked) for seen in entry.versions if VERSION.fullmatch(seen)), default=math.inf)


def _height(version: str) -> int:
    """A version as one number that compares alike."""
    height = 0
    for part in order(version):
        height = height * 1000 + min(part, 999)
    return height


def _date_gap(entry: Entry, run: Run) -> float:
    """Days beyond one reading from the time in which the entry was seen."""
    return max(_days(entry, run) - _READING, 0)


def _days(entry: Entry, run: Run) -> float:
    """Days between the run and the time in which the entry was seen."""
    if run.day is None:
        return 0
    return max((entry.first - run.day).days, (run.day - entry.last).days, 0)


def _lengths_gap(entry: Entry, run: Run) -> float:
    """Doublings between the lengths, to the nearest: a mean may lie a little below the nominal one."""
    return min(round(_doublings(run.prompt, p)) + round(_doublings(run.output, o)) for p, o in entry.lengths)


def _shape(entry: Entry, run: Run) -> tuple[float, float, float]:
    """Of the entry's nearest shape: doublings between the degrees, from the concurrency to its
    range, and within that range."""
    return min(
        (
            _doublings(shape.tp, run.tp) + _doublings(shape.ep, run.ep) + _doublings(shape.dp, run.dp),
            _doublings(run.concurrency, min(max(run.concurrency, shape.least), shape.most)),
            _doublings(shape.most, shape.least),
        )
        for shape in entry.shapes
    )


def _doublings(value: float, other: float) -> float:
    return abs(math.log2(value / other))


# What is compared, in order of importance, by what an answer says of a difference.
_GAPS: Mapping[str, Callable[[Entry, Run], float]] = {
    "other weights": lambda entry, run: entry.weights != run.weights,
    "other gpu": lambda entry, run: entry.gpu != run.gpu,
    "other speculation": lambda entry, run: entry.speculative != run.speculative,
    "nearest version": _version_gap,
    "nearest date": _date_gap,
    "nearest lengths": _lengths_gap,
    "nearest parallelism": lambda entry, run: _shape(entry, run)[0],
    "nearest concurrency": lambda entry, run: _shape(entry, run)[1],
}


@cache
def _arch(gpu: str) -> str:
    arch: str = load_hardware(gpu).record.arch
    return arch.removesuffix("-ultra")


def _number(text: str, concurrency: int) -> int | None:
    return concurrency if text == "c" else int(text) if text else None


def _day(text: str) -> datetime.date:
    """A day; the middle of a month that is given alone."""
    return datetime.date.fromisoformat(text if len(text) > len("2026-01") else f"{text}-15")


@cache
def _entries() -> dict[tuple[str, str], list[Entry]]:
    """The data, by engine and model."""
    found: dict[tuple[str, str], list[Entry]] = {}
    with _FILE.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            found.setdefault((row["engine"], row["model"]), []).append(_entry(row))
    return found


def _entry(row: Mapping[str, str]) -> Entry:
    plain = {name: row[name] for name in ("engine", "model", "gpu", "weights", "budget", "kv", "max_num_seqs")}
    return Entry(
        **plain,
        speculative=row["speculative"] == "1",
        versions=tuple(row["versions"].split()),
        first=_day(row["first"]),
        last=_day(row["last"]),
        lengths=tuple(_pair(text, "x") for text in row["lengths"].split()),
        shapes=tuple(_read_shape(text) for text in row["shapes"].split()),
        whole=row["whole"] == "1",
        graph_batch=row["graph_batch"],
        config=row["config"],
    )


def _read_shape(text: str) -> Shape:
    degrees, _, concurrencies = text.partition(":")
    tp, ep, dp = map(int, degrees.split("/"))
    return Shape(tp, ep, dp, *_pair(concurrencies, "-"))


def _pair(text: str, between: str) -> tuple[int, int]:
    first, _, second = text.partition(between)
    return int(first), int(second)
