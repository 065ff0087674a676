"""ConfigMaps of a file, and the variables and files that containers get from them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from chunkcalc.engines.words import Word
from chunkcalc.manifests.expand import CLOSE, OPEN, kubernetes, text_of, unknown, unknowns
from chunkcalc.manifests.nodes import Node, documents
from chunkcalc.manifests.sources import Source


class Configs:
    """Everything that a file holds for its containers."""

    def __init__(self, roots: Iterable[Node], source: Source | None = None) -> None:
        self.source = source
        self.maps: dict[str, dict[str, Node]] = {}
        self.runtimes: dict[str, Node] = {}
        self.used: set[str] = set()
        self.models: dict[str, str] = {}
        for root in roots:
            if root.string("kind").endswith("ServingRuntime"):
                self.runtimes[root.string("metadata", "name")] = root
            for node in root.walk():
                if not isinstance(node.value, dict):
                    continue
                self.used.add(node.string("runtime") or node.string("runtime", "name"))
                if node.string("kind") in ("BaseModel", "ClusterBaseModel"):
                    self.models[node.string("metadata", "name")] = node.string("spec", "storage", "storageUri")
                if node.string("kind") in ("ConfigMap", "Secret"):
                    data = {**node.mapping("data"), **node.mapping("stringData")}
                    self.maps.setdefault(node.string("metadata", "name"), {}).update(data)
            for name, config in root.mapping("configs").items():  # of a compose file
                content = config.get("content")
                if content is not None:
                    text = composed(content.text, {})
                    self.maps.setdefault(name, {})[name] = Node(
                        text, content.line, content.pointer, text, content.marks
                    )

    def beside(self, path: str) -> dict[str, Any] | None:
        """The options of a file that lies beside this one."""
        around = self.source.beside if self.source is not None else None
        tail = re.sub(f"^{OPEN}[^{CLOSE}]*(?:dirname|DIR|HERE|PWD|ROOT|SOURCE)[^{CLOSE}]*{CLOSE}/", "", path)
        if around is None or unknowns(tail):
            return None
        found = around.text(tail)
        return options(found.text or "", 1, "", found.path) if found is not None else None

    def variables(self, container: Node, outer: Iterable[Node] = ()) -> dict[str, str]:
        """The environment of a container; what is not in the file is marked as unknown."""
        out: dict[str, str] = {}
        for source in container.items("envFrom"):
            out |= self._data(source.string("configMapRef", "name"))
        lists = [*outer, *(found for key in ("env", "envs", "environment") if (found := container.get(key)))]
        for entries in lists:
            for name, node in _pairs(entries):
                if node is None:
                    out[name] = unknown(f"${name}")
                elif isinstance(node.value, dict):
                    out[name] = self._referred(node, name)
                else:
                    out[name] = Word(kubernetes(node.text, out), node.line, node.pointer)
        return out

    def _data(self, name: str) -> dict[str, str]:
        return {key: Word(node.text, node.line, node.pointer) for key, node in self.maps.get(name, {}).items()}

    def _referred(self, node: Node, name: str) -> str:
        """`valueFrom`: a key of a ConfigMap."""
        if node.string("value"):
            return node.string("value")
        map_name = node.string("valueFrom", "configMapKeyRef", "name")
        found = self.maps.get(map_name, {}).get(node.string("valueFrom", "configMapKeyRef", "key"))
        return unknown(f"${name}") if found is None else Word(found.text, found.line, found.pointer)

    def file(self, path: str, container: Node | None = None, volumes: Iterable[Node] = ()) -> Node | None:
        """What a path inside a container holds; None where it is in no ConfigMap."""
        named = {volume.string("name"): volume for volume in volumes}
        for mount in [] if container is None else [*container.items("volumeMounts"), *container.items("configs")]:
            place = mount.string("mountPath") or mount.string("mountPoint") or mount.string("target")
            if not place or not (path == place or path.startswith(place.rstrip("/") + "/")):
                continue
            rest = path[len(place.rstrip("/")) :].strip("/")
            inside = mount.string("subPath") + ("/" + rest if mount.string("subPath") and rest else "") or rest
            volume = named.get(mount.string("name"))
            name = volume.string("configMap", "name") if volume is not None else mount.string("source")
            items = volume.items("configMap", "items") if volume is not None else []
            key = next((item.string("key") for item in items if item.string("path") == inside), inside)
            found = self.maps.get(name, {}).get(key or name)
            if found is not None:
                return found
        base = PurePosixPath(path).name
        return next((data[base] for data in self.maps.values() if base in data), None)


def _pairs(entries: Node) -> list[tuple[str, Node | None]]:
    """Variables as Kubernetes lists, compose lists and maps write them."""
    out: list[tuple[str, Node | None]] = []
    if isinstance(entries.value, dict):
        return [(name, node if node.value is not None else None) for name, node in entries.value.items()]
    for entry in entries.items():
        if isinstance(entry.value, dict):
            value = entry.get("value")
            out.append((entry.string("name"), value if value is not None else entry))
        else:
            name, equals, text = entry.text.partition("=")
            out.append((name, Node(text, entry.line, entry.pointer, text) if equals else None))
    return out


def options(text: str, line: int = 1, pointer: str = "", file: str = "") -> dict[str, Any] | None:
    """An engine's YAML options, each key with its line; None where they are not a mapping."""
    roots, problem = documents(text)
    if problem is not None or not roots or not isinstance(roots[0].value, dict):
        return None
    return plain_options(roots[0], line - 1, pointer, file)


def moved(found: Mapping[str, Any], lines: Sequence[int]) -> dict[str, Any]:
    """Options with their keys at other lines.

    Parameters
    ----------
    found : as `options` reads them, from line 1
    lines : of the file, by line of the options' text
    """
    out: dict[str, Any] = {}
    for key, value in found.items():
        word = Word(key, lines[min(key.line, len(lines)) - 1], key.pointer, key.file) if isinstance(key, Word) else key
        out[word] = moved(value, lines) if isinstance(value, dict) else value
    return out


def plain_options(node: Node, above: int = 0, pointer: str | None = None, file: str = "") -> dict[str, Any]:
    """A mapping as options, keys with their lines at every level.

    Parameters
    ----------
    node : the mapping
    above : lines of the file above its text
    pointer : of the scalar that holds the text; None where the node stands in the file itself
    file : the other file, where it stands in one
    """
    out: dict[str, Any] = {}
    for key, value in node.mapping().items():
        place = value.pointer if pointer is None else pointer
        word = Word(key, node.keys[key] + above, place, file)
        inner = plain_options(value, above, pointer, file) if isinstance(value.value, dict) else value.plain()
        out[word] = inner
    return out


def composed(text: str, variables: Mapping[str, str]) -> str:
    """A text of a compose file: `${NAME:-default}` put in, `$$` a plain dollar.

    Parameters
    ----------
    text : the text
    variables : of the shell that runs compose; what is not there is unknown
    """
    return "$".join(text_of(part, variables) for part in text.split("$$"))
