"""A command line on real hardware: what it means, and what its memory admits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from chunkcalc.answer.limits import COUNTED_SINCE, limits
from chunkcalc.answer.question import Question
from chunkcalc.answer.resolve import resolve
from chunkcalc.catalog.lookup import load_hardware, load_model
from chunkcalc.catalog.precision import precision_for
from chunkcalc.engines.blocks import Layout, layout
from chunkcalc.engines.capacity import GIB, pool_bytes, sequence_bytes
from chunkcalc.engines.command import Command, arguments, locate, model_name, read
from chunkcalc.engines.dialects import dialect
from chunkcalc.engines.grammar import Arguments
from chunkcalc.engines.reading import Entry, Reading, Target, Value
from chunkcalc.engines.sglang import running_requests
from chunkcalc.engines.tables import Table, table
from chunkcalc.engines.words import Remark
from chunkcalc.errors import ChunkcalcError, NotModelledError
from chunkcalc.frozen import dataclass
from chunkcalc.records import Deployment, Hardware, Mla, Model
from chunkcalc.work import counts

HYBRID_SINCE = "0.10.0"  # vLLM lays kinds of layers out in groups
VLLM_BLOCK = 16  # tokens of a KV block where no flag says otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """A command line, read on a GPU.

    reading : what it means
    deployment : the replica; None where the engine would refuse it
    kv_tokens : tokens that the KV cache of the replica holds; None where it does not grow with context
    max_concurrency : requests of the longest context that run at once
    notes : what the user should know about the inputs
    kv_printed : tokens that the engine's own log tells, where its version counts them otherwise
    """

    reading: Reading
    model: Model
    hardware: Hardware
    deployment: Deployment | None
    kv_tokens: int | None
    max_concurrency: int | None
    notes: tuple[str, ...]
    kv_printed: int | None = None


def inspect(
    words: Sequence[str], gpu: str, version: str | None = None, entry: Entry = "server", model: str = ""
) -> Inspection:
    """Read a command line on a GPU.

    Parameters
    ----------
    words : the command line, or the engine's name and then its arguments
    gpu : id, product name or path
    version : of the engine; None for the newest that was read
    entry : `server`, or `offline` for the Python class
    model : what the model is, where the command line names a path or nothing

    Raises
    ------
    ChunkcalcError : no engine, an unknown model or GPU, an unreadable file
    """
    command = locate(words)
    found = table(command.engine, version or command.version or None, "--version")
    given = arguments(command, found)
    name = model or model_name(command, given)
    if not name:
        raise ChunkcalcError("names no model", "command line", "add it, or say which one with --model")
    folder = Path(name, "config.json")  # a model's folder
    try:
        known = load_model(str(folder) if folder.is_file() else name)
    except ChunkcalcError as error:
        raise ChunkcalcError(error.what, "command line", f"say which one it is with --model; {error.hint}") from None
    device = load_hardware(gpu)
    found_notes = [
        f"{what} taken as {how}" for what, how in (("model", known.how), ("GPU", device.how)) if " -> " in how
    ]
    seen = inspect_command(command, found, known.record, device.record, entry, given)
    return replace(seen, notes=(*seen.notes, *found_notes))


def inspect_command(
    command: Command, found: Table, model: Model, hardware: Hardware, entry: Entry = "server",
    given: Arguments | None = None,
) -> Inspection:  # fmt: skip
    """Read a command line that is taken apart already.

    Raises
    ------
    ChunkcalcError : an option file that cannot be read
    """
    latent = any(isinstance(group.attention, Mla) for group in model.layers)
    target = Target(hardware, model.max_position, entry, command.environment, latent)
    reading = read(command, found, target, given)
    notes = list(reading.notes)
    if found.read != found.version:
        notes.append(f"{found.engine} {found.version} taken as {found.read}, the nearest version that was read")
    if command.environment.get("VLLM_USE_V1") == "0" and found.since("0.8.0") and not found.since("0.11.0"):
        notes.append("VLLM_USE_V1=0 runs the old engine, whose defaults differ: these are those of V1")
    return _with_memory(command, reading, model, hardware, notes, given)


def _with_memory(
    command: Command, reading: Reading, model: Model, hardware: Hardware, notes: Sequence[str],
    given: Arguments | None,
) -> Inspection:  # fmt: skip
    try:
        deployment = _deployment(command, reading, model, hardware)
    except ChunkcalcError as error:
        if isinstance(error, NotModelledError):  # the engine would start
            notes = [*notes, f"no memory figures: {error.what}"]
        else:
            reading = replace(reading, refusals=(*reading.refusals, Remark(error.what, "E23")))
        return Inspection(
            reading=reading, model=model, hardware=hardware, deployment=None,
            kv_tokens=None, max_concurrency=None, notes=tuple(notes),
        )  # fmt: skip
    pool = _pool(reading, deployment)
    reading = _affordable(reading, deployment, pool)
    per_token = counts.kv_bytes_per_token(model, deployment.precision.kv, deployment.parallelism.tp)
    per_token /= deployment.parallelism.pp
    tokens = _tokens(reading, pool / per_token) if per_token else None
    if tokens is not None:
        pool = min(pool, tokens * per_token)
        reading = _admitted(reading, tokens)
    holds = int(max(0.0, pool) / sequence_bytes(deployment, reading.max_model_len))
    printed = None
    plan = _plan(command.engine, reading, deployment)
    if plan is not None and tokens is not None:
        whole = pool * deployment.parallelism.pp
        at_once = plan.concurrency(whole, reading.max_model_len, reading.budget, _states_kept(reading))
        tokens, holds = int(at_once * reading.max_model_len), int(at_once)
        if not reading.table.since(COUNTED_SINCE):
            printed = plan.counted(whole)
            notes = [*notes, f"{reading.table.engine} {reading.table.version} prints {printed:,} tokens of KV cache: "
                     "blocks shared out over groups of layers"]  # fmt: skip
    reading = _judged(reading, deployment, pool, tokens, holds)
    if command.engine == "vllm":
        refused, told = limits(reading, model, given, plan, pool)
        reading = replace(reading, refusals=(*reading.refusals, *refused), differences=(*reading.differences, *told))
    ranks = deployment.parallelism.dp
    return Inspection(
        reading=reading, model=model, hardware=hardware, deployment=deployment,
        kv_tokens=None if tokens is None else tokens * ranks,
        max_concurrency=min(holds, reading.max_num_seqs) * ranks, notes=tuple(notes), kv_printed=printed,
    )  # fmt: skip


def _plan(engine: str, reading: Reading, deployment: Deployment) -> Layout | None:
    """How vLLM lays the cache out; None for one kind of layers, and for other engines."""
    if engine != "vllm" or not reading.table.since(HYBRID_SINCE):
        return None
    own = reading.draft_tokens if "mtp" in reading.drafter else 0
    return layout(deployment.model, deployment.precision.kv, deployment.parallelism.tp, own)


def _states_kept(reading: Reading) -> int:
    """States of a request: one, one for each draft, one more where prefixes are cached."""
    caching = reading.values.get("enable_prefix_caching")
    return 1 + reading.draft_tokens + int(caching is not None and caching.source == "given" and bool(caching.value))


def _formats(command: Command, reading: Reading, model: Model) -> tuple[str | None, str | None]:
    """Formats of weights and cache that a checkpoint decides itself."""
    weights = None if model.weights != "bf16" else reading.weights  # a quantised checkpoint keeps its own format
    kv = reading.kv
    if any(group.attention.kind == "compressed" for group in model.layers):
        kv = None  # 8-bit as it is
    name = model_name(command, arguments(command, reading.table))
    if command.engine == "trtllm" and kv is None and name.startswith("nvidia/") and model.weights != "bf16":
        kv = "fp8"  # ModelOpt's checkpoints of that publisher quantise the cache too (hf_quant_config.json)
    return weights, kv


def _deployment(command: Command, reading: Reading, model: Model, hardware: Hardware) -> Deployment:
    engine, parallelism = command.engine, reading.parallelism
    weights, kv = _formats(command, reading, model)
    question = Question(
        model=model, gpu=hardware, prompt=max(1, min(reading.max_model_len, model.max_position) - 1), output=1,
        tp=parallelism.tp, pp=parallelism.pp, ep=parallelism.ep, attention_dp=parallelism.dp,
        weights=weights, kv=kv, draft_tokens=reading.draft_tokens,
        engine=engine, engine_version=reading.table.version, memory_fraction=reading.memory_fraction,
        mixed_chunk=bool(dialect(engine).mixing) and reading.composition == "mixed", prefill_interval=reading.interval,
    )  # fmt: skip
    try:
        deployment = resolve(question).deployment
    except NotModelledError as error:
        if error.where != "--weights":
            raise
        # Packed weights that are computed in 16 bit (Marlin): they weigh what they weigh, their time is not described.
        deployment = resolve(replace(question, weights="bf16")).deployment
        deployment = replace(deployment, precision=precision_for(model, weights, kv))
    return replace(deployment, engine=replace(deployment.engine, captured=reading.captured, eager=reading.eager))


def _value(reading: Reading, name: str) -> float | None:
    value = reading.values[name].value if name in reading.values else None
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _pool(reading: Reading, deployment: Deployment) -> float:
    """Memory of one GPU for the KV cache [byte]."""
    fixed = _value(reading, "kv_cache_memory_bytes")
    weights = counts.gpu_weight_bytes(deployment.model, deployment.precision, deployment.parallelism)
    if fixed is not None:
        return min(float(fixed), deployment.hardware.memory - weights)
    mixed = reading.composition == "mixed"
    n = reading.budget if mixed else max(reading.chunk, reading.max_num_seqs)
    offloaded = min((_value(reading, "cpu_offload_gb") or 0) * GIB, weights)
    return float(pool_bytes(deployment, n, min(reading.max_num_seqs, n))) + offloaded


def _affordable(reading: Reading, deployment: Deployment, pool: float) -> Reading:
    """A cache that is set by hand may be larger than the GPU."""
    blocks, fixed = _value(reading, "num_gpu_blocks_override"), _value(reading, "kv_cache_memory_bytes")
    one = counts.kv_bytes_per_token(deployment.model, deployment.precision.kv, deployment.parallelism.tp)
    asked = fixed or 0.0
    if blocks is not None:
        asked = max(asked, blocks * (_value(reading, "block_size") or VLLM_BLOCK) * one / deployment.parallelism.pp)
    if asked <= max(pool, 0.0):
        return reading
    problem = f"a KV cache of {asked / GIB:,.1f} GiB is more than the {max(pool, 0) / GIB:,.1f} GiB that are left"
    return replace(reading, refusals=(*reading.refusals, Remark(problem, "E19")))


def _tokens(reading: Reading, tokens: float) -> int:
    """Tokens of one rank, by the flags that set or bound them [token]."""
    blocks = _value(reading, "num_gpu_blocks_override")
    if blocks is not None:
        return int(min(max(0.0, tokens), blocks * (_value(reading, "block_size") or VLLM_BLOCK)))
    bounds = [bound for name in ("max_total_tokens", "max_tokens") if (bound := _value(reading, name)) is not None]
    return int(max(0.0, min([tokens, *bounds])))


def _admitted(reading: Reading, tokens: int) -> Reading:
    """SGLang works its limit of requests out from the memory when it is left out."""
    limit = reading.values.get("max_running_requests")
    if limit is None or not tokens:
        return reading
    if limit.source != "default":
        return replace(reading, max_num_seqs=max(1, min(reading.max_num_seqs, tokens // 2)))
    requests = running_requests(tokens, reading.max_model_len)
    value = Value(requests, "derived", f"by the {tokens:,} tokens of a rank's KV cache")
    full = max(0, reading.chunk - requests) if reading.composition == "mixed" else reading.chunk
    values = {**reading.values, "max_running_requests": value}
    return replace(reading, max_num_seqs=requests, values=values, chunk_full=full)


def _judged(reading: Reading, deployment: Deployment, pool: float, tokens: int | None, holds: int) -> Reading:
    """What the engine says when the cache is too small."""
    refusals, differences = list(reading.refusals), list(reading.differences)
    weights = counts.gpu_weight_bytes(deployment.model, deployment.precision, deployment.parallelism)
    if pool <= 0:
        text = (
            f"no memory is left for the KV cache: the weights take {weights / GIB:.1f} of "
            f"{deployment.hardware.memory / GIB:.1f} GiB per GPU, of which {reading.memory_fraction:.0%} may be used"
        )
        refusals.append(Remark(text, "E20", share=weights / deployment.hardware.memory))
    elif not holds:
        room = f"{tokens:,} tokens" if tokens is not None else "less than one request"
        text = f"the KV cache holds {room}, not one request of {reading.max_model_len:,}"
        automatic = "max_model_len" in reading.values and reading.values["max_model_len"].source == "derived"
        if automatic and tokens:
            return replace(reading, max_model_len=max(1, tokens // VLLM_BLOCK * VLLM_BLOCK))
        words = dialect(reading.table.engine)
        if words.strict_context:
            refusals.append(Remark(f"{text}: lower {words.context}", "E19"))
        else:
            differences.append(Remark(f"{text}: longer requests are turned away", "E19"))
    return replace(reading, refusals=tuple(refusals), differences=tuple(differences))
