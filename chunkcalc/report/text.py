"""The answer for a person: about 40 lines of 80 columns, the verdict first.

Lines are built of plain segments with an optional style; `plain` joins them, `coloured` hands
them to rich.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from chunkcalc.answer import FEASIBLE, MARGINAL, Answer
from chunkcalc.remedies import describe
from chunkcalc.report.json import inputs
from chunkcalc.units import format_bytes, format_count, format_duration, format_si

WIDTH = 80
LABEL = 13
STYLES = {FEASIBLE: "bold green", MARGINAL: "bold yellow"}
MEANING = {
    "feasible": "every limit holds with its error band to spare",
    "marginal": "the prediction is too close to a limit to be sure",
    "retune": "this setting fails, another one holds",
    "overloaded": "the latency limits can hold, but not at this batch",
    "disaggregate": "no chunk meets both limits; separate prefill and decode units do",
    "scale_up": "no chunk can make it hold on this hardware",
    "impossible": "no chunk and no node of this vendor can make it hold",
}


class Segment(NamedTuple):
    """Text and its style ("" for none)."""

    text: str
    style: str = ""


Line = list[Segment]


def plain(lines: Sequence[Line]) -> str:
    """Text without any style.

    Parameters
    ----------
    lines : the report
    """
    return "\n".join("".join(segment.text for segment in line).rstrip() for line in lines)


def coloured(lines: Sequence[Line]) -> None:
    """Write the lines to the terminal with colour.

    Parameters
    ----------
    lines : the report
    """
    from rich.console import Console  # noqa: PLC0415 - only a terminal needs it
    from rich.text import Text  # noqa: PLC0415

    console = Console(highlight=False, soft_wrap=True)
    for line in lines:
        console.print(Text.assemble(*((segment.text, segment.style) for segment in line)))


def solve(answer: Answer, *, verbose: bool = False) -> list[Line]:
    """The report of `chunkcalc solve`.

    Parameters
    ----------
    answer : the answer
    verbose : add inputs, the full breakdown, capacity, intensities
    """
    out: list[Line] = [
        *_head(answer),
        [],
        *_setting(answer),
        [],
        *_times(answer),
        [],
        *_chunking(answer),
        [],
        *_why(answer),
    ]
    if verbose:
        out += [[], *_details(answer)]
    if answer.remedies:
        out += [[], *_remedies(answer)]
    notes = [*answer.warnings, *answer.case.notes]
    if notes:
        out.append([])
        for index, note in enumerate(notes):
            out += _wrapped("" if index else "note", note)
    return out


def _wrapped(label: str, text: str, style: str = "") -> list[Line]:
    rows = textwrap.wrap(text, WIDTH - LABEL) or [""]
    return [
        [Segment(f"{label if not index else '':<{LABEL}}", "bold"), Segment(row, style)]
        for index, row in enumerate(rows)
    ]


def _head(answer: Answer) -> list[Line]:
    deployment = answer.case.deployment
    style = STYLES.get(answer.verdict, "bold red")
    gpus = deployment.parallelism.gpus
    certainty = " (certain: the floor already fails)" if answer.certain else ""
    subject = f"{deployment.model.id}, {deployment.precision.weights} weights, on {gpus} x {deployment.hardware.id}"
    subject += f" under {deployment.engine.name} {deployment.engine.version}"
    name = answer.verdict.upper().replace("_", " ")
    first, *more = textwrap.wrap(f"{name}: {MEANING[answer.verdict]}{certainty}", WIDTH, subsequent_indent="  ")
    out: list[Line] = [[Segment(name, style), Segment(first[len(name) :])], *([Segment(row)] for row in more)]
    for reason in answer.reasons[:4]:
        out += [[Segment(row)] for row in textwrap.wrap(reason, WIDTH - 2, initial_indent="- ", subsequent_indent="  ")]
    return [*out, *([Segment(row, "dim")] for row in textwrap.wrap(subject, WIDTH))]


def _setting(answer: Answer) -> Iterator[Line]:
    workload, window = answer.workload, answer.window
    batch = "" if answer.case.batch is not None else " (the largest that holds)"
    lengths = f"{format_count(workload.prompt)} prompt + {format_count(workload.output)} output tokens"
    yield from _wrapped("requests", f"{lengths}, batch {workload.batch}{batch}")
    verb = "judged" if answer.given else "set" if answer.holds else "closest"
    decodes = answer.budget - answer.chunk
    parts = (
        f"chunk {format_count(answer.chunk)} + {decodes} decodes" if decodes else f"chunk {format_count(answer.chunk)}"
    )
    yield from _wrapped(verb, f"budget {format_count(answer.budget)} tokens per step ({parts})")
    for row in textwrap.wrap(" ".join(next(iter(answer.flags.values()))), WIDTH - LABEL, break_on_hyphens=False):
        yield [Segment(" " * LABEL), Segment(row, "bold cyan")]
    if window.chunk_min is None or window.chunk_max is None:
        yield from _wrapped("window", "empty: no chunk keeps every limit")
        return
    gaps = "; some chunks between fail" if window.gaps else ""
    ends = f"chunk {format_count(window.chunk_min)} to {format_count(window.chunk_max)}"
    names = {"ttft": "TTFT", "tpot": "TPOT", "itl": "the gap limit"}
    low, high = (names.get(str(end), str(end)) for end in (window.binding_min, window.binding_max))
    yield from _wrapped("window", f"{ends} (below: {low}; above: {high}{gaps})")


def _times(answer: Answer) -> Iterator[Line]:
    floor, expected, slo = answer.floor, answer.expected, answer.slo
    yield [Segment(f"{'':<{LABEL}}{'floor':>9}{'expected':>11}{'band':>8}{'limit':>10}", "bold")]
    per_step = slo.tpot_basis == "step"
    drafts = answer.workload.draft_tokens
    rows = [
        ("TTFT", floor.ttft_s, expected.ttft_s, answer.ttft_error, slo.ttft, "without queueing"),
        (
            "longest step",
            floor.step_s,
            expected.step_s,
            answer.tpot_error,
            slo.tpot if per_step and not drafts else None,
            "",
        ),
        (
            "mean TPOT",
            floor.tpot_s,
            expected.tpot_s,
            answer.tpot_error,
            None if per_step else slo.tpot,
            "",
        ),
        ("longest gap", floor.itl_s, expected.itl_s, answer.tpot_error, slo.itl, ""),
    ]
    if drafts and per_step and answer.judged_tpot_s is not None:
        note = f"with {drafts} drafts"
        least = floor.step_s / (1 + drafts)
        rows.insert(2, ("per token", least, answer.judged_tpot_s, answer.tpot_error, slo.tpot, note))
    for name, low, value, band, limit, note in rows:
        if value is None:
            continue
        judged = value / ((answer.case.workload.draft_tokens and 1) or 1)
        state, style = _state(judged, limit, band)
        yield [
            Segment(f"{name:<{LABEL}}", "bold"),
            Segment(f"{format_duration(low):>9}{format_duration(value):>11}{f'±{100 * band:.0f}%':>8}"),
            Segment(f"{format_duration(limit):>10}"), Segment(f"  {state:<6}", style), Segment(note, "dim"),
        ]  # fmt: skip
    state = "ok" if answer.utilisation <= slo.max_utilisation else "over"
    yield [
        Segment(f"{'utilisation':<{LABEL}}", "bold"),
        Segment(f"{answer.utilisation:>20.2f}{'':8}{slo.max_utilisation:>10.2f}"),
        Segment(f"  {state:<6}", "green" if state == "ok" else "red"), Segment("of prompt capacity", "dim"),
    ]  # fmt: skip


def _state(value: float, limit: float | None, band: float) -> tuple[str, str]:
    if limit is None:
        return "", ""
    if value > limit:
        return ("close", "yellow") if value <= limit * (1 + band) else ("over", "red")
    return ("ok", "green") if value * (1 + band) <= limit else ("close", "yellow")


def _chunking(answer: Answer) -> Iterator[Line]:
    parts, expected = answer.chunking, answer.expected
    if expected.itl_s is not None:
        mixed = answer.case.deployment.engine.composition == "mixed"
        stall = f"{format_duration(parts.stall_unchunked_s)} -> {format_duration(expected.itl_s)}"
        why = "" if mixed else ": prompts go first, whole"
        yield from _wrapped("chunking", f"stall of every stream per prompt {stall}{why}")
    yield from _wrapped(
        "" if expected.itl_s is not None else "chunking",
        f"TTFT {format_duration(parts.ttft_unchunked_s)} -> {format_duration(expected.ttft_s)}, prompt rate "
        f"{format_count(parts.prompt_tokens_per_s_unchunked)} -> {format_count(parts.prompt_tokens_per_s)} tokens/s",
    )
    if parts.decode_alone_s is not None:
        mixed = answer.case.deployment.engine.composition == "mixed"
        ride = (
            f"riding along add {format_duration(parts.ride_along_s)}; alone they cost"
            if mixed
            else "run alone and cost"
        )
        yield from _wrapped("", f"decodes {ride} {format_duration(parts.decode_alone_s)} per step")
    if parts.output_tokens_per_s is not None:
        yield from _wrapped("", f"{format_count(parts.output_tokens_per_s)} output tokens/s in a steady state")


def _why(answer: Answer) -> Iterator[Line]:
    total = answer.step.expected
    bound = ", ".join(
        f"{name} {100 * time / total:.0f}%"
        for name, time in sorted(answer.step.bound_by.items(), key=lambda item: -item[1])
        if time > total / 200
    )
    yield from _wrapped("why", f"the step is bound by {bound}")
    ranked = sorted(answer.step.breakdown.items(), key=lambda item: -item[1])
    shown = [item for index, item in enumerate(ranked) if index < 4 or item[0] == "engine overhead"]
    yield from _wrapped("", ", ".join(f"{name} {100 * time / total:.0f}%" for name, time in shown))


def _remedies(answer: Answer) -> Iterator[Line]:
    for index, remedy in enumerate(answer.remedies):
        yield from _wrapped("what helps" if not index else "", describe(remedy))


def _details(answer: Answer) -> Iterator[Line]:
    yield [Segment("step by class of work", "bold")]
    for name, time in sorted(answer.step.breakdown.items(), key=lambda item: -item[1]):
        yield [Segment(f"  {name:<24}{format_duration(time):>10}")]
    capacity, text = answer.capacity, answer.textbook
    tokens = "unbounded" if capacity.kv_tokens is None else format_count(capacity.kv_tokens)
    yield [Segment("memory per GPU", "bold")]
    for name, value in (
        ("weights", format_bytes(capacity.weights_bytes)),
        ("activations at this budget", format_bytes(capacity.activation_bytes)),
        ("KV pool", f"{format_bytes(capacity.pool_bytes)} = {tokens} tokens of the replica"),
        ("KV per token", f"{format_count(capacity.kv_bytes_per_token)} B"),
        ("most requests at once", format_count(capacity.max_concurrency)),
    ):
        yield [Segment(f"  {name:<28}{value}")]
    yield [Segment("textbook (E1-E12, for comparison)", "bold")]
    window = "empty" if text.chunk_min is None else f"{text.chunk_min} to {text.chunk_max}"
    rows = [
        (
            "intensity, decodes alone",
            f"{text.intensity:.0f}, {text.intensity_decode_only:.1f} FLOP/B",
        ),
        ("ridge I*", f"{text.ridge:.0f} FLOP/B"),
        ("optimal chunk c*", format_count(text.chunk_star)),
        ("step, TTFT", f"{format_duration(text.step_s)}, {format_duration(text.ttft_s)}"),
        ("window", window),
    ]
    if answer.knee is not None:
        rows.append(
            (
                "knee n*, n* - b",
                f"{answer.knee:,.0f}, {answer.knee - answer.workload.batch:,.0f} tokens per step",
            )
        )
    for name, value in rows:
        yield [Segment(f"  {name:<28}{value}")]
    yield [Segment("inputs", "bold")]
    for name, entry in inputs(answer).items():
        value = entry["value"]
        shown = format_si(value, "B/s") if name == "link_bandwidth" else value
        yield [Segment(f"  {name:<18}{shown!s:<16}"), Segment(str(entry["from"])[:44], "dim")]
