"""Drawn prompts have the mean and the 95th percentile that were asked for."""

import math

import pytest

from chunkcalc.traffic.arrivals import burst, poisson
from chunkcalc.traffic.lengths import parts, variation


@pytest.mark.parametrize(("mean", "p95"), [(4000, 9000), (4000, 4400), (300, 1000)])
def test_drawn_lengths_have_their_mean_and_95th_percentile(mean, p95):
    C = variation(mean, p95)
    for drawn in (burst(100_000, mean, 10, 1, C), poisson(1.0, 100_000, mean, 10, 2, C)):
        lengths = sorted(each.prompt for each in drawn)
        assert sum(lengths) / len(lengths) == pytest.approx(mean, rel=0.02)
        assert lengths[95_000] == pytest.approx(p95, rel=0.02)


def test_without_a_95th_percentile_all_are_alike():
    assert {each.prompt for each in burst(100, 4000, 10, spread=variation(4000, None))} == {4000}


def test_the_parts_of_the_distribution_have_its_moments():
    C = variation(4000, 9000)
    lengths = parts(C)
    mean = sum(lengths) / len(lengths)
    assert mean == pytest.approx(1, rel=0.01)
    assert math.sqrt(sum((each - mean) ** 2 for each in lengths) / len(lengths)) == pytest.approx(C, rel=0.06)
