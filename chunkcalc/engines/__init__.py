"""What each engine does with a step, by version.

vLLM and TensorRT-LLM mix decodes and prompt chunks in a step and count both in the budget; SGLang
runs a prompt batch or the decodes, prompts first, and its chunk counts prompt tokens alone, unless
`--enable-mixed-chunk`.
"""

from __future__ import annotations

from dataclasses import replace

from chunkcalc.engines.dialects import dialect, prototype
from chunkcalc.engines.reserve import default_fraction
from chunkcalc.engines.tables import table
from chunkcalc.records import Engine, Hardware, Overheads, Parallelism

# Where vLLM's single attention call over chunk and decodes was measured to cost 1.3-1.8 times its
# two parts (RTX PRO 6000 and RTX 4090); on Hopper and data-centre Blackwell it is taken as split.
UNIFIED_ARCHITECTURES = frozenset(("ada", "blackwell-rtx"))

FALLBACK_BUDGET = 8192  # where a table does not say
# From here on vLLM normalises queries and keys over the ranks in one kernel (pull request 37045, March 2026).
NORM_FUSED = "0.18.0"


def engine_for(
    name: str, hardware: Hardware, version: str | None = None, parallelism: Parallelism | None = None
) -> Engine:
    """The engine as it runs on this GPU.

    Parameters
    ----------
    name : of the engine
    hardware : the GPU
    version : None for the newest that was read
    parallelism : of the replica, for versions whose memory rule looks at it

    Raises
    ------
    ChunkcalcError : not a version
    """
    found = table(name, version)
    overheads = hardware.overheads.get(name, Overheads())
    if name != "vllm" or found.since(NORM_FUSED):
        overheads = overheads._replace(norm_layer=0.0)
    engine = replace(prototype(name), version=found.version, overheads=overheads)
    if engine.memory_rule == "total_less_reserve":
        fraction = default_fraction(found, hardware.memory, parallelism or Parallelism())
        return replace(engine, memory_fraction=fraction)
    default = found.default(dialect(name).fraction, hardware)
    # vLLM takes captured graphs off its share from 0.20 on (VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS).
    inside = name != "vllm" or found.since("0.20.0")
    engine = replace(engine, memory_fraction=default.value if default else None, graphs_inside=inside)
    if name == "vllm" and hardware.arch in UNIFIED_ARCHITECTURES:
        return replace(engine, attention="unified")
    return engine


def default_budget(engine: Engine, hardware: Hardware) -> int:
    """The tokens of a step where no flag says them, in the flag's own counting.

    Parameters
    ----------
    engine : of the deployment
    hardware : its GPU

    Returns
    -------
    tokens; of all attention ranks where the engine counts so [token]
    """
    found = table(engine.name, engine.version).default(
        dialect(engine.name).budget.strip("-").replace("-", "_"), hardware
    )
    return found.value if found and isinstance(found.value, int) and found.value > 0 else FALLBACK_BUDGET
