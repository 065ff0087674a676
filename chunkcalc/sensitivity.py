"""What 10 per cent more of something changes: the answer solved again, nothing linearised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from chunkcalc.answer import Answer
from chunkcalc.catalog import with_link
from chunkcalc.outlook import Outlook, outlook
from chunkcalc.records import Deployment, Slo, Workload
from chunkcalc.window import window

MORE = 1.1
Setup = tuple[Deployment, Workload, Slo]


class Values(NamedTuple):
    """What may move, at the answer's budget.

    chunk_min, chunk_max : window [token]; None where it is empty
    step, ttft, tpot : longest step, time to first token, mean time per token [s]
    """

    chunk_min: int | None
    chunk_max: int | None
    step: float
    ttft: float
    tpot: float | None


class Change(NamedTuple):
    """One thing changed.

    what : in words
    values : after it
    """

    what: str
    values: Values


def _bandwidth(setup: Setup) -> Setup:
    deployment, workload, slo = setup
    hardware = replace(deployment.hardware, bandwidth=deployment.hardware.bandwidth * MORE)
    return replace(deployment, hardware=hardware), workload, slo


def _arithmetic(setup: Setup) -> Setup:
    deployment, workload, slo = setup
    peaks = {dtype: rate * MORE for dtype, rate in deployment.hardware.peak.items()}
    return replace(deployment, hardware=replace(deployment.hardware, peak=peaks)), workload, slo


def _link(setup: Setup) -> Setup:
    deployment, workload, slo = setup
    hardware = deployment.hardware
    return replace(deployment, hardware=with_link(hardware, hardware.link.bandwidth * MORE, None)), workload, slo


def _host(setup: Setup) -> Setup:
    deployment, workload, slo = setup
    each = deployment.engine.overheads
    times = ("decode_layer", "prompt_layer", "expert_layer", "norm_layer", "least_prompt_layer", "sequence")
    slower = each._replace(**{name: getattr(each, name) * MORE for name in times})
    return replace(deployment, engine=replace(deployment.engine, overheads=slower)), workload, slo


def _workload(**names: float) -> Callable[[Setup], Setup]:
    def change(setup: Setup) -> Setup:
        deployment, workload, slo = setup
        more = {
            name: max(getattr(workload, name) + 1, round(getattr(workload, name) * by)) for name, by in names.items()
        }
        return deployment, replace(workload, **more), slo

    return change


def _limit(name: str) -> Callable[[Setup], Setup]:
    def change(setup: Setup) -> Setup:
        deployment, workload, slo = setup
        return deployment, workload, replace(slo, **{name: getattr(slo, name) * MORE})

    return change


CHANGES: tuple[tuple[str, Callable[[Setup], Setup], Callable[[Setup], bool]], ...] = (
    ("memory bandwidth", _bandwidth, lambda _: True),
    ("arithmetic", _arithmetic, lambda _: True),
    ("link bandwidth", _link, lambda setup: setup[0].parallelism.gpus > 1),
    ("host time of the engine", _host, lambda _: True),
    ("decoding requests", _workload(batch=MORE), lambda setup: setup[1].batch > 0),
    ("context of the decodes", _workload(context=MORE), lambda setup: setup[1].batch > 0),
    ("prompt tokens", _workload(prompt=MORE), lambda _: True),
    ("TPOT allowed", _limit("tpot"), lambda setup: setup[2].tpot is not None),
    ("longest gap allowed", _limit("itl"), lambda setup: setup[2].itl is not None),
    ("TTFT allowed", _limit("ttft"), lambda setup: setup[2].ttft is not None),
)


def changes(answer: Answer) -> tuple[Values, list[Change]]:
    """The answer's values, and those with 10 % more of each thing that has a part in it.

    Parameters
    ----------
    answer : the answer
    """
    setup: Setup = (answer.case.deployment, answer.workload, answer.slo)
    found = [
        Change(what, _values(outlook(*change(setup)), answer.budget))
        for what, change, applies in CHANGES
        if applies(setup)
    ]
    return _values(outlook(*setup), answer.budget), found


def _values(view: Outlook, budget: int) -> Values:
    """At the same budget, which is what a flag sets; more decodes leave the chunk less of it."""
    service, chunk = view.expected, max(1, budget - view.offset)
    ends = window(view, [*view.latency_limits(service), *view.rules(service)])
    return Values(
        ends.chunk_min, ends.chunk_max, service.prefill.longest_step(chunk), service.ttft(chunk),
        service.tpot(chunk) if service.b else None,
    )  # fmt: skip
