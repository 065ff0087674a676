"""What a script sets on some branch only: kept as far as all branches agree, the rest marked as not known."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from chunkcalc.engines.words import Word
from chunkcalc.manifests.decisive import decisive
from chunkcalc.manifests.expand import unknown

_KEY = re.compile(r"([A-Za-z_][\w.-]*)\s*:")
_OPTIONS = (".yaml", ".yml", ".json", ".toml")


class Content(NamedTuple):
    """What a script writes to a file.

    text : the content
    places : an empty word at each of its lines
    """

    text: str
    places: tuple[Word, ...]

    @classmethod
    def at(cls, text: str, first: Word) -> Content:
        """Lines that follow each other in the script."""
        count = text.count("\n") + 1
        return cls(text, tuple(Word("", first.line + n, first.pointer, first.file) for n in range(count)))

    def then(self, more: Content) -> Content:
        """It with more behind it."""
        lines = self.text.count("\n")
        return Content(self.text + more.text, (*self.places[:lines], *more.places))

    def place(self, line: int) -> Word:
        """Where a line of it stands in the script."""
        return self.places[min(line, len(self.places) - 1)]


def either(before: Sequence[Word], after: Sequence[Word], name: str, appends: bool) -> list[Word]:
    """Words of an array that a branch sets or adds to.

    Parameters
    ----------
    before, after : its words without the branch, and those that the branch gives
    name : of the array
    appends : whether the branch adds to it

    Returns
    -------
    what stands in both; of flags that only one has or that differ, the flag with a value that is not known
    """
    old, new = list(_items(before)), list(_items(after))
    known = {_flag(item): item for item in new}
    out: list[Word] = []
    for item in old:
        other = known.pop(_flag(item), None)
        same = other is not None and [str(w) for w in other] == [str(w) for w in item]
        if same or (other is None and (appends or _harmless(item))):
            out += item
        else:
            out += _doubtful(item, name)
    for item in known.values():
        out += item if _harmless(item) else _doubtful(item, name)
    return out


def either_text(before: str | None, after: str, name: str) -> str:
    """A variable that a branch sets: flag by flag where it holds flags and holds the earlier ones, else not known."""
    if not before or not after.startswith(before) or not re.search(r"(^|\s)-", after):
        return unknown(f"${name}")
    place = after if isinstance(after, Word) else Word(after)
    more = [place.at(part) for part in after[len(before) :].split()]
    return place.at(" ".join(either([place.at(part) for part in before.split()], more, name, True)))


def either_content(before: Content, after: Content, appends: bool, name: str) -> Content:
    """A file that a branch writes or adds to, key by key where it holds options."""
    old, new = _blocks(before), _blocks(after)
    if old is None or new is None:
        told = Content(unknown(name), after.places[:1])
        return told if name.endswith(_OPTIONS) else after
    out = []
    for key, block in old.items():
        other = new.pop(key, None)
        same = other is not None and other.text == block.text
        out.append(block if same or (other is None and appends) else _open(key, block))
    out += [_open(key, block) for key, block in new.items()]
    places = tuple(place for block in out for place in block.places)
    return Content("".join(block.text for block in out), (*places, after.places[-1]))


def _items(words: Sequence[Word]) -> Iterator[list[Word]]:
    """Each flag with the words behind it; words before the first flag one by one."""
    item: list[Word] = []
    for word in words:
        if item and (word.startswith("-") or not item[0].startswith("-")):
            yield item
            item = []
        item.append(word)
    if item:
        yield item


def _flag(item: Sequence[Word]) -> str:
    return item[0].partition("=")[0] if item[0].startswith("-") else str(item[0])


def _harmless(item: Sequence[Word]) -> bool:
    return item[0].startswith("-") and not decisive(_flag(item))


def _doubtful(item: Sequence[Word], name: str) -> list[Word]:
    """An item that counts on some branch only."""
    mark = unknown(f"${name}")
    return [item[0].at(f"{_flag(item)}={mark}" if item[0].startswith("-") else mark)]


def _blocks(content: Content) -> dict[str, Content] | None:
    """Options by key, each with the lines below it; None where the content is no such thing."""
    out: dict[str, Content] = {}
    key = ""
    for number, line in enumerate(content.text.splitlines()):
        match = _KEY.match(line)
        if match:
            key = match[1]
            out[key] = Content("", ())
        elif line.strip() and (not key or not line.startswith((" ", "#", "-"))):
            return None
        if key:
            held = out[key]
            out[key] = Content(f"{held.text}{line}\n", (*held.places, content.place(number)))
    return out


def _open(key: str, block: Content) -> Content:
    return Content(f"{key}: {unknown(f'${key}')}\n", block.places[:1])
