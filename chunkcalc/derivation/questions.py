"""The three questions of chunked prefill, answered for one deployment.

Why do decodes ride along with a prompt chunk; what hurts when the chunk is too large or too small; and when is
chunking not enough?
"""

from __future__ import annotations

from typing import NamedTuple

from chunkcalc.answer.judged import Outlook, outlook
from chunkcalc.answer.records import DISAGGREGATE, RETUNE, Answer
from chunkcalc.time.service import Service
from chunkcalc.units import format_count, format_duration


class Told(NamedTuple):
    """A question and its answer, in words."""

    question: str
    answer: str


def questions(answer: Answer) -> tuple[Told, ...]:
    """The three, in the order of docs/questions.md."""
    view = outlook(answer.case.deployment, answer.workload, answer.slo)
    return (
        Told("Why decodes ride along", _ride_along(answer, view.expected)),
        Told("Too large, too small", _sizes(answer, view.expected)),
        Told("Chunking, or apart", _apart(answer, view)),
    )


def _ride_along(answer: Answer, service: Service) -> str:
    parts, decodes = answer.chunking, format_count(answer.workload.batch)
    if parts.decode_alone_s is None:
        return "nothing decodes here, so nothing rides along: the chunk decides the time to the first token alone"
    alone, chunk = format_duration(parts.decode_alone_s), format_count(min(answer.chunk, answer.prompt_tokens))
    if not service.mixed:
        return (
            f"here they do not: prompts go first, and {decodes} decodes wait for them; a step of their own takes "
            f"{alone}, weights read for it alone"
        )
    share = parts.ride_along_s / parts.decode_alone_s
    return (
        f"{decodes} decodes take {alone} in a step of their own; beside a chunk of {chunk} they add "
        f"{format_duration(parts.ride_along_s)} ({100 * share:.0f} %): the chunk's arithmetic needs the same weights"
    )


def _sizes(answer: Answer, service: Service) -> str:
    tokens, chunk = answer.prompt_tokens, answer.chunk
    small = max(1, min(chunk, tokens) // 4)
    said = []
    if chunk < tokens and answer.expected.itl_s is not None:
        said.append(
            f"the whole prompt in one step stalls every stream for {format_duration(answer.chunking.stall_unchunked_s)}"
            f", not {format_duration(answer.expected.itl_s)}"
        )
    whole, quarters = service.ttft(tokens), service.ttft(-(-tokens // 4))
    if service.prefill.stages > 1 and whole > quarters:
        said.append(
            "and stages of the pipeline wait for each other: the first token comes after "
            f"{format_duration(whole)}, cut in four after {format_duration(quarters)}"
        )
    few = f"a quarter of {format_count(chunk)} brings the first token after {format_duration(service.ttft(small))}"
    if service.b and service.utilisation(small) > 1:
        few += f" and is {service.utilisation(small):.1f} times too little for the prompts that come"
    return "; ".join([", ".join(said), few] if said else ["the prompt is not cut: no larger chunk matters", few])


def _apart(answer: Answer, view: Outlook) -> str:
    ends = answer.window
    if ends.chunk_min is None:
        helps = {DISAGGREGATE: "separate units do", RETUNE: "another setting does, which `solve` names"}
        return f"no chunk keeps every limit as it is; {helps.get(answer.verdict, '`solve` lists what helps')}"
    together = "some chunk keeps every limit, so stay together"
    if not view.expected.mixed or not view.expected.b:
        return together
    # The gap grows with the chunk, so the smallest that keeps the other limits has the shortest.
    tightest = format_duration(float(view.expected.gap(ends.chunk_min)))
    return (
        f"{together}; the shortest gap that one can keep beside the other limits is {tightest}, at chunk "
        f"{format_count(ends.chunk_min)}: below it, units apart, or less load"
    )
