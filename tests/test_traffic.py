"""Rates and users: limits, laws, and the closed forms against the replay."""

import math
from dataclasses import replace
from functools import cache
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkcalc.answer.judged import outlook
from chunkcalc.answer.question import Question
from chunkcalc.answer.replay import scheduler_for, simulate
from chunkcalc.answer.resolve import Case, resolve
from chunkcalc.time.service import request_overhead
from chunkcalc.time.step import StepTimer
from chunkcalc.traffic.arrivals import Request, burst, poisson
from chunkcalc.traffic.flow import Traffic
from chunkcalc.traffic.lengths import variation
from chunkcalc.traffic.queueing import closed_loop, mean_wait, sum_quantile, wait_quantile
from chunkcalc.traffic.scheduler import Scheduler
from chunkcalc.traffic.users import stepped

BUDGET = 1024
ENGINES = ("vllm", "sglang", "trtllm")


@cache
def case_of(engine: str, prompt: int = 4000, output: int = 300, model: str = "llama-3.1-8b") -> Case:
    return resolve(Question(model=model, gpu="h100-sxm", prompt=prompt, output=output, engine=engine))


@cache
def traffic_of(engine: str, prompt: int = 4000, budget: int = BUDGET, model: str = "llama-3.1-8b") -> Traffic:
    case = case_of(engine, prompt, model=model)
    return Traffic(case.deployment, case.workload, budget, StepTimer(case.deployment, 0))


def test_the_wait_is_that_of_md1_and_mg1():
    assert mean_wait(0.8, 1.0) == pytest.approx(0.8 / (2 * 0.2))
    assert mean_wait(0.8, 1.0, C=1.0) == pytest.approx(0.8 / 0.2)  # M/M/1
    assert mean_wait(1.0, 1.0) == math.inf


@given(st.floats(0.01, 0.98), st.floats(0.001, 10), st.floats(0, 2), st.floats(1, 8))
def test_the_wait_grows_with_load_and_variance_and_shrinks_with_room(rho, hold, C, k):
    rate = rho * k / hold
    wait = mean_wait(rate, hold, k, C)
    assert 0 <= wait < math.inf
    assert mean_wait(rate * 1.01, hold, k, C) >= wait
    assert mean_wait(rate, hold, k, C + 0.1) >= wait


@given(st.floats(0.01, 0.98), st.floats(0.01, 10))
def test_the_quantiles_of_the_wait_have_its_mean(rho, wait):
    steps = 20000
    mean = sum(wait_quantile(wait, rho, (index + 0.5) / steps) for index in range(steps)) / steps
    assert mean == pytest.approx(wait, rel=0.01)


@given(st.integers(1, 200), st.floats(0.001, 1), st.floats(0.001, 20))
def test_a_closed_loop_obeys_littles_law_and_its_bounds(users, hold, thinking):
    found = closed_loop(users, hold, thinking)
    assert found.rate * (found.wait + hold + thinking) == pytest.approx(users)
    assert found.rate <= min(1 / hold, users / (hold + thinking)) * (1 + 1e-9)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_rate_towards_zero_gives_the_unloaded_answer(engine):
    flow = traffic_of(engine).at_rate(1e-4)
    case = case_of(engine)
    alone = outlook(case.deployment, case.workload, case.slo).expected
    one = outlook(case.deployment, replace(case.workload, batch=1), case.slo).expected
    assert flow.wait == pytest.approx(0, abs=1e-4)
    assert flow.ttft == pytest.approx(alone.ttft(BUDGET), rel=0.02)
    assert flow.tpot == pytest.approx(one.decode_step, rel=0.01)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_wait_diverges_where_the_steady_state_ends(engine):
    traffic = traffic_of(engine)
    limit = traffic.limit()
    assert traffic.at_rate(limit * 1.01) is None
    flows = [traffic.at_rate(share * limit) for share in (0.2, 0.5, 0.8, 0.95)]
    waits = [flow.wait for flow in flows]
    assert waits == sorted(waits)
    if engine == "sglang":  # its decodes are what runs away: the queue for the prefill stays short
        assert flows[-1].tpot > 4 * flows[0].tpot
    else:
        assert waits[-1] > 5 * waits[1]
    for flow in flows:  # Little's law for the decodes
        assert flow.batch == pytest.approx(flow.rate * 299 * flow.tpot, rel=0.01)


def seen(engine: str, prompt: int, budget: int, rate: float, seed: int, model: str = "llama-3.1-8b"):
    case, traffic = case_of(engine, prompt, model=model), traffic_of(engine, prompt, budget, model)
    scheduler = Scheduler(
        budget=budget,
        most_running=4096,
        mixed=traffic.mixed,
        request_overhead=request_overhead(case.deployment, case.workload.prompt),
    )
    found = simulate(case, poisson(rate, 2000, prompt, 300, seed), scheduler, traffic.timer)
    kept = found.served[400:]
    return sum(each.ttft for each in kept) / len(kept), sum(each.tpot for each in kept) / len(kept)


@pytest.mark.parametrize(
    ("engine", "prompt", "budget"),
    [
        ("vllm", 4000, 1024),
        ("vllm", 1000, 2048),
        ("sglang", 4000, 4096),
        ("sglang", 1000, 8192),
        ("trtllm", 6000, 2048),
    ],
)
@pytest.mark.parametrize("share", [0.3, 0.6])
def test_the_closed_form_agrees_with_the_replay(engine, prompt, budget, share):
    traffic = traffic_of(engine, prompt, budget)
    rate = share * traffic.limit()
    flow = traffic.at_rate(rate)
    runs = [seen(engine, prompt, budget, rate, seed) for seed in (3, 4)]
    ttft, tpot = (sum(values) / 2 for values in zip(*runs, strict=True))
    assert flow.tpot == pytest.approx(tpot, rel=0.10)
    assert flow.ttft == pytest.approx(ttft, rel=0.12)


@pytest.mark.parametrize(
    ("engine", "model", "prompt", "budget"),
    [
        ("vllm", "llama-3.1-8b", 200, 2048),  # two prompts fit the largest graph, a third does not
        ("vllm", "llama-3.1-8b", 350, 2048),  # one does
        ("sglang", "qwen3-30b-a3b", 200, 4096),  # the host takes as long to launch one prompt as it does for ten
        ("sglang", "qwen3-30b-a3b", 1000, 8192),
    ],
)
def test_steps_that_jump_or_wait_for_the_host_agree_with_the_replay(engine, model, prompt, budget):
    traffic = traffic_of(engine, prompt, budget, model)
    rate = 0.4 * traffic.limit()
    flow = traffic.at_rate(rate)
    ttft, tpot = seen(engine, prompt, budget, rate, 3, model)
    assert flow.tpot == pytest.approx(tpot, rel=0.10)
    assert flow.ttft == pytest.approx(ttft, rel=0.12)


@pytest.mark.parametrize("load", ["rate", "users"])
def test_a_budget_of_one_captured_graph_never_pays_for_a_step_beyond_it(load):
    case = case_of("vllm", 2000, 200)
    found = []
    for captured in (512, 100_000):
        engine = replace(case.deployment.engine, captured=captured)
        traffic = Traffic(replace(case.deployment, engine=engine), case.workload, 512)
        found.append(traffic.at_rate(6.0) if load == "rate" else traffic.with_users(48))
    assert found[0].tpot == pytest.approx(found[1].tpot)
    assert found[0].ttft == pytest.approx(found[1].ttft)


def test_users_that_wait_agree_with_the_replay():
    case, traffic = case_of("vllm"), traffic_of("vllm")
    requests = [Request(0.0, 4000, max(2, each.prompt)) for each in burst(480, 300, 1, 1, spread=0.1)]
    scheduler = Scheduler(
        budget=BUDGET, most_running=4096, request_overhead=request_overhead(case.deployment, case.workload.prompt)
    )
    found = simulate(case, requests, scheduler, traffic.timer, 16)
    kept = found.served[32:-16]
    tpot = sum(each.tpot for each in kept) / len(kept)
    assert traffic.with_users(16).tpot == pytest.approx(tpot, rel=0.05)


@given(st.sampled_from(ENGINES), st.floats(0.01, 0.95), st.floats(0.01, 0.98))
def test_quantiles_grow(engine, share, q):
    traffic = traffic_of(engine)
    flow = traffic.at_rate(share * LIMITS[engine])
    assert flow.ttft_quantile(q) <= flow.ttft_quantile(q + 0.01)
    assert flow.gap_quantile(q) <= flow.gap_quantile(q + 0.01)


LIMITS = {engine: traffic_of(engine).limit() for engine in ENGINES}


def test_prompts_of_unequal_length_have_the_tails_of_the_replay():
    C = variation(4000, 8000)
    case = case_of("vllm")
    traffic = Traffic(case.deployment, case.workload, BUDGET, C=C)
    scheduler = Scheduler(
        budget=BUDGET, most_running=4096, request_overhead=request_overhead(case.deployment, case.workload.prompt)
    )
    found = simulate(case, poisson(3.5, 6000, 4000, 300, 1, C), scheduler, traffic.timer)
    flow = traffic.at_rate(3.5)
    assert flow.ttft == pytest.approx(found.ttft["mean"], rel=0.12)
    for q in (50, 90, 99):
        assert flow.ttft_quantile(q / 100) == pytest.approx(found.ttft[f"p{q}"], rel=0.30)


@given(st.floats(0.01, 3), st.floats(0.05, 0.95), st.floats(0.01, 3), st.floats(0.05, 0.95))
def test_a_sum_with_equal_lengths_is_the_wait_and_ones_own(wait, rho, own, q):
    assert sum_quantile(wait, rho, own, 1e-6, q) == pytest.approx(own + wait_quantile(wait, rho, q), rel=1e-3, abs=1e-3)
    assert sum_quantile(wait, rho, own, 0.5, q) <= sum_quantile(wait, rho, own, 0.5, q + 0.04)


def test_a_full_cache_makes_requests_wait_for_room():
    case = resolve(Question(model="qwen3-32b", gpu="h100-sxm", prompt=12000, output=1000))
    free, bound = (Traffic(case.deployment, case.workload, 256, most=most) for most in (1000, 3))
    assert bound.at_rate(0.03).wait > free.at_rate(0.03).wait
    assert bound.limit() < free.limit() / 2
    stay = bound.at_rate(0.03).ttft + 999 * bound.at_rate(0.03).tpot
    assert bound.limit() < 3 / (stay - bound.at_rate(0.03).wait)


@pytest.mark.parametrize("rate", [0.03, 0.05])
def test_waiting_for_room_agrees_with_the_replay(rate):
    case = resolve(Question(model="qwen3-32b", gpu="h100-sxm", prompt=12000, output=1000))
    traffic = Traffic(case.deployment, case.workload, BUDGET)
    requests = poisson(rate, 4000, 12000, 1000, 2)
    found = simulate(case, requests, scheduler_for(case, BUDGET, 1024), traffic.timer)
    assert traffic.at_rate(rate).ttft == pytest.approx(found.ttft["mean"], rel=0.25)


CLOSED = [
    ("vllm", 4000, 300, 1024, 16), ("vllm", 2000, 20, 2048, 12), ("sglang", 3000, 200, 4096, 8),
    ("trtllm", 1000, 100, 2048, 24), ("vllm", 20_000, 100, 2048, 1),
]  # fmt: skip


@pytest.mark.parametrize(("engine", "prompt", "output", "budget", "users"), CLOSED)
def test_users_are_what_the_scheduler_makes_of_them(engine, prompt, output, budget, users):
    """A closed loop against a replay three times as long, of other draws; Little's law; never below the floor."""
    question = Question(model="llama-3.1-8b", gpu="h100-sxm", engine=engine, prompt=prompt, output=output)
    case = resolve(question)
    traffic = Traffic(case.deployment, case.workload, budget)
    found = stepped(traffic, users)
    drawn = burst(30 * users + 60, output, 1, 7, spread=0.1)
    requests = [Request(0.0, prompt, max(2, each.prompt)) for each in drawn]
    run = simulate(case, requests, scheduler_for(case, budget, 4096), concurrency=users)
    kept = run.finished[3 * users : -users]
    assert found.ttft == pytest.approx(fmean(each.ttft for each in kept), rel=0.10)
    assert found.tpot == pytest.approx(fmean(each.tpot for each in kept), rel=0.05)
    cycle = fmean(each.ttft + each.tpot * (each.request.output - 1) for each in kept)
    assert found.rate == pytest.approx(users / cycle, rel=0.03)
    assert found.rate * (found.ttft + found.tpot * (output - 1)) == pytest.approx(users, rel=0.02)
    assert found.tpot >= traffic.timer.floor(0, 0, 1.0, case.workload.context) / traffic.rank.accepted


def test_a_second_row_of_100_000_tokens_leaves_the_first_requests_host_time_alone():
    case = resolve(Question(model="llama-3.1-8b", gpu="h100-sxm", prompt=50_000, output=10))
    scheduler = scheduler_for(case, 2048, 64)
    alone = simulate(case, [Request(0.0, 100, 10)], scheduler).served[0].ttft
    beside = simulate(case, [Request(0.0, 100, 10), Request(9.0, 100_000, 10)], scheduler).served[0].ttft
    assert beside == alone


def test_sglang_keeps_room_for_tokens_to_come():
    """Fewer are let in at once than vLLM would, and none gives its place up before the cache is nearly full."""
    requests = [Request(0.0, 1000, 1000) for _ in range(64)]
    case = resolve(Question(model="llama-3.1-8b", gpu="h100-sxm", engine="sglang", prompt=1000, output=1000))
    keeping = replace(scheduler_for(case, 8192, 64), kv_tokens=32_000)
    assert keeping.new_tokens is not None
    bare = replace(keeping, new_tokens=None)
    kept, free = (simulate(case, requests, each) for each in (keeping, bare))
    assert sum(each.preempted for each in kept.served) < sum(each.preempted for each in free.served)


@pytest.mark.parametrize("shared", [True, False])
def test_a_system_prompt_is_stored_once(shared):
    """One prefix of 7,200 tokens for all, or one each: the highest rate in closed form and in the replay."""
    asked = Question(
        model="llama-3.1-8b", gpu="h100-sxm", prompt=8000, output=200, prefix_hit=0.9, prefix_shared=shared, rate=6.0
    )
    case = resolve(asked)
    traffic = Traffic(case.deployment, case.workload, 1024)
    limit = traffic.limit()
    assert traffic.most > 500 if shared else traffic.most < 80
    for share, fits in ((0.85, True), (1.25, False)):
        run = simulate(case, poisson(share * limit, 1500, 8000, 200), scheduler_for(case, 1024, 4096))
        assert run.outrun != fits
    found = traffic.at_rate(0.7 * limit)
    run = simulate(case, poisson(0.7 * limit, 1500, 8000, 200, 3), scheduler_for(case, 1024, 4096))
    assert found.tpot == pytest.approx(fmean(each.tpot for each in run.finished), rel=0.08)
