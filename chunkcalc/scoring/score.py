"""Predictions scored against a file of measurements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from chunkcalc.answer.gateway import Gateway
from chunkcalc.errors import ChunkcalcError
from chunkcalc.measurements import Measurements, Skipped
from chunkcalc.scoring.errors import Summary, summary
from chunkcalc.scoring.found import Coverage, Decisions, Group, Score, Scored
from chunkcalc.scoring.healthy import exclusions
from chunkcalc.scoring.served import NO_LINK, Link, Servers, predict
from chunkcalc.scoring.single import READ, steps, traces

Progress = Callable[[Iterable[Any]], Iterable[Any]]
FIELDS = ("source", "engine", "engine_version", "model", "gpu", "weights", "kv", "tp", "dp", "ep", "concurrency")
LIMITS = (0.7, 0.8, 0.9, 1.1, 1.2, 1.4)  # of a measured value
NO_MEAN = "no mean latency was published"


def score(
    measurements: Measurements,
    by: Sequence[str] = (),
    progress: Progress = iter,
    hardware: Any = None,
    link: Link = NO_LINK,
    gateway: Gateway | None = None,
) -> Score:
    """Score a file.

    Parameters
    ----------
    measurements : what it holds
    by : columns to group by
    progress : wraps what is gone through, to show how far it is
    hardware : the GPU to use instead of what a run names
    link : bandwidth one way per GPU [byte/s] and latency [s] of the link between GPUs, where it is known
    gateway : what stood before the engines, of runs; None for nothing

    Raises
    ------
    ChunkcalcError : an unknown column to group by; no row that could be predicted
    """
    for name in by:
        if name not in FIELDS:
            raise ChunkcalcError(f"no column '{name:.40}' to group by", "--by", f"choose from {', '.join(FIELDS)}")
    if measurements.kind == "steps":
        return steps(measurements, progress, hardware)
    if measurements.kind == "traces":
        return traces(measurements, progress, hardware, link)
    return _runs(measurements, by, progress, Servers(hardware, link, gateway))


def _runs(measurements: Measurements, by: Sequence[str], progress: Progress, servers: Servers) -> Score:
    found, skipped = [], list(measurements.skipped)
    left = {each.row: each for each in exclusions(measurements.runs)}
    for run in progress(measurements.runs):
        try:
            served = servers.served(run, measurements.runs)
            predicted = predict(served)
        except ChunkcalcError as error:
            skipped.append(Skipped(run.row, f"{error.where}: {error.what}" if error.where else error.what))
            continue
        context = run.prompt_tokens + run.output_tokens / 2
        out = left[run.row].of if run.row in left else ""
        counts = tuple(
            name for name in ("tpot", "ttft") if getattr(run, name) is not None and out not in (name, "both")
        )
        found.append(
            Scored(
                served=served, predicted=predicted, of=counts,
                floor=served.timer.floor(0, 0, 1.0 / served.deployment.parallelism.dp, context),
            )
        )  # fmt: skip
        if run.tpot is None and run.ttft is None:
            skipped.append(Skipped(run.row, NO_MEAN))
    if not found:
        reason = skipped[0].reason if skipped else "it holds no rows"
        raise ChunkcalcError(f"no row could be predicted: {reason}", "", READ)
    rows = {each.served.run.row for each in found}
    own = [each for each in found if not each.served.run.kernels]
    others = sorted({each.served.run.server for each in found if each.served.run.kernels})
    plug_ins = {name: [each for each in found if each.served.run.server == name] for name in others}
    medians = [each for each in found if each.served.run.tpot is None and each.served.run.ttft is None]
    return Score(
        kind=measurements.kind, rows=len(measurements.runs) + len(measurements.skipped),
        scored=sum(bool(each.of) for each in found),
        tpot=_of(own, "tpot"), ttft=_of(own, "ttft"),
        every_tpot=_every(own, "tpot"), every_ttft=_every(own, "ttft"),
        plug_ins={name: (_of(each, "tpot"), _of(each, "ttft")) for name, each in plug_ins.items()},
        bands={name: _coverage(own, name) for name in ("tpot", "ttft")},
        decisions={name: _decisions(own, name) for name in ("tpot", "ttft")},
        medians_tpot=_against(medians, "tpot"), medians_ttft=_against(medians, "ttft"),
        excluded=tuple(each for each in sorted(left.values()) if each.row in rows),
        skipped=tuple(sorted(skipped)), groups=_groups(found, by), predictions=tuple(found),
    )  # fmt: skip


def _of(found: Iterable[Scored], name: str) -> Summary:
    """Errors of the rows that count for a latency."""
    return summary(ratio for each in found if name in each.of and (ratio := each.ratio(name)) is not None)


def _every(found: Iterable[Scored], name: str) -> Summary:
    return summary(ratio for each in found if (ratio := each.ratio(name)) is not None)


def _against(found: Iterable[Scored], name: str) -> Summary:
    """Predicted medians against measured ones."""
    place = ("ttft", "tpot").index(name)
    pairs = [(each.predicted.typical, getattr(each.served.run, f"{name}_p50")) for each in found]
    return summary(typical[place] / measured for typical, measured in pairs if typical and measured)


def _coverage(found: Iterable[Scored], name: str) -> Coverage:
    """How often the bands hold, over the rows that count."""
    rows = [(ratio, each.width(name)) for each in found if name in each.of and (ratio := each.ratio(name))]
    if not rows:
        return Coverage()
    off = [(1 / ratio - 1, width) for ratio, width in rows]
    inside = sum(abs(by) <= width for by, width in off) / len(off)
    return Coverage(len(off), inside, sum(by > width for by, width in off) / len(off))


def _decisions(found: Iterable[Scored], name: str) -> Decisions:
    """Limits drawn around the measured values of the rows that count."""
    rows = [(ratio, each.width(name)) for each in found if name in each.of and (ratio := each.ratio(name))]
    if not rows:
        return Decisions()
    drawn = [
        (ratio <= factor, ratio * (1 + width) <= factor, factor >= 1) for ratio, width in rows for factor in LIMITS
    ]
    kept, sure = ([truth for *says, truth in drawn if says[index]] for index in (0, 1))
    return Decisions(
        len(drawn), sum(says == truth for says, _, truth in drawn) / len(drawn),
        sum(kept) / len(kept) if kept else None, sum(sure) / len(sure) if sure else None,
    )  # fmt: skip


def _groups(found: Sequence[Scored], by: Sequence[str]) -> tuple[Group, ...]:
    if not by:
        return ()
    held: dict[tuple[Any, ...], list[Scored]] = {}
    columns = ["server" if name == "engine" else name for name in by]
    for each in found:
        held.setdefault(tuple(getattr(each.served.run, name) for name in columns), []).append(each)
    order = sorted(held, key=lambda key: tuple((value is None, str(value)) for value in key))
    return tuple(
        Group(key=dict(zip(by, key, strict=True)), tpot=_of(held[key], "tpot"), ttft=_of(held[key], "ttft"))
        for key in order
    )
