"""Limits and workload that a file states in fields of its own: Dynamo's requests and planner arguments."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from chunkcalc.manifests.nodes import Node

# Key of this tool -> field of Dynamo; times are in milliseconds there.
_TIMES = {"ttft": "ttft", "tpot": "itl"}
_SIZES = {"prompt": "isl", "output": "osl"}


def native(roots: Iterable[Node]) -> dict[str, str]:
    """Limits and workload of a file, in this tool's words."""
    out: dict[str, str] = {}
    for root in roots:
        if root.string("kind") == "DynamoGraphDeploymentRequest":
            for path in (("spec", "sla"), ("spec", "workload"), ("spec", "profilingConfig", "config", "sla")):
                out = {**_named(root.get(*path)), **out}
        for node in root.walk():
            arguments = [each.text for each in node.items("args")]
            if any("planner" in each for each in [*arguments, *(n.text for n in node.items("command"))]):
                out = {**_planner(arguments), **out}
    return out


def _named(node: Node | None) -> dict[str, str]:
    if node is None:
        return {}
    return _translated({key: value.text for key, value in node.mapping().items()})


def _planner(arguments: list[str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for index, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        key = name.removeprefix("--")
        given[key] = value if equals else arguments[index + 1] if index + 1 < len(arguments) else ""
        if key == "config" and given[key].lstrip().startswith("{"):
            try:
                found = json.loads(given[key])
            except (ValueError, RecursionError):
                continue
            given |= {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}
    return _translated(given)


def _translated(given: dict[str, str]) -> dict[str, str]:
    out = {}
    for name, field in _TIMES.items():
        text = given.get(field, "").strip()
        if re.fullmatch(r"\d+(\.\d+)?", text):
            out[name] = f"{text}ms"
        elif re.fullmatch(r"\d+(\.\d+)?(ms|s)", text):
            out[name] = text
    for name, field in _SIZES.items():
        if re.fullmatch(r"\d{1,9}", given.get(field, "").strip()):
            out[name] = given[field].strip()
    return out
