"""JUnit XML: a suite per file, a case per deployment and rule."""

from __future__ import annotations

from xml.sax.saxutils import quoteattr

from chunkcalc.gate.check import Report, Unknown
from chunkcalc.gate.deployed import Deployed
from chunkcalc.gate.finding import Finding
from chunkcalc.manifests.process import SKIPPED
from chunkcalc.report.gate.words import numbers, sentence, title


def render(report: Report, policy: Unknown = "warn") -> str:
    """Failures for errors, skipped for what is waived or unknown, numbers as output."""
    files = list(dict.fromkeys([d.file for d in report.deployments] + [f.file for f in report.findings]))
    suites = [_suite(file, report, policy) for file in files]
    totals = [sum(suite[0][key] for suite in suites) for key in ("tests", "failures", "skipped")]
    head = f'<testsuites name="chunkcalc" tests="{totals[0]}" failures="{totals[1]}">'
    body = "".join(suite[1] for suite in suites)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{head}\n{body}</testsuites>\n'


def _suite(file: str, report: Report, policy: Unknown) -> tuple[dict[str, int], str]:
    cases: list[str] = []
    counts = {"tests": 0, "failures": 0, "skipped": 0}
    for each in (d for d in report.deployments if d.file == file):
        cases.append(_deployment(each, policy, counts))
    cases += [_finding(finding, counts) for finding in report.findings if finding.file == file]
    attributes = f'name={_quoted(file)} tests="{counts["tests"]}" failures="{counts["failures"]}"'
    attributes += f' errors="0" skipped="{counts["skipped"]}"'
    return counts, f"  <testsuite {attributes}>\n{''.join(cases)}  </testsuite>\n"


def _deployment(each: Deployed, policy: Unknown, counts: dict[str, int]) -> str:
    name = f"{title(each)} (line {each.line})"
    inside = ""
    if each.status in ("unknown", SKIPPED) and policy != "ignore":
        inside = f"<skipped message={_quoted('; '.join(each.missing))}/>"
        if policy == "fail":
            inside = f"<failure message={_quoted('; '.join(each.missing))}/>"
    elif each.status == "disabled":
        inside = '<skipped message="disabled"/>'
    output = numbers(each)
    inside += f"<system-out>{_text(output)}</system-out>" if output else ""
    return _case(each.file, name, inside, counts)


def _finding(finding: Finding, counts: dict[str, int]) -> str:
    name = f"{finding.rule} {finding.subject or finding.flag or 'line'} (line {finding.line})"
    if finding.waived is not None:
        inside = f"<skipped message={_quoted(finding.waived)}/>"
    elif finding.level == "error":
        inside = f"<failure message={_quoted(sentence(finding))}/>"
    else:
        inside = f"<system-out>{_text(finding.level + ': ' + sentence(finding))}</system-out>"
    return _case(finding.file, name, inside, counts)


def _case(file: str, name: str, inside: str, counts: dict[str, int]) -> str:
    counts["tests"] += 1
    counts["failures"] += "<failure" in inside
    counts["skipped"] += "<skipped" in inside
    return f"    <testcase classname={_quoted(file)} name={_quoted(name)}>{inside}</testcase>\n"


def _quoted(text: str) -> str:
    return quoteattr(_allowed(text))


def _text(text: str) -> str:
    return _allowed(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _allowed(text: str) -> str:
    """XML takes no control characters."""
    return "".join(c if c.isprintable() else "?" for c in text)
