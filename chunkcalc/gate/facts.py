"""Which model and which GPU a process has: the first name that is known."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from chunkcalc.catalog.lookup import Found, load_hardware, load_model
from chunkcalc.engines.grammar import Arguments
from chunkcalc.errors import ChunkcalcError
from chunkcalc.manifests.process import Process

WHERE = "chunkcalc.toml"


class Fact(NamedTuple):
    """What was found, as it is written, and what is missing where nothing was."""

    found: Found | None
    written: str | None = None
    missing: str = ""


def model_of(
    process: Process, arguments: Arguments | None, named: str, given: str | None, default: bool = False
) -> Fact:
    """The model of a process.

    Parameters
    ----------
    process : as found
    arguments : of its command
    named : the model as the command names it; empty where it does not
    given : as a setting names it
    default : whether that counts only where nothing else names a model that is known
    """
    served = arguments.value("served_model_name") if arguments is not None else None
    others = list(served) if isinstance(served, (tuple, list)) else [served] if served else []
    names = [
        name for name in (named, *_tail(named), *map(str, process.model), *map(str, others)) if name and "%" not in name
    ]
    candidates = names if not given else [*names, given] if default else [given]
    stated = [name for name in names if name not in _tail(named)]
    written = next((name for name in stated if not _is_path(name)), named or None)
    problem = ""
    for name in candidates:
        folder = _config(process, name)
        if folder is not None:
            return Fact(load_model(folder), name if name in stated else named or name)
        if _is_path(name) and name != given:
            continue
        try:
            return Fact(load_model(name), name if name in stated else named or name)
        except ChunkcalcError as error:
            problem = problem or (error.what if name in (*stated, given) else "")
    if not problem:
        problem = (
            f"the model is behind a path ({named or candidates[0]:.80})" if candidates else "the model is not named"
        )
    return Fact(None, written, f"model: {problem}; name one with --model, chunkcalc/model or {WHERE}")


def _config(process: Process, name: str) -> str | None:
    """The config.json of a model's folder, on this machine or beside the file; None where there is none."""
    inside = process.beside.find(f"{name}/config.json") if process.beside is not None and name.startswith(".") else None
    if inside is None and name.startswith("/"):
        path = Path(name, "config.json")
        inside = path if path.is_file() else None
    return str(inside) if inside is not None else None


def _is_path(name: str) -> bool:
    return name.startswith(("/", "./", "../")) or "://" in name or name.endswith((".toml", ".json"))


def _tail(path: str) -> Iterator[str]:
    """The last parts of a path, which often are a model's name."""
    parts = [part for part in re.split(r"[/\\]", path) if part]
    if len(parts) > 1 and path.startswith(("/", ".")):
        yield "/".join(parts[-2:])
        yield parts[-1]


def gpu_of(process: Process, given: str | None, default: bool = False) -> Fact:
    """The GPU type of a process.

    Parameters
    ----------
    process : as found
    given : as a setting names it
    default : whether that counts only where the file leaves it open
    """
    if given and default:
        stated = gpu_of(process, None)
        return stated if stated.found is not None else gpu_of(process, given)
    if given:
        try:
            return Fact(load_hardware(given), given)
        except ChunkcalcError as error:
            return Fact(None, given, f"gpu: {error.what}; {error.hint}")
    found: dict[str, Found] = {}
    unknown = []
    for name in process.gpu:
        try:
            if not name.endswith(".toml"):
                device = load_hardware(str(name))
                found.setdefault(device.record.id, device)
        except ChunkcalcError:
            unknown.append(str(name))
    slices = [device for key, device in found.items() if "-mig-" in key]
    if len(found) == 1 or slices:
        return Fact(slices[0] if slices else next(iter(found.values())))
    problem = "the GPU type is not stated"
    if found:
        problem = f"the GPU may be {' or '.join(found)}"
    elif unknown:
        problem = f"'{unknown[0]:.60}' names no GPU that is known"
    return Fact(None, None, f"gpu: {problem}; name it with --gpu, chunkcalc/gpu or {WHERE}")


def about_model(problem: str) -> bool:
    """Whether a problem says already that the model is not known."""
    return re.match(r"(the model|--model(-path)?) is ", problem) is not None
