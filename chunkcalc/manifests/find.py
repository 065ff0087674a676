"""A file's text -> every engine process in it, in file order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from chunkcalc.engines.command import Command
from chunkcalc.engines.words import Word
from chunkcalc.manifests import compose, settings, units
from chunkcalc.manifests.configs import Configs
from chunkcalc.manifests.containers import Box, Launch, boxes, launches, opaque, without_workers
from chunkcalc.manifests.decisive import decisive
from chunkcalc.manifests.expand import MOST, plain, unknowns
from chunkcalc.manifests.fields import count
from chunkcalc.manifests.launches import settled
from chunkcalc.manifests.native import native
from chunkcalc.manifests.nodes import Node, YamlError, documents
from chunkcalc.manifests.process import Process, Role
from chunkcalc.manifests.resources import Draft, drafts
from chunkcalc.manifests.scope import Scope, role_of, scopes
from chunkcalc.manifests.scripts import of_script
from chunkcalc.manifests.sources import Source

MENTIONS = re.compile(
    r"vllm|sglang|trtllm|tensorrt[-_]llm|max[-_]num[-_](batched[-_])?tokens|chunked[-_]prefill|LLMConfig\(|"
    r"max[-_]model[-_]len|llm_configs|kv_cache_config|kind: *(LLM)?InferenceService|kaito|kubeai|NIMService",
    re.IGNORECASE,
)
MOST_PROCESSES = 300  # of a file
PROGRAMS = {".py": "a Python program", ".jsonnet": "Jsonnet", ".libsonnet": "Jsonnet"}
STARTS = re.compile(r"vllm[ ,\"'\]]+serve|engine_kwargs|LLMConfig\(|AsyncEngineArgs\(|\bLLM\(|sglang\.launch_server|"
                    r"max[-_]num[-_]batched[-_]tokens", re.IGNORECASE)  # fmt: skip
FLAGS = re.compile(r"--(max[-_]num[-_]batched[-_]tokens|chunked-prefill-size|max_num_tokens|max-model-len)\b")
_TEMPLATE = re.compile(r"\{\{|%\{|\$\{[a-z]+\.")


def find(source: Source) -> list[Process]:
    """The engine processes of a file; what cannot be read becomes a process without a command.

    Parameters
    ----------
    source : the file
    """
    found = _find(source)
    if len(found) <= MOST_PROCESSES:
        return found
    what = f"has {len(found):,} engine processes: the first {MOST_PROCESSES:,} are read"
    return [*found[:MOST_PROCESSES], _unreadable(source, found[MOST_PROCESSES].line, what)]


def _find(source: Source) -> list[Process]:
    if source.text is None:
        return [_unreadable(source, 1, source.problem)] if source.asked else []
    suffix = next((end for end in PROGRAMS if source.path.endswith(end)), "")
    if suffix:
        what = f"{PROGRAMS[suffix]}: what it builds is known only when it runs; check what it renders"
        line = _line_of(STARTS, source.text)
        return [_unreadable(source, line, what)] if line else []
    if source.path.endswith((".sh", ".bash")) or source.text.startswith("#!"):
        return [_finished(_launched(base, launch), {}) for base, launch in of_script(source.path, source.text)]
    if re.search(r"^\[(Service|Container)\]", source.text, re.MULTILINE) and not source.path.endswith(
        (".yaml", ".yml")
    ):
        return list(_units(source.path, source.text))
    return _yaml(source)


def _line_of(pattern: re.Pattern[str], text: str) -> int:
    match = pattern.search(text)
    return text.count("\n", 0, match.start()) + 1 if match else 0


def _unreadable(source: Source, line: int, what: str) -> Process:
    return Process(file=source.path, line=line, problems=(what,), kind="unreadable")


def _yaml(source: Source) -> list[Process]:
    text = source.text or ""
    mentioned = MENTIONS.search(text)
    if mentioned is None and not source.asked:
        return []  # nothing here starts an engine: not worth the parsing
    roots, problem = documents(text)
    configs = Configs(roots)
    natives = native(roots)
    out: list[Process] = []
    for index, root in enumerate(roots):
        if root.string("kind") == "Template":
            put_parameters(root)
        found = list(_document(source.path, index, root, configs))
        kept = without_workers([process.pointer for process in found])
        for process, keep in zip(found, kept, strict=True):
            if keep:
                twice = (Word(key, line, at) for key, line, at in root.twice if at.startswith(process.pointer))
                out.append(_finished(replace(process, twice=tuple(twice)), natives))
    if problem is not None and (mentioned is not None or source.asked):
        out.append(_broken(source, text, problem))
    if not out:
        out += _left_over(source, roots)
    return out


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
    template = _TEMPLATE.search(text)
    what = f"is not valid YAML ({problem.what})"
    if template and "{{" in text:
        what = "is a raw template: render it first (helm template . | chunkcalc check -)"
    elif template:
        what = "is a raw Terraform template: check what it renders"
    elif "\t" in lines[line - 1]:
        what = "is not valid YAML (a tab indents a line)"
    return _unreadable(source, line, what)


def _document(file: str, index: int, root: Node, configs: Configs) -> Iterator[Process]:
    """The processes of one document, in its order."""
    if compose.is_compose(root):
        for scope, box in compose.services(root, configs):
            yield from _of_box(file, index, scope, box, configs, gpus=compose.gpus(scope.node), kind="compose service")
        return
    taken: set[str] = set()
    found: list[Process] = []
    for scope in scopes(root):
        for draft in drafts(scope, configs):
            found += _of_draft(file, index, scope, draft, taken)
    for scope, box in boxes(root, configs):
        if not any(scope.node.pointer == t or scope.node.pointer.startswith(t + "/") for t in taken):
            found += _of_box(file, index, scope, box, configs, kind=root.string("kind") or "container")
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


def _of_draft(file: str, index: int, scope: Scope, draft: Draft, taken: set[str]) -> Iterator[Process]:
    inner = draft.scope or scope
    node = inner.node
    taken.add(node.pointer)
    base = Process(
        file=file, document=index, pointer=node.pointer, line=node.line, name=inner.name,
        model=draft.model, gpu=(*draft.gpu, *inner.gpu_names()), gpus=draft.gpus or inner.gpus(),
        role=draft.role or inner.role(), disabled=draft.disabled,
        replicas=draft.replicas if draft.replicas is not None else inner.replicas(),
        notes=inner.annotations(), problems=draft.problems, kind=inner.chain[0][1].string("kind") or "values",
    )  # fmt: skip
    started = launches(draft.box) if draft.box is not None else []
    if draft.box is None:
        yield base
    for launch in started:
        yield _launched(base, launch)


def _of_box(
    file: str, index: int, scope: Scope, box: Box, configs: Configs, gpus: int | None = None, kind: str = ""
) -> Iterator[Process]:
    pod = gpus if gpus is not None else _ray_gpus(scope) or scope.gpus()
    found = launches(box)
    program = opaque(box) if not found else ""
    if program:
        what = f"its image runs {program}, whose text is not in this file"
        yield Process(file=file, document=index, pointer=scope.node.pointer, line=scope.node.line, name=scope.name,
                      gpu=tuple(scope.gpu_names()), gpus=pod, problems=(what,), kind=kind)  # fmt: skip
    for launch in found:
        pods = max(scope.group(), _nodes(launch))
        base = Process(
            file=file, document=index, pointer=scope.node.pointer, line=scope.node.line, name=scope.name,
            gpu=tuple(scope.gpu_names()), gpus=pod * pods if pod else _visible(launch), role=scope.role(),
            replicas=scope.replicas(), notes=scope.annotations(), model=tuple(_outer_models(scope, configs)), kind=kind,
        )  # fmt: skip
        yield _launched(base, launch)


def _ray_gpus(scope: Scope) -> int | None:
    """GPUs of a Ray cluster: of its head and of all its workers."""
    if not any(key == "headGroupSpec" for key, _ in scope.chain):
        return None
    cluster = next(node for node in scope.outwards() if node.get("headGroupSpec") is not None)
    total = scope.gpus() or 0
    for group in cluster.items("workerGroupSpecs"):
        each = next((Scope((("", c),)).gpus() for c in group.items("template", "spec", "containers")), None) or 0
        total += each * (count(group.get("replicas")) or 1)
    return total or None


def _nodes(launch: Launch) -> int:
    match = re.search(r"--nnodes[= ](\d{1,4})\b", " ".join(launch.command.words))
    return int(match[1]) if match else 1


def _visible(launch: Launch) -> int | None:
    listed = launch.command.environment.get("CUDA_VISIBLE_DEVICES", "")
    return len(listed.split(",")) if re.fullmatch(r"\d[\d,]*", listed) else None


def _outer_models(scope: Scope, configs: Configs) -> Iterator[Word]:
    """Labels and fields that name the model, for commands that name a path only."""
    named = scope.chain[0][1].get("spec", "model", "name")
    if named is not None:
        uri = configs.models.get(named.text, "").removeprefix("hf://")
        yield Word(uri or named.text, named.line, named.pointer)
    for labels in [*scope.all("metadata", "labels"), *scope.all("labels")]:
        for key, node in labels.mapping().items():
            if re.search(r"(^|[./-])model([./-]name)?$", key) and "chunkcalc" not in key:
                yield Word(node.text, node.line, node.pointer)


def _embedded(file: str, index: int, holder: Node, scope: Scope) -> Iterator[Process]:
    """YAML inside a text: its lines and pointers go on from the text's own."""
    roots, problem = documents(holder.text)
    above = (holder.marks[0][1] if holder.marks else holder.line) - 1
    if problem is not None or not roots:
        return
    inside = list(_document(file, index, roots[0], Configs(roots)))
    for process in inside:
        yield _lower(process, above, holder.pointer, scope)
    module = next((n.string("import_path") for n in roots[0].items("applications")), "")
    if not inside and module and MENTIONS.search(holder.text + scope.name):
        what = f"the engine is built inside the Python module {module}"
        node = scope.node
        yield Process(file=file, document=index, pointer=node.pointer, line=node.line, name=scope.name,
                      problems=(what,), kind=scope.node.string("kind"))  # fmt: skip


def _lower(process: Process, above: int, pointer: str, scope: Scope) -> Process:
    def moved(word: str) -> str:
        return Word(word, word.line + above, pointer, word.file) if isinstance(word, Word) else word

    command = process.command
    if command is not None:
        command = command._replace(words=tuple(moved(word) for word in command.words))
    return replace(
        process, command=command, line=process.line + above, pointer=pointer + process.pointer,
        name=process.name or scope.name, notes=process.notes or scope.annotations(),
    )  # fmt: skip


def _launched(base: Process, launch: Launch) -> Process:
    missing = [path for path, held in launch.files.items() if held is None]
    problems = [f"its option file {plain(path)} is not in this input" for path in missing]
    problems += [launch.problem] if launch.problem else []
    role: Role = base.role
    role = role_of(flagged_role(launch.command)) if role == "both" else role
    command = _without_files(launch.command, missing)
    return replace(
        base, command=command, command_line=launch.line, role=role, cut=launch.cut, problems=(*base.problems, *problems)
    )


def flagged_role(command: Command) -> str:
    """The role by the command's own arguments and options; empty where they do not say.

    Parameters
    ----------
    command : the command
    """
    given = [f"--{key} {value}" for held in command.files.values() for key, value in held.items()]
    text = " ".join([*command.words, *given])
    match = re.search(r"--disaggregation[-_]mode[= ](prefill|decode)", text)
    if match:
        return match[1]
    roles = set(re.findall(r"kv_(producer|consumer)\b", text))
    return {"producer": "prefill", "consumer": "decode"}.get(next(iter(roles)), "") if len(roles) == 1 else ""


def _without_files(command: Command, missing: list[str]) -> Command:
    """The command without the option files that are not at hand, so that the rest of it can be read."""
    out = list(command.words)
    for path in missing:
        index = next((i for i, word in enumerate(out) if path in word and word.startswith(("--", path))), None)
        if index is not None:
            first = index - 1 if out[index] == path and index else index
            del out[first : index + 1]
    return command._replace(words=tuple(out))


def _finished(process: Process, natives: dict[str, str]) -> Process:
    """Take out of the command what is not known, and say so where it matters."""
    if process.command is None:
        return process
    command, problems, unset = settled(process.command)
    for path, held in command.files.items():
        open_keys = [key for key, value in held.items() if isinstance(value, str) and unknowns(value)]
        if open_keys:
            rest = {key: value for key, value in held.items() if key not in open_keys}
            command = command._replace(files={**command.files, path: rest})
            problems += [
                f"{key} is {unknowns(held[key])[0]}: not known from this file" for key in open_keys if decisive(key)
            ]
    models = tuple(word for word in process.model if not unknowns(word))
    gpu = tuple(word for word in process.gpu if not unknowns(word))
    return replace(
        process, command=command, model=models, gpu=gpu, unset=tuple(unset),
        problems=tuple(dict.fromkeys((*process.problems, *problems))), native=natives,
    )  # fmt: skip


def _units(file: str, text: str) -> Iterator[Process]:
    for box, gpus, line in units.commands(text):
        for launch in launches(box):
            yield _finished(
                _launched(Process(file=file, line=line, gpus=gpus or _visible(launch), kind="unit"), launch), {}
            )
