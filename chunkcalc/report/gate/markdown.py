"""The gate's report as Markdown, for a step summary or a comment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chunkcalc.gate.check import Report, Unknown
from chunkcalc.report.gate.words import advice, numbers, sentence, state, summary, title, unknowns, worst_first

if TYPE_CHECKING:
    from chunkcalc.gate.compare import Row

MOST_BYTES = 2**20  # of a step summary
MOST_ROWS = 500
MARKS = {"error": "❌", "warning": "⚠️", "note": "ℹ️"}


def render(report: Report, policy: Unknown = "warn", rows: list[Row] | None = None) -> str:
    """Tables of findings and deployments, the worst first; at most 1 MiB.

    Parameters
    ----------
    report : what was found
    policy : --unknown
    rows : a comparison with another state, where there is one
    """
    out = ["## chunkcalc", "", summary(report), ""]
    if rows is not None:
        out += [*comparison(rows), ""]
    findings = worst_first([*report.counting(), *unknowns(report, policy)])
    if findings:
        out += ["| | rule | where | finding |", "|---|---|---|---|"]
        for finding in findings[:MOST_ROWS]:
            where = f"`{finding.file}:{finding.line}`"
            out.append(f"| {MARKS[finding.level]} | {finding.rule} | {_cell(where)} | {_cell(sentence(finding))} |")
        out += [f"\n{len(findings) - MOST_ROWS} more"] if len(findings) > MOST_ROWS else []
        out.append("")
    live = [each for each in report.deployments if each.status != "disabled"]
    if live:
        out += ["<details><summary>Deployments</summary>", "", "| deployment | verdict | numbers |", "|---|---|---|"]
        for each in live[:MOST_ROWS]:
            place = f"{each.file}:{each.line} {title(each)}"
            out.append(f"| {_cell(place)} | {state(each)} | {_cell(numbers(each))} |")
        out += ["", "</details>", ""]
    out += [f"To check more: {line}." for line in advice(report.deployments)]
    text = "\n".join(out).rstrip() + "\n"
    data = text.encode()
    return text if len(data) <= MOST_BYTES else data[: MOST_BYTES - 64].decode(errors="ignore") + "\n\n(cut off)\n"


def comparison(rows: list[Row]) -> list[str]:
    """A table of what changed, before -> after."""
    if not rows:
        return ["No deployment changed."]
    out = ["| deployment | TTFT | TPOT | chunk | KV tokens | batch | verdict |", "|---|---|---|---|---|---|---|"]
    out += [f"| {_cell(row.name)} | " + " | ".join(_cell(cell) for cell in row.cells()) + " |" for row in rows]
    return [*out, "", "TPOT is what its limit judges: the longest step where the engine mixes, else the mean."]


def _cell(text: str) -> str:
    """Text that can neither end its cell nor become a link or a mention."""
    safe = "".join(c if c.isprintable() else "?" for c in text).replace("\\", "\\\\").replace("|", "\\|")
    return safe.replace("<", "&lt;").replace(">", "&gt;").replace("@", "&#64;")
