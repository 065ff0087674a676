"""Lists and ranges of numbers as a user writes them."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkcalc.errors import ChunkcalcError
from chunkcalc.grids.grids import SPREAD, parse_values


def test_values_and_ranges_are_one_rising_list():
    assert parse_values("128", "--chunk") == [128]
    assert parse_values("32, 8,8,1k", "--batch") == [8, 32, 1000]
    assert parse_values("1:5", "--batch") == [1, 2, 3, 4, 5]
    assert parse_values("128:1024:256", "--chunk") == [128, 384, 640, 896, 1024]
    assert parse_values("7:7", "--batch") == [7]


@given(low=st.integers(1, 10_000), more=st.integers(0, 1_000_000))
def test_a_range_keeps_its_ends_and_stays_short(low, more):
    found = parse_values(f"{low}:{low + more}", "--chunk")
    assert found[0] == low
    assert found[-1] == low + more
    assert len(found) <= SPREAD
    assert found == sorted(set(found))


def test_a_range_without_a_step_grows_by_a_constant_factor():
    found = parse_values("128:16384", "--chunk")
    factors = [high / low for low, high in pairwise(found)]
    assert max(factors) / min(factors) < 1.02
    assert len(found) == SPREAD


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "no list of numbers"), ("8,,9", "no list of numbers"), ("1:2:3:4", "no list of numbers"),
        (":8", "no list"),
        ("16:8", "falls"), ("a:b", "--chunk"), ("0:8", "too small"), ("8:16:0", "too small"), ("-4", "--chunk"),
        ("1:1e12:1", "more than 100,000 values"), ("1.5:8", "not a whole number"),
    ],
)  # fmt: skip
def test_what_is_no_grid_is_refused(text, sentence):
    with pytest.raises(ChunkcalcError, match=sentence):
        parse_values(text, "--chunk")
