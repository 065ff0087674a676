"""From an outlook to a verdict: what holds, what does not, and whether that is certain.

The first that applies, from good to bad: feasible; marginal; retune; overloaded or disaggregate; scale_up;
impossible. Verdicts go by prediction. A failing one may hold where it misses by less than the error bands, and is
certain where the floor already fails: then no engine can do it on this hardware.
"""

from __future__ import annotations

from dataclasses import replace

from chunkcalc.answer.batches import most_within, with_batch
from chunkcalc.answer.composition import recomposed
from chunkcalc.answer.disaggregation import Disaggregation, disaggregate, prefill_certificate
from chunkcalc.answer.judged import Outlook
from chunkcalc.answer.pools import Arrivals
from chunkcalc.answer.reach import reached
from chunkcalc.answer.recommendation import keeping, recommend
from chunkcalc.answer.records import (
    DISAGGREGATE,
    FEASIBLE,
    IMPOSSIBLE,
    MARGINAL,
    OVERLOADED,
    RETUNE,
    SCALE_UP,
)
from chunkcalc.answer.window import Window
from chunkcalc.engines.capacity import largest_step, needed_bytes, pool_bytes
from chunkcalc.frozen import dataclass
from chunkcalc.time.search import first
from chunkcalc.time.service import Service
from chunkcalc.units import format_bytes, format_count, format_duration
from chunkcalc.work import counts

FAILS = "fails"
NAMES = {"ttft": "TTFT", "tpot": "TPOT", "itl": "the gap"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A verdict at a chunk [token] with its reasons, the most important first.

    certain : the floor already fails
    may_hold : what is missed is missed by less than its band
    most : the largest batch within the limits, where it was looked for; 0 where a lone request fails [token]
    window : under traffic, which every budget makes its own; None elsewhere
    """

    name: str
    chunk: int
    certain: bool = False
    may_hold: bool = False
    reasons: tuple[str, ...] = ()
    pools: Disaggregation | None = None
    most: int | None = None
    window: Window | None = None


def status(view: Outlook, c: int) -> str:
    """`feasible`, `marginal` or `fails` at one chunk, by prediction.

    Parameters
    ----------
    view : the deployment
    c : chunk [token]
    """
    ratios = view.ratios(c)
    if any(ratio < 1 for ratio in ratios.values()) or not all(rule.holds(c) for rule in view.rules(view.expected)):
        return FAILS
    return FEASIBLE if all(ratio >= 1 + view.band(name) for name, ratio in ratios.items()) else MARGINAL


def may_hold(view: Outlook, c: int) -> bool:
    """Whether what is missed at a chunk is missed by less than its band.

    Parameters
    ----------
    view : the deployment
    c : chunk [token]
    """
    if not all(rule.holds(c) for rule in view.rules(view.expected)):
        return False
    return all(ratio >= 1 / (1 + view.band(name)) for name, ratio in view.ratios(c).items())


def judge(view: Outlook, given: int | None, arrivals: Arrivals = Arrivals()) -> Verdict:  # noqa: B008
    """The verdict of a deployment.

    Parameters
    ----------
    view : the deployment
    given : the chunk to judge; None to judge the best [token]
    arrivals : how requests would come to separate units
    """
    chunk = given or recommend(view).chunk
    found = status(view, chunk)
    if found != FAILS:
        return Verdict(name=found, chunk=chunk, reasons=(_margin(view, chunk),))
    failing = tuple(broken(view, chunk))
    near = may_hold(view, chunk)
    best = keeping(view) if given else None
    if best is not None:
        certain = not all(limit.holds(chunk) for limit in [view.memory_rule(), *view.latency_limits(view.floor)])
        budget = format_count(best + view.offset)
        hint = f"budget {budget} (chunk {format_count(best)}) keeps every limit"
        return Verdict(name=RETUNE, chunk=chunk, certain=certain, may_hold=near, reasons=(*failing, hint))
    words = _other_way(view)
    if words is not None:
        hint = f"{words} keeps every limit"
        return Verdict(name=RETUNE, chunk=chunk, certain=_empty_on_floor(view), may_hold=near, reasons=(*failing, hint))
    return _no_chunk(view, chunk, failing, near, arrivals)


def holds(view: Outlook, given: int | None) -> bool:
    """Whether the verdict is feasible or marginal, which takes less time to say.

    Parameters
    ----------
    view : the deployment
    given : the chunk to judge; None to judge the best [token]
    """
    return status(view, given or recommend(view).chunk) != FAILS


def _other_way(view: Outlook) -> str | None:
    """How steps could be composed so that every limit holds, for sure where that can be; None where no way does."""
    kept = [(way.words, each, keeping(each)) for way, each in recomposed(view)]
    found = [(words, status(each, best)) for words, each, best in kept if best is not None]
    return min(found, key=lambda each: each[1], default=(None, ""))[0]  # feasible before marginal


def _no_chunk(view: Outlook, chunk: int, failing: tuple[str, ...], near: bool, arrivals: Arrivals) -> Verdict:
    """No chunk keeps everything: is it the load, the mixing, or the hardware?"""
    certain, batch = _certain(view), view.workload.batch
    most, together, words = _most_together(view)
    pools = disaggregate(view, arrivals)
    failed = _memory_reasons(view) or ("no chunk keeps every limit", *failing)
    if pools is not None and pools.rate / pools.gpus > together:
        return Verdict(
            name=DISAGGREGATE, chunk=chunk, certain=certain, may_hold=near, most=most, pools=pools,
            reasons=(apart(pools, together, f"batch {most:,}" if most else ""), *failed),
        )  # fmt: skip
    if most:
        reason = f"batch {most:,} instead of {batch:,} keeps every limit{words}"
        return Verdict(
            name=OVERLOADED, chunk=chunk, certain=certain, may_hold=near, most=most, pools=None,
            reasons=(reason, *failed),
        )  # fmt: skip
    alone = (*_memory_reasons(view), *certificates(view, view.expected))
    return beyond(view, chunk, alone or failed, may=near)


def _most_together(view: Outlook) -> tuple[int, float, str]:
    """The largest smaller batch within the limits, however steps are composed.

    Returns
    -------
    the batch, 0 where a lone request fails; the requests that it finishes, per GPU [request/s]; how, in words
    """
    batch, found = view.workload.batch, []
    for words, each in [("", view), *((f", {way.words}", other) for way, other in recomposed(view))]:
        most = most_within(each, margin=False, below=batch) if batch > 1 else 0
        found.append((most, _rate_per_gpu(each, most), words))
    return max(found, key=lambda each: each[1])


def beyond(view: Outlook, chunk: int, reasons: tuple[str, ...], *, may: bool) -> Verdict:
    """The verdict where not even a lone request keeps the limits on this deployment.

    Parameters
    ----------
    view : the deployment
    chunk : that is judged, or closest [token]
    reasons : what fails
    may : it may hold all the same
    """
    best = reached(view)
    if best is None:
        vendor = view.deployment.hardware.vendor.upper()
        reason = (
            f"a lone request misses it on the floor of every shipped {vendor} GPU, in every format it computes, "
            "at every number of GPUs up to its link domain"
        )
        return Verdict(name=IMPOSSIBLE, chunk=chunk, certain=True, reasons=(reason, *reasons), most=0)
    reason = f"the floor of {best} keeps the limits for a lone request"
    certain = _certain(view)
    return Verdict(name=SCALE_UP, chunk=chunk, certain=certain, may_hold=may, reasons=(reason, *reasons), most=0)


def _rate_per_gpu(view: Outlook, batch: int) -> float:
    """Requests that the replica finishes at its best chunk with a batch, per GPU.

    Returns
    -------
    rate [request/s]
    """
    if not batch:
        return 0.0
    fewer = with_batch(view, batch)
    tpot = fewer.expected.tpot(recommend(fewer).chunk)
    return float(batch / tpot / max(1, view.workload.output - 1) / view.deployment.parallelism.gpus)


def apart(pools: Disaggregation, together: float, load: str) -> str:
    """What separate units do, against the largest load together.

    Parameters
    ----------
    pools : the units
    together : requests that the replica finishes within the limits, per GPU [request/s]
    load : that it carries, in words; empty where a lone request fails
    """
    units = f"{pools.prefill_units} prefill : {pools.decode_units} decode units, {pools.gpus} GPUs"
    against = f", {together:.3g} with {load} together" if load else ""
    return (
        f"apart they do ({units}, {pools.rate / pools.gpus:.3g} requests/s per GPU{against}): "
        f"TTFT {format_duration(pools.ttft_s)} with its wait and {format_duration(pools.transfer_s)} of KV transfer, "
        f"TPOT {format_duration(pools.tpot_s)}"
    )


def certificates(view: Outlook, service: Service) -> list[str]:
    """Sentences that say why no chunk can work; empty when none does."""
    out, slo, batch = [], view.slo, view.workload.batch
    decodes = f"{batch} decodes alone take" if batch != 1 else "1 decode alone takes"
    per_token = service.decode_step / service.accepted
    if slo.tpot is not None and per_token > slo.tpot:
        out.append(f"{decodes} {format_duration(per_token)} per token, over {format_duration(slo.tpot)}")
    elif slo.itl is not None and service.decode_step > slo.itl:
        out.append(f"{decodes} {format_duration(service.decode_step)} per step, over {format_duration(slo.itl)}")
    if prefill_certificate(view, service, slo):
        out.append(f"a prompt alone misses TTFT {format_duration(slo.ttft)} at every chunk")
    return out


def _empty_on_floor(view: Outlook) -> bool:
    """Whether no chunk keeps memory and the latency limits even on the floor."""
    return first([view.memory_rule(), *view.latency_limits(view.floor)], 1, view.longest_chunk) is None


def _certain(view: Outlook) -> bool:
    """The same, however steps are composed."""
    return _empty_on_floor(view) and all(_empty_on_floor(each) for _, each in recomposed(view))


def _memory_reasons(view: Outlook) -> tuple[str, ...]:
    """Why the batch does not fit at any chunk; empty where it does."""
    if view.memory_share(1) <= 1:
        return ()
    deployment, batch = view.deployment, view.workload.batch
    weights = counts.gpu_weight_bytes(deployment.model, deployment.precision, deployment.parallelism)
    needed = needed_bytes(deployment, view.workload, batch)
    bare = replace(view.workload, batch=0)
    if pool_bytes(deployment, *largest_step(deployment, bare, 1)) <= 0:
        memory = format_bytes(deployment.hardware.memory)
        return (f"the weights alone do not fit: {format_bytes(weights)} per GPU of {memory}",)
    pool = max(0.0, pool_bytes(deployment, *largest_step(deployment, view.workload, 1)))
    return (
        f"batch {batch:,} does not fit: its KV cache needs {format_bytes(needed)} per GPU, and the weights "
        f"({format_bytes(weights)}) and activations leave {format_bytes(pool)}",
    )


def _margin(view: Outlook, chunk: int) -> str:
    ratios = view.ratios(chunk)
    if not ratios:
        return "no latency limit was given"
    # What decides is the limit that is nearest to its band.
    tightest = min(ratios, key=lambda name: ratios[name] / (1 + view.band(name)))
    percent = 100 * (1 - 1 / ratios[tightest])
    needed = 100 * (1 - 1 / (1 + view.band(tightest)))
    return f"{NAMES[tightest]} is predicted {percent:.0f}% below its limit; {needed:.0f}% is needed to be sure"


def broken(view: Outlook, chunk: int) -> list[str]:
    """What fails at a chunk, each with its number and limit.

    Parameters
    ----------
    view : the deployment
    chunk : chunk [token]
    """
    service, out = view.expected, []
    ratios = view.ratios(chunk)
    at = f"at budget {format_count(chunk + view.offset)}"
    for each in sorted(view.judged, key=lambda each: ratios[each.name]):
        if ratios[each.name] < 1:
            predicted = format_duration(each.value / ratios[each.name])
            out.append(f"{at}, {NAMES[each.name]} is {predicted} over {format_duration(each.value)}")
    most = view.slo.max_utilisation
    if service.utilisation(chunk) > most:
        out.append(f"{at}, {_full(view, chunk)}")
    if view.memory_share(chunk) > 1:
        out.append(f"{at}, the KV cache of this batch does not fit beside the activations")
    return out


def _full(view: Outlook, chunk: int) -> str:
    """Why there is no steady state with room to spare at a chunk."""
    service, most = view.expected, view.slo.max_utilisation
    said = f"utilisation is {service.utilisation(chunk):.2f} over {most:g}"
    if not service.mixed:
        return said
    return f"{said}: a steady state needs {format_count(service.balance / most)} prompt tokens per step"
