"""Helm values and resources of the vLLM production stack and of llm-d."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from chunkcalc.engines.dialects import dialect
from chunkcalc.engines.words import Word
from chunkcalc.manifests.boxes import box_of, image_of, words_of
from chunkcalc.manifests.configs import Configs
from chunkcalc.manifests.drafts import SERVE, Draft, serving
from chunkcalc.manifests.fields import count, flags, listed, model_of, word
from chunkcalc.manifests.nodes import Node
from chunkcalc.manifests.process import Role
from chunkcalc.manifests.scope import Scope

VLLM = dialect("vllm")
# The stack's names are those of the flags in camel case.
STACK = {re.sub("-([a-z])", lambda match: match[1].upper(), flag): f"--{flag}" for flag in VLLM.stack}


def model_spec(scope: Scope, configs: Configs) -> Iterator[Draft]:
    """vLLM production-stack Helm values."""
    node = scope.node
    if node.get("modelURL") is None or scope.chain[-1][0] != "modelSpec":
        return
    words = [w for w in [word(node.get("modelURL"))] if w is not None]
    words += flags(node.get("vllmConfig"), STACK) + listed(node.items("vllmConfig", "extraArgs"))
    repository, tag = node.string("repository"), node.string("tag")
    image = f"{repository}:{tag}" if tag else repository
    gpus = count(node.get("requestGPU"))
    ray = node.get("raySpec", "enabled")
    if gpus and ray is not None and ray.value is True:
        head = count(node.get("raySpec", "headNode", "requestGPU")) or 0
        gpus = head + gpus * (count(node.get("replicaCount")) or 1)
    slices = word(node.get("requestGPUType"))
    gpu = (slices,) if slices is not None and "mig-" in slices else ()
    served = tuple(model_of(node.get("modelURL")))
    transfer = {"kv_producer": "prefill", "kv_consumer": "decode"}.get(node.string("lmcacheConfig", "kvRole"))
    switch = node.get("enabled")
    off = switch is not None and switch.value is False
    yield Draft(box=serving(words, scope, configs, image), model=served, gpu=gpu, gpus=gpus, disabled=off,
                role=transfer)  # type: ignore[arg-type]  # fmt: skip


def vllm_runtime(scope: Scope, configs: Configs) -> Iterator[Draft]:
    """vLLM production-stack VLLMRuntime."""
    if scope.node.string("kind") != "VLLMRuntime" or (spec := scope.node.get("spec")) is None:
        return
    inner = Scope((*scope.chain, ("spec", spec)))
    words = [w for w in [word(spec.get("model", "modelURL"))] if w is not None]
    words += flags(spec.get("model"), STACK) + flags(spec.get("vllmConfig"), STACK)
    words += listed(spec.items("vllmConfig", "extraArgs"))
    deployment = spec.get("deploymentConfig")
    gpu = [] if deployment is None else Scope((("", deployment),)).gpu_names()
    image = image_of(deployment) if deployment is not None else ""
    gpus = count(spec.get("deploymentConfig", "resources", "gpu"))
    replicas = count(spec.get("deploymentConfig", "replicas"))
    yield Draft(box=serving(words, inner, configs, image), scope=inner, gpu=tuple(gpu), gpus=gpus, replicas=replicas)


def modelservice(scope: Scope, configs: Configs) -> Iterator[Draft]:
    """llm-d modelservice Helm values."""
    root = scope.node
    if root.get("modelArtifacts") is None or not (root.get("decode") or root.get("prefill")):
        return
    models = model_of(root.get("modelArtifacts", "uri"), root.get("modelArtifacts", "name"))
    for role in ("decode", "prefill"):
        section = root.get(role)
        if section is None:
            continue
        shared = _accelerator(section) + _accelerator(root)
        created = section.get("create")
        off = created is not None and created.value is False
        for container in section.items("containers"):
            inner = Scope((*scope.chain, (role, section), ("containers", container)))
            if container.get("modelCommand") is None and container.get("args") is None:
                continue
            both = root.get("prefill", "create")
            alone = root.get("prefill") is None or (both is not None and both.value is False)
            draft = _modelservice_container(inner, section, models, shared, "both" if alone else role, configs)
            yield replace(draft, disabled=off)


def _modelservice_container(
    inner: Scope, section: Node, models: list[Word], shared: list[Word], role: Role, configs: Configs
) -> Draft:
    container, place = inner.node, Word("", inner.node.line, inner.node.pointer)
    tensor, data = (count(section.get("parallelism", key)) or 1 for key in ("tensor", "data"))
    workers = count(section.get("parallelism", "workers")) or 1
    local = count(section.get("parallelism", "dataLocal")) or max(1, data // workers)
    data = max(data, local * workers)
    box = box_of(inner, configs)
    box = replace(box, variables={**box.variables, "TP_SIZE": str(tensor), "DP_SIZE": str(data),
                                  "DP_SIZE_LOCAL": str(local)})  # fmt: skip
    command = container.string("modelCommand") or "custom"
    if command != "custom":
        at = word(section.get("parallelism", "tensor")) or place
        given = [at.at(f"{VLLM.tensor}={tensor}")] if tensor > 1 else []
        at = word(section.get("parallelism", "data")) or word(section.get("parallelism", "dataLocal")) or place
        given += [at.at(f"{VLLM.ranks}={data}")] if data > 1 else []
        box = replace(box, command=tuple(place.at(part) for part in SERVE), args=(*models[:1], *given, *box.args))
    elif box.command is not None:
        box = replace(box, args=words_of(container.get("args"), box.variables), variables=box.variables)
    pod = inner.gpus() or local * tensor
    gpu = inner.gpu_names() + [w for node in section.mapping("extraConfig").values() for w in _selected(node)] + shared
    return Draft(box=box, scope=inner, model=tuple(models), gpu=tuple(gpu), gpus=pod * workers, role=role,
                 replicas=count(section.get("replicas")))  # fmt: skip


def _selected(node: Node) -> list[Word]:
    holder = Node({"nodeSelector": node}, node.line, node.pointer)
    return Scope((("", holder),)).gpu_names() if isinstance(node.value, dict) else []


def _accelerator(root: Node) -> list[Word]:
    values = root.items("acceleratorTypes", "labelValues")
    single = word(root.get("acceleratorTypes", "labelValue"))
    return [w for w in [single, *(word(value) for value in values)] if w is not None]
