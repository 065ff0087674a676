"""Lines of plain segments with an optional style, 80 columns wide."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import NamedTuple

WIDTH, LABEL = 80, 13


class Segment(NamedTuple):
    """Text and its style ("" for none)."""

    text: str
    style: str = ""


Line = list[Segment]


def plain(lines: Sequence[Line]) -> str:
    """Text without any style."""
    return "\n".join("".join(segment.text for segment in line).rstrip() for line in lines)


def coloured(lines: Sequence[Line]) -> None:
    """Write the lines to the terminal with colour."""
    from rich.console import Console  # noqa: PLC0415 - only a terminal needs it
    from rich.text import Text  # noqa: PLC0415

    console = Console(highlight=False, soft_wrap=True)
    for line in lines:
        console.print(Text.assemble(*((segment.text, segment.style) for segment in line)))


def wrapped(label: str, text: str, style: str = "") -> list[Line]:
    """A label and its text, in as many rows as it takes."""
    rows = textwrap.wrap(text, WIDTH - LABEL) or [""]
    return [
        [Segment(f"{label if not index else '':<{LABEL}}", "bold"), Segment(row, style)]
        for index, row in enumerate(rows)
    ]
