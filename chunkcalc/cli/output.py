"""Exit codes, and how a report reaches stdout."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from chunkcalc.report import json, text

HOLDS, FAILS, USAGE, INTERNAL = 0, 1, 2, 4


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


def show_json(data: Mapping[str, Any]) -> None:
    """Print JSON.

    Parameters
    ----------
    data : the report
    """
    print(json.dumps(data))
