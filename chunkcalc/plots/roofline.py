"""The roofline with the steps of a deployment on it: how far each is from the hardware's peaks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chunkcalc.answer import Answer
from chunkcalc.plots import paper
from chunkcalc.roofline import peak
from chunkcalc.step import StepTimer
from chunkcalc.units import format_count, format_si


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
    figure, ((axes,),) = paper.canvas(8, 5)
    axes.set_title(title)
    ridge = rate / hardware.bandwidth
    timer = StepTimer(deployment, workload.draft_tokens)
    b = workload.batch / (deployment.parallelism.dp * deployment.parallelism.pp)
    steps = [(chunk, *_attained(timer, chunk, b, float(workload.context))) for chunk in (0, *chunks) if chunk or b]
    low = min(0.3 * min(intensity for _, intensity, _ in steps), ridge / 30)
    high = max(3 * max(intensity for _, intensity, _ in steps), ridge * 10)
    axes.plot([low, ridge, high], [low * hardware.bandwidth, rate, rate], color="black", linewidth=2)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(low, high)
    axes.axvline(ridge, color=paper.GREY, linestyle=":", linewidth=1.2)
    axes.annotate(f"ridge {ridge:,.0f} FLOP/byte", (ridge, 0.02), xycoords=("data", "axes fraction"), rotation=90,
                  color=paper.GREY, fontsize=9, ha="right", va="bottom")  # fmt: skip
    axes.annotate(f"{format_ if hardware.peak.get(format_) else 'peak'} {format_si(rate, 'FLOP/s')}", (high, rate),
                  xytext=(-4, 4), textcoords="offset points", ha="right", fontsize=9)  # fmt: skip
    axes.annotate(f"memory {format_si(hardware.bandwidth, 'B/s')}", (low * 1.5, low * 1.5 * hardware.bandwidth),
                  xytext=(6, -4), textcoords="offset points", va="top", fontsize=9)  # fmt: skip
    for chunk, intensity, attained in steps:
        held = chunk == answer.chunk
        colour = paper.VERMILION if not chunk else paper.GREEN if held else paper.BLUE
        axes.plot(intensity, attained, marker="s" if not chunk else "*" if held else "o", color=colour,
                  markersize=14 if held else 8)  # fmt: skip
        name = "decodes alone" if not chunk else f"set {format_count(chunk)}" if held else format_count(chunk)
        axes.annotate(
            name, (intensity, attained), xytext=(8, -12), textcoords="offset points", color=colour, fontsize=9
        )
    axes.plot([step[1] for step in steps], [step[2] for step in steps], color=paper.BLUE, linewidth=0.8, alpha=0.5)
    axes.yaxis.set_major_formatter(lambda value, _: format_si(value, "FLOP/s"))
    axes.set_xlabel("arithmetic intensity of the step (FLOP per byte)")
    axes.set_ylabel("arithmetic reached, per GPU")
    return figure


def _attained(timer: StepTimer, c: float, b: float, s: float) -> tuple[float, float]:
    """Intensity [FLOP/byte] and arithmetic reached [FLOP/s] of a step that starts a prompt."""
    step = timer.step(c, 0, b, s)
    flops = sum(float(kernel.launches * kernel.flops) for kernel in timer.kernels(c, 0, b, s))
    return step.intensity, flops / step.expected
