"""AIPerf's profile_export_aiperf.json and GenAI-Perf's profile_export_genai_perf.json -> the columns of a
serving table.

Both write one object per metric, with its unit and its mean. Their inter-token latency is a mean per request:
what is called TPOT here. AIPerf's inter-chunk latency is every gap between two messages.
"""

from __future__ import annotations

from collections.abc import Mapping

from chunkcalc.measurements.cells import UnreadableError, engine_name, number, text
from chunkcalc.measurements.documents import Document, first_of, within
from chunkcalc.measurements.facts import MOST_REQUESTS, with_note

MILLISECONDS: Mapping[str, float] = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3, "sec": 1e3, "seconds": 1e3}
QUANTITIES = {"time_to_first_token": "ttft", "inter_token_latency": "tpot", "inter_chunk_latency": "itl"}
METRICS = ("request_throughput", "request_latency", *QUANTITIES)
PERCENTILES = ("p50", "p95", "p99")
LENGTHS = {
    "prompt_tokens": (("input_sequence_length", "avg"), ("num_input_token", "avg")),
    "output_tokens": (("output_sequence_length", "avg"), ("num_output_token", "avg")),
}
MODEL = (("models", "items", 0, "name"), ("endpoint", "model_names", 0), ("model_names", 0), ("model", 0), ("model",))
# AIPerf's first configuration, GenAI-Perf's second one, GenAI-Perf's flat one; phases are looked up by hand.
CONCURRENCY = (("loadgen", "concurrency"), ("perf_analyzer", "stimulus", "concurrency"), ("concurrency",))
RATE = (("loadgen", "request_rate"), ("perf_analyzer", "stimulus", "request_rate"), ("request_rate",))
BACKEND = (("endpoint", "backend"), ("backend",))


def is_perf_export(document: Document) -> bool:
    """Whether an object is such an export."""
    return "input_config" in document and any(isinstance(document.get(metric), dict) for metric in METRICS)


def is_aiperf(document: Document) -> bool:
    """Whether AIPerf wrote it, not GenAI-Perf before it."""
    own = ("aiperf_version", "was_cancelled", "error_summary", "inter_chunk_latency")
    return any(key in document for key in own) or isinstance(within(document, "input_config", "loadgen"), dict)


def perf_columns(document: Document) -> dict[str, object]:
    """The values of its run, by column.

    Raises
    ------
    UnreadableError : a unit that is none, several phases of load
    """
    config = document["input_config"]
    found: dict[str, object] = {name: first_of(document, *paths) for name, paths in LENGTHS.items()}
    found["source"] = "AIPerf" if is_aiperf(document) else "GenAI-Perf"
    found["requests"] = within(document, "request_count", "avg")
    found["input_ratio"] = 1 if number(within(document, "input_sequence_length", "std"), "std", 0, 1e9) == 0 else None
    found["date"] = text(document.get("start_time"))[:10]
    found["model"] = text(first_of(config, *MODEL))
    found["engine"] = engine_name(first_of(config, *BACKEND))
    found["gpu"] = _gpu(document)
    failed = number(within(document, "error_request_count", "avg"), "error_request_count", 0, MOST_REQUESTS)
    notes = (f"{failed:.0f} requests failed" if failed else "", "cancelled" if document.get("was_cancelled") else "")
    return with_note(found | _latencies(document) | _load(config), *notes)


def _latencies(document: Document) -> dict[str, object]:
    """Without streaming the first token arrives with the last, and nothing is known of either."""
    latency = within(document, "request_latency", "avg")
    if latency is not None and latency == within(document, "time_to_first_token", "avg"):
        raise UnreadableError("answers were not streamed")
    found: dict[str, object] = {}
    for key, name in QUANTITIES.items():
        metric = document.get(key)
        if not isinstance(metric, dict):
            continue
        unit = text(metric.get("unit"))
        if unit not in MILLISECONDS:
            raise UnreadableError(f"{key} is in the unknown unit '{unit:.40}'")
        scale = MILLISECONDS[unit]
        values = {"itl_mean_ms" if name == "itl" else f"{name}_ms": metric.get("avg")}
        values |= {f"{name}_{part}_ms": metric.get(part) for part in PERCENTILES}
        read = {column: number(value, key, 0.0, 1e13) for column, value in values.items()}
        found |= {column: None if value is None else value * scale for column, value in read.items()}
    return found


def _load(config: object) -> dict[str, object]:
    phases = within(config, "phases")
    if isinstance(phases, list):
        measured = [phase for phase in phases if isinstance(phase, dict) and not _warmup(phase)]
        if len(measured) != 1:
            raise UnreadableError(f"{len(measured)} phases of load in one result")
        phase = measured[0]
        kind = text(phase.get("type"))
        alone = 1 if kind == "concurrency" else None  # what the type means where nothing is written
        return {"concurrency": phase.get("concurrency") or alone, "rate_rps": phase.get("rate"),
                "note": "even gaps" if kind == "constant" else ""}  # fmt: skip
    return {"concurrency": first_of(config, *CONCURRENCY), "rate_rps": first_of(config, *RATE)}


def _warmup(phase: Document) -> bool:
    return bool(phase.get("exclude_from_results")) or "warmup" in (phase.get("kind"), phase.get("name"))


def _gpu(document: Document) -> str:
    """The GPU that the telemetry names, where it names one kind only."""
    endpoints = within(document, "telemetry_data", "endpoints")
    groups = [within(each, "gpus") for each in endpoints.values()] if isinstance(endpoints, dict) else []
    gpus = [gpu for group in groups if isinstance(group, dict) for gpu in group.values()]
    names = {text(within(gpu, "gpu_name")) for gpu in gpus}
    return names.pop() if len(names) == 1 else ""
