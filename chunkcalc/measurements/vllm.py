"""`vllm bench serve --save-result` and `--append-result` -> the columns of a serving table.

Keys as vLLM writes them in `vllm/benchmarks/serve.py`, once `benchmarks/benchmark_serving.py`.
Words of `--metadata KEY=VALUE` stand beside them and are read where they are named like a column.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from chunkcalc.measurements.cells import UnreadableError, number, text
from chunkcalc.measurements.documents import Document
from chunkcalc.measurements.facts import MOST_REQUESTS, MOST_TOKENS, with_note

SOURCE = "vllm bench serve"
# The backend names the protocol; only these also name a server.
ENGINES: Mapping[str, str] = {"vllm": "vllm", "sglang": "sglang", "tensorrt-llm": "trtllm"}
METADATA: Mapping[str, tuple[str, ...]] = {
    "gpu": ("gpu",), "engine_version": ("engine_version", "version"), "weights": ("weights",), "kv": ("kv",),
    "tp": ("tp", "tensor_parallel_size"), "dp": ("dp", "data_parallel_size"), "pp": ("pp", "pipeline_parallel_size"),
    "ep": ("ep",), "budget": ("budget", "max_num_batched_tokens"), "max_num_seqs": ("max_num_seqs",),
}  # fmt: skip
QUANTITIES = ("ttft", "tpot", "itl")
PERCENTILES = ("p50", "p95", "p99")
DATE = re.compile(r"(\d{4})(\d\d)(\d\d)-\d{6}")


def is_vllm_result(document: Document) -> bool:
    """Whether an object is such a result."""
    return {"completed", "total_input_tokens", "model_id"} <= set(document)


def vllm_columns(document: Document) -> dict[str, object]:
    """The values of its run, by column.

    Raises
    ------
    UnreadableError : no request was answered, or the load changed over the run
    """
    if "ramp_up_strategy" in document:
        raise UnreadableError("the rate of requests was ramped up")
    found = means(document) | latencies(document) | load(document, document.get("num_prompts"))
    for name, keys in METADATA.items():
        found[name] = next((document[key] for key in keys if text(document.get(key))), None)
    found["model"] = document.get("model_id")
    found["engine"] = document.get("engine") or ENGINES.get(text(document.get("backend")))
    found["source"] = SOURCE
    found["spec"] = True if "spec_decode_num_drafts" in document else None
    date = DATE.fullmatch(text(document.get("date")))
    found["date"] = "-".join(date.groups()) if date else ""
    found["input_ratio"] = ratio_of(document.get("input_lens"))
    failed = number(document.get("failed"), "failed", 0, MOST_REQUESTS)
    return with_note(found, f"{failed:.0f} requests failed" if failed else "")


def means(document: Document) -> dict[str, object]:
    """Requests and mean lengths from totals.

    Raises
    ------
    UnreadableError : no request was answered
    """
    requests = number(document.get("completed"), "completed", 0, MOST_REQUESTS)
    if not requests:
        raise UnreadableError("no request was answered")
    most = MOST_TOKENS * requests
    totals = {name: number(document.get(f"total_{name}"), f"total_{name}", 0, most) for name in
              ("input_tokens", "output_tokens")}  # fmt: skip
    return {
        "requests": requests,
        "prompt_tokens": (totals["input_tokens"] or 0.0) / requests,
        "output_tokens": (totals["output_tokens"] or 0.0) / requests,
    }


def latencies(document: Document) -> dict[str, object]:
    """Means and percentiles; a mean of 0 stands where nothing was measured, as without streaming."""
    found: dict[str, object] = {}
    for name in QUANTITIES:
        if document.get(f"mean_{name}_ms") == 0:
            continue
        found["itl_mean_ms" if name == "itl" else f"{name}_ms"] = document.get(f"mean_{name}_ms")
        found |= {f"{name}_{part}_ms": document.get(f"{part}_{name}_ms") for part in PERCENTILES}
        found[f"{name}_p50_ms"] = found[f"{name}_p50_ms"] or document.get(f"median_{name}_ms")
    return found


def load(document: Document, prompts: object) -> dict[str, object]:
    """Concurrency and rate; with neither limit all requests are in flight at once.

    Parameters
    ----------
    document : a result of vLLM or SGLang
    prompts : requests that were sent [1]

    Raises
    ------
    UnreadableError : arrivals follow a trace
    """
    rate, concurrency = document.get("request_rate"), document.get("max_concurrency")
    if text(rate) == "trace":
        raise UnreadableError("arrivals follow a trace: no one rate says the load")
    unlimited = rate is None or text(rate).lower() in ("inf", "infinity")
    if not unlimited:
        burstiness = document.get("burstiness")
        note = f"burstiness {text(burstiness)}" if burstiness not in (None, 1) else ""
        return {"rate_rps": rate, "concurrency": concurrency, "note": note}
    if concurrency is None:
        return {"concurrency": prompts or document.get("completed"), "note": "all requests at once"}
    return {"concurrency": concurrency}


def ratio_of(lengths: object) -> object:
    """1 where all prompts are equally long, None where that is not known.

    Parameters
    ----------
    lengths : of the prompts [token], or anything else
    """
    same = isinstance(lengths, list) and bool(lengths) and all(each == lengths[0] for each in lengths)
    return 1 if same else None
