"""The gate's report for a terminal."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

from chunkcalc.gate.check import Report
from chunkcalc.gate.deployed import Deployed
from chunkcalc.gate.finding import Finding
from chunkcalc.gate.settings import DURATIONS
from chunkcalc.manifests.process import SKIPPED
from chunkcalc.report.gate.words import advice, meanings, numbers, state, summary, title
from chunkcalc.units import format_duration

if TYPE_CHECKING:
    from chunkcalc.gate.compare import Row

WIDTH = 80
INDENT = 9


def render(report: Report, rows: list[Row] | None = None, *, verbose: bool = False) -> str:
    """The report: by file and deployment, its findings with line and fix, then the summary.

    Parameters
    ----------
    report : what was found
    rows : a comparison with another state, where there is one
    verbose : notes, and where each setting came from, too
    """
    out: list[str] = []
    for file in dict.fromkeys([d.file for d in report.deployments] + [f.file for f in report.findings]):
        mine = [each for each in report.deployments if each.file == file]
        findings = [each for each in report.findings if each.file == file]
        out.append(file)
        for each in mine:
            own = [f for f in findings if _belongs(f, each, mine)]
            findings = [f for f in findings if f not in own]
            out += _deployment(each, own, verbose)
        out += [line for finding in findings for line in _finding(finding)]
        out.append("")
    if rows is not None:
        out += [*_comparison(rows), ""]
    out.append(summary(report))
    more = advice(report.deployments)
    out += textwrap.wrap("to check more: " + "; ".join(more), WIDTH) if more else []
    for told in meanings(report.deployments):
        out += textwrap.wrap(f"note: {told}", WIDTH)
    return "\n".join(_printable(line) for line in out) + "\n"


def _comparison(rows: list[Row]) -> list[str]:
    """What changed, a block for each deployment."""
    if not rows:
        return ["no deployment changed"]
    out = ["changes (before -> after)"]
    for row in rows:
        out += _wrapped("  ", row.name, 2)
        names = ("TTFT", "TPOT", "chunk", "KV tokens", "batch", "verdict")
        out += [f"    {name:<10} {cell}" for name, cell in zip(names, row.cells(), strict=True) if cell != "-"]
    return out


def _belongs(finding: Finding, each: Deployed, others: list[Deployed]) -> bool:
    if len(others) == 1:
        return True
    if finding.subject != each.name:
        return False
    same = [other for other in others if other.name == each.name]
    if len(same) == 1:
        return True
    before = [other for other in same if other.line <= finding.line]
    return (before[-1] if before else same[0]) is each


def _deployment(each: Deployed, findings: list[Finding], verbose: bool) -> list[str]:
    out = [*_wrapped(f"{each.line:>5}  ", title(each), INDENT - 2)]
    detail = numbers(each)
    if each.status not in ("unknown", SKIPPED):
        out += _wrapped(" " * INDENT, f"{state(each)}{': ' + detail if detail else ''}", INDENT)
    for missing in each.missing:
        label = f"{each.status if each.status in ('unknown', SKIPPED) else 'missing':<9}"
        out += _wrapped(" " * INDENT + label, missing, INDENT + 9)
    if verbose:
        for source, said in _by_source(each).items():
            out += _wrapped(" " * INDENT, f"{', '.join(said)} ({source})", INDENT)
        for note in each.notes:
            out += _wrapped(" " * INDENT + "note     ", note, INDENT + 9)
    return out + [line for finding in findings for line in _finding(finding)]


def _by_source(each: Deployed) -> dict[str, list[str]]:
    """The settings of a deployment by where they came from."""
    out: dict[str, list[str]] = {}
    for key, setting in sorted(each.settings.items()):
        value = format_duration(setting.value) if key in DURATIONS else f"{setting.value}"
        out.setdefault(setting.source, []).append(f"{key} {value}")
    return out


def _finding(finding: Finding) -> list[str]:
    level = "waived" if finding.waived is not None else finding.level
    head = f"{finding.line:>5}  {level:<7} {finding.rule}  "
    out = _wrapped(head, finding.message, len(head))
    if finding.waived is not None:
        return out + _wrapped(" " * len(head) + "because ", finding.waived, len(head) + 8)
    if finding.fix is not None:
        out += _wrapped(" " * len(head) + "fix: ", finding.fix.text, len(head) + 5)
    return out


def _wrapped(head: str, text: str, indent: int) -> list[str]:
    bound = re.sub(r"(\d) (ms|s|us|min|%|tokens|GPUs)\b", "\\1\u00a0\\2", text)  # a number keeps its unit
    bound = re.sub(r"(\d) %", "\\1\u00a0%", bound)
    lines = textwrap.wrap(bound, max(20, WIDTH - len(head)), break_on_hyphens=False) or [""]
    lines = [line.replace("\u00a0", " ") for line in lines]
    return [head + lines[0], *(" " * indent + line for line in lines[1:])]


def _printable(line: str) -> str:
    """What a file holds may be anything: no control characters."""
    line = "".join(c if c.isprintable() else "?" for c in line)
    return " " + line if line.startswith("::") else line  # no command to a CI system either
