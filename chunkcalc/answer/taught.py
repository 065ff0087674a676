"""A deployment after its user's own numbers: what they teach, how sure it makes an answer, and what they leave open."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from chunkcalc.answer.learning import (
    FAR,
    PRIOR,
    Factors,
    Learned,
    Observation,
    deviations,
    learn,
    logarithms,
    prior_for,
    with_factors,
)
from chunkcalc.answer.measured import KV, KV_BYTES, WHERE, Number, kv_shift, observation, step_budget
from chunkcalc.errors import ChunkcalcError
from chunkcalc.frozen import dataclass
from chunkcalc.records import Band, Deployment, Workload
from chunkcalc.time.prefill import Prefill
from chunkcalc.time.service import request_overhead
from chunkcalc.time.step import StepTimer, timer_for
from chunkcalc.units import format_bytes, format_count, format_duration

SLIP = 4.0  # times what is predicted, from which on a number is a slip of the pen or of another system
# What is left of the logarithms once the factors are right: with these the narrowed bands of 150 public sets hold 80 %
# of the rows that were not given (benchmarks/measured.py); the gap's is not calibrated, and taken as that of TTFT.
LEFT = Band(tpot=0.06, ttft=0.13, gap=0.13)
RATES = ("prefill", "output")


class Told(NamedTuple):
    """A number, and what is predicted for it.

    number : as measured
    before, after : predicted with the shipped profile, and with what was learned, in the number's unit
    explained : a factor within its range explains it
    """

    number: Number
    before: float
    after: float
    explained: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Taught:
    """What numbers taught of a deployment.

    of : the deployment that they were measured on, as the profile has it
    factors : of its times
    narrowed : half-widths of the errors over those of the profile [1]
    kv_shift : memory of a GPU for the KV cache beyond what is predicted [byte]
    numbers : with their predictions
    """

    of: Deployment
    factors: Factors
    narrowed: Band
    kv_shift: float
    numbers: tuple[Told, ...]

    def applied(self, deployment: Deployment) -> Deployment:
        """A deployment as the numbers have it; unchanged on another GPU or under another engine.

        Parameters
        ----------
        deployment : as the profile has it
        """
        of = self.of
        if deployment.hardware.id != of.hardware.id or deployment.engine.name != of.engine.name:
            return deployment
        changed = with_factors(deployment, self.factors)
        same = (deployment.parallelism, deployment.precision.weights) == (of.parallelism, of.precision.weights)
        if not same:  # the same system under another layout: its factors are likely, and no more
            return changed
        engine = replace(changed.engine, kv_shift=self.kv_shift)
        return replace(changed, engine=engine, narrowed=self.narrowed)


def teach(deployment: Deployment, workload: Workload, numbers: Sequence[Number], budget: int | None) -> Taught:
    """What numbers teach of the deployment that they were measured on.

    Parameters
    ----------
    deployment : as the profile has it
    workload : of the question, for conditions that they leave out
    numbers : measured
    budget : tokens of a step of a rank, of the question; None for the engine's default [token]

    Raises
    ------
    ChunkcalcError : a number that is far from anything that is predicted
    """
    timed = [
        (each, observation(each, deployment, workload, budget)) for each in numbers if each.name not in (KV, KV_BYTES)
    ]
    before = [one.predict(Factors()) for _, one in timed]
    for (number, one), predicted in zip(timed, before, strict=True):
        _check(number, one.value, predicted)
    prior = prior_for(timer_for(deployment))
    learned = learn([one for _, one in timed], prior)
    told = [
        _told(number, one, first, one.predict(learned.factors))
        for (number, one), first in zip(timed, before, strict=True)
    ]
    shift = 0.0
    for number in numbers:
        if number.name in (KV, KV_BYTES):
            predicted, shift = kv_shift(number, deployment, workload, budget)
            _check(number, number.value, predicted)
            told.append(Told(number, predicted, number.value, explained=True))
    return Taught(
        of=deployment, factors=learned.factors, narrowed=narrowed(deployment, workload, learned, budget, prior),
        kv_shift=shift, numbers=tuple(told),
    )  # fmt: skip


def _check(number: Number, measured: float, predicted: float) -> None:
    """Refuse what is no property of a system: a wrong unit, a typing slip, another deployment."""
    off = measured / predicted
    if 1 / SLIP < off < SLIP:
        return
    said = f"{off:.3g} times" if off > 1 else f"1/{1 / off:.3g} of"
    problem = f"'{number.text}' is {said} what is predicted ({shown(number, predicted)})"
    raise ChunkcalcError(problem, WHERE, "check its unit, its conditions, and the deployment that is described")


def _told(number: Number, one: Observation, before: float, after: float) -> Told:
    return Told(number, before, after, abs(math.log(after / one.value)) <= FAR * one.spread)


def shown(number: Number, value: float) -> str:
    """A value in the unit of a number, for people."""
    if number.name in RATES:
        return f"{format_count(round(value))} tokens/s"
    if number.name == KV_BYTES:
        return format_bytes(value)
    if number.name == KV:
        return f"{format_count(round(value))} tokens"
    return format_duration(value)


def narrowed(
    deployment: Deployment, workload: Workload, learned: Learned, budget: int | None, wide: Factors = PRIOR
) -> Band:
    """Half-widths of the errors after the numbers over those before, by what the quantities depend on.

    Parameters
    ----------
    deployment, workload, budget : as of `teach`
    learned : from the numbers
    wide : standard deviations of the logarithms of the factors before [1]
    """
    seen = quantities(deployment, workload, budget or step_budget(deployment))
    _, slopes = logarithms(seen, deviations(learned.factors, wide), wide)
    return narrowing(slopes, learned.covariance)


def narrowing(slopes: Sequence[Sequence[float]], covariance: Sequence[Sequence[float]]) -> Band:
    """Half-widths of errors over those before anything was measured.

    Parameters
    ----------
    slopes : of the logarithms of `quantities` over the standard deviations of the factors
    covariance : of the factors, in those
    """
    parts = []
    for slope, left in zip(slopes, LEFT, strict=True):
        before = sum(g * g for g in slope)
        after = sum(g * h * covariance[i][j] for i, g in enumerate(slope) for j, h in enumerate(slope))
        parts.append(min(1.0, math.sqrt((max(0.0, after) + left**2) / (before + left**2))))
    return Band(*parts)


def quantities(deployment: Deployment, workload: Workload, budget: int) -> list[Observation]:
    """What the limits of an answer hang on: a decode step, the prefill of a prompt alone, a step filled with a prompt.

    Parameters
    ----------
    deployment : as the profile has it
    workload : of the question
    budget : tokens of a step of a rank [token]
    """
    ranks = deployment.parallelism.dp * deployment.parallelism.pp
    b, s, prompt = float(math.ceil(max(1, workload.batch) / ranks)), float(workload.context), workload.prompt

    def timer(factors: Factors) -> StepTimer:
        return timer_for(with_factors(deployment, factors), workload.draft_tokens)

    def decode(factors: Factors) -> float:
        return float(timer(factors).expected(0, 0, b, s))

    def first(factors: Factors) -> float:
        found = timer(factors)
        prefill: Any = Prefill(found.expected, prompt, 0, 0.0, s).total(budget)
        return float(prefill + request_overhead(found.deployment, prompt))

    def longest(factors: Factors) -> float:
        return float(timer(factors).expected(min(budget, prompt), max(0, prompt - budget), b, s))

    return [Observation(1.0, each, 1.0) for each in (decode, first, longest)]
