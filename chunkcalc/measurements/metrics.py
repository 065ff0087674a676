"""The metrics page of a running server: vLLM's and SGLang's, read by the Prometheus client library.

A page counts since the server started; of two pages some time apart the difference counts. Percentiles are those of
histograms: exact to a bucket.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from chunkcalc.errors import ChunkcalcError

ENGINES = {"vllm:": "vllm", "sglang:": "sglang"}
# What is read, by the names that versions of the engines gave it; the first that a page has counts.
COUNTERS: Mapping[str, tuple[str, ...]] = {
    "requests": ("request_success_total", "num_requests_total"), "prompt_tokens": ("prompt_tokens_total",),
    "output_tokens": ("generation_tokens_total",), "preemptions": ("num_preemptions_total",),
    "cache_hits": ("prefix_cache_hits_total", "cached_tokens_total"), "cache_queries": ("prefix_cache_queries_total",),
}  # fmt: skip
GAUGES: Mapping[str, tuple[str, ...]] = {
    "running": ("num_requests_running", "num_running_reqs"), "waiting": ("num_requests_waiting", "num_queue_reqs"),
    "cache_used": ("kv_cache_usage_perc", "gpu_cache_usage_perc", "token_usage"),
}  # fmt: skip
HISTOGRAMS: Mapping[str, tuple[str, ...]] = {
    "prompt": ("request_prompt_tokens",), "output": ("request_generation_tokens",),
    "ttft": ("time_to_first_token_seconds",), "itl": ("inter_token_latency_seconds", "time_per_output_token_seconds"),
    "tpot": ("request_time_per_output_token_seconds",), "e2e": ("e2e_request_latency_seconds",),
    "queue": ("request_queue_time_seconds", "queue_time_seconds"),
}  # fmt: skip
HINT = "give what the server answers at /metrics"


class Histogram(NamedTuple):
    """A histogram.

    bounds : upper ends of its buckets, the last infinite
    counts : how many lie up to each [1]
    total : sum of the values
    number : of them [1]
    """

    bounds: tuple[float, ...]
    counts: tuple[float, ...]
    total: float
    number: float

    @property
    def mean(self) -> float | None:
        """Of the values; None where there are none."""
        return self.total / self.number if self.number > 0 else None

    def quantile(self, q: float) -> float | None:
        """The value that a share q does not exceed: linear within its bucket; the last bound where it lies beyond.

        Parameters
        ----------
        q : share, in (0, 1) [1]
        """
        if self.number <= 0:
            return None
        wanted, before, low = q * self.number, 0.0, 0.0
        for bound, upto in zip(self.bounds, self.counts, strict=True):
            if upto >= wanted:
                if math.isinf(bound):
                    return low
                return low + (bound - low) * (wanted - before) / max(upto - before, 1e-12)
            before, low = upto, bound
        return low


class Page(NamedTuple):
    """What a page says.

    engine, model : that served; the model as the server names it
    counters, gauges : by our names
    histograms : by our names
    kv_tokens, flags : of the KV cache, and of the engine, where the page has them
    """

    engine: str
    model: str
    counters: Mapping[str, float]
    gauges: Mapping[str, float]
    histograms: Mapping[str, Histogram]
    kv_tokens: int | None = None
    flags: Mapping[str, str] = {}


def parse_page(text: str, where: str) -> Page:
    """A page as records; all replicas, ranks and label sets of it together.

    Parameters
    ----------
    text : as the server answers
    where : it came from, for errors

    Raises
    ------
    ChunkcalcError : no page of metrics, or of no engine that is known
    """
    from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415 - only here

    values: dict[str, float] = defaultdict(float)
    buckets: dict[str, dict[float, float]] = defaultdict(lambda: defaultdict(float))
    prefix, model, flags = "", "", {}
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                found = next((each for each in ENGINES if sample.name.startswith(each)), "")
                if not found or not math.isfinite(sample.value):
                    continue
                prefix = prefix or found
                name = sample.name.removeprefix(found)
                model = model or sample.labels.get("model_name", "")
                if "le" in sample.labels:
                    buckets[name.removesuffix("_bucket")][float(sample.labels["le"])] += sample.value
                elif name == "cache_config_info":
                    flags = dict(sample.labels)
                else:
                    values[name] += sample.value
    except (ValueError, KeyError, IndexError, AttributeError) as error:
        raise ChunkcalcError(f"is cut or damaged ({error!s:.60})", where, HINT) from None
    if not prefix:
        raise ChunkcalcError("has no metrics of vLLM or SGLang", where, HINT)
    return Page(
        engine=ENGINES[prefix], model=model, counters=_named(COUNTERS, values), gauges=_named(GAUGES, values),
        histograms=_histograms(buckets, values), flags=flags, kv_tokens=_kv_tokens(flags, values),
    )  # fmt: skip


def _named(names: Mapping[str, tuple[str, ...]], values: Mapping[str, float]) -> dict[str, float]:
    found = {ours: next((name for name in theirs if name in values), None) for ours, theirs in names.items()}
    return {ours: values[name] for ours, name in found.items() if name is not None}


def _histograms(buckets: Mapping[str, Mapping[float, float]], values: Mapping[str, float]) -> dict[str, Histogram]:
    out = {}
    for ours, theirs in HISTOGRAMS.items():
        name = next((each for each in theirs if each in buckets), None)
        if name is not None:
            ends = sorted(buckets[name])
            counts = tuple(buckets[name][end] for end in ends)
            count = values.get(f"{name}_count", counts[-1])
            out[ours] = Histogram(tuple(ends), counts, values.get(f"{name}_sum", 0.0), count)
    return out


def _kv_tokens(flags: Mapping[str, str], values: Mapping[str, float]) -> int | None:
    size = flags.get("kv_cache_size_tokens", "")
    if size.isdigit():
        return int(size)
    blocks, block = flags.get("num_gpu_blocks", ""), flags.get("block_size", "")
    if blocks.isdigit() and block.isdigit():
        return int(blocks) * int(block)
    return int(values["max_total_num_tokens"]) if "max_total_num_tokens" in values else None


def between(first: Page, later: Page, where: str) -> Page:
    """What happened between two pages of one server.

    Parameters
    ----------
    first, later : the pages
    where : the later one came from, for errors

    Raises
    ------
    ChunkcalcError : of two servers, or of one that was started anew in between
    """
    if (first.engine, first.model) != (later.engine, later.model):
        raise ChunkcalcError("is the page of another server than the first", where, "give two pages of one server")
    counters = {name: value - first.counters.get(name, 0.0) for name, value in later.counters.items()}
    if any(value < 0 for value in counters.values()):
        hint = "give the earlier page first, and two pages without a restart between them"
        problem = "counts less than the first page: the server was started anew, or they are swapped"
        raise ChunkcalcError(problem, where, hint)
    histograms = {
        name: _difference(first.histograms[name], each) if name in first.histograms else each
        for name, each in later.histograms.items()
    }
    return later._replace(counters=counters, histograms=histograms)


def _difference(first: Histogram, later: Histogram) -> Histogram:
    if first.bounds != later.bounds:
        return later
    counts = tuple(max(0.0, b - a) for a, b in zip(first.counts, later.counts, strict=True))
    return Histogram(later.bounds, counts, later.total - first.total, later.number - first.number)
