"""A formula as one flat function of plain numbers, and the values it has given.

The formulas of a step are written for numbers, arrays and symbols. Run once on `Traced` values, a
formula writes down each operation that it does; compiled, these lines give the very same numbers a
dozen times faster than building and timing the kernels anew.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

OFTEN = 8  # values after which a formula is worth compiling
MOST_VALUES = 20_000  # that are remembered of a formula
DEEPEST = 40  # brackets of a line: CPython allows 200 within each other
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
    """A value as it stands in an expression; numbers as floats, which add and multiply faster among themselves."""
    return value.name if isinstance(value, Traced) else f"{float(value)!r}" if value >= 0 else f"({float(value)!r})"


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


def qsum(x: Any, y: Any, q: float) -> Any:
    """The q-norm of two times, as `ops.qsum` takes it of numbers."""
    if _is(x, 0) or _is(y, 0):
        return y if _is(x, 0) else x
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
    inside = _following(lines, names[over]) if over is not None else set()
    loop, value = _nested({name: line for name, line in lines.items() if name in inside}, value)
    before = {name: line for name, line in lines.items() if name not in inside}
    head = f"def run({','.join(names)}):"
    if over is None:
        before, value = _nested(before, value)
        text = [head, *_assigned(before), f" return {value}"]
    else:
        before, _ = _nested(before, " ".join((*loop.values(), value)), kept=True)
        each = f" for {names[over]} in {names[over]}:"
        every = [each, *_assigned(loop, "  "), f"  out.append({value})"]
        text = [head, *_assigned(before), " out=[]", *every, " return out"]
    room: dict[str, Any] = {"ceil": math.ceil, "floor": math.floor, "inf": math.inf}
    exec("\n".join(text), room)
    run: Callable[..., Any] = room["run"]
    return run


def _following(lines: dict[str, str], argument: str) -> set[str]:
    """The names of a tape whose values depend on an argument."""
    found = {argument}
    for name, line in lines.items():
        if not found.isdisjoint(NAME.findall(line)):
            found.add(name)
    return found - {argument}


def _nested(lines: dict[str, str], end: str, *, kept: bool = False) -> tuple[dict[str, str], str]:
    """The same lines and what follows them, each value that is used once in its place; those of `end` where `kept`."""
    uses = Counter(name for line in (*lines.values(), *([end] * (2 if kept else 1))) for name in NAME.findall(line))
    moved: dict[str, str] = {}
    out: dict[str, str] = {}

    def filled(line: str) -> str:
        return NAME.sub(lambda match: moved.get(match[0], match[0]), line)

    for name, line in lines.items():
        whole = filled(line)
        if uses[name] == 1 and whole.count("(") < DEEPEST:
            moved[name] = f"({whole})"
        else:
            out[name] = whole
    return out, filled(end)


def _assigned(lines: dict[str, str], indent: str = " ") -> list[str]:
    return [f"{indent}{name}={line}" for name, line in lines.items()]


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
