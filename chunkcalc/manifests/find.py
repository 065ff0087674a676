"""A file's text -> every engine process in it, in file order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import PurePosixPath

from chunkcalc.manifests import hcl, programs, units
from chunkcalc.manifests.assembly import finished, launched, visible
from chunkcalc.manifests.configs import Configs
from chunkcalc.manifests.containers import launches
from chunkcalc.manifests.devices import split_count
from chunkcalc.manifests.dockerfiles import image_box, is_dockerfile
from chunkcalc.manifests.documents import MOST_PROCESSES, of_yaml
from chunkcalc.manifests.doubts import BUILDS, START, mentioned
from chunkcalc.manifests.expand import supplied
from chunkcalc.manifests.loose import loose
from chunkcalc.manifests.makefiles import is_makefile, recipes
from chunkcalc.manifests.process import BROKEN, SKIPPED, UNREADABLE, Process
from chunkcalc.manifests.scripts import of_script
from chunkcalc.manifests.shell import SCRIPTS
from chunkcalc.manifests.sources import Source

RUNS = "what it builds is known only when it runs; check what it renders"
# A variable or a file that a script gives an engine's command line.
_LINE = r"(?![ \t]*(?:#|echo|printf|grep))[^\n]*"
_HELD = re.compile(
    rf"^(?![ \t]*#)[^\n]*?(\w+(?==)|(?<=>)[ ]*[\w./${{}}-]+)[^\n]*\n?(?:{_LINE}\n){{0,40}}?{_LINE}(?:{START.pattern})",
    re.MULTILINE,
)
_INSTALLED = re.compile(
    r"^[^#\n]*?\b(?:install|add|requirements?|with|pip)\b[^#\n]*?[\s\"'](vllm|sglang|tensorrt-llm)"
    r"(?:\[[^\]\n]{0,80}\])?==(\d+(?:\.\d+){1,3}(?:\.?(?:post|rc|dev)\d+)?)",
    re.MULTILINE | re.IGNORECASE,
)
_IMPORTS = re.compile(r"^\s*(from|import) +(vllm|sglang|tensorrt_llm|ray|langchain\w*[^\n]*\bVLLM)\b", re.MULTILINE)


def find(source: Source) -> list[Process]:
    """The engine processes of a file; what cannot be read becomes a process without a command."""
    if source.text is None:
        return [_row(source, 1, source.problem, UNREADABLE if source.asked else SKIPPED)]
    if source.given and not PurePosixPath(source.path).name.endswith(SCRIPTS):
        source = source._replace(text=supplied(source.text, source.given))
    read = [replace(process, beside=source.beside) for process in _reader(source)(source, source.text or "")]
    found = list(_versioned(read, source.text or ""))
    if len(found) <= MOST_PROCESSES:
        return found
    what = f"has more than {MOST_PROCESSES:,} engine processes: the first {MOST_PROCESSES:,} are read"
    return [*found[:MOST_PROCESSES], _row(source, found[MOST_PROCESSES].line, what)]


def _versioned(found: list[Process], text: str) -> Iterator[Process]:
    """Each with the version that its file installs, where nothing nearer states one."""
    installed: dict[str, set[str]] = {}
    for match in _INSTALLED.finditer(text):
        installed.setdefault(match[1].lower().replace("tensorrt-llm", "trtllm"), set()).add(match[2])
    for process in found:
        command = process.command
        versions = installed.get(command.engine, set()) if command is not None and not command.version else set()
        if command is not None and len(versions) == 1:
            yield replace(process, command=command._replace(version=min(versions)))
        else:
            yield process


def _row(source: Source, line: int, what: str, kind: str = UNREADABLE) -> Process:
    return Process(file=source.path, line=line, problems=(what,), kind=kind)


def _reader(source: Source) -> Callable[[Source, str], list[Process]]:
    """What reads a file of this name and beginning."""
    name, text = PurePosixPath(source.path).name, source.text or ""
    unit = re.search(r"^\[(Service|Container)\]", text, re.MULTILINE) and not name.endswith((".yaml", ".yml"))
    kinds: tuple[tuple[object, Callable[[Source, str], list[Process]]], ...] = (
        (name.endswith(".py") or re.match(r"#!.*\bpython", text), _program),
        (name.endswith((".jsonnet", ".libsonnet")), _jsonnet),
        (name.endswith(SCRIPTS) or text.startswith("#!"), _script),
        (is_makefile(source.path), _makefile),
        (is_dockerfile(source.path), _dockerfile),
        (name.endswith(hcl.SUFFIXES), _hcl),
        (unit, _units),
    )
    return next((read for fits, read in kinds if fits), lambda given, _: of_yaml(given))


def _script(source: Source, text: str) -> list[Process]:
    found = [finished(launched(base, launch), {}) for base, launch in of_script(source, text)]
    found.sort(key=lambda process: process.line)
    held = _HELD.search(text) if not found and START.search(text) else None
    if held is None or held[1].endswith((".txt", ".md", ".log")):
        return found
    line = text.count("\n", 0, held.start()) + 1
    return [_row(source, line, f"{held[1]} holds an engine's command line; what runs it is not in this file")]


def _makefile(source: Source, text: str) -> list[Process]:
    scripts = (of_script(source, script, line) for line, script in recipes(text, source.given))
    return [finished(launched(base, launch), {}) for found in scripts for base, launch in found]


def _dockerfile(source: Source, text: str) -> list[Process]:
    box = image_box(text)
    base = Process(file=source.path, kind="image")
    return [finished(launched(base, launch), {}) for launch in (launches(box) if box is not None else [])]


def _jsonnet(source: Source, text: str) -> list[Process]:
    line = mentioned(text)
    return [_row(source, line, f"Jsonnet: {RUNS}")] if line else []


def _program(source: Source, text: str) -> list[Process]:
    """A Python program: what it builds from literals."""
    builds = BUILDS.search(text) if _IMPORTS.search(text) else None
    if builds is None and not mentioned(text, ("#",)):
        return []
    built, broken = programs.engines(text)
    if broken:
        return [_row(source, broken, "is not valid Python", BROKEN)]
    names = {str(name): name for name in programs.devices(text)}
    shared = next(iter(names.values())) if len(names) == 1 else None
    out = []
    for each in built:
        named = each.gpu or shared
        gpu, gpus = split_count(named) if named is not None else (None, None)
        process = Process(
            file=source.path, line=each.line, command=each.command, command_line=each.line, gpus=gpus,
            gpu=(gpu,) if gpu is not None else (), offline=each.offline, kind="program",
        )  # fmt: skip
        out.append(finished(process, {}))
    line = text.count("\n", 0, builds.start()) + 1 if builds is not None else 0
    return out or ([_row(source, line, f"a Python program: {RUNS}")] if line else [])


def _hcl(source: Source, text: str) -> list[Process]:
    """Terraform and Nomad."""
    line = mentioned(text)
    if not line:
        return []
    root, problem = hcl.document(text)
    if root is None:
        return [_row(source, line, problem)]
    return [finished(process, {}) for process in loose(source.path, 0, root, Configs([root]))]


def _units(source: Source, text: str) -> list[Process]:
    return list(_of_units(source.path, text))


def _of_units(file: str, text: str) -> Iterator[Process]:
    for box, gpus, line in units.commands(text):
        for launch in launches(box):
            yield finished(
                launched(Process(file=file, line=line, gpus=gpus or visible(launch), kind="unit"), launch), {}
            )
