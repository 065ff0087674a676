"""The configuration file chunkcalc.toml: settings and waivers by glob, the nearest one upwards."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping
from dataclasses import field
from datetime import date, datetime
from pathlib import Path
from typing import Any, NamedTuple

from chunkcalc.catalog.profiles import read_toml
from chunkcalc.errors import ChunkcalcError
from chunkcalc.frozen import dataclass
from chunkcalc.gate.settings import Setting, parse_date, parsed

CONFIG = "chunkcalc.toml"
MAX_CONFIG, MAX_LINE = 2**18, 4_000  # bytes of a configuration, and of a line of it


class ConfigWaiver(NamedTuple):
    """A waiver of the configuration file."""

    rule: str
    files: tuple[str, ...]
    reason: str
    until: date | None
    source: str
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Config:
    """A chunkcalc.toml.

    path : of the file; None where there is none
    shared : settings of every file below it
    files : glob -> settings
    waivers : of the file
    """

    path: Path | None = None
    shared: Mapping[str, Setting] = field(default_factory=dict)
    files: tuple[tuple[str, Mapping[str, Setting]], ...] = ()
    waivers: tuple[ConfigWaiver, ...] = ()

    def of(self, relative: str) -> Mapping[str, Setting]:
        """Settings of a file: of the last glob that matches, then of all."""
        out = dict(self.shared)
        for glob, settings in self.files:
            if matches(relative, glob):
                out = {**out, **settings}
        return out


def matches(path: str, glob: str) -> bool:
    """Whether a path matches a glob, as .gitignore reads it.

    Parameters
    ----------
    path : relative, with forward slashes
    glob : `*` stays within a folder, `**` does not; without a slash it matches a name anywhere
    """
    glob = glob.removeprefix("./")
    parts = tuple(path.split("/"))
    if "/" not in glob:
        return fnmatch.fnmatchcase(parts[-1], glob)
    wanted = tuple((glob + "**" if glob.endswith("/") else glob).split("/"))
    return _fits(parts, wanted)


def _fits(parts: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    """Folder by folder, from the left; a table keeps the number of steps small whatever the pattern."""
    reached = {0}
    for glob in wanted:
        if glob == "**":
            reached = {index for start in reached for index in range(start, len(parts) + 1)}
        else:
            reached = {index + 1 for index in reached if index < len(parts) and fnmatch.fnmatchcase(parts[index], glob)}
    return len(parts) in reached


def read_config(path: Path, shown: str) -> Config:
    """A configuration file.

    Raises
    ------
    ChunkcalcError : unreadable, not TOML, an unknown key
    """
    _must_be_small(path, shown)
    data = read_toml(path, shown)
    entries = _tables(data.pop("waivers", []), shown)
    lines = _waiver_lines(path)
    places = [lines[index] if index < len(lines) else 1 for index in range(len(entries))]
    waivers = tuple(_waiver(entry, line, shown) for entry, line in zip(entries, places, strict=True))
    files = data.pop("files", {})
    if not isinstance(files, dict) or not all(isinstance(value, dict) for value in files.values()):
        raise ChunkcalcError("files is not a table of globs", shown, 'write [files."deploy/*.yaml"]')
    return Config(
        path, parsed(data, shown, shown),
        tuple((glob, parsed(entry, shown, f'{shown}: files."{glob}"')) for glob, entry in files.items()), waivers,
    )  # fmt: skip


def _must_be_small(path: Path, shown: str) -> None:
    """A configuration is short; a reader of TOML takes long for a single endless line."""
    hint = f"keep it below {MAX_CONFIG // 1024} KiB, with lines below {MAX_LINE:,} characters"
    try:
        with path.open("rb") as file:
            data = file.read(MAX_CONFIG + 1)
    except OSError as error:
        raise ChunkcalcError(f"cannot be read ({error.strerror})", shown, "give a readable chunkcalc.toml") from None
    if len(data) > MAX_CONFIG or any(len(line) > MAX_LINE for line in data.split(b"\n")):
        raise ChunkcalcError("is too long", shown, hint)


def _tables(value: object, shown: str) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise ChunkcalcError("waivers is not a list of tables", shown, "write [[waivers]]")
    return value


def _waiver_lines(path: Path) -> list[int]:
    """Lines of the [[waivers]] tables, in their order."""
    text = path.read_text(encoding="utf-8", errors="replace")
    return [number for number, line in enumerate(text.split("\n"), 1) if re.match(r"\s*\[\[\s*waivers\s*\]\]", line)]


def _waiver(entry: dict[str, Any], line: int, shown: str) -> ConfigWaiver:
    where = f"{shown}:{line}"
    unknown = sorted(set(entry) - {"rule", "files", "reason", "until"})
    hint = "a waiver has rule, reason, and perhaps files (globs; all where left out) and until (a date)"
    if unknown:
        raise ChunkcalcError(f"unknown key '{unknown[0]:.40}' of a waiver", where, hint)
    if not isinstance(entry.get("rule"), str):
        raise ChunkcalcError("the waiver names no rule", where, hint)
    until = entry.get("until")
    files = entry.get("files", ["**"])
    globs = [files] if isinstance(files, str) else files
    if isinstance(until, datetime):
        until = until.date()
    if until is not None and not isinstance(until, date):
        until = parse_date(str(until), where)
    if not isinstance(globs, list):
        raise ChunkcalcError("files is not a list of globs", where, 'write files = ["deploy/*.yaml"]')
    return ConfigWaiver(
        entry["rule"], tuple(str(g) for g in globs), str(entry.get("reason", "")), until, where, shown, line
    )


class Configs:
    """The configuration of each file: the nearest chunkcalc.toml upwards, up to the root."""

    def __init__(self, root: Path, given: Path | None = None) -> None:
        self.root = root
        self.seen: dict[Path, Config] = {}
        self.given = read_config(given, str(given)) if given is not None else None

    def of(self, file: Path) -> Config:
        """The configuration of a file."""
        if self.given is not None:
            return self.given
        return self._folder(file.absolute().parent)

    def _folder(self, folder: Path) -> Config:
        if folder in self.seen:
            return self.seen[folder]
        path = folder / CONFIG
        if path.is_file():
            shown = path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else str(path)
            found = read_config(path, shown)
        elif folder in (self.root, folder.parent) or (folder / ".git").exists():
            found = Config()
        else:
            found = self._folder(folder.parent)
        self.seen[folder] = found
        return found

    def relative(self, config: Config, file: Path) -> str:
        """A file as the globs of a configuration see it."""
        if config.path is None:
            return file.as_posix()
        base = self.root if self.given is not None else config.path.absolute().parent
        absolute = file.absolute()
        return absolute.relative_to(base).as_posix() if absolute.is_relative_to(base) else absolute.as_posix()
