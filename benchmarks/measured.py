"""One or two rows of a measured set given as a user's own numbers: how far off its other rows are then.

    python benchmarks/measured.py EVIDENCE [--given 1|2] [--sets N]

A set is one deployment under one pair of lengths: model, GPU, engine and version, formats, degrees. With two rows the
lowest and the middle concurrency are given, with one the middle. Prints the errors before and after, the sets that got
worse, and how often the narrowed bands hold the rows that were not given. The standard deviations of answer/learning.py
and answer/measured.py were chosen by it.
"""

from __future__ import annotations

import argparse
import random
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

from chunkcalc.answer.judged import half_widths
from chunkcalc.answer.learning import Factors, Observation, learn, with_factors
from chunkcalc.answer.measured import SPREADS
from chunkcalc.answer.taught import narrowed
from chunkcalc.errors import ChunkcalcError
from chunkcalc.measurements import read
from chunkcalc.records import Deployment, Workload
from chunkcalc.scoring.healthy import exclusions
from chunkcalc.scoring.served import Served, Servers
from chunkcalc.time.step import StepTimer
from chunkcalc.traffic.closed_loop import closed_loop

FILES = ("serving.csv", "serving2.csv", "serving3.csv")
ENGINES = ("vllm", "sglang", "trtllm")
LEAST = 3  # concurrencies of a set
LONG = 5  # rows of a set of which it can be said whether it got worse
WORSE, MUCH_WORSE = 0.015, 0.05
SEED = 5

Row = tuple[Served, bool]  # and whether its time to first token counts


def sets(folder: Path) -> list[list[Row]]:
    """The rows of each set, by concurrency."""
    servers, out = Servers(), defaultdict(list)
    for name in FILES:
        runs = read(folder / name).runs
        left = {each.row: each.of for each in exclusions(runs)}
        for run in runs:
            of = left.get(run.row, "")
            plain = run.engine in ENGINES and not run.kernels and not run.rate and not run.spec
            if not plain or not run.concurrency or not run.tpot or of in ("both", "tpot"):
                continue
            try:
                served = servers.served(run)
            except ChunkcalcError:
                continue
            key = (
                name, run.source, run.engine, run.engine_version, run.model, run.gpu, run.weights, run.kv, run.tp,
                run.dp, run.ep, run.pp, round(run.prompt_tokens), round(run.output_tokens), run.date[:7],
            )  # fmt: skip
            out[key].append((served, of != "ttft"))
    whole = [each for each in out.values() if len({served.run.concurrency for served, _ in each}) >= LEAST]
    random.Random(SEED).shuffle(whole)
    return [sorted(each, key=lambda row: row[0].run.concurrency or 0) for each in whole]


def predicted(served: Served, system: Deployment) -> tuple[float, float]:
    """TPOT and TTFT of a run on a system [s]."""
    found = closed_loop(StepTimer(system), served.bench)
    return found.tpot, found.ttft


def observations(rows: Sequence[Row]) -> list[Observation]:
    """What the rows measured."""
    out: list[Observation] = []
    for served, counts in rows:
        held: dict[Factors, tuple[float, float]] = {}

        def both(factors: Factors, served: Served = served, held: dict[Factors, Any] = held) -> tuple[float, float]:
            if factors not in held:
                held.clear()
                held[factors] = predicted(served, with_factors(served.deployment, factors))
            return held[factors]

        run = served.run
        out.append(Observation(run.tpot or 0.0, lambda factors, both=both: both(factors)[0], SPREADS["tpot"]))
        if counts and run.ttft:
            out.append(Observation(run.ttft, lambda factors, both=both: both(factors)[1], SPREADS["ttft"]))
    return out


def workload(served: Served) -> Workload:
    """The load of a run as a question has it."""
    prompt, output = round(served.run.prompt_tokens), max(2, round(served.run.output_tokens))
    batch = served.run.concurrency or 1
    return Workload(prompt=prompt, output=output, batch=batch, context=prompt + output // 2)


class Errors:
    """Errors of the rows that were not given, by latency."""

    def __init__(self) -> None:
        self.before: dict[str, list[float]] = defaultdict(list)
        self.after: dict[str, list[float]] = defaultdict(list)
        self.inside: dict[str, list[bool]] = defaultdict(list)
        self.above: dict[str, list[bool]] = defaultdict(list)
        self.change: list[float] = []

    def add(self, rows: Sequence[Row], given: set[int]) -> None:
        """A set with some of its rows given."""
        base = rows[0][0].deployment
        learned = learn(observations([rows[index] for index in given]))
        system = with_factors(base, learned.factors)
        first = rows[min(given)][0]
        parts = narrowed(base, workload(first), learned, int(first.bench.budget))
        widths = half_widths(first.timer)
        moved: list[float] = []
        for index, (served, counts) in enumerate(rows):
            if index in given:
                continue
            after, before = predicted(served, system), predicted(served, base)
            for place, name in enumerate(("tpot", "ttft")):
                measured = getattr(served.run, name)
                if not measured or (name == "ttft" and not counts):
                    continue
                off = measured / after[place] - 1
                width = getattr(widths, name) * getattr(parts, name)
                self.inside[name].append(abs(off) <= width)
                self.above[name].append(off > width)
                self.after[name].append(abs(after[place] / measured - 1))
                self.before[name].append(abs(before[place] / measured - 1))
                if name == "tpot":
                    moved.append(self.after[name][-1] - self.before[name][-1])
        if len(rows) >= LONG and moved:
            self.change.append(fmean(moved))

    def show(self) -> None:
        """Print them."""
        for name in ("tpot", "ttft"):
            after, before = self.after[name], self.before[name]
            print(
                f"{name}: median {median(before):.1%} -> {median(after):.1%}, mean {fmean(before):.1%} -> "
                f"{fmean(after):.1%} ({len(after)} rows); narrowed band holds {fmean(self.inside[name]):.0%}, "
                f"{fmean(self.above[name]):.0%} above"
            )
        worse, much = (sum(each > limit for each in self.change) for limit in (WORSE, MUCH_WORSE))
        print(f"of {len(self.change)} sets of {LONG} rows or more: {worse} worse by 1.5 points, {much} by 5")


def main() -> None:
    """Learn from some rows of each set, predict the others."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("evidence", type=Path)
    parser.add_argument("--given", type=int, choices=(1, 2), default=2)
    parser.add_argument("--sets", type=int, default=None, help="only so many, drawn")
    parser.add_argument("--skip", type=int, default=0, help="leave so many of the drawn ones out")
    options = parser.parse_args()
    errors = Errors()
    for rows in sets(options.evidence / "serving")[options.skip :][: options.sets]:
        middle = len(rows) // 2
        errors.add(rows, {0, middle} if options.given == 2 else {middle})
    errors.show()


if __name__ == "__main__":
    main()
