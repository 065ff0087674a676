"""Errors of rows that nothing was fitted to: whole sets, whole GPUs and whole engine versions left out in turn.

    python benchmarks/held_out.py ../shared/evidence [--by source]

The constants of the engines are fitted again without the rows that are left out, and these are predicted as an
answer would be: the same closed loops, the same arrivals. Rows of three collections, means only; rows without a
healthy server (scoring/healthy.py), of speculative decoding and of other engines' kernels are not among them.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from engine_rows import DOUBTFUL, KNOWN_LOAD
from fit_engines import ENGINES, FIRST, LATER, Array, Fit, chosen_rows, rows_of

from chunkcalc.errors import ChunkcalcError
from chunkcalc.scoring.score import LIMITS
from chunkcalc.scoring.served import predict
from chunkcalc.time.step import StepTimer

NOT_OVERHEADS = ("cold", "arithmetic")  # of a load, and a share of what the profile has


def predicted(fit: Fit, x: Array, rows: Sequence[int]) -> list[tuple[float, float]]:
    """TPOT and TTFT of some rows, as an answer with these constants has them; not a number where there is none [s].

    Parameters
    ----------
    fit : the rows
    x : constants
    rows : which of them
    """
    values = {name: each for name, each in fit.values(x).items() if name not in NOT_OVERHEADS}
    timers: dict[Any, StepTimer] = {}
    out = []
    for row in rows:
        served = fit.rows[row].served
        engine = served.deployment.engine
        overheads = engine.overheads._replace(**{name: float(each[row]) for name, each in values.items()})
        key = (id(served.timer), overheads)
        timer = timers.get(key)
        if timer is None:
            timer = StepTimer(replace(served.deployment, engine=replace(engine, overheads=overheads)))
            timers[key] = timer
        try:
            found = predict(replace(served, timer=timer, deployment=timer.deployment))
            out.append((found.tpot, found.ttft))
        except ChunkcalcError:
            out.append((np.nan, np.nan))
    return out


_HELD: dict[str, Fit] = {}  # for the processes that are forked off


def _without(label: str, labels: Array) -> tuple[Array, list[tuple[float, float]]]:
    """The rows of a label, predicted by constants fitted to the others."""
    fit = _HELD["fit"]
    out = labels == label
    first, later = chosen_rows(fit, FIRST) & ~out, chosen_rows(fit, LATER) & ~out
    x = fit.fit(later, fit.fit(first, None, 25), 25, LATER)
    rows = np.flatnonzero(out)
    return rows, predicted(fit, x, list(rows))


def left_out(fit: Fit, labels: Array) -> tuple[Array, Array]:
    """TPOT and TTFT of every row, predicted without all rows of its label [s].

    Parameters
    ----------
    fit : the rows
    labels : of each row
    """
    _HELD["fit"] = fit
    tpot, ttft = np.full((2, len(fit.rows)), np.nan)
    with multiprocessing.get_context("fork").Pool() as pool:
        for rows, found in pool.imap_unordered(functools.partial(_without, labels=labels), sorted(set(labels))):
            tpot[rows], ttft[rows] = np.array(found).T
    return tpot, ttft


def gpus(fit: Fit) -> Array:
    """The GPU of each row."""
    return np.array([row.served.deployment.hardware.id for row in fit.rows])


def versions(fit: Fit) -> Array:
    """The engine and its version of each row."""
    runs = [row.served.run for row in fit.rows]
    return np.array([f"{run.engine} {run.engine_version}" for run in runs])


def counted(fit: Fit) -> tuple[Array, Array]:
    """Which rows count for TPOT, and for TTFT: means of sources that are not doubtful, known loads."""
    runs = [row.served.run for row in fit.rows]
    sound = np.array([run.source not in DOUBTFUL for run in runs])
    tpot = np.array([run.tpot is not None for run in runs])
    known = np.array([run.ttft is not None and run.source.startswith(KNOWN_LOAD) for run in runs])
    return sound & tpot & np.isfinite(fit.tpot), sound & known & np.isfinite(fit.ttft)


def errors(guess: Array, seen: Array) -> str:
    """Rows, median error, MAPE and bias in per cent, as cells."""
    held = np.isfinite(guess) & np.isfinite(seen)
    if not held.any():
        return "| 0 | - | - "
    ratio = guess[held] / seen[held]
    off = 100 * np.abs(ratio - 1)
    return f"| {held.sum()} | {np.median(off):.1f} / {off.mean():.1f} | {100 * (np.median(ratio) - 1):+.1f} "


def table(fit: Fit, found: Mapping[str, tuple[Array, Array]], by: Callable[[int], str]) -> list[str]:
    """Errors under each way of leaving out, by group."""
    names = list(found)
    heads = [f"{name}: TPOT rows | median / MAPE % | bias % | TTFT rows | median / MAPE % | bias %" for name in names]
    lines = [f"| | {' | '.join(heads)} |", "|---|" + "---:|" * 6 * len(names)]
    token, first = counted(fit)
    labels = np.array([by(row) for row in range(len(fit.rows))])
    for label in ["all", *sorted(set(labels))]:
        own = np.ones(len(labels), bool) if label == "all" else labels == label
        if not (own & (token | first)).any():
            continue
        cells = []
        for tpot, ttft in found.values():
            cells += [
                errors(tpot[own & token], fit.tpot[own & token]),
                errors(ttft[own & first], fit.ttft[own & first]),
            ]
        lines.append(f"| {label} {''.join(cells)}|")
    return lines


def decisions(guess: Array, seen: Array) -> tuple[float, float]:
    """Share of limits drawn around the measured values that are judged right, and of those judged kept."""
    held = np.isfinite(guess) & np.isfinite(seen)
    limits = seen[held][:, None] * np.array(LIMITS)
    kept, keeps = guess[held][:, None] <= limits, np.array(LIMITS) >= 1
    return float((kept == keeps).mean()), float((kept & keeps).sum() / max(1, kept.sum()))


GROUPS: Mapping[str, Callable[[Fit], Callable[[int], str]]] = {
    "source": lambda fit: lambda row: f"{fit.rows[row].served.run.source} {ENGINES[fit.engine[row]]}",
    "engine": lambda fit: lambda row: ENGINES[fit.engine[row]],
    "gpu": lambda fit: lambda row: f"{ENGINES[fit.engine[row]]} {fit.rows[row].served.deployment.hardware.id}",
    "set": lambda fit: lambda row: str(fit.sets[row]),
}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("evidence", type=Path)
    parser.add_argument("--by", action="append", choices=sorted(GROUPS))
    parser.add_argument("--only", choices=("sets", "GPUs", "versions"), action="append")
    options = parser.parse_args()
    fit = rows_of(options.evidence / "serving")
    labels = {"sets": fit.sets, "GPUs": gpus(fit), "versions": versions(fit)}
    found = {name: left_out(fit, each) for name, each in labels.items() if name in (options.only or labels)}
    for name in options.by or ("engine", "source"):
        print("\n".join(table(fit, found, GROUPS[name](fit))), "\n")
    token, first = counted(fit)
    for name, (tpot, ttft) in found.items():
        for what, guess, seen, own in (("TPOT", tpot, fit.tpot, token), ("TTFT", ttft, fit.ttft, first)):
            right, kept = decisions(guess[own], seen[own])
            print(f"{name} left out, {what}: {100 * right:.0f} % of limits judged right, "
                  f"{100 * kept:.0f} % of those judged kept")  # fmt: skip


if __name__ == "__main__":
    main()
