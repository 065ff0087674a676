"""Single steps and requests of a trace, scored one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast

from chunkcalc.answer.question import Question
from chunkcalc.answer.replay import scheduler_for, simulate
from chunkcalc.answer.resolve import resolve
from chunkcalc.engines.tables import VERSION
from chunkcalc.errors import ChunkcalcError
from chunkcalc.measurements import MeasuredTrace, Measurements, Skipped, StepRow
from chunkcalc.records import ENGINE_NAMES, Format, Precision
from chunkcalc.scoring.errors import summary
from chunkcalc.scoring.found import NONE, Score
from chunkcalc.scoring.served import NO_LINK, Link
from chunkcalc.time.step import StepTimer

READ = "see which columns score reads: docs/accuracy.md"
FALLBACK_BUDGET, FALLBACK_BATCH = 2048, 256  # where a trace does not say
Latencies = tuple[float | None, float | None]


def steps(measurements: Measurements, progress: Any, hardware: Any = None) -> Score:
    """Single steps: inside the engine that a row names, else kernels alone.

    Raises
    ------
    ChunkcalcError : none could be predicted
    """
    timers: dict[Any, StepTimer] = {}
    ratios, skipped = [], list(measurements.skipped)
    for row in progress(measurements.steps):
        try:
            timer = _step_timer(row, timers, hardware)
        except ChunkcalcError as error:
            skipped.append(Skipped(row.row, error.what))
            continue
        ratios.append(float(timer.expected(row.c, row.p, row.b, row.s)) / row.time)
    if not ratios:
        reason = f": {skipped[0].reason}" if skipped else ""
        raise ChunkcalcError(f"no step could be predicted{reason}", "", READ)
    return Score(
        kind="steps", rows=len(measurements.steps) + len(measurements.skipped), scored=len(ratios),
        tpot=NONE, ttft=NONE, every_tpot=NONE, every_ttft=NONE, step=summary(ratios), skipped=tuple(sorted(skipped)),
    )  # fmt: skip


def step_timers(hardware: Any) -> Callable[[StepRow], StepTimer]:
    """The deployments of steps.

    Parameters
    ----------
    hardware : the GPU to use instead of what a row names
    """
    timers: dict[Any, StepTimer] = {}
    return lambda row: _step_timer(row, timers, hardware)


def _step_timer(row: StepRow, timers: dict[Any, StepTimer], hardware: Any) -> StepTimer:
    key = (row.gpu, row.model, row.tp, row.engine, row.engine_version, row.dtype, row.kv)
    if key not in timers:
        question = Question(
            model=row.model, gpu=hardware or row.gpu, prompt=1024, output=2, tp=row.tp, weights=row.dtype, kv=row.kv,
            ttft=1.0, engine=row.engine or ENGINE_NAMES[0],
            engine_version=row.engine_version if VERSION.fullmatch(row.engine_version) else None,
        )  # fmt: skip
        deployment = resolve(question).deployment
        if (
            row.engine is None and row.dtype and deployment.precision.weights != row.dtype
        ):  # a step's format is meant literally
            plain = cast(Format, row.dtype)
            parts = Precision(
                weights=plain, kv=deployment.precision.kv, attention=plain, dense=plain, experts=plain, shared=plain
            )
            deployment = replace(deployment, precision=parts)
        timers[key] = StepTimer(deployment, host=row.engine is not None)
    return timers[key]


def traces(measurements: Measurements, progress: Any, hardware: Any = None, link: Link = NO_LINK) -> Score:
    """Traces: every request replayed.

    Parameters
    ----------
    measurements : the traces
    progress : wraps what is gone through
    hardware : the GPU to use instead of what a trace names
    link : bandwidth and latency of the link between GPUs, where it is known [byte/s], [s]
    """
    tpot, ttft = [], []
    for trace in progress(measurements.traces):
        for predicted, measured in _replayed(trace, hardware, link):
            if predicted[0] and measured[0]:
                ttft.append(predicted[0] / measured[0])
            if predicted[1] and measured[1]:
                tpot.append(predicted[1] / measured[1])
    requests = sum(len(trace.requests) for trace in measurements.traces)
    token, first = summary(tpot), summary(ttft)
    return Score(
        kind="traces", rows=requests + len(measurements.skipped), scored=requests,
        tpot=token, ttft=first, every_tpot=token, every_ttft=first, skipped=tuple(measurements.skipped),
    )  # fmt: skip


def _replayed(trace: MeasuredTrace, hardware: Any, link: Link) -> Iterator[tuple[Latencies, Latencies]]:
    """(TTFT, TPOT) predicted and measured of each request [s]."""
    requests = [each.request for each in trace.requests]
    question = Question(
        model=trace.model, gpu=hardware or trace.gpu, tp=trace.tp, engine=trace.engine,
        link=link[0] if trace.tp > 1 else None, link_latency=link[1] if trace.tp > 1 else None,
        prompt=max(1, round(sum(each.prompt for each in requests) / len(requests))),
        output=max(2, round(sum(each.output for each in requests) / len(requests))),
    )  # fmt: skip
    case = resolve(question)
    budget, most = trace.budget or FALLBACK_BUDGET, trace.max_num_seqs or FALLBACK_BATCH
    served = simulate(case, requests, scheduler_for(case, budget, most)).served
    for found, each in zip(served, trace.requests, strict=True):
        yield (found.ttft, found.tpot), (each.ttft, each.tpot)
