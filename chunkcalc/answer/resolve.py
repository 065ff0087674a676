"""A question made concrete: names looked up, defaults filled in, contradictions refused."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from chunkcalc.answer.measured import WHERE
from chunkcalc.answer.question import USUAL_PERCENTILE, Question, check
from chunkcalc.answer.taught import Taught, teach
from chunkcalc.catalog.lookup import load_hardware, load_model, with_link
from chunkcalc.catalog.precision import check_arithmetic, precision_for
from chunkcalc.engines import engine_for
from chunkcalc.engines.capacity import decode_tokens
from chunkcalc.engines.dialects import INTERVAL, MIXING, dialect
from chunkcalc.engines.tables import table
from chunkcalc.errors import ChunkcalcError, NotModelledError
from chunkcalc.frozen import dataclass
from chunkcalc.records import Deployment, Engine, Hardware, Model, Moe, Parallelism, Slo, Workload
from chunkcalc.time.service import accepted_tokens
from chunkcalc.work import attention

DEFAULT_OUTPUT = 512
DEFAULT_ACCEPTANCE = 0.7  # assumed when drafts are given without a measured acceptance


# Where an error is about one GPU: among several, that GPU is left out.
OF_A_GPU = frozenset(("--gpu", "--tp", "--weights", "--ep"))


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

    @property
    def percentile(self) -> float | None:
        """Of the time to first token that its limit judges under traffic; None for the mean."""
        asked = self.question.percentile
        return USUAL_PERCENTILE if asked is None else asked or None

    @property
    def loaded(self) -> bool:
        """Whether traffic is given, a rate or users, instead of a batch."""
        return self.question.rate is not None or self.question.concurrency is not None


def resolve(question: Question) -> Case:
    """Check a question and look its names up.

    Returns
    -------
    the case

    Raises
    ------
    ChunkcalcError : an unknown name, a value out of range, a contradiction
    """
    check(question)
    model, model_from = _model(question.model)
    hardware, gpu_from, devices = _hardware(question.gpu)
    if question.link is not None:
        hardware = with_link(hardware, question.link, question.link_latency)
    precision = precision_for(model, question.weights, question.kv)
    check_arithmetic(precision, hardware)
    parallelism = Parallelism(tp=question.tp, pp=question.pp, ep=question.ep, dp=question.attention_dp)
    _check_parallelism(parallelism, model, hardware, question.engine)
    deployment = Deployment(
        model=model, hardware=hardware, parallelism=parallelism, precision=precision,
        engine=_engine(question, hardware, parallelism),
    )  # fmt: skip
    output = DEFAULT_OUTPUT if question.output is None else question.output
    workload = Workload(
        prompt=question.prompt, output=output, batch=question.batch or 0,
        context=question.context or question.prompt + output // 2, prefix_hit=question.prefix_hit,
        prefix_shared=question.prefix_shared,
        draft_tokens=question.draft_tokens,
        draft_acceptance=DEFAULT_ACCEPTANCE if question.draft_acceptance is None else question.draft_acceptance,
    )  # fmt: skip
    _check_lengths(question, model, output)
    if question.taught is None and question.measured:
        question = replace(question, taught=_taught(question, deployment, workload))
    if question.taught is not None:
        deployment = question.taught.applied(deployment)
    slo = _limits(question, workload)
    if output == 1 and (question.batch or question.tpot or question.itl):
        raise ChunkcalcError(
            "an answer of one token has nothing to decode",
            "--output",
            "leave out --batch, --tpot and --itl, or raise --output",
        )
    origins = {"model": model_from, "gpu": gpu_from, **_origins(question, deployment)}
    return Case(
        question=question, deployment=deployment, workload=workload, slo=slo,
        batch=0 if output == 1 else question.batch, chunk=question.chunk,
        origins=origins,
        notes=tuple(_notes(question, deployment, workload, origins, devices)),
    )  # fmt: skip


_TAUGHT: dict[Any, Taught] = {}  # the same numbers of the same deployment teach the same
MOST_TAUGHT = 64


def _taught(question: Question, deployment: Deployment, workload: Workload) -> Taught:
    """What the numbers of a question teach, on the layout that they were measured on."""
    degrees = {each.given("tp") or question.tp for each in question.measured}
    if len(degrees) > 1:
        raise ChunkcalcError("the numbers are of several tensor parallel degrees", WHERE, "give those of one")
    tp = degrees.pop()
    if tp != question.tp:
        other = resolve(replace(question, tp=tp, measured=()))
        deployment, workload = other.deployment, other.workload
    # With chunks of its own the budget follows from the batch: the chunk is what was measured.
    key = (id(deployment.model), id(deployment.hardware), deployment.parallelism, deployment.precision,
           deployment.engine, workload, question.measured, question.budget)  # fmt: skip
    found = _TAUGHT.get(key)
    if found is None:
        found = teach(deployment, workload, question.measured, question.budget)
        while len(_TAUGHT) >= MOST_TAUGHT:
            del _TAUGHT[next(iter(_TAUGHT))]
        _TAUGHT[key] = found  # it keeps the records, and with them their ids
    return found


def _limits(question: Question, workload: Workload) -> Slo:
    """The limits; that of the gap follows from TPOT's: with drafts a message carries several tokens."""
    itl = question.itl
    if itl is None and question.tpot is not None and question.tpot_basis != "mean":
        itl = question.tpot * accepted_tokens(workload.draft_tokens, workload.draft_acceptance)
    return Slo(
        ttft=question.ttft, tpot=question.tpot, itl=None if itl == math.inf else itl,
        itl_given=question.itl is not None, max_utilisation=question.max_utilisation,
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


def _model(value: str | Model) -> tuple[Model, str]:
    if isinstance(value, Model):
        return value, "record"
    found = load_model(value)
    return found.record, found.how


def _hardware(value: str | Hardware) -> tuple[Hardware, str, int | None]:
    if isinstance(value, Hardware):
        return value, "record", None
    found = load_hardware(value)
    return found.record, found.how, found.devices


def _engine(question: Question, hardware: Hardware, parallelism: Parallelism) -> Engine:
    engine = engine_for(question.engine, hardware, question.engine_version, parallelism)
    if question.mixed_chunk:
        if not dialect(engine.name).mixing:
            does = "always" if engine.composition == "mixed" else "never"
            raise ChunkcalcError(f"{engine.name} {does} mixes", MIXING, "use it with --engine sglang")
        engine = replace(engine, composition="mixed", budget_counts_decodes=True)
    if question.prefill_interval:
        if dialect(engine.name).interval.lstrip("-") not in table(engine.name, engine.version).options():
            problem = f"{engine.name} has no such interval at {engine.version}"
            raise ChunkcalcError(problem, INTERVAL, "use it with a newer --engine sglang")
        engine = replace(engine, prefill_interval=question.prefill_interval)
    if question.memory_fraction is not None:
        engine = replace(engine, memory_fraction=question.memory_fraction)
    if question.gateway is not None:
        each = engine.overheads
        each = each._replace(gateway=question.gateway.step, request=each.request + question.gateway.request)
        engine = replace(engine, overheads=each)
    return engine


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


def _check_parallelism(parallelism: Parallelism, model: Model, hardware: Hardware, engine: str) -> None:
    tp, pp, ep = parallelism.tp, parallelism.pp, parallelism.ep
    node = max(hardware.link.gpus_per_node, hardware.link.domain)
    if parallelism.stage_gpus > node:
        raise NotModelledError(
            f"{parallelism.stage_gpus} GPUs per layer are more than one {hardware.id} node has ({node})",
            "--tp" if parallelism.dp == 1 else "--attention-dp", f"stay within {node}, and use --pp across nodes",
        )  # fmt: skip
    for group in model.layers:
        heads, kv_heads = attention.heads(group.attention), attention.kv_heads(group.attention)
        if heads % tp:
            raise ChunkcalcError(
                f"tp {tp} does not divide the {heads} attention heads of {model.id}",
                "--tp", f"choose from {', '.join(str(n) for n in range(1, node + 1) if heads % n == 0)}",
            )  # fmt: skip
        if kv_heads and kv_heads % tp and tp % kv_heads:
            raise ChunkcalcError(
                f"tp {tp} neither divides nor is a multiple of the {kv_heads} KV heads of {model.id}",
                "--tp", "choose a power of two",
            )  # fmt: skip
        if ep > 1 and isinstance(group.ffn, Moe) and group.ffn.experts % ep:
            raise ChunkcalcError(f"ep {ep} does not divide {group.ffn.experts} experts", "--ep", "choose a divisor")
    if pp > model.layer_count:
        raise ChunkcalcError(f"pp {pp} exceeds the {model.layer_count} layers of {model.id}", "--pp", "lower it")
    if ep > 1 and not any(isinstance(group.ffn, Moe) for group in model.layers):
        raise ChunkcalcError(f"{model.id} has no experts to spread", "--ep", "leave it out")
    if dialect(engine).experts_everywhere and ep not in (1, parallelism.stage_gpus):
        hint = f"give 1 or {parallelism.stage_gpus}"
        raise ChunkcalcError(f"{dialect(engine).title} spreads experts over all GPUs of a stage or none", "--ep", hint)
    if parallelism.stage_gpus % ep:
        raise ChunkcalcError(
            f"ep {ep} does not divide the {parallelism.stage_gpus} GPUs of a stage",
            "--ep",
            "choose a divisor",
        )


def _origins(question: Question, deployment: Deployment) -> dict[str, str]:
    given = {field.name for field in fields(question) if getattr(question, field.name) not in (None, field.default)}
    given.discard("taught")
    out = {name: "given" for name in given if name not in ("model", "gpu")}
    out.setdefault("output", "assumed")
    out.setdefault("context", "prompt + output / 2")
    out.setdefault("batch", "largest that memory, balance and the limits allow")
    out.setdefault("weights", "as the checkpoint ships")
    out.setdefault("kv", "default")
    out.setdefault("memory_fraction", f"default of {deployment.engine.name} {deployment.engine.version}")
    out.setdefault("draft_acceptance", "assumed" if question.draft_tokens else "unused")
    return out


def _notes(
    question: Question, deployment: Deployment, workload: Workload, origins: Mapping[str, str], devices: int | None
) -> list[str]:
    out = []
    for what, value, key in (("model", question.model, "model"), ("GPU", question.gpu, "gpu")):
        record = deployment.model if key == "model" else deployment.hardware
        if isinstance(value, str) and " -> " in origins[key]:
            likeness = ": by likeness of the label, check it" if "likeness" in origins[key] else ""
            out.append(f"{what} '{value}' taken as {record.id} ({record.name}){likeness}")
    found = table(deployment.engine.name, deployment.engine.version)
    if found.read != found.version:
        out.append(f"{found.engine} {found.version} taken as {found.read}, the nearest version that was read")
    if devices is not None and devices != deployment.parallelism.gpus:
        out.append(f"'{question.gpu}' has {devices} of these, this deployment uses {deployment.parallelism.gpus}")
    if deployment.hardware.confidence == "C":
        out.append(f"the figures of {deployment.hardware.id} are announced or from one unsure source")
    if question.tpot_basis is not None:
        out.append("--tpot limits the mean now, --itl the gap: --tpot-basis mean is --itl none, and step the default")
    if question.output is None:
        out.append(f"output of {workload.output} tokens assumed (--output)")
    if question.draft_tokens and question.draft_acceptance is None:
        out.append(f"draft acceptance of {workload.draft_acceptance:g} assumed (--draft-acceptance)")
    return out
