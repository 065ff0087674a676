"""What is not known of the host: both ends of its range, and the flag that leaves it nothing to decide."""

from dataclasses import replace

import pytest

from chunkcalc import solve
from chunkcalc.answer.doubt import host_doubt
from chunkcalc.answer.judged import outlook
from chunkcalc.answer.question import Question
from chunkcalc.answer.resolve import resolve
from chunkcalc.answer.solve import answer
from chunkcalc.time.step import StepTimer

MOE = {"model": "qwen3-30b-a3b", "gpu": "h100-sxm", "prompt": 4000, "output": 300, "ttft": 2.0, "tpot": 0.04}
DENSE = {
    "model": "llama-3.1-70b", "gpu": "h100-sxm", "tp": 4, "weights": "fp8", "prompt": 2000, "output": 400, "ttft": 2.0,
    "tpot": 0.05,
}  # fmt: skip


def under(fields, factor, captured=None):
    """The deployment of a question with a host that takes a factor of its time."""
    case = resolve(Question(**fields))
    engine = replace(case.deployment.engine, overheads=case.deployment.engine.overheads.with_host(factor))
    engine = replace(engine, captured=captured or engine.captured)
    deployment = replace(case.deployment, engine=engine)
    return outlook(deployment, case.workload, case.slo, StepTimer(deployment))


def kept(view, chunk):
    return all(each.of(view.expected, chunk) <= each.value for each in view.judged)


@pytest.mark.parametrize("batch", [8, 32])
def test_a_setting_that_the_host_decides_is_judged_at_both_ends(batch):
    fields = {**MOE, "batch": batch, "budget": 768}
    found = answer(Question(**fields))
    host = found.host
    assert host.decides
    assert (host.holds_least, host.holds_most) == (True, False)
    assert host.budget_least is host.budget_most is None, "no other setting was asked about"
    spread = found.case.deployment.engine.overheads.host_spread
    assert host.most_s == pytest.approx(spread**2 * host.least_s)
    for factor, holds in ((1 / spread, host.holds_least), (spread, host.holds_most)):
        assert kept(under(fields, factor), found.chunk) == holds


def test_a_flag_is_named_only_where_both_ends_agree_with_it():
    fields = {**MOE, "batch": 8, "budget": 768}
    found = answer(Question(**fields))
    assert found.host.flags == ("--max-cudagraph-capture-size", "1024")
    held = [under(fields, factor, 1024) for factor in (0.5, 2.0)]
    assert kept(held[0], found.chunk) == kept(held[1], found.chunk)
    small = answer(Question(**DENSE, batch=32))
    assert small.host.decides
    assert small.budget <= small.case.deployment.engine.captured
    assert small.host.flags == (), "these steps are captured already, and replayed layer by layer"


def test_a_host_that_the_gpu_hides_decides_nothing():
    assert (
        solve(model="llama-3.1-405b", gpu="h100-sxm", tp=8, weights="fp8", prompt=8000, ttft=9.0, tpot=0.5).host is None
    )


def test_without_a_range_there_is_no_doubt():
    view = under({**MOE, "batch": 8}, 1.0)
    engine = view.deployment.engine
    sure = replace(view.deployment, engine=replace(engine, overheads=engine.overheads._replace(host_spread=1.0)))
    certain = outlook(sure, view.workload, view.slo, StepTimer(sure))
    assert host_doubt(view, 700, given=True) is not None
    assert host_doubt(certain, 700, given=True) is None
