"""How many points a second `sweep` computes on one core, and how far they are from single answers.

OMP_NUM_THREADS=1 python benchmarks/sweep_speed.py
"""

from __future__ import annotations

import random
import time

import numpy as np

from chunkcalc.answer.question import Question
from chunkcalc.answer.resolve import resolve
from chunkcalc.grids.points import points, step_times
from chunkcalc.time.step import StepTimer

DEPLOYMENTS = (
    {"model": "llama-3.1-8b", "gpu": "h100-sxm"},
    {"model": "llama-3.1-70b", "gpu": "h100-sxm", "tp": 4, "weights": "fp8"},
    {"model": "deepseek-v3", "gpu": "b200", "tp": 8, "engine": "sglang"},
    {"model": "gpt-oss-120b", "gpu": "h200-sxm"},
    {"model": "qwen3.5-397b-a17b", "gpu": "b200", "tp": 8},
)
CHUNKS, BATCHES, CONTEXTS = np.arange(128, 16_384, 64), np.arange(1, 129, 2), np.arange(500, 16_500, 250)
ROWS = (range(128, 8192, 256), range(1, 65), range(250, 4250, 250))  # of points with every quantity
COMPARED = 2000  # points computed one by one too


def main() -> None:
    """Print a row for each deployment."""
    print(f"{'':<22}{'step times/s':>14}{'largest difference':>20}{'whole points/s':>16}")
    for given in DEPLOYMENTS:
        case = resolve(Question(prompt=4000, output=500, ttft=1.0, tpot=0.05, **given))  # type: ignore[arg-type]
        timer = StepTimer(case.deployment)
        start = time.perf_counter()
        found = step_times(timer, CHUNKS, BATCHES, CONTEXTS)
        rate = found.size / (time.perf_counter() - start)
        draws, worst = random.Random(1), 0.0
        for _ in range(COMPARED):
            place = tuple(draws.randrange(size) for size in found.shape)
            c, b, s = (float(axis[at]) for axis, at in zip((CHUNKS, BATCHES, CONTEXTS), place, strict=True))
            worst = max(worst, abs(found[place] / timer.expected(c, 0.0, b, s) - 1))
        start = time.perf_counter()
        count = sum(1 for _ in points(case, *(list(axis) for axis in ROWS)))
        whole = count / (time.perf_counter() - start)
        print(f"{given['model']:<22}{rate:>14,.0f}{worst:>20.1e}{whole:>16,.0f}")


if __name__ == "__main__":
    main()
