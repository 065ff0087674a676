"""Users that each send their next request when the last is answered: the scheduler stepped until it is steady.

A closed loop is small, some rounds of as many requests as users, and what it does has no closed form that holds for
short answers and full batches alike. `flow.Traffic.with_users` is the quick look; this is the judge.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from statistics import fmean

from chunkcalc.engines.capacity import capacity
from chunkcalc.engines.dialects import dialect
from chunkcalc.records import Deployment, Workload
from chunkcalc.time.service import accepted_tokens, request_overhead
from chunkcalc.traffic.arrivals import Request
from chunkcalc.traffic.flow import Flow, Traffic
from chunkcalc.traffic.lengths import draw
from chunkcalc.traffic.scheduler import NewTokens, Scheduler, Served, replay

WARM, TAIL = 3, 1  # rounds of requests, each as many as users, before and after those that are measured
LEAST, ENOUGH, ROUNDS = 200, 400, 2  # requests that are measured: from and to how many, and at least so many rounds
MOST_STEPPED = 768  # users of a rank that are stepped; the others wait for them, as those beyond its memory do
UNEQUAL = 0.1  # coefficient of variation of the answers: users do not march in step
SEED = 1


def scheduler_for(
    deployment: Deployment, workload: Workload, budget: int, most_running: int, *, whole: bool = False
) -> Scheduler:  # fmt: skip
    """How a deployment composes its steps, on one attention rank.

    Parameters
    ----------
    deployment, workload : the replica, and its prompts' share in the prefix cache and drafts
    budget : of a rank [token]
    most_running : requests in flight on a rank [1]
    whole : chunked prefill is off
    """
    kv = capacity(deployment, workload, budget).kv_tokens
    words, engine = dialect(deployment.engine.name), deployment.engine
    return Scheduler(
        budget=budget, most_running=most_running,
        kv_tokens=None if kv is None else kv // (deployment.parallelism.dp * deployment.parallelism.pp),
        longest=deployment.model.max_position,
        mixed=engine.composition == "mixed", whole=whole, interval=engine.prefill_interval,
        reserve=words.reserves_output, new_tokens=None if words.new_tokens is None else NewTokens(*words.new_tokens),
        request_overhead=request_overhead(deployment, 0), token_overhead=engine.overheads.prompt_token,
        cached=workload.prefix_hit,
        shared=workload.prefix_shared, accepted=accepted_tokens(workload.draft_tokens, workload.draft_acceptance),
        slots=1 + workload.draft_tokens if engine.budget_counts_decodes else 1,
    )  # fmt: skip


def stepped(traffic: Traffic, users: int) -> Flow:
    """The steady state with users, as the scheduler steps it.

    Parameters
    ----------
    traffic : of the deployment at a budget
    users : of the replica [1]

    Returns
    -------
    the steady state; means and quantiles of what its requests saw
    """
    rank, deployment = traffic.rank, traffic.deployment
    ranks = traffic.ranks * traffic.stages  # the micro-batches of a pipeline follow each other like ranks
    asked = max(1, math.ceil(users / ranks))
    own = max(1, min(asked, MOST_STEPPED, traffic.most // traffic.stages))  # which share the cache, too
    scheduler = scheduler_for(deployment, rank.workload, rank.budget, traffic.most * traffic.ranks)
    run = replay(_drawn(rank.workload, rank.C, own), traffic.timer.expected, scheduler, own)
    kept = _steady([each for each in run.served if each.finished is not None], own)
    if not kept:
        return traffic.with_users(users)
    decoding = fmean((each.tpot or 0.0) * (each.request.output - 1) for each in kept)
    rate = own / (fmean(each.ttft or 0.0 for each in kept) + decoding)  # Little's law
    batch = rate * decoding
    times, tpot = sorted(each.ttft or 0.0 for each in kept), [each.tpot for each in kept if each.tpot is not None]
    waiting = (asked - own) / rate
    pace = rank.pace(rate, batch * (own - 1) / own, 1 + batch * (own - 1) / own, 0.0, closed=True)
    assert pace is not None
    ttft = fmean(times) + waiting
    lone = pace.state().ttft - pace.state().wait
    return replace(
        traffic.flow(rate * ranks, batch, pace.state()), batch=min(batch * ranks, users),
        utilisation=min(1.0, rate * pace.hold), wait=max(0.0, ttft - lone), ttft=ttft,
        tpot=fmean(tpot) if tpot else 0.0, spread=lambda q: _quantile(times, q) + waiting,
    )  # fmt: skip


def _drawn(workload: Workload, C: float, users: int) -> list[Request]:
    """Requests with prompts as unequal as they are asked for, and answers a little."""
    lone = users == 1 and not C  # who sees the same each time
    count = (1 if lone else max(LEAST, min(8 * users, ENOUGH), ROUNDS * users)) + (WARM + TAIL) * users
    draws = Random(SEED)
    unequal = 0.0 if lone or workload.output <= 2 else UNEQUAL
    answers = [draw(draws, workload.output, unequal) for _ in range(count)]
    return [Request(0.0, draw(draws, workload.prompt, C), max(1, answer)) for answer in answers]


def _steady(finished: list[Served], users: int) -> list[Served]:
    """Those that neither began in the first rounds nor ended when there was nobody to follow, by their end."""
    ordered = sorted(finished, key=lambda each: each.finished or 0.0)
    return ordered[WARM * users : len(ordered) - TAIL * users]


def _quantile(ordered: Sequence[float], q: float) -> float:
    return ordered[min(len(ordered) - 1, bisect_left(range(len(ordered)), q * (len(ordered) - 1)))]
