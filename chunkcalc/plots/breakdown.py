"""What the longest step of each chunk goes to: the share of each class of kernels, and the time in all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chunkcalc.answer.judged import outlook
from chunkcalc.answer.records import Answer
from chunkcalc.plots import paper
from chunkcalc.time.step import timer_for
from chunkcalc.units import format_count, format_duration

READABLE = {paper.YELLOW: "#8a7d00", "#bbbbbb": "#777777"}  # pale colours as text
SHOWN = 7  # classes with a colour of their own; the others are one
COLOURS = (
    paper.BLUE, paper.VERMILION, paper.GREEN, paper.ORANGE, paper.SKY, paper.PURPLE, paper.YELLOW, "#bbbbbb",
)  # fmt: skip


def draw(title: str, answer: Answer, chunks: Sequence[int]) -> Any:
    """The picture.

    Parameters
    ----------
    title : what is served
    answer : to the question
    chunks : to show [token]
    """
    deployment, workload = answer.case.deployment, answer.workload
    timer = timer_for(deployment, workload.draft_tokens)
    prefill = outlook(deployment, workload, answer.slo, timer).expected.prefill
    steps = [timer.step(*prefill.longest(chunk)).breakdown for chunk in chunks]
    times = [sum(step.values()) for step in steps]
    totals = {
        name: sum(step.get(name, 0.0) / time for step, time in zip(steps, times, strict=True))
        for step in steps for name in step
    }  # fmt: skip
    names = sorted(totals, key=lambda name: -totals[name])
    rest = names[SHOWN:]
    layers = [(name, [name]) for name in names[:SHOWN]] + ([("other", rest)] if rest else [])
    shares = [
        [100 * sum(step.get(each, 0.0) for each in members) / time for step, time in zip(steps, times, strict=True)]
        for _, members in layers
    ]
    figure, (axes,) = paper.canvas(8, 5)
    axes.set_title(title)
    axes.stackplot(chunks, shares, colors=COLOURS, linewidth=0.5, edgecolor="white")
    paper.token_axis(axes, chunks[0], chunks[-1])
    axes.set_ylim(0, 100)
    axes.set_xlabel("chunk: prompt tokens per step")
    axes.set_ylabel("share of the longest step (%)")
    _times(axes, chunks, times)
    below, ends = 0.0, []
    for (name, _), values, colour in zip(layers, shares, COLOURS, strict=False):
        ends.append(((below + values[-1] / 2) / 100, name, READABLE.get(colour, colour)))
        below += values[-1]
    paper.label_ends(axes, ends)
    if chunks[0] <= answer.chunk <= chunks[-1]:
        name = f"{paper.word(answer)} {format_count(answer.chunk)}"
        right = answer.chunk > (chunks[0] * chunks[-1]) ** 0.5
        axes.axvline(answer.chunk, color="black", linewidth=1.2, linestyle="--")
        side, offset = ("right", -4) if right else ("left", 4)
        axes.annotate(name, (answer.chunk, 0.97), xycoords=("data", "axes fraction"), xytext=(offset, 0),
                      textcoords="offset points", va="top", ha=side, fontweight="bold")  # fmt: skip
    return figure


def _times(axes: Any, chunks: Sequence[int], times: Sequence[float]) -> None:
    """The step's time above each labelled chunk."""
    upper = axes.secondary_xaxis("top")
    ticks = [tick for tick in axes.get_xticks() if chunks[0] <= tick <= chunks[-1]]
    nearest = [min(range(len(chunks)), key=lambda index: abs(chunks[index] / tick - 1)) for tick in ticks]
    upper.set_xticks(ticks, [format_duration(times[index]) for index in nearest], fontsize=9)
    upper.set_xticks([], minor=True)
    upper.set_xlabel("longest step", fontsize=9)
