"""Resources of operators that start engines: KubeAI, Kaito, Kthena, Ray Serve, NIM."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from chunkcalc.catalog.lookup import load_hardware
from chunkcalc.engines.dialects import dialect
from chunkcalc.engines.words import Word
from chunkcalc.errors import ChunkcalcError
from chunkcalc.manifests.configs import Configs
from chunkcalc.manifests.drafts import Draft, serving
from chunkcalc.manifests.fields import count, flags, listed, model_of, word
from chunkcalc.manifests.nodes import Node, documents
from chunkcalc.manifests.scope import Scope

VLLM = dialect("vllm")


def kubeai(scope: Scope, configs: Configs) -> Iterator[Draft]:
    """KubeAI Model, and entries of its chart's catalogue."""
    node, keys = scope.node, [key for key, _ in scope.chain]
    if node.string("kind") == "Model" and "kubeai" in node.string("apiVersion"):
        spec = node.get("spec")
        if spec is not None:
            yield from _kubeai_model(Scope((*scope.chain, ("spec", spec))), configs)
    elif len(keys) > 1 and keys[-2] == "catalog" and (node.get("resourceProfile") or node.get("url")):
        yield from _kubeai_model(scope, configs)


def _kubeai_model(scope: Scope, configs: Configs) -> Iterator[Draft]:
    node = scope.node
    profile = word(node.get("resourceProfile"))
    name, _, number = str(profile or "").partition(":")
    gpu = (profile.at(re.sub(r"^(nvidia-gpu|amd-gpu|google-tpu|nvidia|amd)-", "", name)),) if profile else ()
    gpus = int(number) if number.isdigit() and not name.startswith("cpu") else None
    switch = node.get("enabled")
    disabled = switch is not None and switch.value is False
    engine = node.string("engine").lower()
    url = node.get("url")
    if url is None:
        problem = "url, engine and args of this entry come from the chart's own values"
        yield Draft(box=None, scope=scope, gpu=gpu, gpus=gpus, disabled=disabled, problems=(problem,))
        return
    if engine not in ("vllm", "sglang", ""):
        return
    models = model_of(url)
    args = [*models[:1], *listed(node.items("args"))]
    box = serving(args, scope, configs, node.string("image"))
    if engine not in ("vllm", ""):
        place, own = Word("", node.line, node.pointer), dialect(engine)
        words = [place.at(own.model[0]), *models[:1]] if models else []
        start = tuple(place.at(part) for part in (own.programs[0], *own.serve))
        box = replace(box, command=start, args=(*words, *listed(node.items("args"))))
    yield Draft(box=box, scope=scope, model=tuple(models), gpu=gpu, gpus=gpus, disabled=disabled)


def kaito(scope: Scope, configs: Configs) -> Iterator[Draft]:
    """Kaito Workspace: a preset, and a ConfigMap with vLLM's flags."""
    node = scope.node
    if node.string("kind") not in ("Workspace", "InferenceSet") or "kaito" not in node.string("apiVersion"):
        return
    annotations = node.mapping("metadata", "annotations")
    runtime = annotations.get("kaito.sh/runtime")
    preset = node.get("inference", "preset", "name") or node.get("spec", "template", "inference", "preset", "name")
    if preset is None or (runtime is not None and runtime.text == "transformers"):
        return
    machine = word(node.get("resource", "instanceType") or node.get("spec", "template", "resource", "instanceType"))
    name = node.string("inference", "config")
    config = configs.maps.get(name, {}).get("inference_config.yaml")
    problems: tuple[str, ...] = ()
    words: list[Word] = []
    if config is not None:
        words = _nested_flags(config, "vllm")
    elif name:
        problems = (f"its ConfigMap {name} is not in this file",)
    model = word(preset)
    section = node.get("inference")
    inner = Scope((*scope.chain, ("inference", section))) if section is not None else scope
    named = (model,) if model is not None else ()
    devices = _devices(machine)
    nodes = count(node.get("resource", "count")) or 1
    if machine is not None and devices and devices * nodes > 1:  # Kaito spreads a model over all it asked for
        words = [machine.at(f"{VLLM.tensor}={devices}")] * (devices > 1) + words
        words = [machine.at(f"{VLLM.pipeline}={nodes}")] * (nodes > 1) + words
    gpu = (machine,) if machine is not None else ()
    box = serving([*named, *words], inner, configs)
    gpus = devices * nodes if devices else None
    yield Draft(box=box, scope=inner, model=named, gpu=gpu, gpus=gpus, problems=problems)


def _devices(machine: Word | None) -> int | None:
    """GPUs of a machine type; None where it is not known."""
    try:
        return load_hardware(str(machine)).devices if machine is not None else None
    except ChunkcalcError:
        return None


def model_booster(scope: Scope, configs: Configs) -> Iterator[Draft]:
    """Kthena ModelBooster: workers with vLLM's options as a map."""
    node = scope.node
    if node.string("kind") != "ModelBooster" or (backend := node.get("spec", "backend")) is None:
        return
    models = model_of(backend.get("modelURI"))
    for worker in backend.items("workers"):
        inner = Scope((*scope.chain, ("spec", node.value["spec"]), ("backend", backend), ("workers", worker)))
        role = worker.string("type")
        engine = backend.string("type").lower()
        own = dialect(engine) if engine in ("sglang", "vllm") else VLLM
        place = Word("", worker.line, worker.pointer)
        named = [*(models[0].at(flag) for flag in own.model[:1] if own is not VLLM), *models[:1]] if models else []
        words = [*named, *flags(worker.get("config"), empty=True)]
        pod, pods = inner.gpus(), count(worker.get("pods")) or 1
        start = tuple(place.at(part) for part in (own.programs[0], *own.serve))
        yield Draft(
            box=replace(serving(words, inner, configs, worker.string("image")), command=start),
            scope=inner,
            model=tuple(models),
            gpus=pod * pods if pod else None,
            replicas=count(worker.get("replicas") or backend.get("minReplicas")),
            role="prefill" if role == "prefill" else "decode" if role == "decode" else "both",
        )


def _nested_flags(node: Node, key: str) -> list[Word]:
    """Flags of a section of the YAML inside a scalar, with their lines in the file."""
    roots, problem = documents(node.text)
    if problem is not None or not roots or roots[0].get(key) is None:
        return []
    above = (node.marks[0][1] if node.marks else node.line) - 1
    found = roots[0].get(key)
    assert found is not None
    return [Word(w, w.line + above, node.pointer) for w in flags(found)]


def ray_serve(scope: Scope, configs: Configs) -> Iterator[Draft]:
    """Ray Serve LLM: a mapping with model_loading_config and engine_kwargs."""
    node = scope.node
    for entry in node.items("llm_configs"):
        if entry.text:
            what = f"its configuration stands in {entry.text}, which is not in this input"
            holder = Scope((*scope.chain, ("llm_configs", Node({}, entry.line, entry.pointer))))
            yield Draft(box=None, scope=holder, problems=(what,))
    loading = node.get("model_loading_config")
    if loading is None:
        legacy = node.get("engine_config", "engine_kwargs")
        if legacy is None or node.get("engine_config", "model_id") is None:
            return
    source = (loading and (loading.get("model_source") or loading.get("model_id"))) or node.get(
        "engine_config", "model_id"
    )
    kwargs = node.get("engine_kwargs") or node.get("engine_config", "engine_kwargs")
    name = word(source)
    words = [w for w in [name] if w is not None] + flags(kwargs)
    gpu = word(node.get("accelerator_type"))
    bundles = node.items("placement_group_config", "bundles")
    gpus = sum(count(bundle.get("GPU")) or 0 for bundle in bundles) or None
    replicas = count(node.get("deployment_config", "num_replicas"))
    box = replace(serving(words, scope, configs), keywords=True)
    yield Draft(box=box, model=(name,) if name else (), gpu=(gpu,) if gpu else (), gpus=gpus, replicas=replicas)


def nim_service(scope: Scope, configs: Configs) -> Iterator[Draft]:
    """NVIDIA NIM: the image chooses engine and flags."""
    if scope.node.string("kind") == "NIMService" and (spec := scope.node.get("spec")) is not None:
        inner = Scope((*scope.chain, ("spec", spec)))
        problem = "a NIM image chooses engine, flags and model profile itself: state them in chunkcalc.toml"
        yield Draft(box=None, scope=inner, gpu=tuple(inner.gpu_names()), gpus=inner.gpus(), problems=(problem,))
