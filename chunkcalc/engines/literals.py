"""One word of a command line -> its value, by the kind of the option."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

Parse = Callable[[str], Any]
LARGEST = 10**15  # of any number: more is a mistake


def value(kind: str, taken: list[str], positive: bool, human: Parse) -> Any:
    """The value of an option.

    Raises
    ------
    ValueError : not of that kind
    """
    if kind in ("switch", "bool"):
        return positive
    if kind == "list":
        return tuple(taken)
    if not taken:
        return True
    readers: dict[str, Parse] = {
        "boolvalue": _truth, "auto": lambda text: -1 if text.strip().lower() in ("auto", "-1") else human(text),
        "human": human, "json": lambda text: _json(text, human), "int": whole, "float": _real,
    }  # fmt: skip
    return readers.get(kind, str)(taken[0])


def whole(text: str) -> int:
    """A whole number without suffix, as Python's int() reads it.

    Raises
    ------
    ValueError : anything else
    """
    try:
        return _bounded(int(text))
    except ValueError as error:
        if text.strip()[:1].isdigit() and text.strip()[-1:].isalpha():
            raise ValueError("not a whole number; this flag takes no suffix") from None
        raise ValueError(str(error) if "larger" in str(error) else "not a whole number") from None


def _bounded(value: int) -> int:
    if abs(value) > LARGEST:
        raise ValueError(f"larger than {LARGEST:.0e}")
    return value


def _real(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError("not a number") from None
    if not math.isfinite(value) or abs(value) > LARGEST:
        raise ValueError("not a finite number of a sensible size")
    return value


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("neither true nor false")
    return text.lower() == "true"


def _json(text: str, human: Parse) -> Any:
    """JSON, where bare numbers may have suffixes."""
    parts = re.split(r'("(?:[^"\\]|\\.)*")', text)
    try:
        for index in range(0, len(parts), 2):
            parts[index] = re.sub(r"\b\d+(?:\.\d+)?[kKmMgGtT]\b", lambda m: str(human(m.group())), parts[index])
        return json.loads("".join(parts))
    except (ValueError, RecursionError):
        raise ValueError("not valid JSON") from None


def suffixed(multipliers: Mapping[str, int], decimals: frozenset[str], hint: str) -> Parse:
    """A reader of integers with suffixes."""

    def read(text: str) -> int:
        match = re.fullmatch(r"(\d+)(\.\d+)?([A-Za-z]+)", text.strip())
        if match:
            number, fraction, suffix = match.groups()
            if suffix not in multipliers:
                raise ValueError(f"unknown suffix '{suffix}'; {hint}")
            if fraction and suffix not in decimals:
                raise ValueError(f"'{suffix}' takes whole numbers only; {hint}")
            return _bounded(int(Decimal(number[:20] + (fraction or "")[:20]) * multipliers[suffix]))
        try:
            return _bounded(int(text))
        except ValueError as error:
            raise ValueError(str(error) if "larger" in str(error) else f"not a whole number; {hint}") from None

    return read


def loose(text: str, human: Parse) -> Any:
    """A value inside a JSON option: JSON if it reads as such, else the text."""
    try:
        return _json(text, human)
    except ValueError:
        return text
