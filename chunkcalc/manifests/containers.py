"""A container -> the engines that it starts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import PurePosixPath
from typing import Any

from chunkcalc.engines.command import Command, engine_of, version_of_image
from chunkcalc.engines.dialects import dialect, named
from chunkcalc.engines.words import Word, placed
from chunkcalc.frozen import dataclass
from chunkcalc.manifests.boxes import Box, Placed
from chunkcalc.manifests.branches import Content
from chunkcalc.manifests.configs import moved, options
from chunkcalc.manifests.doubts import ENGINES, START, doubt
from chunkcalc.manifests.expand import plain, templates, unknowns
from chunkcalc.manifests.launches import engine_of_flags, of_words, script_file, scripts_of
from chunkcalc.manifests.nodes import Node
from chunkcalc.manifests.shell import SCRIPTS, Script, run_dry
from chunkcalc.records import ENGINE_NAMES

# Programs that are given a command as one text.
CARRIERS = frozenset(
    ("tmux", "screen", "ssh", "su", "runuser", "wsl", "script", "watch", "parallel", "pdsh", "osascript")
)
DEEPEST = 4  # shells inside shells
_TOLD = (".txt", ".md", ".log", ".rst")  # files that speak of a command
# Images that stand around an engine.
_OTHERS = re.compile(r"router|exporter|gateway|proxy|operator|controller|bench|sim\b|sidecar|webui|metrics|test")
_PROGRAMS: Mapping[str, tuple[str, ...]] = {
    name: (dialect(name).programs[0], *dialect(name).serve) for name in ENGINE_NAMES
}


@dataclass(frozen=True, slots=True)
class Launch:
    """An engine that a container starts, or a command that may start one and is not understood.

    command : the engine and its arguments; None where they are not known
    files : option files that were found, and those that were not
    line : of the command
    problem : why its script would not run
    cut : the first word behind a comment that cuts the command off
    """

    command: Command | None
    files: Mapping[str, dict[str, Any] | None] = field(default_factory=dict)
    line: int = 0
    problem: str = ""
    cut: Word | None = None


def launches(box: Box) -> list[Launch]:
    """The engines that a container starts, in their order."""
    words = [*(box.command or ()), *box.args]
    name = PurePosixPath(box.image).name
    # The API server is the entry point of vLLM's image; others start a server by its flags at most.
    serves = name.startswith("vllm-openai") or (bool(words) and words[0].startswith("-"))
    if box.command is None and engine_of(box.image) and serves:
        words = [Word(box.image, box.container.line if box.container is not None else 1), *words]
    found = list(_started(words, box, box.variables, 0))
    if any(launch.command is not None for launch in found) or not words:
        return found
    # No program is named: the flags tell the engine (a patch, a wrapper, an image of one's own).
    known = words[0].startswith("-") or (box.command is None and any(word.startswith("--") for word in words))
    engine = engine_of_flags(words) if known else None
    if engine is None:
        return found
    program = [words[0].at(part) for part in _PROGRAMS[engine]]
    command = of_words([*program, *words], box.variables)
    return found if command is None else [_with_files(command, box, {}, words[0].line)]


def _started(words: Sequence[Word], box: Box, variables: Mapping[str, str], depth: int) -> Iterator[Launch]:
    """The engines behind a command; shells are looked into."""
    script, written = _script(words, box, variables, depth), {}
    if script is None:
        if not words:
            return
        command = of_words(words, variables, box.image)
        if command is not None:
            yield _with_files(command, box, {}, words[0].line)
        elif why := doubt(words):
            yield Launch(None, line=words[0].line, problem=why)
        return
    for path, content in script.files.items():
        first = content.place(0)
        found = options(content.text, 1, first.pointer, first.file)
        written[path] = found and moved(found, [place.line for place in content.places])
        yield from _kept(path, content, box, variables, depth)
    for index, line in enumerate(script.lines):
        if line.words[0] == "eval" and depth < DEEPEST:
            joined = line.words[0].at(" ".join(line.words[1:]))
            again = [joined.at("sh"), joined.at("-c"), joined]
            yield from _started(again, box, line.variables, depth + 1)
            continue
        if depth < DEEPEST and _is_script(line.words):
            yield from _started(line.words, box, line.variables, depth + 1)
            continue
        command = of_words(line.words, line.variables, box.image)
        if command is not None:
            rest = script.lines[index + 1] if index + 1 < len(script.lines) else None
            cut = rest.words[0] if rest is not None and rest.comment else None
            launch = _with_files(command, box, written, line.words[0].line)
            yield replace(launch, problem=script.problem, cut=cut)
        elif not line.comment and (why := doubt(line.words)):
            yield Launch(None, line=line.words[0].line, problem=why)
    if script.problem and script.cut:
        yield Launch(None, line=script.cut, problem=script.problem)


def _kept(path: str, content: Content, box: Box, variables: Mapping[str, str], depth: int) -> Iterator[Launch]:
    """The engines of a file that a script writes: a script is read, of others they are told."""
    start = START.search(content.text)
    if start is None or path.endswith(_TOLD):
        return
    first = content.place(0)
    if depth < DEEPEST and (content.text.startswith("#!") or path.endswith(SCRIPTS)):
        yield from _started([first.at("bash"), first.at("-c"), first.at(content.text)], box, variables, depth + 1)
    else:
        line = content.place(content.text.count("\n", 0, start.start())).line
        yield Launch(None, line=line, problem=f"{plain(path)} holds an engine's command line: check it by itself")


def _is_script(words: Sequence[Word]) -> bool:
    """Whether a command runs a script that is given to it as a text or a file."""
    carried = PurePosixPath(words[0]).name in CARRIERS and any(" " in word and START.search(word) for word in words[1:])
    return carried or next(scripts_of(words), None) is not None or script_file(words) is not None


def _script(words: Sequence[Word], box: Box, variables: Mapping[str, str], depth: int) -> Script | None:
    """The script that a command runs, read; None where it runs a program."""
    index = next(scripts_of(words), None)
    if index is None and words and PurePosixPath(words[0]).name in CARRIERS:  # ssh host "vllm serve ..."
        index = next((i for i, word in enumerate(words) if i and " " in word and START.search(word)), None)
    if index is not None:
        source = words[index]
        node = _scalar(box.container, source) if not depth else None
        if node is None:
            return run_dry(str(source), _InWord(source), variables, words[index + 2 :])
        script = Placed(node, box.prepared)
        return run_dry(script.text, script, variables, words[index + 2 :])
    file = script_file(words)
    held = box.configs.file(file, box.container, box.volumes) if file is not None else None
    if held is None or file is None:
        return None
    text = Placed(held, templates)
    return run_dry(text.text, text, variables, words[list(words).index(file) + 1 :])


def _scalar(container: Node | None, word: Word) -> Node | None:
    """The value of a container that a word was taken from, for the lines inside it."""
    if container is None:
        return None
    for key in ("command", "args", "entrypoint"):
        for node in [*container.items(key), *([container.get(key)] if container.get(key) else [])]:
            if node is not None and node.pointer == word.pointer and isinstance(node.value, str):
                return node
    return None


@dataclass(frozen=True, slots=True)
class _InWord:
    word: Word

    def __call__(self, offset: int) -> Word:
        return Word("", self.word.line + self.word.count("\n", 0, offset), self.word.pointer, self.word.file)


_FILES = "|".join(re.escape(flag).replace("_", "[-_]") for flag in named("option_file"))
_OPTION_FILE = re.compile(rf"({_FILES})(?:=(.+))?", re.DOTALL)


def _with_files(command: Command, box: Box, written: Mapping[str, dict[str, Any] | None], line: int) -> Launch:
    """The command with the option files that it names, where this file holds them."""
    files: dict[str, dict[str, Any] | None] = {}
    command, override = _override(command)
    words = [word if isinstance(word, Word) else Word(word) for word in command.words]
    for index, word in enumerate(words):
        match = _OPTION_FILE.fullmatch(word)
        if match is None:
            continue
        if match[2] is None and index + 1 < len(words):
            path = str(words[index + 1])
        elif match[2] is not None and dialect(command.engine).file_overrules:
            path = match[2]
        else:
            continue
        held = written.get(path)
        if held is not None and unknowns(path):  # the same unknown folder, written and read
            path = plain(path)
            command = command._replace(words=tuple(w.at(plain(w)) if plain(w).endswith(path) else w for w in words))
        if held is None:
            node = box.configs.file(path, box.container, box.volumes)
            held = options(node.text, node.marks[0][1], node.pointer) if node is not None and node.marks else None
            held = held if held is not None else box.configs.beside(path)
        files[path] = held if held is None or not override else _merged(held, override)
    if override and not files:
        name = OVERRIDE.lstrip("-")
        files[name] = override
        place = next(iter(override))
        more = (placed(dialect(command.engine).option_file, place), placed(name, place))
        command = command._replace(words=(*command.words, *more))
    known = {path: held for path, held in files.items() if held is not None}
    version = version_of_image(box.image) if engine_of(box.image) == command.engine else ""
    return Launch(command._replace(keywords=box.keywords, files=known, version=command.version or version), files, line)


OVERRIDE = "--override-engine-args"


def _override(command: Command) -> tuple[Command, dict[str, Any]]:
    """Dynamo's JSON that is put over TensorRT-LLM's options, taken off the command line."""
    words = list(command.words)
    if not dialect(command.engine).file_overrules or OVERRIDE not in words[:-1]:
        return command, {}
    index = words.index(OVERRIDE)
    source = words[index + 1]
    found = options(source, source.line, source.pointer) if isinstance(source, Word) else None
    return command._replace(words=tuple(words[:index] + words[index + 2 :])), found or {}


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {key: value for key, value in below.items() if key not in above}
    for key, value in above.items():
        before = below.get(key)
        out[key] = _merged(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return out


def opaque(box: Box) -> str:
    """The program that an image with an engine's name runs instead of the engine, where its text is not at hand.

    Returns
    -------
    its name; empty where the image does not run another program
    """
    words = [*(box.command or ()), *box.args]
    if not (engine_of(box.image) or ENGINES.search(PurePosixPath(box.image).name)) or _OTHERS.search(box.image):
        return ""
    file = script_file(words) if words else None
    if file is not None:
        return "" if box.configs.file(file, box.container, box.volumes) is not None else str(file)
    alone = box.command is not None and len(words) == 1 and words[0].startswith(("/", "./"))
    return str(words[0]) if alone else ""
