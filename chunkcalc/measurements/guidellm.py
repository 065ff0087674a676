"""GuideLLM's benchmarks.json -> the columns of a serving table, one row per benchmark.

A benchmark has had three layouts: `args.strategy` with a `worker`, `scheduler.strategy` with a `benchmarker`,
and `config.strategy` with a `config.backend`, whose report carries a version. GuideLLM's time per output token
counts the first one in; its inter-token latency is what is called TPOT here, a mean per request.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from chunkcalc.measurements.cells import UnreadableError, number, text
from chunkcalc.measurements.documents import Document, first_of, within
from chunkcalc.measurements.facts import MOST_REQUESTS, with_note

SOURCE = "GuideLLM"
STRATEGY = (("config", "strategy"), ("scheduler", "strategy"), ("args", "strategy"))
# In the benchmark itself, then in the report around it.
MODEL = (("config", "backend", "model"), ("benchmarker", "backend", "model"), ("worker", "backend_model"))
REPORT_MODEL = (("config", "spec", "backend", "model"), ("args", "model"))
REQUESTS = (("metrics", "request_totals", "successful"), ("request_totals", "successful"),
            ("total_count", "successful"))  # fmt: skip
QUANTITIES = {"time_to_first_token_ms": "ttft", "inter_token_latency_ms": "tpot"}
PERCENTILES = ("p50", "p95", "p99")


def is_guidellm_report(document: Document) -> bool:
    """Whether an object is such a report."""
    benchmarks = document.get("benchmarks")
    return isinstance(benchmarks, list) and bool(benchmarks) and all(isinstance(each, dict) for each in benchmarks)


def guidellm_columns(document: Document) -> Iterator[dict[str, object] | UnreadableError]:
    """The values of each benchmark by column, or why it has none."""
    for benchmark in document["benchmarks"]:
        try:
            yield _columns(benchmark, document)
        except UnreadableError as reason:
            yield reason


def _columns(benchmark: Document, report: Document) -> dict[str, object]:
    metrics = benchmark.get("metrics")
    if not isinstance(metrics, dict):
        raise UnreadableError("no metrics (a report of an early GuideLLM)")
    found: dict[str, object] = {"source": SOURCE, "requests": first_of(benchmark, *REQUESTS)}
    if found["requests"] == 0:
        raise UnreadableError("no request was answered")
    found["prompt_tokens"] = within(metrics, "prompt_token_count", "successful", "mean")
    found["output_tokens"] = within(metrics, "output_token_count", "successful", "mean")
    lengths = within(metrics, "prompt_token_count", "successful")
    same = within(lengths, "min") is not None and within(lengths, "min") == within(lengths, "max")
    found["input_ratio"] = 1 if same else None
    for key, name in QUANTITIES.items():
        summary = within(metrics, key, "successful")
        if within(summary, "mean"):  # 0 where nothing was streamed
            found[f"{name}_ms"] = within(summary, "mean")
            found |= {f"{name}_{part}_ms": within(summary, "percentiles", part) for part in PERCENTILES}
    model = first_of(benchmark, *MODEL) or first_of(report, *REPORT_MODEL)
    found["model"] = None if model == "None" else model  # the text that stands for a model left out
    start = number(benchmark.get("start_time"), "start_time", -1.0, 1e11)
    found["date"] = time.strftime("%Y-%m-%d", time.gmtime(start)) if start and start > 0 else ""
    errors = within(metrics, "request_totals", "errored") or within(benchmark, "request_totals", "errored")
    failed = number(errors, "errored", 0, MOST_REQUESTS)
    return with_note(found | _load(benchmark, metrics), f"{failed:.0f} requests failed" if failed else "")


def _load(benchmark: Document, metrics: Document) -> dict[str, object]:
    strategy = first_of(benchmark, *STRATEGY)
    kind = text(within(strategy, "type_"))
    if kind == "synchronous":
        return {"concurrency": 1}
    if kind == "concurrent":
        return {"concurrency": within(strategy, "streams")}
    if kind in ("constant", "poisson"):
        return {"rate_rps": within(strategy, "rate"), "note": "even gaps" if kind == "constant" else ""}
    if kind == "throughput":
        mean = number(within(metrics, "request_concurrency", "successful", "mean"), "request_concurrency", 0, 1e9)
        limit = within(strategy, "max_concurrency")
        return {"concurrency": round(mean) if mean and not limit else limit, "note": "as many requests as possible"}
    raise UnreadableError(
        f"the strategy '{kind}' has no one concurrency or rate" if kind else "no strategy says the load"
    )
