"""What each engine's options are called and what they default to, by version: data, and its reading."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from chunkcalc.catalog.profiles import read_toml
from chunkcalc.errors import ChunkcalcError
from chunkcalc.frozen import dataclass
from chunkcalc.records import Hardware

GIB = 2**30
_FOLDER = Path(__file__).parent
VERSION = re.compile(r"v?[0-9]{1,6}(\.[0-9]{1,6}){0,3}([.-]?(post|rc|dev|a|b)[0-9]{0,4}){0,2}(\+[a-z0-9.]{1,20})?")


class Default(NamedTuple):
    """A value that stands where a flag is left out, and the rule that chose it."""

    value: Any
    rule: str


@dataclass(frozen=True, slots=True)
class Table:
    """One engine at one version.

    engine : its name
    version : as the user named it
    read : the nearest version whose source was read
    """

    engine: str
    version: str
    read: str

    @property
    def order(self) -> tuple[int, ...]:
        """The read version, to compare."""
        return order(self.read)

    def since(self, version: str) -> bool:
        """Whether this is that version or a later one."""
        return self.order >= order(version)

    def options(self) -> dict[str, str]:
        """Name without dashes -> kind, of the options that this version has."""
        return _kinds(self.engine, self.order)

    def span(self, flag: str) -> str:
        """Which versions have a flag; empty where none has."""
        name = flag.lstrip("-").replace("_", "-" if self.engine != "trtllm" else "_").removeprefix("no-")
        entry = _options(self.engine)["options"].get(name)
        if entry is None:
            return ""
        spans = [part.partition(" ")[2] for part in entry.split(", ")]
        first, last = spans[0].split("-")[0], spans[-1].split("-")[-1]
        return f"{first} to {last or 'now'}" if first else f"up to {last}" if last else ""

    def aliases(self) -> Mapping[str, str]:
        """Other spelling, with its dashes -> name without dashes."""
        found: Mapping[str, str] = _options(self.engine)["aliases"]
        return found

    def default(self, field: str, hardware: Hardware, entry: str = "server", role: str = "") -> Default | None:
        """What stands for a field that is left out.

        Parameters
        ----------
        field : name of the value
        hardware : the device
        entry : `server`, or `offline` for the Python class
        role : `prefill` or `decode` where the deployment is disaggregated

        Returns
        -------
        value and rule; None where the table has none
        """
        for row in _defaults(self.engine)["default"]:
            if row["field"] == field and self._suits(row, hardware, role):
                value = row["value"] if "value" in row else row[entry]
                rule = f": {row['rule']}" if "rule" in row else ""
                return Default(value, f"{self.engine} {self.read}{rule}")
        return None

    def _suits(self, row: Mapping[str, Any], hardware: Hardware, role: str) -> bool:
        name = f"{hardware.id} {hardware.name}".lower()
        return (
            ("since" not in row or self.since(row["since"]))
            and ("until" not in row or self.order <= order(row["until"]))
            and hardware.memory >= row.get("least_gib", 0) * GIB
            and ("devices" not in row or any(device in name for device in row["devices"]))
            and not any(device in name for device in row.get("except", ()))
            and ("roles" not in row or role in row["roles"])
        )


@cache
def order(version: str) -> tuple[int, ...]:
    """The numbers of a version, to compare.

    >>> order("v0.10.2") > order("0.9.0.1"), order("0.33") == order("0.33.0")
    (True, True)
    """
    parts = [int(part) for part in re.findall(r"[0-9]{1,9}", version)[:4]]
    return tuple(parts + [0] * (4 - len(parts)))


def table(engine: str, version: str | None = None, option: str = "--engine-version") -> Table:
    """The engine at a version.

    Parameters
    ----------
    engine : its name
    version : None for the newest that was read; one in between is read as the last one before it
    option : where it was given, for the error

    Raises
    ------
    ChunkcalcError : not a version
    """
    known: Sequence[str] = _defaults(engine)["versions"]
    if version is None:
        return Table(engine, known[-1], known[-1])
    if not VERSION.fullmatch(version):
        raise ChunkcalcError(f"'{version:.40}' is not a version", option, f"write for example {known[-1]}")
    wanted = order(re.split(r"[+]|\.?(?:post|rc|dev)", version)[0])
    older = [each for each in known if order(each) <= wanted]
    return Table(engine, version.removeprefix("v"), older[-1] if older else known[0])


def section(engine: str, name: str) -> Mapping[str, Any]:
    """A section of an engine's table."""
    found: Mapping[str, Any] = _defaults(engine)[name]
    return found


@cache
def _defaults(engine: str) -> dict[str, Any]:
    return read_toml(_FOLDER / f"{engine}.toml")


@cache
def _options(engine: str) -> dict[str, Any]:
    return read_toml(_FOLDER / f"{engine}_options.toml")


@cache
def _kinds(engine: str, wanted: tuple[int, ...]) -> dict[str, str]:
    kinds = ((name, _kind(entry, wanted)) for name, entry in _options(engine)["options"].items())
    return {name: kind for name, kind in kinds if kind}


def _kind(entry: str, wanted: tuple[int, ...]) -> str | None:
    """The kind at a version, from `int -0.8.5, human 0.9.2-`."""
    for part in entry.split(", "):
        kind, _, span = part.partition(" ")
        first, dash, last = span.partition("-")
        if not dash:
            last = first
        if (not first or wanted >= order(first)) and (not last or wanted <= order(last)):
            return kind
    return None
