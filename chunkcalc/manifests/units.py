"""systemd units and Podman quadlets."""

from __future__ import annotations

import re
from collections.abc import Iterator

from chunkcalc.engines.words import Word
from chunkcalc.manifests.boxes import Box
from chunkcalc.manifests.configs import Configs
from chunkcalc.manifests.shell import run_dry

MOST_STARTS = 300  # of a unit


def commands(text: str) -> Iterator[tuple[Box, int | None, int]]:
    """What a unit starts, its GPUs where they are listed, and the line of it."""
    settings = list(_settings(text))
    variables: dict[str, str] = {}
    for key, value, line in settings:
        if key == "Environment":
            # "A=b c" as a whole may be quoted; each word is one variable.
            for word in _split(value, line, {}):
                name, equals, content = word.partition("=")
                if equals:
                    variables[name] = Word(content, word.line)
    image = next((value.strip() for key, value, _ in settings if key == "Image"), "")
    devices = [value for key, value, _ in settings if key == "AddDevice" and re.search(r"gpu", value)]
    starts: list[tuple[str, int]] = []
    for key, value, line in settings:
        if key in ("ExecStart", "Exec"):
            starts = [*starts, (value, line)] if value.strip() else []
    for value, line in starts[:MOST_STARTS]:
        words = tuple(_split(value if image else value.lstrip("@-:+!"), line, variables))
        entry = next((tuple(_split(v, at, {})) for key, v, at in settings if key == "Entrypoint"), None)
        box = Box(entry if image else words[:1], words if image else words[1:], image, variables, Configs([]))
        yield box, _visible(variables, devices), line


def _visible(variables: dict[str, str], devices: list[str]) -> int | None:
    listed = variables.get("CUDA_VISIBLE_DEVICES", "")
    if re.fullmatch(r"\d[\d,]*", listed):
        return len(listed.split(","))
    single = [device for device in devices if re.search(r"=\d+$", device)]
    return len(single) or None


def _settings(text: str) -> Iterator[tuple[str, str, int]]:
    """(key, value, line): lines that end in a backslash go on, comments between them are skipped."""
    lines = text.split("\n")
    index = 0
    while index < len(lines):
        match = re.match(r"\s*([A-Za-z]\w*)\s*=(.*)", lines[index])
        first = index
        index += 1
        if not match:
            continue
        value = match[2]
        while value.endswith("\\") and index < len(lines):
            following = lines[index].strip()
            comment = following.startswith(("#", ";"))
            # The newline stays behind its backslash, so that every word keeps its line.
            value += "\n" + ("\\" if comment else lines[index])
            index += 1
        yield match[1], value, first + 1


def _split(value: str, line: int, variables: dict[str, str]) -> list[Word]:
    lines = run_dry(value, lambda offset: Word("", line + value.count("\n", 0, offset)), variables).lines
    if not lines:  # nothing but assignments, as Environment= has
        parts = re.findall(r"\"([^\"]*)\"|'([^']*)'|(\S+)", value)
        return [Word("".join(part), line) for part in parts]
    return [word for each in lines for word in each.words]
