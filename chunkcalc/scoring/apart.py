"""A run whose prefill and decode were apart, as its client saw it: its own requests through the pools."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median

from chunkcalc.answer.pools import handover, transfer_time
from chunkcalc.engines.capacity import capacity
from chunkcalc.measurements import Run
from chunkcalc.records import Workload
from chunkcalc.scoring.open_loop import ENOUGH, SEEDS, drawn
from chunkcalc.time.prefill import Prefill
from chunkcalc.time.service import request_overhead
from chunkcalc.time.step import StepTimer
from chunkcalc.traffic.apart import Pools, served_apart
from chunkcalc.traffic.closed_loop import Bench, Closed

# Harnesses that draw the prompts of every run from one seed, the runs of a server one after the other: what a smaller
# run sent, a larger one sends again.
REPEATS = ("anyscale-ray",)
LEFT = 16  # tokens of a prompt in the cache that are computed anyway: its last block


def seen_before(run: Run, runs: Sequence[Run]) -> int:
    """How many of a run's prompts an earlier run of its server had sent.

    Parameters
    ----------
    run : the run
    runs : of the file
    """
    if run.source not in REPEATS or run.concurrency is None:
        return 0
    users = run.concurrency

    def earlier(other: Run) -> bool:
        return other.concurrency is not None and other.concurrency < users and _layout(other) == _layout(run)

    return max((other.requests or 0 for other in runs if earlier(other)), default=0)


def _layout(run: Run) -> tuple[object, ...]:
    mark = run.note.partition("_")[0]
    return run.source, run.model, run.gpu, run.p_num, run.p_tp, run.d_num, run.d_tp, run.prompt_tokens, mark


def apart(run: Run, prefill: StepTimer, decode: StepTimer, bench: Bench, seen: int = 0) -> Closed:
    """Means over the requests of a run on pools.

    Parameters
    ----------
    run : as measured
    prefill, decode : timers of the units
    bench : its load
    seen : prompts that an earlier run of the server had sent [1]
    """
    pools = pools_of(run, prefill, decode, bench, seen)
    count = min(run.requests or ENOUGH, ENOUGH)
    first: list[float] = []
    token: list[float] = []
    longest = 0.0
    for seed in SEEDS:
        each = served_apart(drawn(run, count, seed), pools, run.concurrency)
        first += [one.ttft for one in each if one.ttft is not None]
        token += [one.tpot for one in each if one.tpot is not None]
        longest = max(longest, *(one.gap or 0.0 for one in each))
    return Closed(
        ttft=fmean(first), tpot=fmean(token), longest=longest, waiting=0.0,
        decoding=run.concurrency or (run.rate or 0.0) * fmean(token) * run.output_tokens,
        typical=(median(first), median(token)),
    )  # fmt: skip


def pools_of(run: Run, prefill: StepTimer, decode: StepTimer, bench: Bench, seen: int) -> Pools:
    """The pools of a run.

    Parameters
    ----------
    run, prefill, decode, bench, seen : as of `apart`
    """
    prompt, answer = math.ceil(bench.prompt), max(2, math.ceil(bench.output))
    units = run.p_num or 1
    whole = Prefill(prefill.expected, prompt, 0, 0.0, prompt).total(max(1, math.floor(bench.budget)))
    again = float(prefill.expected(min(LEFT, prompt), max(0, prompt - LEFT), 0, 0))
    lone = Workload(prompt=prompt, output=answer, batch=1, context=prompt + answer // 2)
    held = capacity(prefill.deployment, lone, max(1, math.floor(bench.budget))).kv_tokens
    # The least recently used goes first: where not all fit, those that come again are gone.
    kept = seen if held is None or seen * prompt <= held * units else 0
    passing = handover(decode.deployment.engine.overheads, alike=run.p_tp == run.d_tp)

    def prefill_time(place: int) -> float:
        return again if place < kept and place % units == 0 else whole

    return Pools(
        prefills=units, decodes=run.d_num or 1, prefill=prefill_time,
        before=request_overhead(prefill.deployment, prompt),
        between=passing.first + transfer_time(decode.deployment, prompt),
        stall=passing.stall, step=lambda b, s: decode.expected(0, 0, b, s),
        most=max(1, capacity(decode.deployment, lone, 1).max_concurrency),
    )  # fmt: skip
