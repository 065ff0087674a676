"""Settings and waivers that stand in the files themselves: comments and annotations."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from chunkcalc.errors import ChunkcalcError
from chunkcalc.frozen import dataclass
from chunkcalc.gate.settings import WAIVING, Setting, parse_date, parsed
from chunkcalc.gate.waivers import Waiver

_COMMENT = re.compile(r"(?:^|\s|`)#\s*chunkcalc:\s*([^`]*)")
MOST = 1000  # of a file


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment of this tool.

    line : where it stands
    alone : on a line of its own, at its beginning: it holds for what follows; else for what it stands in
    target : line of what follows it, for one on a line of its own; 0 for others
    settings : what it states
    problems : what cannot be read of it
    """

    line: int
    alone: bool
    target: int
    settings: Mapping[str, Setting]
    problems: tuple[str, ...]


def comments(text: str, file: str) -> tuple[list[Comment], list[Waiver]]:
    """The comments of a file, and the waivers in them."""
    out: list[Comment] = []
    waivers: list[Waiver] = []
    if "chunkcalc:" not in text:
        return out, waivers
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        match = _COMMENT.search(line)
        if match is None or len(out) >= MOST:
            continue
        alone, where = line.lstrip().startswith("#"), f"{file}:{number}"
        given, problems = _pairs(match[1])
        ignored, reason, until = (given.pop(key, "") for key in WAIVING)
        if ignored:
            day = None
            try:
                day = parse_date(until, "until") if until else None
            except ChunkcalcError as error:
                problems.append(str(error))
            reach = _reach(lines, number, alone)
            head = alone and all(not above.strip() or above.lstrip().startswith("#") for above in lines[:number])
            waivers += [
                Waiver(name.strip().upper(), reason, day, "comment", file, number, reach, head=head)
                for name in ignored.split(",")
            ]
        settings, wrong = lenient(given, f"comment {where}")
        target = _following(lines, number) if alone else 0
        out.append(Comment(number, line.startswith("#"), target, settings, (*problems, *wrong)))
    return out, waivers


def _reach(lines: list[str], number: int, alone: bool) -> tuple[int, ...]:
    """The lines that a waiver is about: its own, and the flag's above an item that is a value; alone, what follows."""
    if not alone:
        value = re.match(r"\s*-\s+[\"']?[^-\s\"']", lines[number - 1])
        return (number - 1, number) if value else (number,)
    following = _following(lines, number)
    # A deployment begins at its first key, which may stand below its name.
    return (number, following, following + 1)


def _following(lines: list[str], number: int) -> int:
    """The next line that is neither blank nor a comment."""
    following = number
    while following < len(lines) and (not lines[following].strip() or lines[following].lstrip().startswith("#")):
        following += 1
    return following + 1


def _pairs(text: str) -> tuple[dict[str, str], list[str]]:
    """key=value words, and what is none."""
    try:
        words = shlex.split(text)
    except ValueError:
        return {}, ["its quotes do not close"]
    pairs = dict(word.split("=", 1) for word in words if "=" in word)
    return pairs, [f"'{word:.40}' is no key=value" for word in words if "=" not in word]


def lenient(given: Mapping[str, str], source: str) -> tuple[dict[str, Setting], list[str]]:
    """Settings one by one: those that can be read, and what is wrong with the others."""
    out: dict[str, Setting] = {}
    problems = []
    for key, value in given.items():
        try:
            out |= parsed({key: value}, source, "")
        except ChunkcalcError as error:
            problems.append(str(error))
    if "concurrency" in out and "rate" in out:
        problems.append("a concurrency and a rate contradict each other; the rate is left out")
        del out["rate"]
    return out, problems


def annotated_settings(notes: Mapping[str, str], source: str) -> tuple[dict[str, Setting], list[str]]:
    """Settings in annotations, without those of waivers, and what cannot be read."""
    return lenient({key: str(value) for key, value in notes.items() if key not in WAIVING}, source)
