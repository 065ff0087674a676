"""What a user's own numbers taught, as text and as plain data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from chunkcalc.answer.judged import half_widths
from chunkcalc.answer.learning import Factors
from chunkcalc.answer.records import Answer
from chunkcalc.answer.taught import Taught, Told, shown
from chunkcalc.records import Band
from chunkcalc.time.step import timer_for

SMALL = 0.015  # of a factor, below which it is not worth a word
NAMED = Factors("kernels", "arithmetic", "host", "time per request", "time per sequence")  # type: ignore[arg-type]
CAUSES = "another label or version, a queue, a power limit, or a host that is busy"


def sentences(answer: Answer) -> Iterator[str]:
    """What was measured, what is predicted for it, and what follows; nothing without numbers.

    Parameters
    ----------
    answer : with what its question's numbers taught
    """
    taught = answer.case.question.taught
    if taught is None:
        return
    for told in taught.numbers:
        yield _number(told)
    yield learned(taught, half_widths(timer_for(answer.case.deployment, answer.workload.draft_tokens)))


def _number(told: Told) -> str:
    before, after = shown(told.number, told.before), shown(told.number, told.after)
    said = f"{told.number.text}: predicted {before}, now {after}"
    return said if told.explained else f"{said}; no factor explains it: {CAUSES}"


def learned(taught: Taught, error: Band) -> str:
    """The factors, and the error bands before and after.

    Parameters
    ----------
    taught : by the numbers
    error : half-widths of the errors of its predictions, without what traffic adds [1]
    """
    moved = [
        f"{name} x {value:.2f}" for name, value in zip(NAMED, taught.factors, strict=True) if abs(value - 1) > SMALL
    ]
    names = ("TPOT", "TTFT", "gap")
    bands = [
        f"{name} \u00b1{100 * width / part:.0f} -> \u00b1{100 * width:.0f} %"
        for name, width, part in zip(names, error, taught.narrowed, strict=True) if part < 1 - SMALL
    ]  # fmt: skip
    said = f"learned {', '.join(moved)}" if moved else "the profile was right"
    return f"{said}; {', '.join(bands)}" if bands else said


def data(taught: Taught | None) -> dict[str, Any] | None:
    """The same as plain data; None without numbers.

    Parameters
    ----------
    taught : by the numbers
    """
    if taught is None:
        return None
    numbers = [
        {"text": each.number.text, "value": each.number.value, "before": each.before, "after": each.after,
         "explained": each.explained}
        for each in taught.numbers
    ]  # fmt: skip
    return {
        "numbers": numbers,
        "factors": taught.factors._asdict(),
        "narrowed": taught.narrowed._asdict(),
        "kv_shift_bytes": taught.kv_shift,
    }
