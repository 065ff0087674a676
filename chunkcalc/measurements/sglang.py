"""`sglang.bench_serving` -> the columns of a serving table.

Keys as SGLang writes them in `python/sglang/bench_serving.py`, later `python/sglang/benchmark/serving.py`,
whose results also hold the server's own arguments.
"""

from __future__ import annotations

from collections.abc import Mapping

from chunkcalc.measurements.cells import UnreadableError, count, number, switch, text
from chunkcalc.measurements.documents import Document
from chunkcalc.measurements.facts import MOST_GPUS, MOST_TOKENS
from chunkcalc.measurements.serving import WIDE
from chunkcalc.measurements.vllm import latencies, load, means

SOURCE = "sglang.bench_serving"
ENGINES: Mapping[str, str] = {"sglang": "sglang", "vllm": "vllm", "trt": "trtllm"}
WEIGHTS: Mapping[str, str] = {"fp8": "fp8", "modelopt_fp4": "nvfp4", "mxfp4": "mxfp4"}
OWN = ("total_output_tokens_retokenized", "random_range_ratio", "accept_length")


def is_sglang_result(document: Document) -> bool:
    """Whether an object is such a result."""
    return {"completed", "total_input_tokens", "backend"} <= set(document) and any(key in document for key in OWN)


def sglang_columns(document: Document) -> dict[str, object]:
    """The values of its run, by column.

    Raises
    ------
    UnreadableError : no request was answered, or several replicas answered
    """
    found = means(document) | latencies(document) | load(document, document.get("completed"))
    found["source"] = SOURCE
    found["engine"] = ENGINES.get(text(document.get("backend")).split("-")[0])
    found["spec"] = True if isinstance(document.get("accept_length"), float) else None
    dataset = text(document.get("dataset_name"))
    if dataset == WIDE:
        found["input_ratio"] = WIDE
    elif dataset.startswith("random"):
        found["input_ratio"] = document.get("random_range_ratio")
    server = document.get("server_info")
    told = _server(server) if isinstance(server, dict) else {}
    return found | {name: value for name, value in told.items() if value is not None}


def _server(server: Document) -> dict[str, object]:
    """What the server says of itself. With attention in data parallel, its tp counts all GPUs of a stage, and
    its chunk is what is left of the launched one after a division by the ranks."""
    if "prefill" in server or "decode" in server:
        raise UnreadableError("prefill and decode ran apart")
    tp = count(server.get("tp_size"), "tp_size", 1, MOST_GPUS)
    dp = count(server.get("dp_size"), "dp_size", 1, MOST_GPUS) or 1
    if dp > 1 and not switch(server.get("enable_dp_attention"), "enable_dp_attention"):
        raise UnreadableError(f"{dp} replicas answered (data parallelism without attention ranks)")
    if tp is not None and tp % dp:
        raise UnreadableError(f"tp_size {tp} is no multiple of dp_size {dp}")
    chunk = number(server.get("chunked_prefill_size"), "chunked_prefill_size", -1, MOST_TOKENS)
    no_cache = switch(server.get("disable_radix_cache"), "disable_radix_cache")
    return {
        "model": server.get("model_path"),
        "engine_version": server.get("version"),
        "tp": None if tp is None else tp // dp,
        "dp": None if tp is None else dp,
        "ep": server.get("ep_size"),
        "pp": server.get("pp_size"),
        "weights": WEIGHTS.get(text(server.get("quantization"))),
        "kv": server.get("kv_cache_dtype"),
        "budget": chunk * dp if chunk and chunk > 0 else None,  # -1: no chunks
        "max_num_seqs": server.get("max_running_requests"),
        "prefix_cache": None if no_cache is None else not no_cache,
        "spec": bool(server["speculative_algorithm"]) if "speculative_algorithm" in server else None,
    }
