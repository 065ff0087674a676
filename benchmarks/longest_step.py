"""The predicted 99th percentile of the gap between two tokens against served ones: how long a prompt step is.

    python benchmarks/longest_step.py EVIDENCE_FOLDER

replays every run of serving/serving2.csv and sweeps/chunk_sweeps.csv that gives the gap's 99th percentile. Where
under half a per cent of the gaps hold prompt tokens it is a decode step, above 1.2 % a prompt step; between them
it may be either and is not judged. Runs of one server under one load count once. The second table holds the same
prompt steps with more or less host time, the third the traces, whose gaps nobody published.
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
from served_replay import Coarse, hosting, quantile, replayed

from chunkcalc.answer.question import Question
from chunkcalc.answer.replay import scheduler_for, simulate
from chunkcalc.answer.resolve import resolve
from chunkcalc.errors import ChunkcalcError
from chunkcalc.measurements import Run, read
from chunkcalc.scoring.healthy import Exclusion, exclusions
from chunkcalc.scoring.served import Served, Servers
from chunkcalc.time.step import StepTimer
from chunkcalc.traffic.arrivals import Request
from chunkcalc.traffic.closed_loop import closed_loop
from chunkcalc.traffic.decodes import GAP

FEWEST, MOST = 0.005, 0.012  # share of gaps with prompt tokens: up to there a decode step, from there a prompt step
LONGER = 1.03  # times the longest decode step: a gap that held prompt tokens
FULL = 0.85  # share of a step that is full of prompts from which it counts as one
ROUNDS = 4  # requests per user that are replayed
SHORTEST = 16  # output tokens below which a run has too few gaps
HOSTS = (0.0, 0.5, 1.0, 2.0)  # times the host's time that a profile has
FEW = 3  # loads of a group that is shown by itself
UNMEASURED = frozenset(("ascend-910b",))  # no kernel of it was timed by anyone
SWEEPS = {  # model, GPU, engine and weights of the sweeps with one chunk; the others are in chunk_sweeps.py
    "Nemotron Nano 30B FP8": {"model": "nemotron-3-nano-30b-a3b", "gpu": "b200", "engine": "vllm", "weights": "fp8"},
}
# A wait for a place leaves the gaps as they are.
WAITING, ALL_AT_ONCE = "more than the prompts", "all requests at once"
LINK = {"link": 16e9, "link_latency": 20e-6}


@dataclass(frozen=True)
class Point:
    """A load of a server: gaps as measured and as replayed [s].

    kind : `decode`, `prompt`, `full` (a budget filled with prompts) or `either`
    layers : of the model [1]
    median, p99 : measured; None where the file gives no median
    ours, ours_median : replayed
    bare : the same without anything that the engine adds to prompt steps
    longest : longest step of the closed form
    hosted : under each of HOSTS
    rows : how many rows it stands for [1]
    """

    served: Served
    kind: str
    layers: int
    median: float | None
    p99: float
    ours: float
    ours_median: float
    bare: float
    longest: float
    hosted: tuple[float, ...]
    rows: int


def sweep_runs(folder: Path) -> list[Run]:
    """Closed loops of the sweeps that give the gap's 99th percentile, as runs.

    Their lengths are taken as a little unequal: users that march in step are no server's load.
    """
    found = []
    with (folder / "sweeps" / "chunk_sweeps.csv").open(newline="") as file:
        for number, row in enumerate(csv.DictReader(file), 1):
            known, load = SWEEPS.get(row["model"]), row["load"].split()
            if known is None or load[0] != "concurrency" or not row["itl_p99_or_max_ms"]:
                continue
            found.append(
                Run(row=number, path="chunk_sweeps.csv", source="vultr", prompt_tokens=float(row["isl"]),
                    output_tokens=float(row["osl"]), concurrency=int(load[1]), tp=int(row["tp"]),
                    budget=int(row["chunk"]), itl_p99=float(row["itl_p99_or_max_ms"]) / 1e3,
                    least_ratio=0.8, **known)  # type: ignore[arg-type]
            )  # fmt: skip
    return found


def reason(run: Run, left: Mapping[int, Exclusion]) -> str | None:
    """Why a run is no test of the gaps; None where it is one."""
    found = left.get(run.row)
    if found is not None and found.of != "ttft" and not (found.reason.startswith(WAITING) and ALL_AT_ONCE in run.note):
        return found.reason
    if run.concurrency is None:
        return "an open loop"
    if run.output_tokens < SHORTEST:
        return "fewer than 16 output tokens"
    typical = run.tpot_p50 or run.tpot
    if typical and run.itl_p50 is not None and run.itl_p50 < 0.1 * typical:
        return "several tokens per message"
    if not run.wide and run.itl_mean and run.tpot and abs(run.itl_mean / run.tpot - 1) > 0.2:
        return "several tokens per message"
    return None


def label(run: Run) -> tuple[Any, ...]:
    """What runs of one server under one load share."""
    return (
        run.source, run.engine, run.engine_version, run.model, run.gpu, run.weights, run.tp, run.dp, run.ep, run.kv,
        run.budget, run.concurrency, run.wide, round(run.prompt_tokens / 50), round(run.output_tokens / 50),
        round((run.requests or 0) / (run.concurrency or 1)),
    )  # fmt: skip


def points(runs: Sequence[Run]) -> tuple[list[Point], dict[str, int]]:
    """Every load that can be judged, and why rows cannot."""
    servers, left = Servers(), {each.row: each for each in exclusions(runs)}
    lost: dict[str, int] = defaultdict(int)
    groups: dict[Any, list[Served]] = defaultdict(list)
    for run in runs:
        if run.itl_p99 is None:
            continue
        if run.gpu in UNMEASURED:
            lost[f"{run.gpu} without measured kernels"] += 1
            continue
        why = reason(run, left)
        if why is None:
            try:
                served = servers.served(run)
                groups[label(run)].append(served)
                continue
            except ChunkcalcError as error:
                why = str(error).split(";")[0].split(": ", 1)[-1]
        lost[why] += 1
    steps: dict[int, tuple[Coarse, ...]] = {}
    found = []
    for group in groups.values():
        timer = group[0].timer
        own = steps.setdefault(id(timer), tuple(Coarse(hosting(timer, factor)) for factor in HOSTS))
        point = _point(group, own)
        if point is None:
            lost["no request fits beside the weights"] += len(group)
        else:
            found.append(point)
    return found, lost


def _point(group: Sequence[Served], steps: Sequence[Coarse]) -> Point | None:
    served = group[0]
    run, most, deployment = served.run, ROUNDS * (served.run.concurrency or 1), served.deployment
    found = replayed(served, steps[HOSTS.index(1.0)], most)
    if not found.gaps:
        return None
    ranks = deployment.parallelism.dp
    users = max(1.0, min(served.bench.users / ranks, served.bench.most or served.bench.users))
    longest = 2 / (1 + (run.least_ratio if run.least_ratio is not None else 1.0))
    decode = served.timer.expected(0, 0, users, longest * (run.prompt_tokens + run.output_tokens))
    share = sum(count for gap, count in found.gaps.items() if gap * GAP > LONGER * decode) / sum(found.gaps.values())
    closed = closed_loop(served.timer, served.bench)
    ours, middle = quantile(found, 0.99), quantile(found, 0.5)
    kind = "decode" if share < FEWEST else "either" if share < MOST else "prompt"
    if kind == "prompt" and closed.steps and ours > FULL * closed.steps.full and users > 1.5:
        kind = "full"
    hosted = []
    if kind in ("prompt", "full"):
        hosted = [quantile(replayed(served, step, most), 0.99) for step in steps]
    medians = [each.run.itl_p50 for each in group if each.run.itl_p50]
    return Point(
        served=served, kind=kind, layers=deployment.model.layer_count, median=fmean(medians) if medians else None,
        p99=fmean(each.run.itl_p99 or 0.0 for each in group), ours=ours, ours_median=middle,
        bare=hosted[0] if hosted else ours, longest=closed.longest, hosted=tuple(hosted), rows=len(group),
    )  # fmt: skip


def error(pairs: Iterable[tuple[float, float | None]]) -> str:
    """MAPE, median error and bias of (predicted, measured), as cells."""
    ratios = [ours / theirs for ours, theirs in pairs if theirs]
    if not ratios:
        return "| | | "
    off = [abs(ratio - 1) for ratio in ratios]
    return f"| {100 * fmean(off):.1f} | {100 * median(off):.1f} | {100 * (median(ratios) - 1):+.1f} "


def named(point: Point) -> tuple[str, str]:
    """The engine's name, and that of the source and GPU."""
    run = point.served.run
    return f"{run.engine}, all", f"{run.engine}, {run.source} {point.served.deployment.hardware.id}"


def grouped(found: Iterable[Point], name: Callable[[Point], Iterable[str]]) -> list[tuple[str, list[Point]]]:
    """Points by each of their names, those of a few points left out."""
    groups: dict[str, list[Point]] = defaultdict(list)
    for point in found:
        for each in name(point):
            groups[each].append(point)
    return [(each, groups[each]) for each in sorted(groups) if len(groups[each]) >= FEW or each.endswith("all")]


def gaps_table(found: Sequence[Point]) -> list[str]:
    """Errors by kind, engine and source."""
    lines = [
        "| p99 of the gaps is a | engine, source | loads (rows) | MAPE % | median % | bias % | median gap, bias % |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    words = {"decode": "decode step", "prompt": "prompt step", "full": "full prompt step", "either": "either"}
    for kind, text in words.items():
        for name, members in grouped((each for each in found if each.kind == kind), named):
            middle = [each.ours_median / each.median for each in members if each.median]
            told = f"{100 * (median(middle) - 1):+.1f}" if middle else ""
            lines.append(
                f"| {text} | {name} | {len(members)} ({sum(each.rows for each in members)}) "
                f"{error((each.ours, each.p99) for each in members)}| {told} |"
            )
    return lines


def variants_table(found: Sequence[Point]) -> list[str]:
    """Prompt steps with more or less host time: MAPE and bias."""
    heads = [f"host x {factor:g}" for factor in HOSTS]
    lines = [f"| prompt steps | loads | {' | '.join(heads)} |", "|---|---:|" + "---:|" * len(heads)]

    def name(point: Point) -> tuple[str, str]:
        size, run = "full" if point.kind == "full" else "short", point.served.run
        own = f"{run.source} {run.model} {point.served.deployment.hardware.id}"
        return f"{run.engine}, {size}, all", f"{run.engine}, {size}, {own}"

    for text, members in grouped((each for each in found if each.hosted), name):
        cells = [_off((each.hosted[index], each.p99) for each in members) for index in range(len(HOSTS))]
        lines.append(f"| {text} | {len(members)} | {' | '.join(cells)} |")
    return lines


def _off(pairs: Iterable[tuple[float, float]]) -> str:
    ratios = [ours / theirs for ours, theirs in pairs]
    return f"{100 * fmean(abs(each - 1) for each in ratios):.0f} ({100 * (median(ratios) - 1):+.0f})" if ratios else ""


def split_table(found: Sequence[Point]) -> list[str]:
    """What prompt steps last longer than decode steps: share of the kernels' time, and time per layer."""
    lines = ["| prompt steps | loads | times the kernels | us per layer | MAPE % |", "|---|---:|---:|---:|---:|"]

    def name(point: Point) -> tuple[str, ...]:
        run, hardware = point.served.run, point.served.deployment.hardware
        size = "full" if point.kind == "full" else "short"
        return f"{run.engine}, {hardware.arch}, {size}", f"{run.engine}, {run.model}, {hardware.id}"

    for text, members in grouped((each for each in found if each.hosted and each.median), name):
        held = [each for each in members if each.p99 > 1.2 * (each.median or 0.0)]
        if len(held) < FEW:
            continue
        theirs = np.array([each.p99 - (each.median or 0.0) for each in held])
        parts = np.array([(each.bare - each.ours_median, 1e-6 * each.layers) for each in held])
        found_parts, *_ = np.linalg.lstsq(parts / theirs[:, None], np.ones(len(held)), rcond=None)
        off = np.abs(parts @ found_parts / theirs - 1).mean()
        lines.append(f"| {text} | {len(held)} | {found_parts[0]:.2f} | {found_parts[1]:.0f} | {100 * off:.0f} |")
    return lines


def traces_table(folder: Path) -> list[str]:
    """Every request of the traces with more or less host time."""
    lines = [
        "| trace | host | mean TTFT | p99 TTFT | mean TPOT | p99 TPOT | TPOT, request by request |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for trace in read(folder / "traces" / "vllm_traces.csv").traces:
        rows = [each for each in trace.requests if each.tpot is not None]
        question = Question(
            model=trace.model, gpu="rtx-pro-6000", tp=trace.tp,
            prompt=round(fmean(each.request.prompt for each in rows)),
            output=round(fmean(each.request.output for each in rows)),
            **(LINK if trace.tp > 1 else {}),  # type: ignore[arg-type]
        )  # fmt: skip
        case = resolve(question)
        requests = [Request(*each.request) for each in rows]
        scheduler = scheduler_for(case, trace.budget or 2048, trace.max_num_seqs or 256)
        for factor in HOSTS:
            served = simulate(case, requests, scheduler, hosting(StepTimer(case.deployment), factor)).served
            ttft = [(each.ttft or 0.0, row.ttft) for each, row in zip(served, rows, strict=True)]
            tpot = [(each.tpot or 0.0, row.tpot or 0.0) for each, row in zip(served, rows, strict=True)]
            cells = [_share(pairs, pick) for pairs in (ttft, tpot) for pick in (fmean, _p99)]
            single = fmean(abs(ours / theirs - 1) for ours, theirs in tpot)
            lines.append(f"| {trace.model} | x {factor:g} | " + " | ".join(cells) + f" | {100 * single:.1f} % |")
    return lines


def _p99(values: Sequence[float]) -> float:
    return sorted(values)[int(0.99 * len(values))]


def _share(pairs: Sequence[tuple[float, float]], pick: Callable[[list[float]], float]) -> str:
    ours, theirs = (pick([pair[side] for pair in pairs]) for side in (0, 1))
    return f"{100 * (ours / theirs - 1):+.1f} %"


def table(folder: Path) -> str:
    """The tables, in Markdown.

    Parameters
    ----------
    folder : the evidence folder
    """
    runs = read(folder / "serving" / "serving2.csv").runs
    found, lost = points(runs)
    swept, more = points(sweep_runs(folder))
    found += swept
    judged = sum(point.rows for point in found)
    bound = [point.p99 <= 1.1 * point.longest for point in found if point.kind in ("prompt", "full")]
    lines = [*gaps_table(found), "", *variants_table(found), "", *split_table(found), "", *traces_table(folder), ""]
    lines.append(
        f"{judged} rows used as {len(found)} loads; the closed form's longest step is at least 0.91 times the measured "
        f"p99 in {sum(bound)} of {len(bound)} loads with a prompt step. Not used: "
        + "; ".join(f"{count} {why}" for why, count in sorted((lost | more).items(), key=lambda each: -each[1]))
        + "."
    )
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(Path(sys.argv[1])))
