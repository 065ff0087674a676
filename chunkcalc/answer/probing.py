"""What to measure to be certain: the few short runs that are expected to settle the limits of an answer.

A run is worth what it is expected to leave of the doubt: how likely each limit would still lie inside its error band
once the run has moved and narrowed the prediction. That is a matter of slopes and of the prior alone, so it can be told
before anything was measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

from chunkcalc.answer.judged import Outlook, half_widths
from chunkcalc.answer.learning import Factors, Observation, covariance_of, logarithms, prior_for
from chunkcalc.answer.measured import observation, parse_number
from chunkcalc.answer.records import Answer
from chunkcalc.answer.taught import narrowing, quantities
from chunkcalc.engines.dialects import dialect
from chunkcalc.frozen import dataclass
from chunkcalc.records import Band, Deployment, Workload
from chunkcalc.time.step import timer_for
from chunkcalc.traffic.closed_loop import Bench, closed_loop

MOST = 4  # runs
SETTLED = 0.1  # of the doubt that is left, at which no further run is asked for
WORTH = 0.02  # by which a further run must lessen it
PER_USER = 5  # requests of a run
Z80 = 1.2816
STILL = 1e-9  # of a logarithm: nothing was learned
STEPS, BENCH, PREFILL = "steps", "bench", "prefill"
Rows = list[list[float]]  # slopes of observations over the factors, in units of how exact each is


class Plan(NamedTuple):
    """A short run.

    kind : `steps` logged by the engine under a mixed load, `bench` with users, or `prefill` of prompts alone
    budget : tokens of a step that the server is started with [token]
    users, requests, output : of the run [1], [1], [token]
    seconds : about how long it takes, without the start of the server [s]
    texts : what it measures, as `--measured` takes it, with 1 in place of the value
    """

    kind: str
    budget: int
    users: int
    requests: int
    output: int
    seconds: float
    texts: tuple[str, ...]


class Chosen(NamedTuple):
    """A run that was chosen, and what it is expected to do.

    plan : the run
    doubt : likely share of the limits that are still open after it and those before it [1]
    widths : error bands after it, on average [1]
    """

    plan: Plan
    doubt: float
    widths: Band


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What to run.

    doubt : likely share of the limits that are open now; 0 where the answer is certain [1]
    open_limits : names of the limits inside their error band
    widths : error bands now [1]
    chosen : runs, in the order in which to do them
    """

    doubt: float
    open_limits: tuple[str, ...]
    widths: Band
    chosen: tuple[Chosen, ...]


def probe(answer: Answer, view: Outlook) -> Probe:
    """The runs that are expected to settle an answer.

    Parameters
    ----------
    answer : whose limits are in doubt
    view : its deployment under its workload
    """
    deployment, workload, chunk = view.deployment, view.workload, answer.chunk
    prior, wide = prior_for(view.timer), half_widths(view.timer)
    margins = {each.name: math.log(each.value / each.of(view.expected, chunk)) for each in view.judged}
    _, slopes = logarithms(quantities(deployment, workload, answer.budget), [0.0] * len(prior), prior)
    limits = [({"itl": "gap"}.get(name, name), margin) for name, margin in margins.items()]
    doubtful = _Doubt(limits, slopes, wide)
    open_limits = tuple(name for name, margin in margins.items() if abs(margin) < math.log1p(view.band(name)))
    plans = [(plan, _slopes(plan, deployment, workload, prior)) for plan in candidates(answer, view)]
    seen, chosen = list[list[float]](), list[Chosen]()
    now = left = doubtful.left(seen)
    while plans and left > SETTLED and len(chosen) < MOST:
        first = chosen or plans[0][0].kind != STEPS  # the log of steps costs a flag and tells most: it comes first
        ranked = [(doubtful.left([*seen, *rows]), index) for index, (_, rows) in enumerate(plans)]
        best, index = min(ranked if first else ranked[:1])
        if left - best < WORTH:
            if first:
                break
            del plans[0]
            continue
        plan, rows = plans.pop(index)
        seen, left = [*seen, *rows], best
        chosen.append(Chosen(plan, left, doubtful.widths(seen)))
    return Probe(doubt=now, open_limits=open_limits, widths=wide, chosen=tuple(chosen))


def candidates(answer: Answer, view: Outlook) -> list[Plan]:
    """Runs to choose from: a log of steps first, where the engine writes one.

    Parameters
    ----------
    answer, view : as of `probe`
    """
    deployment, workload, budget = view.deployment, view.workload, answer.budget
    users = max(1, workload.batch)
    out = []
    some = sorted({1, max(1, users // 4), users})
    if dialect(deployment.engine.name).logs_steps:
        chunk, quarter = max(1, answer.chunk), max(1, answer.chunk // 4)
        texts: tuple[str, ...] = (
            "step=1s at batch 1", f"step=1s at batch {users}", f"step=1s at chunk {chunk} batch {users}",
            f"step=1s at chunk {quarter} batch {max(1, users // 4)}",
        )  # fmt: skip
        out.append(_plan(STEPS, deployment, workload, budget, users, workload.output, texts))
    for count in some:
        at = f"at users {count}, budget {budget}"
        texts = (f"tpot=1s {at}", f"ttft=1s {at}")
        out.append(_plan(BENCH, deployment, workload, budget, count, workload.output, texts))
    alone = (f"prefill=1 tok/s at chunk {budget}",)
    out.append(_plan(PREFILL, deployment, workload, budget, 1, 1, alone))
    return out


def _plan(
    kind: str, deployment: Deployment, workload: Workload, budget: int, users: int, output: int, texts: tuple[str, ...]
) -> Plan:  # fmt: skip
    requests = PER_USER * users
    bench = Bench(prompt=workload.prompt, output=max(2, output), users=users, requests=requests, budget=budget)
    loop = closed_loop(timer_for(deployment, workload.draft_tokens), bench)
    return Plan(kind, budget, users, requests, output, PER_USER * (loop.ttft + output * loop.tpot), texts)


def _slopes(plan: Plan, deployment: Deployment, workload: Workload, prior: Factors) -> Rows:
    """Slopes of what a run measures over the factors, in units of how exact it is."""
    seen: list[Observation] = [
        observation(parse_number(text), deployment, workload, plan.budget) for text in plan.texts
    ]
    _, slopes = logarithms(seen, [0.0] * len(prior), prior)
    return [[slope / one.spread for slope in row] for one, row in zip(seen, slopes, strict=True)]


class _Doubt:
    """How likely the limits of an answer are still open, by how exactly the factors are known."""

    def __init__(self, limits: Sequence[tuple[str, float]], slopes: Sequence[Sequence[float]], wide: Band) -> None:
        self.limits, self.slopes, self.wide = limits, slopes, wide

    def widths(self, seen: Rows) -> Band:
        """The error bands that are left after observations."""
        parts = narrowing(self.slopes, covariance_of(seen))
        return Band(*(width * part for width, part in zip(self.wide, parts, strict=True)))

    def left(self, seen: Rows) -> float:
        """How likely a limit still lies inside its band: the prediction will have moved by what was learned."""
        widths, total = self.widths(seen), 0.0
        for name, margin in self.limits:
            before, after = (math.log1p(getattr(band, name)) for band in (self.wide, widths))
            moved = math.sqrt(max(0.0, before**2 - after**2)) / Z80
            total += _inside(margin, moved, after)
        return total / max(1, len(self.limits))


def _inside(margin: float, moved: float, width: float) -> float:
    """How likely a normal value about the margin lies within the width."""
    if moved < STILL:
        return float(abs(margin) < width)
    about = NormalDist(margin, moved)
    return about.cdf(width) - about.cdf(-width)
