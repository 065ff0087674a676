"""The argument grammar that the engines share, each with its own settings: argv -> what was given.

vLLM and SGLang parse with argparse: `--k v` and `--k=v`, unique prefixes, the last of several wins.
TensorRT-LLM parses with click: no prefixes. Nothing is ever guessed: what the engine would refuse
becomes a refusal in our words, and an unknown flag is reported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, NamedTuple

from chunkcalc.engines.literals import Parse, loose
from chunkcalc.engines.literals import value as value_of
from chunkcalc.engines.words import Remark, placed
from chunkcalc.frozen import dataclass

DEEPEST = 16  # of dotted keys


class Given(NamedTuple):
    """A value as it was given: parsed, as text, under which spelling, and by which word."""

    value: Any
    text: str
    flag: str
    word: str = ""


@dataclass(slots=True)
class Arguments:
    """What an argument vector says.

    given : field -> value
    positional : words that belong to no flag
    unknown : flags that this version does not have
    refusals : what the engine's own parser would refuse
    differences : what it would silently read otherwise than it looks
    unread : options of a file that play no part here
    """

    given: dict[str, Given] = field(default_factory=dict)
    positional: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)

    def refuse(self, rule: str, text: str, word: str = "", **facts: Any) -> None:
        """Note what the engine's own parser would refuse."""
        self.refusals.append(Remark(text, rule, word, **facts))

    def differ(self, rule: str, text: str, word: str = "", **facts: Any) -> None:
        """Note what the engine would silently read otherwise than it looks."""
        self.differences.append(Remark(text, rule, word, **facts))

    def value(self, name: str) -> Any:
        """The value given for a field; None where there is none."""
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
    empty : a number that is left empty, as in `--x=`, is not given
    loose : a JSON option takes `a=1,b=2` as well
    """

    options: Mapping[str, str]
    aliases: Mapping[str, str]
    human: Parse
    underscores: bool = True
    prefixes: bool = True
    dotted: bool = False
    pairs: bool = False
    empty: bool = False
    loose: bool = False


def parse(words: Sequence[str], grammar: Grammar) -> Arguments:
    """Read an argument vector."""
    out = Arguments()
    spellings = _spellings(grammar)
    dotted: dict[str, dict[str, Any]] = {}
    places: dict[str, str] = {}
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
        names = _names(flag, spellings, grammar)
        if not names and not equals and len(flag) > 2 and flag[:2] in spellings and flag[1] != "-":
            names, equals, attached = [flag[:2]], "=", flag[2:]  # -O3
        if len(names) != 1:
            if names:
                out.refuse("E15", f"{flag} is ambiguous: it could be {', '.join(sorted(names)[:4])}", word)
            else:
                out.unknown.append(placed(flag, word))
            while rest and not equals and not _is_flag(rest[0]):
                rest.pop(0)
            continue
        target, positive = spellings[names[0]]
        _note_abbreviation(out, flag, names[0], word, grammar)
        if dot:
            value = attached if equals else (rest.pop(0) if rest else None)
            _set_key(dotted.setdefault(target, {}), out, path, value, placed(f"{flag}.{path}", word), grammar)
            places.setdefault(target, word)
            continue
        taken = [attached] if equals else _take(rest, grammar.options[target])
        _store(out, target, placed(flag, word), taken, bool(equals), positive, grammar)
    for name, tree in dotted.items():
        key = name.replace("-", "_")
        if grammar.options[name] not in ("json", "text"):
            out.refuse("E21", f"--{name} has no keys", places[name])
            continue
        if key in out.given:
            text = f"--{name}.KEY replaces the whole value of --{name}, it is not merged into it"
            out.differ("E14", text, places[name])
        out.given[key] = Given(tree, json.dumps(tree), f"--{name}", places[name])
    return out


def _note_abbreviation(out: Arguments, flag: str, name: str, word: str, grammar: Grammar) -> None:
    if len(flag) > len("--tp") and len(_written(flag, grammar)) < len(name):
        out.differ(
            "E15", f"{flag} is read as {name}, until another flag begins like it: write it out", word, whole=name
        )


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
    if " " in word.partition("=")[0]:
        return False
    return len(word) > 1 and word.startswith("-") and not re.fullmatch(r"-\d+(\.\d*)?|-\.\d+", word)


def _names(flag: str, spellings: Mapping[str, Any], grammar: Grammar) -> list[str]:
    """The spellings that a flag may stand for: itself, or those it begins."""
    written = _written(flag, grammar)
    if written in spellings:
        return [written]
    if not grammar.prefixes or not written.startswith("--"):
        return []
    return [each for each in spellings if each.startswith(written)]


def _written(flag: str, grammar: Grammar) -> str:
    return flag.replace("_", "-") if grammar.underscores and flag.startswith("--") else flag


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
        out.refuse("E03", f"{flag}={text}: this flag takes no value", flag, switch=True)
        return
    if not taken and kind not in ("switch", "bool", "boolvalue") and not kind.endswith("?"):
        out.refuse("E21", f"{flag} needs a value", flag)
        return
    if grammar.empty and taken == [""] and kind.rstrip("?") in ("int", "human", "float", "auto"):
        return
    if grammar.loose and kind.startswith("json") and re.fullmatch(r"\w+=\w+(,\w+=\w+)*", text):
        taken = [json.dumps({k: int(v) if v.isdigit() else v for k, v in (p.split("=") for p in text.split(","))})]
    try:
        value = value_of(kind.rstrip("?"), taken, positive, grammar.human)
    except ValueError as error:
        rule = "E05" if "suffix" in str(error) else "E21"
        out.refuse(rule, f"{flag} {text[:60]}: {error}", flag, flag=flag, given=text[:60])
        return
    key = name.replace("-", "_")
    if key in out.given and out.given[key].value != value:
        out.differ("E14", f"--{name} is given more than once: the last, {text or value}, counts", flag)
    out.given[key] = Given(value, text, str(flag), flag)


def _set_key(tree: dict[str, Any], out: Arguments, path: str, value: str | None, flag: str, grammar: Grammar) -> None:
    """`--name.a.b value` sets a key; `--name.a+ x,y` appends to a list."""
    *parents, last = path.split(".")
    if value is None or len(parents) > DEEPEST:
        problem = f"{flag[:60]} needs a value" if value is None else f"{flag[:60]}: nested too deeply"
        out.refuse("E21", problem, flag)
        return
    node: Any = tree
    for parent in parents:
        node = node.setdefault(parent, {})
        if not isinstance(node, dict):
            out.refuse("E21", f"{flag}: '{parent}' is already a value", flag)
            return
    if not last.endswith("+"):
        node[last] = loose(value, grammar.human)
    elif isinstance(node.setdefault(last[:-1], []), list):
        node[last[:-1]].extend(value.split(","))
    else:
        out.refuse("E21", f"{flag}: '{last[:-1]}' is not a list", flag)
