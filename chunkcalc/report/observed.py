"""A running server as text and as chunkcalc.observe/1."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from chunkcalc.gate.deployed import Deployed
from chunkcalc.gate.finding import Finding
from chunkcalc.report.gate import json as gate
from chunkcalc.report.tables import WIDTH
from chunkcalc.scoring.observed import Load, Observed, Seen
from chunkcalc.units import format_count, format_duration

SCHEMA = "chunkcalc.observe/1"
LABEL = 13
NAMES = {
    "ttft": "TTFT, mean",
    "ttft_p95": "TTFT, p95",
    "tpot": "TPOT, mean",
    "itl_p99": "gap, p99",
    "queue": "queued, mean",
}
CAUSES = "another GPU, version or format than described, other work on the host, or a power limit"


def text(found: Observed, deployment: Deployed | None, findings: Sequence[Finding], log: Sequence[str]) -> str:
    """The report of `chunkcalc observe`.

    Parameters
    ----------
    found : the server as it was seen
    deployment : as described; None where nothing was
    findings : of it, under the load that was seen
    log : what its start-up log says against what is predicted, as sentences
    """
    rows = textwrap.wrap(_headline(deployment, findings), WIDTH)
    rows += _labelled("server", _server(found, deployment))
    rows += _labelled("load", _load(found.load))
    rows += ["", f"{'':<{LABEL}}{'measured':>10}{'predicted':>11}{'off':>7}{'band':>7}", *map(_row, found.seen)]
    unexplained = [NAMES[each.name] for each in found.seen if each.explained is False]
    if unexplained:
        rows += _labelled("unexplained", f"{', '.join(unexplained)}: {CAUSES}")
    for index, sentence in enumerate(log):
        rows += _labelled("" if index else "start-up", sentence)
    for index, finding in enumerate(findings):
        fix = f"; {finding.fix.text}" if finding.fix is not None else ""
        rows += _labelled("" if index else "advice", f"{finding.level} {finding.rule}: {finding.message}{fix}")
    for index, note in enumerate(found.notes):
        rows += _labelled("" if index else "note", note)
    return "\n".join(rows)


def _headline(deployment: Deployed | None, findings: Sequence[Finding]) -> str:
    if deployment is None:
        return "SEEN: nothing is predicted without the deployment (--config FILE, or its command after --)"
    if deployment.answer is None:
        return f"SEEN: nothing is predicted: {'; '.join(deployment.missing) or 'this deployment is not modelled'}"
    verdict = deployment.answer.verdict.replace("_", " ").upper()
    fixes = [each for each in findings if each.fix is not None and each.level == "error"]
    return f"{verdict} under the load that was seen" + (f": {fixes[0].fix.text}" if fixes and fixes[0].fix else "")


def _server(found: Observed, deployment: Deployed | None) -> str:
    page = found.page
    said = f"{page.engine}, {page.model or 'no name'}"
    if page.kv_tokens:
        said += f", KV cache {format_count(page.kv_tokens)} tokens"
    if deployment is not None and deployment.gpu:
        said += f"; described as {deployment.model} on {deployment.gpus or '?'} x {deployment.gpu}"
    return said


def _load(load: Load) -> str:
    parts = [f"{load.requests:,.0f} requests of {load.prompt:,.0f} + {load.output:,.0f} tokens"]
    if load.rate is not None:
        parts.append(f"{load.rate:.3g} requests/s")
    if load.users is not None:
        parts.append(f"{load.users:.3g} in flight")
    if load.prefix_hit > 0.005:
        parts.append(f"{100 * load.prefix_hit:.0f} % of the prompts cached")
    return ", ".join(parts)


def _row(seen: Seen) -> str:
    predicted = "-" if seen.predicted is None else format_duration(seen.predicted)
    off = "-" if seen.predicted is None else f"{100 * (seen.predicted / seen.measured - 1):+.0f} %"
    band = "-" if seen.band is None else f"\u00b1{100 * seen.band:.0f} %"
    return f"{NAMES[seen.name]:<{LABEL}}{format_duration(seen.measured):>10}{predicted:>11}{off:>7}{band:>7}"


def _labelled(label: str, words: str) -> list[str]:
    lines = textwrap.wrap(words, WIDTH - LABEL, break_long_words=False, break_on_hyphens=False) or [""]
    return [f"{label if not index else '':<{LABEL}}{line}" for index, line in enumerate(lines)]


def json(
    found: Observed, deployment: Deployed | None, findings: Sequence[Finding], log: Sequence[str]
) -> dict[str, Any]:  # fmt: skip
    """The schema chunkcalc.observe/1.

    Parameters
    ----------
    found, deployment, findings, log : as of `text`
    """
    return {
        "schema": SCHEMA, "engine": found.page.engine, "model": found.page.model, "kv_tokens": found.page.kv_tokens,
        "load": found.load._asdict(),
        "latencies": {
            each.name: {
                "measured_s": each.measured, "predicted_s": each.predicted, "band": each.band,
                "explained": each.explained,
            }
            for each in found.seen
        },
        "start_up": list(log), "notes": list(found.notes),
        "deployment": None if deployment is None else gate.deployment(deployment),
        "findings": [gate.finding(each) for each in findings],
    }  # fmt: skip
