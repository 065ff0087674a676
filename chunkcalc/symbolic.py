"""The equations as symbols: the very functions of `equations.py` and the step, fed with sympy symbols.

`NOMENCLATURE` says what each letter stands for; `formula` returns an equation in its written order,
with letters or with a deployment's numbers in their place; `inverse` solves it; `line` and `tex`
print it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import sympy
from sympy.printing.latex import LatexPrinter

from chunkcalc import equations, load, ops, roofline, step
from chunkcalc.records import Allreduce
from chunkcalc.step import StepTimer
from chunkcalc.work import moe, pairs


class Quantity(NamedTuple):
    """A letter of the equations.

    symbol : as text
    tex : as LaTeX
    unit : as docstrings write it
    meaning : in words
    """

    symbol: str
    tex: str
    unit: str
    meaning: str


# By the name that the code gives it.
NOMENCLATURE: Mapping[str, Quantity] = {
    "c": Quantity("c", "c", "token", "chunk: prompt tokens of a step on one attention rank"),
    "p": Quantity("p", "p", "token", "prompt tokens in the KV cache before the chunk"),
    "b": Quantity("b", "b", "token", "decoding requests of the step, one token each"),
    "s": Quantity("s", "s", "token", "mean context of the decodes"),
    "s_p": Quantity("s_p", "s_p", "token", "prompt"),
    "o": Quantity("o", "o", "token", "output of a request"),
    "k": Quantity("k", "k", "1", "chunks of a prompt (E8); experts per token (C3)"),
    "Psi": Quantity("Ψ", r"\Psi", "1", "parameters of the model"),
    "s_Psi": Quantity("s_Ψ", r"s_\Psi", "byte", "bytes per parameter"),
    "s_kv": Quantity("s_kv", r"s_{kv}", "byte", "bytes per element of the KV cache"),
    "layers": Quantity("L", "L", "1", "layers"),
    "kv_heads": Quantity("n_kv", r"n_{kv}", "1", "KV heads"),
    "head_dim": Quantity("d_h", r"d_h", "1", "head dimension"),
    "flops": Quantity("F", "F", "FLOP", "arithmetic of the step (E1)"),
    "weight_traffic": Quantity("M_w", r"M_w", "byte", "weights read by the step (E2)"),
    "kv_traffic": Quantity("M_kv", r"M_{kv}", "byte", "KV cache read by the decodes (E3)"),
    "I_star": Quantity("I*", r"I^{*}", "FLOP/byte", "ridge point (E5)"),
    "P": Quantity("P", "P", "FLOP/s", "peak arithmetic of the unit"),
    "B": Quantity("B", "B", "byte/s", "memory bandwidth of the unit"),
    "t_compute": Quantity("t_c", r"t_c", "s", "time of the arithmetic (E7a)"),
    "t_memory": Quantity("t_m", r"t_m", "s", "time of the traffic (E7b)"),
    "t_step": Quantity("t", "t", "s", "time of the step (E7)"),
    "tpot": Quantity("TPOT", r"\mathrm{TPOT}", "s", "limit of the time per output token"),
    "ttft": Quantity("TTFT", r"\mathrm{TTFT}", "s", "limit of the time to first token"),
    "c_min": Quantity("c_min", r"c_{\min}", "token", "smallest chunk within TTFT (E11)"),
    "c_max": Quantity("c_max", r"c_{\max}", "token", "largest chunk within TPOT (E10)"),
    "W_lin": Quantity("W", "W", "1", "matmul parameters touched per token, without embedding and head"),
    "head_flops": Quantity("F_h", r"F_h", "FLOP", "arithmetic of the output head"),
    "a": Quantity("a", "a", "FLOP", "attention arithmetic per query and key, all layers"),
    "kappa": Quantity("κ", r"\kappa", "byte", "KV cache per token of context, all layers"),
    "h": Quantity("h", "h", "FLOP", "arithmetic of a first prompt token beyond the ridge (C2a)"),
    "g": Quantity("g", "g", "FLOP", "arithmetic of the decodes beyond the ridge (C2b)"),
    "E": Quantity("E", "E", "1", "experts of a layer"),
    "n": Quantity("n", "n", "token", "tokens of the step"),
    "x": Quantity("x", "x", "s", "a kernel's arithmetic at the fraction of peak it reaches"),
    "y": Quantity("y", "y", "s", "its traffic at the fraction of bandwidth it reaches"),
    "q": Quantity("q", "q", "1", "knee exponent that joins the two"),
    "message": Quantity("m", "m", "byte", "message of an all-reduce"),
    "latency": Quantity("α", r"\alpha", "s", "latency of an all-reduce"),
    "link": Quantity("B_l", r"B_l", "byte/s", "bandwidth that an all-reduce reaches"),
    "ramp": Quantity("ρ", r"\rho", "s", "time that builds up over the first megabyte of a message"),
    "w": Quantity("w", "w", "token", "keys that a query sees at most"),
    "host_layer": Quantity("τ_l", r"\tau_l", "s", "host time per layer of a step"),
    "expert_layers": Quantity("L_x", "L_x", "1", "layers with experts"),
    "expert_layer": Quantity("τ_x", r"\tau_x", "s", "routing per layer with experts"),
    "norm_layers": Quantity("L_n", "L_n", "1", "layers whose norm runs over all ranks"),
    "norm_layer": Quantity("τ_n", r"\tau_n", "s", "that norm's exchange per layer"),
    "sequence": Quantity("τ_b", r"\tau_b", "s", "sampling and bookkeeping per decode"),
    "gamma": Quantity("γ", r"\gamma", "token", "draft tokens per step"),
    "chance": Quantity("a_d", "a_d", "1", "chance that a draft token holds"),
    "A": Quantity("A", "A", "token", "tokens that a decode yields per step"),
    "s_eff": Quantity("s_e", r"s_e", "token", "prompt tokens that are not cached"),
}


class Equation(NamedTuple):
    """An equation of the derivation.

    title : what it gives
    left : its left side, as text and as LaTeX
    function : the function that the program computes with
    letters : its arguments, by name
    unit : of the result
    source : paper and place
    """

    title: str
    left: tuple[str, str]
    function: Callable[..., Any]
    letters: tuple[str, ...]
    unit: str
    source: str


SARATHI = "Agrawal et al., SARATHI, arXiv 2308.16369"
SERVE = "Agrawal et al., Sarathi-Serve, arXiv 2403.02310"
DISTSERVE = "Zhong et al., DistServe, arXiv 2401.09670"


def _allreduce(message: Any, latency: Any, link: Any, ramp: Any) -> Any:
    return roofline.allreduce_time(message, Allreduce(latency, link, ramp))


EQUATIONS: Mapping[str, Equation] = {
    "E1": Equation("arithmetic of a mixed step", ("F", "F"), equations.step_flops, ("c", "b", "Psi"), "FLOP", SARATHI),
    "E2": Equation(
        "weights read by a step", ("M_w", "M_w"), equations.weight_bytes, ("Psi", "s_Psi"), "byte", SARATHI
    ),
    "E3": Equation(
        "KV cache read by a step", ("M_kv", "M_{kv}"), equations.kv_read_bytes,
        ("layers", "kv_heads", "head_dim", "s", "b", "s_kv"), "byte", SARATHI,
    ),
    "E4": Equation(
        "arithmetic intensity", ("I", "I"), equations.intensity, ("flops", "weight_traffic", "kv_traffic"),
        "FLOP/byte", SARATHI,
    ),
    "E5": Equation("ridge point", ("I*", "I^{*}"), equations.ridge_intensity, ("P", "B"), "FLOP/byte", SARATHI),
    "E6": Equation(
        "chunk that reaches the ridge", ("c*", "c^{*}"), equations.optimal_chunk,
        ("I_star", "weight_traffic", "kv_traffic", "Psi", "b"), "token", SARATHI,
    ),
    "E7a": Equation("time of the arithmetic", ("t_c", "t_c"), equations.compute_time, ("flops", "P"), "s", SERVE),
    "E7b": Equation(
        "time of the traffic", ("t_m", "t_m"), equations.memory_time, ("weight_traffic", "kv_traffic", "B"), "s", SERVE
    ),
    "E7": Equation("time of the step", ("t", "t"), equations.step_time, ("t_compute", "t_memory"), "s", SERVE),
    "E8": Equation("chunks of a prompt", ("k", "k"), equations.chunk_count, ("s_p", "c"), "1", SERVE),
    "E9": Equation(
        "lower bound of TTFT", ("TTFT", r"\mathrm{TTFT}"), equations.ttft_bound, ("k", "t_step"), "s", SERVE
    ),
    "E10": Equation(
        "largest chunk within TPOT", ("c_max", r"c_{\max}"), equations.largest_chunk, ("tpot", "P", "Psi", "b"),
        "token", SERVE,
    ),
    "E11": Equation(
        "smallest chunk within TTFT", ("c_min", r"c_{\min}"), equations.smallest_chunk,
        ("ttft", "s_p", "P", "Psi", "b", "t_memory"), "token", SERVE,
    ),
    "E12": Equation(
        "whether a chunk meets both", ("feasible", r"\mathrm{feasible}"), equations.feasible, ("c_min", "c_max"),
        "bool", DISTSERVE,
    ),
    "C1": Equation(
        "pairs of query and key in a chunk", ("pairs", r"\mathrm{pairs}"), pairs.causal_pairs, ("c", "p"), "1",
        "causal attention over c tokens after p cached ones",
    ),
    "C2a": Equation(
        "what a first prompt token adds beyond the ridge", ("h", "h"), equations.flops_less_ridge_per_token,
        ("W_lin", "a", "p", "I_star", "kappa"), "FLOP", "our derivation; dense models with full attention",
    ),
    "C2b": Equation(
        "what the decodes are short of the ridge", ("g", "g"), equations.flops_less_ridge_of_decodes,
        ("W_lin", "b", "head_flops", "a", "s", "I_star", "weight_traffic", "kappa", "p"), "FLOP",
        "our derivation; dense models with full attention",
    ),
    "C2": Equation(
        "chunk that reaches the ridge, attention counted", ("c*", "c^{*}"), equations.optimal_chunk_with_attention,
        ("a", "h", "g"), "token", "our derivation: E4 with the quadratic attention term",
    ),
    "C3": Equation(
        "experts that a step reads in a layer", ("D", "D"), moe.distinct_experts, ("E", "k", "n"), "1",
        "n tokens draw k of E experts each",
    ),
    "C4": Equation(
        "time of a kernel", ("t", "t"), ops.qsum, ("x", "y", "q"), "s",
        "measured kernels, docs/accuracy.md; plus a time per launch",
    ),
    "C5": Equation(
        "time of an all-reduce", ("t", "t"), _allreduce, ("message", "latency", "link", "ramp"), "s",
        "measured all-reduces, docs/accuracy.md",
    ),
    "C6": Equation(
        "prompt tokens a step must carry", ("c_bal", r"c_{\mathrm{bal}}"), load.balance_chunk, ("b", "A", "s_eff", "o"),
        "token", "as many prompts enter as answers finish",
    ),
    "C7": Equation(
        "pairs behind a window", ("pairs", r"\mathrm{pairs}"), pairs.window_pairs, ("c", "p", "w"), "1",
        "the sum of min(p + i, w) over the queries of a chunk",
    ),
    "C8": Equation(
        "what the engine adds to a step", ("t_e", "t_e"), step.host_time,
        ("layers", "host_layer", "expert_layers", "expert_layer", "norm_layers", "norm_layer", "b", "sequence"), "s",
        "fitted to served latencies, docs/accuracy.md",
    ),
    "C9": Equation(
        "tokens that a speculative step yields", ("A", "A"), load.accepted_tokens, ("gamma", "chance"), "token",
        "Leviathan et al., arXiv 2211.17192, equation 1",
    ),
}  # fmt: skip


def letter(name: str) -> sympy.Symbol:
    """The symbol of a quantity.

    Parameters
    ----------
    name : of the code
    """
    return sympy.Symbol(name, positive=True)


def formula(key: str, numbers: Mapping[str, str] | None = None) -> Any:
    """The right side of an equation in its written order.

    Parameters
    ----------
    key : such as E6
    numbers : text that stands for a quantity in place of its letter, by the quantity's name
    """
    equation, given = EQUATIONS[key], numbers or {}
    # sympy sorts the sides of a maximum by name: a number keeps its letter's place.
    shown = [sympy.Symbol(name + APART + given[name]) if name in given else letter(name) for name in equation.letters]
    with sympy.evaluate(False):
        return equation.function(*shown)


def value(key: str, values: Mapping[str, float]) -> Any:
    """What an equation yields for numbers: the program's own function.

    Parameters
    ----------
    key : such as E6
    values : of its letters, by name
    """
    equation = EQUATIONS[key]
    return equation.function(*(values[name] for name in equation.letters))


# What an inverse is the solution of: the left side as a function of c, and the letter it is set equal to.
INVERTED: Mapping[str, tuple[str, str]] = {
    "E6": ("I(c) = I*", "I_star"), "E10": ("t_c(c) = TPOT", "tpot"), "E11": ("s_p/c · t(c) = TTFT", "ttft"),
}  # fmt: skip


def inverted(key: str) -> list[Any]:
    """The inverse of an equation as sympy finds it, one solution per branch of a maximum.

    Parameters
    ----------
    key : E6, E10 or E11

    Returns
    -------
    chunks [token]
    """
    c, b, Psi, P = (letter(name) for name in ("c", "b", "Psi", "P"))
    flops = equations.step_flops(c, b, Psi)
    compute = equations.compute_time(flops, P)
    whole = {
        "E6": [equations.intensity(flops, letter("weight_traffic"), letter("kv_traffic"))],
        "E10": [compute],
        # The rounding up of E8 has no inverse and is left out; sympy solves no maximum, so each branch.
        "E11": [equations.ttft_bound(letter("s_p") / c, time) for time in (letter("t_memory"), compute)],
    }[key]
    equal = letter(INVERTED[key][1])
    return [solution for side in whole for solution in sympy.solve(sympy.Eq(side, equal), c)]


def polynomial(expression: Any) -> bool:
    """Whether an expression is a polynomial in c, or a maximum of some.

    Parameters
    ----------
    expression : as of `bound`
    """
    sides = expression.args if isinstance(expression, sympy.Max) else (expression,)
    return all(side.is_polynomial(letter("c")) for side in sides)


def coefficients(expression: Any) -> list[list[float]]:
    """The coefficients of each side of a maximum of polynomials in c, from the constant up.

    Parameters
    ----------
    expression : as of `bound`, where it is `polynomial`
    """
    sides = expression.args if isinstance(expression, sympy.Max) else (expression,)
    return [[float(each) for each in reversed(sympy.Poly(side, letter("c")).all_coeffs())] for side in sides]


def derivative(key: str, of: str) -> Any:
    """The derivative of an equation with respect to one of its letters.

    Parameters
    ----------
    key : such as E10
    of : the letter
    """
    equation = EQUATIONS[key]
    return sympy.simplify(sympy.diff(equation.function(*(letter(name) for name in equation.letters)), letter(of)))


def bound(timer: StepTimer, end: float, b: float, s: float) -> Any:
    """The floor of a step as an expression in c: the code of `step.py`, run on a symbol.

    Parameters
    ----------
    timer : of the deployment
    end : where in the prompt the chunk ends: after the c tokens that follow end - c cached ones [token]
    b : decodes of an attention rank [token]
    s : their mean context [token]

    Returns
    -------
    time [s]
    """
    return sympy.expand(timer.floor(letter("c"), end - letter("c"), b, s))


def largest_below(expression: Any, limit: float) -> float:
    """The largest c at which a maximum of polynomials in c is within a limit.

    Parameters
    ----------
    expression : non-decreasing in c
    limit : of it

    Returns
    -------
    chunk; negative where none is, infinite where c does not matter [token]
    """
    c = letter("c")
    ends = []
    for side in expression.args if isinstance(expression, sympy.Max) else (expression,):
        if side.subs(c, 0) > limit:
            return -math.inf
        roots = sympy.Poly(side - limit, c).nroots(n=30) if side.has(c) else []
        crossed = [float(root) for root in roots if root.is_real and root >= 0]
        ends.append(min(crossed, default=math.inf))
    return min(ends)


APART = "\0"  # between the letter's name and the number in its place
PRECEDENCE = {"sum": 1, "product": 2, "power": 3, "atom": 4}


def line(expression: Any) -> str:
    """An expression in one line of text, in its written order.

    Parameters
    ----------
    expression : as of `formula`
    """
    return _text(expression)[0]


def _text(e: Any) -> tuple[str, str]:  # noqa: PLR0911 - one case each
    """The text, and how tightly it binds."""
    if e.is_Symbol:
        known = NOMENCLATURE.get(e.name)
        text = known.symbol if known else e.name.rpartition(APART)[2]
        return text, "product" if " " in text else "atom"
    if isinstance(e, (sympy.Max, sympy.Min)):
        name = "max" if isinstance(e, sympy.Max) else "min"
        return f"{name}({', '.join(line(each) for each in e.args)})", "atom"
    if isinstance(e, sympy.ceiling):
        return f"ceil({line(e.args[0])})", "atom"
    if e.is_Relational:
        return f"{line(e.lhs)} {e.rel_op} {line(e.rhs)}", "sum"
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
    return f"{float(e):,.10g}" if e.is_Number else str(e), "atom"


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
    """An expression as LaTeX, in its written order.

    Parameters
    ----------
    expression : as of `formula`
    """
    names = {letter(name): known.tex for name, known in NOMENCLATURE.items()}
    for symbol in expression.free_symbols - set(names):
        names[symbol] = _tex_number(symbol.name.rpartition(APART)[2])
    return str(LatexPrinter({"order": "none", "symbol_names": names, "mul_symbol": "dot"}).doprint(expression))


def _tex_number(text: str) -> str:
    """`70.6 GB` as LaTeX: a number upright with its unit."""
    number, _, unit = text.partition(" ")
    digits, _, power = number.replace(",", "{,}").partition("e")
    number = rf"{digits} \times 10^{{{power}}}" if power else digits
    return rf"{number}\,\mathrm{{{unit}}}" if unit else number
