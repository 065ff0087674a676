"""The reader of each engine: a module of its name beside this one."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Protocol, cast

from chunkcalc.engines.grammar import Arguments, Grammar
from chunkcalc.engines.reading import Reading, Target
from chunkcalc.engines.tables import Table
from chunkcalc.engines.writing import Options
from chunkcalc.records import Deployment


class Reader(Protocol):
    """What every engine's module has; `overrule` only where a file of options stands above the command line."""

    def grammar(self, table: Table) -> Grammar:
        """How the engine reads its arguments."""
        ...

    def read(self, arguments: Arguments, table: Table, target: Target) -> Reading:
        """What the arguments mean."""
        ...

    def written(
        self,
        deployment: Deployment,
        found: Table,
        chunk: int,
        budget: int,
        requests: int,
        drafts: int,
        queued: int | None,
    ) -> Options:
        """The options that realise an answer, per attention rank.

        Parameters
        ----------
        deployment : the replica
        found : the version
        chunk, budget : prompt tokens and all tokens of a step [token]
        requests : in flight [1]
        drafts : speculative tokens per decode and step [token]
        queued : prompt tokens that may wait [token]
        """
        ...

    def overrule(self, arguments: Arguments, options: dict[str, Any]) -> None:
        """Put the file's options over the command line."""
        ...


def reader(engine: str) -> Reader:
    """The reader of an engine."""
    return cast(Reader, import_module(f"chunkcalc.engines.{engine}"))
