"""A benchmark run replayed request by request: its lengths drawn as its harness drew them."""

from __future__ import annotations

import math
from dataclasses import replace

from chunkcalc.engines.capacity import IN_FLIGHT, capacity
from chunkcalc.records import Workload
from chunkcalc.scoring.open_loop import drawn
from chunkcalc.scoring.served import Served
from chunkcalc.time.service import request_overhead
from chunkcalc.time.step import StepTimer
from chunkcalc.traffic.arrivals import Request
from chunkcalc.traffic.closed_loop import LARGEST_CHUNK
from chunkcalc.traffic.decodes import GAP
from chunkcalc.traffic.scheduler import Replay, Scheduler, StepTime, replay

SEED = 7
CHUNK, CONTEXT = 32, 256  # prompts and contexts are timed in steps of so many tokens


def requests_of(served: Served, most: int | None = None) -> list[Request]:
    """The requests of a run: uniform lengths, or those of conversations.

    Parameters
    ----------
    served : the run
    most : requests that are enough
    """
    count = max(1, round(min(served.bench.requests, most or math.inf)))
    return drawn(replace(served.run, rate=None), count, SEED)


def scheduler_of(served: Served, prompt: int) -> Scheduler:
    """How the server composes the steps of one attention rank.

    Parameters
    ----------
    served : the run
    prompt : the longest [token]
    """
    deployment, bench = served.deployment, served.bench
    long, answer = math.ceil(bench.prompt), max(2, math.ceil(bench.output))
    held = Workload(prompt=long, output=answer, batch=1, context=long + answer // 2)
    tokens = capacity(deployment, held, min(LARGEST_CHUNK, math.floor(bench.budget))).kv_tokens
    return Scheduler(
        budget=max(1, math.floor(max(bench.budget, prompt) if bench.whole else bench.budget)),
        most_running=IN_FLIGHT if bench.most is None else math.floor(bench.most),
        kv_tokens=None if tokens is None else tokens // deployment.parallelism.dp,
        mixed=deployment.engine.composition == "mixed", whole=bench.whole,
        interval=deployment.engine.prefill_interval, reserve=deployment.engine.name == "trtllm",
        request_overhead=request_overhead(deployment, 0),
        token_overhead=deployment.engine.overheads.prompt_token,
    )  # fmt: skip


def replayed(served: Served, step: StepTime | None = None, most: int | None = None) -> Replay:
    """One attention rank of a closed loop from the moment that all its users send at once.

    Parameters
    ----------
    served : the run
    step : time of a step, in place of the deployment's own
    most : requests of the replica that are enough
    """
    ranks = served.deployment.parallelism.dp
    requests = requests_of(served, most)[::ranks]
    users = max(1, min(round(served.bench.users / ranks), len(requests)))
    scheduler = scheduler_of(served, max(request.prompt for request in requests))
    return replay(requests, step or served.timer.expected, scheduler, users)


class Coarse:
    """Steps of a deployment, timed at rounded contexts and chunks so that a replay needs few of them.

    Parameters
    ----------
    timer : of the deployment
    """

    def __init__(self, timer: StepTimer) -> None:
        self._timer = timer
        self._times: dict[tuple[float, ...], float] = {}

    def __call__(self, c: float, p: float, b: float, s: float, prompts: float) -> float:
        """The time of a step [s]."""
        if c > CHUNK:
            c = CHUNK * round(c / CHUNK)
        if s > CONTEXT:
            s = CONTEXT * round(s / CONTEXT)
        key = (c, CHUNK * round(p / CHUNK), b, s, max(1.0, round(prompts, 1)))
        found = self._times.get(key)
        if found is None:
            found = self._times[key] = float(self._timer.expected(*key))
        return found


def hosting(timer: StepTimer, factor: float) -> StepTimer:
    """The timer of a deployment whose host takes a factor of its time.

    Parameters
    ----------
    timer : of the deployment
    factor : 0 for a host that is never waited for [1]
    """
    engine = timer.deployment.engine
    return StepTimer(replace(timer.deployment, engine=replace(engine, overheads=engine.overheads.with_host(factor))))


def quantile(gaps: Replay, q: float) -> float:
    """A quantile of the gaps between two tokens of a stream [s].

    Parameters
    ----------
    gaps : a replay
    q : such as 0.99 [1]
    """
    total, seen = sum(gaps.gaps.values()), 0
    for gap, count in sorted(gaps.gaps.items()):
        seen += count
        if seen >= q * total:
            return gap * GAP
    return 0.0
