"""Read and print quantities with units: `50ms`, `8k`, `32Ki`, `80GiB`, `3.35TB/s`, `989TFLOP/s`.

One grammar for everything a user writes to chunkcalc: k, M, G, T are powers of 1000; Ki, Mi, Gi,
Ti and a bare K are powers of 1024. Durations and rates always carry a unit: a bare `50` could be
seconds or milliseconds, and guessing wrong moves an answer by a factor of 1000.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from chunkcalc.errors import ChunkcalcError

PREFIXES: Mapping[str, float] = {
    "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15,
    "K": 2.0**10, "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40,
}  # fmt: skip
SECONDS: Mapping[str, float] = {
    "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0,
}  # fmt: skip
_QUANTITY = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([^\s\d].*)?\s*")


PRINTED = re.compile(r"\d{1,3}(,\d{3})+")  # a whole number as reports print it


def split(text: str, where: str, hint: str) -> tuple[float, str]:
    """The number and the unit of a quantity.

    Parameters
    ----------
    text : what the user wrote
    where : the option it stands in, for the error
    hint : what to write instead

    >>> split("16 GB/s", "--link", "")
    (16.0, 'GB/s')
    """
    match = _QUANTITY.fullmatch(text)
    if not match:
        raise ChunkcalcError(f"'{text}' is not a quantity", where, hint)
    return float(match[1]), (match[2] or "").strip()


def _positive(value: float, text: str, where: str, hint: str) -> float:
    if not (math.isfinite(value) and value > 0):
        raise ChunkcalcError(f"'{text}' must be above zero and finite", where, hint)
    return value


def parse_duration(text: str, where: str = "duration") -> float:
    """Seconds from `50ms`, `1.5s`, `200us`, `2min`.

    Parameters
    ----------
    text : what the user wrote
    where : the option it stands in, for the error

    >>> parse_duration("50ms"), parse_duration("1.5s")
    (0.05, 1.5)
    """
    hint = "write a number with a unit, such as 50ms or 1.5s"
    value, unit = split(text, where, hint)
    if unit not in SECONDS:
        problem = f"has the unknown unit '{unit}'" if unit else "has no unit"
        raise ChunkcalcError(f"'{text}' {problem}", where, hint)
    return _positive(value * SECONDS[unit], text, where, hint)


def parse_gap(text: str, where: str = "gap") -> float:
    """Seconds as of `parse_duration`; infinite for `none`, where the gap has no limit.

    Parameters
    ----------
    text : what the user wrote
    where : the option it stands in, for the error

    >>> parse_gap("50ms"), parse_gap("none")
    (0.05, inf)
    """
    return math.inf if text.strip().lower() == "none" else parse_duration(text, where)


def parse_percentile(text: str, where: str = "percentile") -> float:
    """A percentile from `95` or `p95`; 0 for `mean`.

    Parameters
    ----------
    text : what the user wrote
    where : the option it stands in, for the error

    >>> parse_percentile("p99"), parse_percentile("mean")
    (99.0, 0.0)
    """
    word = text.strip().lower()
    return 0.0 if word == "mean" else parse_number(word.removeprefix("p"), where)


def parse_count(text: str, where: str = "count", *, minimum: int = 1) -> int:
    """A whole number of tokens or requests from `4096`, `8,192` (as it is printed), `8k` (8000) or `32Ki` (32768).

    Parameters
    ----------
    text : what the user wrote
    where : the option it stands in, for the error
    minimum : the smallest value allowed

    >>> parse_count("8k"), parse_count("32Ki"), parse_count("8K"), parse_count("2_048"), parse_count("1,048,576")
    (8000, 32768, 8192, 2048, 1048576)
    """
    hint = f"write a whole number of at least {minimum}, such as 4096, 8k (= 8000) or 8Ki (= 8192)"
    plain = text.replace(",", "") if PRINTED.fullmatch(text.strip()) else text
    value, unit = split(re.sub(r"(?<=\d)_(?=\d)", "", plain), where, hint)
    if unit not in PREFIXES:
        raise ChunkcalcError(f"'{text}' has the unknown suffix '{unit}'", where, hint)
    value *= PREFIXES[unit]
    if not math.isfinite(value) or value != round(value):
        raise ChunkcalcError(f"'{text}' is not a whole number", where, hint)
    if value < minimum:
        raise ChunkcalcError(f"'{text}' is too small", where, hint)
    if value > 1e12:
        raise ChunkcalcError(f"'{text}' is too large", where, hint)
    return int(value)


def parse_rate(text: str, unit: str, where: str) -> float:
    """A rate in base units per second from `3.35TB/s` (unit `B/s`) or `989TFLOP/s`.

    Parameters
    ----------
    text : what the user wrote
    unit : the unit it must end in
    where : the option it stands in, for the error

    >>> parse_rate("16GB/s", "B/s", "--link")
    16000000000.0
    """
    hint = f"write a number with a unit, such as 16G{unit}"
    value, suffix = split(text, where, hint)
    prefix = suffix.removesuffix(unit)
    if not suffix.endswith(unit) or prefix not in PREFIXES:
        problem = f"has the unit '{suffix}'" if suffix else "has no unit"
        raise ChunkcalcError(f"'{text}' {problem}", where, hint)
    return _positive(value * PREFIXES[prefix], text, where, hint)


def parse_number(text: str, where: str) -> float:
    """A positive number without a unit.

    Parameters
    ----------
    text : what the user wrote
    where : the option it stands in, for the error

    >>> parse_number("2.5", "--rate")
    2.5
    """
    hint = "write a number above zero without a unit, such as 2.5"
    value, unit = split(text, where, hint)
    if unit:
        raise ChunkcalcError(f"'{text}' has the unit '{unit}'", where, hint)
    return _positive(value, text, where, hint)


def parse_fraction(text: str, where: str, *, low: float = 0.0, high: float = 1.0) -> float:
    """A fraction from `0.9` or `90%`, between low and high.

    Parameters
    ----------
    text : what the user wrote
    where : the option it stands in, for the error
    low, high : range, both included

    >>> parse_fraction("90%", "--memory-fraction")
    0.9
    """
    hint = f"write a number from {low:g} to {high:g}, such as {low + 0.9 * (high - low):g}"
    value, unit = split(text, where, hint)
    if unit not in ("", "%"):
        raise ChunkcalcError(f"'{text}' has the unknown unit '{unit}'", where, hint)
    value = value / 100 if unit else value
    if not low <= value <= high:
        raise ChunkcalcError(f"'{text}' is outside its range", where, hint)
    return value


def format_duration(seconds: float | None) -> str:
    """Three significant digits with the unit that reads best.

    Parameters
    ----------
    seconds : a duration; None prints as a dash [s]

    >>> format_duration(0.0123456), format_duration(1.5), format_duration(None)
    ('12.3 ms', '1.50 s', '-')
    """
    if seconds is None:
        return "-"
    if not math.isfinite(seconds):
        return "unbounded"
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if abs(seconds) >= 0.9995 * scale or unit == "us":
            return f"{_three_digits(seconds / scale)} {unit}"
    raise AssertionError("unreachable")


def format_bytes(count: float) -> str:
    """Three significant digits in powers of 1024.

    Parameters
    ----------
    count : a size [byte]

    >>> format_bytes(85520809984)
    '79.6 GiB'
    """
    for unit, scale in (("TiB", 2.0**40), ("GiB", 2.0**30), ("MiB", 2.0**20), ("KiB", 2.0**10)):
        if abs(count) >= scale:
            return f"{_three_digits(count / scale)} {unit}"
    return f"{count:.0f} B"


def format_count(value: float) -> str:
    """A whole number with thousands separators.

    Parameters
    ----------
    value : the number

    >>> format_count(131072)
    '131,072'
    """
    return f"{value:,.0f}"


def format_at_most(value: float) -> str:
    """Three digits of what something carries, rounded down: 1.998 is not 2.

    >>> format_at_most(1.998), format_at_most(12), format_at_most(0.5061)
    ('1.99', '12', '0.506')
    """
    if value <= 0:
        return "0"
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return f"{math.floor(value / step + 1e-9) * step:.3g}"


def format_si(value: float, unit: str) -> str:
    """Three significant digits with a power-of-1000 prefix.

    Parameters
    ----------
    value : the quantity
    unit : its unit

    >>> format_si(3.35e12, "B/s")
    '3.35 TB/s'
    """
    for prefix, scale in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= scale:
            return f"{_three_digits(value / scale)} {prefix}{unit}"
    return f"{_three_digits(value)} {unit}"


def _three_digits(value: float) -> str:
    size = abs(value)
    return f"{value:.0f}" if size >= 99.95 else f"{value:.1f}" if size >= 9.995 else f"{value:.2f}"
