"""What is asked: one deployment, one workload, two latency limits; checked and resolved."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Literal

from chunkcalc.capacity import sequence_bytes
from chunkcalc.catalog import load_hardware, load_model, with_link
from chunkcalc.engines import ENGINES, engine_for
from chunkcalc.errors import ChunkcalcError
from chunkcalc.precision import check_arithmetic, precision_for
from chunkcalc.records import Deployment, Gqa, Hardware, Model, Moe, Parallelism, Slo, Workload

DEFAULT_OUTPUT = 512
DEFAULT_ACCEPTANCE = 0.7  # assumed when drafts are given without a measured acceptance


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Everything a user can say, in SI units; None where it was left out.

    model, gpu : name, path, or record
    prompt, output, context : tokens; context is the mean of a decoding request [token]
    batch : requests decoding at once on the replica; None asks for the largest that fits [token]
    ttft, tpot, itl : limits [s]
    tpot_basis : what `tpot` judges: every `step` or the `mean` of a request
    tp, pp, ep, attention_dp : degrees of parallelism [1]
    weights, kv : formats
    draft_tokens, draft_acceptance : speculative decoding [token], [1]
    prefix_hit : share of the prompt in the prefix cache [1]
    engine : `vllm`, `sglang` or `trtllm`
    mixed_chunk : SGLang only: mix decodes into prompt chunks
    chunk, budget : judge this one instead of searching [token]
    link, link_latency : bandwidth one way per GPU [byte/s] and latency [s] instead of the profile's
    memory_fraction : instead of the engine's default [1]
    max_utilisation : highest utilisation of the capacity for prompts [1]
    """

    model: str | Model
    gpu: str | Hardware
    prompt: int
    output: int | None = None
    context: int | None = None
    batch: int | None = None
    ttft: float | None = None
    tpot: float | None = None
    itl: float | None = None
    tpot_basis: Literal["step", "mean"] | None = None
    tp: int = 1
    pp: int = 1
    ep: int = 1
    attention_dp: int = 1
    weights: str | None = None
    kv: str | None = None
    draft_tokens: int = 0
    draft_acceptance: float | None = None
    prefix_hit: float = 0.0
    engine: str = "vllm"
    mixed_chunk: bool = False
    chunk: int | None = None
    budget: int | None = None
    link: float | None = None
    link_latency: float | None = None
    memory_fraction: float | None = None
    max_utilisation: float = 0.85


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A question with every name resolved and every default filled in.

    workload : its batch is 0 as long as it is not decided
    batch : what the question says of the batch
    chunk : the chunk to judge; None to search
    origins : where each input came from
    notes : what the user should know about the inputs
    """

    question: Question
    deployment: Deployment
    workload: Workload
    slo: Slo
    batch: int | None
    chunk: int | None
    origins: Mapping[str, str]
    notes: tuple[str, ...]


_OPTIONS = {"attention_dp": "--attention-dp"}
_AT_LEAST_ONE = ("prompt", "output", "context", "batch", "tp", "pp", "ep", "attention_dp", "chunk", "budget")
_POSITIVE = ("ttft", "tpot", "itl", "link", "link_latency")
_SHARES = ("prefix_hit", "draft_acceptance", "memory_fraction", "max_utilisation")
LARGEST_COUNT = 10**9


def option(field: str) -> str:
    """The command line's name of a field.

    Parameters
    ----------
    field : the field
    """
    return "--" + field.replace("_", "-")


def resolve(question: Question) -> Case:
    """Check a question and look its names up.

    Parameters
    ----------
    question : as asked

    Returns
    -------
    the case

    Raises
    ------
    ChunkcalcError : an unknown name, a value out of range, a contradiction
    """
    _check_ranges(question)
    model, model_from = _record(question.model, Model)
    hardware, gpu_from = _record(question.gpu, Hardware)
    if question.link is not None:
        hardware = with_link(hardware, question.link, question.link_latency)
    elif question.link_latency is not None:
        raise ChunkcalcError("a latency needs a bandwidth", "--link", "write for example 16GB/s,20us")
    precision = precision_for(model, question.weights, question.kv)
    check_arithmetic(precision, hardware)
    parallelism = Parallelism(tp=question.tp, pp=question.pp, ep=question.ep, dp=question.attention_dp)
    _check_parallelism(parallelism, model, hardware)
    deployment = Deployment(
        model=model, hardware=hardware, parallelism=parallelism, precision=precision,
        engine=_engine(question, hardware),
    )  # fmt: skip
    output = DEFAULT_OUTPUT if question.output is None else question.output
    workload = Workload(
        prompt=question.prompt, output=output, batch=question.batch or 0,
        context=question.context or question.prompt + output // 2, prefix_hit=question.prefix_hit,
        draft_tokens=question.draft_tokens,
        draft_acceptance=DEFAULT_ACCEPTANCE if question.draft_acceptance is None else question.draft_acceptance,
    )  # fmt: skip
    _check_lengths(question, model, output)
    mixed = deployment.engine.composition == "mixed"
    slo = Slo(
        ttft=question.ttft, tpot=question.tpot, itl=question.itl, max_utilisation=question.max_utilisation,
        tpot_basis=question.tpot_basis or ("step" if mixed else "mean"),
    )  # fmt: skip
    if output == 1 and (question.batch or question.tpot or question.itl):
        raise ChunkcalcError(
            "an answer of one token has nothing to decode", "--output", "leave out --batch, --tpot and --itl, or raise --output"
        )
    return Case(
        question=question, deployment=deployment, workload=workload, slo=slo,
        batch=0 if output == 1 else question.batch, chunk=question.chunk,
        origins={"model": model_from, "gpu": gpu_from, **_origins(question, deployment)},
        notes=tuple(_notes(question, deployment, workload)),
    )  # fmt: skip


def chunk_of(case: Case, batch: int) -> int | None:
    """The chunk to judge once the batch is known; None to search for one.

    Parameters
    ----------
    case : the case
    batch : decoding requests of the replica [token]

    Raises
    ------
    ChunkcalcError : the budget leaves no room for prompt tokens beside the decodes
    """
    if case.question.budget is None:
        return case.chunk
    chunk = case.question.budget - decode_tokens(case.deployment, case.workload, batch)
    if chunk < 1:
        raise ChunkcalcError(
            f"a budget of {case.question.budget} leaves no prompt tokens beside the decodes of a batch of {batch}",
            "--budget", "raise the budget or lower --batch",
        )  # fmt: skip
    return chunk


def decode_tokens(deployment: Deployment, workload: Workload, batch: int) -> int:
    """What the decodes of a step take out of the engine's budget, on one rank.

    Parameters
    ----------
    deployment : the replica
    workload : drafts per decode
    batch : decoding requests of the replica [token]

    Returns
    -------
    tokens [token]
    """
    if not deployment.engine.budget_counts_decodes:
        return 0
    ranks = deployment.parallelism.dp * deployment.parallelism.pp
    return math.ceil(batch / ranks) * (1 + workload.draft_tokens)


def _record(value: str | Model | Hardware, kind: type) -> tuple[object, str]:
    if isinstance(value, kind):
        return value, "record"
    assert isinstance(value, str)
    found = load_model(value) if kind is Model else load_hardware(value)
    return found.record, found.how


def _engine(question: Question, hardware: Hardware):  # type: ignore[no-untyped-def]
    if question.engine not in ENGINES:
        raise ChunkcalcError(f"unknown engine '{question.engine}'", "--engine", f"choose from {', '.join(ENGINES)}")
    engine = engine_for(question.engine, hardware)
    if question.mixed_chunk:
        if engine.name != "sglang":
            raise ChunkcalcError(f"{engine.name} always mixes", "--enable-mixed-chunk", "use it with --engine sglang")
        engine = replace(engine, composition="mixed", budget_counts_decodes=True)
    if question.memory_fraction is not None:
        engine = replace(engine, memory_fraction=question.memory_fraction)
    return engine


def _check_ranges(question: Question) -> None:
    for field in fields(question):
        value = getattr(question, field.name)
        if value is None or isinstance(value, (str, Model, Hardware, bool)):
            continue
        name = option(field.name)
        if not math.isfinite(value):
            raise ChunkcalcError(f"{value} is not a number", name, "give a finite number")
        if field.name in _AT_LEAST_ONE:
            if value != int(value) or value < 1:
                raise ChunkcalcError(f"{value:g} must be a whole number of at least 1", name, "correct the value")
            if value > LARGEST_COUNT:
                raise ChunkcalcError(f"{value:g} is beyond any deployment", name, "correct the value")
        elif field.name in _POSITIVE and value <= 0:
            raise ChunkcalcError(f"{value:g} must be above zero", name, "correct the value")
        elif field.name in _SHARES and not 0 <= value <= 1:
            raise ChunkcalcError(f"{value:g} must lie between 0 and 1", name, "give a fraction such as 0.9")
        elif field.name == "draft_tokens" and not (0 <= value <= 64 and value == int(value)):
            raise ChunkcalcError(f"{value:g} must be a whole number from 0 to 64", name, "correct the value")
    if question.chunk is not None and question.budget is not None:
        raise ChunkcalcError("a chunk and a budget contradict each other", "--budget", "give one of --chunk and --budget")
    if question.draft_acceptance is not None and not question.draft_tokens:
        raise ChunkcalcError("an acceptance needs drafts", "--draft-acceptance", "add --draft-tokens")
    if question.prefix_hit == 1:
        raise ChunkcalcError("a prompt is never cached whole", "--prefix-hit", "the last token is always computed: give less than 1")
    for name in ("memory_fraction", "max_utilisation"):
        if getattr(question, name) == 0:
            raise ChunkcalcError("0 leaves nothing to use", option(name), "give a fraction such as 0.9")


def _check_lengths(question: Question, model: Model, output: int) -> None:
    total = question.prompt + output
    if total > model.max_position:
        raise ChunkcalcError(
            f"prompt and output need {total} positions, {model.id} has {model.max_position}",
            "--prompt", "shorten the request or choose a model with a longer context",
        )  # fmt: skip
    if question.context is not None and question.context > total:
        raise ChunkcalcError(
            f"a mean context of {question.context} is longer than prompt and output together ({total})",
            "--context", "leave it out for prompt + output / 2",
        )  # fmt: skip


def _check_parallelism(parallelism: Parallelism, model: Model, hardware: Hardware) -> None:
    tp, pp, ep = parallelism.tp, parallelism.pp, parallelism.ep
    node = max(hardware.link.gpus_per_node, hardware.link.domain)
    if parallelism.stage_gpus > node:
        raise ChunkcalcError(
            f"{parallelism.stage_gpus} GPUs per layer are more than one {hardware.id} node has ({node})",
            "--tp" if parallelism.dp == 1 else "--attention-dp", f"stay within {node}, and use --pp across nodes",
        )  # fmt: skip
    for group in model.layers:
        attention = group.attention
        if attention.heads % tp:
            raise ChunkcalcError(
                f"tp {tp} does not divide the {attention.heads} attention heads of {model.id}",
                "--tp", f"choose from {', '.join(str(n) for n in range(1, node + 1) if attention.heads % n == 0)}",
            )  # fmt: skip
        if isinstance(attention, Gqa) and attention.kv_heads % tp and tp % attention.kv_heads:
            raise ChunkcalcError(
                f"tp {tp} neither divides nor is a multiple of the {attention.kv_heads} KV heads of {model.id}",
                "--tp", "choose a power of two",
            )  # fmt: skip
        if ep > 1 and isinstance(group.ffn, Moe) and group.ffn.experts % ep:
            raise ChunkcalcError(f"ep {ep} does not divide {group.ffn.experts} experts", "--ep", "choose a divisor")
    if pp > model.layer_count:
        raise ChunkcalcError(f"pp {pp} exceeds the {model.layer_count} layers of {model.id}", "--pp", "lower it")
    if ep > 1 and not any(isinstance(group.ffn, Moe) for group in model.layers):
        raise ChunkcalcError(f"{model.id} has no experts to spread", "--ep", "leave it out")
    if parallelism.stage_gpus % ep:
        raise ChunkcalcError(f"ep {ep} does not divide the {parallelism.stage_gpus} GPUs of a stage", "--ep", "choose a divisor")


def _origins(question: Question, deployment: Deployment) -> dict[str, str]:
    given = {field.name for field in fields(question) if getattr(question, field.name) not in (None, field.default)}
    out = {name: "given" for name in given if name not in ("model", "gpu")}
    out.setdefault("output", "assumed")
    out.setdefault("context", "prompt + output / 2")
    out.setdefault("batch", "largest that memory, balance and the limits allow")
    out.setdefault("weights", "as the checkpoint ships")
    out.setdefault("kv", "default")
    out.setdefault("memory_fraction", f"default of {deployment.engine.name} {deployment.engine.version}")
    out.setdefault("draft_acceptance", "assumed" if question.draft_tokens else "unused")
    return out


def _notes(question: Question, deployment: Deployment, workload: Workload) -> list[str]:
    out = []
    for what, value in (("model", question.model), ("GPU", question.gpu)):
        record = deployment.model if what == "model" else deployment.hardware
        if isinstance(value, str) and not value.endswith(".toml") and value.strip().lower() != record.id:
            out.append(f"{what} '{value}' taken as {record.id} ({record.name})")
    if question.output is None:
        out.append(f"output of {workload.output} tokens assumed (--output)")
    if question.draft_tokens and question.draft_acceptance is None:
        out.append(f"draft acceptance of {workload.draft_acceptance:g} assumed (--draft-acceptance)")
    if sequence_bytes(deployment, workload.context) == 0:
        out.append("this model keeps no KV cache")
    return out
