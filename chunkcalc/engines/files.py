"""An engine's YAML options -> the arguments they stand for. The only file that reads YAML here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chunkcalc.catalog.profiles import MAX_BYTES
from chunkcalc.engines.words import placed
from chunkcalc.errors import ChunkcalcError

MOST_OPTIONS = 1000


def read_yaml(path: str) -> dict[str, Any]:
    """A YAML file as plain data, of at most 16 MiB.

    Raises
    ------
    ChunkcalcError : unreadable, too large, not YAML, not a mapping
    """
    import yaml  # noqa: PLC0415 - only where a command line names a file

    hint = "give the engine's YAML options"
    if not path.endswith((".yaml", ".yml")):
        raise ChunkcalcError("is not named .yaml or .yml", path or "--config", hint)
    try:
        if Path(path).exists() and not Path(path).is_file():
            raise ChunkcalcError("is not a file", path, hint)
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ChunkcalcError(f"cannot be read ({error.strerror})", path, hint) from None
    if len(data) > MAX_BYTES:
        raise ChunkcalcError("is larger than 16 MiB", path, hint)
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(data, Loader=yaml.SafeLoader)):
            raise ChunkcalcError("uses YAML aliases", path, "write the values out")
        found = yaml.safe_load(data)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        problem = " ".join(str(error).split())[:120]
        raise ChunkcalcError(f"is not valid YAML ({problem})", path, hint) from None
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ChunkcalcError("is not a mapping of options", path, hint)
    if len(found) > MOST_OPTIONS:
        raise ChunkcalcError(f"has more than {MOST_OPTIONS:,} options", path, hint)
    return {str(key): value for key, value in found.items()}


def as_arguments(
    options: Mapping[str, Any], kinds: Mapping[str, str], *, underscores: bool, negates: bool
) -> tuple[list[str], list[str], str]:
    """The argument vector that a YAML file of vLLM or SGLang stands for.

    Parameters
    ----------
    options : the file's content
    kinds : kind of each option; `bool` ones have a `--no-` form
    underscores : whether `_` in a key is read as `-`
    negates : whether `false` becomes the `--no-` form; else it is dropped silently

    Returns
    -------
    arguments, keys whose `false` is dropped, and the model where the file names one
    """
    out: list[str] = []
    dropped: list[str] = []
    model = ""
    for key, value in options.items():
        name = key.replace("_", "-") if underscores else str(key)
        flag = placed(f"--{name}", key)
        if name == "model" and underscores:
            model = str(value)
        elif value is True:
            out.append(flag)
        elif value is False:
            if kinds.get(name) == "bool" and negates and name == key:
                out.append(placed(f"--no-{name}", key))
            elif kinds.get(name) == "bool":
                dropped.append(key)
        elif isinstance(value, list):
            out += [flag, *(str(each) for each in value)] if value else []
        elif isinstance(value, dict):
            out += [flag, json.dumps(value, default=str)]
        else:
            out.append(placed(f"{flag}={value}", key))
    return out, dropped, model
