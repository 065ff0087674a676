"""The rules for people: a list, and a page for each."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import asdict

from chunkcalc.gate.catalogue import Rule
from chunkcalc.report.json import dumps

WIDTH = 80


def table(rules: Sequence[Rule]) -> str:
    """One line per rule."""
    lines = []
    for rule in rules:
        head = f"{rule.id}  {rule.kind:<8}  {rule.level:<7}  "
        lines += textwrap.wrap(rule.title, WIDTH, initial_indent=head, subsequent_indent=" " * len(head))
    more = (
        "An estimate is an error where the limit is missed by more than the error band; what an engine "
        "refuses is an error; a flag that the newest version lacks is a warning where the version is not stated."
    )
    return "\n".join(["rule   class     level    finds", *lines, "", *textwrap.wrap(more, WIDTH)]) + "\n"


def page(rule: Rule) -> str:
    """Everything about a rule."""
    out = [f"{rule.id} ({rule.kind}, {rule.level}): {rule.title}", ""]
    out += [*textwrap.wrap(rule.why, WIDTH), "", *textwrap.wrap(f"Do: {rule.remedy}", WIDTH), ""]
    for name, example in (("breaks it:", rule.bad), ("keeps it:", rule.good)):
        out += [name, *(f"    {line}" for line in example.splitlines()), ""]
    return "\n".join(out).rstrip() + "\n"


def as_json(rules: Sequence[Rule]) -> str:
    """The rules as JSON, schema chunkcalc.rules/1."""
    return dumps({"schema": "chunkcalc.rules/1", "rules": [asdict(rule) for rule in rules]}) + "\n"


def documentation(rules: Sequence[Rule]) -> str:
    """The rules as Markdown, a section for each."""
    out = []
    for rule in rules:
        out += [f"### {rule.id}", f"**{rule.title}** ({rule.kind}, {rule.level}). {rule.why} {rule.remedy}", ""]
        for name, example in (("Breaks it", rule.bad), ("Keeps it", rule.good)):
            out += [f"{name}:", "", *(f"    {line}" for line in example.splitlines()), ""]
    return "\n".join(out).rstrip() + "\n"
