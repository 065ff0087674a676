"""Custom resources and Helm values that set an engine up by fields of their own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from chunkcalc.catalog import load_hardware
from chunkcalc.engines.words import Word
from chunkcalc.errors import ChunkcalcError
from chunkcalc.manifests.configs import Configs
from chunkcalc.manifests.containers import Box, box_of, image_of, words_of
from chunkcalc.manifests.fields import count, flags, listed, model_of, split, word
from chunkcalc.manifests.nodes import Node, documents
from chunkcalc.manifests.process import Role
from chunkcalc.manifests.scope import Scope

SERVE = ("vllm", "serve")
STACK = {
    "maxModelLen": "--max-model-len", "dtype": "--dtype", "tensorParallelSize": "--tensor-parallel-size",
    "maxNumSeqs": "--max-num-seqs", "gpuMemoryUtilization": "--gpu-memory-utilization",
    "pipelineParallelSize": "--pipeline-parallel-size", "enableChunkedPrefill": "--enable-chunked-prefill",
    "enablePrefixCaching": "--enable-prefix-caching",
}  # fmt: skip
KSERVE_OWN = {"model_name", "model_dir", "backend", "task", "disable_log_requests", "disable_log_stats"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """An engine that fields describe.

    box : what runs; None where it cannot be known
    scope : what holds it; None for the value that was read
    model, gpu : names for both, likeliest first
    gpus : of a replica
    role : where the fields say it; None where names and labels tell
    disabled : switched off
    problems : what is not known
    """

    box: Box | None
    scope: Scope | None = None
    model: tuple[Word, ...] = ()
    gpu: tuple[Word, ...] = ()
    gpus: int | None = None
    role: Role | None = None
    replicas: int | None = None
    disabled: bool = False
    problems: tuple[str, ...] = ()


def drafts(scope: Scope, configs: Configs) -> Iterator[Draft]:
    """What a value sets up, if it is of a kind that is known; its containers are then not looked at again.

    Parameters
    ----------
    scope : the value
    configs : of its file
    """
    for read in (_kserve, _llm_inference, _model_spec, _runtime, _modelservice, _kubeai, _kaito, _booster, _ray, _nim):
        yield from read(scope, configs)


def _serving(words: list[Word], scope: Scope, configs: Configs, image: str = "") -> Box:
    """A box that runs `vllm serve` with these words."""
    line = words[0] if words else Word("", scope.node.line, scope.node.pointer)
    return Box(tuple(line.at(part) for part in SERVE), tuple(words), image, {}, configs, scope.node)


def _kserve(scope: Scope, configs: Configs) -> Iterator[Draft]:
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
        yield Draft(box=_serving(_kserve_words(own), scope, configs, image_of(node)), model=models)


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
            out.append(each.at("--max-model-len" + equals + value) if key == "max_length" else each)
    return out


def _llm_inference(scope: Scope, configs: Configs) -> Iterator[Draft]:
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
    parallel = {"tensor": "--tensor-parallel-size", "pipeline": "--pipeline-parallel-size",
                "data": "--data-parallel-size", "expert": "--enable-expert-parallel"}  # fmt: skip
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


def _model_spec(scope: Scope, configs: Configs) -> Iterator[Draft]:
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
    yield Draft(box=_serving(words, scope, configs, image), model=served, gpu=gpu, gpus=gpus,
                role=transfer)  # type: ignore[arg-type]  # fmt: skip


def _runtime(scope: Scope, configs: Configs) -> Iterator[Draft]:
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
    yield Draft(box=_serving(words, inner, configs, image), scope=inner, gpu=tuple(gpu), gpus=gpus, replicas=replicas)


def _modelservice(scope: Scope, configs: Configs) -> Iterator[Draft]:
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
        given = [at.at(f"--tensor-parallel-size={tensor}")] if tensor > 1 else []
        at = word(section.get("parallelism", "data")) or word(section.get("parallelism", "dataLocal")) or place
        given += [at.at(f"--data-parallel-size={data}")] if data > 1 else []
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


def _kubeai(scope: Scope, configs: Configs) -> Iterator[Draft]:
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
    box = _serving(args, scope, configs, node.string("image"))
    if engine == "sglang":
        place = Word("", node.line, node.pointer)
        words = [place.at("--model-path"), *models[:1]] if models else []
        box = replace(box, command=(place.at("sglang"), place.at("serve")), args=(*words, *listed(node.items("args"))))
    yield Draft(box=box, scope=scope, model=tuple(models), gpu=gpu, gpus=gpus, disabled=disabled)


def _kaito(scope: Scope, configs: Configs) -> Iterator[Draft]:
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
        words = [machine.at(f"--tensor-parallel-size={devices}")] * (devices > 1) + words
        words = [machine.at(f"--pipeline-parallel-size={nodes}")] * (nodes > 1) + words
    gpu = (machine,) if machine is not None else ()
    box = _serving([*named, *words], inner, configs)
    gpus = devices * nodes if devices else None
    yield Draft(box=box, scope=inner, model=named, gpu=gpu, gpus=gpus, problems=problems)


def _devices(machine: Word | None) -> int | None:
    """GPUs of a machine type; None where it is not known."""
    try:
        return load_hardware(str(machine)).devices if machine is not None else None
    except ChunkcalcError:
        return None


def _booster(scope: Scope, configs: Configs) -> Iterator[Draft]:
    """Kthena ModelBooster: workers with vLLM's options as a map."""
    node = scope.node
    if node.string("kind") != "ModelBooster" or (backend := node.get("spec", "backend")) is None:
        return
    models = model_of(backend.get("modelURI"))
    for worker in backend.items("workers"):
        inner = Scope((*scope.chain, ("spec", node.value["spec"]), ("backend", backend), ("workers", worker)))
        role = worker.string("type")
        words = [*models[:1], *flags(worker.get("config"))]
        pod, pods = inner.gpus(), count(worker.get("pods")) or 1
        yield Draft(
            box=_serving(words, inner, configs, worker.string("image")), scope=inner, model=tuple(models),
            gpus=pod * pods if pod else None, replicas=count(worker.get("replicas") or backend.get("minReplicas")),
            role="prefill" if role == "prefill" else "decode" if role == "decode" else "both",
        )  # fmt: skip


def _nested_flags(node: Node, key: str) -> list[Word]:
    """Flags of a section of the YAML inside a scalar, with their lines in the file."""
    roots, problem = documents(node.text)
    if problem is not None or not roots or roots[0].get(key) is None:
        return []
    above = (node.marks[0][1] if node.marks else node.line) - 1
    found = roots[0].get(key)
    assert found is not None
    return [Word(w, w.line + above, node.pointer) for w in flags(found)]


def _ray(scope: Scope, configs: Configs) -> Iterator[Draft]:
    """Ray Serve LLM: a mapping with model_loading_config and engine_kwargs."""
    node = scope.node
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
    yield Draft(box=_serving(words, scope, configs), model=(name,) if name else (), gpu=(gpu,) if gpu else (),
                gpus=gpus, replicas=replicas)  # fmt: skip


def _nim(scope: Scope, configs: Configs) -> Iterator[Draft]:
    """NVIDIA NIM: the image chooses engine and flags."""
    if scope.node.string("kind") == "NIMService" and (spec := scope.node.get("spec")) is not None:
        inner = Scope((*scope.chain, ("spec", spec)))
        problem = "a NIM image chooses engine, flags and model profile itself: state them in chunkcalc.toml"
        yield Draft(box=None, scope=inner, gpu=tuple(inner.gpu_names()), gpus=inner.gpus(), problems=(problem,))
