"""A hardware profile fitted to somebody's own runs and steps: the factors of their system, with the shipped profile as
prior, and how well it predicts what it did not see."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean, median
from typing import Any, NamedTuple

from chunkcalc.answer.learning import (
    LINEAR,
    Factors,
    Learned,
    Observation,
    deviations,
    learn,
    logarithms,
    prior_for,
    scaled,
    with_factors,
)
from chunkcalc.answer.measured import SPREADS
from chunkcalc.answer.taught import narrowed
from chunkcalc.errors import ChunkcalcError
from chunkcalc.frozen import dataclass
from chunkcalc.measurements import StepRow
from chunkcalc.progress import Progress, silent
from chunkcalc.records import Band, Hardware, Overheads, Workload
from chunkcalc.scoring.usable import Usable
from chunkcalc.time.step import StepTimer
from chunkcalc.traffic.closed_loop import closed_loop
from chunkcalc.work.counts import kind

FOLDS = 5
CHECKED = 3  # configurations from which on the fit is checked on what it did not see
MOST_WORSE = 0.005  # by which what was not seen may be predicted worse
LEAST_GAIN = 0.02  # of the logarithm of the errors, for a profile to be worth its file
MOVED = 0.015  # of a factor
HOPELESS = 0.5  # median error beyond which rows are not those of the deployment that was named
NOISE = 0.15  # standard deviation of the logarithm of a single step's time
FINE = 3  # groups of steps to a factor e of their tokens
Z80 = 1.2816
STALL = 3.0  # times the median of alike steps: something else held it up
DETERMINED = {"yes": 0.5, "partly": 0.9}  # posterior over prior width up to which a factor is


class Errors(NamedTuple):
    """Mean size of relative errors, of TPOT, TTFT and single steps; None where nothing was measured [1]."""

    tpot: float | None = None
    ttft: float | None = None
    step: float | None = None


class Fitted(NamedTuple):
    """A factor of the system.

    value : times over those of the shipped profile [1]
    least, most : its 80 % range [1]
    determined : yes, partly or no
    """

    value: float
    least: float
    most: float
    determined: str

    @property
    def moved(self) -> bool:
        """Whether it differs from the shipped profile by more than a hair."""
        return abs(self.value - 1) > MOVED


class Piece(NamedTuple):
    """What is left out together: the runs of one configuration, or steps alike.

    key : of the configuration
    names, observations : what was measured: tpot, ttft or step
    weight : measurements that each stands for [1]
    """

    key: Any
    names: tuple[str, ...]
    observations: tuple[Observation, ...]
    weight: int = 1


class StepGroup(NamedTuple):
    """Steps that are alike.

    timer : of their deployment
    c, p, b, s, prompts : means over them
    time : mean, without what took far longer than the others [s]
    steps : how many [1]
    """

    timer: StepTimer
    c: float
    p: float
    b: float
    s: float
    prompts: float
    time: float
    steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """What a calibration found.

    base : the GPU that was calibrated
    engine, versions : as the rows say
    rows : the runs that count
    steps : single steps that count [1]
    configurations : different ones among both [1]
    calibrated : the factors predict better than the shipped profile
    factors : of the system, by name
    values : overheads that a profile of it holds, in seconds or as shares; empty where it is not calibrated
    before, after : errors with the shipped profile, and with the factors
    held_out : errors of what was left out of the fit; those of `after` where there is too little to leave out
    checked : something was left out
    kind, bands : of the models that were measured, and half-widths of the errors of what is predicted for them now;
        those of the shipped profile where it is not calibrated [1]
    hints : what the measurements cannot tell apart, as sentences
    """

    base: Hardware
    engine: str
    versions: tuple[str, ...]
    rows: tuple[Usable, ...]
    steps: int
    configurations: int
    calibrated: bool
    factors: Mapping[str, Fitted]
    values: Mapping[str, float]
    before: Errors
    held_out: Errors
    after: Errors
    checked: bool
    kind: str
    bands: Band
    hints: tuple[str, ...]


def calibrate(
    rows: Sequence[Usable], groups: Sequence[StepGroup], base: Hardware, progress: Progress = silent
) -> Calibrated:
    """Fit the factors of a system.

    Parameters
    ----------
    rows : runs that count
    groups : steps that its engine logged
    base : the GPU as the profile has it
    progress : told how far the fit is

    Raises
    ------
    ChunkcalcError : nothing to fit, or rows that the model does not describe
    """
    pieces = [*_of_runs(rows), *_of_steps(groups)]
    if not pieces:
        raise ChunkcalcError("no usable row and no step", "rows", "give runs with a fixed number of users, or a log")
    timer = rows[0].served.timer if rows else groups[0].timer
    prior = prior_for(timer)
    progress(0, FOLDS + 1)
    learned = learn(_observations(pieces), prior)
    before, after = _errors(pieces, Factors()), _errors(pieces, learned.factors)
    checked = len({piece.key for piece in pieces}) >= CHECKED
    held_out = _left_out(pieces, learned, prior, progress) if checked else after
    _check_described(before, after)
    factors = {name: _fitted(learned, index, prior) for index, name in enumerate(Factors._fields)}
    better = _better(before, held_out) and any(each.moved for each in factors.values())
    engine, shape = timer.deployment.engine, kind(timer.deployment.model)
    shipped = base.bands[engine.name][shape]
    parts = narrowed(timer.deployment, _load(rows, groups), learned, None, prior)
    now = Band(*(width * part for width, part in zip(shipped, parts, strict=True)))
    return Calibrated(
        base=base, engine=engine.name, rows=tuple(rows), steps=sum(group.steps for group in groups),
        versions=tuple(sorted({row.served.run.engine_version for row in rows} - {""})) or (engine.version,),
        configurations=len({piece.key for piece in pieces}), calibrated=better, factors=factors,
        values=overheads_of(base.overheads[engine.name], factors) if better else {},
        before=before, held_out=held_out if better else before, after=after if better else before, checked=checked,
        kind=shape, bands=now if better else shipped, hints=tuple(_hints(groups)),
    )  # fmt: skip


def _load(rows: Sequence[Usable], groups: Sequence[StepGroup]) -> Workload:
    """The load in the middle of what was measured: what the bands are narrowed for."""
    if rows:
        run = rows[len(rows) // 2].served.run
        prompt, output, batch = run.prompt_tokens, max(2.0, run.output_tokens), run.concurrency or 1
        return Workload(
            prompt=round(prompt), output=round(output), batch=batch, context=round(prompt + output / 2)
        )  # fmt: skip
    prompt, context = max(max(1.0, group.c + group.p) for group in groups), max(group.s for group in groups)
    batch = round(max(group.b for group in groups))
    return Workload(prompt=round(prompt), output=2, batch=batch, context=max(1, round(context)))


def overheads_of(shipped: Overheads, factors: Mapping[str, Fitted]) -> dict[str, float]:
    """The overheads of a system that differ from the shipped ones: what a profile writes.

    Parameters
    ----------
    shipped : of the engine on the GPU
    factors : of the system
    """
    moved = Factors(**{name: each.value if each.moved else 1.0 for name, each in factors.items()})
    changed = scaled(shipped, moved)
    return {
        name: getattr(changed, name) for name in Overheads._fields if getattr(changed, name) != getattr(shipped, name)
    }


def calibrated_hardware(base: Hardware, engine: str, values: Mapping[str, float]) -> Hardware:
    """The GPU with fitted overheads."""
    return replace(base, overheads={**base.overheads, engine: base.overheads[engine]._replace(**values)})


def step_groups(steps: Iterable[StepRow], timer_of: Callable[[StepRow], StepTimer]) -> list[StepGroup]:
    """Steps that are alike, as one each: what repeats tells no more than its mean.

    Parameters
    ----------
    steps : that engines logged
    timer_of : the deployment of a step
    """
    held: dict[Any, list[StepRow]] = defaultdict(list)
    timers: dict[Any, StepTimer] = {}
    for row in steps:
        timer = timer_of(row)
        timers[id(timer)] = timer
        held[id(timer), _bin(row.c), row.prompts, _bin(row.b), _bin(row.s)].append(row)
    return [_group(timers[key[0]], rows) for key, rows in held.items()]


def _bin(tokens: float) -> int:
    return round(FINE * math.log(tokens)) if tokens > 0 else -1


def _group(timer: StepTimer, rows: Sequence[StepRow]) -> StepGroup:
    c, p, b, s, prompts = (fmean(getattr(row, name) for row in rows) for name in ("c", "p", "b", "s", "prompts"))
    usual = median(row.time for row in rows)
    time = fmean(row.time for row in rows if row.time <= STALL * usual)
    return StepGroup(timer, c, p, b, s, prompts, time, len(rows))


def _of_runs(rows: Sequence[Usable]) -> Iterable[Piece]:
    held: dict[Any, list[Usable]] = defaultdict(list)
    for row in rows:
        held[row.configuration].append(row)
    for key, some in held.items():
        named = [each for row in some for each in _of_run(row)]
        yield Piece(key, tuple(name for name, _ in named), tuple(each for _, each in named))


def _of_run(row: Usable) -> Iterable[tuple[str, Observation]]:
    served = row.served
    found: dict[Factors, tuple[float, float]] = {}

    def both(factors: Factors) -> tuple[float, float]:
        if factors not in found:
            found.clear()
            loop = closed_loop(StepTimer(with_factors(served.deployment, factors)), served.bench)
            found[factors] = loop.tpot, loop.ttft
        return found[factors]

    if row.tpot:
        yield "tpot", Observation(row.tpot, lambda factors: both(factors)[0], SPREADS["tpot"])
    if row.ttft:
        yield "ttft", Observation(row.ttft, lambda factors: both(factors)[1], SPREADS["ttft"])


def _of_steps(groups: Sequence[StepGroup]) -> Iterable[Piece]:
    timers: dict[tuple[int, Factors], StepTimer] = {}  # one for all steps of a deployment at once

    def timed(group: StepGroup) -> Callable[[Factors], float]:
        def predict(factors: Factors) -> float:
            key = (id(group.timer), factors)
            if key not in timers:
                timers.clear()
                timers[key] = StepTimer(with_factors(group.timer.deployment, factors), group.timer.drafts)
            return float(timers[key].expected(group.c, group.p, group.b, group.s, max(1.0, group.prompts)))

        return predict

    for group in groups:
        spread = max(SPREADS["step"], NOISE / math.sqrt(group.steps))
        key = (id(group.timer), _bin(group.c), group.prompts, _bin(group.b), _bin(group.s))
        yield Piece(key, ("step",), (Observation(group.time, timed(group), spread),), group.steps)


def _observations(pieces: Sequence[Piece]) -> list[Observation]:
    return [each for piece in pieces for each in piece.observations]


def _errors(pieces: Sequence[Piece], factors: Factors) -> Errors:
    return _means(_off(pieces, factors))


def _off(pieces: Iterable[Piece], factors: Factors) -> Iterable[tuple[str, float, int]]:
    """The size of each relative error, by what was measured, and the measurements that it stands for."""
    for piece in pieces:
        for name, each in zip(piece.names, piece.observations, strict=True):
            yield name, abs(each.predict(factors) / each.value - 1), piece.weight


def _means(off: Iterable[tuple[str, float, int]]) -> Errors:
    held: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for name, value, weight in off:
        held[name].append((value, weight))
    return Errors(**{name: fmean(*zip(*each, strict=True)) for name, each in held.items()})


def _left_out(pieces: Sequence[Piece], learned: Learned, prior: Factors, progress: Progress) -> Errors:
    """Errors of each part of the pieces, predicted without it; linear about the factors of all."""
    every = _observations(pieces)
    x = deviations(learned.factors, prior)
    here, slopes = logarithms(every, x, prior)

    def linear(place: int) -> Callable[[Factors], float]:
        def predict(factors: Factors) -> float:
            moved = zip(slopes[place], deviations(factors, prior), x, strict=True)
            return math.exp(here[place] + sum(slope * (there - base) for slope, there, base in moved))

        return predict

    keys = list(dict.fromkeys(piece.key for piece in pieces))
    part_of = {key: index % min(FOLDS, len(keys)) for index, key in enumerate(keys)}
    quick, place = [], 0
    for piece in pieces:
        some = []
        for each in piece.observations:
            some.append(each._replace(predict=linear(place)))
            place += 1
        quick.append(piece._replace(observations=tuple(some)))
    off: list[tuple[str, float, int]] = []
    for part in sorted(set(part_of.values())):
        progress(part + 1, FOLDS + 1)
        kept, out = ([piece for piece in quick if (part_of[piece.key] == part) == left] for left in (False, True))
        off += _off(out, learn(_observations(kept), prior).factors)
    return _means(off)


def _fitted(learned: Learned, index: int, prior: Factors) -> Fitted:
    share = math.sqrt(max(0.0, learned.covariance[index][index]))
    determined = next((word for word, most in DETERMINED.items() if share <= most), "no")
    value, width = learned.factors[index], Z80 * share * prior[index]
    if Factors._fields[index] in LINEAR:
        return Fitted(value, max(0.0, value - width), value + width, determined)
    return Fitted(value, value / math.exp(width), value * math.exp(width), determined)


def _better(before: Errors, after: Errors) -> bool:
    """Whether nothing is predicted worse, and all together by enough to be worth a file."""
    pairs = [(old, new) for old, new in zip(before, after, strict=True) if old is not None and new is not None]
    if any(new > old + MOST_WORSE for old, new in pairs):
        return False
    return sum(math.log(max(new, 1e-9) / max(old, 1e-9)) for old, new in pairs) < -LEAST_GAIN


def _check_described(before: Errors, after: Errors) -> None:
    """Refuse rows that the model does not describe, with or without a fit."""
    for name, value in zip(Errors._fields, after, strict=True):
        if name != "ttft" and value is not None and value > HOPELESS:
            problem = f"the rows do not support a fit: {name.upper()} is off by {100 * value:.0f}% after it"
            hint = "check --model, --tp, --weights and --budget; speculative decoding and queues are not fitted"
            raise ChunkcalcError(problem, "rows", hint)


def _hints(groups: Sequence[StepGroup]) -> Iterable[str]:
    """What the steps alone cannot tell."""
    sizes = [group.c for group in groups if group.c]
    if sizes and max(sizes) < 2 * median(sizes) and min(sizes) > median(sizes) / 2:
        most = max(sizes)
        yield (
            f"the prompt steps are of one size (about {most:,.0f} tokens): what a step takes whatever it carries and "
            f"what each token adds are not told apart; log a budget of {max(1, round(most / 4)):,} too"
        )
    if groups and not sizes:
        yield "no step carries prompt tokens: only decodes are told; log a load with long prompts too"
