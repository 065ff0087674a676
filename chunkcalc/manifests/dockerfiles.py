"""Dockerfiles: what the image that they build starts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import NamedTuple

from chunkcalc.engines.words import Word
from chunkcalc.manifests.boxes import Box
from chunkcalc.manifests.configs import Configs
from chunkcalc.manifests.expand import text_of
from chunkcalc.manifests.shell import run_dry

_NAME = re.compile(r"^(Dockerfile|Containerfile)([.-][\w.-]+)?$|\.(dockerfile|containerfile)$", re.IGNORECASE)
_ENDS = (".yaml", ".yml", ".json", ".md", ".sh", ".py")


class _Instruction(NamedTuple):
    name: str
    value: str
    line: int


def is_dockerfile(path: str) -> bool:
    """Whether a file is one by its name."""
    name = PurePosixPath(path).name
    return bool(_NAME.search(name)) and not name.endswith(_ENDS)


def image_box(text: str) -> Box | None:
    """What the last stage of a Dockerfile runs; None where it runs nothing of its own."""
    stages: dict[str, tuple[str, dict[str, str]]] = {}
    image, variables = "", dict[str, str]()
    shared: dict[str, str] = {}  # arguments above the first stage
    entry: tuple[Word, ...] | None = None
    command: tuple[Word, ...] = ()
    name = ""
    for each in _instructions(text):
        if each.name == "FROM":
            if name or image:
                stages[name or image] = (image, variables)
            parts = [part for part in text_of(each.value, shared).split() if not part.startswith("--")]
            base = parts[0] if parts else ""
            image, variables = stages.get(base, (base, {}))
            variables = dict(variables)
            name = parts[2] if len(parts) > 2 and parts[1].upper() == "AS" else ""
            entry, command = None, ()
        elif each.name in ("ARG", "ENV"):
            target = variables if image else shared
            target.update(_assigned(each, {**shared, **variables}, each.name == "ENV"))
        elif each.name == "ENTRYPOINT":
            entry, command = _words(each, {**shared, **variables}), ()
        elif each.name == "CMD":
            command = _words(each, {**shared, **variables})
    if not image:
        return None
    if entry is None and not command:
        return None  # what its base starts
    if entry is None and not command[0].startswith("-") and not _takes_arguments(image):
        return Box(command, (), image, variables, Configs([]))
    return Box(entry, command, image, variables, Configs([]))


def _takes_arguments(image: str) -> bool:
    """Whether an image's own entry point is the engine's server, so that a command is its arguments."""
    return "vllm-openai" in image


def _instructions(text: str) -> Iterator[_Instruction]:
    """Instructions with their lines joined; comments between joined lines are skipped."""
    lines = text.split("\n")
    index = 0
    while index < len(lines):
        first = index
        line = lines[index]
        index += 1
        match = re.match(r"\s*([A-Za-z]+)\s+(.*)", line)
        if not match:
            continue
        value = match[2]
        while value.rstrip().endswith("\\") and index < len(lines):
            following = lines[index]
            index += 1
            comment = following.lstrip().startswith("#")
            value = value.rstrip() + "\n" + ("\\" if comment else following)
        yield _Instruction(match[1].upper(), value, first + 1)


def _words(each: _Instruction, variables: dict[str, str]) -> tuple[Word, ...]:
    """The words of the JSON form, or of the shell form."""

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
            for item in listed:
                found = joined.find(json.dumps(item), at)
                at = max(at, found)
                out.append(place(at).at(item))
            return tuple(out)
    lines = run_dry(each.value, place, variables).lines
    if len(lines) != 1:
        return (place(0).at("sh"), place(0).at("-c"), place(0).at(each.value))
    return lines[0].words


def _assigned(each: _Instruction, known: dict[str, str], env: bool) -> dict[str, str]:
    """Variables of ENV and ARG."""
    if env and not re.match(r"\s*[\w.-]+=", each.value):
        name, _, value = each.value.strip().partition(" ")
        return {name: Word(text_of(value.strip(), known), each.line)}
    script = run_dry(f"env {each.value}", lambda at: Word("", each.line + each.value.count("\n", 0, at)), known)
    pairs = (word.partition("=") for line in script.lines for word in line.words[1:])
    return {name: Word(value, each.line) for name, equals, value in pairs if equals}
