"""Error bands by class: what the measured value stayed below nine times in ten where nobody had measured before.

    python benchmarks/bands.py ../shared/evidence [--write]

Every row is predicted by constants that were fitted without its GPU, and by ones that were fitted without its version
of the engine; the latter is the band on GPUs where somebody measured the engine, the former, where it is wider, on
others. A band b is what verdicts use: predicted x (1 + b) is exceeded by one row in ten at most, and b holds 80 % at
least. A class is an engine and a kind of model.
One with too few rows takes the widest of its engine, and more. The longest
gap between two tokens has a band of its engine: over the loads whose 99th percentile of the gap is a prompt step
(longest_step.py).
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
from fit_engines import ENGINES, FIRST, LATER, MARK, Fit, chosen_rows, rows_of
from longest_step import points, sweep_runs

from chunkcalc.catalog.profiles import data_folder
from chunkcalc.measurements import read
from chunkcalc.work.counts import kind

HELD = 0.8  # share of rows that a band holds
ENOUGH = 20  # rows of a class, below which it counts as not measured
LEAST, BEYOND, MOST = 0.08, 0.10, 1.00  # narrowest band, what an unmeasured class adds, widest band
Widths = tuple[float | None, float | None]  # of TPOT and TTFT
KINDS = ("dense", "moe", "latent", "hybrid")
SIDE = 0.9  # share of rows whose measured value stays below predicted x (1 + band)
HEAD = "# Bands: what nine in ten rows of left-out GPUs and versions stay below. Written by benchmarks/bands.py."
PUBLIC = ("inferencex", "nvidia")  # sources whose load is known


class LeftOut(NamedTuple):
    """TPOT and TTFT of every row, predicted without its GPU, and without its version of the engine."""

    gpu: tuple[np.ndarray, np.ndarray]
    version: tuple[np.ndarray, np.ndarray]


def left_out(fit: Fit) -> LeftOut:
    """Every row predicted twice."""
    runs = [row.served.run for row in fit.rows]
    first, later = chosen_rows(fit, FIRST), chosen_rows(fit, LATER)
    x = fit.fit(first)
    shipped = fit.predict(fit.fit(later, x, groups=LATER))
    out = []
    for label in ([run.gpu for run in runs], [f"{run.engine} {run.engine_version}" for run in runs]):
        found = zip(fit.left_out(first, by=np.array(label)), shipped, strict=True)
        tpot, ttft = (np.where(np.isfinite(own), own, other) for own, other in found)
        out.append((tpot, ttft))
    return LeftOut(*out)


def gaps(evidence: Path) -> dict[str, float]:
    """The band of the longest gap, by engine."""
    found, _ = points(read(evidence / "serving" / "serving2.csv").runs)
    swept, _ = points(sweep_runs(evidence))
    off: dict[str, list[float]] = {engine: [] for engine in ENGINES}
    for point in found + swept:
        deployment = point.served.deployment
        if (
            point.kind in ("prompt", "full")
            and deployment.engine.name in off
            and deployment.hardware.vendor == "nvidia"
        ):
            off[deployment.engine.name].append(abs(point.ours / point.p99 - 1))
    widths = {engine: _rounded(float(np.quantile(each, HELD))) for engine, each in off.items() if len(each) >= ENOUGH}
    widest = min(MOST, max(widths.values()) + BEYOND)
    return {engine: widths.get(engine, widest) for engine in ENGINES}


def block(fit: Fit, gap: dict[str, float]) -> str:
    """The bands as tables of a profile."""
    without = left_out(fit)
    deployments = [row.served.deployment for row in fit.rows]
    models = np.array([kind(each.model) for each in deployments])
    gpus = np.array([each.hardware.id for each in deployments])
    known = np.array([row.served.run.source.startswith(PUBLIC) for row in fit.rows])
    nvidia = np.array([each.hardware.vendor == "nvidia" for each in deployments])
    lines = [HEAD]
    for index, engine in enumerate(ENGINES):
        own = known & nvidia & (fit.engine == index)
        names = [str(name) for name, count in Counter(gpus[own]).items() if count >= ENOUGH]
        lines += ["", f"[bands.{engine}]", f"measured = {json.dumps(sorted(names))}"]
        seen = _classes(fit, without.version, own, models)
        lines += _rows(seen, gap[engine])
        lines += ["", f"[bands.{engine}.new]  # on a GPU that nobody measured it on"]
        new = _classes(fit, without.gpu, own, models)
        lines += _rows({each: _widest(new[each], seen[each]) for each in KINDS}, gap[engine])
    amd = [
        _width(each, seen, known & ~nvidia) or MOST
        for each, seen in zip(without.gpu, (fit.tpot, fit.ttft), strict=True)
    ]
    lines += ["", "[bands.other]  # GPUs without measured kernels: at least",
              f"any = {{ tpot = {amd[0]:.2f}, ttft = {amd[1]:.2f} }}"]  # fmt: skip
    return "\n".join(lines) + "\n"


def _classes(
    fit: Fit, predicted: tuple[np.ndarray, np.ndarray], own: np.ndarray, models: np.ndarray
) -> dict[str, Widths]:
    """The bands of each kind of model, None where too few rows tell."""
    measured = (fit.tpot, fit.ttft)
    return {each: tuple(_width(predicted[i], measured[i], own & (models == each)) for i in (0, 1)) for each in KINDS}  # type: ignore[misc]


def _widest(one: Widths, other: Widths) -> Widths:
    pairs = ([each for each in pair if each is not None] for pair in zip(one, other, strict=True))
    tpot, ttft = (max(pair, default=None) for pair in pairs)
    return tpot, ttft


def _rows(found: dict[str, Widths], gap: float) -> list[str]:
    """A line of a profile for each kind of model: those that were not measured have the widest, and more."""
    widest = [max((pair[i] for pair in found.values() if pair[i] is not None), default=MOST) for i in (0, 1)]
    lines = []
    for each, pair in found.items():
        values = [value if value is not None else min(MOST, widest[i] + BEYOND) for i, value in enumerate(pair)]
        bare = "" if None not in pair else "  # not measured: the widest, and more"
        widest_gap = max(gap, values[0])  # a gap is no surer than a mean
        lines.append(f"{each} = {{ tpot = {values[0]:.2f}, ttft = {values[1]:.2f}, gap = {widest_gap:.2f} }}{bare}")
    return lines


def _width(predicted: np.ndarray, measured: np.ndarray, rows: np.ndarray) -> float | None:
    held = rows & np.isfinite(measured)
    if held.sum() < ENOUGH:
        return None
    over = measured[held] / predicted[held] - 1
    return _rounded(max(float(np.quantile(over, SIDE)), float(np.quantile(np.abs(over), HELD))))


def _rounded(width: float) -> float:
    return min(MOST, max(LEAST, math.ceil(100 * width) / 100))


def main() -> None:
    """Print the bands, and write them where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("evidence", type=Path)
    parser.add_argument("--write", action="store_true", help="into hardware_profiles/generic.toml")
    options = parser.parse_args()
    text = block(rows_of(options.evidence / "serving"), gaps(options.evidence))
    print(text)
    if options.write:
        path = data_folder("hardware_profiles") / "generic.toml"
        before, _, engines = path.read_text(encoding="utf-8").partition(MARK)
        path.write_text(f"{before.split('# Bands:')[0].rstrip()}\n\n{text}\n{MARK}{engines}", encoding="utf-8")


if __name__ == "__main__":
    main()
