"""A closed loop from a cold start: its parts by hand, its laws, and the replay as its judge."""

import math
import random
from dataclasses import replace
from functools import cache
from statistics import fmean

import numpy as np
import pytest

from chunkcalc.answer.question import Question
from chunkcalc.answer.replay import scheduler_for, simulate
from chunkcalc.answer.resolve import resolve
from chunkcalc.measurements import Run
from chunkcalc.scoring.served import answers
from chunkcalc.time.service import request_overhead
from chunkcalc.time.step import StepTimer
from chunkcalc.traffic.arrivals import Request
from chunkcalc.traffic.closed_loop import (
    Bench,
    Loop,
    Steps,
    closed_loop,
    first_token_time,
    first_wave,
    full_step,
    lock_step,
    step_times,
    token_time,
)
from tests.deployments import deployment

MEAN, PER_USER = 0.9, 10  # of lengths that are uniform in [0.8, 1] of the nominal one; requests of each user
SMALL, EXPERTS = ("llama-3.1-8b", "h100-sxm", 1), ("qwen3-235b-a22b", "h100-sxm", 8)


@cache
def case_of(served, engine, prompt, output):
    model, gpu, tp = served
    return resolve(
        Question(model=model, gpu=gpu, tp=tp, prompt=round(MEAN * prompt), output=round(MEAN * output), engine=engine)
    )


@cache
def timer_of(served=SMALL, engine="vllm", prompt=1000, output=1000):
    return StepTimer(case_of(served, engine, prompt, output).deployment)


def bench(prompt=1000, output=1000, users=16, budget=8192, **more):
    return Bench(prompt=MEAN * prompt, output=MEAN * output, users=users, requests=PER_USER * users, budget=budget,
                 **more)  # fmt: skip


def seen(served, engine, prompt, output, users, budget):
    """Mean latencies of a replay: all users at the start, each sends again when answered."""
    case, timer = case_of(served, engine, prompt, output), timer_of(served, engine, prompt, output)
    draws = random.Random(7)
    requests = [
        Request(0.0, *(round(draws.uniform(0.8, 1) * length) for length in (prompt, output)))
        for _ in range(PER_USER * users)
    ]
    bare = replace(scheduler_for(case, budget, 4096), request_overhead=0.0, token_overhead=0.0)  # queueing alone
    found = simulate(case, requests, bare, timer, users).served
    return (sum(getattr(each, name) for each in found) / len(found) for name in ("ttft", "tpot"))


@pytest.mark.parametrize(
    ("served", "engine", "prompt", "output", "users", "budget"),
    [
        (SMALL, "vllm", 1000, 1000, 4, 8192),
        (SMALL, "vllm", 1000, 1000, 64, 8192),
        (SMALL, "vllm", 1000, 500, 32, 512),
        (SMALL, "vllm", 4000, 300, 16, 1024),
        (SMALL, "vllm", 8000, 1000, 16, 8192),
        (SMALL, "sglang", 1000, 1000, 32, 8192),
        (SMALL, "sglang", 4000, 300, 16, 4096),
        (SMALL, "trtllm", 1000, 300, 64, 2048),
        (EXPERTS, "vllm", 1000, 1000, 32, 8192),
        (EXPERTS, "sglang", 1000, 1000, 32, 8192),
    ],
)
def test_a_closed_loop_agrees_with_its_replay(served, engine, prompt, output, users, budget):
    found = closed_loop(timer_of(served, engine, prompt, output), bench(prompt, output, users, budget))
    ttft, tpot = seen(served, engine, prompt, output, users, budget)
    # A replayed user sends at the very moment a step ends; a client's request waits for the step under way.
    met = (1 - 1 / PER_USER) * found.steps.decode
    own = request_overhead(case_of(served, engine, prompt, output).deployment, MEAN * prompt)
    assert found.ttft - met == pytest.approx(ttft + own, rel=0.10)
    assert found.tpot == pytest.approx(tpot, rel=0.04)


LOOP = Loop(users=5, wave=0.1, output=100, together=2, mixed=True, ranks=1, poll=1, rest=0.01)
STEPS = Steps(decode=0.01, prompt=0.05, added=0.04, full=0.06)


def test_the_mean_time_per_token_by_hand():
    steady = 0.01 + 4 / 100 * 0.04
    first = 0.01 + (5 - 1) / 2 / 2 * (0.06 - 0.01) / 100
    assert token_time(STEPS, LOOP, 4) == pytest.approx(0.1 * first + 0.9 * steady)
    apart = LOOP._replace(mixed=False)
    first = 0.01 + (5 - 1) / 2 / 2 * 0.06 / 100
    assert token_time(STEPS, apart, 4) == pytest.approx(0.1 * first + 0.9 * steady)
    assert token_time(STEPS, LOOP._replace(wave=0, ranks=8), 4) == pytest.approx(0.01 + 8 * 4 / 100 * 0.04)
    assert token_time(STEPS, LOOP._replace(wave=0), 1000) == 0.06, "riding along, no token takes more than a full step"
    assert token_time(STEPS, apart._replace(wave=0), 1000) == pytest.approx(0.01 + 0.4)


def test_the_mean_time_to_first_token_by_hand():
    added = 4 / 100 * 0.04
    busy = added / (0.01 + added)
    later = 0.05 + busy * 0.04 / (2 * (1 - busy)) + 0.01 + 0.01
    first = 0.06 * (5 + 2) / 2 / 2 + 0.01
    assert first_wave(STEPS, LOOP) == pytest.approx(first - 0.01)
    assert first_token_time(STEPS, LOOP, 4) == pytest.approx(0.1 * first + 0.9 * later)
    cold = LOOP._replace(cold=1.4)
    assert first_token_time(STEPS, cold, 4) - first_token_time(STEPS, LOOP, 4) == pytest.approx(0.1 * 0.4 * first)
    seldom = LOOP._replace(poll=31)
    assert first_token_time(STEPS, seldom, 4) - first_token_time(STEPS, LOOP, 4) == pytest.approx(0.9 * 15 * 0.01)


def test_arrays_give_what_numbers_give():
    decoding = np.array([1.0, 4, 400])
    for time in (token_time, first_token_time):
        each = [float(time(STEPS, LOOP, value)) for value in decoding]
        np.testing.assert_allclose(time(STEPS, LOOP, decoding), each)


def test_a_full_step_holds_what_the_budget_leaves_beside_half_of_the_users():
    assert full_step(bench(users=64, budget=2048), 64, mixed=True) == (2048 - 32, 0.0, 32)
    assert full_step(bench(users=64, budget=2048), 64, mixed=False) == (2048, 0.0, 0.0)
    assert full_step(bench(users=1), 1, mixed=False) == (900, 0.0, 0.0), "no more than there is"
    # Of a prompt in several chunks half of the others came before, on average.
    assert full_step(bench(prompt=4000, budget=1000), 16, mixed=False) == (1000, (3600 - 1000) / 2, 0.0)
    assert full_step(bench(prompt=4000, budget=1000, whole=True), 16, mixed=False)[0] == 3600


def test_a_lone_user_waits_for_nobody():
    timer, load = timer_of(), bench(users=1)
    found = closed_loop(timer, load)
    steps, _ = step_times(timer, load, 1, 1)
    rest = request_overhead(timer.deployment, 900)
    assert steps.prompt == timer.expected(900, 0, 0, 1350)
    assert found.ttft == pytest.approx(steps.prompt + rest, abs=1.1 * steps.decode)
    assert found.tpot == pytest.approx(steps.decode, rel=0.05)
    assert (found.waiting, found.decoding) == (0, pytest.approx(1, rel=0.05))


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
def test_more_users_never_get_tokens_sooner(engine):
    found = [closed_loop(timer_of(engine=engine), bench(users=users)) for users in (1, 2, 4, 8, 16, 32, 64, 128)]
    for name in ("ttft", "tpot", "longest", "decoding"):
        values = [getattr(each, name) for each in found]
        assert values == sorted(values), name


def test_users_beyond_the_servers_limit_wait_for_a_place():
    free, held = (closed_loop(timer_of(), bench(users=64, most=most)) for most in (None, 16))
    alone = closed_loop(timer_of(), bench(users=16))
    assert free.waiting == 0
    assert held.waiting == 48
    assert held.tpot < free.tpot
    # Three of four users wait for the answers of three others before them.
    assert held.ttft > 2.5 * (900 * alone.tpot + alone.ttft)


def test_a_full_cache_makes_users_wait():
    found = closed_loop(timer_of(prompt=8000), bench(prompt=8000, users=128))
    assert 0 < found.waiting < 128
    assert found.decoding < 128 - found.waiting + 1


def test_prompts_between_two_looks_share_a_step():
    often = timer_of(engine="sglang")
    engine = replace(often.deployment.engine, poll_interval=30)
    seldom = StepTimer(replace(often.deployment, engine=engine))
    load = bench(users=64)
    (one, _), (several, _) = (step_times(timer, load, 64, 64) for timer in (often, seldom))
    shared = 64 * 30 / 900
    assert several.prompt == pytest.approx(often.expected(shared * 900, 0, 0, 1350, shared))
    assert several.added < one.added
    assert closed_loop(seldom, load).ttft > closed_loop(often, load).ttft


def test_ranks_wait_for_each_other_where_experts_are_spread():
    spread = {"tp": 1, "dp": 8, "ep": 8}
    assert lock_step(deployment("deepseek-v3", "h200-sxm", **spread))
    assert not lock_step(deployment("deepseek-v3", "h200-sxm", engine="trtllm", **spread))
    assert not lock_step(deployment("deepseek-v3", "h200-sxm", tp=8))
    assert not lock_step(deployment("llama-3.1-8b", dp=8))
    assert math.isfinite(closed_loop(StepTimer(deployment("llama-3.1-8b", dp=8)), bench(users=64)).ttft)


def test_short_answers_all_meet_the_first_wave():
    """Where answers differ, the mean over requests of the time per token weighs the short ones."""
    steps, load = Steps(0.01, 0.1, 0.09, 0.3), Loop(100, 1.0, 200.0, 4.0, True, 1, 1, 0.0)
    alike, spread = (token_time(steps, load._replace(answers=each), 100.0) for each in ((1.0,), (0.05, 1.95)))
    waves = (100 - 1) / 4 / 2
    assert alike == pytest.approx(0.01 + 0.29 * waves / 200)
    assert spread == pytest.approx(0.01 + 0.29 * (min(10, waves) / 10 + waves / 390) / 2)
    first = load._replace(mixed=False, answers=(0.05, 1.95))
    assert token_time(steps, first, 100.0) == pytest.approx(0.01 + waves * 0.3 * (1 / 10 + 1 / 390) / 2)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_spread_of_answers_is_that_of_a_replay(engine):
    """A burst of requests with answers of conversations: the mean over requests against the replay."""
    case, timer = case_of(SMALL, engine, 1000, 300), timer_of(SMALL, engine, 1000, 300)
    wide = Run(row=1, path="", prompt_tokens=900, output_tokens=270, wide=True, model="", gpu="", engine="")
    draws, parts = random.Random(3), answers(wide)
    assert fmean(parts) == pytest.approx(1)
    assert fmean(1 / part for part in parts) == pytest.approx(4.4, rel=0.01)
    requests = [Request(0.0, 900, max(2, round(270 * draws.choice(parts)))) for _ in range(200)]
    found = simulate(case, requests, scheduler_for(case, 8192, 1024), timer, concurrency=200).served
    seen = fmean(each.tpot for each in found if each.tpot)
    load = Bench(prompt=900, output=270, users=200, requests=200, budget=8192, answers=parts)
    spread, alike = (closed_loop(timer, each).tpot / seen for each in (load, replace(load, answers=(1.0,))))
    assert abs(spread - 1) < 0.25 < abs(alike - 1)
