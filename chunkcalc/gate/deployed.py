"""A deployment as reports see it: what is written, what the engine makes of it, and what users get."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from chunkcalc.answer.records import FEASIBLE, MARGINAL, SCALE_UP, Answer
from chunkcalc.engines.capacity import Capacity
from chunkcalc.engines.dialects import dialect
from chunkcalc.engines.words import Word
from chunkcalc.frozen import dataclass
from chunkcalc.gate.budget import budget_flag, ranks
from chunkcalc.gate.evaluation import Evaluation
from chunkcalc.gate.known import SIZES
from chunkcalc.gate.settings import Setting

WRITTEN = {
    "max_num_seqs": ("max_num_seqs", "max_running_requests", "max_batch_size"),
    "max_model_len": ("max_model_len", "context_length", "max_seq_len"),
}


class Budget(NamedTuple):
    """The flag that holds the budget or chunk: its value in its own counting, and where it stands."""

    flag: str
    value: int | None
    source: str
    line: int | None


class Effective(NamedTuple):
    """What the engine makes of it, per attention rank [token]; None where that depends on what is not known."""

    budget: int | None
    max_num_seqs: int | None
    max_model_len: int | None
    chunk: int | None
    chunk_full: int | None


class Steps(NamedTuple):
    """A worker that only decodes: its step and the time per token, by both readings [s]."""

    floor_step_s: float
    step_s: float
    floor_tpot_s: float
    tpot_s: float
    error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """A deployment and everything that is known of it.

    model : catalogue id, else as written; gpu : profile id, else as written
    gpus : of a replica; stated, else as many as the flags use
    missing : what is not known
    settings : limits and workload, each with its source
    batch, asked, admits : decoding requests; as the load asks; as the KV cache holds
    answer : at the setting that is written; None for decode workers and without a workload
    steps : of a decode worker
    refused : the engine would not start
    measured : whether the load is stated, so that the expected reading means something
    """

    file: str
    document: int
    pointer: str
    line: int
    name: str
    kind: str
    engine: str | None
    engine_version: str | None
    model: str | None
    model_as_written: str | None
    gpu: str | None
    gpus: int | None
    replicas: int
    tp: int | None
    pp: int | None
    dp: int | None
    ep: int | None
    role: str
    max_num_seqs: int | None
    max_model_len: int | None
    weights: str | None
    kv: str | None
    budget: Budget | None
    effective: Effective | None
    status: str
    missing: tuple[str, ...]
    verdict: str | None
    settings: Mapping[str, Setting]
    batch: int | None = None
    asked: int | None = None
    admits: int | None = None
    kv_tokens: int | None = None
    answer: Answer | None = None
    steps: Steps | None = None
    capacity: Capacity | None = None
    refused: bool = False
    measured: bool = False
    notes: tuple[str, ...] = ()


def deployed(found: Evaluation) -> Deployed:
    """A deployment as reports see it."""
    process, reading, seen = found.process, found.reading, found.inspection
    command = process.command
    parallelism = reading.parallelism if reading is not None else None
    precision = seen.deployment.precision if seen is not None and seen.deployment is not None else None
    judged = found.case is not None
    answer, steps = (found.answer, _steps(found)) if judged else (None, None)
    named = process.gpu[0] if process.gpu else None
    wanted = parallelism.gpus if parallelism is not None and None not in _degrees(found).values() else None
    version = found.table.version if found.table is not None and found.version_known else None
    return Deployed(
        file=process.file, document=process.document, pointer=process.pointer, line=process.line, name=process.name,
        kind=process.kind, engine=command.engine if command is not None else None, engine_version=version,
        model=found.model.record.id if found.model is not None else found.model_as_written,
        model_as_written=found.model_as_written,
        gpu=found.hardware.record.id if found.hardware is not None else str(named) if named else None,
        gpus=process.gpus if process.gpus is not None else wanted, replicas=process.replicas,
**_degrees(found),
        role=process.role,
        max_num_seqs=_written(found, "max_num_seqs"), max_model_len=_written(found, "max_model_len"),
        weights=precision.weights if precision else reading.weights if reading else None,
        kv=precision.kv if precision else reading.kv if reading else None,
        budget=_budget(found), effective=_effective(found), status=found.status, missing=_missing(found),
        verdict=_verdict(found, answer, steps), settings=found.settings.values,
        batch=found.load.batch if judged else None, asked=found.load.asked if judged else None,
        admits=found.load.admits if judged else None, kv_tokens=seen.kv_tokens if seen is not None else None,
        answer=answer, steps=steps, capacity=found.memory(found.load.batch) if judged else None,
        refused=found.inspection is not None and bool(found.reading and found.reading.refusals),
        measured=found.settings.has_load or process.role == "prefill", notes=seen.notes if seen is not None else (),
    )  # fmt: skip


def _degrees(found: Evaluation) -> dict[str, int | None]:
    """The degrees of parallelism as the flags say; None where a flag's value is not known."""
    reading = found.reading
    if reading is None:
        return dict.fromkeys(("tp", "pp", "dp", "ep"))
    parallelism = reading.parallelism
    tp, dp = parallelism.tp, parallelism.dp
    if dialect(reading.table.engine).ranks_share:
        tp *= dp
        size = reading.values.get("dp_size") or reading.values.get("attn_dp_size")
        dp = parallelism.dp
        if reading.table.engine == "sglang":
            dp = int(size.value) if size is not None else 1
    out: dict[str, int | None] = {"tp": tp, "pp": parallelism.pp, "dp": dp, "ep": parallelism.ep}
    for name, part in (("tp", "t"), ("pp", "p"), ("dp", "d"), ("ep", "e")):
        words = {"t": "tensor-parallel-size", "p": "pipeline-parallel-size", "d": "data-parallel-size",
                 "e": "moe-expert-parallel-size"}[part]  # fmt: skip
        short = {name, f"{name}-size", words}
        if any(flag.lstrip("-").replace("_", "-") in short for flag in found.process.unset):
            out[name] = None
    return out


def _missing(found: Evaluation) -> tuple[str, ...]:
    """What would have to be stated, also where only the estimates lack it."""
    out = list(found.missing)
    if found.status != "disabled" and found.inspection is not None and found.settings.has_limits:
        if found.settings.get("prompt") is None:
            out.append("prompt: state the length of a prompt (--prompt)")
        elif not found.settings.has_load and found.process.role != "prefill":
            out.append("load: state concurrency or rate (--concurrency, --rate)")
    return tuple(dict.fromkeys(out))


def _written(found: Evaluation, what: str) -> int | None:
    given = found.given.given if found.given is not None else {}
    value = next((given[name].value for name in WRITTEN[what] if name in given), None)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _budget(found: Evaluation) -> Budget | None:
    reading, given = found.reading, found.given.given if found.given is not None else {}
    entry = given.get(found.budget_field)
    if entry is not None:
        word = entry.word
        value = entry.value if isinstance(entry.value, int) and not isinstance(entry.value, bool) else None
        line = word.line if isinstance(word, Word) and word.line else None
        return Budget(entry.flag.removesuffix(" (YAML)"), value, "given", line)
    names = {found.budget_field, "max_num_batched_tokens", "chunked_prefill_size", "max_num_tokens"}
    unset = next((w for w in found.process.unset if w.lstrip("-").replace("-", "_") in names), None)
    if unset is not None:
        return Budget(str(unset), None, "given", unset.line or None)
    if reading is None or found.inspection is None:
        return None
    return Budget(budget_flag(found), reading.budget * ranks(found), "default", None)


def _effective(found: Evaluation) -> Effective | None:
    reading = found.inspection.reading if found.inspection is not None else found.reading
    if reading is None or found.process.unset or "budget" not in found.sure:
        return None
    sizes = {name: getattr(reading, name) if name in found.sure else None for name in SIZES}
    return Effective(**sizes)


def _steps(found: Evaluation) -> Steps | None:
    if found.process.role != "decode":
        return None
    view = found.view(found.load.batch)
    floor, expected = view.floor, view.expected
    return Steps(
        floor.decode_step, expected.decode_step, floor.decode_step / floor.accepted,
        expected.decode_step / expected.accepted, view.error.tpot,
    )  # fmt: skip


def _verdict(found: Evaluation, answer: Answer | None, steps: Steps | None) -> str | None:
    """Of solve, where the load is stated; None where nothing can be said."""
    if found.reading is not None and found.reading.refusals:
        return None
    if not found.settings.has_limits or (not found.settings.has_load and found.process.role != "prefill"):
        return None
    if steps is None:
        return answer.verdict if answer is not None else None
    limits = [found.settings.get("tpot"), found.settings.get("itl")]
    ratios = [
        limit / value for limit, value in zip(limits, (steps.tpot_s, steps.step_s), strict=True) if limit is not None
    ]
    least = min(ratios, default=float("inf"))
    if least >= 1 + steps.error:
        return FEASIBLE
    return MARGINAL if least >= 1 else SCALE_UP
