"""A replay as text, as chunkcalc.replay/1 and as a CSV of requests."""

from __future__ import annotations

import csv
import io
import textwrap
from typing import Any

from chunkcalc.answer.replay import SHOWN, Simulation
from chunkcalc.answer.resolve import Case
from chunkcalc.records import Slo
from chunkcalc.report.tables import WIDTH, table
from chunkcalc.units import format_count, format_duration

SCHEMA = "chunkcalc.replay/1"
NAMES = {"ttft": "TTFT", "tpot": "mean TPOT", "itl": "token gap"}


def text(case: Case, found: Simulation, slo: Slo | None = None) -> str:
    """The report of `chunkcalc replay`.

    Parameters
    ----------
    case, found : what was replayed, and what it gave
    slo : limits of single requests; None without any
    """
    deployment, finished = case.deployment, found.finished
    gpus = deployment.parallelism.gpus
    engine = f"{deployment.engine.name} {deployment.engine.version}"
    subject = f"{deployment.model.id}, {deployment.precision.weights} weights, on {gpus} x {deployment.hardware.id}"
    scheduler = found.scheduler
    kv = "unbounded" if scheduler.kv_tokens is None else f"{format_count(scheduler.kv_tokens)} tokens"
    rejected = len(found.served) - len(finished)
    preempted = sum(each.preempted > 0 for each in finished)
    tokens = sum(each.request.output for each in finished)
    rows = [
        f"{subject} under {engine}",
        f"budget {format_count(scheduler.budget)}, at most {format_count(scheduler.most_running)} at once, "
        f"KV cache {kv}{' per rank' if deployment.parallelism.dp > 1 else ''}",
        "",
        f"{format_count(len(found.served))} requests in {format_duration(found.duration_s)}: "
        f"{format_count(len(finished))} finished, {format_count(rejected)} rejected, "
        f"{format_count(preempted)} preempted",
    ]
    if rejected:
        rows.append("rejected: longer than the model, the KV cache, or an unchunked step")
    if found.outrun:
        rows.append("more arrives than is served: the queue grew to the end, so its times say little")
    if finished:
        rate = f"{len(finished) / found.duration_s:.3g} requests/s, {tokens / found.duration_s:,.0f} output tokens/s"
        rows += [f"{rate}, {found.batch:.3g} decoding at once, busy {100 * found.busy:.0f}%", "", _times(found)]
    if slo is not None and found.served:
        rows += ["", *textwrap.wrap(_goodput(found, slo), WIDTH)]
    return "\n".join(rows)


def _goodput(found: Simulation, slo: Slo) -> str:
    """How many requests were within the limits, and what the others missed."""
    got = found.attained(slo)
    limits = {"ttft": slo.ttft, "tpot": slo.tpot, "itl": slo.itl}
    said = ", ".join(f"{NAMES[name]} {format_duration(limits[name] or 0.0)}" for name in got.missed)
    out = f"goodput {got.rate:.3g} requests/s: {100 * got.share:.4g} % of the requests within {said}"
    lost = [f"{format_count(count)} over {NAMES[name]}" for name, count in got.missed.items() if count]
    if lost:
        out += f"; {', '.join(lost)}"
    if got.late_prompt is not None:
        mean = sum(each.request.prompt for each in found.served) / len(found.served)
        out += f" (late ones have {got.late_prompt:,.0f} prompt tokens, all of them {mean:,.0f})"
    return out


def _times(found: Simulation) -> str:
    head = ("", "mean", *(f"p{q}" for q in SHOWN))
    rows = []
    for name, label in NAMES.items():
        values = getattr(found, name)
        if values:
            rows.append((label, *(format_duration(value) for value in values.values())))
    return table(head, rows)


def json(found: Simulation, slo: Slo | None = None) -> dict[str, Any]:
    """The schema chunkcalc.replay/1.

    Parameters
    ----------
    found : what the replay gave
    slo : limits of single requests; None without any
    """
    got = None if slo is None else found.attained(slo)
    finished = found.finished
    duration = found.duration_s
    return {
        "schema": SCHEMA,
        "requests": len(found.served),
        "finished": len(finished),
        "rejected": len(found.served) - len(finished),
        "preempted": sum(each.preempted > 0 for each in finished),
        "outrun": found.outrun,
        "attainment": None if got is None else got.share,
        "goodput": None if got is None else got.rate,
        "missed": None if got is None else dict(got.missed),
        "duration_s": duration,
        **{f"{name}_ms": _milliseconds(getattr(found, name)) for name in NAMES},
        "requests_per_s": len(finished) / duration if duration else None,
        "output_tokens_per_s": sum(each.request.output for each in finished) / duration if duration else None,
        "batch": found.batch,
        "busy": found.busy,
        "steps": found.steps,
        "prompt_steps": found.prompt_steps,
        "budget": found.scheduler.budget,
        "max_num_seqs": found.scheduler.most_running,
        "kv_tokens": found.scheduler.kv_tokens,
    }


def _milliseconds(values: dict[str, float] | None) -> dict[str, float] | None:
    return None if values is None else {name: 1e3 * value for name, value in values.items()}


def per_request(found: Simulation) -> str:
    """A CSV with a row per request, by arrival; empty where a request was rejected."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(("arrival_s", "input", "output", "ttft_ms", "tpot_ms", "max_itl_ms", "finished_s", "preempted"))
    for each in found.served:
        times = (each.ttft, each.tpot, each.gap)
        row = [f"{each.request.arrival:.6f}", each.request.prompt, each.request.output]
        row += ["" if time is None else f"{1e3 * time:.3f}" for time in times]
        rows.writerow([*row, "" if each.finished is None else f"{each.finished:.6f}", each.preempted])
    return out.getvalue()
