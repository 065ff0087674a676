"""The answer for a person: at most 24 lines of 80 columns, the verdict first."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from itertools import chain

from chunkcalc.answer.records import FEASIBLE, MARGINAL, Answer
from chunkcalc.answer.remedies import describe
from chunkcalc.report import measured
from chunkcalc.report.details import details
from chunkcalc.report.lines import LABEL, WIDTH, Line, Segment, wrapped
from chunkcalc.units import format_at_most, format_count, format_duration

MOST_LINES = 24  # of the plain answer
REASONS = 2  # that are shown there
STYLES = {FEASIBLE: "bold green", MARGINAL: "bold yellow"}
MEANING = {
    "feasible": "every limit holds with its error band to spare",
    "marginal": "every limit holds by prediction, one of them inside its error band",
    "retune": "this setting fails, another one holds",
    "overloaded": "too much for one replica; less holds",
    "disaggregate": "no chunk keeps the limits; separate prefill and decode units do",
    "scale_up": "no chunk keeps the limits on this deployment, not even for one request",
    "impossible": "no hardware of this vendor keeps the limits",
}
NAMES = {"ttft": "TTFT", "tpot": "TPOT", "itl": "gap (ITL)"}
STATES = {"yes": ("ok", "green"), "close": ("close", "yellow"), "no": ("over", "red")}


def solve(answer: Answer, *, verbose: bool = False) -> list[Line]:
    """The report of `chunkcalc solve`.

    Parameters
    ----------
    answer : the answer
    verbose : all reasons, remedies and notes, the full breakdown, capacity, intensities and inputs
    """
    out: list[Line] = [*_head(answer, verbose), [], *_setting(answer), [], *_limits(answer)]
    out += [
        *_load(answer),
        *_measured(answer),
        *_host(answer),
        *_mean_alone(answer),
        *_textbook(answer),
        *_bought(answer),
    ]
    if verbose:
        return [
            *out,
            [],
            *_remedies(answer, len(answer.remedies)),
            *chain.from_iterable(_notes(answer)),
            [],
            *details(answer),
        ]
    out += _remedies(answer, MOST_LINES - len(out))
    for note in _notes(answer):
        out += note if len(out) + len(note) <= MOST_LINES else []
    return out


def _head(answer: Answer, verbose: bool) -> list[Line]:
    deployment, workload = answer.case.deployment, answer.workload
    name = answer.verdict.upper().replace("_", " ")
    sure = " (certain: the floor already fails)" if answer.certain and answer.verdict != "impossible" else ""
    sure = " (may hold: missed by less than the error band; measure)" if answer.may_hold else sure
    meaning = MEANING[answer.verdict] if answer.slo.latency or not answer.holds else "memory and a steady state hold"
    first, *more = textwrap.wrap(f"{name}: {meaning}{sure}", WIDTH, subsequent_indent="  ")
    out: list[Line] = [[Segment(name, STYLES.get(answer.verdict, "bold red")), Segment(first[len(name) :])]]
    out += [[Segment(row)] for row in more]
    for reason in answer.reasons if verbose else answer.reasons[:REASONS]:
        rows = textwrap.wrap(reason, WIDTH - 2, initial_indent="- ", subsequent_indent="  ")
        if not verbose and len(rows) > 2:
            rows = textwrap.wrap(reason, WIDTH - 2, initial_indent="- ", subsequent_indent="  ", max_lines=2,
                                 placeholder=" ...")  # fmt: skip
        out += [[Segment(row)] for row in rows]
    gpus = f"{deployment.parallelism.gpus} x {deployment.hardware.id}"
    subject = f"{deployment.model.id} {deployment.precision.weights} on {gpus}, {deployment.engine.name} "
    subject += (
        f"{deployment.engine.version}: {format_count(workload.prompt)} + {format_count(workload.output)} tokens, "
    )
    return [*out, *([Segment(row, "dim")] for row in textwrap.wrap(subject + _asked(answer), WIDTH))]


def _asked(answer: Answer) -> str:
    load = answer.load
    if load is None:
        return f"batch {format_count(answer.workload.batch)}{_batch_note(answer)}"
    return f"{load.rate:g} requests/s" if load.rate is not None else f"{format_count(load.users or 0)} users"


def _batch_note(answer: Answer) -> str:
    """What a batch that was left out stands for."""
    if answer.case.batch is not None:
        return ""
    if not answer.holds:
        return " (assumed: no batch holds)"
    return " (the largest that surely holds)" if answer.verdict == FEASIBLE else " (the largest by prediction)"


def _setting(answer: Answer) -> Iterator[Line]:
    workload, window = answer.workload, answer.window
    verb = "judged" if answer.given else "set" if answer.holds else "closest"
    drafts = f" x {1 + workload.draft_tokens} tokens" if workload.draft_tokens else ""
    decodes = (answer.budget - answer.chunk) // (1 + workload.draft_tokens)
    beside = f" + {format_count(decodes)} decode{'s' if decodes != 1 else ''}{drafts}" if decodes else ""
    parts = f"budget {format_count(answer.budget)} tokens per step (chunk {format_count(answer.chunk)}{beside})"
    if answer.safest_chunk not in (None, answer.chunk):
        parts += f"; most to spare: chunk {format_count(answer.safest_chunk or 0)}"
    yield from wrapped(verb, parts)
    if answer.holds or not answer.given:
        yield from ([Segment(" " * LABEL), Segment(row, "bold cyan")] for row in _flag_rows(answer))
    if window.chunk_min is None or window.chunk_max is None:
        yield from wrapped("window", "empty: no chunk is predicted to keep every limit")
        return
    gaps = "; some chunks between fail" if window.gaps else ""
    ends = f"chunk {format_count(window.chunk_min)} to {format_count(window.chunk_max)}"
    low, high = (NAMES.get(str(end), str(end)) for end in (window.binding_min, window.binding_max))
    yield from wrapped("window", f"{ends} (below: {low}; above: {high}{gaps})")


def _flag_rows(answer: Answer) -> list[str]:
    """The flags in rows that break between options only."""
    rows = [""]
    for word in next(iter(answer.flags.values())):
        starts = word.startswith("--")
        if starts and len(rows[-1]) + len(word) + 8 > WIDTH - LABEL:
            rows.append("")
        rows[-1] += f" {word}" if rows[-1] else word
    return rows


def _limits(answer: Answer) -> Iterator[Line]:
    """Every limit with what it judges, or what would be judged where there is none."""
    head = f"{'':<{LABEL}}{'judges':<25}{'floor':>9}{'expected':>10}{'band':>6}{'limit':>9}"
    yield [Segment(head, "bold")]
    given = {line.name: line for line in answer.limits}
    for name in NAMES:
        line = given.get(name)
        if line is not None:
            state, style = STATES[line.holds]
            yield _row(
                name, line.judges, line.floor, line.predicted, line.band, format_duration(line.limit), state, style
            )
        elif (value := getattr(answer.expected, f"{name}_s")) is not None:
            floor, band = getattr(answer.floor, f"{name}_s"), getattr(answer.error, {"itl": "gap"}.get(name, name))
            yield _row(name, "no limit", floor, value, band, "-", "", "")
    steady = answer.load is None or answer.load.steady
    full = not steady or answer.utilisation > answer.slo.max_utilisation
    used = f"{answer.utilisation:.2f}" if steady else "-"
    yield [
        Segment(f"{'capacity':<{LABEL}}", "bold"),
        Segment(f"{'for prompts, in use':<34}{used:>10}{answer.slo.max_utilisation:>15.2f}"),
        Segment("  over" if full else "  ok", "red" if full else "green"),
    ]  # fmt: skip


def _row(
    name: str, judges: str, floor: float, value: float | None, band: float, limit: str, state: str, style: str
) -> Line:  # fmt: skip
    shown = "-" if value is None else format_duration(value)
    return [
        Segment(f"{NAMES[name]:<{LABEL}}", "bold"),
        Segment(f"{judges:<25}{format_duration(floor):>9}{shown:>10}{f'±{100 * band:.0f}%':>6}{limit:>9}"),
        Segment(f"  {state}", style),
    ]  # fmt: skip


def _load(answer: Answer) -> Iterator[Line]:
    """The traffic: what it makes of the replica, and how much more it takes."""
    load = answer.load
    if load is None:
        return
    flow, users = load.flow, load.users is not None
    unit = "users" if users else "requests/s"
    asked = float(load.users or load.rate or 0.0)
    if load.shown < asked:
        at = f"numbers at {load.shown:.3g} {unit}: " if load.highest else "numbers of one request at a time: "
    else:
        at = f"{flow.rate:.3g} requests/s, " if users else ""
    tails = ", ".join(f"p{q} {format_duration(flow.ttft_quantile(q / 100))}" for q in (50, 90, 99))
    limit = answer.slo.ttft
    kept = "" if limit is None else f"; {100 * flow.within(limit):.4g} % within {format_duration(limit)}"
    yield from wrapped("traffic", f"{at}{format_count(round(flow.batch))} decoding; TTFT {tails}{kept}")
    most = f"at most {format_at_most(load.highest)} {unit}" if load.highest else "no load is"
    beyond = "" if load.limit is None else f"; no steady state beyond {load.limit:.3g}"
    yield from wrapped("", f"{most} within the limits at this budget{beyond}")


def _host(answer: Answer) -> Iterator[Line]:
    """What the range of the host's time decides."""
    host = answer.host
    if host is None or not host.decides:
        return
    least, most = format_duration(host.least_s), format_duration(host.most_s)
    if host.budget_least != host.budget_most:
        ends = [format_count(budget) if budget else "none" for budget in (host.budget_least, host.budget_most)]
        text = f"budget {ends[0]} if it needs {least} a layer, {ends[1]} if {most}"
    else:
        words = ["holds" if held else "fails" for held in (host.holds_least, host.holds_most)]
        text = f"{words[0]} if it needs {least} a layer, {words[1]} if {most}"
    if host.flags:
        text += f"; {' '.join(host.flags)} removes the doubt"
    yield from wrapped("host", text)


def _measured(answer: Answer) -> Iterator[Line]:
    """What the user's own numbers taught."""
    for index, said in enumerate(measured.sentences(answer)):
        yield from wrapped("" if index else "measured", said)


def _mean_alone(answer: Answer) -> Iterator[Line]:
    """The other basis in one line: what the limits give without that of the gap."""
    mean = answer.mean_alone
    if mean is None:
        return
    holds = "still fails" if mean.budget_max is None else f"holds up to budget {format_count(mean.budget_max)}"
    yield from wrapped("on the mean", f"{format_duration(mean.tpot_s)}; with --itl none {holds}")


def _textbook(answer: Answer) -> Iterator[Line]:
    text = answer.textbook
    star = "none" if text.chunk_star is None else format_count(text.chunk_star)
    yield from wrapped(
        "textbook", f"I {text.intensity:.0f} at this chunk, I* {text.ridge:.0f} FLOP/B, c* {star} tokens"
    )


def _bought(answer: Answer) -> Iterator[Line]:
    """What chunking buys and costs."""
    parts, expected = answer.chunking, answer.expected
    if answer.chunk >= answer.prompt_tokens:
        yield from wrapped(
            "chunking", f"prompts are not cut; {format_count(parts.prompt_tokens_per_s)} prompt tokens/s"
        )
        return
    wait = answer.load.wait_s if answer.load else 0.0
    said = []
    if expected.itl_s is not None:
        said.append(f"stall {format_duration(parts.stall_unchunked_s)} -> {format_duration(expected.itl_s)}")
    if parts.output_tokens_per_s is not None and parts.output_tokens_per_s_unchunked is not None:
        before, after = parts.output_tokens_per_s_unchunked, parts.output_tokens_per_s
        said.append(f"output tokens/s {format_count(before)} -> {format_count(after)}")
    said.append(f"TTFT {format_duration(parts.ttft_unchunked_s)} -> {format_duration(expected.ttft_s - wait)}")
    yield from wrapped("chunking", ", ".join(said))


def _remedies(answer: Answer, room: int) -> list[Line]:
    """The changes that help, one row each; as many as there is room for."""
    if not answer.looked_for_remedies:
        return []
    if not answer.remedies:
        return wrapped("what helps", "nothing that was tried: batch, prefix cache, formats, parallelism, GPUs")
    every = [
        wrapped("what helps" if not index else "", describe(remedy)) for index, remedy in enumerate(answer.remedies)
    ]
    if len(every) <= room:
        rows = [row for each in every for row in each]
        if len(rows) <= room:
            return rows
    shown = len(every) if len(every) <= room else max(1, room - 1)
    out = [_first_row(rows) for rows in every[:shown]]
    return out if shown == len(every) else [*out, *wrapped("", f"and {len(every) - shown} more: --verbose")]


def _first_row(rows: list[Line]) -> Line:
    """The first row of a text, with a sign where there is more."""
    if len(rows) == 1:
        return rows[0]
    *before, last = rows[0]
    words = last.text.rstrip(",;:")
    while len("".join(each.text for each in before)) + len(words) > WIDTH - 4 and " " in words:
        words = words.rpartition(" ")[0]
    return [*before, Segment(f"{words} ...", *last[1:])]


def _notes(answer: Answer) -> list[list[Line]]:
    """The rows of each note."""
    notes = [*answer.warnings, *answer.case.notes]
    return [wrapped("" if index else "note", note) for index, note in enumerate(notes)]
