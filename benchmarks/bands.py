"""Error bands by class: what the measured value stayed below nine times in ten where nobody had measured before.

    python benchmarks/bands.py ../shared/evidence [--write]

Every row is predicted by constants that were fitted without its GPU, and by ones that were fitted without its version
of the engine (held_out.py); the latter is the band on GPUs where somebody measured the engine, the former, where it is
wider, on others. A band b is what verdicts use: predicted x (1 + b) is exceeded by one row in ten at most, and b holds
80 % at least. A class is an engine and a kind of model.
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

import numpy as np
from fit_engines import ENGINES, LIKE_VLLM, MARK, TRUSTED, Array, Fit, rows_of
from held_out import counted, gpus, left_out, versions
from longest_step import points, sweep_runs

from chunkcalc.catalog.profiles import data_folder
from chunkcalc.engines.tables import VERSION, order
from chunkcalc.measurements import read
from chunkcalc.scoring.features import KINDS
from chunkcalc.work.counts import kind

HELD = 0.8  # share of rows that a band holds
ENOUGH = 20  # rows of a class, below which it counts as not measured
LEAST, BEYOND, MOST = 0.08, 0.10, 1.00  # narrowest band, what an unmeasured class adds, widest band
Widths = tuple[float | None, float | None]  # of TPOT and TTFT
OWN = ("gb10",)  # GPUs whose rows are all of one harness
OWN_HEAD = "# Bands of this GPU, by its own rows, left out of the fit. Written by benchmarks/bands.py."
ATOM_NEWEST = "0.1.5"
ATOM = ["mi355x"]  # its own nightly runs
SIDE = 0.9  # share of rows whose measured value stays below predicted x (1 + band)
HEAD = "# Bands: what nine in ten rows of left-out GPUs and versions stay below. Written by benchmarks/bands.py."


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


def own_block(fit: Fit, without: dict[str, tuple[Array, Array]], gpu: str) -> str:
    """The bands of a GPU whose rows are all of one harness: they say nothing of others.

    Parameters
    ----------
    fit : rows and features
    without : predictions by what was left out
    gpu : id of the GPU
    """
    deployments = [row.served.deployment for row in fit.rows]
    models = np.array([kind(each.model) for each in deployments])
    rows = np.array([each.hardware.id == gpu for each in deployments])
    lines = [OWN_HEAD]
    for index, engine in enumerate(ENGINES):
        found = _classes(fit, without["gpu"], rows & (fit.engine == index), models, counted(fit))
        known = {name: pair for name, pair in found.items() if None not in pair}
        if known:
            told = (f"{name} = {{ tpot = {pair[0]:.2f}, ttft = {pair[1]:.2f} }}" for name, pair in known.items())
            lines += [f"[bands.{engine}]", *told]
    return "\n".join(lines) + "\n"


def block(fit: Fit, without: dict[str, tuple[Array, Array]], gap: dict[str, float]) -> str:
    """The bands as tables of a profile.

    Parameters
    ----------
    fit : rows and features
    without : predictions by what was left out
    gap : band of the longest gap, by engine
    """
    deployments = [row.served.deployment for row in fit.rows]
    models = np.array([kind(each.model) for each in deployments])
    cards = np.array([each.hardware.id for each in deployments])
    known = np.array([row.served.run.source.startswith(TRUSTED) for row in fit.rows]) & ~np.isin(cards, OWN)
    told = tuple(rows & known for rows in counted(fit))
    runs = np.array([row.served.run.engine_version for row in fit.rows])
    nvidia = np.array([each.hardware.vendor == "nvidia" for each in deployments])
    lines = [HEAD]
    for engine in (*ENGINES, *LIKE_VLLM):
        own = nvidia & (fit.engine == ENGINES.index("vllm" if engine in LIKE_VLLM else engine))
        names = [str(name) for name, count in Counter(cards[own & told[0]]).items() if count >= ENOUGH]
        names = ATOM if engine in LIKE_VLLM else sorted(names)
        newest = max((run for run in runs[own] if VERSION.fullmatch(run)), key=order, default="")
        newest = ATOM_NEWEST if engine in LIKE_VLLM else newest
        lines += ["", f"[bands.{engine}]", f"measured = {json.dumps(names)}", f'newest = "{newest}"']
        wider = BEYOND if engine in LIKE_VLLM else 0.0  # none of its rows is among these
        seen = _classes(fit, without["version"], own, models, told)
        lines += _rows(seen, gap.get(engine, max(gap.values())), wider)
        lines += ["", f"[bands.{engine}.new]  # on a GPU that nobody measured it on"]
        new = _classes(fit, without["gpu"], own, models, told)
        new = {each: _widest(new[each], seen[each]) for each in KINDS}
        lines += _rows(new, gap.get(engine, max(gap.values())), wider)
    amd = [
        _width(each, seen, rows & ~nvidia) or MOST
        for each, seen, rows in zip(without["gpu"], (fit.tpot, fit.ttft), told, strict=True)
    ]
    lines += ["", "[bands.other]  # GPUs without measured kernels: at least",
              f"any = {{ tpot = {amd[0]:.2f}, ttft = {amd[1]:.2f} }}"]  # fmt: skip
    return "\n".join(lines) + "\n"


def _classes(
    fit: Fit, predicted: tuple[Array, Array], own: Array, models: Array, told: tuple[Array, ...]
) -> dict[str, Widths]:
    """The bands of each kind of model, None where too few rows tell."""
    measured = (fit.tpot, fit.ttft)
    found = {}
    for each in KINDS:
        rows = own & (models == each)
        found[each] = (
            _width(predicted[0], measured[0], rows & told[0]), _width(predicted[1], measured[1], rows & told[1])
        )  # fmt: skip
    return found


def _widest(one: Widths, other: Widths) -> Widths:
    pairs = ([each for each in pair if each is not None] for pair in zip(one, other, strict=True))
    tpot, ttft = (max(pair, default=None) for pair in pairs)
    return tpot, ttft


def _rows(found: dict[str, Widths], gap: float, wider: float = 0.0) -> list[str]:
    """A line of a profile for each kind of model: those that were not measured have the widest, and more."""
    widest = [max((pair[i] for pair in found.values() if pair[i] is not None), default=MOST) for i in (0, 1)]
    lines = []
    for each, pair in found.items():
        values = [value if value is not None else min(MOST, widest[i] + BEYOND) for i, value in enumerate(pair)]
        values = [min(MOST, value + wider) for value in values]
        bare = "" if None not in pair else "  # not measured: the widest, and more"
        widest_gap = max(gap, values[0])  # a gap is no surer than a mean
        lines.append(f"{each} = {{ tpot = {values[0]:.2f}, ttft = {values[1]:.2f}, gap = {widest_gap:.2f} }}{bare}")
    return lines


def _width(predicted: Array, measured: Array, rows: Array) -> float | None:
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
    fit = rows_of(options.evidence / "serving")
    without = {"gpu": left_out(fit, gpus(fit)), "version": left_out(fit, versions(fit))}
    text = block(fit, without, gaps(options.evidence))
    own = {gpu: own_block(fit, without, gpu) for gpu in OWN}
    print(text, *own.values(), sep="\n")
    if options.write:
        path = data_folder("hardware_profiles") / "generic.toml"
        before, _, engines = path.read_text(encoding="utf-8").partition(MARK)
        path.write_text(f"{before.split('# Bands:')[0].rstrip()}\n\n{text}\n{MARK}{engines}", encoding="utf-8")
        for gpu, bands in own.items():
            path = data_folder("hardware_profiles") / f"{gpu}.toml"
            rest, sources = path.read_text(encoding="utf-8").split("\n[sources]")
            path.write_text(f"{rest.split(OWN_HEAD)[0].rstrip()}\n\n{bands}\n[sources]{sources}", encoding="utf-8")


if __name__ == "__main__":
    main()
