"""YAML text -> values that know where they stand. The only file of this package that parses YAML."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import field
from itertools import pairwise
from typing import Any

from chunkcalc.frozen import dataclass

MAX_NODES = 40_000  # of one file, aliases followed
MAX_CHARACTERS = 2**20  # of one file, as far as it is parsed
FEW_CHARACTERS = 2**18  # below it all documents of a file are parsed
FARTHEST = 100  # lines ahead in which the next word of a folded text is looked for
DEEPEST = 100  # levels of nesting


@dataclass(slots=True)
class Node:
    """A value of a YAML document.

    value : dict of text to Node, list of Nodes, or a scalar as YAML reads it
    line : 1-based line at which it begins
    pointer : JSON pointer inside its document
    text : a scalar as text; empty for others
    marks : (offset in the text, line) wherever the line changes
    keys : line of each key of a mapping
    twice : (key, line, pointer) of keys below it that stand twice in a mapping; of a document only
    """

    value: Any
    line: int
    pointer: str
    text: str = ""
    marks: tuple[tuple[int, int], ...] = ()
    keys: dict[str, int] = field(default_factory=dict)
    twice: tuple[tuple[str, int, str], ...] = ()

    def get(self, *path: str | int) -> Node | None:
        """What lies below it; None where the path breaks off."""
        node: Node | None = self
        for step in path:
            if node is None:
                return None
            if isinstance(node.value, dict) and isinstance(step, str):
                node = node.value.get(step)
            elif isinstance(node.value, list) and isinstance(step, int) and step < len(node.value):
                node = node.value[step]
            else:
                return None
        return node

    def string(self, *path: str | int) -> str:
        """The scalar below it as text; empty where there is none."""
        node = self.get(*path)
        return "" if node is None or isinstance(node.value, (dict, list)) or node.value is None else node.text

    def items(self, *path: str | int) -> list[Node]:
        """The list below it; empty where there is none."""
        node = self.get(*path)
        return node.value if node is not None and isinstance(node.value, list) else []

    def mapping(self, *path: str | int) -> dict[str, Node]:
        """The mapping below it; empty where there is none."""
        node = self.get(*path)
        return node.value if node is not None and isinstance(node.value, dict) else {}

    def line_at(self, offset: int) -> int:
        """The line of a place in a scalar's text."""
        return self.marks[max(0, bisect_right(self.marks, (offset, 2**31)) - 1)][1] if self.marks else self.line

    def walk(self) -> Iterator[Node]:
        """It and everything below it, in file order."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            if isinstance(node.value, dict):
                stack += reversed(list(node.value.values()))
            elif isinstance(node.value, list):
                stack += reversed(node.value)

    def plain(self) -> Any:
        """The value as plain data."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        return [node.plain() for node in self.value] if isinstance(self.value, list) else self.value


class YamlError(Exception):
    """A document that cannot be read."""

    def __init__(self, line: int, what: str, *, large: bool = False) -> None:
        super().__init__(line, what)
        self.line, self.what, self.large = line, what, large


def documents(text: str) -> tuple[list[Node], YamlError | None]:
    """The documents of a YAML text, up to the first problem.

    Returns
    -------
    documents, and what stopped the reading
    """
    import yaml  # noqa: PLC0415 - 25 ms that other commands need not pay

    loader = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
    out: list[Node] = []
    text = str(text)  # libyaml takes no subclass
    if len(text) > MAX_CHARACTERS:
        return [], YamlError(1, f"has more than {MAX_CHARACTERS // 2**20} MiB of YAML", large=True)
    source = text.split("\n")
    build = _Builder(yaml, source)
    try:
        for composed in yaml.compose_all(text, Loader=loader):
            if composed is not None:
                out.append(build(composed))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        return out, YamlError(mark.line + 1 if mark else 1, _sentence(str(error.problem or error.context)))
    except (yaml.YAMLError, ValueError) as error:  # a character that YAML does not allow
        return out, YamlError(_line_of(error, text), _sentence(str(error)))
    except RecursionError:
        return out, YamlError(1, f"nested more than {DEEPEST} levels deep")
    except YamlError as problem:
        return out, problem
    return out, None


def pruned(text: str, wanted: re.Pattern[str]) -> str:
    """A long text without the documents in which a pattern does not occur; every line stays where it is."""
    if len(text) <= FEW_CHARACTERS:
        return text
    starts = [0, *(match.start() for match in re.finditer(r"^---", text, re.MULTILINE)), len(text)]
    parts = (text[begin:end] for begin, end in pairwise(starts))
    return "".join(part if wanted.search(part) else "\n" * part.count("\n") for part in parts)


def _sentence(problem: str) -> str:
    return " ".join(problem.split())[:160]


def _line_of(error: Exception, text: str) -> int:
    position = getattr(error, "position", None)
    return text.count("\n", 0, position) + 1 if isinstance(position, int) else 1


class _Builder:
    """Composed YAML -> Nodes. Values are counted first, aliases followed, so that none can blow up."""

    def __init__(self, yaml: Any, source: list[str]) -> None:
        self.yaml, self.source, self.left = yaml, source, MAX_NODES
        self.resolve = yaml.SafeLoader("").construct_object
        self.twice: list[tuple[str, int, str]] = []

    def __call__(self, composed: Any) -> Node:
        self.left -= self._size(composed, {}, 0)
        if self.left < 0:
            line = composed.start_mark.line + 1
            raise YamlError(line, f"has more than {MAX_NODES:,} values, aliases followed", large=True)
        self.twice = []
        root = self._node(composed, "")
        root.twice = tuple(self.twice)
        return root

    def _size(self, composed: Any, known: dict[int, int], depth: int) -> int:
        """Values below a node, as many times as aliases and merges repeat them."""
        if isinstance(composed, self.yaml.ScalarNode):
            return 1
        if id(composed) in known:
            if not known[id(composed)]:
                raise YamlError(composed.start_mark.line + 1, "an alias stands inside the value that it names")
            return known[id(composed)]
        if depth > DEEPEST:
            raise YamlError(composed.start_mark.line + 1, f"nested more than {DEEPEST} levels deep")
        known[id(composed)] = 0
        mapping = isinstance(composed, self.yaml.MappingNode)
        below = (value for _, value in composed.value) if mapping else composed.value
        known[id(composed)] = 1 + sum(self._size(each, known, depth + 1) for each in below)
        return known[id(composed)]

    def _node(self, composed: Any, pointer: str) -> Node:
        if isinstance(composed, self.yaml.MappingNode):
            return self._mapping(composed, pointer)
        if isinstance(composed, self.yaml.SequenceNode):
            values = [self._node(each, f"{pointer}/{i}") for i, each in enumerate(composed.value)]
            return Node(values, composed.start_mark.line + 1, pointer)
        marks = _marks(composed, self.source)
        return Node(self._scalar(composed), marks[0][1], pointer, composed.value, marks)

    def _mapping(self, composed: Any, pointer: str) -> Node:
        out: dict[str, Node] = {}
        keys: dict[str, int] = {}
        merged: list[Any] = []
        for key, value in composed.value:
            if key.tag == "tag:yaml.org,2002:merge":
                merged += value.value if isinstance(value, self.yaml.SequenceNode) else [value]
                continue
            name = str(key.value) if isinstance(key, self.yaml.ScalarNode) else "?"
            step = name.replace("~", "~0").replace("/", "~1")
            if name in out:
                self.twice.append((name, key.start_mark.line + 1, pointer))
            out[name] = self._node(value, f"{pointer}/{step}")
            keys[name] = key.start_mark.line + 1
        for each in merged:
            if isinstance(each, self.yaml.MappingNode):
                base = self._mapping(each, pointer)
                for name, node in base.value.items():
                    out.setdefault(name, node)
                    keys.setdefault(name, base.keys[name])
        line = min([composed.start_mark.line + 1, *keys.values()])
        return Node(out, line, pointer, keys=keys)

    def _scalar(self, composed: Any) -> Any:
        """Text, number, truth value or nothing; dates and other tags stay text."""
        kind = composed.tag.removeprefix("tag:yaml.org,2002:")
        if kind == "null":
            return None
        if kind not in ("int", "float", "bool"):
            return composed.value
        try:
            return self.resolve(composed)
        except (ValueError, OverflowError, LookupError, self.yaml.YAMLError):
            return composed.value


def _marks(composed: Any, source: list[str]) -> tuple[tuple[int, int], ...]:
    """(offset in a scalar's text, line of the file) wherever the line changes."""
    first = composed.start_mark.line + 1
    if composed.end_mark.line + 1 == first:
        return ((0, first),)
    if composed.style == "|":
        ends = [match.end() for match in re.finditer("\n", composed.value)]
        return tuple(zip([0, *ends], range(first + 1, first + 2 + len(ends)), strict=True))
    return _folded(composed.value, first + (composed.style == ">"), composed.end_mark.line + 1, source)


def _folded(text: str, first: int, last: int, source: list[str]) -> tuple[tuple[int, int], ...]:
    """Text whose lines were joined: its words are looked for in the lines of the file, one after the other."""
    out, line, column = [(0, first)], first, 0
    for match in re.finditer(r"\S+", text):
        for at in range(line, min(last, len(source), line + FARTHEST) + 1):
            found = source[at - 1].find(match.group(), column if at == line else 0)
            if found >= 0:
                if at != line:
                    out.append((match.start(), at))
                line, column = at, found + len(match.group())
                break
    return tuple(out)
