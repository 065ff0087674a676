"""Makefiles: their recipes as scripts of a shell, their variables put in."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from chunkcalc.manifests.expand import MOST, unknown

_VARIABLE = re.compile(r"^(?:export\s+|override\s+)*([A-Za-z_][\w.-]*)\s*(\?|:{1,3}|\+|!)?=\s*(.*)$")
_REFERENCE = re.compile(r"\$\$|\$[({]([A-Za-z_][\w.-]*)[)}]|\$[({][^)}]*[)}]|\$([@<^*?%+])")
DEEPEST = 10  # variables inside variables


def is_makefile(path: str) -> bool:
    """Whether a file is one by its name."""
    name = PurePosixPath(path).name
    return name in ("Makefile", "makefile", "GNUmakefile") or name.endswith(".mk") or name.startswith("Makefile.")


def as_script(text: str, given: dict[str, str]) -> str:
    """The recipes of a Makefile as one script, line by line where they stand.

    Parameters
    ----------
    text : of the Makefile
    given : variables that the command line of make sets
    """
    variables: dict[str, str] = {}
    out: list[str] = []
    going = recipe = False
    for line in text.split("\n"):
        if line.startswith("\t") or (going and recipe):
            body = re.sub(r"^\t[@+\s-]*", "", line) if not going else line.lstrip("\t")
            out.append(_put(body, {**variables, **given}, 0, True))
            recipe, going = True, line.endswith("\\")
            continue
        match = None if going else _VARIABLE.match(line.split(" #")[0].rstrip())
        if match and match[2] == "!":
            variables[match[1]] = unknown(f"$({match[1]})")
        elif match and match[2] == "+":
            variables[match[1]] = f"{variables.get(match[1], '')} {match[3]}".strip()[:MOST]
        elif match and not (match[2] == "?" and match[1] in variables):
            variables[match[1]] = match[3][:MOST]
        out.append("")
        recipe, going = False, line.endswith("\\")
    return "\n".join(out)


def _put(text: str, variables: dict[str, str], depth: int, recipe: bool) -> str:
    """A text with make's variables put in; what only the environment knows stays a variable of the shell."""

    def value(match: re.Match[str]) -> str:
        if match.group() == "$$":
            return "$"
        name = match[1]
        if name in variables and depth < DEEPEST:
            return _put(variables[name], variables, depth + 1, recipe)
        if name and recipe:
            return "${" + name.replace(".", "_").replace("-", "_") + "}"
        return unknown(match.group())

    return _REFERENCE.sub(value, text)[:MOST]
