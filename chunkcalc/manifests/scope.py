"""What stands around a container: labels, annotations, GPU type and count, role."""

from __future__ import annotations

import re
from collections.abc import Iterator

from chunkcalc.engines.words import Word
from chunkcalc.frozen import dataclass
from chunkcalc.manifests.expand import literal
from chunkcalc.manifests.nodes import Node
from chunkcalc.manifests.process import Role

PREFIX = "chunkcalc/"
_GPU_RESOURCE = re.compile(r"(^|[./])(gpu|tpu|mig-[\w.]+|gaudi|ascend[\w-]*|neuron\w*|xpu|shared-gpu)$", re.IGNORECASE)
_GPU_LABEL = re.compile(r"accelerator|gpu|tpu|instance-?type|machine|node-?pool|nvidia|amd\.com|card", re.IGNORECASE)
_ROLES = re.compile(r"prefill|decode", re.IGNORECASE)
_NOT_RUN = frozenset(("livenessProbe", "readinessProbe", "startupProbe", "lifecycle"))
# Section of the workers of a group -> where its leader stands, which is the process that counts.
LEADERS = {"workerTemplate": ("leaderTemplate", "entryTemplate"), "worker": ("leader", "template", "headNode"),
           "workerSpec": ("containers",)}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scope:
    """A value with what stands around it.

    chain : (key, value) from the document's root to the value itself
    """

    chain: tuple[tuple[str, Node], ...]

    @property
    def node(self) -> Node:
        """The value itself."""
        return self.chain[-1][1]

    def outwards(self) -> Iterator[Node]:
        """The value, then what holds it, and so on."""
        return (node for _, node in reversed(self.chain))

    def find(self, *path: str | int) -> Node | None:
        """The nearest value of that path, looking outwards."""
        return next((found for node in self.outwards() if (found := node.get(*path)) is not None), None)

    def all(self, *path: str | int) -> list[Node]:
        """Every value of that path, the nearest first."""
        return [found for node in self.outwards() if (found := node.get(*path)) is not None]

    @property
    def name(self) -> str:
        """Name of the object that holds it, and of the service inside it where it has several."""
        found = self.find("metadata", "name")
        keys = [key for key, _ in self.chain]
        service = keys[keys.index("services") + 1] if "services" in keys[:-1] else ""
        outer = found.text if found is not None else ""
        if service:
            return f"{outer}/{service}" if outer else service
        return outer or next((n.string("name") for n in self.outwards() if n.string("name")), "")

    def annotations(self) -> dict[str, Word]:
        """Settings for this tool in annotations; the nearest wins."""
        out: dict[str, Word] = {}
        for source in [*reversed(self.all("metadata", "annotations")), *reversed(self.all("annotations"))]:
            for key, node in source.mapping().items():
                if key.startswith(PREFIX):
                    out[key.removeprefix(PREFIX)] = Word(node.text, source.keys[key], node.pointer)
        for source in reversed(self.all("labels")):  # of a compose service
            for key, node in source.mapping().items():
                if key.startswith(PREFIX):
                    out.setdefault(key.removeprefix(PREFIX), Word(node.text, source.keys[key], node.pointer))
        return out

    def replicas(self) -> int:
        """How many copies run."""
        for path in (("replicas",), ("replicaCount",), ("minReplicas",), ("deploy", "replicas")):  # the last: compose
            found = self.find(*path)
            if found is not None and isinstance(found.value, int) and not isinstance(found.value, bool):
                return max(0, found.value)
        return 1

    def role(self) -> Role:
        """Prefill or decode, by sections, labels and names; both where nothing tells."""
        keys = [key for key, _ in self.chain]
        texts = [keys[-1] if keys else "", *reversed(keys)]
        for path in (("subComponentType",), ("type",), ("metadata", "labels"), ("labels",), ("name",),
                     ("metadata", "name")):  # fmt: skip
            for node in self.all(*path):
                texts += [v.text for k, v in node.mapping().items() if "chunkcalc" not in k] or [node.text]
        for text in texts:
            found = role_of(text)
            if found != "both":
                return found
        return "both"

    def gpu_names(self) -> list[Word]:
        """Texts that may name the GPU type, the likeliest first."""
        out: list[Word] = []
        for selector in self.all("nodeSelector"):
            out += [_word(node) for key, node in selector.mapping().items() if _GPU_LABEL.search(key)]
        for terms in [*self.all("affinity"), *self.all("nodeSelectorTerms")]:
            out += _affinity(terms)
        slices = [re.sub(r"^.*mig-", "", key) for key in self._gpu_resources() if "mig-" in key]
        if slices:
            out = [word.at(f"{word}-MIG-{slices[0]}") if "mig" not in word.lower() else word for word in out]
            out.append(Word(next(key for key in self._gpu_resources() if "mig-" in key)))
        return out

    def gpus(self) -> int | None:
        """GPUs of one pod, by its resources; None where nothing says so."""
        counts = [_whole(node) for node in self._gpu_resources().values()]
        known = [count for count in counts if count]
        return sum(known) if known else None

    def _gpu_resources(self) -> dict[str, Node]:
        for resources in self.all("resources"):
            for kind in ("limits", "requests"):
                found = {
                    key: node
                    for key, node in resources.mapping(kind).items()
                    if _GPU_RESOURCE.search(key.strip()) and _whole(node)
                }
                if found:
                    return found
        return {}

    def group(self) -> int:
        """Pods that make one replica."""
        size = self.find("leaderWorkerTemplate", "size") or self.find("multinode", "nodeCount")
        if size is not None:
            return _whole(size) or 1
        keys = [key for key, _ in self.chain]
        if "leader" in keys or "entryTemplate" in keys:
            more = self.find("worker", "size") or self.find("workerReplicas")
            return 1 + (_whole(more) or 0 if more is not None else 0)
        stages = self.find("workerSpec", "pipelineParallelSize") or self.find("podGroupSize")
        return (_whole(stages) or 1) if stages is not None else 1


def role_of(text: str) -> Role:
    """Prefill or decode, where a text names one of them."""
    found = {match.lower() for match in _ROLES.findall(text)}
    if len(found) != 1 or len(text) > 100:
        return "both"
    return "prefill" if "prefill" in found else "decode"


def _whole(node: Node | None) -> int | None:
    text = node.text.strip() if node is not None and not isinstance(node.value, (dict, list)) else ""
    return int(text) if re.fullmatch(r"\d{1,6}", text) else None


def _word(node: Node) -> Word:
    return Word(literal(node.text, {}), node.line, node.pointer)


def _affinity(terms: Node) -> list[Word]:
    """Values that an affinity requires, where it names one only."""
    out = []
    for node in terms.walk():
        if not isinstance(node.value, dict) or node.string("operator") != "In":
            continue
        values = node.items("values")
        if _GPU_LABEL.search(node.string("key")) and len(values) == 1:
            out.append(_word(values[0]))
        elif _GPU_LABEL.search(node.string("key")):
            out += [_word(value) for value in values]
    return out


def scopes(root: Node) -> Iterator[Scope]:
    """Every mapping of a document with what stands around it, in file order."""
    stack: list[tuple[tuple[str, Node], ...]] = [(("", root),)]
    while stack:
        chain = stack.pop()
        node = chain[-1][1]
        if isinstance(node.value, dict):
            yield Scope(chain)
            below = [(key, value) for key, value in node.value.items() if key not in _NOT_RUN]
        else:
            below = [(chain[-1][0], value) for value in node.items()]
        stack += [(*chain, pair) for pair in reversed(below) if isinstance(pair[1].value, (dict, list))]
