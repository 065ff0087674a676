"""What each engine calls its settings: the words to write and to quote, one record per engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Dialect(NamedTuple):
    """The words of one engine.

    server : how its server starts, before the model
    budget : tokens of a step: SGLang's are prompt tokens of all attention ranks
    quoted_budget : the same as reports quote it: TensorRT-LLM's stands in its YAML options
    requests, tensor, context : requests at once, GPUs of a tensor parallel group, longest request
    fraction : name of its share of the memory, without dashes
    eight_bit_cache : value of --kv-cache-dtype
    chunking : what switches chunked prefill on, and its value
    per_rank : whether the budget is of one attention rank
    """

    server: tuple[str, ...]
    budget: str
    quoted_budget: str
    requests: str
    tensor: str
    context: str
    fraction: str
    eight_bit_cache: str = "fp8"
    chunking: tuple[str, str] = ("--enable-chunked-prefill", "")
    per_rank: bool = True


DIALECTS: Mapping[str, Dialect] = {
    "vllm": Dialect(
        server=("vllm", "serve"), budget="--max-num-batched-tokens", quoted_budget="--max-num-batched-tokens",
        requests="--max-num-seqs", tensor="--tensor-parallel-size", context="--max-model-len",
        fraction="gpu_memory_utilization",
    ),
    "sglang": Dialect(
        server=("sglang", "--model-path"), budget="--chunked-prefill-size", quoted_budget="--chunked-prefill-size",
        requests="--max-running-requests", tensor="--tp-size", context="--context-length",
        fraction="mem_fraction_static", eight_bit_cache="fp8_e4m3", per_rank=False,
    ),
    "trtllm": Dialect(
        server=("trtllm-serve",), budget="--max_num_tokens", quoted_budget="max_num_tokens",
        requests="--max_batch_size", tensor="--tp_size", context="--max_seq_len", fraction="free_gpu_memory_fraction",
        chunking=("enable_chunked_prefill:", "true"),
    ),
}  # fmt: skip
# Words that one engine alone has.
MIXING, INTERVAL = "--enable-mixed-chunk", "--prefill-decode-interval"  # SGLang
QUEUED, CACHE_TYPE = "--max-num-queued-tokens", "--kv-cache-dtype"
