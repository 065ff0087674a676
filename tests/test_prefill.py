"""Chunks add up, and the bounds of a range hold for every chunk in it."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkcalc.time.prefill import Prefill
from chunkcalc.time.step import StepTimer, with_host
from tests.deployments import deployment

TIMERS = {
    name: StepTimer(deployment(name, "h200-sxm", tp=tp))
    for name, tp in (("llama-3.1-8b", 1), ("gemma-3-27b", 2), ("gpt-oss-120b", 1), ("deepseek-v3", 8))
}


@st.composite
def prefills(draw, longest=3000):
    timer = TIMERS[draw(st.sampled_from(sorted(TIMERS)))]
    step = timer.expected if draw(st.booleans()) else timer.floor
    return Prefill(
        step, draw(st.integers(1, longest)), draw(st.integers(0, 2000)), draw(st.integers(0, 64)), 1500.0,
        draw(st.sampled_from((1, 1, 2, 4))),
    )  # fmt: skip


@given(prefills(), st.integers(1, 5000))
def test_chunks_cover_the_prompt_in_order(prefill, c):
    chunks = prefill.chunks(c)
    assert len(chunks) == math.ceil(prefill.tokens / c)
    assert sum(size for size, _ in chunks) == prefill.tokens
    assert [p for _, p in chunks] == [prefill.cached + index * c for index in range(len(chunks))]


@settings(max_examples=60)
@given(prefills(longest=400), st.data())
def test_bounds_hold_for_every_chunk_of_a_range(prefill, data):
    low = data.draw(st.integers(1, 500))
    high = data.draw(st.integers(low, 500))
    totals = [prefill.total(c) for c in range(low, high + 1)]
    assert prefill.least(low, high) <= min(totals) * (1 + 1e-12)
    assert prefill.most(low, high) >= max(totals) * (1 - 1e-12)
    assert prefill.least(low, low) == prefill.most(low, low) == totals[0]


@given(prefills(), st.integers(1, 4000))
def test_the_longest_step_bounds_every_chunk(prefill, c):
    assert max(prefill.steps(c)) <= prefill.longest_step(c) * (1 + 1e-12)
    assert prefill.longest_step(c) <= prefill.longest_step(c + 1) * (1 + 1e-12)


@given(prefills(), st.integers(1, 3000))
def test_a_bound_that_stops_early_still_says_which_side_it_is_on(prefill, c):
    limit = prefill.total(c) * 0.7
    low, high = max(1, c // 2), 2 * c
    assert (prefill.least(low, high, limit) > limit) == (prefill.least(low, high) > limit)
    assert (prefill.most(low, high, limit) > limit) == (prefill.most(low, high) > limit)


def test_pipeline_stages_overlap_chunks():
    timer = StepTimer(deployment("llama-3.1-70b", pp=4))
    prefill = Prefill(timer.expected, 4096, 0, 0, 1.0, 4)
    times = prefill.steps(512)
    assert prefill.total(512) == pytest.approx((sum(times) + 3 * max(times)) / 4)
    # One chunk passes the stages one after the other: no overlap.
    assert prefill.total(4096) == pytest.approx(timer.expected(4096, 0, 0, 1.0))


def test_ttft_is_a_sawtooth_between_chunk_counts():
    prefill = Prefill(TIMERS["llama-3.1-8b"].expected, 4096, 0, 32, 2000.0)
    assert prefill.total(2048) < prefill.total(3584)
    assert prefill.total(2047) > prefill.total(2048)


def test_a_last_chunk_that_a_captured_graph_holds_makes_a_prompt_faster():
    timer = TIMERS["llama-3.1-8b"]
    prefill = Prefill(timer.expected, 4096, 0, 32, 2000.0)
    # 4,096 - 3,616 + 32 decodes are 512 tokens, what a graph holds; one prompt token more is too many.
    last = (480, 3616, 32, 2000.0)
    launched = with_host(timer.gpu(*last), timer.host(481, 32))
    saved = launched - timer.expected(*last)
    assert saved > 0
    assert prefill.total(3615) - prefill.total(3616) == pytest.approx(saved, rel=0.05)
