"""Machine-readable answers with versioned schemas; seconds, bytes and tokens throughout."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from chunkcalc.answer.records import Answer, Load, Reading
from chunkcalc.catalog.precision import precision_for
from chunkcalc.engines.capacity import Capacity
from chunkcalc.records import Hardware, Model
from chunkcalc.report import measured
from chunkcalc.work import counts

if TYPE_CHECKING:  # the other reports need none of it
    from chunkcalc.answer.inspection import Inspection

SOLVE, MODELS, GPUS = "chunkcalc.solve/2", "chunkcalc.models/1", "chunkcalc.gpus/1"
ENGINE = "chunkcalc.engine/1"
QUANTILES = (50, 90, 99)


def dumps(data: Mapping[str, Any]) -> str:
    """JSON text; infinite and undefined numbers become null."""
    return json.dumps(_finite(data), indent=2, ensure_ascii=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, (list, tuple)) else value


def solve(answer: Answer) -> dict[str, Any]:
    """An answer in the schema chunkcalc.solve/2."""
    return {
        "schema": SOLVE,
        "inputs": inputs(answer),
        "verdict": answer.verdict,
        "certain": answer.certain,
        "may_hold": answer.may_hold,
        "chunk": answer.chunk,
        "safest_chunk": answer.safest_chunk,
        "budget": answer.budget,
        "limits": [asdict(each) for each in answer.limits],
        "mean_alone": None if answer.mean_alone is None else asdict(answer.mean_alone),
        "textbook": asdict(answer.textbook),
        **{name: part for name, part in numbers(answer).items() if name in ("floor", "expected")},
        "knee": answer.knee,
        "host": None if answer.host is None else answer.host._asdict() | {"flags": list(answer.host.flags)},
        "measured": measured.data(answer.case.question.taught),
        "window": numbers(answer)["window"],
        "chunking": asdict(answer.chunking),
        "capacity": memory(answer.capacity),
        "load": None if answer.load is None else _load(answer.load, answer.slo.ttft),
        "needs_disaggregation": answer.needs_disaggregation,
        "pools": None if answer.pools is None else asdict(answer.pools),
        "reasons": list(answer.reasons),
        "remedies": [asdict(remedy) for remedy in answer.remedies],
        "flags": {engine: list(flags) for engine, flags in answer.flags.items()},
        "warnings": list(answer.warnings),
    }


def _load(load: Load, limit: float | None) -> dict[str, Any]:
    flow = load.flow
    return {
        "rate": load.rate,
        "concurrency": load.users,
        "percentile": load.percentile,
        "steady": load.steady,
        "shown": load.shown,
        "served_rate": flow.rate,
        "batch": flow.batch,
        "utilisation": flow.utilisation,
        "kv_held": flow.held,
        "wait_s": load.wait_s,
        "mean_wait_s": flow.wait,
        "ttft_s": {"mean": flow.ttft, **{f"p{q}": flow.ttft_quantile(q / 100) for q in QUANTILES}},
        "itl_s": {f"p{q}": flow.gap_quantile(q / 100) for q in QUANTILES},
        "tpot_s": flow.tpot,
        "ttft_attainment": None if limit is None else flow.within(limit),
        "highest": load.highest,
        "limit_rate": load.limit,
    }


def numbers(answer: Answer) -> dict[str, Any]:
    """The readings, the window and the memory of an answer."""
    return {
        "floor": _reading(answer.floor),
        "expected": {
            **_reading(answer.expected),
            "error": {"tpot": answer.error.tpot, "ttft": answer.error.ttft, "itl": answer.error.gap},
            "breakdown": dict(answer.step.breakdown),
            "bottleneck": answer.step.bottleneck,
        },
        "window": {
            **asdict(answer.window),
            "chunk": answer.chunk,
            "budget": answer.budget,
            "headroom": answer.headroom,
            "utilisation": answer.utilisation,
            "balance": answer.balance,
        },
        "capacity": memory(answer.capacity),
    }


def memory(capacity: Capacity) -> dict[str, Any]:
    """The memory of a replica."""
    return {name: getattr(capacity, name) for name in _CAPACITY}


_CAPACITY = (
    "weights_bytes",
    "kv_bytes_per_token",
    "kv_tokens",
    "max_concurrency",
    "activation_bytes",
)


def _reading(reading: Reading) -> dict[str, Any]:
    return {field.name: getattr(reading, field.name) for field in fields(reading)}


def inputs(answer: Answer) -> dict[str, Any]:
    """Every resolved input as {value, from}."""
    deployment, workload, origins = answer.case.deployment, answer.workload, answer.case.origins
    values: dict[str, Any] = {
        "model": deployment.model.id,
        "gpu": deployment.hardware.id,
        "engine": deployment.engine.name,
        "engine_version": deployment.engine.version,
        "composition": deployment.engine.composition,
        "tp": deployment.parallelism.tp,
        "pp": deployment.parallelism.pp,
        "ep": deployment.parallelism.ep,
        "attention_dp": deployment.parallelism.dp,
        "gpus": deployment.parallelism.gpus,
        "weights": deployment.precision.weights,
        "kv": deployment.precision.kv,
        "prompt": workload.prompt,
        "output": workload.output,
        "batch": workload.batch,
        "context": workload.context,
        "prefix_hit": workload.prefix_hit,
        "draft_tokens": workload.draft_tokens,
        "draft_acceptance": workload.draft_acceptance if workload.draft_tokens else None,
        "link_bandwidth": deployment.hardware.link.bandwidth,
        "link_latency_s": deployment.hardware.link.latency,
        "memory_fraction": deployment.engine.memory_fraction,
        "max_utilisation": answer.slo.max_utilisation,
    }
    derived = {"link_bandwidth": "link", "link_latency_s": "link"}
    return {
        name: {"value": value, "from": origins.get(derived.get(name, name), "default")}
        for name, value in values.items()
    }


def model(record: Model) -> dict[str, Any]:
    """A model's row of chunkcalc.models/1."""
    return {
        "id": record.id,
        "family": record.family,
        "aliases": list(record.aliases),
        "total_params": counts.parameters(record),
        "active_params": counts.active_parameters(record),
        "weights": record.weights,
        "weights_bytes": counts.weight_bytes(record, precision_for(record)),
        "kv_bytes_per_token_bf16": counts.kv_bytes_per_token(record, "bf16"),
        "fixed_bytes_per_sequence": counts.fixed_bytes_per_sequence(record, "bf16"),
        "max_position": record.max_position,
        "layers": [asdict(group) for group in record.layers],
        "source": record.source,
    }


def gpu(record: Hardware) -> dict[str, Any]:
    """A GPU's row of chunkcalc.gpus/1."""
    return {
        "id": record.id,
        "name": record.name,
        "vendor": record.vendor,
        "arch": record.arch,
        "peak": dict(record.peak),
        "memory_bytes": record.memory,
        "bandwidth": record.bandwidth,
        "link": record.link.kind,
        "link_bandwidth": record.link.bandwidth,
        "gpus_per_node": record.link.gpus_per_node,
        "calibrated": calibrated(record),
        "efficiency": {
            key: value._asdict() for key, value in sorted(record.efficiency.items()) if key not in record.generic
        },
        "aliases": list(record.aliases),
        "confidence": record.confidence,
        "source": record.source,
        "sources": dict(record.sources),
        "note": record.note,
    }


def calibrated(record: Hardware) -> bool:
    """Whether the GPU's own 16-bit products and attention were measured."""
    return not {"gemm.bf16", "prefill_attention.bf16", "decode_attention.bf16"} & record.generic


def engine(found: Inspection, log: dict[str, Any] | None = None) -> dict[str, Any]:
    """A command line in the schema chunkcalc.engine/1.

    Parameters
    ----------
    found : the command line on a GPU
    log : what its start-up log says; None without one
    """
    reading = found.reading
    return {
        "schema": ENGINE,
        "engine": reading.table.engine,
        "version": reading.table.version,
        "version_read": reading.table.read,
        "entry": reading.entry,
        "model": found.model.id,
        "gpu": found.hardware.id,
        "values": {name: value._asdict() for name, value in reading.values.items()},
        "budget": reading.budget,
        "chunk": reading.chunk,
        "chunk_full": reading.chunk_full,
        "max_num_seqs": reading.max_num_seqs,
        "max_model_len": reading.max_model_len,
        "composition": reading.composition,
        "kv_tokens": found.kv_tokens,
        "kv_tokens_logged": found.kv_tokens if found.kv_printed is None else found.kv_printed,
        "max_concurrency": found.max_concurrency,
        "log": log,
        "refusals": list(reading.refusals),
        "differences": list(reading.differences),
        "unknown_flags": list(reading.unknown_flags),
        "notes": list(found.notes),
    }
