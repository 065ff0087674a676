"""Answer a question: the window of chunks, the one to set, and whether the limits hold."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

from chunkcalc.answer.assembly import assemble
from chunkcalc.answer.batches import largest_batch, with_batch
from chunkcalc.answer.composition import other_ways
from chunkcalc.answer.doubt import host_doubt
from chunkcalc.answer.judged import Outlook, outlook
from chunkcalc.answer.pools import KV_LINK, Arrivals
from chunkcalc.answer.question import Question
from chunkcalc.answer.records import (
    FEASIBLE,
    IMPOSSIBLE,
    SCALE_UP,
    Answer,
)
from chunkcalc.answer.remedies import remedies
from chunkcalc.answer.resolve import Case, chunk_of, resolve
from chunkcalc.answer.verdict import Verdict, holds, judge
from chunkcalc.progress import Progress, silent
from chunkcalc.time.step import StepTimer, timer_for
from chunkcalc.traffic.lengths import variation


def answer(
    question: Question, *, with_remedies: bool = True, timer: StepTimer | None = None, view: Outlook | None = None,
    progress: Progress = silent,
) -> Answer:  # fmt: skip
    """Answer a Question.

    Parameters
    ----------
    question : what is asked
    with_remedies : solve the changes that would help, where the limits do not hold, and what the host decides
    timer, view : of the same deployment; the view at the batch that is asked: to share what they remember
    progress : told how many changes were tried, of how many
    """
    if question.measured and question.taught is None:  # once, on the deployment that was measured
        question = resolve(question).question
    found, verdict, view = _answered(question, timer, view)
    if _free(question) and found.verdict != FEASIBLE:
        for way in other_ways(found.case.deployment.engine, question.draft_tokens):
            other, judged, seen = _answered(replace(question, **way.changes))
            if other.verdict == FEASIBLE or (other.holds and not found.holds):
                why = f"prompts first is {'less sure' if found.holds else 'too slow'}; so this is {way.words}"
                found, verdict, view = replace(other, reasons=(*other.reasons, why)), judged, seen
                if found.verdict == FEASIBLE:
                    break
    if not with_remedies:
        return found
    found = replace(found, host=host_doubt(view, found.chunk, given=found.given))
    if found.verdict == FEASIBLE:
        return found
    helping = remedies(found, verdict.pools, holding_answer, progress)
    if found.verdict == IMPOSSIBLE and helping:
        found = replace(found, verdict=SCALE_UP)
    return replace(found, looked_for_remedies=True, remedies=helping)


def as_composed(question: Question, timer: StepTimer | None = None, view: Outlook | None = None) -> Answer:
    """The answer with steps composed as the question says, and no remedies.

    Parameters
    ----------
    question : what is asked
    timer, view : as of `answer`
    """
    return _answered(question, timer, view)[0]


def _answered(
    question: Question, timer: StepTimer | None = None, view: Outlook | None = None
) -> tuple[Answer, Verdict, Outlook]:  # fmt: skip
    case = resolve(question)
    timer = timer or timer_for(case.deployment, case.workload.draft_tokens)
    load, given = None, question.chunk or question.budget
    if case.loaded:
        from chunkcalc.answer.settling import settle  # noqa: PLC0415 - a batch needs none of it

        view, verdict, load = settle(case, timer)
    else:
        own, given = _at_batch(case, timer)
        view = view or own
        verdict = judge(view, given, arrivals(case))
    return assemble(case, view, timer, verdict, given is not None, load), verdict, view


def _free(question: Question) -> bool:
    """Whether the setting is ours to choose, and with it how steps are composed."""
    return not (question.chunk or question.budget or question.mixed_chunk or question.prefill_interval)


def holding_answer(question: Question) -> Answer | None:
    """The answer of a question whose limits hold; None where they do not, which takes less time to say."""
    case = resolve(question)
    ways = other_ways(case.deployment.engine, question.draft_tokens) if _free(question) else []
    cases = chain([case], (resolve(replace(question, **way.changes)) for way in ways))
    return next((found for found in map(_holding, cases) if found is not None), None)


def _holding(case: Case) -> Answer | None:
    question = case.question
    timer, load, given = timer_for(case.deployment, case.workload.draft_tokens), None, question.chunk or question.budget
    if case.loaded:
        from chunkcalc.answer.settling import holding  # noqa: PLC0415 - a batch needs none of it

        held = holding(case, timer)
        if held is None:
            return None
        view, verdict, load = held
    else:
        view, given = _at_batch(case, timer)
        if not holds(view, given):
            return None
        verdict = judge(view, given, arrivals(case))
    return assemble(case, view, timer, verdict, given is not None, load)


def _at_batch(case: Case, timer: StepTimer) -> tuple[Outlook, int | None]:
    """The deployment at the batch that is asked, or at its largest, and the chunk to judge there."""
    view = outlook(case.deployment, case.workload, case.slo, timer)
    batch = max(1, largest_batch(view)) if case.batch is None else case.batch
    return with_batch(view, batch), chunk_of(case, batch)


def arrivals(case: Case) -> Arrivals:
    """How the requests of a question would come to separate units."""
    question = case.question
    C = variation(question.prompt, question.prompt_p95)
    return Arrivals(case.percentile, C, question.kv_link or KV_LINK)
