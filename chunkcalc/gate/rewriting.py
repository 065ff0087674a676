"""`check --fix`: values of flags that are written are replaced in place; every other byte of a file stays.

A change counts only if the file, checked again, has the finding no more and no error that it had not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from chunkcalc.gate.check import Checked, Options, check_source
from chunkcalc.gate.config import Configs
from chunkcalc.gate.finding import Finding
from chunkcalc.manifests.sources import STDIN, Beside, decode, files, shown

MOST_CHANGES = 50  # of a file


class Change(NamedTuple):
    """A value that was replaced."""

    file: str
    line: int
    flag: str
    before: str
    after: str


class Fixed(NamedTuple):
    """A file with the values that findings propose; nothing is written yet."""

    path: Path
    data: bytes
    changes: list[Change]


def fix(options: Options, every: bool) -> Iterator[Fixed]:
    """Put what findings propose into the texts of files.

    Parameters
    ----------
    options : what to check
    every : also what estimates propose; else only what is certain

    Returns
    -------
    the files that change
    """
    configs = Configs(options.root, options.config)
    for path, _ in files(options.paths, Path.cwd()):
        if str(path) == STDIN or not path.is_file():
            continue
        config = configs.of(path)
        fixed = _file(path, _Checker(path, options, config, configs.relative(config, path)), every)
        if fixed.changes:
            yield fixed


class _Checker:
    """Checks a text as if it stood in a file."""

    def __init__(self, path: Path, options: Options, config: object, relative: str) -> None:
        self.path, self.options, self.config, self.relative = path, options, config, relative
        self.name = shown(path, options.root)

    def __call__(self, data: bytes) -> Checked:
        beside = Beside(self.path.absolute().parent, self.options.root)
        source = decode(data, self.name, True)._replace(given=self.options.given, beside=beside)
        return check_source(source, self.options, self.config, self.relative)  # type: ignore[arg-type]


def _file(path: Path, checked: _Checker, every: bool) -> Fixed:
    data = path.read_bytes()
    found = checked(data)
    tried: set[tuple[str, int, str]] = set()
    changes: list[Change] = []
    while len(changes) < MOST_CHANGES:
        finding = next((f for f in found.findings if _wanted(f, every) and _key(f) not in tried), None)
        if finding is None:
            break
        tried.add(_key(finding))
        change = rewritten(data, finding)
        if change is None:
            continue
        after, told = change
        again = checked(after)
        if _better(finding, found, again):
            data, found = after, again
            changes.append(told._replace(file=checked.name))
    return Fixed(path, data, changes)


def _wanted(finding: Finding, every: bool) -> bool:
    fix = finding.fix
    certain = finding.kind != "estimate" or every
    return fix is not None and bool(fix.flag and fix.value) and certain and finding.waived is None


def _key(finding: Finding) -> tuple[str, int, str]:
    return finding.rule, finding.line, finding.fix.flag if finding.fix is not None else ""


def _better(finding: Finding, before: Checked, after: Checked) -> bool:
    """Whether the finding is gone, and nothing is worse."""
    same = [
        f for f in after.findings if f.rule == finding.rule and f.subject == finding.subject and f.line == finding.line
    ]
    errors = [sum(f.level == "error" and f.waived is None for f in each.findings) for each in (before, after)]
    rows = [[(d.status, d.engine) for d in each.deployments] for each in (before, after)]
    return not same and errors[1] <= errors[0] and rows[0] == rows[1]


def rewritten(data: bytes, finding: Finding) -> tuple[bytes, Change] | None:
    """A file with the value of a finding's flag replaced where it is written; None where it is not.

    Parameters
    ----------
    data : of the file, in UTF-8
    finding : with a fix of one flag
    """
    fix = finding.fix
    if fix is None or not fix.flag or not fix.value or fix.also:
        return None
    try:
        lines = data.decode("utf-8").split("\n")
    except UnicodeDecodeError:
        return None
    name = re.sub("[-_]", "[-_]", fix.flag.lstrip("-"))
    at = finding.line - 1
    if not 0 <= at < len(lines):
        return None
    value = r"([^\s\"',\\\]}]+)"
    inside = re.search(rf"(?<![\w-])(?:--)?{name}[\"']?(?:=|:\s*|\s*,\s*|[ \t]+)[\"']?{value}", lines[at])
    if inside is not None and not inside[1].startswith(("-", "#")):
        before = inside[1]
        lines[at] = lines[at][: inside.start(1)] + fix.value + lines[at][inside.end(1) :]
    elif re.search(rf"(?:--)?{name}[\"']?\s*(?:#.*)?$", lines[at]) and at + 1 < len(lines):
        following = re.match(rf"\s*-\s*[\"']?{value}", lines[at + 1])  # the next item of a list
        if following is None or following[1].startswith("-"):
            return None
        before = following[1]
        lines[at + 1] = lines[at + 1][: following.start(1)] + fix.value + lines[at + 1][following.end(1) :]
    else:
        return None
    return "\n".join(lines).encode("utf-8"), Change("", finding.line, fix.flag, before, fix.value)
