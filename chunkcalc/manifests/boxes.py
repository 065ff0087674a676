"""Containers of any kind of object -> everything that decides what they run."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate

from chunkcalc.engines.words import Word
from chunkcalc.frozen import dataclass
from chunkcalc.manifests.configs import Configs
from chunkcalc.manifests.expand import literal, templates
from chunkcalc.manifests.nodes import Node
from chunkcalc.manifests.scope import Scope, scopes
from chunkcalc.manifests.shell import run_dry


def _kubernetes_script(text: str) -> str:
    return templates(text.replace("$$", "$"))


@dataclass(frozen=True, slots=True)
class Box:
    """Everything that decides what a container runs.

    command, args : its words; None where it leaves them to the image
    image : as written
    variables : of its environment
    configs : of its file
    container : the container itself
    volumes : of its pod
    prepared : what is put into a script before a shell sees it
    keywords : whether its words stand for keywords of Python
    """

    command: tuple[Word, ...] | None
    args: tuple[Word, ...]
    image: str
    variables: Mapping[str, str]
    configs: Configs
    container: Node | None = None
    volumes: tuple[Node, ...] = ()
    prepared: Callable[[str], str] = _kubernetes_script
    keywords: bool = False


def boxes(root: Node, configs: Configs) -> Iterator[tuple[Scope, Box]]:
    """The containers of a document."""
    for scope in scopes(root):
        node, keys = scope.node, [key for key, _ in scope.chain]
        if not any(node.get(key) is not None for key in ("args", "command", "image", "modelCommand")):
            continue
        native = "initContainers" in keys and node.string("restartPolicy") != "Always"
        runs = _listy(node, "args") or _listy(node, "command") or (keys[-1] == "containers" and image_of(node))
        if native or node.string("kind") or not runs or _is_used_runtime(scope, configs):
            continue
        yield scope, box_of(scope, configs)


def _is_used_runtime(scope: Scope, configs: Configs) -> bool:
    """A ServingRuntime that a service of the same file uses counts there."""
    root = scope.chain[0][1]
    return root.string("kind").endswith("ServingRuntime") and root.string("metadata", "name") in configs.used


def _listy(node: Node, key: str) -> bool:
    found = node.get(key)
    return found is not None and (isinstance(found.value, (list, str)))


def image_of(node: Node) -> str:
    """The image of a container, written whole or in parts."""
    image = node.get("image")
    if image is None or not isinstance(image.value, dict):
        return node.string("image")
    tag = image.string("tag")
    registry = image.string("registry")
    name = image.string("repository") or image.string("name")
    return (f"{registry}/" if registry else "") + name + (f":{tag}" if tag else "")


def box_of(scope: Scope, configs: Configs) -> Box:
    """A Kubernetes container with its environment."""
    node = scope.node
    outer = [found for key in ("envs", "env") for found in reversed(scope.all(key)) if found is not node.get(key)]
    variables = {**_injected(scope), **configs.variables(node, outer)}
    first, then = node.get("command"), node.get("args")
    if node.get("entryPoint") is not None:  # a task of ECS
        first, then = node.get("entryPoint"), first
    command = words_of(first, variables) if first is not None else None
    volumes = tuple(volume for found in scope.all("volumes") for volume in found.items())
    return Box(command, words_of(then, variables), image_of(node), variables, configs, node, volumes)


def _injected(scope: Scope) -> dict[str, str]:
    """What operators add to the environment: the size of a group, and OME's degree of parallelism."""
    pods, gpus = scope.group(), scope.gpus() or 0
    out = {}
    if any("leaderWorkerTemplate" in key for key, _ in scope.chain):
        out["LWS_GROUP_SIZE"] = str(pods)
    if scope.chain[0][1].string("apiVersion").startswith("ome.io"):
        out = {"LWS_GROUP_SIZE": str(pods), "MODEL_PATH": "/mnt/models", "PARALLELISM_SIZE": str(max(1, gpus * pods))}
    return out


def words_of(node: Node | None, variables: Mapping[str, str]) -> tuple[Word, ...]:
    """The words of a list; of a single text, as a shell would split it."""
    if node is None or node.value is None:
        return ()
    if isinstance(node.value, list):
        return tuple(Word(literal(n.text, variables), n.line, n.pointer) for n in node.value if n.text or n.marks)
    source = Placed(node, templates)
    return tuple(word for line in run_dry(source.text, source, variables).lines for word in line.words)


class Placed:
    """A scalar's text, with something put into each of its lines, and where its characters stand."""

    def __init__(self, node: Node, put: Callable[[str], str] = str) -> None:
        self.node = node
        starts = [offset for offset, _ in node.marks] or [0]
        ends = [*starts[1:], len(node.text)]
        parts = [put(node.text[start:end]) for start, end in zip(starts, ends, strict=True)]
        self.text = "".join(parts)
        self.starts = [0, *accumulate(len(part) for part in parts[:-1])]

    def __call__(self, offset: int) -> Word:
        """An empty word at a character."""
        index = max(0, bisect_right(self.starts, offset) - 1)
        line = self.node.marks[index][1] if self.node.marks else self.node.line
        return Word("", line, self.node.pointer)
