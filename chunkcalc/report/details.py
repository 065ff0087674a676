"""What `solve --verbose` adds to the answer."""

from __future__ import annotations

from collections.abc import Iterator

from chunkcalc.answer.records import Answer
from chunkcalc.report.json import inputs
from chunkcalc.report.lines import Line, Segment, wrapped
from chunkcalc.units import format_bytes, format_count, format_duration, format_si


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
        yield from wrapped("" if index else "chunking", row)


def _why(answer: Answer) -> Iterator[Line]:
    total = answer.step.expected
    bound = ", ".join(
        f"{name} {100 * time / total:.0f}%"
        for name, time in sorted(answer.step.bound_by.items(), key=lambda item: -item[1])
        if time > total / 200
    )
    yield from wrapped("why", f"the step is bound by {bound}")
    ranked = sorted(answer.step.breakdown.items(), key=lambda item: -item[1])
    shown = [item for index, item in enumerate(ranked) if index < 4 or item[0] == "engine overhead"]
    yield from wrapped("", ", ".join(f"{name} {100 * time / total:.0f}%" for name, time in shown))


def details(answer: Answer) -> Iterator[Line]:
    """What `--verbose` adds: cost of chunking, bounds, kernels, memory, textbook, inputs."""
    yield from _chunking(answer)
    yield from _why(answer)
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
