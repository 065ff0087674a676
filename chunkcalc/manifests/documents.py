"""Documents of YAML and JSON -> engine processes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from chunkcalc.engines.words import Word
from chunkcalc.manifests import compose, settings
from chunkcalc.manifests.assembly import finished, flagged_role, lowered, of_box, of_draft, without_workers
from chunkcalc.manifests.boxes import boxes
from chunkcalc.manifests.configs import Configs
from chunkcalc.manifests.doubts import mentioned
from chunkcalc.manifests.expand import MOST
from chunkcalc.manifests.loose import loose
from chunkcalc.manifests.native import native
from chunkcalc.manifests.nodes import Node, YamlError, documents, pruned
from chunkcalc.manifests.process import BROKEN, UNREADABLE, Process
from chunkcalc.manifests.resources import drafts
from chunkcalc.manifests.scope import Scope, role_of, scopes
from chunkcalc.manifests.sources import Source

MENTIONS = re.compile(
    r"vllm|sglang|trtllm|tensorrt[-_]llm|max[-_]num[-_](batched[-_])?tokens|chunked[-_]prefill|LLMConfig\(|"
    r"max[-_]model[-_]len|llm_configs|kv_cache_config|kind: *(LLM)?InferenceService|kaito|kubeai|NIMService|"
    r"DynamoGraphDeployment",
    re.IGNORECASE,
)
FLAGS = re.compile(r"--(max[-_]num[-_]batched[-_]tokens|chunked-prefill-size|max_num_tokens|max-model-len)\b")
MOST_PROCESSES = 300  # of a file
# Documents of a long file that are worth the parsing: those that mention an engine, and those that others use.
_WANTED = re.compile(rf"{MENTIONS.pattern}|kind: *(ConfigMap|Secret|\w*ServingRuntime|\w*BaseModel)", re.IGNORECASE)
_TEMPLATE = re.compile(r"\{\{|%\{|\$\{[a-z]+\.")


def of_yaml(source: Source) -> list[Process]:
    """The engines of a file of YAML or JSON; a document that cannot be read becomes a process without a command."""
    text = source.text or ""
    mentions = MENTIONS.search(text)
    if mentions is None and not source.asked:
        return []  # nothing here starts an engine: not worth the parsing
    roots, problem = documents(pruned(text, _WANTED))
    if problem is not None and problem.large and not source.asked and not mentioned(text):
        return []
    configs = Configs(roots, source)
    natives = native(roots)
    out: list[Process] = []
    read: dict[int, list[str]] = {}  # pointers by document, of workers too
    for index, root in enumerate(roots):
        if len(out) > MOST_PROCESSES:
            return out
        if root.string("kind") == "Template":
            put_parameters(root)
        found = list(_document(source.path, index, root, configs))
        pointers = [process.pointer for process in found]
        kept = without_workers(pointers)
        if pointers:
            read[index] = pointers
        for process, keep in zip(found, kept, strict=True):
            if keep:
                twice = (Word(key, line, at) for key, line, at in root.twice if at.startswith(process.pointer))
                out.append(finished(replace(process, twice=tuple(twice)), natives))
    if problem is not None and (mentions is not None or source.asked):
        broken = _broken(source, text, problem)
        out.append(broken if mentions is not None else replace(broken, kind=UNREADABLE))
    if not out:
        out += _left_over(source, roots)
        read |= {process.document: [process.pointer] for process in out}
    out += _loose(source, roots, configs, read, natives)
    return sorted(out, key=lambda process: (process.document, process.line))


def _loose(
    source: Source, roots: list[Node], configs: Configs, read: dict[int, list[str]], natives: dict[str, str]
) -> Iterator[Process]:
    """Engines where no known kind of thing was found; ConfigMaps that others use count there."""
    for index, root in enumerate(roots):
        name = root.string("metadata", "name")
        held = root.string("kind") in ("ConfigMap", "Secret") or root.string("kind").endswith("ServingRuntime")
        if held and any(name == node.text for i in read for node in roots[i].walk()):
            continue
        taken = read.get(index, [])
        for process in loose(source.path, index, root, configs, taken):
            if without_workers([*taken, process.pointer])[-1]:
                yield finished(process, natives)


def _left_over(source: Source, roots: list[Node]) -> list[Process]:
    """Flags of an engine in a patch: what they are put into stands elsewhere."""
    for index, root in enumerate(roots):
        if root.string("kind") != "Kustomization" and not any(each.get("op") for each in root.items()):
            continue
        for node in root.walk():
            match = FLAGS.search(node.text) if node.text else None
            if match is not None:
                what = f"{match.group()} is put into a container that is not in this file: render it (kustomize build)"
                return [Process(file=source.path, document=index, pointer=node.pointer,
                                line=node.line_at(match.start()), problems=(what,), kind="unreadable")]  # fmt: skip
    return []


def _broken(source: Source, text: str, problem: YamlError) -> Process:
    lines = text.rstrip("\n").split("\n")
    line = min(problem.line, len(lines))
    template, kind = _TEMPLATE.search(text), BROKEN
    what = f"is not valid YAML ({problem.what})"
    if problem.large:
        what, kind = problem.what, UNREADABLE
    elif template and "{{" in text:
        what, kind = "is a raw template: render it first (helm template . | chunkcalc check -)", UNREADABLE
    elif template:
        what, kind = "is a raw Terraform template: check what it renders", UNREADABLE
    elif "\t" in lines[line - 1]:
        what = "is not valid YAML (a tab indents a line)"
    return Process(file=source.path, line=line, problems=(what,), kind=kind)


def _document(file: str, index: int, root: Node, configs: Configs) -> Iterator[Process]:
    """The processes of one document, in its order."""
    if compose.is_compose(root):
        for scope, box in compose.services(root, configs):
            yield from of_box(file, index, scope, box, configs, gpus=compose.gpus(scope.node), kind="compose service")
        return
    taken: set[str] = set()
    found: list[Process] = []
    for scope in scopes(root):
        for draft in drafts(scope, configs):
            taken.add((draft.scope or scope).node.pointer)
            found += of_draft(file, index, scope, draft)
    for scope, box in boxes(root, configs):
        if not any(scope.node.pointer == t or scope.node.pointer.startswith(t + "/") for t in taken):
            found += of_box(file, index, scope, box, configs, kind=root.string("kind") or "container")
    for scope in scopes(root):
        inner = scope.node.get("serveConfigV2")
        if inner is not None and inner.text:
            found += _embedded(file, index, inner, scope)
    if not found:
        for each in settings.of_document(root):
            name = next((str(model) for model in each.model), "")
            found.append(
                Process(
                    file=file,
                    document=index,
                    pointer=each.node.pointer,
                    line=each.node.line,
                    command=each.command,
                    model=each.model,
                    role=each.role or role_of(flagged_role(each.command)),
                    name=name,
                    kind="engine options",
                )
            )
    yield from sorted(found, key=lambda process: process.line)


def put_parameters(template: Node) -> None:
    """An OpenShift Template: its parameters with a value are put into its objects.

    Parameters
    ----------
    template : the Template, or any value: only a Template has parameters
    """
    values = {each.string("name"): each.string("value") for each in template.items("parameters") if each.get("value")}
    for objects in template.items("objects") if values else ():
        for node in objects.walk():
            if node.text and "${" in node.text:
                text = re.sub(r"\$\{\{(\w+)\}\}", lambda match: values.get(match[1], match.group()), node.text)
                node.text = re.sub(r"\$\{(\w+)\}", lambda match: values.get(match[1], match.group()), text)[:MOST]
                node.value = node.text


def _embedded(file: str, index: int, holder: Node, scope: Scope) -> Iterator[Process]:
    """YAML inside a text: its lines and pointers go on from the text's own."""
    roots, problem = documents(holder.text)
    above = (holder.marks[0][1] if holder.marks else holder.line) - 1
    if problem is not None or not roots:
        return
    inside = list(_document(file, index, roots[0], Configs(roots)))
    for process in inside:
        lower = lowered(process, above, holder.pointer)
        yield replace(lower, name=process.name or scope.name, notes=process.notes or scope.annotations())
    module = next((n.string("import_path") for n in roots[0].items("applications")), "")
    if not inside and module and MENTIONS.search(holder.text + scope.name):
        what = f"the engine is built inside the Python module {module}"
        node = scope.node
        yield Process(file=file, document=index, pointer=node.pointer, line=node.line, name=scope.name,
                      problems=(what,), kind=scope.node.string("kind"))  # fmt: skip
