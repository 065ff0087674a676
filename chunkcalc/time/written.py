"""The time of a step as source text: a function of Python without dependencies, and of C."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from chunkcalc.compiled import flat
from chunkcalc.time.step import StepTimer

ARGUMENTS = ("c", "p", "b", "s")
MOST = 65_536  # tokens up to which the largest chunk is looked for
_SIGNS: dict[type, str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Lt: "<", ast.LtE: "<=",
                           ast.Gt: ">", ast.GtE: ">="}  # fmt: skip


def lines(timer: StepTimer) -> tuple[list[tuple[str, str]], str]:
    """The expected time of a step, line by line.

    Parameters
    ----------
    timer : of a deployment

    Returns
    -------
    (name, expression of Python), and the name of the result
    """
    return flat(timer.expected.formula, ARGUMENTS)


def python(timer: StepTimer, about: Sequence[str]) -> str:
    """A module of Python with `step_seconds(c, p, b, s)` and its inverse `c_max(p, b, s, limit)`.

    Parameters
    ----------
    timer : of a deployment
    about : lines on what it is
    """
    body, result = lines(timer)
    rows = [
        '"""The time of a step, for a scheduler.', "", *about, '"""', "", "from math import ceil, floor, inf", "", "",
        "def step_seconds(c, p, b, s):",
        '    """Seconds of a step: c prompt tokens after p cached ones, b decodes of mean context s, on one rank."""',
        *(f"    {name} = {text}" for name, text in body), f"    return {result}", "", "",
        f"def c_max(p, b, s, limit, most={MOST}):",
        '    """The most prompt tokens of a step that takes no longer than limit; 0 where none do."""',
        "    low, high = 0, most + 1",
        "    while high - low > 1:",
        "        middle = (low + high) // 2",
        "        if step_seconds(middle, p, b, s) <= limit:", "            low = middle", "        else:",
        "            high = middle", "    return low",
    ]  # fmt: skip
    return "\n".join(rows) + "\n"


def c(timer: StepTimer, about: Sequence[str]) -> str:
    """The same in C (C99, with the mathematical library).

    Parameters
    ----------
    timer : of a deployment
    about : lines on what it is
    """
    body, result = lines(timer)
    rows = [
        "/* The time of a step, for a scheduler.", *(f" * {line}".rstrip() for line in ("", *about)), " */",
        "#include <math.h>", "",
        "/* Seconds of a step: c prompt tokens after p cached ones, b decodes of mean context s, on one rank. */",
        "double step_seconds(double c, double p, double b, double s)", "{",
        *(f"    const double {name} = {_in_c(text)};" for name, text in body), f"    return {_in_c(result)};", "}", "",
        "/* The most prompt tokens of a step that takes no longer than limit; 0 where none do. */",
        "int c_max(double p, double b, double s, double limit, int most)", "{",
        "    int low = 0, high = most + 1;", "    while (high - low > 1) {", "        int middle = (low + high) / 2;",
        "        if (step_seconds(middle, p, b, s) <= limit) low = middle; else high = middle;", "    }",
        "    return low;", "}",
    ]  # fmt: skip
    return "\n".join(rows) + "\n"


def _in_c(text: str) -> str:
    """An expression of Python, as `flat` writes them, in C."""
    return _node(ast.parse(text, mode="eval").body)


def _node(node: ast.expr) -> str:  # noqa: PLR0911 - one case a kind of expression
    match node:
        case ast.Constant():
            return repr(float(node.value))  # type: ignore[arg-type]
        case ast.Name():
            return "INFINITY" if node.id == "inf" else node.id
        case ast.UnaryOp(op=ast.USub()):
            return f"(-{_node(node.operand)})"
        case ast.BinOp(op=ast.Pow()):
            return f"pow({_node(node.left)}, {_node(node.right)})"
        case ast.BinOp():
            return f"({_node(node.left)} {_SIGNS[type(node.op)]} {_node(node.right)})"
        case ast.Compare(ops=[sign], comparators=[other]):
            return f"({_node(node.left)} {_SIGNS[type(sign)]} {_node(other)})"
        case ast.IfExp():
            return f"({_node(node.test)} ? {_node(node.body)} : {_node(node.orelse)})"
        case ast.Call(func=ast.Name(id=name), args=[only]):
            return f"{name}({_node(only)})"
    raise TypeError(ast.dump(node))
