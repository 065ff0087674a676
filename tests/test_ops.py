"""The three kinds of numbers agree."""

import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from chunkcalc import ops

NUMBERS = st.floats(0, 1e6)


@given(NUMBERS, NUMBERS)
def test_two_arguments_agree_with_numpy_and_sympy(x, y):
    for name in ("maximum", "minimum"):
        function = getattr(ops, name)
        plain = function(x, y)
        assert function(np.array([x]), y)[0] == plain
        assert float(function(sympy.Float(x, 30), sympy.Float(y, 30))) == pytest.approx(plain)


@given(NUMBERS)
def test_one_argument_agrees_with_numpy(x):
    assert ops.ceil(x) == ops.ceil(np.array([x]))[0]
    assert ops.floor(x) == ops.floor(np.array([x]))[0]
    assert ops.positive(x) == ops.positive(np.array([x]))[0] == (x > 0)


@given(st.floats(1e-9, 1e3), st.floats(1e-9, 1e3), st.floats(1, 12))
def test_qsum_lies_between_maximum_and_sum(x, y, q):
    found = ops.qsum(x, y, q)
    assert max(x, y) * (1 - 1e-12) <= found <= (x + y) * (1 + 1e-12)
    assert ops.qsum(np.array([x]), y, q)[0] == pytest.approx(found, rel=1e-9)


def test_qsum_of_nothing_is_nothing_and_of_one_time_is_that_time():
    assert ops.qsum(0.0, 0.0, 2.0) == 0
    assert ops.qsum(0.0, 3.0, 2.0) == 3


def test_where_and_positive_on_symbols():
    x = sympy.Symbol("x", real=True)
    assert ops.positive(x).subs(x, 3) == 1
    assert ops.positive(x).subs(x, -3) == 0
    assert ops.where(x > 2, 5, 7).subs(x, 1) == 7
    assert ops.where(np.array([True, False]), 1, 2).tolist() == [1, 2]
    assert ops.where(False, 1, 2) == 2
    assert ops.ceil(x).subs(x, 1.5) == 2
    assert ops.floor(x).subs(x, 1.5) == 1
