"""Settings that stand in fields of their own -> the engine's words, each with the line of its field."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

from chunkcalc.engines.words import Word
from chunkcalc.manifests.expand import literal, templates, unknowns
from chunkcalc.manifests.nodes import Node
from chunkcalc.manifests.shell import run_dry


def word(node: Node | None) -> Word | None:
    """A scalar as a word with its place; None where there is none."""
    if node is None or isinstance(node.value, (dict, list)) or node.value is None:
        return None
    return Word(literal(node.text, {}), node.line, node.pointer)


def flags(node: Node | None, names: Mapping[str, str] | None = None, *, empty: bool = False) -> list[Word]:
    """A mapping of settings as flags.

    Parameters
    ----------
    node : the mapping
    names : field -> flag; None to take every field by its own name
    empty : whether an empty text stands for a flag without a value
    """
    out: list[Word] = []
    if node is None:
        return out
    for key, value in node.mapping().items():
        flag = f"--{key}" if names is None else names.get(key, "")
        place = Word(flag, node.keys[key], value.pointer)
        if not flag or value.value is None:
            continue
        if value.value is True or (empty and value.value == ""):
            out.append(place)
        elif value.value is False:
            if flag.startswith(("--enable", "--async")):
                out.append(place.at("--no-" + flag.removeprefix("--")))
        elif isinstance(value.value, (dict, list)):
            out += [place, place.at(json.dumps(value.plain(), default=str))]
        else:
            out += [place, place.at(literal(value.text, {}))]
    return out


def listed(nodes: Iterable[Node]) -> list[Word]:
    """Items of a list as words."""
    return [Word(literal(node.text, {}), node.line, node.pointer) for node in nodes]


def split(node: Node | None) -> list[Word]:
    """A text of several flags, word by word, as a shell splits it."""
    if node is None or not node.text:
        return []
    lines = run_dry(templates(node.text).replace("\n", " "), lambda at: Word("", node.line_at(at), node.pointer)).lines
    return [each for line in lines for each in line.words]


def model_of(uri: Node | None, name: Node | None = None) -> list[Word]:
    """Names of a model behind a URI; paths inside volumes and buckets name none.

    Parameters
    ----------
    uri : such as `hf://org/name:revision`, or a plain name
    name : what the model is served as, used where it looks like a Hugging Face id
    """
    out, tails = [], []
    found = word(uri)
    if found is not None and not (unknowns(found) and name is not None):
        text = str(found)
        if text.startswith("hf://"):
            out.append(found.at(re.sub(r"(:[\w.-]+)?$", "", text.removeprefix("hf://"))))
        elif text.startswith("pvc+hf://"):
            out.append(found.at("/".join(text.split("/")[-2:])))
        elif "://" not in text:
            out.append(found)
        else:  # the folder of a bucket is often called like its model
            last = text.rstrip("/").rpartition("/")[2]
            tails = [found.at(last.replace("--", "/", 1)), found.at("/".join(text.rstrip("/").split("/")[-2:]))]
    served = word(name)
    if served is not None and re.fullmatch(r"[\w.-]+/[\w.-]+", served):
        out.append(served)
    return out + tails


def count(node: Node | None) -> int | None:
    """A whole number; None for anything else."""
    text = node.text.strip() if node is not None and not isinstance(node.value, (dict, list)) else ""
    return int(text) if re.fullmatch(r"\d{1,6}", text) else None
