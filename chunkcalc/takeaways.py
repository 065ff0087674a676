"""What each equation means for one answer, in one sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from chunkcalc import notation, symbolic
from chunkcalc.letters import Letters
from chunkcalc.units import format_count, format_duration, format_si


def takeaway(letters: Letters, key: str, x: float) -> str:
    """The sentence.

    Parameters
    ----------
    letters : of the answer
    key : of the equation
    x : its result
    """
    return WORDS[key](letters, x)


def _arithmetic(letters: Letters, x: float) -> str:
    each = format_si(2 * letters.forms.psi, "FLOP")
    return f"every token costs the same {each}, from a prompt or a decode"


def _weights(letters: Letters, x: float) -> str:
    return f"{format_si(x, 'B')} are read once per step, for one token or for {format_count(letters.answer.budget)}"


def _cache(letters: Letters, x: float) -> str:
    share = x / letters.forms.weights
    return f"the decodes read {share:.2g} times as much cache as the step reads weights"


def _intensity(letters: Letters, x: float) -> str:
    alone = letters.answer.textbook.intensity_decode_only
    return f"the chunk lifts the step from {alone:,.1f} to {x:,.0f} FLOP per byte read"


def _ridge(letters: Letters, x: float) -> str:
    return f"below {x:,.0f} FLOP per byte a step waits for memory, above it for arithmetic"


def _optimal(letters: Letters, x: float) -> str:
    c = letters.answer.chunk
    side = "below it: further prompt tokens cost little" if c < x else "beyond it: every further token costs arithmetic"
    slope = notation.line(symbolic.derivative("E6", "b"))
    return f"{format_count(c)} is {side}; a further decode takes one's place (d c*/d b = {slope})"


def _compute(letters: Letters, x: float) -> str:
    return f"the arithmetic alone takes {format_duration(x)}"


def _memory(letters: Letters, x: float) -> str:
    return f"the traffic alone takes {format_duration(x)}"


def _step(letters: Letters, x: float) -> str:
    real = letters.answer.expected.step_s
    return f"the textbook's step is {format_duration(x)}; {format_duration(real)} is expected"


def _chunks(letters: Letters, x: float) -> str:
    if x <= 1:
        return "the prompt is not cut: one step takes it"
    again = format_si((x - 1) * letters.forms.weights, "B")
    return f"{format_count(x)} steps, so {again} of weights are read again"


def _ttft(letters: Letters, x: float) -> str:
    real = letters.answer.expected.ttft_s
    expected = f"{format_duration(real)} is expected"
    if x > real:
        return f"{expected}: the textbook computes with all parameters for every token, which is no bound here"
    return f"by the textbook no first token comes before {format_duration(x)}; {expected}"


def _largest(letters: Letters, x: float) -> str:
    memory = letters.forms.t_memory
    if memory > (letters.answer.slo.tpot or 0.0):
        return f"but the traffic alone takes {format_duration(memory)}, so no chunk holds"
    end = letters.answer.window.chunk_max
    real = "the prediction leaves no chunk" if end is None else f"the prediction ends at {format_count(end)}"
    slope = notation.line(symbolic.derivative("E10", "b"))
    return f"a further decode takes one token of it (d c_max/d b = {slope}); {real}"


def _smallest(letters: Letters, x: float) -> str:
    ends = letters.answer.window
    if ends.chunk_min is None:
        return "smaller chunks are too many steps; the prediction leaves no chunk"
    return (
        f"smaller chunks are too many steps; the prediction begins at {format_count(ends.chunk_min)} "
        f"(bound by {ends.binding_min})"
    )


def _feasible(letters: Letters, x: float) -> str:
    says = "some chunk meets both limits" if x else "no chunk meets both limits"
    return f"by the textbook {says}; the prediction says {letters.answer.verdict.replace('_', ' ')}"


def _pairs(letters: Letters, x: float) -> str:
    attention = [kernel for kernel in letters.kernels if kernel.name == "prefill attention"]
    flops = sum(kernel.launches * kernel.least_flops for kernel in attention)
    keys = x / float(letters.longest[0])
    return (
        f"at the end of the prompt each query meets {format_count(keys)} keys: "
        f"{format_si(float(flops), 'FLOP')} per GPU that E1 leaves out"
    )


def _first_token(letters: Letters, x: float) -> str:
    attention = letters.of("C2a")["a"] * (letters.of("C2a")["p"] + 0.5)
    share = attention / (2 * letters.of("C2a")["W_lin"])
    return f"attention adds {100 * share:.0f} % to the arithmetic of a token at the end of the prompt"


def _decodes_short(letters: Letters, x: float) -> str:
    if x < 0:
        return f"the decodes leave {format_si(-x, 'FLOP')} of arithmetic unused while memory is read"
    return "the decodes alone are beyond the ridge"


def _attention(letters: Letters, x: float) -> str:
    star = format_count(letters.answer.textbook.chunk_star)
    return f"with attention counted the ridge is reached at {format_count(x)} tokens, not {star}"


def _routing(letters: Letters, x: float) -> str:
    values = letters.of("C3")
    alone = symbolic.value("C3", {**values, "n": max(1.0, letters.parallelism.dp * letters.service.b)})
    every = format_count(values["E"])
    return f"with a chunk {format_count(x)} of {every} experts are read, by the decodes alone {format_count(alone)}"


def _product(letters: Letters, x: float) -> str:
    kernel, values = letters.largest_product(), letters.of("C4")
    found = letters.hardware.efficiency[f"{kernel.form}.{kernel.dtype}"]
    decides = "arithmetic" if values["x"] > values["y"] else "traffic"
    return (
        f"the largest product ({kernel.name}) reaches {100 * found.compute:.0f} % of peak and "
        f"{100 * found.memory:.0f} % of bandwidth at best; here {decides} decides"
    )


def _allreduce(letters: Letters, x: float) -> str:
    launches = float(letters.largest_allreduce().launches)
    return f"{format_count(launches)} of them in a step: {format_duration(x * launches)}"


def _balance(letters: Letters, x: float) -> str:
    share = letters.answer.utilisation
    if share > 1:
        return f"this setting needs {share:.1f} times the capacity for prompts that it has: they pile up"
    return f"with fewer, prompts pile up; you use {100 * share:.0f} % of the capacity for prompts"


def _windowed(letters: Letters, x: float) -> str:
    whole = symbolic.value("C1", letters.of("C1"))
    return f"in the layers with a window {100 * x / whole:.0f} % of the pairs of C1 are left"


def _host(letters: Letters, x: float) -> str:
    captured = letters.answer.case.deployment.engine.captured
    over = letters.answer.budget > captured > 0
    where = (
        f"; a step of at most {format_count(captured)} tokens runs from a captured graph and takes less" if over else ""
    )
    share = x / letters.answer.expected.step_s
    return f"{100 * share:.0f} % of the step is the engine's{where}"


def _accepted(letters: Letters, x: float) -> str:
    return f"{letters.workload.draft_tokens} drafts yield {x:.2f} tokens a step, so TPOT is the step over {x:.2f}"


WORDS: Mapping[str, Callable[[Letters, float], str]] = {
    "E1": _arithmetic, "E2": _weights, "E3": _cache, "E4": _intensity, "E5": _ridge, "E6": _optimal, "E7a": _compute,
    "E7b": _memory, "E7": _step, "E8": _chunks, "E9": _ttft, "E10": _largest, "E11": _smallest, "E12": _feasible,
    "C1": _pairs, "C2a": _first_token, "C2b": _decodes_short, "C2": _attention,
    "C3": _routing, "C4": _product, "C5": _allreduce, "C6": _balance, "C7": _windowed,
    "C8": _host, "C9": _accepted,
}  # fmt: skip
