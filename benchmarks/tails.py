"""Percentiles of TTFT and TPOT of closed loops against a replay of the same load.

    python benchmarks/tails.py EVIDENCE_FOLDER

takes runs of serving/serving2.csv that give them and fail no test of a healthy server, one per server, load and
lengths, at most 150 spread over them, and replays each from the moment that all users send at once. Newer runs of
InferenceX sent two requests per user before; what is measured is again a wave of all users, on a warm server.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

from served_replay import Coarse, replayed

from chunkcalc.errors import ChunkcalcError
from chunkcalc.measurements import Run, read
from chunkcalc.scoring.healthy import exclusions
from chunkcalc.scoring.served import Served, Servers

MOST = 150  # runs that are replayed
QUANTITIES = ("ttft_p50", "ttft_p99", "tpot_p50", "tpot_p99")
UNMEASURED = frozenset(("ascend-910b",))


def sample(folder: Path) -> tuple[list[tuple[Served, frozenset[str]]], dict[str, int]]:
    """Runs to replay, with the quantities that each is no measure of, and why others cannot be."""
    runs = read(folder / "serving" / "serving2.csv").runs
    left, servers = {each.row: each for each in exclusions(runs)}, Servers()
    lost: dict[str, int] = defaultdict(int)
    kept: dict[tuple[Any, ...], tuple[Served, frozenset[str]]] = {}
    for run in runs:
        if run.ttft_p99 is None and run.tpot_p99 is None:
            lost["no percentile"] += 1
            continue
        if run.concurrency is None:
            lost["an open loop"] += 1
            continue
        found = left.get(run.row)
        if found is not None and found.of == "both":
            lost[found.reason] += 1
            continue
        if run.gpu in UNMEASURED:
            lost[f"{run.gpu} without measured kernels"] += 1
            continue
        try:
            served = servers.served(run)
        except ChunkcalcError as error:
            lost[str(error).split(";")[0].split(": ", 1)[-1]] += 1
            continue
        bad = frozenset(name for name in QUANTITIES if found is not None and name.startswith(found.of))
        if _key(run) in kept:
            lost["another run of the same server and load stands for it"] += 1
            continue
        kept[_key(run)] = served, bad
    listed = [kept[key] for key in sorted(kept, key=str)]
    stride = max(1.0, len(listed) / MOST)
    chosen = [listed[int(index * stride)] for index in range(min(MOST, len(listed)))]
    if len(listed) > len(chosen):
        lost["not in the sample"] += len(listed) - len(chosen)
    return chosen, lost


def _key(run: Run) -> tuple[Any, ...]:
    lengths = round(run.prompt_tokens / 200), round(run.output_tokens / 200)
    return run.engine, run.gpu, run.model, run.weights, lengths, run.concurrency, run.tp, run.dp, run.engine_version


def quantile(values: Sequence[float], q: float) -> float:
    """A quantile of values, at least one."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def table(folder: Path) -> str:
    """The table, in Markdown.

    Parameters
    ----------
    folder : the evidence folder
    """
    chosen, lost = sample(folder)
    steps: dict[int, Coarse] = {}
    ratios: dict[tuple[str, str], list[float]] = defaultdict(list)
    for served, bad in chosen:
        run = served.run
        found = replayed(served, steps.setdefault(id(served.timer), Coarse(served.timer)))
        ttft = [each.ttft for each in found.served if each.ttft is not None]
        tpot = [each.tpot for each in found.served if each.tpot is not None]
        if not ttft or not tpot:
            lost["no request fits beside the weights"] += 1
            continue
        for name in QUANTITIES:
            measured = getattr(run, name)
            if measured is None or name in bad:
                continue
            ours = quantile(ttft if name.startswith("ttft") else tpot, 0.99 if name.endswith("99") else 0.5)
            for group in (f"{run.engine}, all", f"{run.engine}, {run.source} {served.deployment.hardware.id}"):
                ratios[group, name].append(ours / measured)
    lines = [
        "| engine, source | latency | runs | median % | MAPE % | bias % | within 2x |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for group in sorted({group for group, _ in ratios}):
        for name in QUANTITIES:
            found_ratios = ratios[group, name]
            if len(found_ratios) < 3:
                continue
            off = [abs(each - 1) for each in found_ratios]
            inside = fmean(0.5 <= each <= 2 for each in found_ratios)
            lines.append(
                f"| {group} | {name[:4].upper()} {name[5:]} | {len(off)} "
                f"| {100 * median(off):.1f} | {100 * fmean(off):.1f} | {100 * (median(found_ratios) - 1):+.1f} "
                f"| {100 * inside:.0f} % |"
            )
    why = "; ".join(f"{count} {reason}" for reason, count in sorted(lost.items(), key=lambda each: -each[1]))
    return "\n".join([*lines, "", f"{len(chosen)} runs replayed. Rows not used: {why}."])


if __name__ == "__main__":
    print(table(Path(sys.argv[1])))
