"""SARIF 2.1.0 for code scanning: every rule declared, stable fingerprints, waivers as suppressions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any
from urllib.parse import quote

from chunkcalc.gate.catalogue import UNKNOWN, rules
from chunkcalc.gate.check import Report, Unknown
from chunkcalc.gate.finding import Finding
from chunkcalc.report.gate.words import DOCS, sentence, unknowns

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def render(report: Report, policy: Unknown = "warn") -> str:
    """One run with every rule and every finding."""
    declared = [_rule(r.id, r.title, f"{r.why} {r.remedy}", r.level) for r in rules()]
    declared.append(
        _rule(UNKNOWN, "cannot be evaluated", "Something that decides is not stated in the file.", "warning")
    )
    declared.sort(key=lambda entry: str(entry["id"]))
    index = {str(entry["id"]): at for at, entry in enumerate(declared)}
    findings = [*report.findings, *unknowns(report, policy)]
    driver = {
        "name": "chunkcalc", "semanticVersion": version("chunkcalc"), "informationUri": DOCS, "rules": declared,
    }  # fmt: skip
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, index, count) for finding, count in zip(findings, _seen(findings), strict=True)],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False) + "\n"


def _rule(name: str, title: str, text: str, level: str) -> dict[str, Any]:
    return {
        "id": name, "name": _pascal(title), "shortDescription": {"text": title}, "fullDescription": {"text": text},
        "help": {"text": text}, "helpUri": f"{DOCS}#{name.lower()}", "defaultConfiguration": {"level": level},
    }  # fmt: skip


def _pascal(title: str) -> str:
    return "".join(word.capitalize() for word in "".join(c if c.isalnum() else " " for c in title).split())


def _seen(findings: list[Finding]) -> list[int]:
    """How often each fingerprint came before."""
    counts: dict[str, int] = {}
    out = []
    for finding in findings:
        out.append(counts.get(finding.fingerprint, 0))
        counts[finding.fingerprint] = out[-1] + 1
    return out


def _artifact(file: str) -> dict[str, str]:
    """A file of the repository; one outside it has no base."""
    return {"uri": quote(file)} | ({} if file.startswith("..") else {"uriBaseId": "%SRCROOT%"})


def _result(finding: Finding, index: Mapping[str, int], count: int) -> dict[str, Any]:
    location = {
        "physicalLocation": {
            "artifactLocation": _artifact(finding.file),
            "region": {"startLine": max(1, finding.line)},
        }
    }
    out: dict[str, Any] = {
        "ruleId": finding.rule, "ruleIndex": index[finding.rule], "level": finding.level,
        "message": {"text": sentence(finding)}, "locations": [location],
        "partialFingerprints": {"chunkcalc/v1": f"{finding.fingerprint}:{count}"},
        "properties": {"class": finding.kind},
    }  # fmt: skip
    if finding.waived is not None:
        out["suppressions"] = [{"kind": "inSource", "status": "accepted", "justification": finding.waived}]
    return out
