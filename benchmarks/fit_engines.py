"""Overheads of engines from served latencies: fitted, judged on servers left out, written to the profiles.

    python benchmarks/fit_engines.py ../shared/evidence [--write]

Least squares on the logarithm of TPOT and TTFT with a robust loss, every set of (model, GPU, engine)
weighing as the fourth root of its rows would have it; constants start from a prior and stay within
physical bounds. One that ends at its bound is told and must be fixed instead.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from engine_rows import KNOWN_LOAD, Measured, measured
from engine_rows import rows as features
from scipy.optimize import least_squares

from chunkcalc.catalog.profiles import SCALED, data_folder
from chunkcalc.scoring.features import Array, Features
from chunkcalc.scoring.served import COLD

ENGINES = ("vllm", "sglang", "trtllm")
LIKE_VLLM = ("atom",)  # none of its rows is fitted to
TRUSTED = (*KNOWN_LOAD, "nvidia")
MARK = "# Engines: what they add to the kernels of a step (records.Overheads). Written by benchmarks/fit_engines.py."
FEW = 64  # users up to which other sources than the public ones are believed
TPOT_SCALE, TTFT_SCALE = 0.08, 0.2  # errors that weigh as one
PRIOR = 0.05  # weight of a constant's start value, per scale of the constant
ALIKE = 20.0  # weight with which architectures are believed to be alike, where rows do not tell them apart

# Time of arithmetic on cards without measured kernels: the step of half that suits their rows best (--grid).
EARLY = ("0.5.2", "0.5.3")  # of SGLang: on MI355X the release after them is 1.7 times faster
ARITHMETIC = {"cdna3": 2.5, "cdna4": 2.0}


@dataclass(frozen=True)
class Constant:
    """A constant of the fit.

    start, scale, low, high : where it starts, by how much it is expected to move, its physical range
    by : what it differs by: each `engine`, each `group` of architectures, or nothing
    only : engines that have it; the others hold zero
    fixed : not fitted
    values : of a fixed one, by engine, where it differs from the start
    """

    start: float
    scale: float
    low: float
    high: float
    by: str = ""
    only: tuple[str, ...] = ENGINES
    fixed: bool = False
    values: Mapping[str, float] = field(default_factory=dict)


# Seconds, and shares of a kernel's own constant.
CONSTANTS: Mapping[str, Constant] = {
    "decode_layer": Constant(
        10e-6, 20e-6, 0, 200e-6, fixed=True
    ),  # two small kernels that are not counted: cache write, glue
    # Host time beside the GPU: physical values of steps that nothing else holds up (host_paced.csv).
    "host_dense": Constant(350e-6, 100e-6, 0, 2e-3, fixed=True, values={"sglang": 300e-6, "trtllm": 100e-6}),
    "host_moe": Constant(500e-6, 100e-6, 0, 2e-3, fixed=True, values={"sglang": 1.4e-3, "trtllm": 100e-6}),
    "host_latent": Constant(700e-6, 100e-6, 0, 2e-3, fixed=True, values={"sglang": 1.4e-3, "trtllm": 100e-6}),
    "host_hybrid": Constant(700e-6, 100e-6, 0, 4e-3, fixed=True, values={"sglang": 1.7e-3, "trtllm": 100e-6}),
    "host_graph": Constant(150e-6, 50e-6, 0, 1e-3, fixed=True, values={"trtllm": 100e-6}),
    "host_spread": Constant(2.0, 0.5, 1.0, 4.0, fixed=True),  # from one public pair of steps to another
    "expert_layer": Constant(15e-6, 20e-6, 0, 100e-6),
    "latent_request": Constant(500e-6, 500e-6, 0, 4e-3, only=("trtllm",)),
    "norm_layer": Constant(20e-6, 20e-6, 0, 80e-6, only=("vllm",)),
    "sequence": Constant(3e-6, 5e-6, 0, 50e-6, fixed=True),
    "request": Constant(10e-3, 20e-3, 0, 0.2),
    # Single users of SGLang (DeepSeek on B200, 8k tokens) refute the 38 us that first waves would ask for.
    # Prefill and decode apart (NIXL and the proxy before it): benchmarks/pools.py. Not measured under other engines.
    "handover": Constant(100e-3, 50e-3, 0, 1.0, fixed=True),
    "handover_stall": Constant(2e-3, 1e-3, 0, 0.1, fixed=True),
    "reshard": Constant(200e-3, 50e-3, 0, 1.0, fixed=True),
    "reshard_stall": Constant(40e-3, 20e-3, 0, 0.2, fixed=True),
    "prompt_token": Constant(10e-6, 5e-6, 0, 40e-6, fixed=True, only=("vllm", "sglang")),
    "launches": Constant(0.9, 0.3, 0.05, 6.0, by="group"),
    "narrow_expert_launches": Constant(0.3, 0.3, 0.1, 2.0, fixed=True),
    "experts": Constant(1.0, 0.15, 0.5, 4.0, fixed=True),
    "cache": Constant(1.0, 0.15, 0.4, 1.0, fixed=True),
    "quantising": Constant(0.0, 0.3, 0.0, 1.5, fixed=True),
    "cold": Constant(COLD["vllm"], 0.2, 1.0, 3.0, fixed=True, values=COLD),
}
GROUPS = {
    "blackwell-ultra": "blackwell",
    "ada": "hopper",
}  # architectures that share their constants
FIRST, LATER = (
    ("ampere", "hopper", "blackwell", "blackwell-rtx"),
    ("cdna3", "cdna4"),
)  # what is fitted first, and on top of it


def _group(arch: str) -> str:
    found = GROUPS.get(arch, arch)
    return found if found in FIRST + LATER else "other"


class Fit:
    """Rows, their features, and the fit to any part of them."""

    def __init__(self, rows: Sequence[Measured], constants: Mapping[str, Constant] = CONSTANTS) -> None:
        self.rows, self.constants = list(rows), dict(constants)
        self.features = Features(features(self.rows))
        self.engine = np.array([ENGINES.index(row.served.deployment.engine.name) for row in self.rows])
        groups = [_group(row.served.deployment.hardware.arch) for row in self.rows]
        self.groups = sorted(set(groups))
        self.group = np.array([self.groups.index(group) for group in groups])
        self.tpot = np.array([row.tpot or np.nan for row in self.rows])
        self.ttft = np.array([row.ttft or np.nan for row in self.rows])
        self.sets = np.array([" ".join(row.label) for row in self.rows])
        counts = Counter(self.sets)
        self.weight = np.array([3 / counts[label] ** 0.25 for label in self.sets])
        self._place()

    def _place(self) -> None:
        """Where each fitted constant stands."""
        self.places: dict[str, slice] = {}
        place = 0
        for name, constant in self.constants.items():
            if not constant.fixed:
                size = {"engine": len(ENGINES), "group": len(self.groups)}.get(constant.by, 1)
                self.places[name] = slice(place, place + size)
                place += size
        self.size = place

    def with_constants(self, constants: Mapping[str, Constant]) -> Fit:
        """The same rows under other constants."""
        other = copy(self)
        other.constants = dict(constants)
        other._place()
        return other

    def start(self) -> Array:
        """The start of every fitted value, in units of its scale."""
        out = np.zeros(self.size)
        for name, place in self.places.items():
            out[place] = self.constants[name].start / self.constants[name].scale
        return out

    def values(self, x: Array) -> dict[str, Array]:
        """Every constant, one value per row."""
        out = {}
        for name, constant in self.constants.items():
            if constant.fixed:
                each = np.array([constant.values.get(engine, constant.start) for engine in ENGINES])
                found = each[self.engine]
            else:
                held = x[self.places[name]] * constant.scale
                which = {"engine": self.engine, "group": self.group}
                found = held[which[constant.by]] if constant.by else np.full(len(self.rows), held[0])
            having = np.isin(self.engine, [ENGINES.index(name) for name in constant.only])
            out[name] = np.where(having, found, 0.0)
        return out

    def value(self, x: Array, name: str, of: str) -> float:
        """A fitted constant, of an engine or of a group of architectures where it differs by those."""
        constant, held = self.constants[name], x[self.places[name]] * self.constants[name].scale
        among = ENGINES if constant.by == "engine" else self.groups
        return float(held[list(among).index(of)] if constant.by else held[0])

    def predict(self, x: Array) -> tuple[Array, Array]:
        """TPOT and TTFT of every row [s]."""
        return self.features.predict(self.values(x))

    def fit(self, chosen: Array, start: Array | None = None, rounds: int = 30, groups: Sequence[str] = FIRST) -> Array:
        """The constants that suit the chosen rows.

        With groups beyond the first, everything but their own constants stays at the start.
        """
        first = self.start() if start is None else start.copy()
        free = np.ones(self.size, bool) if groups == FIRST else np.zeros(self.size, bool)
        for name, place in self.places.items():
            if self.constants[name].by == "group":
                free[place] = [group in groups for group in self.groups]
        low, high = np.zeros(self.size), np.zeros(self.size)
        for name, place in self.places.items():
            constant = self.constants[name]
            low[place], high[place] = constant.low / constant.scale, constant.high / constant.scale
        token, prompt = chosen & np.isfinite(self.tpot), chosen & np.isfinite(self.ttft)
        prior = self.start()
        apart = [place for name, place in self.places.items() if self.constants[name].by == "group"]
        shared = np.array([group in FIRST for group in self.groups])

        def whole(part: Array) -> Array:
            full = first.copy()
            full[free] = part
            return full

        def errors(part: Array) -> Array:
            x = whole(part)
            tpot, ttft = self.predict(x)
            return np.concatenate(
                [
                    np.log(tpot[token] / self.tpot[token]) * self.weight[token] / TPOT_SCALE,
                    np.log(ttft[prompt] / self.ttft[prompt]) * self.weight[prompt] / TTFT_SCALE,
                    PRIOR * (x - prior),
                    *(ALIKE * (x[place] - x[place][shared].mean()) for place in apart),
                ]
            )

        begin = np.clip(first, low + 1e-6, high - 1e-6)[free]
        found = least_squares(errors, begin, bounds=(low[free], high[free]), loss="soft_l1", max_nfev=rounds)
        return whole(np.asarray(found.x))

    def left_out(
        self, chosen: Array, start: Array | None = None, groups: Sequence[str] = FIRST, by: Array | None = None
    ) -> tuple[Array, Array]:
        """TPOT and TTFT of every chosen row, predicted without its set, or without all rows of the same label."""
        labels = self.sets if by is None else by
        tpot, ttft = np.full(len(self.rows), np.nan), np.full(len(self.rows), np.nan)
        for label in sorted(set(labels[chosen])):
            out = labels == label
            found = self.predict(self.fit(chosen & ~out, start, 12, groups))
            tpot[out], ttft[out] = found[0][out], found[1][out]
        return tpot, ttft

    def told(self, x: Array) -> list[str]:
        """Each constant with its value, and whether it stands at a bound."""
        lines = []
        for name, place in self.places.items():
            constant = self.constants[name]
            held = x[place] * constant.scale
            names = {"engine": ENGINES, "group": self.groups}.get(constant.by, ("all",))
            told = []
            for each, value in zip(names, held, strict=True):
                if constant.by == "engine" and each not in constant.only:
                    continue
                edge = min(value - constant.low, constant.high - value) < 0.01 * (constant.high - constant.low)
                told.append(f"{each} {value:.3g}{' AT BOUND' if edge else ''}")
            lines.append(f"  {name:24} {', '.join(told)}")
        return lines


def summary(predicted: Array, seen: Array) -> str:
    """Rows, MAPE / median error and bias in per cent."""
    held = np.isfinite(predicted) & np.isfinite(seen)
    if not held.any():
        return "-"
    ratio = predicted[held] / seen[held]
    error = np.abs(ratio - 1)
    return (
        f"{held.sum():4d} {100 * error.mean():5.1f} /{100 * np.median(error):5.1f} {100 * (np.median(ratio) - 1):+5.1f}"
    )


def rows_of(folder: Path) -> Fit:
    """The collections of public runs, as far as they count: engines with their own kernels."""
    rows = measured([folder / "serving.csv", folder / "serving2.csv", folder / "serving3.csv"])
    own = [row for row in rows if row.counts and not row.served.run.kernels]
    return Fit([row for row in own if row.served.deployment.engine.name in ENGINES])


def chosen_rows(fit: Fit, groups: Sequence[str]) -> Array:
    """Rows that constants are fitted to: public runs and one user alone, on these architectures."""
    runs = [row.served.run for row in fit.rows]
    told = [run.rate is None and (run.source.startswith(TRUSTED) or run.concurrency == 1) for run in runs]
    if groups == LATER:
        told = [each or (run.concurrency or math.inf) <= FEW for each, run in zip(told, runs, strict=True)]
        told = [each and not run.engine_version.startswith(EARLY) for each, run in zip(told, runs, strict=True)]
    card = np.array([fit.groups[index] in groups for index in fit.group])
    return np.array(told) & card


def block(fit: Fit, x: Array) -> str:
    """The constants as tables of a profile; ATOM, whose host is Python too, has those of vLLM."""
    lines = [MARK]
    for engine in (*ENGINES, *LIKE_VLLM):
        of = "vllm" if engine in LIKE_VLLM else engine
        lines += ["", f"[engine.{engine}]"]
        for name, constant in fit.constants.items():
            if name == "cold" or of not in constant.only or constant.by == "group":
                continue
            held = constant.values.get(of, constant.start) if constant.fixed else fit.value(x, name, of)
            lines.append(_line(name, held))
        lines += [_line(name, each.start) for name, each in fit.constants.items() if each.by == "group"]
        for group in (*FIRST, *LATER):
            lines += ["", f"[engine.{engine}.{group}]"]
            if group in ARITHMETIC:
                lines.append(_line("arithmetic", ARITHMETIC[group]))
            lines.append(_line("launches", fit.value(x, "launches", group)))
    return "\n".join(lines) + "\n"


def _line(name: str, value: float) -> str:
    """A constant in the unit that profiles write it in."""
    for suffix, unit in (("_us", 1e-6), ("_ms", 1e-3)):
        if f"{name}{suffix}" in SCALED:
            return f"{name}{suffix} = {value / unit:.3g}"
    return f"{name} = {value:.3g}"


def main() -> None:
    """Fit, judge, print, and write where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("evidence", type=Path)
    parser.add_argument("--write", action="store_true", help="into hardware_profiles/generic.toml")
    options = parser.parse_args()
    fit = rows_of(options.evidence / "serving")
    first, later = chosen_rows(fit, FIRST), chosen_rows(fit, LATER)
    x = fit.fit(first)
    x = fit.fit(later, x, groups=LATER)
    print("\n".join(fit.told(x)))
    if options.write:
        path = data_folder("hardware_profiles") / "generic.toml"
        kept = path.read_text(encoding="utf-8").split(MARK)[0].rstrip()
        path.write_text(f"{kept}\n\n{block(fit, x)}", encoding="utf-8")
    tpot, ttft = fit.predict(x)
    print(f"{'fitted, by set':44}{'TPOT':24}TTFT")
    for label in sorted(set(fit.sets[first | later])):
        own = fit.sets == label
        print(f"{label:44}{summary(tpot[own], fit.tpot[own]):24}{summary(ttft[own], fit.ttft[own])}")


if __name__ == "__main__":
    main()
