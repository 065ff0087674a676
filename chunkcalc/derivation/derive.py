"""The derivation of an answer: every equation with this deployment's numbers, and what each means for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from chunkcalc.answer.judged import outlook
from chunkcalc.answer.records import Answer
from chunkcalc.derivation import notation, sensitivity, symbolic, term_by_term
from chunkcalc.derivation.departures import departures
from chunkcalc.derivation.equation_values import WHY_NOT, Letters
from chunkcalc.derivation.interpretation import notes, takeaway
from chunkcalc.derivation.nomenclature import NOMENCLATURE
from chunkcalc.derivation.questions import Told, questions
from chunkcalc.errors import ChunkcalcError
from chunkcalc.frozen import dataclass
from chunkcalc.time.step import timer_for
from chunkcalc.units import format_duration, format_si


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """An equation with numbers.

    key, title, source : of the equation
    left, symbols, inverse, numbers : as text; None where there is none
    tex : left side and symbols, inverse, numbers as LaTeX
    value : the result as text; `result` as a number in SI units
    takeaway : what it means here, in one sentence
    """

    key: str
    title: str
    source: str
    left: str
    symbols: str
    inverse: str | None
    numbers: str
    tex: tuple[str, ...]
    value: str
    result: float
    takeaway: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """The floor of the longest step as a closed form in c.

    sides : each resource's time as text
    step : at the answer's chunk [s]
    judged : whether a limit on every step is held against it
    largest : the chunk beyond which no engine keeps the TPOT limit, 0 where decodes alone miss it; None
        without a limit, or where the whole prompt keeps it [token]
    """

    sides: tuple[str, ...]
    step: float
    judged: bool
    largest: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Derivation:
    """An answer explained.

    answer : the answer
    textbook, corrected : equations E1-E12, and C1-C10 that the prediction adds
    notes : what the published equations do not see of this deployment
    departures : where an equation is not taken as it was published, and why
    floor : None where it is no polynomial in c (mixtures of experts, windows)
    terms : from the textbook's step and TTFT to the expected ones
    base, changes : what 10 % more of something changes
    questions : the three questions of chunked prefill, answered for this deployment
    """

    answer: Answer
    textbook: tuple[Shown, ...]
    corrected: tuple[Shown, ...]
    notes: tuple[str, ...]
    departures: tuple[str, ...]
    floor: Floor | None
    terms: tuple[term_by_term.Term, ...]
    base: sensitivity.Values
    changes: tuple[sensitivity.Change, ...]
    questions: tuple[Told, ...]


def explain(answer: Answer) -> Derivation:
    """Explain an answer."""
    letters = Letters(answer)
    base, changes = sensitivity.changes(answer)
    return Derivation(
        answer=answer, textbook=tuple(_shown(letters, key) for key in letters.textbook_keys()),
        corrected=tuple(_shown(letters, key) for key in letters.correction_keys()),
        notes=tuple(notes(letters)), departures=tuple(departures(letters)), floor=_floor(answer),
        terms=tuple(term_by_term.terms(answer)), base=base, changes=tuple(changes), questions=questions(answer),
    )  # fmt: skip


def single(answer: Answer, key: str) -> Shown:
    """One equation.

    Raises
    ------
    ChunkcalcError : an unknown equation, or one that has no part in this deployment
    """
    names = {name.upper(): name for name in symbolic.EQUATIONS}
    name = names.get(key.strip().upper())
    if name is None:
        raise ChunkcalcError(f"there is no equation '{key:.20}'", "--equation", f"one of {', '.join(names.values())}")
    letters = Letters(answer)
    if name not in (*letters.textbook_keys(), *letters.correction_keys()):
        raise ChunkcalcError(f"{name} has no numbers here", "--equation", WHY_NOT[name])
    return _shown(letters, name)


def _shown(letters: Letters, key: str) -> Shown:
    """An equation with its numbers."""
    equation, values = symbolic.EQUATIONS[key], letters.of(key)
    texts = {name: _letter(value, NOMENCLATURE[name].unit) for name, value in values.items()}
    symbols, filled = symbolic.formula(key), symbolic.formula(key, texts)
    result, numbers = float(symbolic.value(key, values)), notation.line(filled)
    tex, inverse = [f"{equation.left[1]} = {notation.tex(symbols)}"], None
    if key in symbolic.INVERTED:
        solved = symbolic.inverted(key)
        inverse = f"{symbolic.INVERTED[key][0]}  =>  c = {' or '.join(notation.line(each) for each in solved)}"
        tex += [f"c = {notation.tex(each)}" for each in solved]
    tex.append(f"{equation.left[1]} = {notation.tex(filled)}")
    # c* with the digits that `solve` prints; the ends of the window are real numbers.
    text = {"E6": _text, "E10": _end, "E11": _end}.get(key, _letter)
    value = ("no", "yes")[int(result)] if equation.unit == "bool" else text(result, equation.unit)
    return Shown(
        key=key, title=equation.title, source=equation.source, left=equation.left[0], symbols=notation.line(symbols),
        inverse=inverse, numbers=numbers, tex=tuple(tex), value=value + (" tokens" if equation.unit == "token" else ""),
        result=result, takeaway=takeaway(letters, key, result),
    )  # fmt: skip


def _end(value: float, unit: str) -> str:
    return f"{value:,.1f}"


def _letter(value: float, unit: str) -> str:
    """The same for a letter in a formula, where 2.5 tokens are not 3."""
    whole = unit != "token" or value == round(value) or abs(value) >= 100
    return _text(value, unit) if whole else f"{value:.3g}"


def _text(value: float, unit: str) -> str:
    """A number as the reports print it."""
    writers: Mapping[str, Callable[[float], str]] = {
        "s": format_duration, "token": lambda x: f"{x:,.0f}", "FLOP/byte": lambda x: f"{x:,.0f} FLOP/B",
        "FLOP": lambda x: format_si(x, "FLOP"), "FLOP/s": lambda x: format_si(x, "FLOP/s"),
        "byte": lambda x: format_si(x, "B"), "byte/s": lambda x: format_si(x, "B/s"),
    }  # fmt: skip
    if unit in writers:
        return writers[unit](value)
    if value >= 1e9:
        return f"{value / 1e9:.1f}e9"
    return f"{value:,.4g}" if value != round(value) else f"{value:,.0f}"


def _floor(answer: Answer) -> Floor | None:
    """The floor in closed form, where the model allows one."""
    deployment, slo = answer.case.deployment, answer.slo
    view = outlook(deployment, answer.workload, slo)
    prefill = view.floor.prefill
    if answer.chunk > prefill.tokens or view.floor.interval:
        return None
    timer = timer_for(deployment, answer.workload.draft_tokens)
    bound = symbolic.bound(timer, prefill.cached + prefill.tokens, prefill.b, prefill.s)
    if not symbolic.polynomial(bound):
        return None
    sides = tuple(_polynomial(each) for each in symbolic.coefficients(bound))
    judged = view.floor.mixed and slo.itl is not None
    limit = slo.itl if judged else None
    largest = math.inf if limit is None else symbolic.largest_below(bound, limit)
    reached = max(0.0, largest) if largest < prefill.tokens else None
    return Floor(sides=sides, step=answer.floor.step_s, judged=judged, largest=reached)


def _polynomial(coefficients: list[float]) -> str:
    """`9.57 ms + 39.1 ns c` from the constant up."""
    powers = ("", " c", " c^2", " c^3")
    terms = [(value, powers[index]) for index, value in enumerate(coefficients) if value]
    out = ""
    for value, power in terms:
        text = f"{_small(abs(value))}{' ·' if power else ''}{power}"
        out += f" {'-' if value < 0 else '+'} {text}" if out else f"{'-' if value < 0 else ''}{text}"
    return out or "0 s"


def _small(seconds: float) -> str:
    for unit, scale in (("ns", 1e-9), ("ps", 1e-12), ("fs", 1e-15)):
        if seconds < 1e-6 and (seconds >= scale or unit == "fs"):
            return f"{seconds / scale:.3g} {unit}"
    return format_duration(seconds)
