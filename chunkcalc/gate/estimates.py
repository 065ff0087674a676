"""Estimates: what the prediction says of the limits, with its error band, and what would be better."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from chunkcalc.answer.judged import Outlook
from chunkcalc.answer.recommendation import ENOUGH
from chunkcalc.answer.records import DISAGGREGATE, OVERLOADED, RETUNE, Answer
from chunkcalc.answer.records import Load as Traffic
from chunkcalc.answer.window import every_limit
from chunkcalc.engines.dialects import INTERVAL, MIXING, dialect
from chunkcalc.gate.budget import budget_flag, ranks, setting, written
from chunkcalc.gate.catalogue import Level
from chunkcalc.gate.evaluation import Evaluation
from chunkcalc.gate.exact import make
from chunkcalc.gate.finding import Finding, Fix
from chunkcalc.time.search import last
from chunkcalc.units import format_count, format_duration

LOST = 1 - ENOUGH  # of the prompt rate, from which a small chunk is worth a word
GAINED = 1.1  # times the requests from which a smaller budget is worth a word
SMALLER = (8192, 4096, 2048, 1024, 512)  # budgets tried where activations take the room of the KV cache
LIMIT = {"ttft": "TTFT", "tpot": "TPOT", "itl": "the longest gap"}


def estimates(found: Evaluation, bound: bool) -> Iterator[Finding]:
    """Every estimate of a deployment.

    Parameters
    ----------
    found : the deployment
    bound : whether a bound fails already, so that predicting the same adds nothing
    """
    yield from _default(found)
    if found.case is None:
        return
    yield from _head_of_line(found)
    yield from _activations(found)
    if not found.settings.has_load and found.process.role != "prefill":
        return  # at which batch is not known
    if found.process.role == "decode":
        yield from _decode_worker(found, bound)
    elif found.answer is not None:
        yield from _chunk(found, found.answer, bound)
        yield from _stall(found, found.answer)
        yield from _queue(found, found.answer)


def beyond(ratio: float, band: float) -> Level:
    """Whether a limit is missed by more than the prediction's error."""
    return "error" if ratio < 1 / (1 + band) else "warning"


def _chunk(found: Evaluation, answer: Answer, bound: bool) -> Iterator[Finding]:
    """The limits at the chunk that is set."""
    view = found.loaded
    if answer.load is not None and not answer.load.steady:
        yield _endless(found, answer.load, view)
        return
    missed = {name: ratio for name, ratio in view.ratios(answer.chunk).items() if ratio < 1}
    better = found.retuned if missed else None
    if not bound and found.rate is None:
        yield from _overloaded(found, answer, view)
    stalls = found.reading is not None and found.reading.composition != "mixed" and not found.reading.interval
    for name, ratio in sorted(missed.items(), key=lambda item: item[1]):
        if name == "itl" and stalls:
            continue  # W03 says it, with what helps
        level = beyond(ratio, view.band(name))
        small = name == "ttft"
        good = better is not None and all(line.holds != "no" for line in better.limits)
        if better is not None and good and (answer.chunk < better.chunk) == small:
            yield _wrong_chunk(found, answer, view, name, ratio, level, better)
        elif not bound:
            yield _no_chunk(found, answer, view, name, ratio, level)
    if not missed and answer.verdict == RETUNE and answer.utilisation > answer.slo.max_utilisation:
        yield _crowded(found, answer, view)
    elif not missed and answer.verdict != OVERLOADED:
        yield from _lost_rate(found, answer, view)


def _numbers(view: Outlook, name: str, ratio: float) -> tuple[str, str]:
    limit = {"ttft": view.slo.ttft, "tpot": view.slo.tpot, "itl": view.slo.itl}[name]
    assert limit is not None
    return format_duration(limit / ratio), format_duration(limit)


def _wrong_chunk(
    found: Evaluation, answer: Answer, view: Outlook, name: str, ratio: float, level: Level, better: Answer
) -> Finding:
    predicted, limit = _numbers(view, name, ratio)
    at = f"on {found.names()['gpus']} at {found.at}"
    if name == "ttft":
        text = (
            f"{written(found)}: {answer.chunk:,} prompt tokens a step are too few: {_ttft(answer)} {predicted} > "
            f"{limit} {at} ({math.ceil(answer.prompt_tokens / answer.chunk)} steps, weights read again in each)"
        )
        number = "W02"
    else:
        what, most = ("step", "gap limit") if name == "itl" else ("mean", LIMIT[name])
        text = f"{written(found)}: predicted {what} {predicted} > {most} {limit} {at}, mostly {_cause(answer)}"
        number = "W01"
    return make(found, number, text, found.word(found.budget_field), level=level, fix=setting(found, better),
                size=1 / ratio)  # fmt: skip


def _crowded(found: Evaluation, answer: Answer, view: Outlook) -> Finding:
    """W02 where the latency limits hold, but fewer prompts are processed than answers finish."""
    share, most = answer.utilisation, view.slo.max_utilisation
    text = (
        f"{written(found)}: {answer.chunk:,} prompt tokens a step are too few on {found.names()['gpus']} at "
        f"{found.at}: prompts ask for {share:.2f} of the capacity for them, {most:.2f} is the most"
    )
    better = found.retuned
    fix = setting(found, better) if better is not None and better.holds else Fix(text=_fewer(found, answer))
    return make(found, "W02", text, found.word(found.budget_field), level=beyond(most / share, view.error.tpot),
                fix=fix, size=share / most)  # fmt: skip


def _cause(answer: Answer) -> str:
    """The class of kernels that takes the largest part of the step."""
    parts = dict(answer.step.breakdown)
    name = max(parts, key=lambda each: parts[each])
    return f"{name.replace('_', ' ')} ({100 * parts[name] / sum(parts.values()):.0f} %)"


def _no_chunk(found: Evaluation, answer: Answer, view: Outlook, name: str, ratio: float, level: Level) -> Finding:
    predicted, limit = _numbers(view, name, ratio)
    if answer.verdict == OVERLOADED:
        why, fix = "no chunk keeps every limit at this load", _fewer(found, answer)
    else:
        why = "no other chunk keeps every limit"
        fix = "fewer requests per replica, more GPUs or lighter weights"
        fix = "separate prefill and decode workers" if answer.needs_disaggregation else fix
    said = _ttft(answer) if name == "ttft" else LIMIT[name]
    return make(found, "W09", f"{said} {predicted} > {limit} on {found.names()['gpus']} at {found.at}, and {why}",
                level=level, fix=Fix(text=fix), size=1 / ratio)  # fmt: skip


def _ttft(answer: Answer) -> str:
    """What a TTFT limit judges."""
    return "TTFT" if answer.load is None or answer.load.percentile is None else f"p{answer.load.percentile:g} TTFT"


def _endless(found: Evaluation, load: Traffic, view: Outlook) -> Finding:
    """W10 with a rate that has no steady state at the setting that is written."""
    assert found.rate is not None
    most = load.limit or 0.0
    carries = f"{most:.3g} is where its queue begins to grow without end"
    return make(found, "W10", f"{found.at} are more than {written(found)} carries on {found.names()['gpus']}: "
                f"{carries}", found.word(found.budget_field), level=beyond(most / found.rate, view.error.tpot),
                fix=Fix(text=_better_setting(found)), size=found.rate / max(most, 1e-9))  # fmt: skip


def _better_setting(found: Evaluation) -> str:
    """What carries a rate: another budget, or more replicas."""
    better = found.retuned
    if better is not None and better.holds:
        return setting(found, better).text
    return _fewer(found, better)


def _fewer(found: Evaluation, answer: Answer | None) -> str:
    if found.rate is not None:
        told = answer is not None and answer.verdict in (OVERLOADED, DISAGGREGATE)
        return answer.reasons[0] if answer is not None and told else "more replicas or GPUs"
    most = found.sustainable
    return f"at most {most} requests at once per replica" if most else "more replicas or GPUs"


def _overloaded(found: Evaluation, answer: Answer, view: Outlook) -> Iterator[Finding]:
    """W10: an error where even limits that are missed by their whole error band leave no steady state.

    Also where the chunk that is written leaves none by more than the error, as W02 has it at a smaller load.
    """
    service = view.expected
    best = last([view.memory_rule(), *view.latency_limits(service)], 1, view.longest_chunk)
    longer = {name: 1 + view.band(name) for name in ("tpot", "itl", "ttft")}
    slo = {name: getattr(view.slo, name) for name in longer}
    relaxed = replace(view, slo=replace(view.slo, **{n: v * longer[n] for n, v in slo.items() if v is not None}))
    widest = last([view.memory_rule(), *relaxed.latency_limits(service)], 1, view.longest_chunk)
    hopeless = widest is not None and service.utilisation(widest) >= 1
    if answer.verdict != OVERLOADED and not hopeless:
        return
    spared = view.slo.max_utilisation / max(answer.utilisation, 1e-9)
    needed, chunk = "", best or widest
    if service.mixed and chunk is not None:
        needed = f": {service.balance:,.0f} prompt tokens a step, the limits leave {chunk:,}"
    yield make(found, "W10", f"{found.load.batch} requests that decode at once finish faster than new prompts can be "
               f"processed within the limits on {found.names()['gpus']}{needed}",
               level="error" if hopeless else beyond(spared, view.error.tpot), fix=Fix(text=_fewer(found, answer)),
               size=service.utilisation(chunk) if chunk is not None else answer.utilisation)  # fmt: skip


def _lost_rate(found: Evaluation, answer: Answer, view: Outlook) -> Iterator[Finding]:
    """W02 where every limit holds: what a larger chunk would add to the rate at which prompts are processed.

    A note where a limit per token asks for short steps and the load leaves room; else a warning.
    """
    limits = every_limit(view, margin=True)
    most = min(view.longest_chunk, max(answer.prompt_tokens, answer.chunk))
    best = last(limits, answer.chunk, most) if answer.chunk < most else None
    aligned = None if best is None else (best + view.offset) // view.alignment * view.alignment - view.offset
    if best is None or aligned is None or aligned <= answer.chunk:
        return
    rate, reached = (view.expected.prefill.rate(c) for c in (answer.chunk, aligned))
    lost = 1 - rate / reached
    if lost <= LOST:
        return
    held = view.slo.tpot is not None or view.slo.itl is not None
    value = str((aligned + view.offset) * ranks(found))
    slower = f"process prompts {100 * lost:.0f} % slower"
    yield make(found, "W02", f"{written(found)}: {answer.chunk:,} prompt tokens a step {slower} "
               f"than {aligned:,}, which keep every limit with the error band to spare",
               found.word(found.budget_field), level="note" if held else "warning", size=lost,
               fix=Fix(text=f"{budget_flag(found)} {value} where throughput counts", flag=budget_flag(found),
                       value=value))  # fmt: skip


def _decode_worker(found: Evaluation, bound: bool) -> Iterator[Finding]:
    view = found.view(found.load.batch)
    step, accepted = view.expected.decode_step, view.expected.accepted
    for name, limit, value in (("tpot", view.slo.tpot, step / accepted), ("itl", view.slo.itl, step)):
        if limit is None or value <= limit or bound:
            continue
        yield make(found, "W09", f"{LIMIT[name]} {format_duration(value)} > {format_duration(limit)} on this decode "
                   f"worker ({found.names()['gpus']}, batch {found.load.batch})",
                   level=beyond(limit / value, view.error.tpot), size=value / limit,
                   fix=Fix(text="a smaller batch or more tensor parallelism"))  # fmt: skip


def _stall(found: Evaluation, answer: Answer) -> Iterator[Finding]:
    """W03: engines that run prompts first stop every stream for a whole prompt."""
    reading = found.reading
    if reading is None or reading.composition == "mixed" or reading.interval or found.process.role != "both":
        return
    slo, gap = answer.slo, answer.expected.itl_s
    limit = slo.itl
    if gap is None or limit is None or gap <= limit:
        return
    level: Level = beyond(limit / gap, answer.error.gap)
    batch = max(answer.prompt_tokens, min(answer.chunk, reading.budget))
    mean, allowed = answer.expected.tpot_s, slo.tpot
    keeps = "" if mean is None or allowed is None else (
        f"; the mean, {format_duration(mean)}, {'keeps' if mean <= allowed else 'misses'} {format_duration(allowed)}"
    )  # fmt: skip
    yield make(found, "W03", f"SGLang runs prompts first: every stream stops for {format_duration(gap)} while "
               f"{batch:,} prompt tokens are processed; the limit of the gap is "
               f"{format_duration(limit)}{keeps}", found.word("chunked_prefill_size"), level=level, fix=_unstall(found),
               size=gap / limit)  # fmt: skip


def _unstall(found: Evaluation) -> Fix:
    """Mixed chunks where they keep the limits, with the chunk that does; else a decode step in between."""
    mixing = found.mixing
    if mixing is None or not mixing.holds:
        return Fix(text=f"{INTERVAL} 1, or separate prefill and decode workers", flag=INTERVAL, value="1")
    gives = f"TTFT {format_duration(mixing.expected.ttft_s)}, {format_duration(mixing.expected.step_s)} a step"
    assert found.reading is not None
    flag, value = dialect(found.reading.table.engine).budget, mixing.budget * found.reading.parallelism.dp
    return Fix(text=f"{MIXING} with {flag} {value} gives {gives}", flag=MIXING, also=((flag, str(value)),))


def _default(found: Evaluation) -> Iterator[Finding]:
    """W04: nothing is written, so a default decides."""
    reading = found.reading
    if reading is None or found.inspection is None:
        return
    default = reading.values.get(found.budget_field)
    if default is None or found.word(found.budget_field) or found.process.role == "decode":
        return
    if found.given is not None and found.budget_field in found.given.given:
        return
    known = "" if found.version_known else "; the version is not stated, the newest is taken"
    whole = default.value if isinstance(default.value, int) else reading.budget  # before drafts take their slots
    flag, value = budget_flag(found), str(whole * ranks(found))
    yield make(found, "W04", f"{flag} is not set: {format_count(whole)} tokens a step ({default.rule}{known})",
               fix=Fix(text=f"write {flag} {value}", flag=flag, value=value))  # fmt: skip


def _head_of_line(found: Evaluation) -> Iterator[Finding]:
    """W05: a short request behind a long prompt."""
    reading, long = found.reading, found.settings.get("prompt-p95")
    limit = found.settings.get("ttft")
    if reading is None or long is None or limit is None or found.process.role == "decode":
        return
    threshold = reading.values.get("long_prefill_token_threshold")
    if threshold is not None and threshold.value:
        return
    view = found.long_view(int(long))
    wait = view.expected.prefill.total(found.chunk(found.load.batch)) if view is not None else 0.0
    if wait <= limit:
        return
    flag = dialect(reading.table.engine).long_prompt
    value = str(max(128, found.chunk(found.load.batch) // 2))
    fix = Fix(text="route long prompts to replicas of their own")
    if flag.lstrip("-") in reading.table.options():
        fix = Fix(text=f"{flag} {value} lets short prompts pass", flag=flag, value=value)
    yield make(found, "W05", f"a request that arrives behind a prompt of {int(long):,} tokens waits "
               f"{format_duration(wait)} for its first step: TTFT is {format_duration(limit)}",
               found.word("long_prefill_token_threshold", found.budget_field), fix=fix, size=wait / limit)  # fmt: skip


def _activations(found: Evaluation) -> Iterator[Finding]:
    """W06: the activations of a large budget take the room of the KV cache that the load needs."""
    asked, reading = found.load.asked, found.reading
    if asked is None or reading is None or asked <= found.load.admits or found.process.role == "prefill":
        return
    rooms = {budget: found.admitted_at(budget) for budget in SMALLER if budget < reading.budget}
    enough = [budget for budget, holds in rooms.items() if holds >= asked]
    more = [budget for budget, holds in rooms.items() if holds >= GAINED * max(1, found.load.admits)]
    budget = max(enough or more, default=None)
    if budget is None:
        return
    flag, value = budget_flag(found), str(budget * ranks(found))
    yield make(found, "W06", f"{written(found)}: its activations leave KV cache for {found.load.admits:,} requests, "
               f"{asked:,} are wanted", found.word(found.budget_field), size=asked / max(1, found.load.admits),
               fix=Fix(text=f"{flag} {value} leaves room for {rooms[budget]:,}", flag=flag, value=value))  # fmt: skip


def _queue(found: Evaluation, answer: Answer) -> Iterator[Finding]:
    """W08: how much may wait before a request is better turned away."""
    reading, limit = found.reading, answer.slo.ttft
    if reading is None or limit is None or not answer.holds:
        return
    flag = dialect(reading.table.engine).queued
    if flag.lstrip("-") not in reading.table.options():
        return
    tokens = int(limit * answer.chunking.prompt_tokens_per_s)
    given = reading.values.get("max_num_queued_tokens")
    most = given.value if given is not None and isinstance(given.value, int) else None
    if most is not None and most <= 1.5 * tokens:
        return
    text = f"{flag} {most:,}" if most is not None else f"{flag} is not set"
    yield make(found, "W08", f"{text}: what waits beyond {tokens:,} prompt tokens cannot start within TTFT "
               f"{format_duration(limit)}", found.word("max_num_queued_tokens"),
               fix=Fix(text=f"{flag} {tokens}", flag=flag, value=str(tokens)))  # fmt: skip
