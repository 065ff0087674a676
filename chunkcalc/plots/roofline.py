"""The roofline with the steps of a deployment on it: how far each is from the hardware's peaks."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import Any

from chunkcalc.answer.judged import outlook
from chunkcalc.answer.records import Answer
from chunkcalc.catalog.precision import peak
from chunkcalc.plots import paper
from chunkcalc.time.step import StepTimer, timer_for
from chunkcalc.units import format_count, format_si

APART = 0.45  # of the logarithms of two points whose names would overlap


def draw(title: str, answer: Answer, chunks: Sequence[int]) -> Any:
    """The picture.

    Parameters
    ----------
    title : what is served
    answer : to the question
    chunks : steps to show [token]
    """
    deployment, workload = answer.case.deployment, answer.workload
    hardware, format_ = deployment.hardware, deployment.precision.weights
    rate = peak(hardware, format_) or hardware.peak["bf16"]
    figure, (axes,) = paper.canvas(8, 5)
    axes.set_title(title)
    ridge = rate / hardware.bandwidth
    timer = timer_for(deployment, workload.draft_tokens)
    service = outlook(deployment, workload, answer.slo, timer).expected
    riding = service.b if service.mixed else 0.0
    steps = [("decodes alone", paper.VERMILION, "s", *_attained(timer, 0, service.b, service.s))] if service.b else []
    for chunk in chunks:
        held = chunk == answer.chunk
        name = f"{paper.word(answer)} {format_count(chunk)}" if held else format_count(chunk)
        found = _attained(timer, chunk, riding, service.s, max(1.0, chunk / answer.prompt_tokens))
        steps.append((name, paper.GREEN if held else paper.BLUE, "*" if held else "o", *found))
    low = min(0.3 * min(step[3] for step in steps), ridge / 30)
    high = max(3 * max(step[3] for step in steps), ridge * 10)
    peak_name = f"peak {format_ if hardware.peak.get(format_) else 'arithmetic'} {format_si(rate, 'FLOP/s')}"
    told = f"memory {format_si(hardware.bandwidth, 'B/s')}, {peak_name}"
    axes.plot([low, ridge, high], [low * hardware.bandwidth, rate, rate], color="black", linewidth=2, label=told)
    axes.axvline(ridge, color=paper.GREY, linestyle=":", linewidth=1.2, label=f"ridge {ridge:,.0f} FLOP/byte")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(low, high)
    axes.plot([step[3] for step in steps], [step[4] for step in steps], color=paper.BLUE, linewidth=0.8, alpha=0.5)
    for _, colour, marker, intensity, attained in steps:
        axes.plot(intensity, attained, marker=marker, color=colour, markersize=14 if marker == "*" else 8, linestyle="")
    _labels(axes, steps, answer)
    axes.plot([], [], marker="o", color=paper.BLUE, linestyle="", label="steps by prompt tokens, at the prompt's start")
    axes.legend(loc="upper left", fontsize=9)
    axes.set_ylim(top=rate * 8)
    axes.yaxis.set_major_formatter(lambda value, _: format_si(value, "FLOP/s"))
    axes.set_xlabel("arithmetic intensity of the step (FLOP per byte)")
    axes.set_ylabel("arithmetic reached, per GPU")
    return figure


def _labels(axes: Any, steps: Sequence[tuple[Any, ...]], answer: Answer) -> None:
    """Names below the points, the chosen one and the ends first; what would lie on another stays away."""
    placed: list[tuple[float, float]] = []
    chosen = f"{paper.word(answer)} "
    for step in sorted(steps, key=lambda step: (not step[0].startswith(chosen), step[0] != "decodes alone")):
        name, colour, _, intensity, attained = step
        if any(abs(log(intensity / x)) < APART and abs(log(attained / y)) < APART for x, y in placed):
            continue
        placed.append((intensity, attained))
        axes.annotate(
            name, (intensity, attained), xytext=(6, -13), textcoords="offset points", color=colour, fontsize=9
        )


def _attained(timer: StepTimer, c: float, b: float, s: float, prompts: float = 1.0) -> tuple[float, float]:
    """Intensity [FLOP/byte] and arithmetic reached [FLOP/s] of a step that starts a prompt."""
    step = timer.step(c, 0, b, s, prompts)
    flops = sum(float(kernel.launches * kernel.flops) for kernel in timer.kernels(c, 0, b, s, prompts))
    return step.intensity, flops / step.expected
