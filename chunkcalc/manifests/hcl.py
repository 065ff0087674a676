"""Terraform and Nomad files -> values that know where they stand. The only file that parses HCL (the extra `[hcl]`)."""

from __future__ import annotations

import re
from typing import Any

from chunkcalc.manifests.expand import unknown
from chunkcalc.manifests.nodes import Node

SUFFIXES = (".tf", ".hcl", ".nomad")
MISSING = "HCL is read by an extra: pip install 'chunkcalc[hcl]'"
MAX_CHARACTERS = 2**17  # a reader of HCL takes long
_NAMES = {"node_selector": "nodeSelector", "instance_type": "instanceType", "volume_mount": "volumeMounts"}


def document(text: str) -> tuple[Node | None, str]:
    """A file of HCL as one document.

    Returns
    -------
    the document, or why there is none
    """
    try:
        import hcl2  # noqa: PLC0415 - an extra
    except ImportError:
        return None, MISSING
    if len(text) > MAX_CHARACTERS:
        return None, f"is longer than {MAX_CHARACTERS // 1024} KiB of HCL"
    try:
        data = hcl2.loads(text)
    except Exception as error:  # lark raises many kinds
        return None, f"is not valid HCL ({type(error).__name__})"
    return _Builder(text).node(data, ""), ""


class _Builder:
    """Plain values -> Nodes; each takes the line at which its text is found next."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def node(self, value: Any, pointer: str) -> Node:
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
        text = value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else unknown(value)
        text = re.sub(r'\\(["\\])', r"\1", text).replace("\\n", "\n")
        line = self._find(value.strip('"').split("\\n")[0])
        text = re.sub(r"\$\{[^}]*\}", lambda match: unknown(match.group()), text)
        marks = tuple((match.end(), line + n + 1) for n, match in enumerate(re.finditer("\n", text)))
        return Node(text, line, pointer, text, ((0, line), *marks))

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
