"""Waivers: inline comments, annotations and configuration; and settings in comments."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date

from chunkcalc.errors import ChunkcalcError
from chunkcalc.gate.catalogue import rule
from chunkcalc.gate.finding import Finding, Fix
from chunkcalc.gate.settings import WAIVING, ConfigWaiver, Setting, matches, parse_date, parsed
from chunkcalc.manifests.process import Process

_COMMENT = re.compile(r"(?:^|\s)#\s*chunkcalc:\s*(.*)$")
MOST = 1000  # comments of a file


@dataclass(slots=True)
class Waiver:
    """What does not count, and why.

    rule : id
    reason : why
    until : last day; None for ever
    source : where it stands, for reports
    file, line : of it
    lines : lines of the findings that it waives; empty for the whole file
    pointer : of the object that it waives them for; empty for any
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
    used: bool = field(default=False)

    def covers(self, finding: Finding) -> bool:
        """Whether it is about a finding.

        Parameters
        ----------
        finding : the finding
        """
        here = not self.lines or finding.line in self.lines
        return self.rule == finding.rule and here and finding.pointer.startswith(self.pointer)


def comments(text: str, file: str) -> tuple[dict[str, Setting], list[Waiver]]:
    """Settings and waivers in the comments of a file.

    Parameters
    ----------
    text : the file
    file : its path

    Raises
    ------
    ChunkcalcError : a setting that cannot be read
    """
    settings: dict[str, Setting] = {}
    waivers: list[Waiver] = []
    if "chunkcalc:" not in text:
        return settings, waivers
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        match = _COMMENT.search(line)
        if match is None or len(waivers) > MOST:
            continue
        where = f"{file}:{number}"
        given = _pairs(match[1], where)
        ignored, reason, until = (given.pop(key, "") for key in WAIVING)
        if ignored:
            reach = _next(lines, number) if line.lstrip().startswith("#") else number
            day = parse_date(until, where) if until else None
            waivers += [
                Waiver(name.strip().upper(), reason, day, "comment", file, number, (number, reach))
                for name in ignored.split(",")
            ]
        settings |= parsed(given, f"comment {where}", where)
    return settings, waivers


def _next(lines: list[str], number: int) -> int:
    """The line that a comment on a line of its own is about."""
    following = number
    while following < len(lines) and (not lines[following].strip() or lines[following].lstrip().startswith("#")):
        following += 1
    return following + 1


def _pairs(text: str, where: str) -> dict[str, str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ChunkcalcError(f"cannot be read ({error})", where, 'write # chunkcalc: key=value reason="..."') from None
    out = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise ChunkcalcError(f"'{word:.40}' is no key=value", where, "write # chunkcalc: gpu=h100-sxm ttft=2s")
        out[key] = value
    return out


def annotated(process: Process) -> list[Waiver]:
    """Waivers in the annotations of an object.

    Parameters
    ----------
    process : the process of that object

    Raises
    ------
    ChunkcalcError : a date that is none
    """
    ignored = process.notes.get("ignore")
    if ignored is None:
        return []
    where = f"{process.file}:{ignored.line}"
    reason, until = (str(process.notes.get(key, "")) for key in ("reason", "until"))
    day = parse_date(until, where) if until else None
    return [
        Waiver(name.upper(), reason, day, "annotation", process.file, ignored.line, (), process.pointer)
        for name in re.split(r"[,\s]+", ignored.strip())
        if name
    ]


def configured(waivers: Iterable[ConfigWaiver], relative: str, pool: dict[str, Waiver]) -> list[Waiver]:
    """Waivers of the configuration that are about a file.

    Parameters
    ----------
    waivers : of the configuration
    relative : the file, as its globs see it
    pool : those of every file by where they stand, so that one that is used anywhere counts as used
    """
    out = []
    for given in waivers:
        place = given.source.partition(":")[0]
        waiver = pool.setdefault(
            given.source, Waiver(given.rule.upper(), given.reason, given.until, given.source, place, 1)
        )
        if any(matches(relative, glob) for glob in given.files):
            out.append(waiver)
    return out


def apply(findings: Iterable[Finding], waivers: Iterable[Waiver], today: date, *, reasons: bool) -> list[Finding]:
    """Findings with those marked that a waiver covers.

    Parameters
    ----------
    findings : of one file
    waivers : that may cover them
    today : waivers past their day do not count
    reasons : whether a waiver without a reason does not count
    """
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


def complaints(waivers: Iterable[Waiver], today: date, *, reasons: bool) -> list[Finding]:
    """CC100: waivers that are unused, expired, without a reason, or for no rule.

    Parameters
    ----------
    waivers : all of them
    today : the day
    reasons : whether a reason is required
    """
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
        if problem:
            out.append(
                Finding(
                    rule=known.id,
                    kind=known.kind,
                    level=known.level,
                    message=problem,
                    file=waiver.file,
                    line=waiver.line,
                    pointer=waiver.pointer,
                    subject=waiver.source,
                    flag=waiver.rule,
                    fix=Fix(text=fix),
                )
            )
    return out


def settings_of(notes: Mapping[str, str], where: str) -> dict[str, Setting]:
    """Settings in annotations, without those of waivers.

    Parameters
    ----------
    notes : annotations of this tool
    where : for errors

    Raises
    ------
    ChunkcalcError : a setting that cannot be read
    """
    own = {key: str(value) for key, value in notes.items() if key not in WAIVING}
    return parsed(own, f"annotation {where}", where)
