"""Exit codes, and how a report reaches stdout."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, TextIO

from chunkcalc.errors import ChunkcalcError
from chunkcalc.report import json, lines

HOLDS, FAILS, USAGE, NOTHING, INTERNAL = 0, 1, 2, 3, 4


class Unread:
    """A stream whose reader may go before the end (head, less): what it leaves unread is no error.

    Typer would turn it into exit code 1 before the command can say whether the limits hold.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write, or drop what nobody reads."""
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            self._discard()
            return len(text)

    def flush(self) -> None:
        """Flush, or drop what nobody reads."""
        try:
            self._stream.flush()
        except BrokenPipeError:
            self._discard()

    def _discard(self) -> None:
        """All that is still buffered, and all that follows, goes nowhere."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())


def outlive_readers() -> None:
    """Let readers of stdout and stderr go without changing the exit code."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that knows no ± shows ?
        if stream is not None:  # closed by the caller
            setattr(sys, name, Unread(stream))


def show(report: list[lines.Line]) -> None:
    """Print a report: coloured on a terminal, plain in a pipe or under NO_COLOR."""
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        lines.coloured(report)
    else:
        print(lines.plain(report))


def check_target(path: Path, option: str, *, force: bool) -> None:
    """Refuse a file that cannot be written, or that is not to be lost; before the work."""
    if path.is_dir():
        raise ChunkcalcError(f"'{path}' is a folder", option, "give the path of a file")
    if path.exists() and not force:
        raise ChunkcalcError(f"'{path}' exists", option, "give another name, or --force to overwrite it")
    if not path.parent.is_dir():
        raise ChunkcalcError(f"there is no folder '{path.parent}'", option, "give a path in a folder that exists")


def write_whole(path: Path, text: str, option: str = "--output") -> None:
    """Write a file completely or not at all."""
    with whole_file(path, option) as file:
        file.write(text)


@contextmanager
def whole_file(path: Path, option: str, *, binary: bool = False) -> Iterator[Any]:
    """A file to write piece by piece, which appears whole or not at all."""
    mode = {"mode": "wb"} if binary else {"mode": "w", "encoding": "utf-8", "newline": ""}
    part: Path | None = None
    try:
        with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False, **mode) as file:  # type: ignore[call-overload]
            part = Path(file.name)
            yield file
        part.chmod(path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask())
        part.replace(path)
    except OSError as error:
        problem = f"cannot write '{path}' ({error.strerror})"
        raise ChunkcalcError(problem, option, "give the path of a file that may be written") from None
    finally:
        if part is not None:
            part.unlink(missing_ok=True)


def _umask() -> int:
    """What new files may not allow; it can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def show_json(data: Mapping[str, Any]) -> None:
    """Print JSON."""
    print(json.dumps(data))
