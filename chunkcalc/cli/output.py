"""Exit codes, and how a report reaches stdout."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chunkcalc.errors import ChunkcalcError
from chunkcalc.report import json, text

HOLDS, FAILS, USAGE, NOTHING, INTERNAL = 0, 1, 2, 3, 4


def show(lines: list[text.Line]) -> None:
    """Print a report: coloured on a terminal, plain in a pipe or under NO_COLOR.

    Parameters
    ----------
    lines : the report
    """
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        text.coloured(lines)
    else:
        print(text.plain(lines))


def write_whole(path: Path, text: str, option: str = "--output") -> None:
    """Write a file completely or not at all.

    Parameters
    ----------
    path : the file
    text : its content
    option : that names it, for the error
    """
    part = path.with_name(path.name + ".part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        problem = f"cannot write '{path}' ({error.strerror})"
        raise ChunkcalcError(problem, option, "give a path in a folder that exists") from None


def show_json(data: Mapping[str, Any]) -> None:
    """Print JSON.

    Parameters
    ----------
    data : the report
    """
    print(json.dumps(data))
