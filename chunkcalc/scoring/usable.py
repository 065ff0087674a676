"""Runs that a calibration can use: one GPU, one engine, rows that agree with each other and with physics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from chunkcalc.catalog.lookup import load_hardware
from chunkcalc.errors import ChunkcalcError
from chunkcalc.measurements import Run, StepRow
from chunkcalc.records import Hardware
from chunkcalc.scoring.healthy import exclusions
from chunkcalc.scoring.served import Served, Servers
from chunkcalc.traffic.closed_loop import Closed, closed_loop

APART = 1.5  # latencies of one configuration, the larger over the smaller
BELOW = 0.95  # of the floor: clocks are not exact
SHOWN = 3  # rows that an error names


class Usable(NamedTuple):
    """A run that counts, with its prediction by the shipped constants.

    served : what it was
    loop : the prediction
    tpot, ttft : as measured; None where it is no measure of them [s]
    """

    served: Served
    loop: Closed
    tpot: float | None
    ttft: float | None

    @property
    def configuration(self) -> tuple[Any, ...]:
        """What repeats of a run share."""
        run = self.served.run
        sizes = (run.concurrency, round(run.prompt_tokens), round(run.output_tokens))
        return (run.model, run.weights or "", run.kv or "", run.tp, run.dp, run.ep, run.pp, *sizes)


class LeftOut(NamedTuple):
    """A row that does not count, and why."""

    path: str
    row: int
    reason: str


def place(run: Run | StepRow) -> str:
    """A row as its user finds it."""
    return f"{Path(run.path).name} row {run.row}"


def one_kind(runs: Sequence[Run | StepRow], base: Hardware, engine: str | None) -> str:
    """The engine of all runs.

    Raises
    ------
    ChunkcalcError : several engines or GPUs, or others than given
    """
    engines = sorted({run.engine or "" for run in runs} | ({engine} if engine else set()))
    if len(engines) > 1:
        hint = "calibrate each engine by itself, into a file of its own"
        raise ChunkcalcError(f"the rows come from several engines ({', '.join(engines)})", "--engine", hint)
    gpus = {run.gpu: run for run in runs}
    for name, run in gpus.items():
        if load_hardware(name).record.id != base.id:
            problem = f"{place(run)} was measured on '{name}', not on {base.id}"
            raise ChunkcalcError(problem, "--gpu", "give the rows of one GPU, and that GPU")
    return engines[0]


def usable(runs: Sequence[Run], base: Hardware | str) -> tuple[list[Usable], list[LeftOut]]:
    """The runs that count, and the others.

    Parameters
    ----------
    runs : of all files
    base : the GPU to predict them with
    """
    servers, rows, out = Servers(base), [], []
    files: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        files[run.path].append(run)
    # Repeats stay: which of two that contradict each other is right is for the user to say (`contradictory`).
    unhealthy = {(path, each.row): each for path, some in files.items() for each in exclusions(some, repeats=False)}
    for run in runs:
        why = unhealthy.get((run.path, run.row))
        tpot, ttft = run.tpot or run.tpot_p50, run.ttft or (run.ttft_p50 if run.concurrency == 1 else None)
        if why is not None:
            tpot = None if why.of in ("both", "tpot") else tpot
            ttft = None if why.of in ("both", "ttft") else ttft
        if tpot is None and ttft is None:
            out.append(LeftOut(run.path, run.row, why.reason if why else "has neither TPOT nor TTFT"))
            continue
        if run.apart:
            out.append(LeftOut(run.path, run.row, "prefill and decode were apart: a profile is of one server"))
            continue
        if run.concurrency is None:
            out.append(LeftOut(run.path, run.row, "no fixed number of users: a queue hides what a step takes"))
            continue
        try:
            served = servers.served(run)
        except ChunkcalcError as error:
            out.append(LeftOut(run.path, run.row, error.what))
            continue
        rows.append(Usable(served, closed_loop(served.timer, served.bench), tpot, ttft))
    return rows, out


def contradictory(rows: Sequence[Usable]) -> list[tuple[Usable, Usable]]:
    """Pairs of repeats whose latencies lie apart: of each configuration, the fastest and the slowest."""
    groups: dict[Any, list[Usable]] = defaultdict(list)
    for row in rows:
        run = row.served.run
        groups[*row.configuration, run.engine_version, run.budget, run.max_num_seqs, run.requests].append(row)
    found = []
    for group in groups.values():
        for name in ("tpot", "ttft"):
            told = sorted((row for row in group if getattr(row, name)), key=lambda row: float(getattr(row, name)))
            if told and getattr(told[-1], name) > APART * getattr(told[0], name):
                found.append((told[0], told[-1]))
                break
    return found


def impossible(rows: Sequence[Usable]) -> list[tuple[Usable, str]]:
    """Rows below the floor, with the latency and the floor in words."""
    found = []
    for row in rows:
        timer, bench = row.served.timer, row.served.bench
        each = max(1.0, row.loop.decoding / row.served.deployment.parallelism.dp)
        step = float(timer.floor(0, 0, each, bench.prompt + bench.output / 2))
        prompt = float(timer.floor(bench.prompt, 0, 0, 0))
        for name, value, floor in (("TPOT", row.tpot, step), ("TTFT", row.ttft, prompt)):
            if value is not None and value < BELOW * floor:
                found.append((row, f"{name} {1e3 * value:.3g} ms, at least {1e3 * floor:.3g} ms"))
                break
    return found


def check(rows: Sequence[Usable], base: Hardware) -> None:
    """Refuse rows that a fit would follow astray.

    Raises
    ------
    ChunkcalcError : rows below the floor, repeats that contradict each other
    """
    below = impossible(rows)
    if below:
        named = "; ".join(f"{place(row.served.run)} ({words})" for row, words in below[:SHOWN])
        more = f" and {len(below) - SHOWN} more" if len(below) > SHOWN else ""
        hint = "check --gpu, --tp and --weights, or a prefix cache; leave such rows out"
        raise ChunkcalcError(f"faster than {base.id} can be: {named}{more}", "rows", hint)
    apart = contradictory(rows)
    if apart:
        pairs = "; ".join(f"{place(a.served.run)} and {place(b.served.run)}" for a, b in apart[:SHOWN])
        more = f" and {len(apart) - SHOWN} more pairs" if len(apart) > SHOWN else ""
        problem = f"the same configuration, latencies apart by more than {APART:g}x: {pairs}{more}"
        raise ChunkcalcError(problem, "rows", "keep the run that you trust, or say what differs (--tp, --budget)")
