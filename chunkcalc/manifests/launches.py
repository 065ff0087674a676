"""A command of a script or container -> the engine that it starts, if any."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any

from chunkcalc.engines.command import (
    OTHER_SUBCOMMANDS,
    PROGRAMS,
    SUBCOMMANDS,
    Command,
    engine_of,
    locate,
    version_of_image,
)
from chunkcalc.engines.dialects import ROLE, SERVED_NAME, dialect
from chunkcalc.engines.words import Word, placed
from chunkcalc.errors import ChunkcalcError
from chunkcalc.manifests.decisive import decisive, takes_value
from chunkcalc.manifests.doubts import ASKS
from chunkcalc.manifests.expand import unknowns
from chunkcalc.manifests.shell import SHELLS

# Programs that pass what follows on; anything else that mentions an engine does not start one.
WRAPPERS = frozenset(
    ("exec", "nohup", "env", "sudo", "time", "numactl", "taskset", "mpirun", "mpiexec", "srun", "timeout", "stdbuf",
     "trtllm-llmapi-launch", "nsys", "tini", "dumb-init", "uv", "torchrun", "docker", "podman", "nerdctl", "command",
     "nice", "ionice", "setsid", "catatonit", "poetry", "pixi", "unshare", "chroot", "gosu", "su-exec", "singularity",
     "apptainer", "enroot", "&&", "ld.so", "accelerate", "ray", "opentelemetry-instrument", "ddtrace-run",
     "systemd-run", "systemd-inhibit", "runuser", "doas", "flock", "ssh", "kubectl", "oc", "screen", "tmux", "chrt",
     "prlimit", "cgexec", "unbuffer", "conda", "mamba", "micromamba", "pipenv", "hatch", "pdm", "rye", "xvfb-run",
     "uvx", "pipx", "aprun", "jsrun", "flux", "prun",
     "mpirun.openmpi", "wsl", "caffeinate", "proot", "nsenter", "lxc", "incus")
)  # fmt: skip
OF_RANKS = frozenset(("mpirun", "mpiexec", "srun", "aprun", "jsrun", "prun"))  # whose processes see their own devices
# What an unknown word may add: more than one word.
_SEVERAL = re.compile(r"\[[@*]\]|\$[@*]|arg|opt|flag|param|extra|cmd", re.IGNORECASE)
CONTAINER_PROGRAMS = frozenset(("docker", "podman", "nerdctl"))
# Dynamo's workers take the engine's own arguments, and these of theirs; 1 where a value follows.
DEVICES = "CUDA_VISIBLE_DEVICES"
DYNAMO = {"dynamo.vllm": "vllm", "dynamo.sglang": "sglang", "dynamo.trtllm": "trtllm"}
DYNAMO_FLAGS = {
    "--is-prefill-worker": 0, "--is-decode-worker": 0, "--migration-limit": 1, "--connector": 1, "--endpoint": 1,
    "--store-kv": 1, "--request-plane": 1, "--event-plane": 1, "--custom-jinja-template": 1, "--modality": 1,
    "--publish-events-and-metrics": 0, "--disaggregation-strategy": 1, "--dyn-tool-call-parser": 1,
    "--dyn-reasoning-parser": 1, "--use-kv-events": 0, "--durable-kv-events": 0, "--multimodal-worker": 0,
    "--multimodal-encode-worker": 0, "--multimodal-processor": 0, "--namespace": 1, "--discovery-backend": 1,
    "--use-sglang-tokenizer": 0, "--sglang-tokenizer": 0, "--route-to-encoder": 0, "--enable-multimodal": 0,
}  # fmt: skip
DYNAMO_MODES = frozenset(("dynamo.vllm", "dynamo.trtllm"))  # whose role is Dynamo's own
_SERVING = (("vllm", "serve"), ("sglang", "serve"))
TRTLLM = dialect("trtllm")
TRTLLM_NAMES = {
    "--extra-engine-args": TRTLLM.option_file, dialect("vllm").tensor: TRTLLM.tensor,
    dialect("vllm").pipeline: TRTLLM.pipeline, "--expert-parallel-size": TRTLLM.experts,
    **{flag.replace("_", "-"): flag for flag in (TRTLLM.budget, TRTLLM.requests, TRTLLM.context)},
    "--free-gpu-memory-fraction": f"--{TRTLLM.fraction}",
}  # fmt: skip
_FLAGGED = {
    engine: re.compile(
        rf"--({'|'.join(dialect(engine).own_flags)})\b".replace("-", "[-_]" if dialect(engine).alike else "-")
    )
    for engine in ("sglang", "vllm", "trtllm")
}


def of_words(words: Sequence[Word], variables: Mapping[str, str], image: str = "") -> Command | None:
    """The engine that a command starts; None where it starts none."""
    if ASKS & set(words):
        return None
    dynamo = _dynamo(words)
    if dynamo is not None:
        engine, rest, serve, role = dynamo
        return Command(engine, tuple(rest), {**variables, **({ROLE: role} if role else {})}, serve, "")
    container = next((i for i, word in enumerate(words) if PurePosixPath(word).name not in WRAPPERS - CONTAINER_PROGRAMS
                      and not word.startswith("-")), len(words))  # fmt: skip
    if container < len(words) and PurePosixPath(words[container]).name in CONTAINER_PROGRAMS:
        return _docker(words[container:], variables)
    inside = [word for word in words if word.startswith("--container-image=")]  # of srun
    if inside:
        words, image = [word for word in words if word not in inside], inside[0].partition("=")[2]
    words = _behind_options(words)
    if not _starts(words, image):
        return None
    try:
        found = locate(list(words))
    except ChunkcalcError:
        return None
    version = found.version or _version(image, found.engine)
    if any(PurePosixPath(word).name in OF_RANKS for word in words):
        variables = {name: value for name, value in variables.items() if name != DEVICES}
        found.environment.pop(DEVICES, None)
    return found._replace(environment={**variables, **found.environment}, version=version)


def _behind_options(words: Sequence[Word]) -> Sequence[Word]:
    """The command without what stands between a wrapper and the engine's program (`uv run --with vllm vllm serve`)."""
    start = next((i for i, pair in enumerate(pairwise(words)) if pair in _SERVING), 0)
    if not start or PurePosixPath(words[0]).name not in WRAPPERS or not any(map(engine_of, words[:start])):
        return words
    return [*(word for word in words[:start] if not engine_of(word)), *words[start:]]


def engine_of_flags(words: Sequence[str]) -> str | None:
    """The engine whose flags these are, where nothing names it."""
    text = " ".join(words)
    return next((engine for engine, pattern in _FLAGGED.items() if pattern.search(text)), None)


def _version(image: str, engine: str) -> str:
    return version_of_image(image) if engine_of(image) == engine else ""


def _docker(words: Sequence[Word], variables: Mapping[str, str]) -> Command | None:
    """`docker run`: the image and what follows it, with the variables and GPUs that the options give."""
    if not {"run", "exec", "create"} & set(words):
        return None
    index = next((i for i, word in enumerate(words) if engine_of(word) and re.search("[/:]", word)), None)
    if index is None or "exec" in words[:3]:  # the engine in a container that runs, or in an image of another name
        begins = next((i for i, word in enumerate(words) if engine_of(word)), None)
        if begins is None:
            return None
        begins -= 2 if begins > 1 and words[begins - 1] == "-m" else 0
        return of_words(words[begins:], {**variables, **_given(words[:begins])})
    options, image, rest = words[:index], words[index], list(words[index + 1 :])
    given = {**variables, **_given(options)}
    entry = next((options[i + 1] for i, word in enumerate(options[:-1]) if word == "--entrypoint"), None)
    if entry is not None:
        return of_words([entry, *rest], given, image)
    program = of_words(rest, given, image) if rest and not rest[0].startswith("-") else None
    if program is not None or (rest and not rest[0].startswith("-") and "vllm-openai" not in image):
        return program
    return of_words([image, *rest], given, image)


def _given(options: Sequence[str]) -> dict[str, str]:
    """Variables and devices that options of a container give it."""
    out: dict[str, str] = {}
    for option, value in pairwise(options):
        name, equals, content = value.partition("=")
        if option in ("-e", "--env") and equals:
            out[name] = content
    match = re.search(r"--gpus[= ](?:\S*device=([\d,]+)|(\d+))", " ".join(options))
    single = re.findall(r"nvidia\.com/gpu=(\d+)", " ".join(options))
    if match:
        out[DEVICES] = match[1] or ",".join(str(n) for n in range(min(int(match[2]), 64)))
    elif single:
        out[DEVICES] = ",".join(single)
    return out


def _starts(words: Sequence[str], image: str) -> bool:
    """Whether a server starts: the program stands first, or behind programs that pass it on."""
    index = next((i for i, word in enumerate(words) if engine_of(word)), None)
    if index is None:
        return False
    front = [PurePosixPath(word).name for word in words[:index]]
    word, after = words[index], list(words[index + 1 : index + 2])
    if word == image:
        return True
    program = PurePosixPath(word).name
    passed_on = not front or front[0] in WRAPPERS or "python" in front[0] or "=" in front[0] or unknowns(front[0])
    if not passed_on or program not in PROGRAMS:
        return False
    if "." in program:
        return bool(front) and front[-1] == "-m" and (not program.endswith(SUBCOMMANDS) or after == ["serve"])
    if program in ("vllm", "sglang"):
        return after == ["serve"]
    return not after or after[0] not in OTHER_SUBCOMMANDS


def _dynamo(words: Sequence[Word]) -> tuple[str, list[Word], bool, str] | None:
    """A Dynamo worker's engine, the arguments that are the engine's, and the role that is Dynamo's own."""
    role = ""
    index = next((i for i, word in enumerate(words) if word in DYNAMO), None)
    if index is None:
        return None
    engine = DYNAMO[words[index]]
    out: list[Word] = []
    rest = list(words[index + 1 :])
    while rest:
        word = rest.pop(0)
        flag, equals, value = word.partition("=")
        own = DYNAMO_FLAGS.get(flag, _dynamo_value(rest) if flag.startswith("--dyn-") else None)
        if own is None and flag == SERVED_NAME and engine == "trtllm":
            own = 1
        if own is None and flag == ROLE and words[index] in DYNAMO_MODES:
            own = 1
        if own is not None:
            given = value if equals else str(rest.pop(0)) if own and rest else ""
            role = given if flag == ROLE else role
            continue
        if engine == "trtllm" and flag in dialect("sglang").model:
            model = word.at(value) if equals else rest.pop(0) if rest else None
            out = [model, *out] if model is not None else out
            continue
        if engine == "trtllm":
            word = word.at(TRTLLM_NAMES.get(flag, flag) + equals + value)
        out.append(word)
    return engine, out, engine == "trtllm", role


def _dynamo_value(rest: Sequence[str]) -> int:
    """Whether a value follows a flag of Dynamo's own that is not listed."""
    return int(bool(rest) and not rest[0].startswith("-"))


def settled(command: Command) -> tuple[Command, list[str], list[Word]]:
    """The command without what is not known.

    Returns
    -------
    the command, what matters and is not known, and the flags whose value is not known
    """
    out: list[Any] = []
    problems: list[str] = []
    unset: list[Word] = []
    for index, word in enumerate(command.words):
        missing = unknowns(word)
        if not missing:
            out.append(word)
            continue
        flag, equals, _ = word.partition("=")
        if flag.startswith("-") and unknowns(flag):
            problems.append(f"{missing[0]} is not known from this file")
            continue
        before = str(out[-1]) if out else ""
        if not flag.startswith("-") and takes_value(command.engine, before):
            flag = str(out[-1])
            out.pop()
        elif not equals:
            if command.serve and not index and not _SEVERAL.search(missing[0]):
                problems.append(f"the model is {missing[0]}: not known from this file")
                out.append(word)  # it stands where a model must
            else:
                problems.append(f"what {missing[0]} adds to the command line is not known from this file")
            continue
        if decisive(flag):
            problems.append(f"{flag} is {missing[0]}: not known from this file")
            unset.append(Word(placed(flag, word), getattr(word, "line", 0), getattr(word, "pointer", "")))
    if unset:
        out = _without(command.engine, out, {flag.partition("=")[0] for flag in unset})
    return command._replace(words=tuple(out)), problems, unset


def _without(engine: str, words: Sequence[Word], flags: set[str]) -> list[Word]:
    """The words without earlier values of flags whose last one is not known."""
    out: list[Word] = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word.partition("=")[0] in flags:
            skip = takes_value(engine, word)
        else:
            out.append(word)
    return out


def scripts_of(words: Sequence[Word]) -> Iterator[int]:
    """Indices of the words that are scripts of a shell (`bash -c SCRIPT`)."""
    for index, word in enumerate(words[:-1]):
        if PurePosixPath(word).name not in SHELLS:
            continue
        at = index + 1
        while at < len(words) and words[at].startswith("-"):
            if re.fullmatch(r"-[a-z]*c[a-z]*", words[at]) and at + 1 < len(words):
                ended = words[at + 1] == "--" and at + 2 < len(words)
                yield at + 1 + ended
                return
            at += 1 + (words[at] in ("-o", "+o"))


def script_file(words: Sequence[Word]) -> Word | None:
    """The script that a shell is given as a file; None where there is none."""
    rest = [word for word in words if not word.startswith("-") or word == "-"]
    if rest and PurePosixPath(rest[0]).name in SHELLS:
        rest = rest[1:]
    return rest[0] if rest and rest[0].endswith((".sh", ".bash")) else None
