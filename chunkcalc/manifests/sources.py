"""Paths -> texts: files and folders, bounded, in a fixed order."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import NamedTuple

from chunkcalc.errors import ChunkcalcError

MAX_BYTES = 16 * 2**20  # of one file
SUFFIXES = frozenset(
    (".yaml", ".yml", ".json", ".sh", ".bash", ".service", ".container", ".tpl", ".py", ".jsonnet", ".libsonnet",
     ".sbatch", ".slurm", ".tf", ".hcl", ".nomad", ".mk", ".dockerfile", ".containerfile", ".j2", ".tmpl", ".template")
)  # fmt: skip
NAMES = re.compile(r"(Dockerfile|Containerfile|[Mm]akefile|GNUmakefile)([.-][\w.-]+)?")
SKIPPED = frozenset((".git", "node_modules", ".venv", "venv", "__pycache__", ".tox", ".mypy_cache"))
STDIN = "-"
MOST_BESIDE = 2**18  # characters of a file that another one names


class Beside(NamedTuple):
    """The files around a file, as far as the folder that is checked.

    folder : in which the file lies
    root : nothing outside it is read
    """

    folder: Path
    root: Path

    def find(self, path: str) -> Path | None:
        """A file that a deployment names by a relative path; None where it is not at hand."""
        if path.startswith(("/", "~")) or not path or "\0" in path:
            return None
        try:
            for base in (self.folder, self.root):
                found = (base / path).resolve()
                if found.is_relative_to(self.root.resolve()) and found.is_file():
                    return found
        except (OSError, ValueError, RuntimeError):
            return None
        return None

    def text(self, path: str) -> Source | None:
        """The text of such a file."""
        found = self.find(path)
        source = read(found, shown(found, self.root)) if found is not None else None
        return source if source is not None and source.text is not None and len(source.text) <= MOST_BESIDE else None


class Source(NamedTuple):
    """A file as text.

    path : relative to the root, with forward slashes; `stdin` for the standard input
    text : its content; None where it cannot be read as text
    problem : why not
    asked : named by the user rather than found in a folder
    given : variables that the user set, for what it leaves to its environment
    beside : what lies beside it
    """

    path: str
    text: str | None
    problem: str = ""
    asked: bool = False
    given: Mapping[str, str] = MappingProxyType({})
    beside: Beside | None = None


def files(paths: Sequence[str], root: Path) -> list[tuple[Path, bool]]:
    """Every file to read, in a fixed order, and whether the user named it.

    Raises
    ------
    ChunkcalcError : a path that does not exist
    """
    out: dict[Path, bool] = {}
    for name in paths:
        if name == STDIN:
            out[Path(STDIN)] = True
            continue
        for path in _matching(name, root):
            if _is_folder(path):
                for found in sorted(_walk(path)):
                    out.setdefault(found, False)
            else:
                out[path] = True
    return list(out.items())


def _matching(name: str, root: Path) -> list[Path]:
    path = root / name
    try:
        if path.is_symlink() or path.exists():
            return [path]
        if any(c in name for c in "*?["):
            pattern = name.removeprefix("./")
            anchor = Path(path.anchor) if pattern.startswith("/") else root
            found = sorted(anchor.glob(pattern.lstrip("/")))
            if found:
                return found
    except (OSError, ValueError, NotImplementedError):
        pass  # a name that is too long, a pattern that is none
    raise ChunkcalcError(f"'{name:.200}' does not exist", "PATH", "give files, folders, globs, or - for stdin")


def _walk(folder: Path) -> Iterator[Path]:
    """Files below a folder that may hold a deployment; links to folders are not followed."""
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in SKIPPED)
        for name in sorted(names):
            path = Path(here, name)
            # Fifos and sockets would block: only what is a file in the end.
            if (path.suffix.lower() in SUFFIXES or NAMES.fullmatch(name)) and _is_file(path):
                yield path


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a link to itself
        return False


def shown(path: Path, root: Path) -> str:
    """A path as reports write it: relative to the root where it lies below it, with forward slashes."""
    if str(path) == STDIN:
        return "stdin"
    absolute = Path(os.path.normpath(path.absolute()))
    inside = absolute.is_relative_to(root)
    name = PurePosixPath(absolute.relative_to(root)).as_posix() if inside else os.path.relpath(absolute, root)
    # Names of files need not be UTF-8; reports are.
    return os.fsencode(name).decode("utf-8", "replace").replace(os.sep, "/")


def read(path: Path, name: str, asked: bool = False) -> Source:
    """A file as text, of at most 16 MiB."""
    try:
        if not _is_file(path):
            return Source(name, None, "is not a file", asked)
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        return Source(name, None, f"cannot be read ({error.strerror})", asked)
    return decode(data, name, asked)


def decode(data: bytes, name: str, asked: bool = False) -> Source:
    """Bytes as text, with the line ends of Unix."""
    text, problem = _text(data)
    return Source(name, text, problem, asked)


def _text(data: bytes) -> tuple[str | None, str]:
    """The text, or why there is none."""
    if len(data) > MAX_BYTES:
        return None, f"is larger than {MAX_BYTES // 2**20} MiB"
    wide = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    if b"\0" in data and not wide:
        return None, "is a binary file"
    try:
        text = data.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError:
        return None, "is not UTF-8 text"
    return text.replace("\r\n", "\n").replace("\r", "\n"), ""
