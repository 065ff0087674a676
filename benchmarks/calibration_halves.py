"""What a calibration on half of a set does to the other half, for every set of public runs; and its time.

    python benchmarks/calibration_halves.py ../shared/evidence [--splits 2] [--least 10]

A set is one (model, GPU, engine). Its configurations are dealt into halves; each half is predicted with
constants fitted to the other one. Errors are means over all rows and splits, in per cent.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from chunkcalc.catalog.lookup import load_hardware
from chunkcalc.errors import ChunkcalcError
from chunkcalc.measurements import Run, read
from chunkcalc.records import Hardware
from chunkcalc.scoring import calibrate
from chunkcalc.scoring.usable import Usable, contradictory, impossible, usable

WORSE = 1.0  # points
MANY = 200  # rows of the timing

UNSEEN = 20  # seeds before it were looked at when the method was chosen


def sets(folder: Path, least: int) -> Iterator[tuple[str, Hardware, list[Usable], int]]:
    """Name, GPU, usable rows and left-out ones of every set with enough of them."""
    runs: dict[tuple[str, str, str], list[Run]] = defaultdict(list)
    for path in sorted((folder / "serving").glob("*.csv")):
        for run in read(path).runs:
            runs[run.model, run.gpu, run.engine].append(run)
    for (model, gpu, engine), some in sorted(runs.items()):
        try:
            hardware = load_hardware(gpu).record
        except ChunkcalcError:
            continue
        rows, out = usable(some, hardware)
        refused = {id(row) for row, _ in impossible(rows)} | {id(row) for pair in contradictory(rows) for row in pair}
        kept = [row for row in rows if id(row) not in refused]
        if len(kept) >= least and len({row.configuration for row in kept}) > 1:
            yield f"{model} {gpu} {engine}", hardware, kept, len(out) + len(refused)


def halves(rows: list[Usable], seed: int) -> tuple[list[Usable], list[Usable]]:
    """The rows of half of the configurations, and the others."""
    names = sorted({row.configuration for row in rows}, key=str)
    np.random.default_rng(seed).shuffle(names)  # type: ignore[arg-type]
    first = set(names[: len(names) // 2])
    return [row for row in rows if row.configuration in first], [row for row in rows if row.configuration not in first]


def judged(fitted: list[Usable], others: list[Usable], hardware: Hardware) -> tuple[np.ndarray, np.ndarray, str]:
    """Errors of the other half before and after, by TPOT and TTFT, and what was fitted."""
    before = calibrate.exact_errors(others, hardware, {})
    try:
        found = calibrate.calibrate(fitted, hardware)
    except ChunkcalcError as error:
        return before, before, "refused" if "support" in error.what else "too few"
    return before, calibrate.exact_errors(others, hardware, found.values), found.choice or "shipped"


def main() -> None:
    """Print the table, the law and the time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("evidence", type=Path)
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--least", type=int, default=10)
    options = parser.parse_args()
    print(f"{'other half':36}{'rows':>5}{'out':>5}{'TPOT':>8}{'':14}{'worst':>7}{'TTFT':>8}{'':14}{'worst':>7}  fitted")
    changes: list[list[float]] = [[], []]
    splits: list[list[float]] = [[], []]
    longest: tuple[list[Usable], Hardware | None] = ([], None)
    for name, hardware, rows, out in sets(options.evidence, options.least):
        longest = max(longest, (rows, hardware), key=lambda each: len(each[0]))
        pairs, chosen = [], set()
        for seed in range(UNSEEN, UNSEEN + options.splits):
            one, other = halves(rows, seed)
            for fitted, left in ((one, other), (other, one)):
                before, after, choice = judged(fitted, left, hardware)
                pairs.append((before, after))
                chosen.add(choice)
        told = ""
        for index in range(2):
            known = [pair for pair in pairs if np.isfinite(pair[0][index]).any()]
            every = [100 * np.array([np.nanmean(half[index]) for half in pair]) for pair in known]
            if not every:
                told += f"{'-':>8}{'':21}"
                continue
            (before, after), worst = np.mean(every, axis=0), max(pair[1] - pair[0] for pair in every)
            changes[index].append(after - before)
            splits[index] += [pair[1] - pair[0] for pair in every]
            told += f"{before:8.1f} ->{after:5.1f} {after - before:+5.1f}{worst:+7.1f}"
        print(f"{name:36}{len(rows):5d}{out:5d}{told}  {', '.join(sorted(chosen))}", flush=True)
    for index, name in enumerate(("TPOT", "TTFT")):
        found, each = np.array(changes[index]), np.array(splits[index])
        print(
            f"{name}: lower in {(found < 0).sum()} of {len(found)} sets, the same in {(found == 0).sum()}, more than "
            f"{WORSE:g} point worse in {(found > WORSE).sum()} sets and {(each > WORSE).sum()} of {len(each)} halves; "
            f"mean {found.mean():+.1f}, worst set {found.max():+.1f}, worst half {each.max():+.1f}"
        )
    start = time.perf_counter()
    rows, gpu = longest[0][:MANY], longest[1]
    calibrate.calibrate(rows, gpu)
    print(f"a calibration on {len(rows)} rows takes {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
