"""Waiting for the prefill: at a rate of arrivals, or with a number of users that each wait for an answer.

A prompt holds the prefill for its whole steps S, decodes included. Where a step has room for k
prompts they are served k at a time. All functions are of one attention rank.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from chunkcalc.traffic.lengths import parts

FULL = 0.999  # utilisation from which the wait is taken as without bound
HALVINGS = 40
LARGEST_ERROR = 2.0  # half-width of the error of a wait: beyond, it says nothing
MOST_STEPS = 500  # of the recursion over users: beyond, several join at a time


def mean_wait(rate: float, S: float, k: float = 1.0, C: float = 0.0) -> float:
    """Mean wait of a request before its first step.

    Parameters
    ----------
    rate : of arrivals [request/s]
    S : time for which a prompt, or a step with k of them, holds the prefill [s]
    k : prompts that a step takes together [1]
    C : coefficient of variation of S [1]

    Returns
    -------
    wait; infinite where the queue has no steady state [s]

    Notes
    -----
    M/G/1 (Pollaczek-Khinchine) for k = 1; for more, Sakasegawa's approximation of k servers, exact
    at k = 1.

    Examples
    --------
    >>> mean_wait(1.0, 0.5)
    0.25
    """
    rho = rate * S / k
    if rho >= FULL:
        return math.inf
    if rho <= 0:
        return 0.0
    return (1 + C * C) / 2 * chance_to_wait(rho, k) / (k * (1 - rho)) * S


def chance_to_wait(rho: float, k: float) -> float:
    """The chance that a request waits at all.

    Parameters
    ----------
    rho : utilisation [1]
    k : servers, or places [1]

    Returns
    -------
    chance [1]

    Notes
    -----
    Sakasegawa, Ann. Inst. Statist. Math. 29 (1977): rho^(sqrt(2 (k + 1)) - 1).

    Examples
    --------
    >>> chance_to_wait(0.5, 1), chance_to_wait(0.5, 7)
    (0.5, 0.125)
    """
    return float(rho ** (math.sqrt(2 * (k + 1)) - 1))


def wait_error(e: float, rho: float) -> float:
    """The error of a wait that follows from one of the steps: near a full prefill it says nothing.

    Parameters
    ----------
    e : half-width of the error of a step's time, as a fraction [1]
    rho : utilisation [1]

    Returns
    -------
    half-width of the error, as a fraction: e / (1 - rho), at most `LARGEST_ERROR` [1]

    Examples
    --------
    >>> wait_error(0.25, 0.5), wait_error(0.25, 0.95)
    (0.5, 2.0)
    """
    return min(LARGEST_ERROR, e / max(1e-3, 1 - rho))


def waited_error(own: float, waiting: float, share: float) -> float:
    """The error of a time of which a share is waiting.

    Parameters
    ----------
    own, waiting : half-widths of the errors of the time without its wait, and of the wait, as fractions [1]
    share : of the wait in the time [1]

    Returns
    -------
    half-width of the error, as a fraction [1]

    Examples
    --------
    >>> waited_error(0.5, 1.5, 0.25), waited_error(0.5, 0.25, 0.25)
    (0.75, 0.5)
    """
    return own + max(0.0, waiting - own) * share


def wait_quantile(wait: float, rho: float, q: float) -> float:
    """A quantile of the wait: no wait with chance 1 - rho, else exponential.

    Parameters
    ----------
    wait : mean wait [s]
    rho : utilisation [1]
    q : which quantile, such as 0.95 [1]

    Returns
    -------
    wait [s]

    Examples
    --------
    >>> wait_quantile(1.0, 0.5, 0.4), round(wait_quantile(1.0, 0.5, 0.95), 3)
    (0.0, 4.605)
    """
    if rho <= 0 or q <= 1 - rho:
        return 0.0
    return wait / rho * math.log(rho / (1 - q))


def sum_quantile(wait: float, rho: float, own: float, C: float, q: float) -> float:
    """A quantile of the wait and a time of one's own that is lognormal.

    Parameters
    ----------
    wait : mean wait [s]
    rho : utilisation [1]
    own : mean time of one's own prompt [s]
    C : its coefficient of variation [1]
    q : which quantile, such as 0.95 [1]

    Returns
    -------
    time [s]

    Examples
    --------
    >>> sum_quantile(0.0, 0.5, 2.0, 0.0, 0.9), round(sum_quantile(0.0, 0.5, 2.0, 0.5, 0.5), 2)
    (2.0, 1.78)
    """
    if not C:
        return own + wait_quantile(wait, rho, q)
    owns = [own * length for length in parts(C)]
    low, high = 0.0, max(owns) + wait_quantile(wait, rho, max(q, 0.5)) + own
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        below = sum(_waited_less(wait, rho, middle - each) for each in owns) / len(owns)
        low, high = (middle, high) if below < q else (low, middle)
    return high


def _waited_less(wait: float, rho: float, time: float) -> float:
    """The share of requests that wait less than a time."""
    if time < 0:
        return 0.0
    return 1 - rho * math.exp(-time * rho / wait) if wait > 0 else 1.0


class Closed(NamedTuple):
    """A closed loop in its steady state.

    wait : mean wait before the first step [s]
    rate : requests that finish [request/s]
    decoding : requests that decode [1]
    busy : share of the time that the prefill is held [1]
    """

    wait: float
    rate: float
    decoding: float
    busy: float


def closed_loop(N: int, S: float, D: float, k: float = 1.0) -> Closed:
    """Users that each send their next request when the last is answered: mean-value analysis.

    Parameters
    ----------
    N : users [1]
    S : time for which a prompt, or a step with k of them, holds the prefill [s]
    D : time of a request outside the prefill, its decodes [s]
    k : prompts that a step takes together [1]

    Returns
    -------
    wait, rate, decoding requests, utilisation

    Notes
    -----
    Reiser and Lavenberg (J. ACM 27, 1980): a request that arrives meets the queue of N - 1 others;
    of the one in service half is left, because prompts take a fixed time.

    Examples
    --------
    >>> one = closed_loop(1, 0.5, 2.0)
    >>> one.wait, one.rate, one.decoding
    (0.0, 0.4, 0.8)
    """
    queue = busy = rate = 0.0
    stride, others = math.ceil(N / MOST_STEPS), max(0.0, k - 1)
    own, rest, fastest = S / k, S + D, k / S if S > 0 else math.inf
    for n in range(N - (N - 1) // stride * stride, N + 1, stride):
        ahead = queue - others if queue > others else 0.0
        left = busy if busy < ahead else ahead
        time = own * (ahead - left / 2) + rest
        if n < fastest * time:
            rate = n / time
            busy = rate * own
        else:
            rate, busy = fastest, 1.0
        queue = n - rate * D
    wait = N / rate - rest
    return Closed(wait, rate, rate * D, busy)
