"""An engine's YAML options -> the arguments they stand for. The only file that reads YAML here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chunkcalc.errors import ChunkcalcError
from chunkcalc.profiles import MAX_BYTES


def read_yaml(path: str) -> dict[str, Any]:
    """A YAML file as plain data, of at most 16 MiB.

    Parameters
    ----------
    path : the file

    Raises
    ------
    ChunkcalcError : unreadable, too large, not YAML, not a mapping
    """
    import yaml  # noqa: PLC0415 - only where a command line names a file

    hint = "give the engine's YAML options"
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ChunkcalcError(f"cannot be read ({error.strerror})", path, hint) from None
    if len(data) > MAX_BYTES:
        raise ChunkcalcError("is larger than 16 MiB", path, hint)
    try:
        found = yaml.safe_load(data)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        problem = " ".join(str(error).split())[:120]
        raise ChunkcalcError(f"is not valid YAML ({problem})", path, hint) from None
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ChunkcalcError("is not a mapping of options", path, hint)
    return {str(key): value for key, value in found.items()}


def as_arguments(options: Mapping[str, Any], negatable: Mapping[str, str], drops_false: bool) -> tuple[list[str], str]:
    """The argument vector that a YAML file of vLLM or SGLang stands for.

    Parameters
    ----------
    options : the file's content; keys with `-` or `_`
    negatable : kind of each option; `bool` ones have a `--no-` form
    drops_false : whether `false` is dropped silently (vLLM before 0.28)

    Returns
    -------
    arguments, and the model where the file names one
    """
    out: list[str] = []
    model = ""
    for key, value in options.items():
        name = key.replace("_", "-")
        if name == "model":
            model = str(value)
        elif value is True:
            out.append(f"--{name}")
        elif value is False:
            if negatable.get(name) == "bool" and not drops_false:
                out.append(f"--no-{name}")
        elif isinstance(value, list):
            out += [f"--{name}", *(str(each) for each in value)]
        elif isinstance(value, dict):
            out += [f"--{name}", json.dumps(value)]
        elif value is not None:
            out += [f"--{name}={value}"]
    return out, model


def dropped(options: Mapping[str, Any], negatable: Mapping[str, str], drops_false: bool) -> list[str]:
    """Options whose `false` has no effect.

    Parameters
    ----------
    options, negatable, drops_false : as for `as_arguments`
    """
    return [
        key
        for key, value in options.items()
        if value is False and negatable.get(key.replace("_", "-")) == "bool" and drops_false
    ]
