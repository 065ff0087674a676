"""W07: prefill and decode workers of one file, looked at together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from chunkcalc.answer.records import FEASIBLE
from chunkcalc.answer.solve import as_composed
from chunkcalc.errors import ChunkcalcError
from chunkcalc.gate.evaluation import Evaluation
from chunkcalc.gate.exact import make
from chunkcalc.gate.finding import Finding, Fix
from chunkcalc.units import format_duration

BUSY = 0.85  # share of the time that a prefill worker may be busy
OFF = 2.0  # times by which the workers of one side may be too many


def pools(found: Sequence[Evaluation]) -> Iterator[Finding]:
    """What separate workers of one model could do together, and in which ratio they are needed."""
    for prefill in found:
        if prefill.process.role != "prefill" or prefill.case is None or prefill.model is None:
            continue
        decode = next(
            (
                other for other in found
                if other.process.role == "decode" and other.case is not None and other.model is not None
                and other.model.record.id == prefill.model.record.id
            ), None,
        )  # fmt: skip
        if decode is not None and decode.settings.has_load and decode.settings.has_limits:
            yield from _judged(prefill, decode)


def _judged(prefill: Evaluation, decode: Evaluation) -> Iterator[Finding]:
    together = _together(decode)
    if together is not None:
        yield make(decode, "W07", f"prefill and decode run apart, but one worker like this decode worker meets both "
                   f"limits by itself at batch {decode.load.batch} ({together}): compare the throughput at the same "
                   "number of GPUs", fix=Fix(text="serve both on one kind of worker"))  # fmt: skip
        return
    yield from _ratio(prefill, decode)


def _together(decode: Evaluation) -> str | None:
    """Whether the decode worker alone would do, prompts included."""
    assert decode.case is not None
    try:
        alone = as_composed(decode.question(batch=decode.load.batch))
    except ChunkcalcError:
        return None
    if alone.verdict != FEASIBLE:
        return None
    return f"TTFT {format_duration(alone.expected.ttft_s)}, step {format_duration(alone.expected.step_s)}"


def _ratio(prefill: Evaluation, decode: Evaluation) -> Iterator[Finding]:
    """Prompts that the decode workers finish against those that the prefill workers process."""
    assert prefill.case is not None and decode.case is not None
    service = decode.view(decode.load.batch).expected
    finished = decode.load.batch * service.accepted / (service.decode_step * max(1, decode.case.workload.output - 1))
    view = prefill.view(0)
    ranks = prefill.case.deployment.parallelism.dp
    processed = ranks * view.expected.prefill.rate(prefill.chunk(0)) / view.expected.prefill.tokens
    needed = max(1, math.ceil(decode.process.replicas * finished / (processed * BUSY)))
    have = prefill.process.replicas
    if needed > have or have > OFF * needed:
        word, workers = "too few" if needed > have else "more than needed", decode.process.replicas
        at = f"at batch {decode.load.batch}"
        yield make(prefill, "W07", f"{have} prefill to {workers} decode workers {at} are {word}: the decodes "
                   f"finish {finished * workers:.3g} requests a second, a prefill worker takes "
                   f"{processed * BUSY:.3g} at {BUSY:.0%} of its time",
                   fix=Fix(text=f"{needed} prefill workers", flag="replicas", value=str(needed)))  # fmt: skip
