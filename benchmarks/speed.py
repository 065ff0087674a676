"""How fast: `solve()` warm, and the whole command against the bare interpreter's start.

python benchmarks/speed.py
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from chunkcalc import solve

QUESTIONS = {
    "8B, no batch": {"model": "llama-3.1-8b", "gpu": "h100-sxm", "prompt": 4000, "ttft": 1.0, "tpot": 0.03},
    "70B fp8 tp 4, batch 32": {
        "model": "llama-3.1-70b", "gpu": "h100-sxm", "tp": 4, "weights": "fp8", "prompt": 8192, "output": 1024,
        "batch": 32, "ttft": 2.0, "tpot": 0.06,
    },
    "DeepSeek V3 tp 8, batch 32": {
        "model": "deepseek-v3", "gpu": "h200-sxm", "tp": 8, "prompt": 4000, "batch": 32, "ttft": 1.5, "tpot": 0.08,
    },
    "gpt-oss-120b tp 2, batch 64": {
        "model": "gpt-oss-120b", "gpu": "h100-sxm", "tp": 2, "prompt": 4000, "batch": 64, "ttft": 1.5, "tpot": 0.03,
    },
    "8B SGLang, batch 32": {
        "model": "llama-3.1-8b", "gpu": "h100-sxm", "prompt": 8000, "batch": 32, "ttft": 1.0, "tpot": 0.05,
        "engine": "sglang",
    },
    "8B, prompt 100k, batch 4": {
        "model": "llama-3.1-8b", "gpu": "h200-sxm", "prompt": 100_000, "batch": 4, "ttft": 20.0, "tpot": 0.05,
    },
}  # fmt: skip
COMMAND = (
    "solve --model llama-3.1-70b --gpu h100-sxm --tp 4 --weights fp8 --prompt 8192 --output 1024 --batch 32 "
    "--ttft 2s --tpot 60ms"
)


def median(run: Callable[[], object], times: int) -> float:
    """Median seconds of a call."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def started(*arguments: str) -> float:
    """Median seconds of a process."""
    return median(lambda: subprocess.run([sys.executable, *arguments], check=False, stdout=subprocess.DEVNULL), 15)


def main() -> None:
    """Print both."""
    medians = []
    for name, question in QUESTIONS.items():
        taken = median(lambda question=question: solve(with_remedies=False, **question), 9)  # type: ignore[misc]
        medians.append(taken)
        print(f"solve() {name:<30}{1e3 * taken:8.1f} ms")
    print(f"solve() {'median':<30}{1e3 * statistics.median(medians):8.1f} ms")
    bare, whole = started("-c", "pass"), started("-m", "chunkcalc.cli.main", *COMMAND.split())
    print(f"command {1e3 * whole:.0f} ms, bare interpreter {1e3 * bare:.0f} ms: {whole / bare:.1f} times")


if __name__ == "__main__":
    main()
