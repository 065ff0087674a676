"""Makefiles: each line of a recipe is a script of its own, make's variables put in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from chunkcalc.manifests.expand import MOST, closing, unknown

_VARIABLE = re.compile(r"^\s*(?:export\s+|override\s+)*([A-Za-z_][\w.-]*)\s*(\?|:{1,3}|\+|!)?=\s*(.*)$", re.DOTALL)
_TARGET = re.compile(
    r"^([\w./%$(){} -]+?)\s*::?\s*(?:export\s+)?([A-Za-z_][\w.-]*)\s*(\?|:{1,3}|\+)?=\s*(.*)$", re.DOTALL
)
_RULE = re.compile(r"^([\w./%$(){} -]+?)\s*::?(?!=)([^=]*)$", re.DOTALL)
_INLINE = re.compile(r"^([\w./%$(){} -]+?\s*::?(?!=)[^=;#]*);(.*)$", re.DOTALL)  # a recipe on the line of its rule
_CONDITION = re.compile(r"^\s*(ifeq|ifneq)\s+(?:\(([^,]*),([^)]*)\)|[\"']([^\"']*)[\"']\s+[\"']([^\"']*)[\"'])")
DEEPEST = 10  # variables inside variables


def is_makefile(path: str) -> bool:
    """Whether a file is one by its name."""
    name = PurePosixPath(path).name
    return name in ("Makefile", "makefile", "GNUmakefile") or name.endswith(".mk") or name.startswith("Makefile.")


def recipes(text: str, given: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """The scripts of a Makefile, each with its first line.

    Parameters
    ----------
    text : of the Makefile
    given : variables that the command line of make sets
    """
    reader = _Reader(given)
    own_shell = re.search(r"^\.ONESHELL:", text, re.MULTILINE) is None
    targets: list[str] = []
    whole: list[tuple[int, str]] = []  # lines of a recipe that one shell runs
    defined = ""  # the name of a variable of many lines
    for line, logical in _logical(text):
        if defined or logical.lstrip().startswith("define "):
            defined = reader.define(defined, logical)
            continue
        if logical.startswith("\t"):
            body = re.sub(r"^\t[@+\s-]*", "", logical)
            script = reader.put(body.replace("\n\t", "\n"), {**reader.of(targets), **given}, recipe=True)
            if own_shell:
                yield line, reader.exported() + script
            else:
                whole.append((line, script))
            continue
        if whole and logical.strip():
            yield _joined(whole)
            whole = []
        if reader.conditional(logical):
            continue
        if inline := _INLINE.match(logical):
            targets = reader.take(inline[1])
            script = reader.put(inline[2].lstrip("@+- "), {**reader.of(targets), **given}, recipe=True)
            yield line, reader.exported() + script
            continue
        targets = reader.take(logical) or ([] if logical.strip() and not logical.startswith("#") else targets)
    if whole:
        yield _joined(whole)


def _joined(lines: list[tuple[int, str]]) -> tuple[int, str]:
    first = lines[0][0]
    out, at = "", first
    for line, script in lines:
        out += "\n" * max(0, line - at) + script
        at = max(at, line) + script.count("\n")
    return first, out


def _logical(text: str) -> Iterator[tuple[int, str]]:
    """Lines with those that they go on with, and the number of the first."""
    lines = text.split("\n")
    index = 0
    while index < len(lines):
        first, line = index, lines[index]
        index += 1
        while line.endswith("\\") and index < len(lines):
            line += "\n" + lines[index]
            index += 1
        yield first + 1, line


class _Reader:
    """Variables as they are set from top to bottom."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self.given = given
        self.variables: dict[str, str] = {}
        self.shown: set[str] = set()  # exported to the recipes
        self.owned: dict[str, dict[str, str]] = {}  # of single targets
        self.branches: list[str] = []  # `taken`, `passed` or `open` of the conditions around a line

    def define(self, name: str, line: str) -> str:
        """A line of `define NAME ... endef`.

        Returns
        -------
        the variable that goes on; empty where it ends
        """
        if not name:
            named = line.split()
            name = named[1] if len(named) > 1 else "define"
            self.variables[name] = ""
            return name
        if line.lstrip().startswith("endef"):
            return ""
        held = self.variables[name]
        self.variables[name] = f"{held}; {line.strip()}".removeprefix("; ").replace("\\\n", " ")[:MOST]
        return name

    def conditional(self, line: str) -> bool:
        """Whether a line is a condition, or stands in a branch that is not taken."""
        word = line.split(maxsplit=1)[0] if line.strip() else ""
        if word in ("ifeq", "ifneq", "ifdef", "ifndef"):
            self.branches.append(self._branch(line))
        elif word == "else" and self.branches:
            self.branches[-1] = {"taken": "passed", "passed": "taken"}.get(self.branches[-1], "open")
        elif word == "endif" and self.branches:
            self.branches.pop()
        else:
            return "passed" in self.branches
        return True

    def _branch(self, line: str) -> str:
        match = _CONDITION.match(line)
        if not match:
            return "open"
        left, right = match[2] if match[2] is not None else match[4], match[3] if match[3] is not None else match[5]
        sides = [self.put(side.strip(), {**self.variables, **self.given}, recipe=False) for side in (left, right)]
        if any(unknown("")[0] in side for side in sides):
            return "open"
        return "taken" if (sides[0] == sides[1]) == (match[1] == "ifeq") else "passed"

    def take(self, line: str) -> list[str]:
        """A line outside recipes.

        Returns
        -------
        the targets of the rule that begins, if one does
        """
        line = re.sub(r"(^|\s)#.*$", "", line).rstrip() if "\n" not in line else line.replace("\\\n", " ")
        match, target = _VARIABLE.match(line), _TARGET.match(line)
        if match:
            self._set(self.variables, match[1], match[2], match[3])
            self.shown |= {match[1]} if line.lstrip().startswith("export") else set()
        elif target:
            for name in target[1].split():
                self._set(self.owned.setdefault(name, dict(self.variables)), target[2], target[3], target[4])
            return target[1].split()
        elif rule := _RULE.match(line):
            return rule[1].split()
        return []

    def _set(self, held: dict[str, str], name: str, how: str | None, value: str) -> None:
        if how == "?" and name in held:
            return
        value = {"!": unknown(f"$({name})"), "+": f"{held.get(name, '')} {value}".strip()}.get(how or "", value)
        if "open" in self.branches and held.get(name) != value:
            value = unknown(f"$({name})")
        held[name] = value[:MOST]

    def of(self, targets: list[str]) -> dict[str, str]:
        """The variables that the recipe of some targets sees."""
        own = next((self.owned[name] for name in targets if name in self.owned), {})
        return {**self.variables, **own}

    def exported(self) -> str:
        """Assignments of the exported variables, before a script on its first line."""
        values = {name: self.put(self.variables[name], self.variables, recipe=False) for name in sorted(self.shown)}
        return "".join(
            f"{name}='{value}'; " for name, value in values.items() if "'" not in value and "\n" not in value
        )

    def put(self, text: str, variables: Mapping[str, str], depth: int = 0, *, recipe: bool) -> str:
        """A text with make's variables put in; what only the environment knows stays a variable of the shell."""
        out, index = "", 0
        while index < len(text) and len(out) < MOST:
            if text[index] != "$":
                out += text[index]
                index += 1
            elif text[index + 1 : index + 2] in ("(", "{"):
                pair = "()" if text[index + 1] == "(" else "{}"
                end = closing(text, index + 2, pair)
                out += self._value(text[index + 2 : end - 1], variables, depth, recipe)
                index = end
            else:
                following = text[index + 1 : index + 2]
                out += "$" if following == "$" else unknown(f"${following}")
                index += 2
        return out

    def _value(self, name: str, variables: Mapping[str, str], depth: int, recipe: bool) -> str:
        if name in variables and depth < DEEPEST:
            return self.put(variables[name], variables, depth + 1, recipe=recipe)
        if re.fullmatch(r"[A-Za-z_]\w*", name) and recipe:
            return "${" + name + "}"
        return unknown(f"$({name})")
