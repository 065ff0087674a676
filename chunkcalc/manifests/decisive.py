"""Which flags decide what a deployment can do: an unknown value of any other one does no harm."""

from __future__ import annotations

from chunkcalc.engines.tables import table

# An unknown value of these changes the answer; of any other flag it does not.
DECISIVE = frozenset(
    ("model", "model-path", "max-num-batched-tokens", "max-num-seqs", "max-model-len", "tensor-parallel-size", "tp",
     "tp-size", "pipeline-parallel-size", "pp", "pp-size", "data-parallel-size", "dp", "dp-size", "ep", "ep-size",
     "gpu-memory-utilization", "mem-fraction-static", "kv-cache-dtype", "quantization", "speculative-config",
     "chunked-prefill-size", "max-running-requests", "context-length", "max-num-tokens", "max-batch-size",
     "max-seq-len", "config", "extra-llm-api-options", "extra-engine-args", "block-size", "max-total-tokens",
     "kv-cache-free-gpu-memory-fraction", "num-gpu-blocks-override", "kv-cache-memory-bytes", "attn-dp-size",
     "page-size", "max-prefill-tokens", "disaggregation-mode", "enable-chunked-prefill", "enable-mixed-chunk",
     "enable-dp-attention", "enable-attention-dp", "attention-dp-config", "enable-expert-parallel", "enforce-eager",
     "disable-cuda-graph", "kv-cache-config", "cuda-graph-config", "build-config", "quant-config",
     "scheduler-config", "compilation-config", "speculative-algorithm", "speculative-num-draft-tokens", "dtype",
     "data-parallel-size-local", "nnodes", "cpu-offload-gb", "prefill-decode-interval")
)  # fmt: skip


def decisive(flag: str) -> bool:
    """Whether the value of a flag changes the answer."""
    return flag.lstrip("-").replace("_", "-").partition(".")[0].removeprefix("no-") in DECISIVE


def harmless(text: str) -> bool:
    """Whether a text is nothing but flags whose presence changes no answer."""
    flags = [word.partition("=")[0] for word in text.split() if word.startswith("-")]
    return bool(flags) and text.split(maxsplit=1)[0].startswith("-") and not any(decisive(flag) for flag in flags)


def takes_value(engine: str, word: str) -> bool:
    """Whether the word after this one is its value."""
    if not word.startswith("-") or "=" in word:
        return False
    name = word.lstrip("-").replace("_", "-")
    options = table(engine).options()
    kind = options.get(name) or options.get(name.replace("-", "_")) or options.get(name.removeprefix("no-"))
    return kind not in ("switch", "bool")
