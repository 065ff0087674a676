"""Engines in documents of no kind that is known: commands and options wherever they stand.

Workflows, SkyPilot tasks, Ansible plays, job templates and recipes of many tools hold a command in one of their
texts. It is read as a shell would; options without the command that starts the engine are shown and judged no further.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import PurePosixPath

from chunkcalc.engines.command import engine_of
from chunkcalc.engines.dialects import dialect
from chunkcalc.engines.tables import table
from chunkcalc.engines.words import Word
from chunkcalc.manifests.assembly import launched, lowered, visible
from chunkcalc.manifests.boxes import Box, image_of, words_of
from chunkcalc.manifests.configs import Configs
from chunkcalc.manifests.containers import launches
from chunkcalc.manifests.devices import devices
from chunkcalc.manifests.doubts import BUDGET, ENGINES, IMAGE, START
from chunkcalc.manifests.expand import filled, templates
from chunkcalc.manifests.fields import flags, model_of, split
from chunkcalc.manifests.launches import engine_of_flags
from chunkcalc.manifests.nodes import Node, documents
from chunkcalc.manifests.process import Process, Role
from chunkcalc.manifests.scope import Scope, role_of, scopes
from chunkcalc.manifests.settings import Settings, of_options, own_keys, telling
from chunkcalc.manifests.shell import SHELLS

# Keys whose texts speak of an engine and start none.
_PROSE = re.compile(
    r"desc|title|summary|annotation|label|message|text$|help|comment|^docs?$|note|expr|links|tags|^name$|echo|readme|"
    r"url|href|probe|query|reason|hint|example|install|pip|packages|^msg$|^nav$|match|regex|pattern|redirect|^when$|^if$",
    re.IGNORECASE,
)
_AROUND = ("envs", "env", "environment", "variables", "vars", "env_vars", "extraEnv")
_MODELS = ("model", "huggingface_repo_id", "huggingfaceId", "model_name", "model_id", "modelId", "model_path",
           "model-path", "modelName", "modelURL", "model_source", "hf_model_id", "repo_id")  # fmt: skip
# Keys that hold commands: what is not understood there is told.
_RUNS = re.compile(
    r"run|script|command|cmd|arg|exec|shell|entry|start|launch|serve|setup|user_?data|bash|container|task|job",
    re.IGNORECASE,
)
_NAMED = ("path", "name", "id", "uri", "repo", "repo_id", "hf_repo")
_SECTIONS = re.compile(r"(sglang|vllm|trtllm)_config$")  # of srt-slurm: whole command lines as mappings
_BESIDE = re.compile("Cache|Router|Lora|Gateway|Pool|Route|Policy")  # kinds that stand beside an engine
_STARTING = ("command", "args", "cmd", "entrypoint", "dockerArgs", "docker_args", "containerArgs", "dockerStartCmd")
_FLAG = re.compile(rf"--({'|'.join(re.escape(key) for key in own_keys())})\b")
NO_START = "the command that starts it is not in this file"
MOST = 300  # processes of a document
TELLING = 2  # keys of an engine's own from which a mapping is taken for its options


def loose(file: str, index: int, root: Node, configs: Configs, taken: Sequence[str] = ()) -> Iterator[Process]:
    """The engines of a document that stand in nothing of a known kind.

    Parameters
    ----------
    file : its path
    index : of the document
    root : of the document
    configs : of the file
    taken : pointers of what was read already
    """
    everything = _below(file, index, Scope((("", root),)), configs)
    around = (each for each in everything if not any(_overlap(each.pointer, pointer) for pointer in taken))
    found = list(islice(around, MOST + 1))
    yield from found
    if not found and not taken:
        yield from _unstarted(file, index, root)


def _overlap(one: str, other: str) -> bool:
    """Whether a place stands inside another."""
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


def _unstarted(file: str, index: int, root: Node) -> Iterator[Process]:
    """An image of an engine, or a request for one, without any command."""
    if root.string("kind") == "DynamoGraphDeploymentRequest":
        scope = Scope((("", root), ("spec", root.get("spec") or root)))
        what = "what its planner deploys is known only once it has profiled the model"
        yield Process(file=file, document=index, pointer=scope.node.pointer, line=scope.node.line, name=scope.name,
                      model=tuple(_models(scope)), gpu=tuple(devices(scope)[0]), problems=(what,),
                      kind=root.string("kind"))  # fmt: skip
        return
    for scope in scopes(root):
        held = scope.chain[0][1].get("apiVersion") is not None and "containers" in [key for key, _ in scope.chain]
        ends = scope.node.string("state") in ("absent", "stopped")
        if engine_of(image_of(scope.node)) and not ends and not held and not _BESIDE.search(root.string("kind")):
            yield Process(file=file, document=index, pointer=scope.node.pointer, line=scope.node.line, name=scope.name,
                          gpu=tuple(devices(scope)[0]), problems=(NO_START,), kind=_kind(scope))  # fmt: skip
            return
        if any(BUDGET.fullmatch(key) for key in scope.node.value) and not any(_PROSE.search(k) for k, _ in scope.chain):
            yield Process(file=file, document=index, pointer=scope.node.pointer, line=scope.node.line, name=scope.name,
                          problems=(NO_START,), kind=_kind(scope))  # fmt: skip
            return


def _below(file: str, index: int, scope: Scope, configs: Configs) -> Iterator[Process]:
    node = scope.node
    if isinstance(node.value, dict):
        yield from _mapping(file, index, scope, configs)
        return
    key = scope.chain[-1][0]
    if node.items():
        texts = [each for each in node.items() if isinstance(each.value, str)]
        if len(texts) == len(node.items()):
            yield from _listed(file, index, scope, texts, configs)
            return
        for each in node.items():
            yield from _below(file, index, Scope((*scope.chain, (key, each))), configs)
    elif isinstance(node.value, str) and node.text:
        yield from _text(file, index, scope, configs)


def _mapping(file: str, index: int, scope: Scope, configs: Configs) -> Iterator[Process]:
    node = scope.node
    image = image_of(node) or node.string("imageName")
    resource = scope.chain[0][1].get("apiVersion") is not None  # whose containers were looked at
    if not resource and image and ENGINES.search(image) and any(node.get(key) is not None for key in _STARTING):
        found = list(_contained(file, index, scope, image, configs))
        yield from found
        if found:
            return
    command, given = node.get("command"), node.get("args")
    if not resource and command is not None and command.text and given is not None and given.items():
        words = [*words_of(command, {}), *words_of(given, {})]
        if START.search(" ".join(words)):
            yield from _contained(file, index, scope, "", configs)
            return
    if len(scope.chain) > 1 and scope.chain[-1][0] != "" and not _SECTIONS.search(scope.chain[-1][0]):
        dashed = [key for key in node.value if key.startswith("--")]
        if dashed and _FLAG.search(" ".join(dashed)):
            plain = {key: value for key, value in node.value.items() if key.startswith("--")}
            words = flags(Node(plain, node.line, node.pointer, keys=node.keys), {key: key for key in plain})
            yield from _flagged(file, index, scope, words, configs)
            return
        options = list(of_options(node))
        whole = any(_SECTIONS.search(key) for key, _ in scope.chain)
        if options and (whole or sum(telling(key) for key in node.value) >= TELLING):
            for each in options:
                yield _optional(file, index, scope, each, whole)
            return
    for key, value in node.mapping().items():
        if not _PROSE.search(key):
            yield from _below(file, index, Scope((*scope.chain, (key, value))), configs)


def _contained(file: str, index: int, scope: Scope, image: str, configs: Configs) -> Iterator[Process]:
    """A mapping with an image of an engine: a service of a workflow, a task of Ansible, a job template."""
    node = scope.node
    variables = _variables(scope, configs)
    command = next((found for key in ("entrypoint", "entryPoint") if (found := node.get(key)) is not None), None)
    args = next((found for key in _STARTING if (found := node.get(key)) is not None), None)
    given = [*words_of(node.get("command"), variables), *words_of(node.get("args"), variables)]
    words = tuple(given) if given else words_of(args, variables)
    box = Box(words_of(command, variables) if command is not None else None, words, image, variables, configs, node)
    yield from _started(file, index, scope, box)


def _listed(file: str, index: int, scope: Scope, texts: Sequence[Node], configs: Configs) -> Iterator[Process]:
    """A list of texts: the lines of a script, or the words of a command."""
    joined = " ".join(node.text for node in texts)
    own = len(_FLAG.findall(joined)) >= TELLING
    if not (START.search(joined) or BUDGET.search(joined) or own):
        return
    variables = _variables(scope, configs)
    alone = PurePosixPath(texts[0].text.strip()).name in SHELLS or texts[0].text.startswith("-")
    if not alone and any(" " in node.text.strip() and START.search(node.text) for node in texts):
        text, marks = "", list[tuple[int, int]]()
        for node in texts:
            marks += [(len(text) + offset, line) for offset, line in (node.marks or ((0, node.line),))]
            text += node.text.rstrip("\n") + "\n"
        whole = Node(text, texts[0].line, scope.node.pointer, text, tuple(marks))
        yield from _script(file, index, scope, whole, variables, configs)
        return
    words = words_of(scope.node, variables)
    if START.search(joined):
        yield from _started(file, index, scope, Box(words, (), "", variables, configs, scope.node))
    else:
        yield from _flagged(file, index, scope, list(words), configs)


def _text(file: str, index: int, scope: Scope, configs: Configs) -> Iterator[Process]:
    node = scope.node
    if not (START.search(node.text) or BUDGET.search(node.text) or IMAGE.search(node.text)):
        return
    variables = _variables(scope, configs)
    found = list(_script(file, index, scope, node, variables, configs))
    if any(process.command is not None for process in found):
        yield from found
        return
    if "\n" in node.text.strip() or node.text.lstrip().startswith(("{", "[")):  # YAML or JSON inside a text
        roots, problem = documents(node.text)
        if problem is None and len(roots) == 1 and isinstance(roots[0].value, (dict, list)):
            above = (node.marks[0][1] if node.marks else node.line) - 1
            for process in _below(file, index, Scope((("", Node({"": roots[0]}, 1, "")), ("", roots[0]))), configs):
                yield replace(lowered(process, above, node.pointer), name=process.name or scope.name)
            return
    if re.match(r"\s*--?[a-z]", node.text):
        flagged = list(_flagged(file, index, scope, split(node), configs))
        yield from flagged
        found = [] if flagged else found
    prose = any(key in _AROUND for key, _ in scope.chain) or not any(_RUNS.search(key) for key, _ in scope.chain[1:])
    yield from () if prose else found


def _script(
    file: str, index: int, scope: Scope, node: Node, variables: Mapping[str, str], configs: Configs
) -> Iterator[Process]:
    """A text as a script of a shell."""
    holder = Node({"command": Node([node], node.line, node.pointer)}, node.line, node.pointer)
    place = Word("", node.line, node.pointer)
    start = (place.at("bash"), place.at("-c"), place.at(node.text))
    box = Box(start, (), "", variables, configs, holder, prepared=lambda text: templates(filled(text, variables)))
    yield from _started(file, index, scope, box)


def _started(file: str, index: int, scope: Scope, box: Box) -> Iterator[Process]:
    names, gpus = devices(scope)
    for launch in launches(box):
        base = Process(
            file=file, document=index, pointer=scope.node.pointer, line=launch.line or scope.node.line,
            name=scope.name, model=tuple(_models(scope)), gpu=tuple(names), gpus=visible(launch) or gpus,
            role=_role(scope), replicas=scope.replicas(), notes=scope.annotations(), kind=_kind(scope),
        )  # fmt: skip
        yield launched(base, launch)


def _flagged(file: str, index: int, scope: Scope, words: list[Word], configs: Configs) -> Iterator[Process]:
    """Flags of an engine without the command: what they say is read, what stands before them is not known."""
    engine = engine_of_flags(words)
    while words and not words[0].startswith("-"):
        words.pop(0)
    if engine is None or not words:
        return
    own = dialect(engine)
    start = [words[0].at(part) for part in (own.programs[0], *own.serve)]
    for process in _started(file, index, scope, Box((*start,), tuple(words), "", {}, configs, scope.node)):
        yield replace(process, problems=(*process.problems, NO_START), kind="engine options")


def _optional(file: str, index: int, scope: Scope, each: Settings, whole: bool) -> Process:
    """Options of an engine as a mapping: all of its command line, or part of it beside the holder's own keys."""
    command = each.command._replace(serve=False)
    if not whole:
        known = table(command.engine).options()
        files = {
            name: {key: value for key, value in held.items() if {key, key.replace("_", "-")} & set(known)}
            for name, held in command.files.items()
        }
        command = command._replace(files=files)
    return Process(
        file=file, document=index, pointer=each.node.pointer, line=each.node.line, command=command,
        model=(*each.model, *_models(scope)), role=each.role or _role(scope), name=scope.name,
        gpu=tuple(devices(scope)[0]), problems=() if whole else (NO_START,), kind="engine options",
    )  # fmt: skip


def _role(scope: Scope) -> Role:
    for key, _ in reversed(scope.chain):
        role = role_of(key)
        if role != "both":
            return role
    return "both"


def _kind(scope: Scope) -> str:
    return scope.chain[0][1].string("kind") or "command"


def _variables(scope: Scope, configs: Configs) -> dict[str, str]:
    """The environment that stands around a text, the nearest winning."""
    out: dict[str, str] = {}
    root = scope.chain[0][1]
    gpus = next((number for name in scope.all("resources") if (number := devices(Scope((("", name),)))[1])), None)
    if gpus:
        nodes = root.string("num_nodes")
        out = {"SKYPILOT_NUM_GPUS_PER_NODE": str(gpus), "SKYPILOT_NUM_NODES": nodes if nodes.isdigit() else "1"}
    around = list(scope.outwards())
    around += [found for node in around if (found := root.get(node.string("extends"))) is not None]  # of GitLab
    for node in reversed(around):
        given = [each for key in _AROUND if (each := node.get(key)) is not None]
        lists = [each for each in given if isinstance(each.value, (dict, list))]
        if lists:
            holder = Node({"env": lists[0]}, node.line, node.pointer)
            out |= configs.variables(holder, lists[1:])
    return out


def _models(scope: Scope) -> Iterator[Word]:
    for node in scope.outwards():
        for key in _MODELS:
            held = node.get(key)
            if held is None:
                continue
            inner = next((each for name in _NAMED if (each := held.get(name)) is not None), None)
            yield from model_of(inner if inner is not None else held)
