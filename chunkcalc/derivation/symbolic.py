"""The equations as symbols: the very functions of `equations.py` and the step, fed with sympy symbols.

`formula` returns an equation in its written order, with letters or with a deployment's numbers in
their place; `inverted` solves it; `bound` runs the code of a step on a symbol.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import sympy

from chunkcalc import ops
from chunkcalc.derivation.notation import APART
from chunkcalc.records import Allreduce
from chunkcalc.textbook import equations, ridge
from chunkcalc.time import roofline, service, step
from chunkcalc.time.step import StepTimer
from chunkcalc.work import moe, pairs


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
    "E3b": Equation(
        "KV cache read by a step, any kind of attention", ("M_kv", "M_{kv}"), equations.kv_read_of_sequences,
        ("b", "one"), "byte", "E3 with windows, latent caches and fixed states",
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
    "E9a": Equation(
        "time of a prompt's full steps", ("t_k", "t_k"), equations.ttft_of_full_steps, ("k", "t_step"), "s", SERVE
    ),
    "E9": Equation(
        "lower bound of TTFT", ("TTFT", r"\mathrm{TTFT}"), equations.ttft_bound, ("s_p", "c", "t_step"), "s", SERVE
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
        "whether a chunk meets both", ("feasible", r"\mathrm{feasible}"), equations.feasible,
        ("c_min", "c_max", "t_memory", "tpot"),
        "bool", DISTSERVE,
    ),
    "C1": Equation(
        "pairs of query and key in a chunk", ("pairs", r"\mathrm{pairs}"), pairs.causal_pairs, ("c", "p"), "1",
        "causal attention over c tokens after p cached ones",
    ),
    "C2a": Equation(
        "what a first prompt token adds beyond the ridge", ("h", "h"), ridge.flops_less_ridge_per_token,
        ("W_lin", "a", "p", "I_star", "kappa"), "FLOP", "our derivation; dense models with full attention",
    ),
    "C2b": Equation(
        "what the decodes are short of the ridge", ("g", "g"), ridge.flops_less_ridge_of_decodes,
        ("W_lin", "b", "head_flops", "a", "s", "I_star", "weight_traffic", "kappa", "p"), "FLOP",
        "our derivation; dense models with full attention",
    ),
    "C2": Equation(
        "chunk that reaches the ridge, attention counted", ("c*", "c^{*}"), ridge.optimal_chunk_with_attention,
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
        "time of a message between the GPUs of a layer", ("t", "t"), _allreduce,
        ("message", "latency", "link", "ramp"), "s",
        "measured all-reduces, docs/accuracy.md",
    ),
    "C6": Equation(
        "prompt tokens a step must carry", ("c_bal", r"c_{\mathrm{bal}}"), service.balance_chunk,
        ("b", "A", "s_eff", "o"), "token", "as many prompts enter as answers finish",
    ),
    "C7a": Equation(
        "queries that see less than the window", ("n_g", "n_g"), pairs.growing, ("c", "p", "w"), "token",
        "at the start of a prompt",
    ),
    "C7": Equation(
        "pairs behind a window", ("pairs", r"\mathrm{pairs}"), pairs.window_pairs_of, ("n_g", "c", "p", "w"), "1",
        "the sum of min(p + i, w) over the queries of a chunk",
    ),
    "C8": Equation(
        "what the engine adds to a step", ("t_e", "t_e"), step.added_time,
        (
            "layers", "decode_layer", "expert_layers", "expert_layer", "norm_layers", "norm_layer", "b", "sequence",
            "gateway",
        ),
        "s",
        "fitted to served latencies, docs/accuracy.md",
    ),
    "C9": Equation(
        "tokens that a speculative step yields", ("A", "A"), service.accepted_tokens, ("gamma", "chance"), "token",
        "Leviathan et al., arXiv 2211.17192, equation 1",
    ),
    "C10": Equation(
        "a step that the host launches", ("t", "t"), step.with_host, ("gpu", "host"), "s",
        "39 pairs of steps with and without captured graphs, docs/accuracy.md",
    ),
}  # fmt: skip


def letter(name: str) -> sympy.Symbol:
    """The symbol of a quantity."""
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
    """What an equation yields for numbers: the program's own function."""
    equation = EQUATIONS[key]
    return equation.function(*(values[name] for name in equation.letters))


# What an inverse is the solution of: the left side as a function of c, and the letter it is set equal to.
INVERTED: Mapping[str, tuple[str, str]] = {
    "E6": ("I(c) = I*", "I_star"), "E10": ("t_c(c) = TPOT", "tpot"), "E11": ("s_p/c · t(c) = TTFT", "ttft"),
}  # fmt: skip


def inverted(key: str) -> list[Any]:
    """The inverse of an equation as sympy finds it, one solution per branch of a maximum.

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
        # sympy solves no maximum, so each branch.
        "E11": [equations.ttft_bound(letter("s_p"), c, time) for time in (letter("t_memory"), compute)],
    }[key]
    equal = letter(INVERTED[key][1])
    return [_solved(side - equal, c) for side in whole]


def _solved(zero: Any, c: Any) -> Any:
    """Where an expression is zero whose numerator is linear in c, in its shorter form.

    sympy would check and simplify what it finds: that takes a hundred times as long.
    """
    (found,) = sympy.solve(sympy.numer(sympy.together(zero)), c, check=False, simplify=False)
    return min(sympy.cancel(found), found, key=sympy.count_ops)


def polynomial(sides: Sequence[Any]) -> bool:
    """Whether every side of a maximum is a polynomial in c."""
    return all(side.is_polynomial(letter("c")) for side in sides)


def coefficients(sides: Sequence[Any]) -> list[list[float]]:
    """The coefficients of each side of a maximum of polynomials in c, from the constant up.

    Parameters
    ----------
    sides : as of `bound`, where they are `polynomial`; those that never exceed another are left out
    """
    found = [[float(each) for each in reversed(sympy.Poly(side, letter("c")).all_coeffs())] for side in sides]
    return [each for each in found if not any(_below(each, other) for other in found if other is not each)]


def _below(one: list[float], other: list[float]) -> bool:
    """Whether no coefficient of a polynomial exceeds that of another."""
    return one != other and all(x <= y for x, y in zip_longest(one, other, fillvalue=0.0))


def derivative(key: str, of: str) -> Any:
    """The derivative of an equation with respect to one of its letters."""
    equation = EQUATIONS[key]
    return sympy.simplify(sympy.diff(equation.function(*(letter(name) for name in equation.letters)), letter(of)))


def bound(timer: StepTimer, end: float, b: float, s: float) -> list[Any]:
    """The floor of a step as expressions in c of which the largest counts: the code of `step.py`, run on a symbol.

    Parameters
    ----------
    timer : of the deployment
    end : where in the prompt the chunk ends: after the c tokens that follow end - c cached ones [token]
    b : decodes of an attention rank [token]
    s : their mean context [token]

    Returns
    -------
    times by resource, the simplest first [s]
    """
    c = letter("c")
    sides = (sympy.expand(rest + prefill) for rest, prefill in zip(*timer.floor.parts(c, end - c, b, s), strict=True))
    return list(sympy.ordered(side for side in sides if side != 0))


def largest_below(sides: Sequence[Any], limit: float) -> float:
    """The largest c at which a maximum of polynomials in c is within a limit.

    Returns
    -------
    chunk; negative where none is, infinite where c does not matter [token]
    """
    c = letter("c")
    ends = []
    for side in sides:
        if side.subs(c, 0) > limit:
            return -math.inf
        roots = sympy.Poly(side - limit, c).nroots(n=30) if side.has(c) else []
        crossed = [float(root) for root in roots if root.is_real and root >= 0]
        ends.append(min(crossed, default=math.inf))
    return min(ends)
