"""A formula as one flat function of plain numbers, and the values it has given.

The formulas of a step are written for numbers, arrays and symbols. Run once on `Traced` values, a
formula writes down each operation that it does; compiled, these lines give the very same numbers a
dozen times faster than building and timing the kernels anew.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

OFTEN = 8  # values after which a formula is worth compiling
MOST_VALUES = 20_000  # that are remembered of a formula
DEEPEST = 40  # brackets of a line: CPython allows 200 within each other


class Traced:
    """A value that is not known yet.

    Parameters
    ----------
    tape : every expression, as text, and its value, in the order in which they were first needed
    name : of this one
    parts : of its expression: texts and values
    loop : whether it depends on the argument that is a sequence
    """

    __slots__ = ("alike", "depth", "loop", "name", "parts", "tape", "uses")

    def __init__(self, tape: dict[str, Traced], name: str, parts: tuple[Any, ...] = (), loop: bool = False) -> None:
        self.tape, self.name, self.parts, self.loop = tape, name, parts, loop
        self.uses, self.alike, self.depth = 0, True, 0
        used = [part for part in parts if not isinstance(part, str)]
        for part in used:
            part.uses += 1
            self.loop = self.loop or part.loop
            self.depth = max(self.depth, part.depth + 1)
        for part in used:
            part.alike = part.loop == self.loop

    @property
    def nested(self) -> bool:
        """Whether its expression stands where it is used: once, by a value that is computed as often."""
        return self.uses == 1 and self.alike and self.depth < DEEPEST

    def line(self) -> str:
        """Its expression."""
        return "".join([part if isinstance(part, str) else part.shown() for part in self.parts])

    def shown(self) -> str:
        """How it stands in an expression."""
        return f"({self.line()})" if self.parts and self.nested else self.name

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
        return _new("-", self)

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


def _part(value: Any) -> Any:
    """A value as a part of an expression; numbers as floats, which add and multiply faster among themselves."""
    return value if isinstance(value, Traced) else f"{float(value)!r}" if value >= 0 else f"({float(value)!r})"


def _new(*parts: Any) -> Traced:
    tape: dict[str, Traced] = next(part.tape for part in parts if not isinstance(part, str))
    text = "".join([part if isinstance(part, str) else part.name for part in parts])
    found = tape.get(text)
    if found is None:
        found = tape[text] = Traced(tape, f"_{len(tape)}", parts)
    return found


def _binary(x: Any, sign: str, y: Any) -> Traced:
    return _new(_part(x), sign, _part(y))


# What `ops` asks of a library of symbols.


def Max(x: Any, y: Any) -> Traced:  # noqa: N802
    """The larger of two."""
    one, other = _part(x), _part(y)
    return _new(one, " if ", one, ">=", other, " else ", other)


def Min(x: Any, y: Any) -> Traced:  # noqa: N802
    """The smaller of two."""
    one, other = _part(x), _part(y)
    return _new(one, " if ", one, "<=", other, " else ", other)


def ceiling(x: Traced) -> Traced:
    """The smallest integer not below a value."""
    return _new("ceil(", x, ")")


def floor(x: Traced) -> Traced:
    """The largest integer not above a value."""
    return _new("floor(", x, ")")


def Piecewise(first: tuple[Any, Any], rest: tuple[Any, Any]) -> Traced:  # noqa: N802
    """One value where a condition holds, another elsewhere."""
    (one, condition), (other, _) = first, rest
    return _new(_part(one), " if ", _part(condition), " else ", _part(other))


def qsum(x: Any, y: Any, q: float) -> Any:
    """The q-norm of two times, as `ops.qsum` takes it of numbers."""
    if _is(x, 0) or _is(y, 0):
        return y if _is(x, 0) else x
    large, small = Max(x, y), Min(x, y)
    return _new(large, "*(1.0+(", small, "/", large, f")**{q!r})**{1.0 / q!r} if ", large, ">0 else 0.0")


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
    tape: dict[str, Traced] = {}
    arguments = [Traced(tape, f"x{index}", loop=index == over) for index in range(count)]
    result = formula(*arguments)
    several = isinstance(result, tuple)
    parts = [_part(value) for value in (result if several else (result,))]
    for part in parts:
        if isinstance(part, Traced):
            part.uses += 2  # it keeps its name
    given = ",".join([part if isinstance(part, str) else part.name for part in parts])
    given = f"({given})" if several else given
    kept = [value for value in tape.values() if not value.nested]
    text = [f"def run({','.join(each.name for each in arguments)}):"]
    text += [f" {value.name}={value.line()}" for value in kept if not value.loop]
    if over is None:
        text.append(f" return {given}")
    else:
        item = arguments[over].name
        loop = [f"  {value.name}={value.line()}" for value in kept if value.loop]
        text += [" out=[]", f" for {item} in {item}:", *loop, f"  out.append({given})", " return out"]
    room: dict[str, Any] = {"ceil": math.ceil, "floor": math.floor, "inf": math.inf}
    exec("\n".join(text), room)  # lines written above, of numbers and names
    run: Callable[..., Any] = room["run"]
    return run


def flat(formula: Callable[..., Any], names: Sequence[str]) -> tuple[list[tuple[str, str]], str]:
    """A formula as the lines that compute it, for those who write it down elsewhere.

    Parameters
    ----------
    formula : of values written with `ops`; gives one value
    names : of its arguments

    Returns
    -------
    (name, expression) in the order in which they are computed, and the name of the result

    Examples
    --------
    >>> flat(lambda x, y: x * x + 2.5 * y, ("x", "y"))
    ([('_2', '(x*x)+(2.5*y)')], '_2')
    """
    tape: dict[str, Traced] = {}
    result = formula(*(Traced(tape, name) for name in names))
    if not isinstance(result, Traced):
        return [], _part(result)
    result.uses += 2  # it keeps its name
    needed, out = {result.name}, list[tuple[str, str]]()
    for value in reversed([value for value in tape.values() if not value.nested]):
        if value.name in needed:  # a formula may ask for values that it then drops
            text = value.line()
            needed.update(re.findall(r"_\d+", text))
            out.append((value.name, text))
    return out[::-1], result.name


class Remembered:
    """A formula of three arguments that remembers its values, and is compiled once it has given many.

    Parameters
    ----------
    formula : of values written with `ops`
    """

    __slots__ = ("_asked", "_compute", "_formula", "_runs", "_values")

    def __init__(self, formula: Callable[[Any, Any, Any], Any]) -> None:
        self._formula, self._compute, self._asked = formula, self._counted, 0
        self._runs: Callable[..., list[Any]] | None = None
        self._values: dict[Any, Any] = {}

    @property
    def formula(self) -> Callable[[Any, Any, Any], Any]:
        """The formula itself, which remembers nothing."""
        return self._formula

    def __call__(self, x: Any, y: Any, z: Any) -> Any:
        """The value for some arguments: numbers, arrays or symbols."""
        key = x, y, z
        try:
            found = self._values.get(key)
        except TypeError:  # arrays cannot be remembered
            return self._formula(x, y, z)
        if found is None:
            try:
                found = self._compute(x, y, z)
            except TypeError:  # symbols do not compare
                found = self._formula(x, y, z)
            if len(self._values) >= MOST_VALUES:
                self._values.clear()
            self._values[key] = found
        return found

    def over(self, x: float, items: Sequence[float], z: float) -> list[Any]:
        """The values for each second argument and plain numbers of the others; none is remembered."""
        if self._runs is None:
            self._asked += len(items)
            if self._asked < OFTEN:
                return [self._formula(x, y, z) for y in items]
            self._runs = compiled(self._formula, 3, over=1)
        return self._runs(x, items, z)

    def _counted(self, x: Any, y: Any, z: Any) -> Any:
        self._asked += 1
        if self._asked >= OFTEN:
            self._compute = compiled(self._formula, 3)
        return self._formula(x, y, z)
