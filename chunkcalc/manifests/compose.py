"""docker-compose services."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from copy import copy

from chunkcalc.engines.words import Word
from chunkcalc.manifests.boxes import Box, Placed
from chunkcalc.manifests.configs import Configs, composed
from chunkcalc.manifests.expand import templates
from chunkcalc.manifests.nodes import Node
from chunkcalc.manifests.scope import Scope
from chunkcalc.manifests.shell import run_dry


def services(root: Node, configs: Configs) -> Iterator[tuple[Scope, Box]]:
    """The services of a compose file."""
    known = root.mapping("services")
    for name, own_node in known.items():
        node = _extended(own_node, known)
        if not isinstance(node.value, dict) or (node.get("image") is None and node.get("build") is None):
            continue
        scope = Scope((("", root), ("services", root.value["services"]), (name, node)))
        own = {key: composed(str(value), {}) for key, value in configs.variables(node).items()}
        entry = node.get("entrypoint")
        box = Box(
            _words(entry) if entry is not None else None, _words(node.get("command")),
            composed(node.string("image"), {}), own, configs, node, prepared=lambda text: templates(composed(text, {})),
        )  # fmt: skip
        yield scope, box


def _extended(node: Node, known: Mapping[str, Node]) -> Node:
    """A service over the one of the same file that it extends."""
    named = node.get("extends")
    if named is None or named.get("file") is not None:
        return node
    base = known.get(named.string("service") or named.text)
    if base is None or not isinstance(base.value, dict) or not isinstance(node.value, dict):
        return node
    out = copy(node)
    out.value = {**base.value, **node.value}
    return out


def is_compose(root: Node) -> bool:
    """Whether a document is a compose file."""
    return root.get("apiVersion") is None and any(
        node.get("image") is not None or node.get("build") is not None for node in root.mapping("services").values()
    )


def _words(node: Node | None) -> tuple[Word, ...]:
    """A list, or a text that compose splits itself, without a shell."""
    if node is None or node.value is None:
        return ()
    if isinstance(node.value, list):
        return tuple(Word(templates(composed(n.text, {})), n.line, n.pointer) for n in node.value)
    placed = Placed(node, lambda text: templates(composed(text, {})))
    lines = run_dry(placed.text.replace("\n", " "), placed, {}).lines
    return tuple(word for line in lines for word in line.words)


def gpus(node: Node) -> int | None:
    """GPUs of a service; None where it takes all or does not say."""
    devices = [*node.items("deploy", "resources", "reservations", "devices"), *node.items("gpus")]
    for device in devices:
        if device.items("device_ids"):
            return sum(len(each.text.split(",")) for each in device.items("device_ids"))
        count = device.string("count")
        if count.isdigit():
            return int(count)
    listed = next(
        (text for text in _environment(node) if re.fullmatch(r"(CUDA|NVIDIA|HIP)_VISIBLE_DEVICES=\d[\d,]*", text)), ""
    )
    return len(listed.split(",")) if listed else None


def _environment(node: Node) -> list[str]:
    found = node.get("environment")
    if found is None:
        return []
    listed = [f"{key}={value.text}" for key, value in found.mapping().items()]
    return listed or [entry.text for entry in found.items()]
