"""What is read is what was meant, and nothing else is read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkcalc import units
from chunkcalc.errors import ChunkcalcError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("50ms", 0.05), ("1.5s", 1.5), ("200us", 2e-4), ("200µs", 2e-4), (" 2 min ", 120), ("1e2ms", 0.1)],
)
def test_durations(text, seconds):
    assert units.parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["50", "", "ms", "-5ms", "0s", "nan", "inf s", "5 parsec", "1,5s", "5msx", "1e999s"])
def test_durations_refused(text):
    with pytest.raises(ChunkcalcError) as caught:
        units.parse_duration(text, "--tpot")
    assert caught.value.where == "--tpot"
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "count"), [("4096", 4096), ("4k", 4000), ("8K", 8192), ("32Ki", 32768), ("1M", 10**6), ("1.5k", 1500)]
)
def test_counts(text, count):
    assert units.parse_count(text) == count


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "2,04", "20,48", ",048", "4q", "x", "nan", "1e40"])
def test_counts_refused(text):
    with pytest.raises(ChunkcalcError):
        units.parse_count(text)


def test_rates_and_fractions():
    assert units.parse_rate("3.35TB/s", "B/s", "") == pytest.approx(3.35e12)
    assert units.parse_rate("989TFLOP/s", "FLOP/s", "") == pytest.approx(989e12)
    assert units.parse_rate("1GiB/s", "B/s", "") == 2**30
    assert units.parse_fraction("90%", "") == pytest.approx(0.9)
    for text in ("16", "16GB", "16 furlong", "0GB/s", "-1GB/s"):
        with pytest.raises(ChunkcalcError):
            units.parse_rate(text, "B/s", "--link")
    for text in ("1.5", "-0.1", "101%", "0.5x"):
        with pytest.raises(ChunkcalcError):
            units.parse_fraction(text, "--prefix-hit")


@given(st.floats(1e-6, 1e5))
def test_durations_survive_a_round_trip_to_three_digits(seconds):
    assert units.parse_duration(units.format_duration(seconds)) == pytest.approx(seconds, rel=0.006)


def test_formats():
    assert units.format_duration(float("inf")) == "unbounded"
    assert units.format_bytes(512) == "512 B"
    assert units.format_bytes(3 * 2**40) == "3.00 TiB"
    assert units.format_si(12.0, "B/s") == "12.0 B/s"
    assert units.format_duration(0.9996) == "1.00 s"
