"""What is found: an engine process in a file, or a place that cannot be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from chunkcalc.engines.command import Command
from chunkcalc.engines.words import Word
from chunkcalc.frozen import dataclass
from chunkcalc.manifests.sources import Beside

# Kinds of what is no engine that was read: it may hold one, it is broken, or it is a file of a folder that is no text.
UNREADABLE, BROKEN, SKIPPED = "unreadable", "broken", "skipped"
Role = Literal["prefill", "decode", "both"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """An engine process, or a place where one may be that cannot be read.

    file : path of the file, relative
    document : 0-based index of the YAML document
    pointer, line : of what holds the command: a container, a service, a section; of the command in a script
    command_line : of its command; 0 where there is none
    name : of the object that holds it
    command : the engine and its arguments; None where they cannot be read
    model : names for the model that stand outside the command, likeliest first
    gpu : names for the GPU type, likeliest first
    gpus : GPUs of a replica; None where nothing says so
    role : prefill and decode apart, or both
    replicas : how many of it run
    disabled : switched off in the file
    offline : built by the Python class instead of the server
    notes : settings for this tool, by key, as the file's annotations give them
    native : limits and workload in the file's own fields, by the same keys
    twice : keys of it that stand twice
    cut : the first flag behind a comment that cuts the command off
    unset : flags whose value is not known
    problems : what is not known, and what would resolve it
    kind : what was read, for people
    beside : the files around it
    """

    file: str
    document: int = 0
    pointer: str = ""
    line: int = 1
    command_line: int = 0
    name: str = ""
    command: Command | None = None
    model: tuple[Word, ...] = ()
    gpu: tuple[Word, ...] = ()
    gpus: int | None = None
    role: Role = "both"
    replicas: int = 1
    disabled: bool = False
    offline: bool = False
    notes: Mapping[str, Word] = field(default_factory=dict)
    native: Mapping[str, str] = field(default_factory=dict)
    twice: tuple[Word, ...] = ()
    cut: Word | None = None
    unset: tuple[Word, ...] = ()
    problems: tuple[str, ...] = ()
    kind: str = ""
    beside: Beside | None = None
