"""Python programs: engines that are built or started with literal arguments. Parsed, never run."""

from __future__ import annotations

import ast
import json
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from chunkcalc.engines.command import Command
from chunkcalc.engines.dialects import dialect
from chunkcalc.engines.words import Word
from chunkcalc.manifests.doubts import START
from chunkcalc.manifests.expand import unknown
from chunkcalc.manifests.launches import engine_of_flags, of_words
from chunkcalc.manifests.shell import run_dry

# Classes that build an engine from keywords: name -> engine, whether it is the offline entry point.
BUILDERS = {
    "LLM": ("vllm", True), "AsyncEngineArgs": ("vllm", False), "EngineArgs": ("vllm", True),
    "VLLM": ("vllm", True), "Engine": ("sglang", False), "Runtime": ("sglang", False), "ServerArgs": ("sglang", False),
}  # fmt: skip
MOST_NODES = 200_000
DEEPEST = 20  # names behind names
LARGEST = 10**9
_DEVICES = ("gpu", "gpu_type", "accelerator_type", "accelerator")
_PACKAGES = {"vllm": "vllm", "sglang": "sglang", "tensorrt_llm": "trtllm", "ray": "ray",
             "langchain_community": "vllm", "langchain_vllm": "vllm"}  # fmt: skip
# What runs a command that is given as a text.
_RUNS = frozenset(("Popen", "run", "call", "check_call", "check_output", "system", "popen", "create_subprocess_shell",
                   "create_subprocess_exec", "split", "run_command", "exec", "execute", "spawn", "entrypoint",
                   "dockerfile_commands", "Container", "sendline"))  # fmt: skip
_CHANGES = ("append", "extend", "insert", "update", "setdefault", "pop")


class Built(NamedTuple):
    """An engine that a program builds.

    command : with the arguments that are literals; the others are marked as not known
    line : of it
    offline : whether by the class for batches instead of the server
    gpu : its GPU, where it names one of its own
    """

    command: Command
    line: int
    offline: bool
    gpu: Word | None = None


class _UnknownError(Exception):
    """Not a literal."""


def engines(text: str) -> tuple[list[Built], int]:
    """The engines of a Python program.

    Returns
    -------
    what it builds, and the line of a syntax error (0 where it has none)
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return [], getattr(error, "lineno", None) or 1
    nodes = _nodes(tree)
    modules = _imported(nodes)
    constants = _constants(nodes)
    runs = any(isinstance(node, ast.Call) and _called(node) in _RUNS for node in nodes)
    inner = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    out: list[Built] = []
    for node in nodes:
        if isinstance(node, ast.Call):
            built = _call(node, modules, constants)
            if built is not None:
                out.append(built)
        elif runs and isinstance(node, (ast.Constant, ast.JoinedStr)) and id(node) not in inner:
            out += _text(node, constants)
        elif isinstance(node, (ast.List, ast.Tuple)):
            started = _list(node, constants)
            if started is not None:
                out.append(started)
    return sorted(out, key=lambda each: each.line), 0


def _nodes(tree: ast.AST) -> list[ast.AST]:
    out: list[ast.AST] = []
    for node in ast.walk(tree):
        out.append(node)
        if len(out) >= MOST_NODES:
            break
    return out


def _imported(nodes: Sequence[ast.AST]) -> dict[str, str]:
    """Names that come from an engine's package -> its name there."""
    out: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            engine = _PACKAGES.get((node.module or "").split(".")[0])
            out |= {each.asname or each.name: f"{engine}.{each.name}" for each in node.names if engine}
        elif isinstance(node, ast.Import):
            packages = ((each, each.name.split(".")[0]) for each in node.names)
            out |= {each.asname or package: _PACKAGES[package] for each, package in packages if package in _PACKAGES}
    return out


def _constants(nodes: Sequence[ast.AST]) -> dict[str, ast.expr]:
    """Names that are given one value in the whole program, and whose value nothing changes."""
    found: dict[str, list[ast.expr]] = {}
    changed: set[str] = set()
    for node in nodes:
        match node:
            case ast.Assign():
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        found.setdefault(target.id, []).append(node.value)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                found.setdefault(name, []).append(value)
            case ast.AugAssign(target=ast.Name(id=name)) | ast.For(target=ast.Name(id=name)):
                changed.add(name)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr)) if attr in _CHANGES:
                changed.add(name)
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store()):
                changed.add(name)
            case ast.arg(arg=name):
                changed.add(name)
    return {name: values[0] for name, values in found.items() if len(values) == 1 and name not in changed}


def _literal(  # noqa: PLR0911 - one case a kind of literal
    node: ast.expr, constants: dict[str, ast.expr], depth: int = 0
) -> Any:
    """The value of literals, of names that hold one, and of `str`, `int` and `dict` of them."""
    if depth > DEEPEST:
        raise _UnknownError

    def value(inner: ast.expr) -> Any:
        return _literal(inner, constants, depth + 1)

    match node:
        case ast.Constant():
            return node.value
        case ast.Name() if node.id in constants:
            return value(constants[node.id])
        case ast.List() | ast.Tuple():
            return [value(each) for each in node.elts]
        case ast.Dict() if all(node.keys):
            return {value(k): value(v) for k, v in zip(node.keys, node.values, strict=True) if k is not None}
        case ast.UnaryOp(op=ast.USub()):
            return _negative(value(node.operand))
        case ast.BinOp(op=ast.Mult() | ast.Add()):
            return _whole(node.op, value(node.left), value(node.right))
        case ast.JoinedStr():
            parts = (part.value if isinstance(part, ast.FormattedValue) else part for part in node.values)
            return "".join(str(value(part)) for part in parts)
        case ast.Call(func=ast.Name(id="str"), args=[only], keywords=[]):
            return str(value(only))
        case ast.Call(func=ast.Name(id="dict"), args=[]) if all(each.arg for each in node.keywords):
            return {each.arg: value(each.value) for each in node.keywords}
    raise _UnknownError


def _negative(value: Any) -> Any:
    if not isinstance(value, (int, float)):
        raise _UnknownError
    return -value


def _whole(op: ast.operator, left: Any, right: Any) -> int:
    if not (type(left) is int and type(right) is int and max(abs(left), abs(right)) < LARGEST):
        raise _UnknownError
    return left * right if isinstance(op, ast.Mult) else left + right


def _name(node: ast.expr, modules: dict[str, str]) -> str:
    """A called name as its package names it, such as `vllm.LLM`; empty where it is of no engine."""
    if isinstance(node, ast.Name):
        return modules.get(node.id, "")
    if isinstance(node, ast.Attribute):
        base = _name(node.value, modules)
        return f"{base}.{node.attr}" if base else ""
    return ""


def _call(node: ast.Call, modules: dict[str, str], constants: dict[str, ast.expr]) -> Built | None:
    """`LLM(...)`, `AsyncEngineArgs(...)`, `sglang.Engine(...)`: keywords as flags."""
    called = _name(node.func, modules)
    engine, _, name = called.partition(".")
    name = name.rpartition(".")[2]
    if engine == "ray" and name == "LLMConfig":
        return _ray(node, constants)
    if engine == "trtllm" and name == "LLM":
        return Built(_trtllm(node, constants), node.lineno, True)
    if not engine or BUILDERS.get(name, ("",))[0] != engine:
        return None
    own = dialect(engine)
    words: list[Word] = []
    for value in node.args[:1]:
        words += _flag("model", value, constants)
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg == "vllm_kwargs":
            words += _spread(keyword.value, constants)
        else:
            key = own.model[0].lstrip("-") if keyword.arg in ("model", "model_path") else keyword.arg
            words += _flag(key, keyword.value, constants)
    return Built(Command(engine, tuple(words), {}, False, "", keywords=True), node.lineno, BUILDERS[name][1])


def _ray(node: ast.Call, constants: dict[str, ast.expr]) -> Built | None:
    """Ray Serve's `LLMConfig(model_loading_config=..., engine_kwargs=...)`; the keywords tell the engine."""
    given = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
    loading = _entries(given.get("model_loading_config"), constants)
    source = loading.get("model_source") or loading.get("model_id")
    settings = given.get("engine_kwargs")
    entries = _entries(settings, constants)
    own = "model_path" in entries
    words = _flag("model", source, constants) if source is not None and not own else []
    if settings is not None and not entries:
        words += _spread(settings, constants)
    for key, value in entries.items():
        words += _flag(key, value, constants)
    engine = engine_of_flags(words) or "vllm"
    gpu = given.get("accelerator_type")
    named = Word(gpu.value, gpu.lineno) if isinstance(gpu, ast.Constant) and isinstance(gpu.value, str) else None
    return Built(Command(engine, tuple(words), {}, False, "", keywords=True), node.lineno, False, gpu=named)


def _entries(node: ast.expr | None, constants: dict[str, ast.expr]) -> dict[str, ast.expr]:
    """Keys and values of a mapping whose keys are literals; empty for anything else."""
    if isinstance(node, ast.Name):
        node = constants.get(node.id)
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return {
            key.value: value for key, value in pairs if isinstance(key, ast.Constant) and isinstance(key.value, str)
        }
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
        return {each.arg: each.value for each in node.keywords if each.arg}
    return {}


def _trtllm(node: ast.Call, constants: dict[str, ast.expr]) -> Command:
    options: dict[str, Any] = {}
    words: list[Word] = []
    for keyword in [*(ast.keyword("model", value) for value in node.args[:1]), *node.keywords]:
        line = keyword.value.lineno
        try:
            value = _literal(keyword.value, constants)
        except _UnknownError:
            value = unknown(_source(keyword.value))
        if keyword.arg in ("model",):
            words = [Word(str(value), line)]
        elif keyword.arg is None and isinstance(value, dict):
            options |= {Word(str(key), line): each for key, each in value.items()}
        else:
            options[Word(keyword.arg or unknown(_source(keyword.value)), line)] = value
    place = Word("", node.lineno)
    name = "LLM(...)"
    return Command("trtllm", (*words, place.at(dialect("trtllm").option_file), place.at(name)), {}, True, "",
                   {name: options})  # fmt: skip


def _flag(key: str, node: ast.expr, constants: dict[str, ast.expr]) -> list[Word]:
    place = Word(f"--{key.replace('_', '-')}", node.lineno)
    try:
        value = _literal(node, constants)
    except _UnknownError:
        return [place.at(f"{place}={unknown(_source(node))}")]
    return _valued(place, value)


def _valued(place: Word, value: Any) -> list[Word]:
    if value is True:
        return [place]
    if value is False:
        return [place.at("--no-" + place.removeprefix("--"))] if place.startswith("--enable") else []
    if value is None:
        return []
    text = json.dumps(value, default=str) if isinstance(value, (dict, list)) else str(value)
    return [place, place.at(text)]


def _spread(node: ast.expr, constants: dict[str, ast.expr]) -> list[Word]:
    """`**settings`: a literal mapping, or something not known."""
    entries = _entries(node, constants)
    if not entries:
        place = Word("", node.lineno)
        return [place.at(unknown(f"**{_source(node)}"))]
    return [word for key, value in entries.items() for word in _flag(key, value, constants)]


def _called(node: ast.Call) -> str:
    """The last name of what is called."""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _text(node: ast.Constant | ast.JoinedStr, constants: dict[str, ast.expr]) -> Iterator[Built]:
    """A text that is a command line of an engine, in a program that runs commands."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    text = ""
    for part in parts:
        try:
            text += str(_literal(part.value if isinstance(part, ast.FormattedValue) else part, constants))
        except _UnknownError:
            text += unknown(_source(part.value if isinstance(part, ast.FormattedValue) else part))
    if not START.search(text):
        return
    for line in run_dry(text, lambda _: Word("", node.lineno)).lines:
        command = of_words(line.words, line.variables)
        if command is not None:
            yield Built(command, node.lineno, False)


def _list(node: ast.List | ast.Tuple, constants: dict[str, ast.expr]) -> Built | None:
    """A list of words that starts an engine."""
    words: list[Word] = []
    for each in node.elts:
        try:
            value = _literal(each, constants)
        except _UnknownError:
            value = unknown(_source(each))
        if not isinstance(value, (str, int, float)):
            return None
        words.append(Word(str(value), each.lineno))
    if not START.search(" ".join(words)):
        return None
    if any(" " in word.strip() and START.search(word) for word in words):
        return None
    command = of_words(words, {})
    return None if command is None else Built(command, node.lineno, False)


def _source(node: ast.expr) -> str:
    try:
        return ast.unparse(node)[:60]
    except (ValueError, RecursionError):
        return "an expression"


def devices(text: str) -> Iterator[Word]:
    """GPU names that decorators, calls and mappings give as `gpu="H100:2"`."""
    try:
        nodes = _nodes(ast.parse(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    constants = _constants(nodes)
    for node in nodes:
        pairs: list[tuple[object, ast.expr]] = []
        if isinstance(node, ast.keyword):
            pairs = [(node.arg, node.value)]
        elif isinstance(node, ast.Dict):
            keys = (key.value if isinstance(key, ast.Constant) else None for key in node.keys)
            pairs = list(zip(keys, node.values, strict=True))
        for key, value in pairs:
            if key not in _DEVICES:
                continue
            try:
                name = _literal(value, constants)
            except _UnknownError:
                continue
            if isinstance(name, str):
                yield Word(name, value.lineno)
