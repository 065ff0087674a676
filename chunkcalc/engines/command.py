"""From a command line as it stands in a manifest to its reading: which engine, entry point, files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from chunkcalc.engines.files import as_arguments, dropped, read_yaml
from chunkcalc.engines.grammar import Arguments, parse
from chunkcalc.engines.reading import Reading, Target
from chunkcalc.engines.sglang import grammar as sglang_grammar
from chunkcalc.engines.sglang import read as read_sglang
from chunkcalc.engines.tables import Table
from chunkcalc.engines.trtllm import grammar as trtllm_grammar
from chunkcalc.engines.trtllm import overrule
from chunkcalc.engines.trtllm import read as read_trtllm
from chunkcalc.engines.vllm import grammar as vllm_grammar
from chunkcalc.engines.vllm import read as read_vllm
from chunkcalc.errors import ChunkcalcError

GRAMMARS = {"vllm": vllm_grammar, "sglang": sglang_grammar, "trtllm": trtllm_grammar}
READERS = {"vllm": read_vllm, "sglang": read_sglang, "trtllm": read_trtllm}
# How each engine is started: program or Python module -> engine.
PROGRAMS = {
    "vllm": "vllm", "vllm.entrypoints.openai.api_server": "vllm", "vllm.entrypoints.api_server": "vllm",
    "vllm.entrypoints.cli.main": "vllm",
    "sglang": "sglang", "sglang.launch_server": "sglang", "sglang.srt.entrypoints.http_server": "sglang",
    "trtllm-serve": "trtllm", "trtllm": "trtllm", "tensorrt_llm.commands.serve": "trtllm",
}  # fmt: skip
MOST_WORDS = 10_000


class Command(NamedTuple):
    """A command line taken apart.

    engine : `vllm`, `sglang` or `trtllm`
    words : its own arguments, after the subcommand
    environment : variables set before the program
    """

    engine: str
    words: tuple[str, ...]
    environment: dict[str, str]


def locate(words: Sequence[str]) -> Command:
    """Find the engine in a command line; what stands before it (env, mpirun, python -m) is passed over.

    Parameters
    ----------
    words : the command line, or the engine's name and then its arguments

    Raises
    ------
    ChunkcalcError : no engine in it
    """
    if len(words) > MOST_WORDS:
        raise ChunkcalcError(f"has more than {MOST_WORDS:,} words", "command line", "give a single command")
    environment: dict[str, str] = {}
    for index, word in enumerate(words):
        assignment = re.fullmatch(r"([A-Za-z_]\w*)=(.*)", word, re.DOTALL)
        if assignment:
            environment[assignment[1]] = assignment[2]
            continue
        engine = PROGRAMS.get(PurePosixPath(word).name)
        if engine is None:
            continue
        rest = list(words[index + 1 :])
        while rest and PROGRAMS.get(PurePosixPath(rest[0]).name) == engine and "/" not in rest[0].rstrip("/"):
            rest.pop(0)  # `sglang -- python -m sglang.launch_server`: named, then written out
        if rest and PurePosixPath(rest[0]).name.startswith("python"):
            rest = rest[3:] if rest[1:2] == ["-m"] else rest[1:]
        if rest and rest[0] == "serve":
            rest.pop(0)
        return Command(engine, tuple(rest), environment)
    raise ChunkcalcError(
        "no engine found", "command line", "begin with vllm, sglang or trtllm-serve, as in: -- vllm serve MODEL"
    )


def arguments(command: Command, table: Table) -> Arguments:
    """Parse the arguments and the files that they name.

    Parameters
    ----------
    command : taken apart
    table : the engine at its version

    Raises
    ------
    ChunkcalcError : a file that cannot be read
    """
    found = parse(command.words, GRAMMARS[command.engine](table))
    if command.engine == "trtllm":
        path = found.value("extra_llm_api_options")
        if path:
            overrule(found, read_yaml(str(path)))
        return found
    return _with_file(command, table, found)


def _with_file(command: Command, table: Table, found: Arguments) -> Arguments:
    """vLLM and SGLang: the file stands below the command line, and only `--config FILE` names it."""
    words = list(command.words)
    if "--config" not in words:
        for word in words:
            if word.startswith("--config="):
                found.differences.append(f"{word} is ignored: only two words, --config {word[9:]}, are read")
                found.given.pop("config", None)
        return found
    index = words.index("--config")
    if index + 1 >= len(words):
        return found
    options = read_yaml(words[index + 1])
    grammar = GRAMMARS[command.engine](table)
    drops = command.engine == "vllm" and not table.since("0.28.0")
    below, model = as_arguments(options, grammar.options, drops)
    rest = words[:index] + words[index + 2 :]
    merged = parse([*below, *rest], grammar)
    # A value given in both is no mistake: the command line counts.
    merged.differences = list(found.differences)
    merged.differences += [
        f"'{key}: false' in the file is dropped silently (vLLM before 0.28)"
        for key in dropped(options, grammar.options, drops)
    ]
    if model and not merged.positional and "model" not in merged.given and "model_path" not in merged.given:
        merged.positional.append(model)
    return merged


def read(command: Command, table: Table, target: Target, found: Arguments | None = None) -> Reading:
    """What a command line means.

    Parameters
    ----------
    command : taken apart
    table : the engine at its version
    target : device, model and entry point
    found : its arguments, where they are parsed already
    """
    return READERS[command.engine](found or arguments(command, table), table, target)


def model_name(command: Command, found: Arguments) -> str:
    """The model that the command line names; empty where it names none.

    Parameters
    ----------
    command, found : the command line and its arguments
    """
    named = found.value("model_path" if command.engine == "sglang" else "model")
    positional = next(iter(found.positional), "")
    if command.engine == "sglang":
        return str(named or positional)
    return str(positional or named or "")
