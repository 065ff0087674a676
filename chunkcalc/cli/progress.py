"""How far a command is, on a terminal: a bar with its share and the time that is left, from the second second on."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from chunkcalc.progress import Progress, silent

SILENT = 1.0  # before anything is shown [s]


@contextmanager
def progress(words: str) -> Iterator[Progress]:
    """A function to call with what is done and what there is to do."""
    if not sys.stderr.isatty():
        yield silent
        return
    started, bars = time.monotonic(), list[Any]()

    def told(done: float, of: float) -> None:
        if not bars and time.monotonic() - started > SILENT:
            from rich.console import Console  # noqa: PLC0415 - 60 ms that a quick answer does without
            from rich.progress import Progress  # noqa: PLC0415

            bars.append(Progress(console=Console(stderr=True), transient=True))
            bars[0].start()
            bars[0].add_task(words)
        for bar in bars:
            bar.update(bar.tasks[0].id, completed=done, total=of)

    try:
        yield told
    finally:
        for bar in bars:
            bar.stop()


def shown(items: Iterable[Any]) -> Iterator[Any]:
    """The items, with a bar that says how many are predicted."""
    listed = list(items)
    with progress("predicting") as told:
        for done, item in enumerate(listed):
            told(done, len(listed))
            yield item
