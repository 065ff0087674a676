"""Frozen records: the standard library's dataclasses, made in half the time when a program starts.

A dataclass compiles each of its methods anew. Equality, hash and representation are the same for
all records, so they stand here once; `repr` shows what is not default.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache, wraps
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

__all__ = ["dataclass", "remembered"]

MOST_KNOWN = 1000  # arguments of a function whose values are remembered

P = ParamSpec("P")
T = TypeVar("T")

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(**options: Any) -> Any:
        """`dataclasses.dataclass` with shared equality, hash and representation."""

        def made(cls: type) -> type:
            cls.__repr__ = _shown
            if options.get("eq", True):
                cls.__eq__, cls.__hash__ = _same, _hash if options.get("frozen") else None
            return dataclasses.dataclass(**{**options, "eq": False, "repr": False})(cls)

        return made


@cache
def _values(kind: Any) -> Callable[[Any], Any]:
    """What tells records of a kind apart."""
    return attrgetter(*(field.name for field in dataclasses.fields(kind) if field.compare))


def _same(self: Any, other: object) -> Any:
    values = _values(self.__class__)
    return values(self) == values(other) if type(self) is type(other) else NotImplemented


def _hash(self: Any) -> int:
    return hash(_values(self.__class__)(self))


def _shown(self: Any) -> str:
    parts = []
    for field in dataclasses.fields(self):
        value, made = getattr(self, field.name), field.default_factory
        default = field.default if made is dataclasses.MISSING else made()
        if field.repr and value != default:
            parts.append(f"{field.name}={value!r}")
    return f"{type(self).__qualname__}({', '.join(parts)})"


def remembered(function: Callable[P, T], most: int = MOST_KNOWN) -> Callable[P, T]:
    """A function of records that remembers its values by the very records it was asked about.

    Parameters
    ----------
    function : of positional arguments that are never changed
    most : arguments whose values are remembered
    """
    known: dict[tuple[int, ...], tuple[T, Any]] = {}

    @wraps(function)
    def asked(*records: P.args, **_: P.kwargs) -> T:
        key = tuple(map(id, records))
        found = known.get(key)
        if found is None:
            if len(known) >= most:
                known.clear()
            found = known[key] = function(*records), records  # type: ignore[call-arg]  # kept: an id is reused after
        return found[0]

    return asked
