"""Dockerfiles: what the image that they build starts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import field
from pathlib import PurePosixPath
from typing import NamedTuple

from chunkcalc.engines.words import Word
from chunkcalc.frozen import dataclass
from chunkcalc.manifests.boxes import Box
from chunkcalc.manifests.configs import Configs
from chunkcalc.manifests.expand import text_of, unknown
from chunkcalc.manifests.shell import run_dry

_NAME = re.compile(r"^(Dockerfile|Containerfile)([.-][\w.-]+)?$|\.(dockerfile|containerfile)$", re.IGNORECASE)
NAMED = 2  # `FROM image AS name`: where the name stands
_ENDS = (".yaml", ".yml", ".json", ".md", ".sh", ".py")


class _Instruction(NamedTuple):
    name: str
    value: str
    line: int
    body: str = ""


def is_dockerfile(path: str) -> bool:
    """Whether a file is one by its name."""
    name = PurePosixPath(path).name
    return bool(_NAME.search(name)) and not name.endswith(_ENDS)


def image_box(text: str) -> Box | None:
    """What the last stage of a Dockerfile runs; None where it runs nothing of its own."""
    stages: dict[str, _Stage] = {}
    shared: dict[str, str] = {}  # arguments above the first stage
    stage: _Stage | None = None
    for each in _instructions(text):
        if each.name == "FROM":
            parts = [part for part in text_of(each.value, shared).split() if not part.startswith("--")]
            base = stages.get(parts[0]) if parts else None
            stage = base.again() if base is not None else _Stage(parts[0] if parts else "")
            if len(parts) > NAMED and parts[1].upper() == "AS":
                stages[parts[NAMED]] = stage
        elif stage is None:
            shared |= _assigned(each, shared) if each.name == "ARG" else {}
        else:
            stage.take(each, shared)
    if stage is None or (stage.entry is None and not stage.command):
        return None  # what its base starts
    entry, command = stage.entry, stage.command
    if entry is None and not command[0].startswith("-") and not _takes_arguments(stage.image):
        entry, command = command, ()
    file = next((word for word in (entry or ())[:2] if word in stage.files), None)
    if file is not None and entry is not None:
        content, line = stage.files[file]
        after = entry[list(entry).index(file) + 1 :]
        place = Word("", line)
        entry = (place.at("bash"), place.at("-c"), place.at(content), file, *after)
    return Box(entry, command, stage.image, stage.environment, Configs([]))


@dataclass(slots=True)
class _Stage:
    """What an image holds so far: build arguments are gone when it runs."""

    image: str
    environment: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, str] = field(default_factory=dict)
    entry: tuple[Word, ...] | None = None
    command: tuple[Word, ...] = ()
    shell: bool = False
    files: dict[str, tuple[str, int]] = field(default_factory=dict)

    def again(self) -> _Stage:
        """A stage that begins with this one."""
        return _Stage(self.image, dict(self.environment), {}, self.entry, self.command, self.shell, dict(self.files))

    def take(self, each: _Instruction, shared: dict[str, str]) -> None:
        """One instruction."""
        known = {**self.arguments, **self.environment}
        if each.name == "ARG":
            given = _assigned(each, known)
            bare = {name: shared[name] for name in each.value.split() if name in shared}
            self.arguments |= {**bare, **given}
        elif each.name == "ENV":
            self.environment |= _assigned(each, known)
        elif each.name == "ENTRYPOINT":
            self.entry, self.shell = _words(each, self.environment)
            self.command = ()
        elif each.name == "CMD" and not (self.entry is not None and self.shell):  # a shell form takes no arguments
            self.command = _words(each, self.environment)[0]
        elif each.name == "COPY" and each.body:
            self.files[each.value.split()[-1]] = (each.body, each.line + 1)


def _takes_arguments(image: str) -> bool:
    """Whether an image's own entry point is the engine's server, so that a command is its arguments."""
    return "vllm-openai" in image


def _instructions(text: str) -> Iterator[_Instruction]:
    """Instructions with their lines joined; comments between joined lines are skipped, here-documents kept apart."""
    lines = text.split("\n")
    index = 0
    while index < len(lines):
        first = index
        match = re.match(r"\s*([A-Za-z]+)\s+(.*)", lines[index])
        index += 1
        if not match:
            continue
        value, body = match[2], ""
        while value.rstrip().endswith("\\") and index < len(lines):
            following = lines[index]
            index += 1
            value = value.rstrip() + "\n" + ("\\" if following.lstrip().startswith("#") else following)
        here = re.search(r"<<-?[\"']?(\w+)[\"']?", value) if match[1].upper() in ("COPY", "RUN", "ADD") else None
        if here:
            end = next((n for n in range(index, len(lines)) if lines[n].strip() == here[1]), len(lines))
            body, index = "\n".join(lines[index:end]) + "\n", end + 1
        yield _Instruction(match[1].upper(), value, first + 1, body)


def _words(each: _Instruction, variables: dict[str, str]) -> tuple[tuple[Word, ...], bool]:
    """The words of the JSON form, which no shell expands, or of the shell form, and whether it is that."""

    def place(offset: int) -> Word:
        return Word("", each.line + each.value.count("\n", 0, offset))

    joined = each.value.replace("\\\n", " \n")
    if joined.lstrip().startswith("["):
        try:
            listed = json.loads(joined)
        except (ValueError, RecursionError):
            listed = None
        if isinstance(listed, list) and all(isinstance(item, str) for item in listed):
            out, at = [], 0
            for index, item in enumerate(listed):
                at = max(at, joined.find(json.dumps(item), at))
                script = index and listed[index - 1].startswith("-") and "c" in listed[index - 1]
                out.append(place(at).at(item if script else re.sub(r"\$\{?\w+\}?", lambda m: unknown(m.group()), item)))
            return tuple(out), False
    return (place(0).at("sh"), place(0).at("-c"), place(0).at(each.value)), True


def _assigned(each: _Instruction, known: dict[str, str]) -> dict[str, str]:
    """Variables of ENV and ARG."""
    if each.name == "ENV" and not re.match(r"\s*[\w.-]+=", each.value):
        name, _, value = each.value.strip().partition(" ")
        return {name: Word(text_of(value.strip(), known), each.line)}
    script = run_dry(f"env {each.value}", lambda at: Word("", each.line + each.value.count("\n", 0, at)), known)
    pairs = (word.partition("=") for line in script.lines for word in line.words[1:])
    return {name: Word(value, each.line) for name, equals, value in pairs if equals}
