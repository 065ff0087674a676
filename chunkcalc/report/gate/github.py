"""GitHub annotations: worst first, escaped, and no more than GitHub shows."""

from __future__ import annotations

from chunkcalc.gate.check import Report, Unknown
from chunkcalc.report.gate.words import ORDER, sentence, summary, unknowns, worst_first

MOST_PER_LEVEL = 10  # that GitHub shows of a step
COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def render(report: Report, policy: Unknown = "warn") -> str:
    """Workflow commands, then how many more there are."""
    findings = worst_first([*report.counting(), *unknowns(report, policy)])
    out, left = [], 0
    for level in ORDER:
        mine = [finding for finding in findings if finding.level == level]
        left += max(0, len(mine) - MOST_PER_LEVEL)
        for finding in mine[:MOST_PER_LEVEL]:
            place = f"file={_property(finding.file)},line={finding.line}"
            label = f"title={_property('chunkcalc ' + finding.rule)}"
            out.append(f"::{COMMANDS[level]} {place},{label}::{_data(sentence(finding))}")
    more = f"; {left} more in the summary" if left else ""
    return "\n".join([*out, f"chunkcalc: {summary(report)}{more}"]) + "\n"


def _data(text: str) -> str:
    text = "".join(c if c.isprintable() or c in "\r\n" else "?" for c in text)
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
