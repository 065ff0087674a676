"""Where the answer departs from the published equations, and why, with one deployment's numbers."""

from __future__ import annotations

from collections.abc import Iterator

from chunkcalc.derivation import symbolic
from chunkcalc.derivation.equation_values import Letters
from chunkcalc.textbook import equations
from chunkcalc.units import format_count, format_duration, format_si


def departures(letters: Letters) -> Iterator[str]:
    """One sentence for each equation that is not taken as it was published."""
    yield from _bytes_per_element(letters)
    yield from _attention(letters)
    yield from _last_chunk(letters)
    yield from _traffic(letters)


def _bytes_per_element(letters: Letters) -> Iterator[str]:
    forms = letters.forms
    width = letters.of("E3")["s_kv"] if letters.full is not None else 1.0
    if not forms.kv or width == 1:
        return
    bare = forms.kv / width
    chunk = equations.optimal_chunk(forms.ridge, forms.weights, bare, forms.psi, forms.b)
    yield (
        f"E3 is often printed without bytes per element, as if an element took one: {format_si(bare, 'B')} instead of "
        f"{format_si(forms.kv, 'B')} at {width:g} bytes, and c* {format_count(chunk)} instead of "
        f"{format_count(letters.answer.textbook.chunk_star)}"
    )


def _attention(letters: Letters) -> Iterator[str]:
    if "C2" in letters.correction_keys():
        found = symbolic.value("C2", letters.of("C2"))
        yield (
            "E6 takes all parameters for every token, and leaves out that a chunk's queries meet every key before "
            "them and read them: with the products that a step does and its attention (C2) the ridge is reached at "
            f"{format_count(found)} tokens, not {format_count(letters.answer.textbook.chunk_star)}"
        )


def _last_chunk(letters: Letters) -> Iterator[str]:
    full, bound = (float(symbolic.value(key, letters.of(key))) for key in ("E9a", "E9"))
    if full > bound * (1 + 1e-9):
        yield (
            f"E9 is published with whole chunks too, k · t (E9a): {format_duration(full)} charges the short last chunk "
            f"in full and is no bound; s_p · t / c, {format_duration(bound)}, is one"
        )


def _traffic(letters: Letters) -> Iterator[str]:
    limit = letters.answer.slo.tpot
    if limit is not None and letters.forms.t_memory > limit:
        yield (
            "E10 and E12 are published for the arithmetic alone: the traffic takes "
            f"{format_duration(letters.forms.t_memory)} whatever the chunk, over the limit of {format_duration(limit)}"
        )
