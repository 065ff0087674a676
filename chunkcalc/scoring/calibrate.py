"""A hardware profile fitted to benchmark results: which constants move, by cross-validation, and how far."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from chunkcalc.errors import ChunkcalcError
from chunkcalc.frozen import dataclass
from chunkcalc.progress import Progress, silent
from chunkcalc.records import Hardware
from chunkcalc.scoring.constants import CHOICES, key
from chunkcalc.scoring.features import Array
from chunkcalc.scoring.fitting import Range, fit, held_out, parts, ranges
from chunkcalc.scoring.sample import Sample, errors_of, present, sample
from chunkcalc.scoring.served import Servers
from chunkcalc.scoring.usable import Usable
from chunkcalc.traffic.closed_loop import closed_loop

MOST_WORSE = 0.005  # by which held-out rows may get worse, with CAUTION standard errors to spare
CAUTION = 1.5
LATENCIES_EACH = 2  # per constant, over different configurations
LEAST_GAIN = 0.02  # of the logarithm of both errors, for more constants
DESCRIBED = 0.35  # median error of held-out rows, up to which a fit says something of a latency
HOPELESS = 0.5  # the same, beyond which rows are not those of the deployment that was named
DIGITS = 3  # that a profile holds


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """Mean size of relative errors, of TPOT and TTFT; None where nothing was measured [1]."""

    tpot: float | None
    ttft: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """What a calibration found.

    base : the GPU that was calibrated
    engine, versions : as the rows say
    rows : the runs that count
    configurations : different ones among them [1]
    choice : which constants moved, a key of `CHOICES`; "" where the shipped ones predict as well
    constants : of the choice; without one, the two overheads at their shipped values
    kept : further constants that have a part in the rows
    before, held_out, after : errors with the shipped constants, of rows predicted without their
        configuration, and of all rows with the fitted constants
    """

    base: Hardware
    engine: str
    versions: tuple[str, ...]
    rows: tuple[Usable, ...]
    configurations: int
    choice: str
    constants: Mapping[str, Range]
    kept: tuple[str, ...]
    before: Errors
    held_out: Errors
    after: Errors

    @property
    def values(self) -> dict[str, float]:
        """The constants that moved, in seconds or as shares."""
        return {name: each.value for name, each in self.constants.items() if self.choice and each.moved}


def calibrate(rows: Sequence[Usable], base: Hardware, progress: Progress = silent) -> Calibrated:
    """Fit a GPU's constants to runs.

    Returns
    -------
    what was found; without a choice where no fit predicts better than the shipped constants

    Raises
    ------
    ChunkcalcError : too few rows, or rows that the model does not describe
    """
    configurations = len({row.configuration for row in rows})
    if configurations < 2:
        told = "one usable row" if len(rows) == 1 else f"{len(rows)} usable rows of one configuration"
        hint = "measure at least two: say a concurrency of 1 and of 64"
        raise ChunkcalcError(f"{told if rows else 'no usable row'} cannot be fitted and checked", "rows", hint)
    of = sample(rows)
    choice, names, out = _chosen(of, progress)
    values = _settled(of, rows, base, names) if choice else {}
    before, after = errors_of(of, of.predict({})), exact_errors(rows, base, values)
    if not values or _worse(before, after):
        choice, names, values, after, out = "", present(of, CHOICES["overheads"]), {}, before, before
    _check_described(out)
    every = present(of, CHOICES["all"])
    tried = {name: values.get(name, of.start(name)) for name in names}
    return Calibrated(
        base=base, engine=rows[0].served.deployment.engine.name,
        versions=tuple(sorted({row.served.run.engine_version for row in rows} - {""})), rows=tuple(rows),
        configurations=configurations, choice=choice, constants=ranges(of, tried),
        kept=tuple(name for name in every if name not in tried),
        before=_means(before), held_out=_means(out), after=_means(after),
    )  # fmt: skip


def _chosen(of: Sample, progress: Progress) -> tuple[str, tuple[str, ...], Array]:
    """The choice of constants that predicts held-out rows best without harm, and their errors."""
    done, total = 0, parts(of) * len(CHOICES)

    def told() -> None:
        nonlocal done
        done += 1
        progress(done, total)

    shipped = errors_of(of, of.predict({}))
    best: tuple[str, tuple[str, ...], Array] = ("", (), shipped)
    least = -LEAST_GAIN
    before = _by_configuration(of, shipped)
    tried, latencies = set(), int(np.isfinite(before).sum())
    for choice, wanted in CHOICES.items():
        names = present(of, wanted)
        if not names or names in tried or len(names) * LATENCIES_EACH > latencies:
            continue
        tried.add(names)
        out = held_out(of, names, told)
        gain = _gain(before, _by_configuration(of, out))
        if gain is not None and gain < least:
            best, least = (choice, names, out), gain - LEAST_GAIN
    progress(total, total)
    return best


def _by_configuration(of: Sample, errors: Array) -> Array:
    """Mean errors of each configuration: repeats tell the same once more."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a configuration without one of the two latencies
        every = [np.nanmean(errors[:, of.configurations == each], axis=1) for each in np.unique(of.configurations)]
    return np.array(every).T


def _gain(before: Array, after: Array) -> float | None:
    """Logarithm of the errors' ratio, summed over TPOT and TTFT; None where one may get worse or is not described."""
    total = 0.0
    for old, new in zip(before, after, strict=True):
        known = np.isfinite(old) & np.isfinite(new)
        if not known.any():
            continue
        if np.median(new[known]) > DESCRIBED:
            return None
        change = (new - old)[known]
        unsure = change.std(ddof=1) / len(change) ** 0.5 if len(change) > 1 else abs(float(change[0]))
        if change.mean() + CAUTION * unsure > MOST_WORSE:
            return None
        total += float(np.log(new[known].mean() / max(1e-9, old[known].mean())))
    return total


def _settled(of: Sample, rows: Sequence[Usable], base: Hardware, names: Sequence[str]) -> dict[str, float]:
    """The constants, found a second time from where the features are exact, as a profile writes them."""
    first = fit(of, names)
    names = [name for name, each in ranges(of, first).items() if each.moved]
    exact = np.array([[each.tpot, each.ttft] for each in _loops(rows, base, first)]).T
    there = replace(of, correction=of.correction * exact / of.predict(first))
    return {name: _rounded(name, value) for name, value in fit(there, names).items()}


def _rounded(name: str, value: float) -> float:
    unit = key(name)[1]
    return float(f"{value / unit:.{DIGITS}g}") * unit


def calibrated_hardware(base: Hardware, engine: str, values: Mapping[str, float]) -> Hardware:
    """The GPU with fitted constants."""
    return replace(base, overheads={**base.overheads, engine: base.overheads[engine]._replace(**values)})


def _loops(rows: Sequence[Usable], base: Hardware, values: Mapping[str, float]) -> list[Errors]:
    """TPOT and TTFT of every run with these constants, as `closed_loop.py` has them [s]."""
    servers = Servers(calibrated_hardware(base, rows[0].served.deployment.engine.name, values))
    out = []
    for row in rows:
        served = servers.served(row.served.run)
        loop = closed_loop(served.timer, served.bench)
        out.append(Errors(tpot=loop.tpot, ttft=loop.ttft))
    return out


def exact_errors(rows: Sequence[Usable], base: Hardware, values: Mapping[str, float]) -> Array:
    """Size of the relative errors of runs with these constants, by TPOT and TTFT.

    Parameters
    ----------
    rows : the runs
    base : the GPU as shipped
    values : constants that differ from it, in seconds or as shares
    """
    seen = np.array([[row.tpot or np.nan, row.ttft or np.nan] for row in rows]).T
    found = np.array([[each.tpot, each.ttft] for each in _loops(rows, base, values)], float).T
    return np.asarray(np.abs(found / seen - 1))


def _means(errors: Array) -> Errors:
    tpot, ttft = (float(np.nanmean(row)) if np.isfinite(row).any() else None for row in errors)
    return Errors(tpot=tpot, ttft=ttft)


def _worse(before: Array, after: Array) -> bool:
    """Whether either of the errors grew beyond what is allowed."""
    pairs = [(old, new) for old, new in zip(before, after, strict=True) if np.isfinite(old).any()]
    return any(np.nanmean(new) > np.nanmean(old) + MOST_WORSE for old, new in pairs)


def _check_described(errors: Array) -> None:
    """Refuse rows that the model does not describe, with or without a fit."""
    tpot = errors[0][np.isfinite(errors[0])]
    if len(tpot) and np.median(tpot) > HOPELESS:
        problem = f"the rows do not support a fit: TPOT of rows left out of it is off by {100 * np.median(tpot):.0f}%"
        hint = "check --model, --tp, --weights and --budget; speculative decoding and queues are not fitted"
        raise ChunkcalcError(problem, "rows", hint)
