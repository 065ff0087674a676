"""The argument grammar that the engines share, each with its own settings: argv -> what was given.

vLLM and SGLang parse with argparse: `--k v` and `--k=v`, unique prefixes, the last of several wins.
TensorRT-LLM parses with click: no prefixes. Nothing is ever guessed: what the engine would refuse
becomes a refusal in our words, and an unknown flag is reported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Parse = Callable[[str], Any]


class Given(NamedTuple):
    """A value as it was given: parsed, as text, and under which spelling."""

    value: Any
    text: str
    flag: str


@dataclass(slots=True)
class Arguments:
    """What an argument vector says.

    given : field -> value
    positional : words that belong to no flag
    unknown : flags that this version does not have
    refusals : what the engine's own parser would refuse
    differences : what it would silently read otherwise than it looks
    """

    given: dict[str, Given] = field(default_factory=dict)
    positional: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)

    def value(self, name: str) -> Any:
        """The value given for a field; None where there is none.

        Parameters
        ----------
        name : the field
        """
        return self.given[name].value if name in self.given else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """How an engine reads its arguments.

    options : name without dashes -> kind
    aliases : other spelling, with its dashes -> name
    human : reads an integer with suffixes
    underscores : `_` and `-` are the same in names
    prefixes : a unique beginning of a name will do
    dotted : `--json-option.key value` sets a key of a JSON option
    pairs : `--disable-x` undoes `--enable-x`
    """

    options: Mapping[str, str]
    aliases: Mapping[str, str]
    human: Parse
    underscores: bool = True
    prefixes: bool = True
    dotted: bool = False
    pairs: bool = False


def parse(words: Sequence[str], grammar: Grammar) -> Arguments:
    """Read an argument vector.

    Parameters
    ----------
    words : the arguments, without program and subcommand
    grammar : how the engine reads them
    """
    out = Arguments()
    spellings = _spellings(grammar)
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            out.positional += rest
            break
        if not _is_flag(word):
            out.positional.append(word)
            continue
        flag, equals, attached = word.partition("=")
        flag, dot, path = flag.partition(".") if grammar.dotted else (flag, "", "")
        name = _name(flag, spellings, grammar, out)
        if name is None and not equals and len(flag) > 2 and flag[:2] in spellings and flag[1] != "-":
            name, equals, attached = flag[:2], "=", flag[2:]  # -O3
        if name is None:
            out.unknown.append(word.partition("=")[0])
            while rest and not _is_flag(rest[0]):
                rest.pop(0)
            continue
        target, positive = spellings[name]
        if dot:
            value = attached if equals else (rest.pop(0) if rest and not _is_flag(rest[0]) else None)
            _set_key(out, target, path, value, word, grammar)
            continue
        taken = [attached] if equals else _take(rest, grammar.options[target])
        _store(out, target, flag, taken, bool(equals), positive, grammar)
    return out


def _spellings(grammar: Grammar) -> dict[str, tuple[str, bool]]:
    """Every spelling -> its option, and whether it says yes."""
    out = {}
    for name, kind in grammar.options.items():
        out[f"--{name}"] = (name, True)
        if kind == "bool":
            out[f"--no-{name}"] = (name, False)
            for prefix, inverse in (("enable-", "disable-"), ("disable-", "enable-")):
                if grammar.pairs and name.startswith(prefix):
                    out.setdefault(f"--{inverse}{name.removeprefix(prefix)}", (name, False))
    for spelling, name in grammar.aliases.items():
        if name in grammar.options:
            out[spelling] = (name, True)
    return out


def _is_flag(word: str) -> bool:
    return len(word) > 1 and word.startswith("-") and not re.fullmatch(r"-\d+(\.\d*)?|-\.\d+", word)


def _name(flag: str, spellings: Mapping[str, Any], grammar: Grammar, out: Arguments) -> str | None:
    written = flag.replace("_", "-") if grammar.underscores and flag.startswith("--") else flag
    if written in spellings:
        return written
    if grammar.prefixes and written.startswith("--"):
        matches = [each for each in spellings if each.startswith(written)]
        if len(matches) == 1:
            return matches[0]
        if len(matches) > 1:
            out.refusals.append(f"{flag} is ambiguous: it could be {', '.join(sorted(matches)[:4])}")
    return None


def _take(rest: list[str], kind: str) -> list[str]:
    """The values that follow a flag."""
    if kind in ("switch", "bool"):
        return []
    most = len(rest) if kind == "list" else 1
    taken: list[str] = []
    while rest and len(taken) < most and not _is_flag(rest[0]):
        taken.append(rest.pop(0))
    return taken


def _store(
    out: Arguments, name: str, flag: str, taken: list[str], attached: bool, positive: bool, grammar: Grammar
) -> None:
    kind = grammar.options[name]
    text = " ".join(taken)
    if kind in ("switch", "bool") and attached:
        out.refusals.append(f"{flag}={text}: this flag takes no value")
        return
    if not taken and kind not in ("switch", "bool", "boolvalue") and not kind.endswith("?"):
        out.refusals.append(f"{flag} needs a value")
        return
    try:
        value = _read(kind.rstrip("?"), taken, positive, grammar.human)
    except ValueError as error:
        out.refusals.append(f"{flag} {text[:60]}: {error}")
        return
    key = name.replace("-", "_")
    if key in out.given and out.given[key].value != value:
        out.differences.append(f"--{name} is given more than once: the last, {text or value}, counts")
    out.given[key] = Given(value, text, flag)


def _read(kind: str, taken: list[str], positive: bool, human: Parse) -> Any:
    if kind in ("switch", "bool"):
        return positive
    if kind == "list":
        return tuple(taken)
    if not taken:
        return True
    readers: dict[str, Parse] = {
        "boolvalue": _truth, "auto": lambda text: -1 if text.strip().lower() in ("auto", "-1") else human(text),
        "human": human, "json": _json, "int": whole, "float": _real,
    }  # fmt: skip
    return readers.get(kind, str)(taken[0])


def whole(text: str) -> int:
    """A whole number without suffix, as Python's int() reads it.

    Parameters
    ----------
    text : what was given

    Raises
    ------
    ValueError : anything else
    """
    try:
        return int(text)
    except ValueError:
        raise ValueError("not a whole number; this flag takes no suffix") from None


def _real(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError("not a number") from None
    return value


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("neither true nor false")
    return text.lower() == "true"


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        raise ValueError("not valid JSON") from None


def _set_key(out: Arguments, name: str, path: str, value: str | None, word: str, grammar: Grammar) -> None:
    """`--name.a.b value` sets a key; `--name.a+ x,y` appends to a list."""
    if grammar.options[name] not in ("json", "text"):
        out.refusals.append(f"{word.partition('=')[0]}: --{name} has no keys")
        return
    key = name.replace("-", "_")
    given = out.given.get(key)
    tree: dict[str, Any] = json.loads(json.dumps(given.value)) if given and isinstance(given.value, dict) else {}
    node = tree
    *parents, last = path.replace("-", "_").split(".")
    for parent in parents:
        node = node.setdefault(parent, {})
        if not isinstance(node, dict):
            out.refusals.append(f"{word}: '{parent}' is already a value")
            return
    if value is None:
        node[last] = True
    elif last.endswith("+"):
        node.setdefault(last[:-1], []).extend(_loose(item) for item in value.split(","))
    else:
        node[last] = _loose(value)
    out.given[key] = Given(tree, json.dumps(tree), word.partition("=")[0])


def _loose(text: str) -> Any:
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        return text


def suffixed(multipliers: Mapping[str, int], decimals: frozenset[str], hint: str) -> Parse:
    """A reader of integers with suffixes.

    Parameters
    ----------
    multipliers : suffix -> factor
    decimals : the suffixes that allow a fraction before them
    hint : what to write, for the error
    """

    def read(text: str) -> int:
        match = re.fullmatch(r"(\d+)(\.\d+)?([A-Za-z]+)", text.strip())
        if match:
            number, fraction, suffix = match.groups()
            if suffix not in multipliers:
                raise ValueError(f"unknown suffix '{suffix}'; {hint}")
            if fraction and suffix not in decimals:
                raise ValueError(f"'{suffix}' takes whole numbers only; {hint}")
            return int(float(number + (fraction or "")) * multipliers[suffix])
        try:
            return int(text)
        except ValueError:
            raise ValueError(f"not a whole number; {hint}") from None

    return read
