"""The reader of each engine: a module of its name beside this one."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Protocol, cast

from chunkcalc.engines.grammar import Arguments, Grammar
from chunkcalc.engines.reading import Reading, Target
from chunkcalc.engines.tables import Table
from chunkcalc.engines.writing import Options, Wanted


class Reader(Protocol):
    """What every engine's module has; `overrule` only where a file of options stands above the command line."""

    def grammar(self, table: Table) -> Grammar:
        """How the engine reads its arguments."""
        ...

    def read(self, arguments: Arguments, table: Table, target: Target) -> Reading:
        """What the arguments mean."""
        ...

    def written(self, wanted: Wanted) -> Options:
        """The options that realise an answer."""
        ...

    def overrule(self, arguments: Arguments, options: dict[str, Any]) -> None:
        """Put the file's options over the command line."""
        ...


def reader(engine: str) -> Reader:
    """The reader of an engine."""
    return cast(Reader, import_module(f"chunkcalc.engines.{engine}"))
