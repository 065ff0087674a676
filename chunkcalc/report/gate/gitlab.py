"""GitLab code quality."""

from __future__ import annotations

import json

from chunkcalc.gate.check import Report, Unknown
from chunkcalc.report.gate.words import sentence, unknowns

SEVERITY = {"error": "critical", "warning": "minor", "note": "info"}


def render(report: Report, policy: Unknown = "warn") -> str:
    """A list of issues, each with a fingerprint of its own."""
    counts: dict[str, int] = {}
    out = []
    for finding in [*report.counting(), *unknowns(report, policy)]:
        count = counts.get(finding.fingerprint, 0)
        counts[finding.fingerprint] = count + 1
        out.append(
            {
                "description": sentence(finding),
                "check_name": finding.rule,
                "fingerprint": finding.fingerprint + (f"-{count}" if count else ""),
                "severity": SEVERITY[finding.level],
                "location": {"path": finding.file, "lines": {"begin": max(1, finding.line)}},
            }
        )
    return json.dumps(out, indent=2, ensure_ascii=False) + "\n"
