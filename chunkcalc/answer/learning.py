"""What somebody's own numbers say of their system: the few factors that a prediction cannot know in advance.

Bayesian least squares over the logarithms of the factors. The shipped profile is the prior, as wide as its predictions
are known to be off; a number moves what it depends on, and what it does not see stays as unsure as it was.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from chunkcalc.records import Deployment


class Factors(NamedTuple):
    """Times over those of the shipped profile [1].

    kernels : of launches, memory traffic and links: what a decode step is made of
    prompts : of arithmetic: what a step full of prompt tokens is made of
    host : of the host's launching
    request : of a request outside its steps
    """

    kernels: float = 1.0
    prompts: float = 1.0
    host: float = 1.0
    request: float = 1.0


# Standard deviations of their logarithms, for systems of which nothing was measured: see benchmarks/measured.py.
PRIOR = Factors(kernels=0.15, prompts=0.25, host=0.4, request=0.7)
LEAST, MOST = 1 / 4, 4.0  # a factor beyond is no property of a system, but another system


class Observation(NamedTuple):
    """A measured number.

    value : measured, in the unit of what predicts it
    predict : the same quantity of a deployment
    spread : standard deviation of the logarithm of what is left between the two once the factors are right [1]
    """

    value: float
    predict: Callable[[Deployment], float]
    spread: float


class Learned(NamedTuple):
    """What numbers taught.

    factors : most likely
    covariance : of their logarithms, in their order
    """

    factors: Factors
    covariance: tuple[tuple[float, ...], ...]


def with_factors(deployment: Deployment, factors: Factors) -> Deployment:
    """The deployment on a system that differs from the shipped profile by factors.

    Parameters
    ----------
    deployment : as the profile has it
    factors : of its times
    """
    each = deployment.engine.overheads
    changed = each.with_host(factors.host)._replace(
        kernels=each.kernels * factors.kernels, prompts=each.prompts * factors.prompts,
        request=each.request * factors.request, prompt_token=each.prompt_token * factors.request,
        latent_request=each.latent_request * factors.request,
    )  # fmt: skip
    return replace(deployment, engine=replace(deployment.engine, overheads=changed))


def _robust(off: float) -> float:
    """A residual that counts in full while it is small, and by its square root once it is far off (soft L1)."""
    return math.copysign(math.sqrt(2 * (math.sqrt(1 + off * off) - 1)), off)


def learn(deployment: Deployment, observations: Sequence[Observation], prior: Factors = PRIOR) -> Learned:
    """The most likely factors of a system.

    Parameters
    ----------
    deployment : as the profile has it
    observations : what was measured on it
    prior : standard deviations of the logarithms of the factors [1]
    """
    import numpy as np  # noqa: PLC0415 - answers without measured numbers need neither
    from scipy.optimize import least_squares  # type: ignore[import-untyped]  # noqa: PLC0415

    width = np.array(prior)

    def residuals(x: Any) -> Any:
        system = with_factors(deployment, Factors(*map(math.exp, x * width)))
        off = [_robust(math.log(each.predict(system) / each.value) / each.spread) for each in observations]
        return np.array([*off, *x])

    limit = np.log(MOST) / width
    found = least_squares(residuals, np.zeros(len(width)), bounds=(-limit, limit), diff_step=0.02, xtol=1e-4, ftol=1e-4)
    covariance = np.linalg.inv(found.jac.T @ found.jac) * np.outer(width, width)
    factors = Factors(*(float(each) for each in np.exp(found.x * width)))
    return Learned(factors, tuple(tuple(float(each) for each in row) for row in covariance))
