"""What somebody's own numbers say of their system: the few factors that a prediction cannot know in advance.

Bayesian least squares over the logarithms of the factors. The shipped profile is the prior, as wide as its predictions
are known to be off; a number moves what it depends on, and what it does not see stays as unsure as it was.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from chunkcalc.records import Deployment, Overheads
from chunkcalc.time.step import StepTimer


class Factors(NamedTuple):
    """Times over those of the shipped profile [1].

    kernels : of launches, memory traffic and links: what a decode step is made of
    prompts : of arithmetic: what a step full of prompt tokens is made of
    host : of the host's launching
    request : of a request outside its steps
    sequence : of sampling and bookkeeping per decode of a step
    """

    kernels: float = 1.0
    prompts: float = 1.0
    host: float = 1.0
    request: float = 1.0
    sequence: float = 1.0


LINEAR = frozenset(("sequence",))  # a time so small that it may grow a thousandfold: itself varies, not its logarithm
# Standard deviations of their logarithms, for systems of which nothing was measured: those of a few with which the
# other rows of 150 public sets came out best (benchmarks/measured.py); that of the host lies within `host_spread`, that
# of a sequence is not calibrated.
PRIOR = Factors(kernels=0.15, prompts=0.25, host=0.4, request=0.7, sequence=0.5)
# The same on hardware whose kernels nobody measured, not calibrated: wide enough for the processor of
# benchmarks/real_engine.py, whose peaks say little of what it reaches.
WIDE = Factors(kernels=0.8, prompts=0.8, host=0.8, request=1.0, sequence=500.0)
FAR = 3.0  # standard deviations from which on a number counts less (soft L1): another cause is likelier then
ROUNDS, CLOSE = 8, 1e-3  # of linearising; standard deviations by which the factors still move
NUDGE = 0.05  # standard deviations, for slopes
MOST = 6.0  # standard deviations that a factor moves at most


class Observation(NamedTuple):
    """A measured number.

    value : measured, in the unit of what predicts it
    predict : the same quantity, by the factors of the system
    spread : standard deviation of the logarithm of what is left between the two once the factors are right [1]
    """

    value: float
    predict: Callable[[Factors], float]
    spread: float


class Learned(NamedTuple):
    """What numbers taught.

    factors : most likely
    covariance : in standard deviations of the prior, in their order
    """

    factors: Factors
    covariance: tuple[tuple[float, ...], ...]


def factors_at(x: Sequence[float], prior: Factors) -> Factors:
    """Factors by how many standard deviations they are off the shipped profile.

    Parameters
    ----------
    x : standard deviations of each [1]
    prior : how large each is
    """
    moved = zip(Factors._fields, x, prior, strict=True)
    return Factors(*(max(0.0, 1 + w * v) if name in LINEAR else math.exp(w * v) for name, v, w in moved))


def deviations(factors: Factors, prior: Factors) -> list[float]:
    """The inverse of `factors_at`.

    Parameters
    ----------
    factors : of a system
    prior : standard deviations
    """
    given = zip(Factors._fields, factors, prior, strict=True)
    return [(each - 1) / w if name in LINEAR else math.log(each) / w for name, each, w in given]


def with_factors(deployment: Deployment, factors: Factors) -> Deployment:
    """The deployment on a system that differs from the shipped profile by factors.

    Parameters
    ----------
    deployment : as the profile has it
    factors : of its times
    """
    changed = scaled(deployment.engine.overheads, factors)
    return replace(deployment, engine=replace(deployment.engine, overheads=changed))


def scaled(each: Overheads, factors: Factors) -> Overheads:
    """The overheads of an engine on a system that differs from the shipped profile by factors.

    Parameters
    ----------
    each : as the profile has them
    factors : of its times
    """
    return each.with_host(factors.host)._replace(
        kernels=each.kernels * factors.kernels, prompts=each.prompts * factors.prompts,
        request=each.request * factors.request, prompt_token=each.prompt_token * factors.request,
        latent_request=each.latent_request * factors.request, sequence=each.sequence * factors.sequence,
    )  # fmt: skip


def prior_for(timer: StepTimer) -> Factors:
    """How unsure the factors of a deployment's system are before anything was measured on it.

    Parameters
    ----------
    timer : of the deployment
    """
    return WIDE if timer.uncalibrated else PRIOR


def learn(observations: Sequence[Observation], prior: Factors = PRIOR) -> Learned:
    """The most likely factors of a system.

    Predictions are taken as linear in the logarithms about the factors of the last round: few of them are computed.

    Parameters
    ----------
    observations : what was measured on it
    prior : standard deviations of the logarithms of the factors [1]
    """
    import numpy as np  # noqa: PLC0415 - answers without measured numbers need neither
    from scipy.optimize import least_squares  # type: ignore[import-untyped]  # noqa: PLC0415

    x = np.zeros(len(prior))
    measured = np.array([math.log(each.value) for each in observations])
    spread = np.array([each.spread for each in observations])
    least = [-1 / width if name in LINEAR else -MOST for name, width in zip(Factors._fields, prior, strict=True)]

    def off(moved: Any, x: Any, here: Any, slopes: Any) -> Any:
        far = (here + slopes @ (moved - x) - measured) / spread
        # sqrt(2 (sqrt(1 + z^2) - 1)) with z = far / FAR, written so that it keeps its slope at nothing.
        return np.concatenate([math.sqrt(2) * far / np.sqrt(np.sqrt(1 + (far / FAR) ** 2) + 1), moved])

    for _ in range(ROUNDS):
        here, slopes = logarithms(observations, list(x), prior)
        about = (x, np.array(here), np.array(slopes).reshape(len(here), len(prior)))
        found = least_squares(off, x, bounds=(np.array(least) - CLOSE, MOST), args=about)
        step, x = np.abs(found.x - x).max(), found.x
        if step < CLOSE:
            break
    seen = found.jac[: len(observations)]  # the other rows are the prior's
    return Learned(factors_at([float(each) for each in x], prior), covariance_of(seen))


def covariance_of(seen: Any) -> tuple[tuple[float, ...], ...]:
    """Covariance of the factors after observations, in standard deviations of the prior.

    Parameters
    ----------
    seen : a row for each: its slopes over these, in units of how exact it is
    """
    import numpy as np  # noqa: PLC0415

    size = len(Factors._fields)
    rows = np.array(seen, dtype=float).reshape(-1, size)
    found = np.linalg.inv(np.eye(size) + rows.T @ rows)
    return tuple(tuple(float(each) for each in row) for row in found)


def logarithms(
    observations: Sequence[Observation], x: Sequence[float], prior: Factors
) -> tuple[list[float], list[list[float]]]:
    """Logarithms of what is predicted, and their slopes over the standard deviations of the factors.

    Parameters
    ----------
    observations : whose predictions are wanted
    x : standard deviations of each factor [1]
    prior : how large each is
    """
    at = factors_at(x, prior)
    here = [math.log(each.predict(at)) for each in observations]
    ahead = []
    for place in range(len(x)):
        moved = factors_at([each + NUDGE * (index == place) for index, each in enumerate(x)], prior)
        ahead.append([math.log(each.predict(moved)) for each in observations])
    return here, [[(row[place] - base) / NUDGE for row in ahead] for place, base in enumerate(here)]
