"""How far predictions are off: a summary of errors, in fractions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean, median

from chunkcalc.frozen import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Errors of n predictions, as fractions; None where there are none.

    n : predictions [1]
    mape : mean of |predicted / measured - 1| [1]
    median, p90 : of the same [1]
    bias : median of predicted / measured - 1 [1]
    """

    n: int
    mape: float | None = None
    median: float | None = None
    p90: float | None = None
    bias: float | None = None


def summary(ratios: Iterable[float]) -> Summary:
    """The errors of predictions.

    Parameters
    ----------
    ratios : predicted over measured [1]

    Examples
    --------
    >>> summary([0.9, 1.0, 1.3]).median.__round__(6)
    0.1
    """
    held = list(ratios)
    if not held:
        return Summary(n=0)
    off = sorted(abs(ratio - 1) for ratio in held)
    return Summary(n=len(held), mape=fmean(off), median=median(off), p90=quantile(off, 0.9), bias=median(held) - 1)


def quantile(ordered: Sequence[float], q: float) -> float:
    """The value that a share q of ordered values do not exceed.

    Parameters
    ----------
    ordered : values in order, at least one
    q : share, in (0, 1] [1]
    """
    return ordered[min(len(ordered) - 1, max(0, -int(-q * len(ordered) // 1) - 1))]
