"""JSON text -> its objects: one document, an array, or one or several objects per line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from chunkcalc.errors import ChunkcalcError
from chunkcalc.measurements.run import Skipped

Document = Mapping[str, Any]
MOST_DOCUMENTS = 100_000
SPACE = re.compile(r"\s*")


class Documents(NamedTuple):
    """The objects of a file.

    found : 1-based numbers and objects
    skipped : entries that are no object, such as a line that a crash cut off
    """

    found: list[tuple[int, Document]]
    skipped: list[Skipped]


def split(content: str, path: str) -> Documents:
    """The objects of a JSON file, an array's elements taken one by one.

    Raises
    ------
    ChunkcalcError : no JSON at all, or too many objects
    """
    try:
        entries = list(islice(_sequence(content), MOST_DOCUMENTS + 1))
    except (ValueError, RecursionError) as error:
        entries = list(islice(_by_line(content), MOST_DOCUMENTS + 1))
        if not any(isinstance(entry, dict) for entry in entries):
            what = "is nested too deeply" if isinstance(error, RecursionError) else f"is not JSON ({error!s:.80})"
            raise ChunkcalcError(what, path, "give the file as the benchmark wrote it") from None
    if len(entries) > MOST_DOCUMENTS:
        raise ChunkcalcError(f"holds more than {MOST_DOCUMENTS:,} entries", path, "give a part of it")
    found: list[tuple[int, Document]] = []
    skipped = []
    for row, entry in enumerate(entries, 1):
        if isinstance(entry, dict):
            found.append((row, entry))
        else:
            skipped.append(Skipped(row, "is no JSON object"))
    return Documents(found, skipped)


def within(document: object, *keys: str | int) -> Any:
    """What stands at a path of keys and positions, None where there is nothing.

    >>> within({"a": [{"b": 5}]}, "a", 0, "b"), within({"a": 1}, "a", "b")
    (5, None)
    """
    found: Any = document
    for key in keys:
        if isinstance(key, str):
            found = found.get(key) if isinstance(found, dict) else None
        else:
            found = found[key] if isinstance(found, list) and key < len(found) else None
    return found


def first_of(document: object, *paths: tuple[str | int, ...]) -> Any:
    """What stands at the first path that leads to something, None where none does."""
    return next((found for path in paths if (found := within(document, *path)) is not None), None)


def _sequence(content: str) -> Iterator[Any]:
    """Values one after another, with nothing but white space between them."""
    decoder, place = json.JSONDecoder(), _skip(content, 0)
    while place < len(content):
        entry, place = decoder.raw_decode(content, place)
        yield from entry if isinstance(entry, list) else [entry]
        place = _skip(content, place)


def _by_line(content: str) -> Iterator[Any]:
    """The values of each line, None for one that is not JSON."""
    for line in content.split("\n"):
        try:
            yield from list(_sequence(line))
        except (ValueError, RecursionError):
            yield None


def _skip(content: str, place: int) -> int:
    space = SPACE.match(content, place)
    return space.end() if space else place
