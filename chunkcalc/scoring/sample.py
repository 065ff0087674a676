"""Runs as arrays, and their latencies under constants that differ from the shipped ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from chunkcalc.frozen import dataclass
from chunkcalc.scoring.constants import CONSTANTS, ENGINES_OWN
from chunkcalc.scoring.features import Array, Features, Row
from chunkcalc.scoring.usable import Usable

LEAST_EFFECT = 1e-5  # of a constant's spread on any latency, below which the rows have no part in it


@dataclass(frozen=True)
class Sample:
    """Runs as arrays.

    features : of the runs
    shipped : every constant, a value per run
    tpot, ttft : measured; not a number where it is not known [s]
    configurations : number of each run's configuration
    correction : exact prediction over that of the features, by TPOT and TTFT
    """

    features: Features
    shipped: Mapping[str, Array]
    tpot: Array
    ttft: Array
    configurations: Array
    correction: Array

    def predict(self, values: Mapping[str, float]) -> Array:
        """TPOT and TTFT of every run [s]."""
        moved = {name: np.full(len(self.tpot), value) for name, value in values.items()}
        return np.array(self.features.predict({**self.shipped, **moved})) * self.correction

    def start(self, name: str) -> float:
        """The shipped value of a constant."""
        return float(self.shipped[name][0])


def sample(rows: Sequence[Usable]) -> Sample:
    """Arrays of runs, exact at the shipped constants."""
    load = []
    for row in rows:
        ranks = row.served.deployment.parallelism.dp
        users = max(1.0, row.served.bench.users / ranks - row.loop.waiting / ranks)
        load.append(Row(row.served, max(1.0, row.loop.decoding / ranks), users))
    features = Features(load)
    every = [row.served.deployment.engine.overheads for row in rows]
    shipped = {name: np.array([getattr(each, name) for each in every]) for name in every[0]._fields}
    # The cold start's factor is in the correction; arithmetic is told relative to the deployment's.
    shipped |= {"arithmetic": np.ones(len(rows)), "cold": features.cold}
    exact = np.array([[row.loop.tpot, row.loop.ttft] for row in rows]).T
    names = {name: index for index, name in enumerate(sorted({row.configuration for row in rows}, key=str))}
    return Sample(
        features, shipped,
        np.array([row.tpot or np.nan for row in rows]), np.array([row.ttft or np.nan for row in rows]),
        np.array([names[row.configuration] for row in rows]), exact / np.array(features.predict(shipped)),
    )  # fmt: skip


def present(of: Sample, names: Sequence[str]) -> tuple[str, ...]:
    """Those constants that have a part in some run."""
    base, found = of.predict({}), []
    for name in names:
        start, constant = of.start(name), CONSTANTS[name]
        if name in ENGINES_OWN and not start:
            continue
        there = start + constant.spread if start + constant.spread <= constant.high else start - constant.spread
        if np.nanmax(np.abs(of.predict({name: there}) / base - 1)) > LEAST_EFFECT:
            found.append(name)
    return tuple(found)


def errors_of(of: Sample, predicted: Array) -> Array:
    """Size of the relative errors, by TPOT and TTFT and run; not a number where nothing was measured.

    Parameters
    ----------
    of : the runs
    predicted : of every run [s]
    """
    return np.asarray(np.abs(predicted / np.array([of.tpot, of.ttft]) - 1))
