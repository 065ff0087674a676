"""Every verdict on a realistic case, certain and expected; what each one promises holds."""

from dataclasses import replace

import pytest

from chunkcalc import solve
from chunkcalc.answer.disaggregation import (
    KV_LINK,
    decode_certificate,
    disaggregate,
    prefill_certificate,
    prefill_rate,
    transfer_time,
)
from chunkcalc.answer.judged import outlook
from chunkcalc.answer.question import Question
from chunkcalc.answer.recommendation import aligned_best
from chunkcalc.answer.resolve import resolve
from chunkcalc.answer.solve import answer
from chunkcalc.answer.verdict import status
from chunkcalc.answer.window import keeps
from chunkcalc.catalog.lookup import gpus
from chunkcalc.report import json as json_report
from chunkcalc.time.search import first
from tests.deployments import deployment

SMALL = {"model": "llama-3.1-8b", "gpu": "h100-sxm"}
LARGE = {"model": "llama-3.1-70b", "gpu": "h100-sxm"}
CASES = {
    "feasible": ({**SMALL, "prompt": 4000, "batch": 32, "ttft": 1.0, "tpot": 0.03}, "feasible", False),
    "marginal": ({**SMALL, "prompt": 4000, "batch": 32, "ttft": 1.0, "tpot": 0.018}, "marginal", False),
    "retune": (
        {**SMALL, "prompt": 4000, "batch": 16, "ttft": 1.0, "tpot": 0.03, "budget": 1408}, "retune", False,
    ),
    "retune, certain": (
        {**SMALL, "prompt": 4000, "batch": 32, "ttft": 1.0, "tpot": 0.03, "budget": 8192}, "retune", True,
    ),
    "retune to mixed chunks": (
        {**SMALL, "prompt": 8000, "batch": 16, "ttft": 2.0, "itl": 0.05, "engine": "sglang"}, "retune", True,
    ),
    "overloaded": (
        {**SMALL, "prompt": 4000, "output": 200, "batch": 48, "ttft": 2.0, "tpot": 0.03}, "overloaded", False,
    ),
    "overloaded, certain": (
        {**SMALL, "prompt": 4000, "output": 32, "batch": 64, "ttft": 2.0, "tpot": 0.05}, "overloaded", True,
    ),
    "disaggregate": (
        {**LARGE, "tp": 4, "prompt": 8000, "output": 500, "batch": 16, "ttft": 0.8, "tpot": 0.03},
        "disaggregate", False,
    ),
    "disaggregate, certain": (
        {**LARGE, "tp": 8, "prompt": 16000, "output": 200, "batch": 8, "ttft": 1.8, "tpot": 0.02, "itl": 0.05,
         "engine": "sglang"},
        "disaggregate", True,
    ),
    "scale up, decodes": (
        {**LARGE, "tp": 4, "prompt": 8000, "batch": 32, "ttft": 1.0, "tpot": 0.02}, "scale_up", False,
    ),
    "scale up, decodes, certain": (
        {**LARGE, "tp": 4, "prompt": 8000, "batch": 8, "ttft": 1.0, "tpot": 0.01}, "scale_up", True,
    ),
    "scale up, prompt, certain": (
        {"model": "llama-3.1-70b", "gpu": "a100-sxm4-80gb", "tp": 4, "prompt": 32000, "batch": 4, "ttft": 2.0,
         "tpot": 0.1},
        "scale_up", True,
    ),
    "scale up, memory, certain": ({**LARGE, "prompt": 4000, "batch": 8, "ttft": 2.0, "tpot": 0.05}, "scale_up", True),
    "impossible": (
        {"model": "llama-3.1-405b", "gpu": "h100-sxm", "tp": 8, "weights": "fp8", "prompt": 8000, "batch": 8,
         "ttft": 1.0, "tpot": 0.004},
        "impossible", True,
    ),
}  # fmt: skip


def view_of(fields, **changes):
    case = resolve(Question(**{**fields, **changes}))
    return outlook(case.deployment, case.workload, case.slo)


@pytest.mark.parametrize("name", CASES)
def test_every_verdict_has_a_realistic_case(name):
    fields, verdict, certain = CASES[name]
    found = solve(**fields, with_remedies=False)
    assert (found.verdict, found.certain) == (verdict, certain)
    assert found.reasons
    assert found.holds == (verdict in ("feasible", "marginal"))
    assert found.needs_disaggregation == (verdict == "disaggregate")


@pytest.mark.parametrize("name", CASES)
def test_a_certain_verdict_fails_on_the_floor_and_no_other_does(name):
    fields, verdict, certain = CASES[name]
    view = view_of(fields)
    limits = [view.memory_rule(), *view.latency_limits(view.floor)]
    if verdict == "overloaded":
        limits += view.rules(view.expected)
    found = solve(**fields, with_remedies=False)
    if verdict == "retune" and found.given:
        assert certain == (not all(limit.holds(found.chunk) for limit in limits))
    else:
        assert certain == (first(limits, 1, view.longest_chunk) is None)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case[1] not in ("feasible",)])
def test_every_remedy_applied_gives_the_verdict_it_claims(name):
    fields, verdict, _ = CASES[name]
    found = solve(**fields)
    assert len(found.remedies) <= 8
    assert [remedy.gpus for remedy in found.remedies] == sorted(remedy.gpus for remedy in found.remedies)
    for remedy in found.remedies:
        assert remedy.verdict in ("feasible", "marginal")
        if remedy.set:
            applied = answer(replace(Question(**fields), **remedy.set), with_remedies=False)
            assert applied.verdict == remedy.verdict
            assert applied.expected.ttft_s == remedy.ttft_s
        else:
            assert disaggregate(view_of(fields)) is not None
    if verdict == "marginal":
        assert all(remedy.verdict == "feasible" for remedy in found.remedies)


@pytest.mark.parametrize("name", ["disaggregate", "disaggregate, certain"])
def test_disaggregation_is_named_only_where_mixing_fails_and_both_units_hold(name):
    fields, _, _ = CASES[name]
    view = view_of(fields)
    assert first([view.memory_rule(), *view.latency_limits(view.expected)], 1, view.longest_chunk) is None
    pools = disaggregate(view)
    assert pools.ttft_s <= fields["ttft"]
    assert pools.tpot_s <= fields["tpot"]
    assert not decode_certificate(view.expected, view.slo)
    assert not prefill_certificate(view, view.expected, view.slo, pools.transfer_s)
    # The prefill units keep up with the decode units, within the wait that TTFT leaves.
    own = pools.ttft_s - pools.transfer_s - view.expected.request_overhead
    rate = prefill_rate(own, fields["ttft"] - pools.ttft_s)
    assert pools.prefill_units * rate >= pools.decode_units * view.expected.rate / view.expected.decode_step


def test_no_disaggregation_where_one_unit_misses_its_own_limit():
    for name in ("scale up, decodes", "scale up, prompt, certain"):
        assert disaggregate(view_of(CASES[name][0])) is None


def test_the_kv_transfer_of_a_70b_prompt_takes_54_ms_over_one_400_gigabit_card():
    found = deployment("llama-3.1-70b", tp=4)
    assert transfer_time(found, 8192) == pytest.approx(8192 * 327_680 / KV_LINK)
    assert transfer_time(found, 8192) == pytest.approx(0.054, abs=0.001)
    latent = deployment("deepseek-v3", "h200-sxm", tp=8)
    assert transfer_time(latent, 1000) == pytest.approx(1000 * 70_272 / KV_LINK)


def test_a_batch_above_the_balance_alone_is_overloaded():
    fields = {**SMALL, "prompt": 4000, "output": 200, "ttft": 2.0, "tpot": 0.03}
    most = solve(**fields, batch=60, with_remedies=False).max_batch
    assert solve(**fields, batch=most, with_remedies=False).verdict == "feasible"
    assert solve(**fields, batch=60, with_remedies=False).verdict == "overloaded"


def test_without_a_batch_the_largest_that_holds_is_taken():
    fields = {**SMALL, "prompt": 4000, "ttft": 1.0, "tpot": 0.03}
    found = solve(**fields)
    assert found.verdict == "feasible"
    assert solve(**fields, batch=found.workload.batch).verdict == "feasible"
    more = range(found.workload.batch + 1, found.workload.batch + 10)
    assert all(aligned_best(view_of(fields, batch=batch), margin=True) is None for batch in more)
    # Without regard to alignment, yes turns to no once and for all as the batch grows.
    kept = [keeps(view_of(fields, batch=batch), margin=True) for batch in range(1, 80)]
    assert kept == sorted(kept, reverse=True)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
def test_every_chunk_of_a_feasible_window_keeps_its_limits(engine):
    fields = {**SMALL, "prompt": 2000, "batch": 16, "ttft": 1.0, "tpot": 0.04, "engine": engine}
    found = solve(**fields)
    assert found.verdict == "feasible"
    view = view_of(fields)
    assert status(view, found.chunk) == "feasible"
    ends = (found.window.chunk_min, found.window.chunk_max)
    assert all(status(view, c) != "fails" for c in ends)
    outside = [c for c in (ends[0] - 1, ends[1] + 1) if 1 <= c <= view.longest_chunk]
    limits = [*view.latency_limits(view.expected), *view.rules(view.expected)]
    assert not any(all(limit.holds(c) for limit in limits) for c in outside)


def test_without_limits_memory_and_balance_decide():
    assert solve(**SMALL, prompt=4000, batch=32).verdict == "feasible"
    assert solve(**SMALL, prompt=4000, output=2, batch=64, with_remedies=False).verdict == "overloaded"


def test_one_limit_takes_the_smallest_chunk_near_the_best_throughput():
    fields = {**SMALL, "prompt": 30_000, "batch": 2, "ttft": 5.0}
    found, view = solve(**fields), view_of(fields)
    limits = [*view.latency_limits(view.expected, margin=True), *view.rules(view.expected)]
    kept = [c for c in view.aligned if all(limit.holds(c) for limit in limits)]
    times = {c: view.expected.prefill.total(c) for c in kept}
    assert found.chunk == min(c for c in kept if times[c] <= 1.02 * min(times.values()))
    assert found.chunk < 30_000


def test_the_step_is_judged_for_mixed_engines_and_the_mean_where_prompts_go_first():
    mixed = solve(**SMALL, prompt=4000, batch=16, tpot=0.03)
    first_in = solve(**SMALL, prompt=4000, batch=16, tpot=0.03, engine="sglang")
    assert mixed.judged_tpot_s == mixed.expected.step_s
    assert first_in.judged_tpot_s == first_in.expected.tpot_s
    assert first_in.expected.itl_s > first_in.expected.step_s
    other = solve(**SMALL, prompt=4000, batch=16, tpot=0.03, tpot_basis="mean")
    assert other.judged_tpot_s == other.expected.tpot_s


def test_a_limit_on_the_gap_keeps_the_band_of_gaps():
    """The longest gap is judged by its own error, wider than that of the mean."""
    question = {"model": "llama-3.1-8b", "gpu": "h100-sxm", "prompt": 4000, "batch": 16, "budget": 512}
    bare = solve(**question)
    gap, tpot = bare.itl_error, bare.tpot_error
    assert gap > 2 * tpot
    assert json_report.solve(bare)["expected"]["error"]["itl"] == gap
    just = bare.expected.itl_s * (1 + gap)
    assert solve(**question, itl=just * 1.001).verdict == "feasible"
    assert solve(**question, itl=just * 0.999).verdict == "marginal"
    assert solve(**question, itl=bare.expected.itl_s / (1 + gap) * 1.001).verdict == "marginal"
    assert solve(**question, tpot=bare.expected.step_s * (1 + tpot) * 1.001).verdict == "feasible"


def test_a_band_of_gaps_is_never_narrower_than_that_of_means():
    for gpu in gpus():
        for engine, kinds in gpu.bands.items():
            for kind, band in kinds.items():
                assert 0 < band.tpot <= band.gap, (gpu.id, engine, kind)
