"""Which picture: a deployment of a sweep, at its first batch and context, as a file's content."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from chunkcalc.answer.records import Answer
from chunkcalc.answer.resolve import Case
from chunkcalc.answer.solve import answer
from chunkcalc.grids.points import Point, points
from chunkcalc.plots import breakdown, paper, region, roofline, window
from chunkcalc.units import format_count

FINE = 300  # chunks of a curve


def picture(kind: str, case: Case, swept: Sequence[Point], chunks: Sequence[int], suffix: str) -> bytes:
    """The content of a file with a picture.

    Parameters
    ----------
    kind : window, region, roofline or breakdown
    case : the deployment
    swept : its points
    chunks : of the sweep, at least two [token]
    suffix : .svg or .png
    """
    batch, context = swept[0].batch, swept[0].context
    found = answer(replace(case.question, batch=batch, context=context), with_remedies=False)
    if kind == "window":
        curve = list(points(case, _sharp(chunks, found), [batch], [context]))
        figure = window.draw(_title(case, batch), found, curve)
    elif kind == "region":
        figure = region.draw(_title(case), [point for point in swept if point.context == context])
    elif kind == "roofline":
        figure = roofline.draw(_title(case, batch), found, _powers(chunks, found.chunk))
    else:
        figure = breakdown.draw(_title(case, batch), found, _sharp(chunks, found))
    return paper.render(figure, suffix)


def _title(case: Case, batch: int | None = None) -> str:
    """What is served, in two lines."""
    deployment, workload = case.deployment, case.workload
    gpus = deployment.parallelism.gpus
    unit = f"{gpus} x {deployment.hardware.id}" if gpus > 1 else deployment.hardware.id
    name = f"{deployment.model.id}, {deployment.precision.weights}, on {unit} ({deployment.engine.name})"
    lengths = f"{format_count(workload.prompt)} prompt + {format_count(workload.output)} output tokens"
    return f"{name}\n{lengths}" + ("" if batch is None else f", batch {format_count(batch)}")


def _sharp(chunks: Sequence[int], found: Answer) -> list[int]:
    """The chunks, and between them the ends of the window and of captured graphs, so that jumps stay sharp."""
    captured = found.case.deployment.engine.captured - (found.budget - found.chunk)
    ends = [found.window.chunk_min, found.window.chunk_max, found.chunk, captured]
    exact = {at for end in ends if end for at in (end, end + 1) if chunks[0] <= at <= chunks[-1]}
    some = chunks[:: max(1, len(chunks) // FINE)]
    return sorted({*some, chunks[-1], *exact})


def _powers(chunks: Sequence[int], chosen: int) -> list[int]:
    """The ends, every other power of two between them, and the chosen chunk where it lies among them."""
    powers = [2**power for power in range(1, 40, 2) if 2 * chunks[0] <= 2**power <= chunks[-1] / 2]
    powers = [power for power in powers if not 0.6 < power / chosen < 1.7]
    return sorted({chunks[0], *powers, chunks[-1], *([chosen] if chunks[0] <= chosen <= chunks[-1] else [])})
