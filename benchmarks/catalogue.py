"""Solve every shipped model on every shipped GPU that can run it.

    python benchmarks/catalogue.py

checks that each answer is finite, ordered (floor <= expected) and monotone in the chunk, and
prints how many pairs there are and how long they took.
"""

from __future__ import annotations

import itertools
import math
import time

from chunkcalc import ChunkcalcError, StepTimer, solve
from chunkcalc.answer.records import Answer
from chunkcalc.catalog.lookup import gpus, models
from chunkcalc.records import Hardware, Model
from chunkcalc.work import attention

CHUNKS = (1, 100, 512, 2048, 8192)


def question(model: Model, gpu: Hardware) -> dict[str, object]:
    """The largest tensor parallel degree that the model divides into, and a short chat."""
    heads = {attention.heads(group.attention) for group in model.layers} - {0}
    kv = {attention.kv_heads(group.attention) for group in model.layers} - {0}
    fits = [
        tp
        for tp in (1, 2, 4, 8)
        if tp <= gpu.link.gpus_per_node and not any(n % tp for n in heads) and not any(n % tp and tp % n for n in kv)
    ]
    prompt = min(2000, model.max_position // 2)
    limits = {"ttft": 2.0, "tpot": 0.05}
    return {"model": model, "gpu": gpu, "tp": max(fits), "prompt": prompt, "output": 200, "batch": 8, **limits}


def sound(answer: Answer) -> bool:
    """Whether the numbers are finite, ordered and monotone."""
    floor, expected = answer.floor, answer.expected
    timer = StepTimer(answer.case.deployment)
    steps = [timer.expected(c, 0, 4, 1000) for c in CHUNKS]
    finite = all(map(math.isfinite, (expected.step_s, expected.ttft_s, *steps)))
    return finite and floor.step_s <= expected.step_s and floor.ttft_s <= expected.ttft_s and steps == sorted(steps)


def main() -> None:
    """Solve them all."""
    start, solved, refused, unsound = time.perf_counter(), 0, 0, []
    for model, gpu in itertools.product(list(models()), list(gpus())):
        try:
            answer = solve(**question(model, gpu), with_remedies=False)
        except ChunkcalcError:
            refused += 1  # the GPU lacks the arithmetic of the checkpoint's format
            continue
        solved += 1
        if not sound(answer):
            unsound.append(f"{model.id} on {gpu.id}")
    taken = time.perf_counter() - start
    print(f"{solved} pairs solved in {taken:.0f} s, {refused} refused, {len(unsound)} unsound {unsound[:5]}")


if __name__ == "__main__":
    main()
