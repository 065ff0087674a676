"""Least squares inside physical bounds that says what the measurements do not determine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import least_squares

TOLERANCE = 0.1  # residual beyond which a row counts less than its square
UNDETERMINED = 0.5  # relative standard error above which a constant is not shipped as fitted


class Constant(NamedTuple):
    """A constant of a form: where the search starts, its physical range, and the value that says
    nothing (no such cost; a sharp knee), for a table that does not determine it."""

    start: float
    low: float
    high: float
    neutral: float = 0.0


class Fit(NamedTuple):
    """Constants of a form, and how well they hold.

    errors : predicted / measured - 1 of every row [1]
    held_out : the same, each row predicted by constants fitted to other shapes [1]
    remarks : constants that the table does not determine, and where they were put
    """

    values: Mapping[str, float]
    errors: Any
    held_out: Any
    remarks: tuple[str, ...]


def settled(
    constants: Mapping[str, Constant], time: Any, shape: Any, model: Callable[[Mapping[str, float], Any], Any]
) -> Fit:
    """A fit in which no constant sits at a bound by itself: such ones, and those that the rows do
    not determine, are fixed at a physical value and the others found again.

    Parameters
    ----------
    constants : what to find
    time : measured [s]
    shape : rows with the same number are held out together
    model : constants and a mask of rows -> times of these rows [s]
    """
    fixed = {name: constant.low for name, constant in constants.items() if constant.low == constant.high}
    remarks = [f"{name} not measured, set to {value:g}" for name, value in fixed.items()]
    everything = np.ones(len(time), bool)

    def search(rows: Any) -> tuple[dict[str, float], dict[str, float]]:
        free = {name: constant for name, constant in constants.items() if name not in fixed}
        found, errors = least(free, time[rows], lambda values: model({**values, **fixed}, rows))
        return {name: {**found, **fixed}[name] for name in constants}, errors

    values, errors = search(everything)
    while (loose := next(undetermined(values, errors, constants), None)) is not None:
        name, fixed[name], remark = loose
        remarks.append(remark)
        values, errors = search(everything)
    held_out = np.empty(len(time))
    for part in halves(shape):
        held_out[part] = model(search(~part)[0], part) / time[part] - 1
    return Fit(values, model(values, everything) / time - 1, held_out, tuple(remarks))


def undetermined(
    values: Mapping[str, float], errors: Mapping[str, float], constants: Mapping[str, Constant]
) -> Iterator[tuple[str, float, str]]:
    """Constants at a bound or not determined: name, physical value, remark.

    Parameters
    ----------
    values : constants found
    errors : relative standard error of those that were free [1]
    constants : their ranges
    """
    for name, error in errors.items():
        constant = constants[name]
        near = 0.002 * (constant.high - constant.low)
        for bound in (constant.low, constant.high):
            if abs(values[name] - bound) < near:
                yield name, bound, f"{name} at its bound {bound:.3g}"
        if error > UNDETERMINED:
            yield name, constant.neutral, f"{name} not determined (+-{100 * error:.0f} %), set to {constant.neutral:g}"


def least(
    constants: Mapping[str, Constant], time: Any, model: Callable[[Mapping[str, float]], Any]
) -> tuple[dict[str, float], dict[str, float]]:
    """Robust least squares on the logarithm of the time.

    Parameters
    ----------
    constants : what to find
    time : measured [s]
    model : constants -> times [s]

    Returns
    -------
    the constants, and the relative standard error of each
    """
    low, high = (np.array([getattr(constant, side) for constant in constants.values()]) for side in ("low", "high"))
    width, start = high - low, np.array([constant.start for constant in constants.values()])

    def residuals(share: Any) -> Any:
        return np.log(model(dict(zip(constants, (low + share * width).tolist(), strict=True))) / time)

    found = least_squares(residuals, (start - low) / width, bounds=(0, 1), loss="soft_l1", f_scale=TOLERANCE)
    values = low + found.x * width
    variance = 2 * found.cost / max(1, len(time) - len(constants))
    spread = np.sqrt(np.diag(np.linalg.pinv(found.jac.T @ found.jac)) * variance) * width
    spread[np.abs(found.jac).max(axis=0) < 1e-9] = np.inf  # without any effect on these rows
    errors = spread / np.maximum(np.abs(values), 1e-3 * width)
    return dict(zip(constants, values.tolist(), strict=True)), dict(zip(constants, errors.tolist(), strict=True))


def halves(shape: Any) -> list[Any]:
    """Two masks that split the shapes, each shape whole.

    Parameters
    ----------
    shape : number of the shape of each row
    """
    known = np.unique(shape)
    half = np.isin(shape, np.random.default_rng(0).permutation(known)[: len(known) // 2])
    return [half, ~half]
