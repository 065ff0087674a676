"""What to measure to be certain: the few short runs that are expected to settle the limits of an answer.

A run is worth what it is expected to leave of the doubt: how likely each limit would still lie inside its error band
once the run has moved and narrowed the prediction. That is a matter of slopes and of the prior alone, so it can be told
before anything was measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from chunkcalc.answer.judged import Outlook, half_widths
from chunkcalc.answer.learning import Factors, Observation, logarithms, prior_for
from chunkcalc.answer.measured import observation, parse_number
from chunkcalc.answer.records import Answer
from chunkcalc.answer.taught import LEFT, quantities
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
QUANTITY = {"tpot": 0, "ttft": 1, "itl": 2}  # of a limit, among those that bands are narrowed by
STEPS, BENCH, PREFILL = "steps", "bench", "prefill"


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
    judged = [(each.name, math.log(each.value / each.of(view.expected, chunk))) for each in view.judged]
    _, slopes = logarithms(quantities(deployment, workload, answer.budget), [0.0] * len(prior), prior)
    limits = [(QUANTITY[name], margin) for name, margin in judged]
    doubtful = _Doubt(limits, slopes, wide)
    precision = [[float(i == j) for j in range(len(prior))] for i in range(len(prior))]
    open_limits = tuple(name for name, margin in judged if abs(margin) < math.log1p(wide[QUANTITY[name]]))
    plans = [(plan, _slopes(plan, deployment, workload, prior)) for plan in candidates(answer, view)]
    now, chosen = doubtful.left(precision), list[Chosen]()
    left = now
    while plans and left > SETTLED and len(chosen) < MOST:
        first = chosen or plans[0][0].kind != STEPS  # the log of steps costs a flag and tells most: it comes first
        ranked = [(doubtful.left(_with(precision, seen)), index) for index, (_, seen) in enumerate(plans)]
        best, index = min(ranked if first else ranked[:1])
        if left - best < WORTH:
            if first:
                break
            del plans[0]
            continue
        plan, seen = plans.pop(index)
        precision, left = _with(precision, seen), best
        chosen.append(Chosen(plan, left, doubtful.widths(precision)))
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


def _slopes(plan: Plan, deployment: Deployment, workload: Workload, prior: Factors) -> list[list[float]]:
    """Slopes of what a run measures over the factors, in units of how exact it is."""
    seen: list[Observation] = [
        observation(parse_number(text), deployment, workload, plan.budget) for text in plan.texts
    ]
    _, slopes = logarithms(seen, [0.0] * len(prior), prior)
    return [[slope / one.spread for slope in row] for one, row in zip(seen, slopes, strict=True)]


def _with(precision: Sequence[Sequence[float]], seen: Sequence[Sequence[float]]) -> list[list[float]]:
    """The inverse covariance of the factors with further observations."""
    size = range(len(precision))
    return [[precision[i][j] + sum(row[i] * row[j] for row in seen) for j in size] for i in size]


class _Doubt:
    """How likely the limits of an answer are still open, by how exactly the factors are known."""

    def __init__(self, limits: Sequence[tuple[int, float]], slopes: Sequence[Sequence[float]], wide: Band) -> None:
        self.limits, self.slopes, self.wide = limits, slopes, wide

    def parts(self, precision: Sequence[Sequence[float]]) -> list[float]:
        """Standard deviation of each quantity over that before anything was measured."""
        out = []
        for slope, left in zip(self.slopes, LEFT, strict=True):
            after = sum(g * x for g, x in zip(slope, solve(precision, slope), strict=True))
            before = sum(g * g for g in slope)
            out.append(math.sqrt((after + left**2) / (before + left**2)))
        return out

    def widths(self, precision: Sequence[Sequence[float]]) -> Band:
        """The error bands that are left."""
        return Band(*(width * part for width, part in zip(self.wide, self.parts(precision), strict=True)))

    def left(self, precision: Sequence[Sequence[float]]) -> float:
        """How likely a limit still lies inside its band: the prediction will have moved by what was learned."""
        parts, total = self.parts(precision), 0.0
        for place, margin in self.limits:
            sigma = math.log1p(self.wide[place]) / Z80
            moved, width = (
                sigma * math.sqrt(max(0.0, 1 - parts[place] ** 2)),
                math.log1p(self.wide[place] * parts[place]),
            )
            total += _inside(margin, moved, width)
        return total / max(1, len(self.limits))


def _inside(margin: float, moved: float, width: float) -> float:
    """How likely a normal value about the margin lies within the width."""
    if moved < 1e-9:
        return float(abs(margin) < width)
    return _normal((width - margin) / moved) - _normal((-width - margin) / moved)


def _normal(z: float) -> float:
    return 0.5 * (1 + math.erf(z / math.sqrt(2)))


def solve(matrix: Sequence[Sequence[float]], right: Sequence[float]) -> list[float]:
    """The solution of a few linear equations, symmetric and positive, by elimination.

    >>> solve([[2.0, 0.0], [0.0, 4.0]], [2.0, 2.0])
    [1.0, 0.5]
    """
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for i, pivot in enumerate(rows):
        for other in rows[i + 1 :]:
            share = other[i] / pivot[i]
            for j in range(i, len(other)):
                other[j] -= share * pivot[j]
    out = [0.0] * len(rows)
    for i in reversed(range(len(rows))):
        out[i] = (rows[i][-1] - sum(rows[i][j] * out[j] for j in range(i + 1, len(rows)))) / rows[i][i]
    return out
