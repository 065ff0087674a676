"""A question with a rate or a number of users: the setting that carries it, and the verdict under it."""

from __future__ import annotations

import math
from dataclasses import replace

from chunkcalc.answer.composition import other_ways
from chunkcalc.answer.demand import Demand, Settled
from chunkcalc.answer.disaggregation import Disaggregation, disaggregate
from chunkcalc.answer.judged import Outlook, outlook
from chunkcalc.answer.records import DISAGGREGATE, OVERLOADED, RETUNE, Load
from chunkcalc.answer.resolve import Case
from chunkcalc.answer.verdict import Verdict, apart, beyond, broken, certificates, judge, may_hold
from chunkcalc.time.step import StepTimer, timer_for
from chunkcalc.units import format_at_most, format_count, format_duration


def settle(case: Case, timer: StepTimer, places: int | None = None) -> tuple[Outlook, Verdict, Load]:
    """The view, the verdict and the load of a question with a rate or users.

    Parameters
    ----------
    case, timer : the deployment, and its timer
    places : requests that a rank runs at once; None for as many as its memory holds
    """
    demand = Demand(case, timer, places=places)
    given = demand.given()
    settled = demand.best() if given is None else demand.at(given)
    if settled is not None and settled.keeps:
        return _told(demand, settled, replace(judge(settled.view, settled.chunk), window=demand.window(settled)))
    near = settled is not None and may_hold(settled.view, settled.chunk)
    best = settled if given is None else demand.best()
    hint, owner = "", demand
    if best is not None and best.keeps:
        hint = f"budget {format_count(best.budget)} keeps every limit under this load"
    elif given is not None:
        for words, other in _recomposed(case, places):
            found = other.best()
            if found is not None and found.keeps:
                best, owner = found, other
                hint = f"{words} at budget {format_count(found.budget)} keeps every limit under this load"
                break
    if given is not None and best is not None and hint:
        shown = settled or demand.fullest(given)
        endless = "" if settled else "under this load its queue grows without end"
        failing = tuple(filter(None, (endless, *broken(shown.view, shown.chunk), hint)))
        verdict = Verdict(name=RETUNE, chunk=shown.chunk, may_hold=near, reasons=failing, window=owner.window(best))
        return _told(demand, shown, verdict, steady=settled is not None)
    most = own = demand.fullest()
    carried = 0.0
    reasons: tuple[str, ...] = ("a lone request already misses the limits",)
    for words, other in [("", demand), *_recomposed(case, places)]:
        fullest = own if other is demand else other.fullest()
        load = other.highest(fullest.budget) if fullest.keeps else 0.0
        if load > carried:
            most, carried, reasons = fullest, load, _reasons(other, settled, fullest, words)
    pools = disaggregate(own.view, demand.arrivals, case.question.rate)
    shown = settled or (own if given is None else demand.fullest(given))
    verdict = _failing(demand, shown, most, pools, carried, reasons)
    return _told(demand, shown, replace(verdict, may_hold=near), steady=settled is not None)


def _recomposed(case: Case, places: int | None) -> list[tuple[str, Demand]]:
    """The same traffic on other compositions of the steps, in words each."""
    out = []
    for way in other_ways(case.deployment.engine, case.workload.draft_tokens):
        deployment = replace(case.deployment, engine=way.engine)
        timer = timer_for(deployment, case.workload.draft_tokens)
        out.append((way.words, Demand(replace(case, deployment=deployment), timer, places=places)))
    return out


def holding(case: Case, timer: StepTimer) -> tuple[Outlook, Verdict, Load] | None:
    """What `settle` returns where the limits hold, without how much more would; None where they do not."""
    if certificates(lone := outlook(case.deployment, replace(case.workload, batch=1), case.slo, timer), lone.expected):
        return None
    demand = Demand(case, timer, thorough=False)
    given = demand.given()
    if given is None and demand.hopeless():
        return None
    settled = demand.best() if given is None else demand.at(given)
    if settled is None or not settled.keeps:
        return None
    return _told(demand, settled, judge(settled.view, settled.chunk))


def _told(demand: Demand, settled: Settled, verdict: Verdict, *, steady: bool = True) -> tuple[Outlook, Verdict, Load]:
    """What `settle` returns for a setting."""
    load = Load(
        rate=demand.rate, users=demand.users, percentile=demand.percentile, flow=settled.flow, steady=steady,
        shown=settled.load, highest=demand.highest(settled.budget) if demand.thorough else None,
        limit=demand.limit(settled.budget) if demand.thorough else None,
        wait_s=settled.view.expected.queueing.wait,
    )  # fmt: skip
    return settled.view, verdict, load


def _reasons(demand: Demand, settled: Settled | None, most: Settled, words: str = "") -> tuple[str, ...]:
    """Why a load is too much, and how many replicas carry it."""
    out, slo, highest = [], demand.slo, demand.highest(most.budget)
    unit = " requests/s" if demand.users is None else " users"
    if settled is None:
        out.append(f"at {demand.asked:g}{unit} the queue grows without end")
    else:
        view, chunk = settled.view, settled.chunk
        wait = view.expected.queueing.wait
        if slo.ttft is not None and view.expected.ttft(chunk) - wait <= slo.ttft < view.expected.ttft(chunk):
            waiting = f"{format_duration(wait)} of TTFT is waiting"
            out.append(f"at {demand.asked:g}{unit}, {waiting}: the queue decides, not the chunk")
        out += broken(view, chunk)
    how = f"budget {format_count(most.budget)}" + (f", {words}" if words else "")
    best = f"within the limits one replica carries {format_at_most(highest)}{unit} ({how})"
    return (f"{best}: {max(2, math.ceil(demand.asked / highest))} carry this", *out)


def _failing(
    demand: Demand,
    shown: Settled,
    most: Settled,
    pools: Disaggregation | None,
    together: float,
    reasons: tuple[str, ...],
) -> Verdict:
    """The verdict where no budget carries the load: less of it, separate units, or other hardware.

    Parameters
    ----------
    shown : the setting that the answer shows
    most : the one that carries most
    pools : separate units within the limits
    together : the load that `most` carries [request/s], [1]
    reasons : why the load is too much
    """
    view, gpus = most.view, demand.case.deployment.parallelism.gpus
    rate = 0.0 if not together else together if demand.users is None else most.flow.rate
    if pools is not None and pools.rate / pools.gpus > rate / gpus and _fewer_apart(demand, pools, rate):
        least = (apart(pools, rate / gpus, f"{together:.3g} {demand.unit}" if together else ""), *reasons)
        return Verdict(name=DISAGGREGATE, chunk=shown.chunk, pools=pools, reasons=least)
    if together:
        return Verdict(name=OVERLOADED, chunk=shown.chunk, reasons=reasons)
    return beyond(view, shown.chunk, (*reasons, *broken(view, most.chunk)), may=False)


def _fewer_apart(demand: Demand, pools: Disaggregation, rate: float) -> bool:
    """Whether the asked rate itself takes fewer GPUs apart than replicas that each carry a rate."""
    if demand.rate is None or not rate:
        return True
    return pools.gpus < math.ceil(demand.rate / rate) * demand.case.deployment.parallelism.gpus
