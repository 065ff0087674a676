"""What 10 per cent more of something changes: the answer solved again, nothing linearised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from chunkcalc.answer.judged import Outlook, outlook
from chunkcalc.answer.records import Answer
from chunkcalc.answer.window import every_limit, window
from chunkcalc.catalog.lookup import with_link
from chunkcalc.records import Deployment, Slo, Workload

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
    amount : how much, where it is a whole number: before and after; else None
    limit : whether it is a limit: asked for, not given
    values : after it
    """

    what: str
    amount: tuple[int, int] | None
    limit: bool
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
    times = ("decode_layer", "expert_layer", "norm_layer", "sequence", "request", "prompt_token", "latent_request")
    slower = each.with_host(MORE)._replace(**{name: getattr(each, name) * MORE for name in times})
    return replace(deployment, engine=replace(deployment.engine, overheads=slower)), workload, slo


def _more(value: int) -> int:
    """A whole number, 10 % more as nearly as there is one, and at least one more."""
    return max(value + 1, round(value * MORE))


def _batch(setup: Setup) -> Setup:
    deployment, workload, slo = setup
    return deployment, replace(workload, batch=_more(workload.batch)), slo


def _context(setup: Setup) -> Setup:
    deployment, workload, slo = setup
    return deployment, replace(workload, context=_more(workload.context)), slo


def _prompt(setup: Setup) -> Setup:
    """The decodes' contexts grow with it: they hold the prompts of requests like this one."""
    deployment, workload, slo = setup
    prompt = _more(workload.prompt)
    return deployment, replace(workload, prompt=prompt, context=workload.context + prompt - workload.prompt), slo


def _limit(name: str) -> Callable[[Setup], Setup]:
    def change(setup: Setup) -> Setup:
        deployment, workload, slo = setup
        moved = {name: getattr(slo, name) * MORE}
        if name == "tpot" and slo.itl is not None and not slo.itl_given:
            moved["itl"] = slo.itl * MORE  # which follows it
        return deployment, workload, replace(slo, **moved)

    return change


CHANGES: tuple[tuple[str, Callable[[Setup], Setup], Callable[[Setup], bool]], ...] = (
    ("memory bandwidth", _bandwidth, lambda _: True),
    ("arithmetic", _arithmetic, lambda _: True),
    ("link bandwidth", _link, lambda setup: setup[0].parallelism.gpus > 1),
    ("host time of the engine", _host, lambda _: True),
    ("decoding requests", _batch, lambda setup: setup[1].batch > 0),
    ("context of the decodes", _context, lambda setup: setup[1].batch > 0),
    ("prompt tokens", _prompt, lambda _: True),
    ("TPOT allowed", _limit("tpot"), lambda setup: setup[2].tpot is not None),
    ("longest gap allowed", _limit("itl"), lambda setup: setup[2].itl_given and setup[2].itl is not None),
    ("TTFT allowed", _limit("ttft"), lambda setup: setup[2].ttft is not None),
)


def changes(answer: Answer) -> tuple[Values, list[Change]]:
    """The answer's values, and those with 10 % more of each thing that has a part in it."""
    setup: Setup = (answer.case.deployment, answer.workload, answer.slo)
    found = []
    for what, change, applies in CHANGES:
        if applies(setup):
            after = change(setup)
            values = _values(outlook(*after), answer)
            found.append(Change(what, _amount(setup[1], after[1]), after[2] != setup[2], values))
    return _values(outlook(*setup), answer), found


def _amount(before: Workload, after: Workload) -> tuple[int, int] | None:
    pairs = ((getattr(before, name), getattr(after, name)) for name in ("batch", "prompt", "context"))
    return next((pair for pair in pairs if pair[0] != pair[1]), None)


def _values(view: Outlook, answer: Answer) -> Values:
    """At the same budget, which is what a flag sets; at the same chunk where more decodes leave nothing of it."""
    service, budget = view.expected, answer.budget
    chunk = budget - view.offset if budget > view.offset else answer.chunk
    ends = window(view, every_limit(view))
    return Values(
        ends.chunk_min, ends.chunk_max, service.prefill.longest_step(chunk), service.ttft(chunk),
        service.tpot(chunk) if service.b else None,
    )  # fmt: skip
