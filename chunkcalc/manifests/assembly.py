"""Engines that were found, with what stands around them -> processes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from chunkcalc.engines.command import Command
from chunkcalc.engines.dialects import NODES, ROLE
from chunkcalc.engines.words import Word
from chunkcalc.manifests.boxes import Box
from chunkcalc.manifests.configs import Configs
from chunkcalc.manifests.containers import Launch, launches, opaque
from chunkcalc.manifests.decisive import decisive
from chunkcalc.manifests.drafts import Draft
from chunkcalc.manifests.expand import plain, unknowns
from chunkcalc.manifests.fields import count
from chunkcalc.manifests.launches import settled
from chunkcalc.manifests.process import UNREADABLE, Process, Role
from chunkcalc.manifests.scope import LEADERS, Scope, role_of


def of_draft(file: str, index: int, scope: Scope, draft: Draft) -> Iterator[Process]:
    """The processes of an engine that fields describe."""
    inner = draft.scope or scope
    node = inner.node
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
        yield launched(base, launch)


def of_box(
    file: str, index: int, scope: Scope, box: Box, configs: Configs, gpus: int | None = None, kind: str = ""
) -> Iterator[Process]:
    """The processes of a container."""
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
            gpu=tuple(scope.gpu_names()), gpus=pod * pods if pod else visible(launch), role=scope.role(),
            replicas=scope.replicas(), notes=scope.annotations(), model=tuple(_outer_models(scope, configs)), kind=kind,
        )  # fmt: skip
        yield launched(base, launch)


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
    words = launch.command.words if launch.command is not None else ()
    match = re.search(rf"{NODES}[= ](\d{{1,4}})\b", " ".join(words))
    return int(match[1]) if match else 1


def visible(launch: Launch) -> int | None:
    """GPUs that a launch sees by CUDA_VISIBLE_DEVICES; None where it is not set."""
    listed = launch.command.environment.get("CUDA_VISIBLE_DEVICES", "") if launch.command is not None else ""
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


def launched(base: Process, launch: Launch) -> Process:
    """A process with the command that starts it, and what is missing of it."""
    if launch.command is None:
        return replace(base, line=launch.line or base.line, problems=(*base.problems, launch.problem), kind=UNREADABLE)
    missing = [path for path, held in launch.files.items() if held is None]
    problems = [f"its option file {plain(path)} is not in this input" for path in missing]
    problems += [launch.problem] if launch.problem else []
    role: Role = base.role
    role = role_of(flagged_role(launch.command)) if role == "both" else role
    command = _without_files(launch.command, missing)
    return replace(
        base, command=command, command_line=launch.line, role=role, cut=launch.cut, problems=(*base.problems, *problems)
    )


def lowered(process: Process, above: int, pointer: str) -> Process:
    """A process that was read from a text inside a file: its lines go on from the text's own.

    Parameters
    ----------
    process : as read from the text
    above : lines of the file above the text
    pointer : of the text
    """
    command = process.command
    if command is not None:
        words = tuple(_moved(word, above, pointer) for word in command.words)
        files = {path: _all_moved(held, above, pointer) for path, held in command.files.items()}
        command = command._replace(words=words, files=files)
    return replace(process, command=command, line=process.line + above, pointer=pointer + process.pointer)


def _moved(word: str, above: int, pointer: str) -> str:
    return Word(word, word.line + above, pointer, word.file) if isinstance(word, Word) else word


def _all_moved(held: Mapping[str, Any], above: int, pointer: str) -> dict[str, Any]:
    return {
        _moved(key, above, pointer): _all_moved(value, above, pointer) if isinstance(value, dict) else value
        for key, value in held.items()
    }


def flagged_role(command: Command) -> str:
    """The role by the command's own arguments and options; empty where they do not say."""
    given = [f"--{key} {value}" for held in command.files.values() for key, value in held.items()]
    text = " ".join([*command.words, *given, f"{ROLE} {command.environment.get(ROLE, '')}"])
    match = re.search(rf"{ROLE.replace('-m', '[-_]m')}[= ](prefill|decode)", text)
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


def finished(process: Process, natives: dict[str, str]) -> Process:
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


def without_workers(pointers: Sequence[str]) -> list[bool]:
    """Which processes count: of a group of pods, the leader's alone."""
    out = []
    for pointer in pointers:
        parts = pointer.split("/")
        worker = False
        for index, part in enumerate(parts):
            prefix = "/".join(parts[:index])
            leaders = [f"{prefix}/{leader}/" for leader in LEADERS.get(part, ())]
            worker = worker or any(other.startswith(leader) for leader in leaders for other in pointers)
        out.append(not worker)
    return out
