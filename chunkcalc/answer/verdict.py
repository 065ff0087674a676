"""From an outlook to a verdict: what holds, what does not, and whether that is certain.

Decided in this order: feasible; the certificates that no chunk can change (scale_up, impossible);
marginal; retune; overloaded; disaggregate; scale_up. A failing verdict is certain when the floor
already fails: then no engine can do it on this hardware.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from chunkcalc.answer.disaggregation import (
    Disaggregation,
    disaggregate,
    outlook_for,
    prefill_certificate,
)
from chunkcalc.answer.judged import Outlook
from chunkcalc.answer.recommendation import recommend
from chunkcalc.answer.records import (
    DISAGGREGATE,
    FEASIBLE,
    IMPOSSIBLE,
    MARGINAL,
    OVERLOADED,
    RETUNE,
    SCALE_UP,
)
from chunkcalc.catalog.lookup import load_hardware
from chunkcalc.catalog.precision import peak
from chunkcalc.engines import engine_for
from chunkcalc.engines.capacity import largest_step, needed_bytes, pool_bytes
from chunkcalc.engines.dialects import INTERVAL, MIXING
from chunkcalc.frozen import dataclass
from chunkcalc.records import Hardware
from chunkcalc.time.search import first
from chunkcalc.time.service import Service
from chunkcalc.units import format_bytes, format_count, format_duration
from chunkcalc.work import attention, counts

FASTEST = {"nvidia": "b300", "amd": "mi355x"}  # the vendor's fastest shipped GPU, by name
FAILS = "fails"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A verdict at a chunk [token] with its reasons, the most important first."""

    name: str
    chunk: int
    certain: bool = False
    reasons: tuple[str, ...] = ()
    pools: Disaggregation | None = None


class Setting(NamedTuple):
    """Another setting of the engine, in words, and the status it gives."""

    words: str
    status: str


def status(view: Outlook, c: int) -> str:
    """`feasible`, `marginal` or `fails` at one chunk.

    Parameters
    ----------
    view : the deployment
    c : chunk [token]
    """
    if not all(rule.holds(c) for rule in view.rules(view.expected)):
        return FAILS
    ratios = view.ratios(c)
    if all(ratio >= 1 + view.band(name) for name, ratio in ratios.items()):
        return FEASIBLE
    return MARGINAL if all(ratio >= 1 / (1 + view.band(name)) for name, ratio in ratios.items()) else FAILS


def misses(view: Outlook, given: int | None) -> bool:
    """Whether the verdict can only be a failing one: the limits are missed by more than their error bands.

    Parameters
    ----------
    view : the deployment
    given : the chunk to judge; None to judge the best [token]
    """
    if given:
        return status(view, given) == FAILS
    best = recommend(view)
    return best is None or status(view, best.chunk) == FAILS


def judge(view: Outlook, given: int | None) -> Verdict:  # noqa: PLR0911 - one return per verdict
    """The verdict of a deployment.

    Parameters
    ----------
    view : the deployment
    given : the chunk to judge; None to judge the best [token]
    """
    if given and status(view, given) == FEASIBLE:
        return Verdict(name=FEASIBLE, chunk=given, reasons=(_margin(view, given),))
    best = recommend(view)
    if best is None:
        chunk = given or view.aligned.start
        return Verdict(name=SCALE_UP, chunk=chunk, certain=_overflows(view), reasons=(_memory_reason(view),))
    chunk = given or best.chunk
    found = status(view, chunk)
    if found == FEASIBLE:
        return Verdict(name=FEASIBLE, chunk=chunk, reasons=(_margin(view, chunk),))
    failing = tuple(broken(view, chunk))
    setting = other_setting(view)
    if setting is not None and setting.status == FEASIBLE and view.slo.itl is not None:
        return _retune_by_setting(view, chunk, failing, setting)
    failed = certificates(view, view.expected)
    if failed:
        return _certificate_verdict(view, chunk, failed)
    if found == MARGINAL:
        return Verdict(name=MARGINAL, chunk=chunk, reasons=(_margin(view, chunk),))
    if given and best.keeps:
        certain = not all(limit.holds(chunk) for limit in [view.memory_rule(), *view.latency_limits(view.floor)])
        hint = f"the window is not empty: chunk {best.chunk} keeps every limit"
        return Verdict(name=RETUNE, chunk=chunk, certain=certain, reasons=(*failing, hint))
    if setting is not None:
        return _retune_by_setting(view, chunk, failing, setting)
    if given and status(view, best.chunk) == MARGINAL:
        hint = f"the best chunk, {best.chunk}, is marginal"
        return Verdict(name=RETUNE, chunk=chunk, reasons=(*failing, hint))
    return _no_chunk(view, chunk, failing)


def _retune_by_setting(view: Outlook, chunk: int, failing: tuple[str, ...], setting: Setting) -> Verdict:
    hint = f"{setting.words} keeps every limit"
    return Verdict(name=RETUNE, chunk=chunk, certain=_empty_on_floor(view), reasons=(*failing, hint))


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


def other_setting(view: Outlook) -> Setting | None:
    """What an engine that runs prompts first could set instead, if that keeps every limit.

    Returns
    -------
    the better of mixed chunks and a decode step after every prompt step
    """
    engine = view.deployment.engine
    if engine.composition != "prefill_first":
        return None
    step_judged = view.slo if view.slo.basis_given else replace(view.slo, tpot_basis="step")
    mixed = replace(engine, composition="mixed", budget_counts_decodes=True, prefill_interval=0)
    tried = [(f"mixing decodes into the prompt chunks ({MIXING})", mixed, step_judged)]
    if not engine.prefill_interval:
        spaced = replace(engine, prefill_interval=1)
        tried.append((f"a decode step after every prompt step ({INTERVAL} 1)", spaced, view.slo))
    found = []
    for words, other, slo in tried:
        changed = outlook_for(replace(view, slo=slo), engine=other)
        best = recommend(changed)
        if best is not None and best.keeps:
            found.append(Setting(words, status(changed, best.chunk)))
    return min(found, key=lambda setting: setting.status, default=None)  # feasible before marginal


def _no_chunk(view: Outlook, chunk: int, failing: tuple[str, ...]) -> Verdict:
    """No chunk keeps everything: is it the load, the mixing, or the hardware?"""
    service, memory = view.expected, view.memory_rule()
    if first([memory, *view.latency_limits(service)], 1, view.longest_chunk) is not None:
        # For engines that mix, utilisation is arithmetic; where prompts go first it is a prediction.
        floor = [*view.latency_limits(view.floor), *view.rules(service)]
        certain = service.mixed and first(floor, 1, view.longest_chunk) is None
        return Verdict(name=OVERLOADED, chunk=chunk, certain=certain, reasons=(_overload_reason(view), *failing))
    certain = _empty_on_floor(view)
    empty = "no chunk keeps every limit"
    pools = disaggregate(view)
    if pools is None:
        return Verdict(name=SCALE_UP, chunk=chunk, certain=certain, reasons=(empty, *failing))
    apart = (
        f"apart they do: prefill in {format_duration(pools.ttft_s)} with the KV transfer, "
        f"decode in {format_duration(pools.tpot_s)}, {pools.prefill_units} prefill : {pools.decode_units} decode units"
    )
    return Verdict(
        name=DISAGGREGATE,
        chunk=chunk,
        certain=certain,
        reasons=(empty, *failing, apart),
        pools=pools,
    )


def _empty_on_floor(view: Outlook) -> bool:
    """Whether no chunk keeps memory and the latency limits even on the floor."""
    return first([view.memory_rule(), *view.latency_limits(view.floor)], 1, view.longest_chunk) is None


def _certificate_verdict(view: Outlook, chunk: int, failed: list[str]) -> Verdict:
    certain = bool(certificates(view, view.floor))
    if certain and _hopeless(view):
        best = FASTEST[view.deployment.hardware.vendor]
        reason = f"even the floor of a whole node of {best} misses it"
        return Verdict(name=IMPOSSIBLE, chunk=chunk, certain=True, reasons=(*failed, reason))
    return Verdict(name=SCALE_UP, chunk=chunk, certain=certain, reasons=tuple(failed))


def _hopeless(view: Outlook) -> bool:
    """Whether the certificates fail on the floor of one node of the vendor's fastest GPU too."""
    name = FASTEST.get(view.deployment.hardware.vendor)
    if name is None:
        return False
    hardware: Hardware = load_hardware(name).record
    if peak(hardware, view.deployment.precision.weights) is None:
        return False
    heads = [attention.heads(group.attention) for group in view.deployment.model.layers]
    tp = max(n for n in range(1, hardware.link.gpus_per_node + 1) if all(count % n == 0 for count in heads))
    parallelism = replace(view.deployment.parallelism, tp=tp, pp=1, dp=1, ep=1)
    engine = engine_for(view.deployment.engine.name, hardware, view.deployment.engine.version, parallelism)
    other = outlook_for(view, hardware=hardware, parallelism=parallelism, engine=engine)
    return bool(certificates(other, other.floor))


def _overflows(view: Outlook) -> bool:
    """Whether weights and KV alone exceed the whole memory, without any reserve."""
    deployment = view.deployment
    weights = counts.gpu_weight_bytes(deployment.model, deployment.precision, deployment.parallelism)
    needed = needed_bytes(deployment, view.workload, view.workload.batch)
    return bool(weights + needed > deployment.hardware.memory)


def _memory_reason(view: Outlook) -> str:
    deployment = view.deployment
    weights = counts.gpu_weight_bytes(deployment.model, deployment.precision, deployment.parallelism)
    needed = needed_bytes(deployment, view.workload, view.workload.batch)
    pool = pool_bytes(deployment, *largest_step(deployment, view.workload, 1))
    if pool <= 0:
        memory = format_bytes(deployment.hardware.memory)
        return f"the weights alone do not fit: {format_bytes(weights)} per GPU of {memory}"
    return (
        f"this batch does not fit: its KV cache needs {format_bytes(needed)} per GPU, and the weights "
        f"({format_bytes(weights)}) leave {format_bytes(pool)}"
    )


def _overload_reason(view: Outlook) -> str:
    batch, limit = view.workload.batch, view.slo.max_utilisation
    steady = f"the latency limits leave chunks, but a steady state of {batch} decode{'s' if batch != 1 else ''}"
    if not view.expected.mixed:
        return f"{steady} spends more than {100 * limit:.0f}% of the time on prompts"
    return f"{steady} needs at least {format_count(view.expected.balance / limit)} prompt tokens per step"


def _margin(view: Outlook, chunk: int) -> str:
    ratios = view.ratios(chunk)
    if not ratios:
        return "no latency limit was given"
    tightest = min(ratios, key=lambda name: ratios[name])
    name = {"ttft": "TTFT", "tpot": "TPOT", "itl": "the longest gap"}[tightest]
    percent = 100 * (1 / ratios[tightest] - 1)
    needed = 100 * (1 - 1 / (1 + view.band(tightest)))
    if percent > 0:
        return f"{name} is predicted {percent:.0f}% over its limit, inside the error band"
    return f"the tightest limit is {name}: predicted {-percent:.0f}% below it, {needed:.0f}% is needed to be sure"


def broken(view: Outlook, chunk: int) -> list[str]:
    """What fails at a chunk, each with its number and limit.

    Parameters
    ----------
    view : the deployment
    chunk : chunk [token]
    """
    service, slo, out = view.expected, view.slo, []
    ratios = view.ratios(chunk)
    names = {
        "ttft": "TTFT",
        "tpot": "the step" if slo.tpot_basis == "step" else "mean TPOT",
        "itl": "the longest gap",
    }
    limits = {"ttft": slo.ttft, "tpot": slo.tpot, "itl": slo.itl}
    for name, ratio in sorted(ratios.items(), key=lambda item: item[1]):
        limit = limits[name]
        if ratio < 1 and limit is not None:
            out.append(
                f"at chunk {chunk}, {names[name]} is {format_duration(limit / ratio)} over {format_duration(limit)}"
            )
    if service.utilisation(chunk) > slo.max_utilisation:
        out.append(f"at chunk {chunk}, utilisation is {service.utilisation(chunk):.2f} over {slo.max_utilisation:g}")
    if view.memory_share(chunk) > 1:
        out.append(f"at chunk {chunk}, the KV cache of this batch does not fit beside the activations")
    return out
