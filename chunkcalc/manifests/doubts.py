"""What mentions an engine and is not understood: it becomes a row of its own, so that nothing vanishes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import PurePosixPath

from chunkcalc.engines.command import IMAGES, OTHER_SUBCOMMANDS
from chunkcalc.engines.dialects import named
from chunkcalc.manifests.expand import plain, unknowns

ENGINES = re.compile(r"vllm|sglang|trt-?llm|tensorrt[-_]?llm", re.IGNORECASE)
_BUDGETS = "|".join(re.escape(flag.lstrip("-")).replace("_", "[-_]").replace("\\-", "[-_]") for flag in named("budget"))
BUDGET = re.compile(rf"(?<![\w-])(?:--)?({_BUDGETS})\b")
_QUOTED = r"[\s,\"'\]\[]+"
START = re.compile(
    rf"\bvllm{_QUOTED}serve\b(?!,)|\bsglang{_QUOTED}serve\b(?!,)|-m{_QUOTED}vllm\.entrypoints\.(openai\.)?(api_server|cli)|"
    rf"-m{_QUOTED}sglang\.launch_server|\btrtllm-serve(?![\w.-])|-m{_QUOTED}tensorrt_llm\.commands\.serve|"
    rf"-m{_QUOTED}dynamo\.(vllm|sglang|trtllm)\b|"
    r"kind: *DynamoGraphDeploymentRequest\b"
)
_NAMES = "|".join(re.escape(name) for name in IMAGES)
IMAGE = re.compile(rf"[\w.-]+/({_NAMES})[:@]\w")
# How a Python program builds an engine.
BUILDS = re.compile(r"engine_kwargs|LLMConfig\(|EngineArgs\(|\bLLM\(|\bEngine\(|\bVLLM\(")
ASKS = frozenset(("--help", "-h", "--version"))  # a program that only tells
# Programs that speak of an engine without starting one.
TALKS = frozenset(
    ("echo", "printf", "grep", "egrep", "rg", "sed", "awk", "cat", "tee", "test", "[", "[[", "pip", "pip3", "uv-pip",
     "curl", "wget", "git", "pkill", "pgrep", "kill", "killall", "ps", "sleep", "cd", "mkdir", "cp", "mv", "rm", "ls",
     "chmod", "chown", "ln", "touch", "source", ".", "export", "local", "readonly", "declare", "typeset", "read",
     "huggingface-cli", "hf", "helm", "kustomize", "make", "apt", "apt-get", "return", "exit", "die", "log", "info",
     "warn", "error", "fail", "usage", "which", "type", "trap", "wait", "true", "false", ":", "set", "unset", "shift",
     "find", "jq", "yq", "sort", "head", "tail", "wc", "tr", "cut", "diff", "tar", "unzip", "aws", "gcloud", "az",
     "gsutil", "pytest", "lm_eval", "lm-eval", "aiperf", "genai-perf", "guidellm", "journalctl", "systemctl",
     "dirname", "basename", "mypy", "ruff", "flake8", "pylint", "pre-commit", "shellcheck", "vale", "realpath",
     "mapfile", "readarray", "nvidia-smi", "pushd", "popd", "alias", "eval", "python-config")
)  # fmt: skip
_MANAGES = frozenset(
    ("pull", "push", "build", "tag", "rm", "rmi", "stop", "start", "restart", "logs", "kill", "inspect", "ps", "images",
     "image", "cp", "network", "volume", "wait", "login", "import", "save", "load", "apply", "delete", "get",
     "describe", "rollout", "port-forward", "buildx", "create")
)  # fmt: skip
_CONTAINERS = frozenset(("docker", "podman", "nerdctl", "kubectl", "oc", "enroot", "crictl"))
_SCRIPT = re.compile(r"\.(ba|z)?sh$|(^|[-_/])(serve|server|start|run|launch)[\w.-]*$")
_SERVES = re.compile(r"serve|start|run|launch|entry", re.IGNORECASE)


def doubt(words: Sequence[str]) -> str:
    """Why a command that starts no engine as far as is known may start one; empty where it does not.

    Parameters
    ----------
    words : of the command, its variables put in
    """
    own = [word for word in words if not re.match(r"[A-Za-z_]\w*=", word)]
    if not own or ASKS & set(own):
        return ""
    program = PurePosixPath(plain(own[0])).name
    manages = program in _CONTAINERS and _MANAGES & set(own[1:3])
    return "" if program in TALKS or manages or _other(own) else _doubt(program, own)


def _doubt(program: str, own: Sequence[str]) -> str:
    text = " ".join(own)
    if START.search(text) or BUDGET.search(text):
        return f"what {program} does with an engine's command line is not known"
    if program.startswith("python") and ENGINES.search(text) and BUILDS.search(text):
        return f"what {program} builds is known only when it runs"
    if why := _of_container(program, own):
        return why
    file = next((word for word in own[:3] if word.endswith((".sh", ".bash"))), "")
    if file and ENGINES.search(file) and _SERVES.search(PurePosixPath(file).name):
        return f"it runs {plain(file)}, whose text is not in this input"
    return ""


def _of_container(program: str, own: Sequence[str]) -> str:
    """Why a program that is given an engine's image may start it."""
    if any("\n" in word and IMAGE.search(word) for word in own):
        return f"what {program} does with an engine's image is not known"
    own = [word.removeprefix("--image=") for word in own]
    own_images = [word for word in own if ENGINES.search(word) and re.match(r"[\w.-]+(/[\w.-]+)*[:@][\w.-]+$", word)]
    lost = [name for word in own for name in unknowns(word) if ENGINES.search(name)]
    if program in _CONTAINERS and "run" in own[1:3] and own_images and any(word.startswith("--m") for word in own):
        return f"what the image {own_images[0]} starts is not known"
    if program in _CONTAINERS and "run" in own[1:3] and lost:
        return f"the image is {lost[0]}: not known from this file"
    return ""


def _other(words: Sequence[str]) -> bool:
    """Whether an engine's program is given something else to do than to serve."""
    names = [PurePosixPath(word).name for word in words]
    asked = any(ENGINES.search(name) and after in OTHER_SUBCOMMANDS for name, after in pairwise(names))
    return asked or any(name in ("pip", "pip3", "install") for name in names[:4])


def mentioned(text: str, comments: Iterable[str] = ("#", "//")) -> int:
    """The line at which a text mentions an engine's start, image or budget; 0 where none does.

    Parameters
    ----------
    text : of a file
    comments : how lines begin that count for nothing
    """
    marks = tuple(comments)
    kept = "\n".join("" if line.lstrip().startswith(marks) else line for line in text.split("\n"))
    places = [match.start() for pattern in (START, BUDGET, IMAGE) if (match := pattern.search(kept)) is not None]
    return kept.count("\n", 0, min(places)) + 1 if places else 0
