"""The commands of the program as Markdown: what they do, an example, every option."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from typer.core import TyperGroup
from typer.main import get_command

from chunkcalc.cli.main import program


def text() -> str:
    """Every command, one section each."""
    return "\n".join(_sections(get_command(program()), ""))


def _sections(group: Any, prefix: str) -> Iterator[str]:
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from _sections(command, f"{prefix}{name} ")
            continue
        words, _, example = (command.help or "").partition("Example:")
        about = re.sub(r"(?<!\n)\n(?!\n)", " ", words.strip())
        yield f"## {prefix}{name}\n\n{about}\n"
        if example:
            yield f"    {' '.join(example.split())}\n"
        rows = [row for each in command.params if each.name != "help" for row in _row(each)]
        if rows:
            yield "| option | meaning |\n|---|---|\n" + "\n".join(rows) + "\n"


def _row(param: Any) -> Iterator[str]:
    if param.param_type_name == "argument":
        yield f"| `{param.name}` | {_cell(param.help)} |"
    elif not param.hidden:
        names = ", ".join(f"`{name}`" for name in (*param.opts, *param.secondary_opts))
        needed = " Required." if param.required else _default(param)
        yield f"| {names} | {_cell(param.help)}{needed} |"


def _default(param: Any) -> str:
    """What a value left out stands for, where that is a value."""
    value = getattr(param.default, "value", param.default)
    told = param.is_flag or value in (None, "", ()) or "Default" in (param.help or "")
    return "" if told else f" Default: {value}."


def _cell(words: str | None) -> str:
    return " ".join((words or "").replace("|", "\\|").split())
