"""A fleet as files that start it: a command, docker compose, Kubernetes, or values of a Helm chart.

`check` reads every one of them back: limits and workload stand in annotations and comments.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence

from chunkcalc.answer.question import USUAL_PERCENTILE, Question
from chunkcalc.answer.resolve import DEFAULT_OUTPUT
from chunkcalc.catalog.lookup import load_hardware
from chunkcalc.engines.dialects import dialect
from chunkcalc.errors import ChunkcalcError
from chunkcalc.sizing.fleet import Fleet
from chunkcalc.sizing.launch import BOTH, DECODE, Launch, launches
from chunkcalc.units import format_duration

IMAGES = {"vllm": "vllm/vllm-openai:v{}", "sglang": "lmsysorg/sglang:v{}",
          "trtllm": "nvcr.io/nvidia/tensorrt-llm/release:{}", "atom": "rocm/atom:{}"}  # fmt: skip
PORT = 8000


def written(found: Fleet, kind: str) -> str:
    """The chosen shape of a fleet as a file.

    Parameters
    ----------
    found : the fleet
    kind : kubernetes, helm, compose or command
    """
    kinds: Mapping[str, Callable[[Fleet, Sequence[Launch]], str]] = {
        "kubernetes": _kubernetes, "helm": _helm, "compose": _compose, "command": _command,
    }  # fmt: skip
    return kinds[kind](found, launches(found))


def _settings(question: Question, launch: Launch) -> dict[str, str]:
    """What `check` needs to judge a unit."""
    out = {"gpu": launch.gpu, "prompt": str(question.prompt), "output": str(question.output or DEFAULT_OUTPUT)}
    out["engine-version"] = launch.version
    if launch.role == BOTH:
        out["rate"] = f"{launch.rate:.9g}"
        if question.percentile is not None and question.percentile != USUAL_PERCENTILE:
            out["percentile"] = f"{question.percentile:g}" if question.percentile else "mean"
    elif launch.role == DECODE:
        out["concurrency"] = str(max(1, launch.batch))
    for name, limit in (("ttft", question.ttft), ("tpot", question.tpot), ("itl", question.itl)):
        if limit is not None:
            out[name] = "none" if limit == float("inf") else _duration(limit)
    if question.prompt_p95 is not None:
        out["prompt-p95"] = str(question.prompt_p95)
    if question.prefix_hit:
        out["prefix-hit"] = f"{question.prefix_hit:g}"
        out["prefix-shared"] = "yes" if question.prefix_shared else "no"
    return out


def _duration(seconds: float) -> str:
    return f"{1e3 * seconds:.9g}ms"


def _name(found: Fleet, launch: Launch) -> str:
    model = str(found.question.model).rpartition("/")[2].lower()
    plain = "".join(c if c.isalnum() else "-" for c in model).strip("-")
    return plain if launch.role == BOTH else f"{plain}-{launch.role}"


def _image(launch: Launch) -> str:
    return IMAGES[launch.engine].format(launch.version)


def _command(found: Fleet, units: Sequence[Launch]) -> str:
    rows = ["#!/bin/sh", f"# {_about(found)}"]
    for launch in units:
        told = " ".join(f"{key}={value}" for key, value in _settings(found.question, launch).items())
        rows += ["", f"# {launch.units} x on {launch.gpus} x {launch.gpu} each", f"# chunkcalc: {told}"]
        if launch.options:
            rows += ["cat > options.yaml <<END", *launch.options, "END"]
        rows.append(" \\\n  ".join(_pairs(_with_options(launch))))
    return "\n".join(rows) + "\n"


def _with_options(launch: Launch) -> list[str]:
    return [*launch.words, *(("--config", "options.yaml") if launch.options else ())]


def _pairs(words: Sequence[str]) -> list[str]:
    """A flag with its value on one line."""
    out: list[str] = []
    for word in words:
        quoted = shlex.quote(word)
        if out and not word.startswith("-") and not out[-1].count(" ") and out[-1].startswith("-"):
            out[-1] += f" {quoted}"
        elif out and not out[0].startswith("-") and len(out) == 1 and not word.startswith("-"):
            out[0] += f" {quoted}"
        else:
            out.append(quoted)
    return out


def _about(found: Fleet) -> str:
    limits = [f"{name} {format_duration(limit)}" for name, limit in (("TTFT", found.question.ttft),
              ("TPOT", found.question.tpot)) if limit is not None]  # fmt: skip
    return f"{found.rate:g} requests/s of {found.question.model} within {', '.join(limits) or 'the limits'}"


def _quoted(text: str) -> str:
    return json.dumps(text)


def _kubernetes(found: Fleet, units: Sequence[Launch]) -> str:
    return "---\n".join(_deployment(found, launch) for launch in units)


def _deployment(found: Fleet, launch: Launch) -> str:
    name = _name(found, launch)
    rows = [
        f"# {_about(found)}", "apiVersion: apps/v1", "kind: Deployment", "metadata:", f"  name: {name}",
        "  annotations:",
        *(f"    chunkcalc/{key}: {_quoted(value)}" for key, value in _settings(found.question, launch).items()),
        "spec:", f"  replicas: {launch.units}", "  selector:", f"    matchLabels: {{app: {name}}}", "  template:",
        "    metadata:", f"      labels: {{app: {name}}}", "    spec:",
        *_node_selector(launch), "      containers:", f"      - name: {launch.engine}",
        f"        image: {_image(launch)}",
        f"        command: {json.dumps(_shell(launch) if launch.options else list(launch.words[:1]))}",
    ]  # fmt: skip
    if not launch.options:
        rows += ["        args:", *(f"        - {_quoted(word)}" for word in launch.words[1:])]
    rows += [
        "        ports:", f"        - containerPort: {PORT}", "        resources:", "          limits:",
        f"            {_resource(launch)}: {launch.gpus}", "        volumeMounts:",
        "        - {name: shm, mountPath: /dev/shm}", "      volumes:",
        "      - {name: shm, emptyDir: {medium: Memory}}",
    ]  # fmt: skip
    return "\n".join(rows) + "\n"


def _shell(launch: Launch) -> list[str]:
    """A start by a shell that writes the option file first."""
    script = "\n".join(
        ["cat > options.yaml <<END", *launch.options, "END", "exec " + shlex.join(_with_options(launch))]
    )
    return ["sh", "-c", script]


def _node_selector(launch: Launch) -> list[str]:
    """The label of NVIDIA's discovery, where the profile knows the product's name."""
    aliases = load_hardware(launch.gpu).record.aliases
    labels = sorted((a for a in aliases if a.upper().startswith("NVIDIA-")), key=lambda a: "HBM" not in a)
    return ["      nodeSelector:", f"        nvidia.com/gpu.product: {labels[0]}"] if labels else []


def _resource(launch: Launch) -> str:
    vendor = str(load_hardware(launch.gpu).record.vendor).lower()
    return {"amd": "amd.com/gpu", "google": "google.com/tpu", "intel": "habana.ai/gaudi"}.get(vendor, "nvidia.com/gpu")


def _compose(found: Fleet, units: Sequence[Launch]) -> str:
    rows = [f"# {_about(found)}", "services:"]
    for launch in units:
        rows += [
            f"  {_name(found, launch)}:", f"    image: {_image(launch)}",
            f"    entrypoint: {json.dumps(_shell(launch) if launch.options else list(launch.words[:1]))}",
        ]  # fmt: skip
        if not launch.options:
            rows += ["    command:", *(f"      - {_quoted(word.replace('$', '$$'))}" for word in launch.words[1:])]
        rows += ["    labels:"]
        told = _settings(found.question, launch)
        rows += [f"      chunkcalc/{key}: {_quoted(value)}" for key, value in told.items()]
        rows += [
            "    deploy:", f"      replicas: {launch.units}", "      resources:", "        reservations:",
            "          devices:",
            f"            - {{driver: nvidia, count: {launch.gpus}, capabilities: [gpu]}}", "    ipc: host",
        ]  # fmt: skip
    return "\n".join(rows) + "\n"


def _helm(found: Fleet, units: Sequence[Launch]) -> str:
    """Values of the vLLM production stack, which starts no other engine."""
    other = next((launch.engine for launch in units if launch.engine != "vllm"), None)
    if other is not None:
        raise ChunkcalcError(f"the chart starts vllm, not {other}", "--emit helm", "write kubernetes or compose")
    rows = [f"# {_about(found)}", "servingEngineSpec:", "  modelSpec:"]
    for launch in units:
        image, _, tag = _image(launch).rpartition(":")
        told = _settings(found.question, launch)
        rows += [
            f"  - name: {_name(found, launch)}", f"    repository: {image}", f"    tag: {_quoted(tag)}",
            f"    modelURL: {_model(launch)}", f"    replicaCount: {launch.units}", f"    requestGPU: {launch.gpus}",
            "    annotations:", *(f"      chunkcalc/{key}: {_quoted(value)}" for key, value in told.items()),
            "    vllmConfig:", f"      tensorParallelSize: {_value(launch, dialect(launch.engine).tensor, '1')}",
            f"      extraArgs: {json.dumps(_rest(launch))}",
        ]  # fmt: skip
    return "\n".join(rows) + "\n"


def _model(launch: Launch) -> str:
    return next(word for word in launch.words[1:] if "/" in word or not word.startswith(("-", "serve")))


def _value(launch: Launch, flag: str, other: str) -> str:
    words = list(launch.words)
    return words[words.index(flag) + 1] if flag in words else other


def _rest(launch: Launch) -> list[str]:
    """The flags that the chart has no field for."""
    words = list(launch.words[launch.words.index(_model(launch)) + 1 :])
    tensor = dialect(launch.engine).tensor
    if tensor in words:
        del words[words.index(tensor) : words.index(tensor) + 2]
    return words
