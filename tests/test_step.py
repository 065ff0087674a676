"""Laws of a step: ordered, monotone, conserved; and the same on numbers, arrays and symbols."""

from dataclasses import replace

import numpy as np
import pytest
import sympy
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from chunkcalc.records import Workload
from chunkcalc.textbook.forms import ClosedForms
from chunkcalc.time.roofline import bound, seconds
from chunkcalc.time.step import StepTimer
from chunkcalc.work.moe import BUSIEST_ROWS
from tests.deployments import CALIBRATED, DENSE_FULL, MODELS, deployment, deployments

CHUNK, CACHED = st.integers(0, 20_000), st.integers(0, 130_000)
BATCH, CONTEXT = st.integers(0, 512), st.integers(1, 130_000)
ROUNDING = 1 - 1e-12


@settings(max_examples=300)
@given(deployments(), CHUNK, CACHED, BATCH, CONTEXT, st.integers(0, 4))
def test_floor_is_below_expected(found, c, p, b, s, drafts):
    timer = StepTimer(found, drafts, host=False)
    assert timer.floor(c, p, b, s) <= timer.expected(c, p, b, s) / ROUNDING


@settings(max_examples=300)
@given(deployments(), st.integers(1, 20_000), CACHED, st.integers(1, 512), CONTEXT)
def test_floor_is_below_expected_kernel_by_kernel(found, c, p, b, s):
    for kernel in StepTimer(found).kernels(c, p, b, s):
        assert max(bound(kernel, found.hardware)) <= seconds(kernel, found.hardware) / ROUNDING


@settings(max_examples=300)
@given(deployments(), CHUNK, CACHED, BATCH, CONTEXT, st.integers(0, 3), st.integers(1, 3000))
def test_a_step_never_gets_faster_when_anything_grows(found, c, p, b, s, which, more):
    blocks = any(getattr(group.attention, "chunk", None) for group in found.model.layers)
    assume(which in (0, 2) or not blocks)  # a token that opens a new block sees nothing before it
    timer = StepTimer(found)
    start = [c, p, b, s]
    grown = [value + (more if index == which else 0) for index, value in enumerate(start)]
    for time in (timer.expected, timer.floor):
        assert time(*grown) >= time(*start) * ROUNDING


@settings(max_examples=200)
@given(deployments(), CHUNK, CACHED, BATCH, CONTEXT)
def test_the_breakdown_sums_to_the_step(found, c, p, b, s):
    step = StepTimer(found).step(c, p, b, s)
    assert sum(step.breakdown.values()) == pytest.approx(step.expected)
    assert sum(step.bound_by.values()) == pytest.approx(step.expected)
    assert step.bottleneck in step.bound_by


@settings(max_examples=200)
@given(
    st.sampled_from(DENSE_FULL), st.sampled_from(CALIBRATED), st.sampled_from((1, 2, 4, 8)),
    CHUNK, BATCH, CONTEXT,
)  # fmt: skip
def test_textbook_is_below_expected_for_dense_models_on_calibrated_gpus(model, gpu, tp, c, b, s):
    found = deployment(model, gpu, tp=tp)
    workload = Workload(prompt=1, output=2, batch=b, context=s)
    assert ClosedForms(found, workload).step(c) <= StepTimer(found).expected(c, 0, b, s)


@settings(max_examples=100)
@given(
    deployments(models=(*DENSE_FULL, "gpt-oss-120b", "deepseek-v3")),
    st.integers(128, 4000),
    st.integers(1, 64),
    st.integers(1, 8000),
)
def test_prompts_that_share_a_step_cost_no_more_than_one_long_prompt(found, c, b, s):
    timer = StepTimer(found)
    assert timer.expected(2 * c, 0, b, s, 2) <= timer.expected(2 * c, 0, b, s, 1) / ROUNDING


@pytest.mark.parametrize("model", MODELS)
def test_arrays_give_what_numbers_give(model):
    timer = StepTimer(deployment(model, "h200-sxm", tp=8), drafts=2)
    c, p = np.array([1.0, 500, 4096]), np.array([0.0, 3000, 64])
    b, s = np.array([1.0, 33, 0]), np.array([100.0, 2048, 1])
    for time in (timer.expected, timer.floor):
        scalars = [time(*values) for values in zip(c.tolist(), p.tolist(), b.tolist(), s.tolist(), strict=True)]
        np.testing.assert_allclose(time(c, p, b, s), scalars, rtol=1e-12)


@pytest.mark.parametrize("model", ["llama-3.1-8b", "gemma-3-27b", "gpt-oss-120b"])
def test_a_symbolic_step_evaluates_to_the_number(model):
    found = deployment(model, "h200-sxm")
    c = sympy.Symbol("c", positive=True)
    formula = StepTimer(found).expected(c, 1000, 16, 2000)
    for value in (64, 700, 5000):
        number = StepTimer(found).expected(value, 1000, 16, 2000)
        assert float(formula.subs(c, value)) == pytest.approx(number, rel=1e-9)


def test_a_70b_prompt_takes_longer_on_the_floor_than_in_the_textbook():
    found = deployment("llama-3.1-70b", tp=8)
    whole = ClosedForms(found, Workload(prompt=32768, output=2, batch=0, context=1)).step(32768)
    assert whole == pytest.approx(0.58, abs=0.01)
    # Attention is a fifth of the arithmetic at 32k; embedding and head are not multiplied with.
    assert StepTimer(found).floor(32768, 0, 0, 1) > whole


def test_unified_attention_costs_more_only_beside_a_chunk():
    joint = deployment("llama-3.1-8b", "rtx-pro-6000")
    assert joint.engine.attention == "unified"
    split = replace(joint, engine=replace(joint.engine, attention="split"))
    together = [StepTimer(found).expected(512, 0, 64, 4096) for found in (joint, split)]
    apart = [StepTimer(found).expected(0, 0, 64, 4096) for found in (joint, split)]
    assert together[0] > 1.2 * together[1]
    assert apart[0] == pytest.approx(apart[1])


def test_expert_parallelism_waits_for_the_busiest_rank():
    spread = StepTimer(deployment("deepseek-v3", "h200-sxm", tp=8, ep=8))
    sliced = StepTimer(deployment("deepseek-v3", "h200-sxm", tp=8))
    assert spread.floor(0, 0, 64, 4096) == pytest.approx(sliced.floor(0, 0, 64, 4096))
    experts = [next(k for k in timer.kernels(2048, 0, 0, 1) if k.form == "moe") for timer in (spread, sliced)]
    assert experts[0].flops == pytest.approx(BUSIEST_ROWS * experts[1].flops)
    assert experts[0].bytes >= experts[1].bytes


def test_drafts_cost_their_own_pass():
    plain, drafted = StepTimer(deployment()), StepTimer(deployment(), drafts=3)
    assert drafted.expected(0, 0, 16, 2000) > plain.expected(0, 0, 64, 500)
    assert drafted.floor(0, 0, 16, 2000) == pytest.approx(StepTimer(deployment()).floor(0, 0, 16, 2000), rel=0.2), (
        "a floor reads weights and cache once however many drafts it verifies"
    )
