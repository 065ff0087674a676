"""Waivers: inline comments, annotations and configuration; and settings in comments."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import field, replace
from datetime import date

from chunkcalc.errors import ChunkcalcError
from chunkcalc.frozen import dataclass
from chunkcalc.gate.catalogue import rule
from chunkcalc.gate.config import ConfigWaiver, matches
from chunkcalc.gate.finding import Finding, Fix
from chunkcalc.gate.settings import parse_date
from chunkcalc.manifests.process import Process


@dataclass(slots=True)
class Waiver:
    """What does not count, and why.

    rule : id
    reason : why
    until : last day; None for ever
    source : where it stands, for reports
    file, line : of it
    lines : lines of the findings, or of the deployments, that it waives; empty for the whole file
    pointer : of the object that it waives them for; empty for any
    head : it stands at the head of its file: for the whole of it, unless a deployment follows at once
    used : whether it waived anything
    """

    rule: str
    reason: str
    until: date | None
    source: str
    file: str
    line: int
    lines: tuple[int, ...] = ()
    pointer: str = ""
    head: bool = False
    used: bool = field(default=False)

    def covers(self, finding: Finding) -> bool:
        """Whether it is about a finding."""
        here = not self.lines or finding.line in self.lines or bool(set(finding.begin) & set(self.lines))
        return self.rule == finding.rule and here and finding.pointer.startswith(self.pointer)


def annotated(process: Process) -> tuple[list[Waiver], list[str]]:
    """Waivers in the annotations of an object, and what cannot be read of them."""
    ignored = process.notes.get("ignore")
    if ignored is None:
        return [], []
    reason, until = (str(process.notes.get(key, "")) for key in ("reason", "until"))
    try:
        day = parse_date(until, "annotation chunkcalc/until") if until else None
    except ChunkcalcError as error:
        return [], [str(error)]
    names = [name for name in re.split(r"[,\s]+", ignored.strip()) if name]
    return [
        Waiver(name.upper(), reason, day, "annotation", process.file, ignored.line, (), process.pointer)
        for name in names
    ], []


def configured(waivers: Iterable[ConfigWaiver], relative: str) -> list[Waiver]:
    """Waivers of the configuration, as they stand for one file."""
    return [
        Waiver(given.rule.upper(), given.reason, given.until, given.source, given.file, given.line)
        for given in waivers
        if any(matches(relative, glob) for glob in given.files)
    ]


def apply(findings: Iterable[Finding], waivers: Iterable[Waiver], today: date, *, reasons: bool) -> list[Finding]:
    """Findings with those marked that a waiver covers."""
    valid = [
        waiver
        for waiver in waivers
        if (waiver.until is None or waiver.until >= today) and (waiver.reason or not reasons) and _known(waiver.rule)
    ]
    out = []
    for finding in findings:
        covers = [waiver for waiver in valid if waiver.covers(finding)]
        for waiver in covers:
            waiver.used = True
        said = f"{covers[0].reason or 'no reason given'} ({covers[0].source})" if covers else None
        out.append(replace(finding, waived=said))
    return out


def _known(name: str) -> bool:
    try:
        rule(name)
    except ChunkcalcError:
        return False
    return True


def complaints(waivers: Iterable[Waiver], today: date, findings: Iterable[Finding], *, reasons: bool) -> list[Finding]:
    """CC100: waivers that are unused, expired, without a reason, or for no rule.

    Parameters
    ----------
    waivers : all of them
    today : the day
    findings : of all files, to say where an unused waiver would belong
    reasons : whether a reason is required
    """
    left = {(finding.file, finding.rule): finding.line for finding in findings if finding.waived is None}
    known, out = rule("CC100"), []
    for waiver in waivers:
        problem, fix = "", "remove it"
        if not _known(waiver.rule):
            problem = f"no rule is called {waiver.rule[:20]}"
        elif not waiver.reason and reasons:
            problem, fix = f"the waiver of {waiver.rule} gives no reason: it does not count", "say why: reason=..."
        elif waiver.until is not None and waiver.until < today:
            problem = f"the waiver of {waiver.rule} ended on {waiver.until.isoformat()}"
        elif not waiver.used:
            problem = f"the waiver of {waiver.rule} waives nothing"
            elsewhere = left.get((waiver.file, waiver.rule))
            if elsewhere is not None:
                problem, fix = f"{problem} here", f"put it on line {elsewhere}, or above its deployment"
        if problem:
            entry = Finding(
                rule=known.id, kind=known.kind, level=known.level, message=problem, file=waiver.file,
                line=waiver.line, pointer=waiver.pointer, subject=waiver.source, flag=waiver.rule,
                fix=Fix(text=fix),
            )  # fmt: skip
            out.append(entry)
    return out
