"""Equations as symbols: units, letters, inverses, and the text and LaTeX they print as."""

import inspect
import math
import re
from dataclasses import replace

import pint
import pytest
import sympy
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from matplotlib.mathtext import MathTextParser

from chunkcalc.answer.judged import outlook
from chunkcalc.answer.question import Question
from chunkcalc.answer.resolve import resolve
from chunkcalc.derivation import notation, symbolic
from chunkcalc.derivation.nomenclature import NOMENCLATURE
from chunkcalc.textbook import equations, ridge
from chunkcalc.textbook.forms import ClosedForms
from chunkcalc.time import roofline, service
from chunkcalc.time.search import Limit, last
from chunkcalc.time.service import Bounds
from chunkcalc.time.step import StepTimer
from chunkcalc.work import moe, pairs
from tests.deployments import DENSE_FULL

MODULES = (equations, ridge, pairs, moe, service)
UNIT = re.compile(r"^ {4}(.+?) : .*?\[([^\]]+)\]$", re.M)


def documented_units(function):
    """The units of a function's arguments as its docstring gives them."""
    found = {}
    for names, unit in UNIT.findall(re.sub(r"\n {8,}", " ", inspect.getdoc(function).replace("\n", "\n    "))):
        found |= dict.fromkeys(names.split(", "), unit)
    return found


@pytest.mark.parametrize("key", symbolic.EQUATIONS)
def test_letters_are_those_of_the_signature_with_the_units_of_the_docstring(key):
    equation = symbolic.EQUATIONS[key]
    names = list(inspect.signature(equation.function).parameters)
    assert len(names) == len(equation.letters)
    if equation.function.__module__ in {module.__name__ for module in MODULES}:
        assert tuple(names) == equation.letters
        units = documented_units(equation.function)
        for name in names:
            assert NOMENCLATURE[name].unit == units[name], name


def test_every_letter_of_the_published_equations_is_in_the_table():
    members = [each for _, each in inspect.getmembers(equations, inspect.isfunction)]
    functions = [each for each in members if each.__module__ == equations.__name__]
    used = {name for function in functions for name in inspect.signature(function).parameters}
    assert used <= set(NOMENCLATURE)
    assert {name for equation in symbolic.EQUATIONS.values() for name in equation.letters} == set(NOMENCLATURE)
    symbols = [each.symbol for each in NOMENCLATURE.values()]
    assert len(symbols) == len(set(symbols)), "two letters print alike"


UNITS = pint.UnitRegistry()
UNITS.define("FLOP = []")
UNITS.define("token = []")


@pytest.mark.parametrize("key", [key for key in symbolic.EQUATIONS if key != "C5"])
def test_units_agree(key):
    """Quantities go through the equations as numbers do, and come out in the unit that is claimed."""
    equation = symbolic.EQUATIONS[key]
    values = [7.0 + 2 * index for index in range(len(equation.letters))]
    if key in ("E11", "C2"):
        values[0] *= 1e30  # a limit that can be met, a root that is real
    quantities = [
        value if name == "q" else value * UNITS(NOMENCLATURE[name].unit.replace("1", "")).to_base_units()
        for value, name in zip(values, equation.letters, strict=True)
    ]  # fmt: skip
    # C2's g is negative where a chunk helps.
    if key == "C2":
        quantities[2] = -quantities[2]
    result = equation.function(*quantities)
    if equation.unit == "bool":
        assert result in (True, False)
        return
    wanted = UNITS(equation.unit.replace("1", ""))
    found = result if hasattr(result, "dimensionality") else result * UNITS("")
    assert found.dimensionality == wanted.dimensionality
    bare = [each.m if hasattr(each, "m") else each for each in quantities]
    assert found.to_base_units().m == pytest.approx(equation.function(*bare))


def test_units_of_a_message_agree(monkeypatch):
    """The size up to which time builds up is a constant of the code; here it has its unit."""
    plain = [3e6, 5e-6, 2e11, 4e-6]
    wanted = symbolic.EQUATIONS["C5"].function(*plain)
    byte, second = UNITS("byte").to_base_units(), UNITS("s")
    monkeypatch.setattr(roofline, "RAMP_BYTES", roofline.RAMP_BYTES * byte)
    units = (byte, second, byte / second, second)
    found = symbolic.EQUATIONS["C5"].function(*(value * unit for value, unit in zip(plain, units, strict=True)))
    assert found.check("[time]")
    assert found.to("s").m == pytest.approx(wanted)


@pytest.mark.parametrize("key", symbolic.INVERTED)
def test_sympy_finds_the_inverse_that_the_code_computes(key):
    own = symbolic.EQUATIONS[key].function(*(symbolic.letter(name) for name in symbolic.EQUATIONS[key].letters))
    sides = own.args if isinstance(own, sympy.Max) else (own,)
    found = symbolic.inverted(key)
    assert len(found) == len(sides)
    for side in sides:
        assert any(sympy.simplify(side - solution) == 0 for solution in found), side


@settings(max_examples=60)
@given(
    model=st.sampled_from(DENSE_FULL), gpu=st.sampled_from(("h100-sxm", "a100-sxm4-80gb", "b200")),
    prompt=st.integers(100, 30_000), batch=st.integers(1, 200), tpot=st.floats(0.002, 0.3),
)  # fmt: skip
def test_the_textbook_inverse_is_where_the_bisection_ends(model, gpu, prompt, batch, tpot):
    case = resolve(Question(model=model, gpu=gpu, tp=8, prompt=prompt, batch=batch))
    forms = ClosedForms(case.deployment, replace(case.workload, batch=batch))
    limit = Limit("tpot", tpot, lambda low, high, _: Bounds(forms.step(low), forms.step(high)))
    found = last([limit], 1, 1_000_000)
    real = equations.largest_chunk(tpot, forms.P, forms.psi, forms.b)
    assume(abs(real - round(real)) > 1e-6)
    holds = forms.t_memory <= tpot and real >= 1
    assert found == (min(1_000_000, math.floor(real)) if holds else None)


@settings(max_examples=40)
@given(
    model=st.sampled_from(DENSE_FULL), gpu=st.sampled_from(("h100-sxm", "a100-sxm4-80gb", "b200", "l40s")),
    tp=st.sampled_from((1, 2, 8)), prompt=st.integers(2000, 30_000), batch=st.integers(1, 200),
    tpot=st.floats(0.002, 0.5),
)  # fmt: skip
def test_the_inverse_of_the_floor_is_where_the_bisection_ends(model, gpu, tp, prompt, batch, tpot):
    """The code of the step, run on a symbol and solved by sympy, against the search on whole numbers."""
    case = resolve(Question(model=model, gpu=gpu, tp=tp, prompt=prompt, batch=batch, tpot=tpot))
    view = outlook(case.deployment, replace(case.workload, batch=batch), case.slo)
    floor = view.floor
    expression = symbolic.bound(StepTimer(case.deployment), prompt, floor.prefill.b, floor.s)
    assert symbolic.polynomial(expression)
    real = symbolic.largest_below(expression, tpot)
    assume(not math.isfinite(real) or abs(real - round(real)) > 1e-6)
    found = last([Limit("tpot", tpot, floor.gap_bounds)], 1, prompt)
    assert found == (None if real < 1 else min(prompt, math.floor(real)) if math.isfinite(real) else prompt)


def test_an_experts_floor_is_told_to_be_no_polynomial():
    case = resolve(Question(model="gpt-oss-120b", gpu="h200-sxm", prompt=4000, batch=8))
    assert not symbolic.polynomial(symbolic.bound(StepTimer(case.deployment), 4000, 8.0, 4256.0))


def test_derivatives():
    assert symbolic.derivative("E10", "b") == -1
    assert symbolic.derivative("E6", "b") == -1
    c = symbolic.derivative("E1", "c")
    assert c == 2 * symbolic.letter("Psi")


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("E1", "2 · (c + b) · Ψ"), ("E4", "F / (M_w + M_kv)"), ("E6", "I* · (M_w + M_kv) / (2 · Ψ) - b"),
        ("E7", "max(t_c, t_m)"), ("E8", "ceil(s_p / c)"), ("E9", "s_p · t / c"),
        ("E12", "c_min <= c_max and t_m <= TPOT"),
        ("E11", "max(s_p · t_m / TTFT, s_p · b · 2 · Ψ / (P · (TTFT - s_p · 2 · Ψ / P)))"),
        ("C1", "c · p + c · (c + 1) / 2"), ("C2", "(sqrt(h^2 - 2 · a · g) - h) / a"),
        ("C3", "E · (1 - (1 - k / E)^n)"), ("C4", "(x^q + y^q)^(1 / q)"), ("C6", "b · A · s_e / (o - 1)"),
    ],
)  # fmt: skip
def test_formulas_print_in_their_written_order(key, text):
    assert notation.line(symbolic.formula(key)) == text


def test_numbers_stand_where_their_letters_stood():
    numbers = {"t_compute": "9.13 ms", "t_memory": "12.2 ms"}
    assert notation.line(symbolic.formula("E7", numbers)) == "max(9.13 ms, 12.2 ms)"
    power = symbolic.formula("C4", {"x": "80 us", "y": "40 us", "q": "2"})
    assert notation.line(power) == "((80 us)^2 + (40 us)^2)^(1 / 2)"
    root = symbolic.formula("C2", {"a": "2", "h": "-3", "g": "-91.9 TFLOP"})
    assert notation.line(root) == "(sqrt((-3)^2 - 2 · 2 · (-91.9 TFLOP)) - (-3)) / 2"
    assert notation.line(symbolic.formula("E5", {"P": "989 TFLOP/s", "B": "3.35 TB/s"})) == "989 TFLOP/s / (3.35 TB/s)"


@pytest.mark.parametrize("key", symbolic.EQUATIONS)
def test_a_line_of_text_computes_what_the_code_computes(key):
    """The printed formula, read back, gives the function's own value."""
    letters = symbolic.EQUATIONS[key].letters
    values = {name: 3.0 + index for index, name in enumerate(letters)} | {"g": -5.0, "ttft": 1e4}
    text = re.sub(r"(?<=\d),(?=\d)", "", notation.line(symbolic.formula(key))).replace("·", "*").replace("^", "**")
    names = {NOMENCLATURE[name].symbol: name for name in letters}
    symbols = "|".join(re.escape(symbol) for symbol in sorted(names, key=len, reverse=True))
    text = re.sub(rf"(?<!\w)({symbols})(?!\w)", lambda found: f"({values[names[found[1]]]})", text)
    known = {"max": max, "min": min, "ceil": math.ceil, "sqrt": math.sqrt, "__builtins__": {}}
    assert eval(text, known) == pytest.approx(symbolic.value(key, values))


@pytest.mark.parametrize("key", symbolic.EQUATIONS)
def test_latex_is_tex(key):
    """By matplotlib's TeX: symbols, a line of numbers, and the inverse."""
    numbers = dict.fromkeys(symbolic.EQUATIONS[key].letters, "1,234.5 GFLOP/s")
    shown = [symbolic.formula(key), symbolic.formula(key, numbers)]
    for each in [*shown, *(symbolic.inverted(key) if key in symbolic.INVERTED else [])]:
        MathTextParser("agg").parse(f"${notation.tex(each)}$")
    with pytest.raises(ValueError, match="Expected"):
        MathTextParser("agg").parse(f"${notation.tex(shown[0])}}}$")
