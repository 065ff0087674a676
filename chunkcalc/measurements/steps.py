"""Rows of a table of single steps -> records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from chunkcalc.measurements.cells import UnreadableError, engine_name, kv_format, latency, text, weight_format
from chunkcalc.measurements.facts import MOST_GPUS, MOST_TOKENS
from chunkcalc.measurements.run import Skipped, StepRow
from chunkcalc.measurements.serving import whole

STEP_COLUMNS = ("gpu", "model", "c", "p", "b", "s", "t_ref_ms")
# The same columns as tables of an engine's steps name them.
STEP_ALIASES: Mapping[str, str] = {
    "prefill_tokens": "c", "prefix_tokens": "p", "batch": "b", "context": "s", "step_ms": "t_ref_ms",
}  # fmt: skip
PARTS: Mapping[str, str] = {
    "gemm": "ms_gemm", "attention": "ms_attn", "elementwise": "ms_elementwise", "allreduce": "ms_allreduce",
    "head": "ms_lm_head",
}  # fmt: skip


def steps_of(
    rows: Iterable[tuple[int, Mapping[str, object]]], path: str, per_second: float
) -> tuple[list[StepRow], list[Skipped]]:
    """The steps of all rows, and the rows that are none.

    Parameters
    ----------
    rows : their numbers and values, options included
    path : the file
    per_second : units of the times in a second [1]
    """
    steps, skipped = [], []
    for row, values in rows:
        try:
            steps.append(_step(row, path, values, per_second))
        except UnreadableError as reason:
            skipped.append(Skipped(row, str(reason)))
    return steps, skipped


def _step(row: int, path: str, values: Mapping[str, object], per_second: float) -> StepRow:
    gpu, model = text(values.get("gpu")), text(values.get("model"))
    time = latency(values.get("t_ref_ms"), "t_ref_ms", per_second)
    if not gpu or not model or time is None:
        raise UnreadableError(f"{'gpu' if not gpu else 'model' if not model else 't_ref_ms'} is blank")
    c, p, b, s = (whole(values.get(name), name, least=0) for name in "cpbs")
    if c == b == 0:
        raise UnreadableError("a step without prompt tokens and without decodes")
    parts: dict[str, Any] = {
        part: latency(values.get(column), column, per_second, zero=True) for part, column in PARTS.items()
    }
    return StepRow(
        row=row,
        path=path,
        gpu=gpu,
        model=model,
        tp=whole(values.get("tp") or 1, "tp", most=MOST_GPUS),
        engine=engine_name(values.get("engine")) or None,
        engine_version=text(values.get("engine_version")),
        dtype=weight_format(values.get("dtype") or values.get("weights")),
        kv=kv_format(values.get("kv")),
        c=c,
        p=p,
        b=b,
        s=min(s, MOST_TOKENS),
        time=time,
        regime=text(values.get("regime")),
        attention_source=text(values.get("attn_source")),
        **parts,
    )
