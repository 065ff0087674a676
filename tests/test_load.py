"""Balance, duty and mean TPOT against a simulated steady state; bounds over ranges."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkcalc.records import Parallelism, Workload
from chunkcalc.time.service import Service, accepted_tokens, balance_chunk, requests_per_step
from chunkcalc.time.step import StepTimer
from tests.deployments import deployment

TIMERS = [StepTimer(deployment("llama-3.1-8b")), StepTimer(deployment("gemma-3-27b", "b200"))]


def service(
    timer=TIMERS[0], *, stages=1, mixed=True, prompt=4000, output=500, batch=32, accepted=1.0, **more
) -> Service:
    workload = Workload(prompt=prompt, output=output, batch=batch, context=prompt + output // 2, **more)
    return Service(
        timer.expected, workload, Parallelism(pp=stages), mixed=mixed, accepted=accepted, request_overhead=0.02
    )


@st.composite
def services(draw):
    return service(
        draw(st.sampled_from(TIMERS)),
        stages=draw(st.sampled_from((1, 1, 2))),
        mixed=draw(st.booleans()),
        prompt=draw(st.integers(1, 500)),
        output=draw(st.integers(2, 1000)),
        batch=draw(st.integers(0, 200)),
    )


def test_accepted_tokens_follow_the_geometric_series():
    assert accepted_tokens(4, 0.0) == 1
    assert accepted_tokens(4, 1.0) == 5
    assert accepted_tokens(2, 0.5) == 1 + 0.5 + 0.25


def test_balance_feeds_as_many_requests_as_finish():
    # 32 decodes with 499 steps left each finish 32/499 requests a step, of 4,000 prompt tokens.
    assert balance_chunk(32, 1, 4000, 500) == pytest.approx(32 * 4000 / 499)
    assert requests_per_step(0, 1, 1) == 0
    assert requests_per_step(4, 1, 1) == float("inf")


def simulate(found: Service, c: int, steps: int = 60_000) -> float:
    """Mean time per token over steps in which `rate` requests per step arrive evenly."""
    time, arrived, queue = 0.0, 0.0, 0
    for _ in range(steps):
        arrived += found.rate
        while arrived >= 1:
            arrived -= 1
            queue += len(found.prefill.chunks(c))
        if queue:
            queue -= 1
            time += sum(found.prefill.steps(c)) / len(found.prefill.chunks(c))
        else:
            time += found.decode_step
    return time / steps


@pytest.mark.parametrize("c", [500, 1000, 4000])
def test_mean_tpot_of_mixed_steps_is_what_a_simulation_gives(c):
    found = service()
    assert found.tpot(c) == pytest.approx(simulate(found, c), rel=0.01)


def test_mean_tpot_when_prompts_go_first_adds_whole_prompts():
    found = service(mixed=False)
    # Per decode step `rate` prompts run first, alone.
    assert found.tpot(1000) == pytest.approx(found.decode_step + found.rate * found.prefill.total(1000))
    assert found.gap(1000) == pytest.approx(found.prefill.total(1000) + found.decode_step)
    busy = found.rate * found.prefill.total(1000)
    assert found.utilisation(1000) == pytest.approx(busy / (busy + found.decode_step))


def test_an_interval_bounds_the_gap_by_one_prompt_step():
    plain = service(mixed=False)
    workload = Workload(prompt=4000, output=500, batch=32, context=4250)
    spaced = Service(
        TIMERS[0].expected, workload, Parallelism(), mixed=False, accepted=1.0, request_overhead=0.02, interval=2
    )
    assert spaced.gap(500) == pytest.approx(spaced.prefill.longest_step(500) + spaced.decode_step)
    assert spaced.ttft(500) == pytest.approx(plain.ttft(500) + 7 * 2 * plain.decode_step)
    assert spaced.tpot(500) == pytest.approx(plain.tpot(500)), "the prompts take no longer, they are only spaced out"


def test_short_prompts_share_a_step():
    found = service(prompt=100, output=20, batch=128)
    assert found.rate > 1
    assert found.tpot(8192) < found.gap(8192)
    assert found.tpot(8192) >= found.step(100, 0, found.b, found.s)


def test_a_prefix_hit_leaves_less_to_do_but_not_nothing():
    full, half = service(), service(prefix_hit=0.5)
    assert half.prefill.tokens == 2000
    assert half.prefill.cached == 2000
    assert half.balance == full.balance / 2
    assert full.ttft(512) / 2 < half.ttft(512) < full.ttft(512)
    assert service(prefix_hit=0.9999).prefill.tokens == 1


@settings(max_examples=60)
@given(services(), st.data())
def test_bounds_hold_for_every_chunk_of_a_range(found, data):
    low = data.draw(st.integers(1, 600))
    high = data.draw(st.integers(low, min(600, low + 120)))
    quantities = [
        (found.ttft, found.ttft_bounds), (found.gap, found.gap_bounds),
        (found.tpot, found.tpot_bounds), (found.utilisation, found.utilisation_bounds),
    ]  # fmt: skip
    for value, bounds in quantities:
        values = [value(c) for c in range(low, high + 1)]
        least, most = bounds(low, high)
        assert least <= min(values) * (1 + 1e-12)
        assert most >= max(values) * (1 - 1e-12)
        exact = bounds(low, low)
        assert exact.least == pytest.approx(values[0])
        assert exact.most == pytest.approx(values[0])
