"""Answer a question: the window of chunks, the one to set, and whether the limits hold."""

from __future__ import annotations

import math
from dataclasses import replace

from chunkcalc.answer.judged import Outlook, outlook
from chunkcalc.answer.question import Question
from chunkcalc.answer.recommendation import aligned_best
from chunkcalc.answer.records import FEASIBLE, MARGINAL, OVERLOADED, Answer, Chunking, Load, Reading
from chunkcalc.answer.remedies import remedies
from chunkcalc.answer.resolve import Case, chunk_of, resolve
from chunkcalc.answer.verdict import Verdict, judge, misses
from chunkcalc.answer.window import every_limit, keeps, window
from chunkcalc.catalog.precision import COMPUTE_DTYPE, peak
from chunkcalc.engines.capacity import IN_FLIGHT, capacity
from chunkcalc.engines.flags import flags, yaml_options
from chunkcalc.progress import Progress, silent
from chunkcalc.records import WEIGHT_BYTES, Deployment, Moe, Workload
from chunkcalc.textbook.forms import textbook
from chunkcalc.time.search import largest
from chunkcalc.time.service import Service
from chunkcalc.time.step import StepTimer, timer_for
from chunkcalc.work import counts

ALIGNED_WITHIN = 64  # batches below the largest among which an aligned budget is looked for
SPREAD = 4.0  # standard deviations of a Poisson batch that --max-num-seqs leaves room for
NEAR_TILE_EDGE = 1.05  # a measured step-up at the next tile above this is worth a warning


def answer(
    question: Question, *, with_remedies: bool = True, timer: StepTimer | None = None, view: Outlook | None = None,
    progress: Progress = silent,
) -> Answer:  # fmt: skip
    """Answer a Question.

    Parameters
    ----------
    question : what is asked
    with_remedies : solve the changes that would help, where the limits do not hold
    timer, view : of the same deployment; the view at the batch that is asked: to share what they remember
    progress : told how many changes were tried, of how many
    """
    case = resolve(question)
    timer = timer or timer_for(case.deployment, case.workload.draft_tokens)
    largest, load, given = None, None, question.chunk or question.budget
    if case.loaded:
        from chunkcalc.answer.demand import settle  # noqa: PLC0415 - a batch needs none of it

        view, verdict, load = settle(case, timer)
    else:
        own, given = _at_batch(case, timer)
        view = view or own
        verdict = judge(view, given)
        largest = largest_batch(case, timer) if verdict.name == OVERLOADED else None
    found = _assemble(case, view, timer, verdict, given is not None, largest, load)
    if not with_remedies or found.verdict == "feasible":
        return found
    return replace(found, looked_for_remedies=True, remedies=remedies(found, verdict.pools, holding_answer, progress))


def holding_answer(question: Question) -> Answer | None:
    """The answer of a question whose limits hold; None where they do not, which takes less time to say."""
    case = resolve(question)
    timer, load, given = timer_for(case.deployment, case.workload.draft_tokens), None, question.chunk or question.budget
    if case.loaded:
        from chunkcalc.answer.demand import holding  # noqa: PLC0415 - a batch needs none of it

        held = holding(case, timer)
        if held is None:
            return None
        view, verdict, load = held
    else:
        view, given = _at_batch(case, timer)
        if misses(view, given):
            return None
        verdict = judge(view, given)
    return _assemble(case, view, timer, verdict, given is not None, None, load)


def _at_batch(case: Case, timer: StepTimer) -> tuple[Outlook, int | None]:
    """The deployment at the batch that is asked, or at its largest, and the chunk to judge there."""
    batch = max(1, largest_batch(case, timer)) if case.batch is None else case.batch
    return outlook(case.deployment, replace(case.workload, batch=batch), case.slo, timer), chunk_of(case, batch)


def largest_batch(case: Case, timer: StepTimer) -> int:
    """The largest batch whose limits hold with their error bands to spare; else without; else 0.

    Whether some chunk keeps every limit can only change from yes to no as the batch grows, so this
    is a bisection. With the bands to spare, a slightly smaller batch that has an aligned budget is
    preferred where there is one.

    Returns
    -------
    requests of the whole replica [token]
    """

    def view(batch: int) -> Outlook:
        return outlook(case.deployment, replace(case.workload, batch=batch), case.slo, timer)

    fits = capacity(case.deployment, case.workload, 1.0).max_concurrency
    for margin in (True, False):
        high = min(fits, IN_FLIGHT * case.deployment.parallelism.dp)
        most = largest(lambda batch: keeps(view(batch), margin=margin), 0, high)  # noqa: B023 - called here
        if most:
            near = range(most, max(0, most - ALIGNED_WITHIN), -1)
            return next((batch for batch in near if aligned_best(view(batch), margin=margin) is not None), most)
    return 0


def knee(deployment: Deployment) -> float | None:
    """Tokens per step at which the heaviest linear layers turn from memory- to compute-bound.

    (eta / beta) * (P / B) * (bytes per weight) / 2, times E/k for routed experts; independent of
    the model's size.

    Returns
    -------
    tokens per step over all attention ranks [token]
    """
    hardware, precision = deployment.hardware, deployment.precision
    ffns = [group.ffn for group in deployment.model.layers]
    experts = next((ffn for ffn in ffns if isinstance(ffn, Moe)), None)
    form, dtype = ("moe", precision.experts) if experts else ("gemm", precision.dense)
    reached = hardware.efficiency[f"{form}.{dtype}"]
    rate = peak(hardware, dtype) or hardware.peak["bf16"]
    tokens = reached.compute * rate / (reached.memory * hardware.bandwidth) * WEIGHT_BYTES[dtype] / 2
    return tokens * experts.experts / experts.top_k if experts else tokens


def _assemble(
    case: Case, view: Outlook, timer: StepTimer, verdict: Verdict, given: bool, largest: int | None, load: Load | None
) -> Answer:
    service, chunk, workload = view.expected, verdict.chunk, view.workload
    limits = every_limit(view)
    tpot_error, ttft_error = view.bands
    reasons = verdict.reasons
    if largest is not None:
        most = f"carries a batch of at most {largest}" if largest else "is beyond a single request, back to back"
        reasons = (*reasons, f"a steady state within the limits {most}")
    budget = chunk + view.offset
    ratios = view.ratios(chunk)
    chunking = _chunking(view, chunk)
    # More waiting prompt tokens than this cannot start within the limit: better turned away.
    limit = case.slo.ttft if verdict.name in (FEASIBLE, MARGINAL) else None
    queued = int(limit * chunking.prompt_tokens_per_s) if limit else None
    return Answer(
        case=case, workload=workload, slo=view.slo, verdict=verdict.name, certain=verdict.certain,
        needs_disaggregation=verdict.pools is not None, reasons=reasons,
        chunk=chunk, budget=budget, given=given, aligned=budget % view.alignment == 0,
        window=window(view, limits), headroom=min(ratios.values()) if ratios else None,
        utilisation=service.utilisation(chunk), balance=service.balance, max_batch=largest,
        textbook=textbook(case.deployment, workload, case.slo, chunk, view.longest_chunk),
        floor=_reading(view.floor, chunk), expected=_reading(service, chunk),
        judged_tpot_s=view.judged_tpot(service, chunk) if service.b else None,
        tpot_error=tpot_error, ttft_error=ttft_error, itl_error=view.gap_band,
        step=timer.step(*service.prefill.longest(chunk)),
        knee=knee(case.deployment), chunking=chunking,
        capacity=capacity(case.deployment, workload, chunk), load=load, prompt_tokens=service.prefill.tokens,
        looked_for_remedies=False, remedies=(),
        flags={case.deployment.engine.name: flags(case.deployment, _admitted(workload, load), chunk, budget, queued)},
        warnings=tuple(_warnings(case, view, verdict, budget)),
    )  # fmt: skip


def _admitted(workload: Workload, load: Load | None) -> Workload:
    """The workload with the most requests at once that its flags must let in."""
    if load is None:
        return workload
    spread = load.users if load.users is not None else math.ceil(workload.batch + SPREAD * math.sqrt(workload.batch))
    return replace(workload, batch=spread)


def _reading(service: Service, c: int) -> Reading:
    decoding = service.b > 0
    return Reading(
        step_s=service.prefill.longest_step(c),
        decode_step_s=service.decode_step if decoding else None,
        ttft_s=service.ttft(c),
        tpot_s=service.tpot(c) if decoding else None,
        itl_s=service.gap(c) if decoding else None,
    )


def _chunking(view: Outlook, chunk: int) -> Chunking:
    service, deployment, workload = view.expected, view.deployment, view.workload
    prefill, ranks = service.prefill, deployment.parallelism.dp
    whole = prefill.total(prefill.tokens)
    stall = service.gap(prefill.tokens) if service.b else whole
    beside = service.step(min(chunk, prefill.tokens), prefill.cached, service.b, service.s)
    alone = service.step(min(chunk, prefill.tokens), prefill.cached, 0.0, service.s)
    again = math.ceil(prefill.tokens / chunk) - 1
    tpot = service.tpot(chunk) if service.b else None
    return Chunking(
        stall_unchunked_s=stall,
        ttft_unchunked_s=whole + service.request_overhead,
        ride_along_s=beside - alone,
        decode_alone_s=service.decode_step if service.b else None,
        extra_weight_bytes=again
        * counts.gpu_weight_bytes(deployment.model, deployment.precision, deployment.parallelism),
        prompt_tokens_per_s=ranks * prefill.rate(chunk),
        output_tokens_per_s=workload.batch / tpot if tpot and service.utilisation(chunk) < 1 else None,
        prompt_tokens_per_s_unchunked=ranks * prefill.rate(prefill.tokens),
    )


def _warnings(case: Case, view: Outlook, verdict: Verdict, budget: int) -> list[str]:
    out = []
    if view.uncalibrated:
        out.append(f"uncalibrated on {case.deployment.hardware.id}: {', '.join(view.uncalibrated)}; the band is wider")
    if verdict.name == MARGINAL:
        out.append("marginal: the limit lies inside the error band of the prediction; measure before relying on it")
    if budget % view.alignment:
        edge = _tile_step(case, budget)
        out.append(f"budget {budget} is not a multiple of {view.alignment}{edge}")
    yaml = yaml_options(case.deployment)
    if yaml:
        out.append(f"TensorRT-LLM takes these from its YAML options only: {'; '.join(yaml)}")
    if view.workload.draft_tokens:
        out.append("the flags leave out the draft model: add your speculative configuration")
    if case.question.mixed_chunk and view.workload.draft_tokens:
        out.append("SGLang switches mixed chunks off with most speculative decoding algorithms")
    return out


def _tile_step(case: Case, budget: int) -> str:
    """The measured step-up just above the largest tile edge below a budget."""
    dtype = case.deployment.precision.weights
    table = case.deployment.hardware.tile_penalty.get(dtype) or case.deployment.hardware.tile_penalty.get(
        COMPUTE_DTYPE[dtype], {}
    )
    edges = [m for m in table if m <= budget]
    if not edges or table[max(edges)] < NEAR_TILE_EDGE:
        return ""
    return f": one row above {max(edges)} was measured {100 * (table[max(edges)] - 1):.0f} % slower"
