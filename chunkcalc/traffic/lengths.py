"""Prompts of unequal length: one lognormal, by its mean and its 95th percentile."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # 5 ms that closed forms need not
    from random import Random

P95 = 1.6449  # standard deviations of a normal distribution
PARTS = 200  # of a distribution of lengths


def variation(mean: float, p95: float | None) -> float:
    """The coefficient of variation of a lognormal with this mean and 95th percentile.

    Parameters
    ----------
    mean : of the length [token]
    p95 : its 95th percentile; None where all are alike [token]

    Returns
    -------
    C [1]

    Examples
    --------
    >>> variation(4000, None), round(variation(4000, 9000), 2)
    (0.0, 0.66)
    """
    if p95 is None or p95 <= mean:
        return 0.0
    sigma = P95 - math.sqrt(max(0.0, P95 * P95 - 2 * math.log(p95 / mean)))
    return math.sqrt(math.expm1(sigma * sigma))


def deviation(C: float) -> float:
    """The standard deviation of the logarithm of a lognormal.

    Parameters
    ----------
    C : its coefficient of variation [1]

    Returns
    -------
    sigma [1]
    """
    return math.sqrt(math.log1p(C * C))


def draw(draws: Random, mean: float, C: float) -> int:
    """A length.

    Parameters
    ----------
    draws : where chance comes from
    mean : of the lengths [token]
    C : their coefficient of variation; 0 where all are alike [1]

    Returns
    -------
    length, at least one [token]
    """
    if not C:
        return round(mean)
    sigma = deviation(C)
    return max(1, round(mean * draws.lognormvariate(-sigma * sigma / 2, sigma)))


@cache
def parts(C: float, count: int = PARTS) -> list[float]:
    """Lengths of equal weight, in parts of their mean.

    Parameters
    ----------
    C : coefficient of variation [1]
    count : how many [1]
    """
    from statistics import NormalDist  # noqa: PLC0415 - 10 ms that a lone step needs not

    sigma = deviation(C)
    normal = NormalDist(-sigma * sigma / 2, sigma)
    return [math.exp(normal.inv_cdf((index + 0.5) / count)) for index in range(count)]
