"""What each equation means for one answer, in one sentence; and what the published ones do not see of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from chunkcalc.derivation import notation, symbolic
from chunkcalc.derivation.equation_values import ATTENTION, WHY_NOT, Letters
from chunkcalc.time import roofline
from chunkcalc.units import format_count, format_duration, format_si
from chunkcalc.work import counts


def takeaway(letters: Letters, key: str, x: float) -> str:
    """The sentence."""
    return WORDS[key](letters, x)


def notes(letters: Letters) -> Iterator[str]:
    """What the published equations do not see of this deployment."""
    ranks, workload, slo = letters.parallelism, letters.workload, letters.answer.slo
    if letters.experts is not None:
        every, active = letters.forms.psi, counts.active_parameters(letters.model)
        yield f"they take all {every / 1e9:,.1f}e9 parameters for every token, which meets {active / 1e9:,.1f}e9"
    if not letters.mixed and workload.batch:
        yield "they are of mixed steps; this engine runs a prompt's steps without decodes"
    if ranks.dp > 1:
        yield f"c, b, peaks and weights are those of one of {ranks.dp} attention ranks"
    if ranks.pp > 1:
        yield f"they see one of {ranks.pp} pipeline stages at a time: b is a micro-batch, and chunks do not overlap"
    if workload.draft_tokens:
        yield "they know no drafts: a decode is one token"
    if letters.prompts > 1:
        yield f"the chunk holds {letters.prompts:.3g} prompts at once; E9 times a step of one alone"
    if slo.ttft is not None and slo.ttft < letters.whole_prompt:
        least = format_duration(letters.whole_prompt)
        yield f"E11 and E12 have no numbers: even the prompt in one step takes {least}, beyond the limit of TTFT"
    elif slo.tpot is None or slo.ttft is None:
        yield f"E12 has no numbers: {WHY_NOT['E12'].split(',')[0]}"


def _figure(x: float) -> str:
    return f"{x:,.2f}" if x < 10 else f"{x:,.1f}" if x < 100 else f"{x:,.0f}"


def _arithmetic(letters: Letters, x: float) -> str:
    each = format_si(2 * letters.forms.psi, "FLOP")
    return f"every token costs the same {each} by the textbook, from a prompt or a decode"


def _weights(letters: Letters, x: float) -> str:
    tokens = format_count(letters.answer.chunk + letters.forms.b)
    return f"{format_si(x, 'B')} are read once per step by the textbook, for one token or for {tokens}"


def _cache(letters: Letters, x: float) -> str:
    if not x:
        return "nothing decodes, so no cache is read for it"
    return f"the decodes read {_figure(x / letters.forms.weights)} times as much cache as the step reads weights"


def _intensity(letters: Letters, x: float) -> str:
    alone = letters.answer.textbook.intensity_decode_only
    if not alone:
        return f"the tokens of the chunk share the weights: {_figure(x)} FLOP per byte read"
    return f"the chunk lifts the step from {_figure(alone)} to {_figure(x)} FLOP per byte read"


def _ridge(letters: Letters, x: float) -> str:
    return f"below {x:,.0f} FLOP per byte a step waits for memory, above it for arithmetic"


def _optimal(letters: Letters, x: float) -> str:
    if x <= 0:
        return "the decodes alone are beyond the ridge: by the textbook no prompt token is free"
    c = letters.answer.chunk
    side = "below it: further prompt tokens cost little" if c < x else "beyond it: every further token costs arithmetic"
    told = f"by the textbook {format_count(c)} is {side}"
    if not letters.mixed or not letters.forms.b:
        return told
    return f"{told}; a further decode takes one's place (d c*/d b = {_slope('E6')}, its cache aside)"


def _slope(key: str) -> str:
    return notation.line(symbolic.derivative(key, "b"))


def _compute(letters: Letters, x: float) -> str:
    return f"the arithmetic alone takes {format_duration(x)} by the textbook"


def _memory(letters: Letters, x: float) -> str:
    return f"the traffic alone takes {format_duration(x)} by the textbook"


def _step(letters: Letters, x: float) -> str:
    real = letters.answer.expected.step_s
    return f"the textbook's step is {format_duration(x)}; {format_duration(real)} is expected (terms below)"


def _chunks(letters: Letters, x: float) -> str:
    if x <= 1:
        return "the prompt is not cut: one step takes it"
    again = format_si((x - 1) * letters.forms.weights, "B")
    return f"{format_count(x)} steps, so up to {again} of weights are read again"


def _full_steps(letters: Letters, x: float) -> str:
    over = x - letters.forms.ttft(letters.answer.chunk)
    if not over > 1e-9 * x:
        return "every chunk is a full one, so this is the bound too"
    return f"it charges the short last chunk as a full one: {format_duration(over)} more than the bound"


def _ttft(letters: Letters, x: float) -> str:
    real = letters.answer.expected.ttft_s
    expected = f"{format_duration(real)} is expected"
    if x <= real:
        return f"by the textbook no first token comes before {format_duration(x)}; {expected}"
    why = (
        "it computes with all parameters for every token" if letters.experts else "it counts what this step does not do"
    )
    if letters.parallelism.pp > 1:
        why = "chunks overlap in the stages of the pipeline"
    return f"{expected}, less than the textbook's bound: {why}"


def _largest(letters: Letters, x: float) -> str:
    end, memory = letters.answer.window.chunk_max, letters.forms.t_memory
    real = "the prediction leaves no chunk" if end is None else f"the prediction ends at {format_count(end)}"
    if memory > (letters.answer.slo.tpot or 0.0):
        return f"but by the textbook the traffic alone takes {format_duration(memory)}, so no chunk holds; {real}"
    if x < 1:
        return f"by the textbook the decodes leave no room for a chunk; {real}"
    if not letters.mixed or not letters.forms.b:
        return real
    return f"a further decode takes one token of it (d c_max/d b = {_slope('E10')}); {real}"


def _smallest(letters: Letters, x: float) -> str:
    ends = letters.answer.window
    if ends.chunk_min is None:
        return "smaller chunks are too many steps; the prediction leaves no chunk"
    binding = {"ttft": "TTFT", "tpot": "TPOT", "itl": "the gap limit"}.get(str(ends.binding_min), ends.binding_min)
    begins = f"{format_count(ends.chunk_min)} (bound by {binding})"
    return f"smaller chunks are too many steps; the prediction begins at {begins}"


def _feasible(letters: Letters, x: float) -> str:
    says = "some chunk meets both limits" if letters.answer.textbook.feasible else "no chunk meets both limits"
    return f"by the textbook {says}; the prediction says {letters.answer.verdict.replace('_', ' ')}"


def _pairs(letters: Letters, x: float) -> str:
    attention = [
        kernel for kernel in letters.kernels if kernel.form in ATTENTION and kernel.name == "prefill attention"
    ]
    flops = float(sum(kernel.launches * kernel.least_flops for kernel in attention))
    keys = format_count(x / letters.of("C1")["c"])
    noun = "key" if keys == "1" else "keys"
    where = "" if letters.full is not None else "in the layers that see the whole context "
    return f"{where}each query of the last chunk meets {keys} {noun}; E1 leaves {format_si(flops, 'FLOP')} per GPU out"


def _first_token(letters: Letters, x: float) -> str:
    values = letters.of("C2a")
    share = values["a"] * (values["p"] + 0.5) / (2 * values["W_lin"])
    after = format_count(values["p"])
    return f"after {after} cached tokens attention adds {100 * share:.0f} % to the arithmetic of a chunk's first token"


def _short(letters: Letters, x: float) -> str:
    return f"while weights and cache are read, {format_si(-x, 'FLOP')} of arithmetic stay unused that a chunk can take"


def _attention(letters: Letters, x: float) -> str:
    star = format_count(letters.answer.textbook.chunk_star)
    return f"counting what this step does, the ridge is reached at {format_count(x)} tokens (E6: {star})"


def _routing(letters: Letters, x: float) -> str:
    values, ranks = letters.of("C3"), letters.parallelism.dp
    every = format_count(values["E"])
    told = f"with a chunk {format_count(x)} of {every} experts are read"
    if not letters.service.b:
        return told
    tokens = ranks * letters.service.b * (1 + letters.workload.draft_tokens)
    alone = format_count(symbolic.value("C3", {**values, "n": tokens}))
    return f"{told}, by a step of the decodes alone {alone}"


def _product(letters: Letters, x: float) -> str:
    kernel, values = letters.largest_product(), letters.of("C4")
    found = letters.hardware.efficiency[f"{kernel.form}.{kernel.dtype}"]
    decides = "arithmetic" if values["x"] > values["y"] else "traffic"
    return (
        f"the largest product ({kernel.name}) reaches {100 * found.compute:.0f} % of peak and "
        f"{100 * found.memory:.0f} % of bandwidth at best; at these fractions {decides} takes longer here"
    )


def _message(letters: Letters, x: float) -> str:
    messages = letters.messages()
    count = sum(float(kernel.launches) for kernel in messages)
    total = sum(float(roofline.seconds(kernel, letters.hardware)) for kernel in messages)
    return f"a step sends {format_count(count)} messages, this one the largest: {format_duration(total)} in all"


def _balance(letters: Letters, x: float) -> str:
    share = letters.answer.utilisation
    if share > 1:
        return f"this setting needs {_figure(share)} times the capacity for prompts that it has: they pile up"
    return f"with fewer, prompts pile up; you use {100 * share:.0f} % of the capacity for prompts"


def _growing(letters: Letters, x: float) -> str:
    values = letters.of("C7a")
    if not x:
        return f"here every query sees the whole window of {format_count(values['w'])} keys"
    others = format_count(values["w"])
    return f"the first {format_count(x)} queries see all that is before them, the others {others} keys"


def _windowed(letters: Letters, x: float) -> str:
    values = letters.of("C7")
    whole = symbolic.value("C1", {"c": values["c"], "p": values["p"]})
    return f"in the layers with a window {100 * x / whole:.0f} % of the pairs without one are left"


def _host(letters: Letters, x: float) -> str:
    return f"{100 * x / letters.answer.expected.step_s:.0f} % of the step is the engine's"


def _launched(letters: Letters, x: float) -> str:
    values, captured = letters.of("C10"), letters.answer.case.deployment.engine.captured
    waits = x - values["gpu"]
    told = (
        f"the GPU waits {format_duration(waits)} of it for the host" if waits > 0.005 * x else "the GPU hides the host"
    )
    if letters.answer.budget <= captured or not captured:
        return told
    return f"{told}; up to {format_count(captured)} tokens captured graphs leave it less to do"


def _accepted(letters: Letters, x: float) -> str:
    drafts = letters.workload.draft_tokens
    noun = "draft yields" if drafts == 1 else "drafts yield"
    return f"{drafts} {noun} {x:.2f} tokens a step, so TPOT is the step over {x:.2f}"


WORDS: Mapping[str, Callable[[Letters, float], str]] = {
    "E1": _arithmetic, "E2": _weights, "E3": _cache, "E3b": _cache, "E4": _intensity, "E5": _ridge, "E6": _optimal,
    "E7a": _compute, "E7b": _memory, "E7": _step, "E8": _chunks, "E9a": _full_steps, "E9": _ttft, "E10": _largest,
    "E11": _smallest, "E12": _feasible, "C1": _pairs, "C2a": _first_token, "C2b": _short, "C2": _attention,
    "C3": _routing, "C4": _product, "C5": _message, "C6": _balance, "C7a": _growing, "C7": _windowed,
    "C8": _host, "C9": _accepted, "C10": _launched,
}  # fmt: skip
