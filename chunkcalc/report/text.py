"""The answer for a person: about 40 lines of 80 columns, the verdict first.

Lines are built of plain segments with an optional style; `plain` joins them, `coloured` hands
them to rich.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from chunkcalc.answer.records import FEASIBLE, MARGINAL, Answer
from chunkcalc.answer.remedies import describe
from chunkcalc.report.json import inputs
from chunkcalc.units import format_bytes, format_count, format_duration, format_si

WIDTH = 80
LABEL = 13
WORTH_A_WORD = 1e-6  # a wait [s]
STYLES = {FEASIBLE: "bold green", MARGINAL: "bold yellow"}
MEANING = {
    "feasible": "every limit holds with its error band to spare",
    "marginal": "the prediction is too close to a limit to be sure",
    "retune": "this setting fails, another one holds",
    "overloaded": "the latency limits can hold, but not at this batch",
    "disaggregate": "no chunk meets both limits; separate prefill and decode units do",
    "scale_up": "no chunk makes it hold on this deployment",
    "impossible": "no chunk and no node of this vendor can make it hold",
}


class Segment(NamedTuple):
    """Text and its style ("" for none)."""

    text: str
    style: str = ""


Line = list[Segment]


def plain(lines: Sequence[Line]) -> str:
    """Text without any style."""
    return "\n".join("".join(segment.text for segment in line).rstrip() for line in lines)


def coloured(lines: Sequence[Line]) -> None:
    """Write the lines to the terminal with colour."""
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
        *_load(answer),
        [],
        *_chunking(answer),
        [],
        *_why(answer),
    ]
    if verbose:
        out += [[], *_details(answer)]
    if answer.looked_for_remedies:
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
    meaning = _meaning(answer) if answer.slo.latency or not answer.holds else "memory and a steady state hold"
    first, *more = textwrap.wrap(f"{name}: {meaning}{certainty}", WIDTH, subsequent_indent="  ")
    out: list[Line] = [[Segment(name, style), Segment(first[len(name) :])], *([Segment(row)] for row in more)]
    for reason in answer.reasons[:4]:
        out += [[Segment(row)] for row in textwrap.wrap(reason, WIDTH - 2, initial_indent="- ", subsequent_indent="  ")]
    return [*out, *([Segment(row, "dim")] for row in textwrap.wrap(subject, WIDTH))]


def _meaning(answer: Answer) -> str:
    load = answer.load
    if load is None:
        return MEANING[answer.verdict]
    return MEANING[answer.verdict].replace("batch", "rate" if load.users is None else "number of users")


def _setting(answer: Answer) -> Iterator[Line]:
    workload, window = answer.workload, answer.window
    lengths = f"{format_count(workload.prompt)} prompt + {format_count(workload.output)} output tokens"
    asked = f"batch {format_count(workload.batch)}{_batch_note(answer)}"
    if answer.load is not None and answer.load.rate is not None:
        asked = f"{answer.load.rate:g} requests/s"
    elif answer.load is not None:
        asked = f"{format_count(answer.load.users or 0)} users"
    yield from _wrapped("requests", f"{lengths}, {asked}")
    verb = "judged" if answer.given else "set" if answer.holds else "closest"
    drafts = f" x {1 + workload.draft_tokens} tokens" if workload.draft_tokens else ""
    decodes = (answer.budget - answer.chunk) // (1 + workload.draft_tokens)
    plural = "decodes" if decodes != 1 else "decode"
    beside = f" + {format_count(decodes)} {plural}{drafts}" if decodes else ""
    parts = f"chunk {format_count(answer.chunk)}{beside}"
    yield from _wrapped(verb, f"budget {format_count(answer.budget)} tokens per step ({parts})")
    if answer.holds or not answer.given:
        yield from ([Segment(" " * LABEL), Segment(row, "bold cyan")] for row in _flag_rows(answer))
    if window.chunk_min is None or window.chunk_max is None:
        yield from _wrapped("window", "empty: no chunk is predicted to keep every limit")
        return
    gaps = "; some chunks between fail" if window.gaps else ""
    ends = f"chunk {format_count(window.chunk_min)} to {format_count(window.chunk_max)}"
    names = {"ttft": "TTFT", "tpot": "TPOT", "itl": "the gap limit"}
    low, high = (names.get(str(end), str(end)) for end in (window.binding_min, window.binding_max))
    yield from _wrapped("window", f"{ends} (below: {low}; above: {high}{gaps})")


def _batch_note(answer: Answer) -> str:
    """What a batch that was left out stands for."""
    if answer.case.batch is not None:
        return ""
    if not answer.holds:
        return " (assumed: no batch holds)"
    if answer.verdict != FEASIBLE:
        return " (the largest inside the error band)"
    return " (the largest with an aligned budget)" if answer.aligned else " (the largest that holds)"


def _flag_rows(answer: Answer) -> list[str]:
    """The flags in rows that break between options only."""
    rows = [""]
    for word in next(iter(answer.flags.values())):
        starts = word.startswith("--")
        if starts and len(rows[-1]) + len(word) + 8 > WIDTH - LABEL:
            rows.append("")
        rows[-1] += f" {word}" if rows[-1] else word
    return rows


def _times(answer: Answer) -> Iterator[Line]:
    floor, expected, slo = answer.floor, answer.expected, answer.slo
    yield [Segment(f"{'':<{LABEL}}{'floor':>9}{'expected':>11}{'band':>8}{'limit':>10}", "bold")]
    per_step = slo.tpot_basis == "step"
    drafts = answer.workload.draft_tokens
    step_limit = slo.tpot if per_step and not drafts else None
    rows = [
        ("TTFT", floor.ttft_s, expected.ttft_s, answer.ttft_error, slo.ttft, _queueing(answer)),
        # Against a TPOT limit the step stands for a mean that it bounds; alone it is a gap.
        ("longest step", floor.step_s, expected.step_s, answer.tpot_error if step_limit else answer.itl_error,
         step_limit, ""),
        ("mean TPOT", floor.tpot_s, expected.tpot_s, answer.tpot_error, None if per_step else slo.tpot, ""),
        ("longest gap", floor.itl_s, expected.itl_s, answer.itl_error, slo.itl, ""),
    ]  # fmt: skip
    if drafts and per_step and answer.judged_tpot_s is not None:
        note = f"with {drafts} draft{'s' if drafts > 1 else ''}"
        least = floor.step_s / (1 + drafts)
        rows.insert(2, ("per token", least, answer.judged_tpot_s, answer.tpot_error, slo.tpot, note))
    for name, low, value, band, limit, note in rows:
        if value is None:
            continue
        judged = value
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


def _queueing(answer: Answer) -> str:
    load = answer.load
    if load is None:
        return "without queueing"
    which = "mean" if load.percentile is None else f"p{load.percentile:g}"
    return f"{which}, {format_duration(load.wait_s)} wait" if load.wait_s > WORTH_A_WORD else f"{which}, no wait"


def _load(answer: Answer) -> Iterator[Line]:
    """The traffic: what it makes of the replica, and how much more it takes."""
    load = answer.load
    if load is None:
        return
    flow = load.flow
    users = load.users is not None
    yield []
    asked = load.users or load.rate or 0.0
    less = load.shown < asked
    carries = f"{flow.rate:.3g} requests/s, " if users or less else ""
    at = "shown at the most it carries: " if less else ""
    at = at if load.highest or load.shown == asked else "shown for one request at a time: "
    yield from _wrapped("traffic", f"{at}{carries}{format_count(round(flow.batch))} decoding at once on average")
    tails = ", ".join(f"p{q} {format_duration(flow.ttft_quantile(q / 100))}" for q in (50, 90, 99))
    yield from _wrapped("", f"TTFT {tails}")
    most = f"{load.highest:.0f} users" if users else f"{load.highest:.3g} requests/s"
    beyond = "" if load.limit is None else f"; no steady state beyond {load.limit:.3g}"
    yield from _wrapped("", f"at most {most} within the limits at this budget{beyond}")


def _state(value: float, limit: float | None, band: float) -> tuple[str, str]:
    if limit is None:
        return "", ""
    if value > limit:
        return ("close", "yellow") if value <= limit * (1 + band) else ("over", "red")
    return ("ok", "green") if value * (1 + band) <= limit else ("close", "yellow")


def _chunking(answer: Answer) -> Iterator[Line]:
    parts, expected, tokens = answer.chunking, answer.expected, answer.prompt_tokens
    rate = f"{format_count(parts.prompt_tokens_per_s)} prompt tokens/s at most"
    rows = []
    if answer.chunk >= tokens:
        rows.append(f"prompts are not cut; {rate}")
    else:
        if expected.itl_s is not None:
            mixed = answer.case.deployment.engine.composition == "mixed"
            stall = f"{format_duration(parts.stall_unchunked_s)} -> {format_duration(expected.itl_s)}"
            whole = not mixed and not answer.case.deployment.engine.prefill_interval
            rows.append(f"stall of every stream per prompt {stall}{': prompts go first, whole' if whole else ''}")
        before = format_count(parts.prompt_tokens_per_s_unchunked)
        wait = answer.load.wait_s if answer.load else 0.0
        ttft = f"{format_duration(parts.ttft_unchunked_s)} -> {format_duration(expected.ttft_s - wait)}"
        rows.append(f"TTFT {ttft}, prompt rate {before} -> {format_count(parts.prompt_tokens_per_s)} tokens/s")
    if parts.decode_alone_s is not None:
        mixed = answer.case.deployment.engine.composition == "mixed"
        alone = format_duration(parts.decode_alone_s)
        ride = (
            f"riding along add {format_duration(parts.ride_along_s)}; alone they cost"
            if mixed
            else "run alone and cost"
        )
        rows.append(f"decodes {ride} {alone} per step")
    if parts.output_tokens_per_s is not None:
        rows.append(f"{format_count(parts.output_tokens_per_s)} output tokens/s in a steady state")
    for index, row in enumerate(rows):
        yield from _wrapped("" if index else "chunking", row)


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
    if not answer.remedies:
        yield from _wrapped("what helps", "nothing that was tried: batch, prefix cache, formats, parallelism, GPUs")
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
