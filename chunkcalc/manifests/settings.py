"""Engines' own YAML files that stand alone: vLLM and SGLang options, TensorRT-LLM options and servers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from chunkcalc.engines.command import Command
from chunkcalc.engines.dialects import dialect
from chunkcalc.engines.words import Word
from chunkcalc.manifests.configs import plain_options
from chunkcalc.manifests.nodes import Node
from chunkcalc.manifests.process import Role

# A file with one of these and nothing of another kind of file is the engine's own.
_STRONG = {name: set(dialect(name).own_flags) - {dialect(name).tensor.lstrip("-")} for name in ("vllm", "sglang")}
_OPTION_FILE = dialect("trtllm").option_file
_TRTLLM = {"max_num_tokens", "kv_cache_config", "cuda_graph_config", "enable_chunked_prefill", "max_batch_size",
           "enable_attention_dp", "trust_remote_code_trtllm"}  # fmt: skip
_SERVERS: dict[str, Role] = {"context_servers": "prefill", "generation_servers": "decode"}
_OWN = frozenset(("num_instances", "urls", "router", "hostname", "port", "backend", "schedule_style", "free_ratio"))


class Settings(NamedTuple):
    """An engine that a file of its own options describes.

    command : as if the engine were given the file
    node : the mapping
    model : as the file names it
    role : of the section
    """

    command: Command
    node: Node
    model: tuple[Word, ...]
    role: Role | None = None


def of_document(root: Node) -> Iterator[Settings]:
    """The engines of a document that is an engine's own option file."""
    if not isinstance(root.value, dict) or root.get("apiVersion") is not None or root.get("services") is not None:
        return
    if any(root.get(section) is not None for section in _SERVERS):
        yield from _servers(root)
        return
    yield from of_options(root)


def of_options(root: Node) -> Iterator[Settings]:
    """The engine of a mapping that holds nothing but an engine's options, by the keys that it alone has."""
    engine = _engine(root)
    if engine is None:
        return
    options = plain_options(root)
    name = f"{engine}.yaml"
    if engine == "trtllm":
        model = _model(root)
        words = (*model, Word(_OPTION_FILE, root.line), Word(name, root.line))
        own = {key: value for key, value in options.items() if key not in ("model", "backend", "hostname", "port")}
        yield Settings(Command(engine, words, {}, True, "", {name: own}), root, model)
    else:
        words = (Word("--config", root.line), Word(name, root.line))
        model = _model(root)
        yield Settings(Command(engine, words, {}, True, "", {name: options}), root, model)


def own_keys() -> list[str]:
    """The flags that engines alone have, without their dashes."""
    return sorted({name for strong in _STRONG.values() for name in strong})


def telling(key: str) -> bool:
    """Whether a key is one that an engine alone has."""
    return key in _TRTLLM or any(key.replace("_", "-") in strong for strong in _STRONG.values())


def _engine(root: Node) -> str | None:
    keys = {key.replace("_", "-") for key in root.value}
    plain = set(root.value)
    for engine, strong in _STRONG.items():
        if keys & strong and not plain & (_TRTLLM - {"max_num_tokens"}):
            return engine
    return "trtllm" if len(plain & _TRTLLM) > 1 else None


def _model(root: Node) -> tuple[Word, ...]:
    for key in ("model", "model-path", "model_path"):
        node = root.get(key)
        if node is not None and node.text:
            return (Word(node.text, node.line, node.pointer),)
    return ()


def _servers(root: Node) -> Iterator[Settings]:
    """TensorRT-LLM's disaggregated servers: keys of the top level hold for both sections."""
    shared = {key: value for key, value in plain_options(root).items() if key not in _SERVERS}
    for section, role in _SERVERS.items():
        node = root.get(section)
        if node is None:
            continue
        merged = {**shared, **plain_options(node)}
        own = {key: value for key, value in merged.items() if key not in _OWN and key != "model"}
        model = _model(node) or _model(root)
        words = (*model, Word(_OPTION_FILE, node.line), Word(section, node.line))
        yield Settings(Command("trtllm", words, {}, True, "", {section: own}), node, model, role)
