"""KServe: InferenceService, and LLMInferenceService with its prefill workers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from chunkcalc.engines.dialects import dialect
from chunkcalc.engines.words import Word
from chunkcalc.manifests.boxes import box_of, image_of
from chunkcalc.manifests.configs import Configs
from chunkcalc.manifests.drafts import SERVE, Draft, serving
from chunkcalc.manifests.fields import count, flags, listed, model_of, split
from chunkcalc.manifests.nodes import Node
from chunkcalc.manifests.process import Role
from chunkcalc.manifests.scope import Scope

VLLM = dialect("vllm")
KSERVE_OWN = {"model_name", "model_dir", "backend", "task", "disable_log_requests", "disable_log_stats"}


def inference_service(scope: Scope, configs: Configs) -> Iterator[Draft]:
    """KServe InferenceService: the runtime's container, then the service's own arguments."""
    node = scope.node
    if len(scope.chain) < 2 or scope.chain[-1][0] != "model" or node.get("modelFormat") is None:
        return
    own = listed(node.items("args"))
    models = tuple(model_of(node.get("storageUri") or node.get("storage", "uri")))
    runtime = _runtime_of(node.string("runtime"), configs)
    named = node.string("modelFormat", "name").lower()
    if runtime is not None:
        box = box_of(runtime, configs)
        image = image_of(node) or box.image
        yield Draft(box=replace(box, args=(*box.args, *own), image=image, container=node), model=models)
    elif named in ("huggingface", "vllm") and not any(re.fullmatch(r"--backend=(hf|huggingface)", w) for w in own):
        yield Draft(box=serving(_kserve_words(own), scope, configs, image_of(node)), model=models)


def _runtime_of(name: str, configs: Configs) -> Scope | None:
    """The first container of a ServingRuntime of the same file."""
    root = configs.runtimes.get(name)
    for container in root.items("spec", "containers") if root is not None else []:
        return Scope((("", root), ("spec", root.value["spec"]), ("containers", container)))  # type: ignore[union-attr,arg-type]
    return None


def _kserve_words(words: list[Word]) -> list[Word]:
    out: list[Word] = []
    for each in words:
        name, equals, value = each.partition("=")
        key = name.removeprefix("--").replace("-", "_")
        if key in KSERVE_OWN:
            continue
        if key == "model_id" and equals:
            out = [each.at(value), *out]
        else:
            out.append(each.at(VLLM.context + equals + value) if key == "max_length" else each)
    return out


def llm_inference_service(scope: Scope, configs: Configs) -> Iterator[Draft]:
    """KServe LLMInferenceService: presets run vLLM with VLLM_ADDITIONAL_ARGS, then the container's arguments."""
    root = scope.node
    if root.string("kind") not in ("LLMInferenceService", "LLMInferenceServiceConfig"):
        return
    spec = root.get("spec")
    if spec is None:
        return
    apart = spec.get("prefill") is not None
    for section, role in ((spec, "decode" if apart else "both"), (spec.get("prefill"), "prefill")):
        if section is not None:
            yield _llm_section(scope, spec, section, role, configs)  # type: ignore[arg-type]


def _llm_section(scope: Scope, spec: Node, section: Node, role: Role, configs: Configs) -> Draft:
    containers = section.items("template", "containers")
    main = next((node for node in containers if node.string("name") == "main"), containers[0] if containers else None)
    template = section.get("template")
    chain = [*scope.chain, ("spec", spec)] + ([("prefill", section)] if section is not spec else [])
    chain += [("template", template)] if template is not None else []
    inner = Scope((*chain, ("containers", main)) if main is not None else tuple(chain))
    parallel = {"tensor": VLLM.tensor, "pipeline": VLLM.pipeline, "data": VLLM.ranks, "expert": VLLM.experts}
    words = flags(section.get("parallelism"), parallel)
    nodes = 1
    if section.get("worker") is not None:
        data, local = count(section.get("parallelism", "data")), count(section.get("parallelism", "dataLocal"))
        nodes = data // local if data and local else count(section.get("parallelism", "pipeline")) or 1
    pod = inner.gpus()
    models = tuple(model_of(spec.get("model", "uri"), spec.get("model", "name")))
    box = box_of(inner, configs)
    if box.command is None:
        extra = _additional(main)
        args = (*words, *extra, *(box.args if main is not None else ()))
        place = Word("", inner.node.line, inner.node.pointer)
        box = replace(box, command=tuple(place.at(part) for part in SERVE), args=args)
    return Draft(box=box, scope=inner, model=models, gpus=pod * nodes if pod else None, role=role,
                 replicas=count(section.get("replicas")))  # fmt: skip


def _additional(container: Node | None) -> list[Word]:
    for entry in container.items("env") if container is not None else []:
        if entry.string("name") == "VLLM_ADDITIONAL_ARGS":
            return split(entry.get("value"))
    return []
