"""A compiled formula gives what the formula gives, to the last bit, for every shipped model."""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

import chunkcalc
from chunkcalc import ops
from chunkcalc.catalog.lookup import models
from chunkcalc.compiled import OFTEN, Remembered, compiled
from chunkcalc.time.step import MOST_TIMERS, StepTimer, timer_for
from tests.deployments import deployment

ROOT = Path(chunkcalc.__file__).parent
TOKENS = (0.0, 1.0, 64.5, 513.0, 9000.0)
ENGINES = (("sglang", "b200"), ("vllm", "rtx-pro-6000"))


@pytest.mark.parametrize("name", [model.id for model in models()])
def test_the_parts_of_a_step_are_the_same_compiled(name):
    for engine, gpu in ENGINES:
        timer = StepTimer(deployment(name, gpu, tp=2, engine=engine), drafts=len(engine) % 2)
        for formula in (timer._rest_times, timer._rest_bound, timer._prefill_seconds, timer._prefill_bound):
            run, runs = compiled(formula, 3), compiled(formula, 3, over=1)
            for x in TOKENS:
                plain = [formula(x, y, 3.0) for y in TOKENS]
                assert [run(x, y, 3.0) for y in TOKENS] == plain
                assert runs(x, TOKENS, 3.0) == plain


@given(x=st.floats(-1e6, 1e6), y=st.floats(1e-3, 1e6), q=st.floats(1, 40))
def test_every_operation_is_that_of_numbers(x, y, q):
    def formula(x, y):
        norm = ops.qsum(ops.maximum(x, 0.0), y, q)
        picked = ops.where(x > y, x, ops.minimum(y, 7)) - ops.positive(x - 3) * 2
        return norm, picked, ops.ceil(x) + ops.floor(-x), (2.5 - x) / y, (1 + y) ** 0.5 + 2**-y, 0 * x + 1 * y

    assert compiled(formula, 2)(x, y) == pytest.approx(formula(x, y), rel=1e-15)


def test_a_formula_may_not_branch_on_a_value():
    with pytest.raises(TypeError, match=r"ops\.where"):
        compiled(lambda x: 1 if x > 0 else 2, 1)


def test_numbers_arrays_and_symbols_before_and_after_compiling():
    remembered = Remembered(lambda x, y, z: ops.maximum(x, y) + z)
    for count in range(3 * OFTEN):
        assert remembered(count, 4.0, 1.0) == max(count, 4.0) + 1.0
        assert remembered(count, 4.0, 1.0) == max(count, 4.0) + 1.0
    assert remembered(np.array([1, 9]), 4, 1).tolist() == [5, 10]
    c = sympy.Symbol("c", positive=True)
    assert remembered(c, 4, 1) == sympy.Max(c, 4) + 1
    assert remembered.over(3.0, range(5), 1.0) == [4, 4, 4, 4, 5]


def test_a_shared_timer_is_told_apart_by_all_that_a_step_takes_from_its_engine():
    key = inspect.getsource(timer_for)
    files = [
        *(ROOT / "work").glob("*.py"),
        *(ROOT / "time" / f"{name}.py" for name in ("step", "steptimes", "roofline")),
    ]
    taken = {name for file in files for name in re.findall(r"engine\.(\w+)", file.read_text())}
    assert taken == {"overheads", "attention", "captured", "eager", "name"}
    assert all(f"engine.{name}" in key for name in taken)


def test_equal_deployments_share_a_timer_and_others_do_not():
    one = deployment("llama-3.1-8b", "h100-sxm")
    assert timer_for(one) is timer_for(deployment("llama-3.1-8b", "h100-sxm"))
    assert timer_for(one) is not timer_for(one, 2)
    assert timer_for(one) is not timer_for(deployment("llama-3.1-8b", "h100-sxm", tp=2))
    for drafts in range(MOST_TIMERS + 1):
        timer_for(one, drafts)
    assert timer_for(one, MOST_TIMERS) is timer_for(one, MOST_TIMERS)
