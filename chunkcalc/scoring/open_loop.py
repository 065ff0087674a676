"""An open loop as its client saw it: the run's own number of requests, drawn and stepped through the scheduler."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from statistics import fmean, median

from chunkcalc.errors import ChunkcalcError
from chunkcalc.measurements import Run
from chunkcalc.records import Workload
from chunkcalc.time.step import StepTimer
from chunkcalc.traffic.arrivals import Request
from chunkcalc.traffic.closed_loop import Bench, Closed
from chunkcalc.traffic.lengths import draw
from chunkcalc.traffic.scheduler import Served, replay
from chunkcalc.traffic.users import scheduler_for

SEEDS = (1, 2)
ENOUGH = 500  # requests after which a longer run tells no more
# Coefficient of variation of the lengths of conversations: 21 open loops of them are 10.5 % off in TPOT with it, 12.7 %
# with the 2.14 that explains waves of answers (`served.CONVERSATIONS`).
WIDE = 1.0
OUTRUN = 4.0  # times the first token of the first quarter that the last one's may take in a run of unknown length


def drawn(run: Run, count: int, seed: int) -> list[Request]:
    """Requests as the harness draws them, at the run's rate; all at once without one.

    Parameters
    ----------
    run : its lengths and rate
    count : of requests [1]
    seed : of the draws
    """
    draws, now, out = Random(seed), 0.0, []
    ratio = 1.0 if run.least_ratio is None else run.least_ratio

    def length(mean: float) -> int:
        if run.wide:
            return max(2, draw(draws, mean, WIDE))
        longest = mean * 2 / (1 + ratio)
        return max(2, round(draws.uniform(ratio * longest, longest)))

    for _ in range(count):
        now += draws.expovariate(run.rate) if run.rate else 0.0
        out.append(Request(now, length(run.prompt_tokens), length(run.output_tokens)))
    return out


def open_loop(run: Run, timer: StepTimer, bench: Bench) -> Closed:
    """Means over the requests of a run whose requests arrive at a rate, at most `run.cap` in flight.

    Parameters
    ----------
    run : as measured
    timer : of its deployment
    bench : its load

    Raises
    ------
    ChunkcalcError : more arrives than is served, and the file does not say for how long
    """
    deployment = timer.deployment
    ranks = deployment.parallelism.dp
    count = min(run.requests or ENOUGH, ENOUGH)
    long, answer = math.ceil(bench.prompt), max(2, math.ceil(bench.output))
    workload = Workload(prompt=long, output=answer, batch=1, context=long + answer // 2)
    most = math.floor(bench.most or count)
    scheduler = scheduler_for(deployment, workload, max(1, math.floor(bench.budget)), most, whole=bench.whole)
    cap = max(1, run.cap // ranks) if run.cap else None
    each: list[Served] = []
    for seed in SEEDS:
        requests = drawn(run, count, seed)[::ranks]
        served = replay(requests, timer.expected, scheduler, cap).served
        if run.requests is None and cap is None and _outrun(served):
            raise ChunkcalcError(f"at {run.rate:g} requests/s more arrives than is served", "rate", "no steady state")
        each += served
    first = [one.ttft for one in each if one.ttft is not None]
    token = [one.tpot for one in each if one.tpot is not None]
    if not first or not token:
        raise ChunkcalcError("no request fits beside the weights", "rate", "the layout is not the one that ran")
    return Closed(
        ttft=fmean(first), tpot=fmean(token), longest=max(one.gap or 0.0 for one in each),
        decoding=(run.rate or 0.0) * fmean(token) * run.output_tokens, waiting=0.0,
        typical=(median(first), median(token)),
    )  # fmt: skip


def _outrun(served: Sequence[Served]) -> bool:
    times = [each.ttft for each in served if each.ttft is not None]
    quarter = len(times) // 4
    return quarter > 0 and sum(times[-quarter:]) > OUTRUN * sum(times[:quarter])
