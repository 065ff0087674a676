"""Least squares of constants to served latencies, from the shipped values on; what the rows determine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.optimize import least_squares  # type: ignore[import-untyped]

from chunkcalc.scoring.constants import CONSTANTS
from chunkcalc.scoring.features import Array
from chunkcalc.scoring.sample import Sample, errors_of

Mask = np.ndarray[Any, np.dtype[np.bool_]]
TPOT_SCALE, TTFT_SCALE = 0.04, 0.12  # errors that weigh as one
# n configurations of a cluster share what the model gets wrong: they weigh as n^(1 - 2 x 0.35) independent ones.
SHARED = 0.35
EVALUATIONS = 30
FOLDS, DEALS = 5, 3  # parts that are left out in turn, and how often they are dealt anew
LEAST_MOVE = 0.1  # of the spread, below which a constant stays as shipped
DETERMINED, PARTLY = 0.5, 0.8  # range left over the range beforehand, up to which the rows determine a constant
EIGHTY = 1.2816  # standard deviations on either side that hold 80 %
LEAST_MISFIT = 0.4  # of the scales above: rows that fit better than that do so by chance
MEDIAN = 0.6745  # median size of a normal error over its standard deviation


Determined = Literal["yes", "partly", "no"]


class Range(NamedTuple):
    """A constant after a fit.

    value, shipped : in seconds or as a share
    half : half-width of the range that holds it in 80 % of cases
    determined : by the rows rather than by what is believed beforehand: `yes`, `partly` or `no`
    edge : at a bound of its physical range
    moved : away from the shipped value, by a part of its spread that is worth writing down, and by the rows
    beside : the constant that it can be exchanged for, as far as the rows can tell
    """

    value: float
    shipped: float
    half: float
    determined: Determined
    edge: bool
    moved: bool
    beside: str = ""


class _Errors:
    """Weighted logarithmic errors of some runs, as a function of constants in units of their spread."""

    def __init__(self, of: Sample, names: Sequence[str], chosen: Mask) -> None:
        self.of, self.names = of, names
        self.spread = np.array([CONSTANTS[name].spread for name in names])
        self.start = np.array([of.start(name) for name in names]) / self.spread
        low = np.array([CONSTANTS[name].low for name in names]) / self.spread
        high = np.array([CONSTANTS[name].high for name in names]) / self.spread
        self.bounds = np.minimum(low, self.start - 1e-6), np.maximum(high, self.start + 1e-6)
        counts = np.bincount(of.configurations[chosen])
        self.weight = float((counts > 0).sum() ** -SHARED)
        repeats = np.sqrt(counts[np.minimum(of.configurations, len(counts) - 1)].clip(1))
        self.parts = [
            (index, chosen & np.isfinite(seen), seen, self.weight / scale / repeats)
            for index, (seen, scale) in enumerate(((of.tpot, TPOT_SCALE), (of.ttft, TTFT_SCALE)))
        ]

    def values(self, x: Array) -> dict[str, float]:
        """The constants in their own units.

        Parameters
        ----------
        x : constants in units of their spread [1]
        """
        return dict(zip(self.names, (float(each) for each in x * self.spread), strict=True))

    def data(self, x: Array) -> Array:
        """Errors of the latencies.

        Parameters
        ----------
        x : constants in units of their spread [1]
        """
        found = self.of.predict(self.values(x))
        return np.concatenate(
            [np.log(found[index][rows] / seen[rows]) * weight[rows] for index, rows, seen, weight in self.parts]
        )

    def all(self, x: Array) -> Array:
        """Errors of the latencies, and how far the constants are from the shipped ones.

        Parameters
        ----------
        x : constants in units of their spread [1]
        """
        return np.concatenate([self.data(x), x - self.start])


def fit(of: Sample, names: Sequence[str], chosen: Mask | None = None) -> dict[str, float]:
    """The constants that suit runs best, the shipped values being believed as far as their spread."""
    errors = _Errors(of, names, np.ones(len(of.tpot), bool) if chosen is None else chosen)
    low, high = errors.bounds
    begin = np.clip(errors.start, low + 1e-6, high - 1e-6)
    found = least_squares(
        errors.all, begin, bounds=(low, high), loss="soft_l1", f_scale=errors.weight, max_nfev=EVALUATIONS
    )
    return {name: _within(name, value) for name, value in errors.values(np.asarray(found.x)).items()}


def _within(name: str, value: float) -> float:
    """At the bound where the search all but ended there."""
    constant = CONSTANTS[name]
    near = [edge for edge in (constant.low, constant.high) if abs(value - edge) < 0.01 * constant.spread]
    return near[0] if near else value


def ranges(of: Sample, values: Mapping[str, float]) -> dict[str, Range]:
    """What the runs say of each constant, from the Jacobian at the solution, all of them moving together."""
    names = tuple(values)
    errors = _Errors(of, names, np.ones(len(of.tpot), bool))
    x = np.array([values[name] for name in names]) / errors.spread
    here = errors.data(x)
    jacobian = np.array([(errors.data(x + step) - here) / 1e-4 for step in 1e-4 * np.eye(len(x))])
    # Rows that fit worse say less.
    misfit = max(LEAST_MISFIT, float(np.median(np.abs(here))) / errors.weight / MEDIAN)
    covariance = np.linalg.inv(jacobian @ jacobian.T / misfit**2 + np.eye(len(x)))
    deviation = np.sqrt(np.diag(covariance))
    alike = covariance / np.outer(deviation, deviation) + 2 * np.eye(len(x))  # own place never the least
    found = {}
    for index, name in enumerate(names):
        constant, left = CONSTANTS[name], deviation[index]
        other = int(np.argmin(alike[index]))
        found[name] = Range(
            value=values[name], shipped=of.start(name), half=float(EIGHTY * left * constant.spread),
            determined="yes" if left < DETERMINED else "partly" if left < PARTLY else "no",
            edge=min(values[name] - constant.low, constant.high - values[name]) < 0.01 * constant.spread,
            moved=left < PARTLY and abs(values[name] - of.start(name)) > LEAST_MOVE * constant.spread,
            beside=names[other] if left >= DETERMINED and alike[index, other] < -DETERMINED else "",
        )  # fmt: skip
    return found


def held_out(of: Sample, names: Sequence[str], told: Callable[[], None]) -> Array:
    """The errors of every run, predicted by constants fitted to other configurations."""
    every, random = np.unique(of.configurations), np.random.default_rng(0)
    deals = []
    for _ in range(DEALS if len(every) > FOLDS else 1):
        random.shuffle(every)
        predicted = np.full((2, len(of.tpot)), np.nan)
        for part in np.array_split(every, min(FOLDS, len(every))):
            out = np.isin(of.configurations, part)
            predicted[:, out] = of.predict(fit(of, names, ~out))[:, out]
            told()
        deals.append(errors_of(of, predicted))
    return np.asarray(np.mean(deals, axis=0))


def parts(of: Sample) -> int:
    """How many fits it takes to hold every run out."""
    many = len(np.unique(of.configurations))
    return FOLDS * DEALS if many > FOLDS else many
