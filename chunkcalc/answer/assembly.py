"""From a view and its verdict to the answer: every number that a report prints."""

from __future__ import annotations

import math
from dataclasses import replace

from chunkcalc.answer.judged import Judged, Outlook
from chunkcalc.answer.recommendation import safest
from chunkcalc.answer.records import (
    DISAGGREGATE,
    FEASIBLE,
    MARGINAL,
    Answer,
    Chunking,
    LimitLine,
    Load,
    MeanAlone,
    Reading,
)
from chunkcalc.answer.resolve import Case
from chunkcalc.answer.verdict import Verdict
from chunkcalc.answer.window import NO_WINDOW, Window, every_limit, keeps, window
from chunkcalc.catalog.precision import COMPUTE_DTYPE, peak
from chunkcalc.engines.capacity import capacity
from chunkcalc.engines.flags import flags, yaml_options
from chunkcalc.engines.tables import order
from chunkcalc.records import WEIGHT_BYTES, Deployment, Moe, Workload
from chunkcalc.textbook.forms import textbook
from chunkcalc.time.search import last
from chunkcalc.time.service import Service
from chunkcalc.time.step import StepTimer
from chunkcalc.work import counts

SPREAD = 4.0  # standard deviations of a Poisson batch for which the limit of requests leaves room
NEAR_TILE_EDGE = 1.05  # a measured step-up at the next tile above this is worth a warning


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
    reached = hardware.under(deployment.engine.name)[f"{form}.{dtype}"]
    rate = peak(hardware, dtype) or hardware.peak["bf16"]
    tokens = reached.compute * rate / (reached.memory * hardware.bandwidth) * WEIGHT_BYTES[dtype] / 2
    return tokens * experts.experts / experts.top_k if experts else tokens


def assemble(case: Case, view: Outlook, timer: StepTimer, verdict: Verdict, given: bool, load: Load | None) -> Answer:
    """The answer of a verdict.

    Parameters
    ----------
    case : the question with its names resolved
    view, timer : the deployment under the workload that is answered for
    verdict : at a chunk
    given : whether that chunk was asked about
    load : the traffic, where there is one
    """
    service, chunk, workload = view.expected, verdict.chunk, view.workload
    budget = chunk + view.offset
    ratios = view.ratios(chunk)
    chunking = _chunking(view, chunk)
    # More waiting prompt tokens than this cannot start within the limit: better turned away.
    limit = case.slo.ttft if verdict.name in (FEASIBLE, MARGINAL) else None
    queued = int(limit * chunking.prompt_tokens_per_s) if limit else None
    return Answer(
        case=case, workload=workload, slo=view.slo, verdict=verdict.name, certain=verdict.certain,
        may_hold=verdict.may_hold, needs_disaggregation=verdict.name == DISAGGREGATE, pools=verdict.pools,
        reasons=verdict.reasons, chunk=chunk, budget=budget, given=given,
        safest_chunk=None if given or verdict.name != FEASIBLE else safest(view),
        aligned=budget % view.alignment == 0,
        window=_window(view, verdict, load), headroom=min(ratios.values()) if ratios else None,
        utilisation=service.utilisation(chunk), balance=service.balance, max_batch=verdict.most,
        textbook=textbook(case.deployment, workload, case.slo, chunk, view.longest_chunk),
        floor=_reading(view.floor, chunk), expected=_reading(service, chunk),
        limits=tuple(limit_line(view, each, chunk, load) for each in view.judged),
        mean_alone=_mean_alone(view, chunk) if load is None or load.steady else None,
        error=view.error,
        step=timer.step(*service.prefill.longest(chunk)),
        knee=knee(case.deployment), host=None, chunking=chunking,
        capacity=capacity(case.deployment, workload, chunk), load=load, prompt_tokens=service.prefill.tokens,
        looked_for_remedies=False, remedies=(),
        flags={case.deployment.engine.name: flags(case.deployment, _admitted(workload, load), chunk, budget, queued)},
        warnings=tuple(_warnings(case, view, verdict, budget)),
    )  # fmt: skip


def _window(view: Outlook, verdict: Verdict, load: Load | None) -> Window:
    """The chunks that keep every limit; under traffic those that its verdict found."""
    if verdict.window is not None:
        return verdict.window
    if load is not None and verdict.name not in (FEASIBLE, MARGINAL):
        return NO_WINDOW
    return window(view, every_limit(view))


def limit_line(view: Outlook, each: Judged, chunk: int, load: Load | None) -> LimitLine:
    """A limit with what it judges at a chunk; nothing is predicted where the load has no steady state."""
    predicted = float(each.of(view.expected, chunk))
    held = "no" if predicted > each.value else "yes" if predicted * (1 + each.band) <= each.value else "close"
    steady = load is None or load.steady
    return LimitLine(
        name=each.name, judges=_judges(view, each.name, load), limit=each.value,
        predicted=predicted if steady else None, floor=float(each.of(view.floor, chunk)), band=each.band,
        holds=held if steady else "no",
    )  # fmt: skip


def _judges(view: Outlook, name: str, load: Load | None) -> str:
    if name == "ttft" and load is None:
        return "without waiting"
    if name == "ttft":
        return (
            "mean with its wait" if load is None or load.percentile is None else f"p{load.percentile:g} with its wait"
        )
    if name == "tpot":
        return "mean of a request"
    if view.expected.mixed:
        return "longest step"
    return "prompt step + decode" if view.expected.interval else "whole prompt + decode"


def _mean_alone(view: Outlook, chunk: int) -> MeanAlone | None:
    """What the limits give without that of the gap."""
    if view.slo.tpot is None or view.slo.itl is None or not view.expected.b:
        return None
    bare = replace(view, slo=replace(view.slo, itl=None))
    most = last(every_limit(bare), 1, bare.longest_chunk)
    found = "fails" if most is None else FEASIBLE if keeps(bare, margin=True) else MARGINAL
    return MeanAlone(
        verdict=found, budget_max=None if most is None else most + bare.offset, tpot_s=float(view.expected.tpot(chunk))
    )


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
    return Chunking(
        stall_unchunked_s=stall,
        ttft_unchunked_s=whole + service.request_overhead,
        ride_along_s=beside - alone,
        decode_alone_s=service.decode_step if service.b else None,
        extra_weight_bytes=again
        * counts.gpu_weight_bytes(deployment.model, deployment.precision, deployment.parallelism),
        prompt_tokens_per_s=ranks * prefill.rate(chunk),
        output_tokens_per_s=_output_rate(service, workload, chunk),
        output_tokens_per_s_unchunked=_output_rate(service, workload, prefill.tokens),
        prompt_tokens_per_s_unchunked=ranks * prefill.rate(prefill.tokens),
    )


def _output_rate(service: Service, workload: Workload, chunk: int) -> float | None:
    """Tokens that the replica gives out in a steady state at a chunk; None where there is none [token/s]."""
    return workload.batch / service.tpot(chunk) if service.b and service.utilisation(chunk) < 1 else None


def _warnings(case: Case, view: Outlook, verdict: Verdict, budget: int) -> list[str]:
    out = []
    if view.uncalibrated:
        out.append(f"uncalibrated on {case.deployment.hardware.id}: {', '.join(view.uncalibrated)}; the band is wider")
    engine, gpu = case.deployment.engine.name, case.deployment.hardware
    if engine not in gpu.measured and not view.uncalibrated:
        out.append(f"nobody published a run of {engine} on {gpu.id}: the bands are those of GPUs left out")
    newest, version = gpu.newest.get(engine), case.deployment.engine.version
    if newest and order(version) > order(newest):
        out.append(f"{engine} {version} is newer than any that was measured ({newest})")
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
