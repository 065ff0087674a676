"""What each engine does with a step: three records, current versions.

Composition and budgets as read from the engines' own sources: vLLM 0.33 and TensorRT-LLM 1.x mix
decodes and prompt chunks in a step and count both in the budget; SGLang 0.5.23 runs a prompt
batch or the decodes, prompts first, and its chunk counts prompt tokens alone.
"""

from __future__ import annotations

from dataclasses import replace

from chunkcalc.records import Engine, Hardware

# Where vLLM's single attention call over chunk and decodes was measured to cost 1.3-1.8 times its
# two parts (RTX PRO 6000 and RTX 4090); on Hopper and data-centre Blackwell it is taken as split.
UNIFIED_ARCHITECTURES = frozenset(("ada", "blackwell-rtx"))

ENGINES = {
    "vllm": Engine(
        name="vllm", version="0.33.0", memory_rule="total", memory_fraction=0.92, tpot_band=0.15, ttft_band=0.40
    ),
    "sglang": Engine(
        name="sglang", version="0.5.23", composition="prefill_first", budget_counts_decodes=False,
        half_prefilled="one", memory_rule="total_less_reserve", tpot_band=0.25, ttft_band=0.60,
    ),
    "trtllm": Engine(
        name="trtllm", version="1.0", memory_rule="left", memory_fraction=0.90, tpot_band=0.25, ttft_band=0.60
    ),
}  # fmt: skip


def engine_for(name: str, hardware: Hardware) -> Engine:
    """The engine as it runs on this GPU.

    Parameters
    ----------
    name : `vllm`, `sglang` or `trtllm`
    hardware : the GPU
    """
    engine = ENGINES[name]
    if name == "vllm" and hardware.arch in UNIFIED_ARCHITECTURES:
        return replace(engine, attention="unified")
    return engine
