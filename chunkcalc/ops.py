"""max, min, ceil, floor, where and the q-norm for floats, numpy arrays, sympy symbols and traced values.

The physics is written once with these, so that a number, a grid, a printed derivation and a compiled
function come from the same line. Neither numpy nor sympy is imported here: a value that belongs to
one of them proves that it is loaded already.
"""

from __future__ import annotations

import math
import sys
from typing import Any

from chunkcalc import compiled

_PLAIN = frozenset((float, int, bool))


def _library(*values: Any) -> Any:
    """numpy, sympy or `compiled`, whichever one of the values belongs to; None for plain numbers."""
    numpy, sympy = sys.modules.get("numpy"), sys.modules.get("sympy")
    for value in values:
        if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
            return numpy
        if sympy is not None and isinstance(value, sympy.Basic):
            return sympy
        if isinstance(value, compiled.Traced):
            return compiled
    return None


def maximum(x: Any, y: Any) -> Any:
    """The larger of x and y."""
    if type(x) in _PLAIN and type(y) in _PLAIN:
        return x if x >= y else y
    library = _library(x, y)
    if library is None:
        return max(x, y)
    return library.maximum(x, y) if library.__name__ == "numpy" else library.Max(x, y)


def minimum(x: Any, y: Any) -> Any:
    """The smaller of x and y."""
    if type(x) in _PLAIN and type(y) in _PLAIN:
        return x if x <= y else y
    library = _library(x, y)
    if library is None:
        return min(x, y)
    return library.minimum(x, y) if library.__name__ == "numpy" else library.Min(x, y)


def ceil(x: Any) -> Any:
    """The smallest integer not below x."""
    library = None if type(x) in _PLAIN else _library(x)
    if library is None:
        return math.ceil(x)
    return library.ceil(x) if library.__name__ == "numpy" else library.ceiling(x)


def floor(x: Any) -> Any:
    """The largest integer not above x."""
    library = None if type(x) in _PLAIN else _library(x)
    return math.floor(x) if library is None else library.floor(x)


def positive(x: Any) -> Any:
    """1 where x > 0, else 0: how often a kernel runs that has work only then."""
    library = None if type(x) in _PLAIN else _library(x)
    if library is None:
        return 1 if x > 0 else 0
    return library.where(x > 0, 1, 0) if library.__name__ == "numpy" else _piecewise(library, x)


def _piecewise(sympy: Any, x: Any) -> Any:
    return sympy.Piecewise((1, x > 0), (0, True))


def where(condition: Any, x: Any, y: Any) -> Any:
    """x where the condition holds, else y."""
    if type(condition) is bool:
        return x if condition else y
    library = _library(condition, x, y)
    if library is None:
        return x if condition else y
    if library.__name__ == "numpy":
        return library.where(condition, x, y)
    return library.Piecewise((x, condition), (y, True))


def qsum(x: Any, y: Any, q: float) -> Any:
    """The q-norm of two times, (x**q + y**q)**(1/q): their sum at q = 1, their maximum as q grows.

    Numbers are scaled by the larger one first, so that no power over- or underflows.
    """
    if type(x) in _PLAIN and type(y) in _PLAIN:
        large, small = (x, y) if x >= y else (y, x)
        return large * (1.0 + (small / large) ** q) ** (1.0 / q) if large > 0 else 0.0
    library = _library(x, y)
    if library is not None and library.__name__ == "numpy":
        large = library.maximum(x, y)
        ratio = library.minimum(x, y) / library.where(large > 0, large, 1.0)
        return large * (1.0 + ratio**q) ** (1.0 / q)
    return compiled.qsum(x, y, q) if library is compiled else (x**q + y**q) ** (1 / q)
