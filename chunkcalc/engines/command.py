"""From a command line as it stands in a manifest to its reading: which engine, entry point, files."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from chunkcalc.engines.dialects import dialect
from chunkcalc.engines.files import as_arguments, read_yaml
from chunkcalc.engines.grammar import Arguments, Grammar, parse
from chunkcalc.engines.readers import reader
from chunkcalc.engines.reading import Reading, Target
from chunkcalc.engines.tables import Table
from chunkcalc.errors import ChunkcalcError
from chunkcalc.records import ENGINE_NAMES

# How each engine is started: program, Python module or image -> engine.
PROGRAMS = {program: engine for engine in ENGINE_NAMES for program in dialect(engine).programs}
IMAGES = {image: engine for engine in ENGINE_NAMES for image in dialect(engine).images}
OTHER_SUBCOMMANDS = frozenset(
    ("bench", "chat", "complete", "run-batch", "collect-env", "disaggregated", "disaggregated_mpi_worker",
     "mm_embedding_serve", "generate", "version")
)  # fmt: skip
# Options that are on unless told otherwise: only for these does a dropped `false` change anything.
ON_BY_DEFAULT = frozenset(
    ("enable-prefix-caching", "enable-chunked-prefill", "async-scheduling", "scheduler-reserve-full-isl",
     "use-tqdm-on-load", "enable-flashinfer-autotune")
)  # fmt: skip
SUBCOMMANDS = "cli.main"  # the module behind an engine's program: its subcommands follow
SHELL = frozenset(("&&", "||", ";", "|", "&"))
MOST_WORDS = 10_000


class Command(NamedTuple):
    """A command line taken apart.

    engine : its name
    words : its own arguments, after the subcommand
    environment : variables set before the program
    serve : whether the model may stand as a word of its own: not for a Python module
    version : by the tag of an image; empty where there is none
    files : option files that are at hand, by the path that the command line names; others are read
    keywords : whether its options are keywords of Python, which nothing abbreviates
    """

    engine: str
    words: tuple[str, ...]
    environment: dict[str, str]
    serve: bool = True
    version: str = ""
    files: Mapping[str, Mapping[str, Any]] = {}
    keywords: bool = False


def locate(words: Sequence[str]) -> Command:
    """Find the engine in a command line; what stands before it (env, mpirun, docker) is passed over.

    Parameters
    ----------
    words : the command line, or the engine's name and then its arguments

    Raises
    ------
    ChunkcalcError : no engine in it
    """
    words = _unquoted(words)
    if len(words) > MOST_WORDS:
        raise ChunkcalcError(f"has more than {MOST_WORDS:,} words", "command line", "give a single command")
    environment: dict[str, str] = {}
    for index, word in enumerate(words):
        assignment = re.fullmatch(r"([A-Za-z_]\w*)=(.*)", word, re.DOTALL)
        if assignment:
            environment[assignment[1]] = assignment[2]
        elif index and words[index - 1] == "cd":
            continue
        elif engine_of(word):
            return _from(words[index:], environment)
    raise ChunkcalcError(
        "no engine found", "command line",
        f"begin with {', '.join(dialect(engine).programs[0] for engine in ENGINE_NAMES)}, as in -- vllm serve MODEL; "
        "bare arguments follow its name",
    )  # fmt: skip


def _unquoted(words: Sequence[str]) -> list[str]:
    """A command that was given as one quoted string (`bash -c '...'`), word by word."""
    out = []
    for word in words:
        if any(re.search(rf"(^|[\s/]){re.escape(program)}\s", word) for program in PROGRAMS):
            try:
                out += shlex.split(word)
            except ValueError as error:
                raise ChunkcalcError(f"cannot be taken apart ({error})", "command line", "check its quotes") from None
        else:
            out.append(word)
    return out


def version_of_image(image: str) -> str:
    """The engine's version by the tag of its image; empty where the tag says nothing of it."""
    path, _, tag = image.partition("@")[0].rpartition(":")
    if not path or "/" in tag or "lmcache" in path or engine_of(image) is None:
        return ""
    number = r"(\d+(?:\.\d+){1,3}(?:[.-]?(?:post|rc|dev|a|b)\d+)*)"
    for pattern in (rf"(?:vllm|sglang)[_-]v?{number}", rf"^v?{number}", rf"[-_]v{number}"):
        match = re.search(pattern, tag)
        if match:
            return match[1]
    return ""


def engine_of(word: str) -> str | None:
    """The engine that a program, a Python module or an image names; None for any other word."""
    name = PurePosixPath(word).name
    image, colon, _ = name.partition("@")[0].partition(":")
    if name in PROGRAMS:
        return PROGRAMS[name]
    folder = f"{PurePosixPath(word).parent.name}/{image}"
    if folder in IMAGES:
        return IMAGES[folder]
    return IMAGES.get(image) if colon or "@" in name or "vllm-openai" in name else None


def _from(words: Sequence[str], environment: dict[str, str]) -> Command:
    """The command from the first word that names the engine; the last such word is the program."""
    cut = next((index for index, word in enumerate(words) if word in SHELL), len(words))
    rest = list(words[:cut])
    program = rest.pop(0)
    engine = engine_of(program) or ""
    version = ""
    while True:
        version = version_of_image(program) or version
        launcher = rest[:2]
        if launcher and PurePosixPath(launcher[0]).name.startswith("python") and launcher[1:] == ["-m"]:
            rest = rest[2:]
        if not rest or engine_of(rest[0]) != engine:
            break
        program = rest.pop(0)
    if rest and rest[0] in OTHER_SUBCOMMANDS:
        raise ChunkcalcError(f"'{rest[0]}' does not start a server", "command line", "give the serve command")
    if rest[:1] == ["serve"]:
        rest.pop(0)
    # A Python module takes no model as a word of its own; the program and the images do.
    module = PROGRAMS.get(program) == engine and "." in program and not program.endswith(SUBCOMMANDS)
    return Command(engine, tuple(rest), environment, not module, version)


def arguments(command: Command, table: Table) -> Arguments:
    """Parse the arguments and the files that they name.

    Raises
    ------
    ChunkcalcError : a file that cannot be read
    """
    grammar = reader(command.engine).grammar(table)
    if command.keywords:
        grammar = replace(grammar, prefixes=False)
    above = dialect(command.engine).file_overrules
    if not above and dialect(command.engine).option_file in command.words[:-1]:
        found = _with_file(command, table, grammar)
    else:
        found = parse(command.words, grammar)
    if above:
        path = found.value(dialect(command.engine).option_file.lstrip("-"))
        if path:
            reader(command.engine).overrule(found, _options(command, str(path)))
        return found
    for word in command.words:
        if word.startswith("--config="):
            found.differ("E04", f"{word} is ignored: only two words, --config {word[9:]}, are read", word)
            found.given.pop("config", None)
    if not command.serve:
        for word in found.positional:
            found.refuse("E21", f"'{word}' belongs to no flag", word)
        found.positional.clear()
    return found


def _options(command: Command, path: str) -> dict[str, Any]:
    return dict(command.files[path]) if path in command.files else read_yaml(path)


def _with_file(command: Command, table: Table, grammar: Grammar) -> Arguments:
    """vLLM and SGLang: the file stands below the command line, and after the model."""
    words = list(command.words)
    index = words.index("--config")
    options = _options(command, words[index + 1])
    alike = dialect(command.engine).alike
    below, dropped, model = as_arguments(
        options, grammar.options, underscores=alike,
        # `vllm serve` looks for the --no- form in the wrong parser, so only the module finds it.
        negates=alike and table.since("0.28.0") and not command.serve,
    )  # fmt: skip
    rest = words[:index] + words[index + 2 :]
    first = [rest.pop(0)] if rest and not rest[0].startswith("-") else []
    found = parse([*first, *below, *rest], grammar)
    if "--config" in rest:
        found.refuse("E14", "--config is given more than once", words[index])
    # A value in both places is no mistake: the command line counts.
    found.differences = parse([*first, *rest], grammar).differences
    for key in (key for key in dropped if key.replace("_", "-") in ON_BY_DEFAULT):
        found.differ("E17", f"'{key}: false' in the file is dropped silently", key)
    if model and not found.positional and "model" not in found.given:
        found.positional.append(model)
    elif alike and command.serve and not first and "model" not in found.given:
        found.refuse(
            "E21", "with --config the model must stand right after serve, or in the file", words[index], of_model=True
        )
    return found


def read(command: Command, table: Table, target: Target, found: Arguments | None = None) -> Reading:
    """What a command line means."""
    return reader(command.engine).read(found or arguments(command, table), table, target)


def model_name(command: Command, found: Arguments) -> str:
    """The model that the command line names; empty where it names none."""
    flags = dialect(command.engine).model
    named = found.value(flags[0].lstrip("-").replace("-", "_")) or ""
    positional = next(iter(found.positional), "")
    return str((named or positional) if len(flags) > 1 else (positional or named))
