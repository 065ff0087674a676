"""A sweep as CSV, JSON lines and chunkcalc.sweep/2."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from chunkcalc.answer.resolve import Case
from chunkcalc.answer.window import Window
from chunkcalc.frozen import dataclass
from chunkcalc.grids.points import HOLDS, Point

SCHEMA = "chunkcalc.sweep/2"
KEYS = ("model", "gpu", "gpus", "tp", "pp", "dp", "ep", "engine", "weights", "kv", "prompt", "output")
COLUMNS = (*KEYS, *Point._fields)
MEANING = {  # of a point's state
    HOLDS: "every limit holds", "ttft": "TTFT too long", "tpot": "tokens too slow (TPOT)", "itl": "gap too long",
    "utilisation": "prompts queue up", "memory": "KV cache too small",
}  # fmt: skip
EXACT = 1000  # windows of a document that are searched exactly; of more, the ends on the grid are told


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """The chunks of one deployment at one batch and context.

    keys : what tells the deployment from the others
    batch, context : of its points [token]
    chunks, states : of its points, rising
    find : the exact window, between the points too; a search
    """

    keys: Mapping[str, Any]
    batch: int
    context: int
    chunks: Sequence[int]
    states: Sequence[str]
    find: Callable[[], Window]

    @property
    def held(self) -> tuple[int, int] | None:
        """The smallest and the largest of its chunks that hold [token]."""
        held = [chunk for chunk, state in zip(self.chunks, self.states, strict=True) if state == HOLDS]
        return (held[0], held[-1]) if held else None


def keys_of(case: Case) -> dict[str, Any]:
    """What tells a deployment of a sweep from the others."""
    deployment, precision, ranks = case.deployment, case.deployment.precision, case.deployment.parallelism
    values = (
        deployment.model.id, deployment.hardware.id, ranks.gpus, ranks.tp, ranks.pp, ranks.dp, ranks.ep,
        deployment.engine.name, precision.weights, precision.kv, case.workload.prompt, case.workload.output,
    )  # fmt: skip
    return dict(zip(KEYS, values, strict=True))


def strips(case: Case, points: Sequence[Point]) -> list[Strip]:
    """The points of a deployment by batch and context."""
    from chunkcalc.grids.points import window_of  # noqa: PLC0415 - numpy

    states: dict[tuple[int, int], list[tuple[int, str]]] = {}
    for point in points:
        states.setdefault((point.batch, point.context), []).append((point.chunk, point.state))
    keys = keys_of(case)
    return [
        Strip(keys=keys, batch=batch, context=context, chunks=[chunk for chunk, _ in each],
              states=[state for _, state in each], find=partial(window_of, case, batch, context))
        for (batch, context), each in states.items()
    ]  # fmt: skip


def csv_rows(rows: Iterable[Sequence[Any]]) -> str:
    """Lines of CSV."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


def json_line(keys: Mapping[str, Any], point: Point) -> str:
    """A point as one line of JSON."""
    return json.dumps(record(keys, point)) + "\n"


def record(keys: Mapping[str, Any], point: Point) -> dict[str, Any]:
    """A point as JSON; what is infinite is null."""
    values = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in point._asdict().items()
    }
    return {**keys, **values}


def document(rows: Sequence[Mapping[str, Any]], strips: Sequence[Strip], left_out: Sequence[str]) -> dict[str, Any]:
    """chunkcalc.sweep/2."""
    windows = []
    for strip in strips:
        held = strip.held
        if len(strips) <= EXACT:
            found = strip.find()
            held = None if found.chunk_min is None or found.chunk_max is None else (found.chunk_min, found.chunk_max)
        ends = {"chunk_min": held[0] if held else None, "chunk_max": held[1] if held else None}
        windows.append({**strip.keys, "batch": strip.batch, "context": strip.context, **ends})
    return {"schema": SCHEMA, "windows": windows, "rows": rows, "left_out": list(left_out)}
