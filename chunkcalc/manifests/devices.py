"""GPU names and counts in the fields of many tools: `H100:8`, `{H100: 8}`, `{type: H100, count: 8}`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from chunkcalc.engines.words import Word
from chunkcalc.manifests.fields import word
from chunkcalc.manifests.nodes import Node
from chunkcalc.manifests.scope import Scope

_FIELDS = ("accelerators", "accelerator", "gpu_type", "gpuType", "gpu_name", "accelerator_type", "gpuTypeId",
           "instanceType", "instance_type", "resource_type", "gpu", "gpus", "gres")  # fmt: skip


def devices(scope: Scope) -> tuple[list[Word], int | None]:
    """GPU names and how many, as the fields around a command give them."""
    names, gpus = scope.gpu_names(), scope.gpus()
    for node in [each for outer in scope.outwards() for each in (outer, outer.get("resources")) if each is not None]:
        for key in _FIELDS:
            found = node.get(key)
            for name, number in _named(found) if found is not None else ():
                names.append(name)
                gpus = gpus or number
        per = node.string("gpus_per_node")
        gpus = gpus or (int(per) if per.isdigit() else None)
    return names, gpus


def split_count(name: Word) -> tuple[Word, int | None]:
    """`H100:8` as a name and a number."""
    match = re.fullmatch(r"(.+):(\d{1,4})", name)
    return (name.at(match[1]), int(match[2])) if match else (name, None)


def _named(node: Node) -> Iterator[tuple[Word, int | None]]:
    if isinstance(node.value, dict):
        kind = node.get("type") or node.get("name")
        number = node.string("count")
        if kind is not None:
            yield Word(kind.text, kind.line, kind.pointer), int(number) if number.isdigit() else None
            return
        for key, value in node.mapping().items():
            if value.text.isdigit():
                yield Word(key, node.keys[key], value.pointer), int(value.text)
        return
    found = word(node)
    if found is not None and not found.isdigit():
        yield split_count(found)
