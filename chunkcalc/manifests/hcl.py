"""Terraform and Nomad files -> values that know where they stand. The only file that parses HCL (the extra `[hcl]`)."""

from __future__ import annotations

import importlib.util
import re
import textwrap
from typing import Any

from chunkcalc.manifests.expand import unknown
from chunkcalc.manifests.nodes import Node

SUFFIXES = (".tf", ".hcl", ".nomad")
QUOTE = '"'
MISSING = "HCL is read by an extra: pip install 'chunkcalc[hcl]'"
MAX_CHARACTERS = 2**17  # a reader of HCL takes long
_NAMES = {"node_selector": "nodeSelector", "instance_type": "instanceType", "volume_mount": "volumeMounts"}


def document(text: str) -> tuple[Node | None, str]:
    """A file of HCL as one document.

    Returns
    -------
    the document, or why there is none
    """
    if importlib.util.find_spec("hcl2") is None:
        return None, MISSING
    if len(text) > MAX_CHARACTERS:
        return None, f"is longer than {MAX_CHARACTERS // 1024} KiB of HCL"
    data = _parsed(text)
    if data is None:
        return None, "is not valid HCL"
    return _Builder(text, _named(data)).node(data, ""), ""


def _parsed(text: str) -> dict[str, Any] | None:
    import hcl2  # noqa: PLC0415 - an extra

    try:
        return dict(hcl2.loads(text + "\n"))
    except Exception:  # lark raises many kinds
        return None


def _named(data: dict[str, Any]) -> dict[str, str]:
    """Variables with a default, and locals, that are plain values."""
    out: dict[str, Any] = {}
    for block in data.get("variable", []):
        out |= {
            f"var.{name.strip(QUOTE)}": held.get("default") for name, held in block.items() if isinstance(held, dict)
        }
    for block in data.get("locals", []):
        out |= {f"local.{name}": value for name, value in block.items()}
    plain = {name: value for name, value in out.items() if isinstance(value, (str, int, float)) and name[-1] != "_"}
    return {name: str(value).strip(QUOTE) for name, value in plain.items() if "${" not in str(value)}


class _Builder:
    """Plain values -> Nodes; each takes the line at which its text is found next."""

    def __init__(self, text: str, known: dict[str, str]) -> None:
        self.text, self.known, self.at = text, known, 0

    def node(self, value: Any, pointer: str) -> Node:
        """A value with the place at which its text is found."""
        if isinstance(value, dict):
            return self._mapping(value, pointer)
        if isinstance(value, list):
            blocks = [each for each in value if isinstance(each, dict) and each.get("__is_block__")]
            if len(blocks) == 1 == len(value):
                only = self.node(blocks[0], pointer)
                return Node([only], only.line, pointer) if only.get("name") and only.get("value") else only
            nodes = [self.node(each, f"{pointer}/{index}") for index, each in enumerate(value)]
            return Node(nodes, nodes[0].line if nodes else self._line(), pointer)
        if not isinstance(value, str):
            return Node(value, self._find(str(value)), pointer, "" if value is None else str(value))
        encoded = re.fullmatch(r"\$\{jsonencode\((.*)\)\}", value, re.DOTALL)
        if encoded:
            inner = _parsed(f"x = {encoded[1]}")
            return self.node(inner["x"], pointer) if inner is not None else Node(None, self._line(), pointer)
        quoted = len(value) > 1 and value[0] == value[-1] == QUOTE
        text = value[1:-1] if quoted else value if value.startswith("${") else "${" + value + "}"
        here = re.match(r"<<-?(\w+)\n", text)
        line = self._find(text[: here.end() - 1] if here else value.strip(QUOTE).split("\\n")[0])
        if here:
            text, line = textwrap.dedent(text[here.end() :].rsplit("\n", 1)[0] + "\n"), line + 1
        else:
            text = re.sub(r'\\(["\\])', r"\1", text).replace("\\n", "\n")
        text = re.sub(r"(?<!\$)\$\{[^{}]*\}", self._put, text).replace("$${", "${")
        marks = tuple((match.end(), line + n + 1) for n, match in enumerate(re.finditer("\n", text)))
        return Node(text, line, pointer, text, ((0, line), *marks))

    def _put(self, match: re.Match[str]) -> str:
        """`${var.x}`, `${local.x}`, `${tostring(var.x)}`; `${NAME}` stays a variable of the environment."""
        name = re.sub(r"^\$\{\s*(?:tostring\()?|\)?\s*\}$", "", match.group())
        if name in self.known:
            return self.known[name]
        return match.group() if re.fullmatch(r"[A-Za-z_]\w*", name) else unknown(match.group())

    def _mapping(self, value: dict[str, Any], pointer: str) -> Node:
        out: dict[str, Node] = {}
        keys: dict[str, int] = {}
        for key, each in value.items():
            if key == "__is_block__":
                continue
            name = key.strip('"')
            keys[_NAMES.get(name, name)] = self._find(name)
            out[_NAMES.get(name, name)] = self.node(each, f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}")
        return Node(out, min(keys.values(), default=self._line()), pointer, keys=keys)

    def _find(self, text: str) -> int:
        found = self.text.find(text, self.at) if text else -1
        if found >= 0:
            self.at = found
        return self._line()

    def _line(self) -> int:
        return self.text.count("\n", 0, self.at) + 1
