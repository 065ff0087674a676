"""A score as text and as chunkcalc.score/1."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from chunkcalc.measurements import Run
from chunkcalc.report.tables import table
from chunkcalc.scoring.errors import Summary
from chunkcalc.scoring.found import Score, Scored
from chunkcalc.units import format_duration

SCHEMA = "chunkcalc.score/1"
WORST = 5  # rows shown with what their time goes to
PARTS = 4  # of a breakdown
WIDTH = 80
HEAD = ("", "rows", "MAPE", "median", "p90", "bias")


def text(found: Score, names: Sequence[str] = ()) -> str:
    """The report of `chunkcalc score`."""
    lines = [f"{', '.join(names)}: " if names else "", f"{found.rows:,} rows, {found.scored:,} scored"]
    rows = ["".join(lines), ""]
    if found.kind == "steps":
        return "\n".join([*rows, table(HEAD, [_cells("step time", found.step)]), *_skipped(found)])
    cells = [_cells("TPOT", found.tpot), _cells("TTFT", found.ttft)]
    if found.excluded:
        cells += [
            _cells("TPOT, nothing left out", found.every_tpot),
            _cells("TTFT, nothing left out", found.every_ttft),
        ]
    if found.medians_tpot.n or found.medians_ttft.n:
        cells += [
            _cells("TPOT, medians", found.medians_tpot),
            _cells("TTFT, medians", found.medians_ttft),
        ]
    for name, (tpot, ttft) in found.plug_ins.items():
        cells += [_cells(f"TPOT, {name}", tpot), _cells(f"TTFT, {name}", ttft)]
    rows.append(table(HEAD, [each for each in cells if each]))
    rows += _held(found)
    rows += _by_group(found)
    rows += _reasons("left out of the errors", Counter(f"{each.reason} ({each.of})" for each in found.excluded))
    rows += _skipped(found)
    rows += _impossible(found)
    rows += _worst(found)
    return "\n".join(rows)


def _cells(name: str, errors: Summary) -> tuple[str, ...]:
    if not errors.n:
        return (name, "0", "-", "-", "-", "-")
    percents = [f"{100 * (value or 0.0):.1f} %" for value in (errors.mape, errors.median, errors.p90)]
    return (name, f"{errors.n:,}", *percents, f"{100 * (errors.bias or 0.0):+.1f} %")


def _held(found: Score) -> list[str]:
    """How often the bands hold, and how often a limit is judged right."""
    out = []
    for name, held in found.bands.items():
        drawn = found.decisions[name]
        if held.rows:
            out.append(
                f"{name.upper()}: {_share(held.inside)} inside the error band, {_share(held.above)} above it; limits "
                f"of 0.7 to 1.4 times the measured value are judged right in {_share(drawn.right)}, "
                f"{_share(drawn.kept)} of those called kept and {_share(drawn.sure)} of those called sure"
            )
    return ["", *(line for text in out for line in textwrap.wrap(text, WIDTH, subsequent_indent="  "))] if out else []


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f} %"


def _by_group(found: Score) -> list[str]:
    if not found.groups:
        return []
    head = (", ".join(found.groups[0].key), "rows", "TPOT MAPE", "median", "bias", "TTFT MAPE", "median", "bias")
    rows = []
    for group in found.groups:
        cells = [" ".join("-" if value in (None, "") else str(value) for value in group.key.values())]
        cells.append(str(max(group.tpot.n, group.ttft.n)))
        for errors in (group.tpot, group.ttft):
            if errors.n:
                cells += [f"{100 * (value or 0.0):.0f} %" for value in (errors.mape, errors.median)]
                cells.append(f"{100 * (errors.bias or 0.0):+.0f} %")
            else:
                cells += ["-", "-", "-"]
        rows.append(tuple(cells))
    return ["", table(head, rows)]


def _reasons(title: str, counts: Counter[str]) -> list[str]:
    if not counts:
        return []
    return [
        "",
        f"{sum(counts.values()):,} rows {title}:",
        *(f"  {count:5,}  {reason}" for reason, count in counts.most_common()),
    ]


def _skipped(found: Score) -> list[str]:
    return _reasons("not predicted, or without a mean", Counter(each.reason for each in found.skipped))


def _impossible(found: Score) -> list[str]:
    below = [each.served.run.row for each in found.predictions if each.below_floor]
    if not below:
        return []
    listed = ", ".join(map(str, below[:10])) + (", ..." if len(below) > 10 else "")
    said = f"{len(below):,} rows are faster than their hardware reads its memory (counted all the same): {listed}"
    return ["", *textwrap.wrap(said, WIDTH)]


def _worst(found: Score) -> list[str]:
    """The rows that are furthest off, and what a decode step of theirs is predicted to go to."""
    counted = [each for each in found.predictions if "tpot" in each.of]
    far = sorted(counted, key=lambda each: -abs(math.log(each.ratio("tpot") or 1.0)))[:WORST]
    if not far:
        return []
    rows = ["", "furthest off in TPOT:"]
    for each in far:
        run, measured = each.served.run, each.served.run.tpot or 0.0
        said = (
            f"row {run.row}: {run.model}, {run.weights or 'as shipped'}, {run.engine} on {_gpus(each)}, "
            f"{_load(run)}, {run.prompt_tokens:,.0f} + {run.output_tokens:,.0f} tokens; measured "
            f"{format_duration(measured)}, predicted {format_duration(each.predicted.tpot)}: {_parts(each)}"
        )
        rows += textwrap.wrap(said, WIDTH, initial_indent="  ", subsequent_indent="    ")
    return rows


def _load(run: Run) -> str:
    return f"{run.rate:g} requests/s" if run.concurrency is None else f"{run.concurrency:,} users"


def _gpus(each: Scored) -> str:
    parallelism, run = each.served.deployment.parallelism, each.served.run
    if run.apart:
        units = f"{run.p_num} prefill x tp {run.p_tp}, {run.d_num} decode x tp {run.d_tp}"
        return f"{each.served.deployment.hardware.id} ({units})"
    return f"{parallelism.gpus} x {each.served.deployment.hardware.id}"


def _parts(each: Scored) -> str:
    served = each.served
    ranks = served.deployment.parallelism.dp
    context = served.run.prompt_tokens + served.run.output_tokens / 2
    units = ranks * (served.run.d_num or 1)
    decode = served.timer.step(0, 0, max(1.0, each.predicted.decoding / units), context)
    parts = sorted(decode.breakdown.items(), key=lambda item: -item[1])[:PARTS]
    shown = ", ".join(f"{name} {100 * seconds / each.predicted.tpot:.0f}%" for name, seconds in parts)
    rest = 1 - decode.expected / each.predicted.tpot
    what = "arrivals" if served.prefill is not None else "prompts"
    return f"{shown}, {what} {100 * rest:.0f}%" if rest > 0.005 else shown


def json(found: Score) -> dict[str, Any]:
    """The schema chunkcalc.score/1: fractions, latencies in seconds."""
    data: dict[str, Any] = {
        "schema": SCHEMA,
        "kind": found.kind,
        "rows": found.rows,
        "scored": found.scored,
        "tpot": asdict(found.tpot),
        "ttft": asdict(found.ttft),
        "all": {"tpot": asdict(found.every_tpot), "ttft": asdict(found.every_ttft)},
        "excluded": [{"row": each.row, "reason": each.reason, "of": each.of} for each in found.excluded],
        "skipped": [{"row": each.row, "reason": each.reason} for each in found.skipped],
        "groups": [
            {"key": dict(each.key), "tpot": asdict(each.tpot), "ttft": asdict(each.ttft)} for each in found.groups
        ],
        "medians": {"tpot": asdict(found.medians_tpot), "ttft": asdict(found.medians_ttft)},
        "bands": {name: each._asdict() for name, each in found.bands.items()},
        "decisions": {name: each._asdict() for name, each in found.decisions.items()},
        "plug_ins": {name: {"tpot": asdict(t), "ttft": asdict(f)} for name, (t, f) in found.plug_ins.items()},
        "below_floor": [each.served.run.row for each in found.predictions if each.below_floor],
        "predictions": [
            {
                "row": each.served.run.row, "tpot_s": each.predicted.tpot, "ttft_s": each.predicted.ttft,
                "longest_step_s": each.predicted.longest, "counts_for": list(each.of), "launch": each.served.launch,
            }
            for each in found.predictions
        ],
    }  # fmt: skip
    if found.kind == "steps":
        data["step"] = asdict(found.step)
    return data
