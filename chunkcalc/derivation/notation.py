"""How formulas print: one line of text, or LaTeX, in their written order."""

from __future__ import annotations

import re
from typing import Any

import sympy
from sympy.printing.latex import LatexPrinter

from chunkcalc.derivation.nomenclature import NOMENCLATURE

APART = "\0"  # between the letter's name and the number in its place
PRECEDENCE = {"sum": 1, "product": 2, "power": 3, "atom": 4}


def line(expression: Any) -> str:
    """An expression in one line of text, in its written order."""
    return _text(expression)[0]


def _text(e: Any) -> tuple[str, str]:  # noqa: PLR0911 - one case each
    """The text, and how tightly it binds."""
    if e.is_Symbol:
        known = NOMENCLATURE.get(e.name)
        text = known.symbol if known else e.name.rpartition(APART)[2]
        return text, "sum" if text.startswith("-") else "product" if " " in text else "atom"
    if isinstance(e, (sympy.Max, sympy.Min)):
        name = "max" if isinstance(e, sympy.Max) else "min"
        return f"{name}({', '.join(line(each) for each in e.args)})", "atom"
    if isinstance(e, sympy.ceiling):
        return f"ceil({line(e.args[0])})", "atom"
    if e.is_Relational:
        return f"{line(e.lhs)} {e.rel_op} {line(e.rhs)}", "sum"
    if isinstance(e, sympy.And):
        return " and ".join(line(each) for each in e.args), "sum"
    if e.is_Add:
        return _sum(e.args), "sum"
    if e.is_Mul:
        return _product(e)
    if e.is_Pow:
        if e.exp == -1:
            return f"1 / {_inside(e.base, 'power')}", "product"
        if e.exp in (0.5, sympy.Rational(1, 2)):
            return f"sqrt({line(e.base)})", "atom"
        return f"{_inside(e.base, 'atom')}^{_inside(e.exp, 'atom')}", "power"
    if e.is_Number:
        return f"{float(e):,.10g}", "sum" if e < 0 else "atom"
    return str(e), "atom"


def _inside(e: Any, least: str) -> str:
    text, binds = _text(e)
    return text if PRECEDENCE[binds] >= PRECEDENCE[least] else f"({text})"


def _sum(terms: Any) -> str:
    out = ""
    for term in terms:
        text = line(term)
        out = (f"{out} - {text[1:]}" if text.startswith("-") else f"{out} + {text}") if out else text
    return out


def _factors(e: Any) -> list[Any]:
    return [each for part in e.args for each in (_factors(part) if part.is_Mul else [part])]


def _product(e: Any) -> tuple[str, str]:
    above, below = [], []
    for factor in _factors(e):
        if factor.is_Pow and factor.exp == -1:
            below.append(factor.base)
        elif factor != 1:
            above.append(factor)
    sign = ""
    if above and above[0].is_Number and above[0] < 0:
        sign, above = "-", ([-above[0]] if above[0] != -1 or len(above) == 1 else []) + above[1:]
    top = " · ".join(_inside(each, "product") for each in above) or "1"
    if not below:
        return sign + top, "product"
    single = len(below) == 1 and not below[0].is_Mul
    under = _inside(below[0], "power") if single else "(" + " · ".join(_inside(each, "product") for each in below) + ")"
    return f"{sign}{top} / {under}", "product"


def tex(expression: Any) -> str:
    """An expression as LaTeX, in its written order."""
    names = {sympy.Symbol(name, positive=True): known.tex for name, known in NOMENCLATURE.items()}
    for symbol in expression.free_symbols - set(names):
        names[symbol] = _tex_number(symbol.name.rpartition(APART)[2])
    printed = LatexPrinter({"order": "none", "symbol_names": names, "mul_symbol": "dot"}).doprint(expression)
    return re.sub(r"(?<=\d)\.0(?!\d)", "", printed)  # whole numbers that were floats


def _tex_number(text: str) -> str:
    """`70.6 GB` as LaTeX: a number upright with its unit."""
    number, _, unit = text.partition(" ")
    digits, _, power = number.replace(",", "{,}").partition("e")
    number = rf"{digits} \times 10^{{{power}}}" if power else digits
    shown = rf"{number}\,\mathrm{{{unit}}}" if unit else number
    return rf"\left({shown}\right)" if shown.startswith("-") else shown
