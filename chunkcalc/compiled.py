"""A formula as one flat function of plain numbers, and the values it has given.

The formulas of a step are written for numbers, arrays and symbols. Run once on `Traced` values, a
formula writes down each operation that it does; compiled, these lines give the very same numbers a
dozen times faster than building and timing the kernels anew.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

OFTEN = 32  # values after which a formula is worth compiling
NAME = re.compile(r"\b[_x]\d+\b")  # of an argument or a value in an expression


class Traced:
    """A value that is not known yet: the name under which its tape has it.

    Parameters
    ----------
    tape : expression -> name, in the order in which they were first needed
    name : of this value
    """

    __slots__ = ("name", "tape")

    def __init__(self, tape: dict[str, str], name: str) -> None:
        self.tape, self.name = tape, name

    def __bool__(self) -> bool:
        raise TypeError("a formula may not branch on a value: use ops.where")

    def __add__(self, other: Any) -> Traced:
        return self if _is(other, 0) else _binary(self, "+", other)

    def __radd__(self, other: Any) -> Traced:
        return self if _is(other, 0) else _binary(other, "+", self)

    def __sub__(self, other: Any) -> Traced:
        return self if _is(other, 0) else _binary(self, "-", other)

    def __rsub__(self, other: Any) -> Traced:
        return _binary(other, "-", self)

    def __mul__(self, other: Any) -> Any:
        return other if _is(other, 0) else self if _is(other, 1) else _binary(self, "*", other)

    def __rmul__(self, other: Any) -> Any:
        return other if _is(other, 0) else self if _is(other, 1) else _binary(other, "*", self)

    def __truediv__(self, other: Any) -> Traced:
        return self if _is(other, 1) else _binary(self, "/", other)

    def __rtruediv__(self, other: Any) -> Traced:
        return _binary(other, "/", self)

    def __pow__(self, other: Any) -> Traced:
        return _binary(self, "**", other)

    def __rpow__(self, other: Any) -> Traced:
        return _binary(other, "**", self)

    def __neg__(self) -> Traced:
        return _new(self.tape, f"-{self.name}")

    def __lt__(self, other: Any) -> Traced:
        return _binary(self, "<", other)

    def __le__(self, other: Any) -> Traced:
        return _binary(self, "<=", other)

    def __gt__(self, other: Any) -> Traced:
        return _binary(self, ">", other)

    def __ge__(self, other: Any) -> Traced:
        return _binary(self, ">=", other)


def _is(value: Any, number: int) -> bool:
    return not isinstance(value, Traced) and bool(value == number)


def _named(value: Any) -> str:
    """A value as it stands in an expression."""
    return value.name if isinstance(value, Traced) else repr(value) if value >= 0 else f"({value!r})"


def _tape(*values: Any) -> dict[str, str]:
    return next(value.tape for value in values if isinstance(value, Traced))


def _new(tape: dict[str, str], expression: str) -> Traced:
    return Traced(tape, tape.setdefault(expression, f"_{len(tape)}"))


def _binary(x: Any, sign: str, y: Any) -> Traced:
    return _new(_tape(x, y), f"{_named(x)}{sign}{_named(y)}")


# What `ops` asks of a library of symbols.


def Max(x: Any, y: Any) -> Traced:  # noqa: N802
    """The larger of two."""
    one, other = _named(x), _named(y)
    return _new(_tape(x, y), f"{one} if {one}>={other} else {other}")


def Min(x: Any, y: Any) -> Traced:  # noqa: N802
    """The smaller of two."""
    one, other = _named(x), _named(y)
    return _new(_tape(x, y), f"{one} if {one}<={other} else {other}")


def ceiling(x: Traced) -> Traced:
    """The smallest integer not below a value."""
    return _new(x.tape, f"ceil({x.name})")


def floor(x: Traced) -> Traced:
    """The largest integer not above a value."""
    return _new(x.tape, f"floor({x.name})")


def Piecewise(first: tuple[Any, Any], rest: tuple[Any, Any]) -> Traced:  # noqa: N802
    """One value where a condition holds, another elsewhere."""
    (one, condition), (other, _) = first, rest
    return _new(_tape(one, condition, other), f"{_named(one)} if {_named(condition)} else {_named(other)}")


def qsum(x: Any, y: Any, q: float) -> Traced:
    """The q-norm of two times, as `ops.qsum` takes it of numbers."""
    large, small = Max(x, y), Min(x, y)
    norm = f"{large.name}*(1.0+({small.name}/{large.name})**{q!r})**{1.0 / q!r}"
    return _new(large.tape, f"{norm} if {large.name}>0 else 0.0")


def compiled(formula: Callable[..., Any], count: int, over: int | None = None) -> Callable[..., Any]:
    """A function that gives what a formula gives, for plain numbers alone.

    Parameters
    ----------
    formula : of values written with `ops`; gives one value or a tuple of them
    count : of its arguments
    over : the argument that is a sequence: the function gives a list, a value for each of its items

    Returns
    -------
    the function

    Examples
    --------
    >>> compiled(lambda x, y: x * x + 2.5 * y, 2)(3.0, 2.0)
    14.0
    >>> compiled(lambda x, y: x * x + 2.5 * y, 2, over=1)(3.0, [2.0, 4.0])
    [14.0, 19.0]
    """
    tape: dict[str, str] = {}
    names = [f"x{index}" for index in range(count)]
    result = formula(*(Traced(tape, name) for name in names))
    value = f"({','.join(map(_named, result))})" if isinstance(result, tuple) else _named(result)
    lines = {name: expression for expression, name in tape.items()}
    head = f"def run({','.join(names)}):"
    if over is None:
        text = [head, *(f" {name}={line}" for name, line in lines.items()), f" return {value}"]
    else:
        inside = _following(lines, names[over])
        outside = [f" {name}={line}" for name, line in lines.items() if name not in inside]
        loop = [f"  {name}={lines[name]}" for name in inside]
        text = [head, *outside, " out=[]", f" for {names[over]} in {names[over]}:", *loop, f"  out.append({value})"]
        text.append(" return out")
    room: dict[str, Any] = {"ceil": math.ceil, "floor": math.floor, "inf": math.inf}
    exec("\n".join(text), room)  # noqa: S102 - lines written above, of numbers and names
    run: Callable[..., Any] = room["run"]
    return run


def _following(lines: dict[str, str], argument: str) -> dict[str, None]:
    """The names of a tape whose values depend on an argument, in order."""
    found: dict[str, None] = {}
    for name, line in lines.items():
        used = NAME.findall(line)
        if argument in used or any(each in found for each in used):
            found[name] = None
    return found


class Remembered:
    """A formula that remembers its values, and is compiled once it has given many.

    Parameters
    ----------
    formula : of values written with `ops`
    count : of its arguments
    over : the argument of which `over` takes a sequence
    """

    __slots__ = ("_asked", "_count", "_formula", "_over", "_run", "_runs", "_values")

    def __init__(self, formula: Callable[..., Any], count: int, over: int = 0) -> None:
        self._formula, self._count, self._over, self._asked = formula, count, over, 0
        self._run: Callable[..., Any] | None = None
        self._runs: Callable[..., Any] | None = None
        self._values: dict[Any, Any] = {}

    def __call__(self, *arguments: Any) -> Any:
        """The value for some arguments: numbers, arrays or symbols."""
        try:
            found = self._values.get(arguments)
        except TypeError:  # arrays cannot be remembered
            return self._formula(*arguments)
        if found is None:
            found = self._values[arguments] = self._new(arguments)
        return found

    def over(self, *arguments: Any) -> list[Any]:
        """The values for a sequence of one argument and plain numbers of the others; none is remembered."""
        before, items, after = arguments[: self._over], arguments[self._over], arguments[self._over + 1 :]
        if self._runs is None:
            self._asked += len(items)
            if self._asked < OFTEN:
                return [self._formula(*before, item, *after) for item in items]
            self._runs = compiled(self._formula, self._count, self._over)
        values: list[Any] = self._runs(*arguments)
        return values

    def _new(self, arguments: tuple[Any, ...]) -> Any:
        if self._run is None:
            self._asked += 1
            if self._asked < OFTEN:
                return self._formula(*arguments)
            self._run = compiled(self._formula, self._count)
        try:
            return self._run(*arguments)
        except TypeError:  # symbols do not compare
            return self._formula(*arguments)
