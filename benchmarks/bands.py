"""Error bands by class: the half-width that held 80 % of the rows of servers left out of the fit.

    python benchmarks/bands.py ../shared/evidence [--write]

A class is an engine and a kind of model. One with too few rows takes the widest of its engine, and more. The longest
gap between two tokens has a band of its engine: over the loads whose 99th percentile of the gap is a prompt step
(longest_step.py).
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np
from fit_engines import ENGINES, FIRST, LATER, MARK, Fit, chosen_rows, rows_of
from longest_step import points, sweep_runs

from chunkcalc.catalog.profiles import data_folder
from chunkcalc.measurements import read
from chunkcalc.work.counts import kind

HELD = 0.8  # share of rows that a band holds
ENOUGH = 20  # rows of a class, below which it counts as not measured
LEAST, BEYOND, MOST = 0.08, 0.10, 0.60  # narrowest band, what an unmeasured class adds, widest band
KINDS = ("dense", "moe", "latent", "hybrid")
HEAD = "# Bands: half-widths that held 80 % of rows of servers left out of the fit. Written by benchmarks/bands.py."
PUBLIC = ("inferencex", "nvidia")  # sources whose load is known


def left_out(fit: Fit) -> tuple[np.ndarray, np.ndarray]:
    """TPOT and TTFT of every row, predicted without its set."""
    first, later = chosen_rows(fit, FIRST), chosen_rows(fit, LATER)
    x = fit.fit(first)
    tpot, ttft = fit.left_out(first)
    after = fit.predict(fit.fit(later, x, groups=LATER))
    return tuple(np.where(np.isfinite(out), out, rest) for out, rest in zip((tpot, ttft), after, strict=True))  # type: ignore[return-value]


def gaps(evidence: Path) -> dict[str, float]:
    """The band of the longest gap, by engine."""
    found, _ = points(read(evidence / "serving" / "serving2.csv").runs)
    swept, _ = points(sweep_runs(evidence))
    off: dict[str, list[float]] = {engine: [] for engine in ENGINES}
    for point in found + swept:
        if point.kind in ("prompt", "full"):
            off[point.served.run.engine].append(abs(point.ours / point.p99 - 1))
    widths = {engine: _rounded(float(np.quantile(each, HELD))) for engine, each in off.items() if len(each) >= ENOUGH}
    widest = min(MOST, max(widths.values()) + BEYOND)
    return {engine: widths.get(engine, widest) for engine in ENGINES}


def block(fit: Fit, gap: dict[str, float]) -> str:
    """The bands as tables of a profile."""
    predicted = left_out(fit)
    measured = (fit.tpot, fit.ttft)
    models = np.array([kind(row.served.deployment.model) for row in fit.rows])
    known = np.array([row.served.run.source.startswith(PUBLIC) for row in fit.rows])
    nvidia = np.array([row.served.deployment.hardware.vendor == "nvidia" for row in fit.rows])
    lines = [HEAD]
    for index, engine in enumerate(ENGINES):
        lines += ["", f"[bands.{engine}]"]
        own = known & nvidia & (fit.engine == index)
        found = {each: [_width(predicted[i], measured[i], own & (models == each)) for i in (0, 1)] for each in KINDS}
        widest = [max((pair[i] for pair in found.values() if pair[i] is not None), default=MOST) for i in (0, 1)]
        for each, pair in found.items():
            values = [value if value is not None else min(MOST, widest[i] + BEYOND) for i, value in enumerate(pair)]
            bare = "" if None not in pair else "  # not measured: the widest, and more"
            lines.append(
                f"{each} = {{ tpot = {values[0]:.2f}, ttft = {values[1]:.2f}, gap = {gap[engine]:.2f} }}{bare}"
            )
    amd = [_width(predicted[i], measured[i], known & ~nvidia) or MOST for i in (0, 1)]
    lines += [
        "",
        "[bands.other]  # GPUs without measured kernels: at least",
        f"any = {{ tpot = {amd[0]:.2f}, ttft = {amd[1]:.2f} }}",
    ]
    return "\n".join(lines) + "\n"


def _width(predicted: np.ndarray, measured: np.ndarray, rows: np.ndarray) -> float | None:
    held = rows & np.isfinite(measured)
    if held.sum() < ENOUGH:
        return None
    width = float(np.quantile(np.abs(predicted[held] / measured[held] - 1), HELD))
    return _rounded(width)


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
        path.write_text(f"{before.split(HEAD)[0].rstrip()}\n\n{text}\n{MARK}{engines}", encoding="utf-8")


if __name__ == "__main__":
    main()
