"""The gate's report as JSON, schema chunkcalc.check/2."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chunkcalc.gate.check import Report
from chunkcalc.gate.deployed import Deployed
from chunkcalc.gate.finding import Finding, Fix
from chunkcalc.report import json
from chunkcalc.report.gate.words import ORDER, advice

if TYPE_CHECKING:
    from chunkcalc.gate.compare import Row

SCHEMA = "chunkcalc.check/2"


def render(report: Report, rows: list[Row] | None = None) -> str:
    """The report as text.

    Parameters
    ----------
    report : what was found
    rows : a comparison with another state, where there is one
    """
    changed = {} if rows is None else {"changes": [_row(row) for row in rows]}
    return json.dumps({**data(report), **changed}) + "\n"


def _row(row: Row) -> dict[str, Any]:
    return {"deployment": row.name, "before": row.before and deployment(row.before),
            "after": row.after and deployment(row.after)}  # fmt: skip


def data(report: Report) -> dict[str, Any]:
    """The report as plain data."""
    counting = report.counting()
    return {
        "schema": SCHEMA,
        "deployments": [deployment(each) for each in report.deployments],
        "findings": [finding(each) for each in report.findings],
        "summary": {
            "files": report.files,
            "deployments": len(report.deployments) - len(report.skipped),
            "evaluated": sum(1 for each in report.deployments if each.status == "evaluated"),
            "unknown": len(report.unknown),
            "skipped": len(report.skipped),
            "disabled": sum(1 for each in report.deployments if each.status == "disabled"),
            **{f"{level}s": sum(1 for each in counting if each.level == level) for level in ORDER},
            "waived": len(report.findings) - len(counting),
            "advice": advice(report.deployments),
        },
    }


def _plain(value: Any) -> Any:
    return value if isinstance(value, (int, float, str)) else str(value)


_PLAIN = (
    "file", "document", "pointer", "line", "name", "kind", "engine", "engine_version", "model", "model_as_written",
    "gpu", "gpus", "replicas", "tp", "pp", "dp", "ep", "role", "max_num_seqs", "max_model_len", "weights", "kv",
)  # fmt: skip


def deployment(each: Deployed) -> dict[str, Any]:
    """A deployment as plain data."""
    return {
        **{name: getattr(each, name) for name in _PLAIN},
        "budget": each.budget._asdict() if each.budget is not None else None,
        "effective": each.effective._asdict() if each.effective is not None else None,
        "status": each.status,
        "missing": list(each.missing),
        "verdict": each.verdict,
        "settings": {key: {"value": _plain(s.value), "source": s.source} for key, s in sorted(each.settings.items())},
        "load": {"batch": each.batch, "asked": each.asked, "admits": each.admits, "kv_tokens": each.kv_tokens},
        "numbers": _numbers(each),
        "notes": list(each.notes),
    }


def _numbers(each: Deployed) -> dict[str, Any] | None:
    """Without a stated load only the floor at one request means something."""
    if each.answer is not None:
        found = json.numbers(each.answer)
        return found if each.measured else {**found, "expected": None, "window": None}
    if each.steps is None or each.capacity is None:
        return None
    steps, blank = each.steps, {"ttft_s": None}
    expected = {
        "step_s": None, "decode_step_s": steps.step_s, **blank, "tpot_s": steps.tpot_s, "itl_s": steps.step_s,
        "error": {"tpot": steps.error, "ttft": None}, "breakdown": None, "bottleneck": None,
    }  # fmt: skip
    return {
        "floor": {"step_s": None, "decode_step_s": steps.floor_step_s, **blank, "tpot_s": steps.floor_tpot_s,
                  "itl_s": steps.floor_step_s},
        "expected": expected if each.measured else None,
        "window": None,
        "capacity": json.memory(each.capacity),
    }  # fmt: skip


def _fix(fix: Fix) -> dict[str, Any]:
    return {
        "text": fix.text, "flag": fix.flag or None, "value": fix.value or None, "remove": fix.remove,
        "also": [{"flag": flag, "value": value or None} for flag, value in fix.also],
    }  # fmt: skip


def finding(each: Finding) -> dict[str, Any]:
    """A finding as plain data."""
    fix = each.fix
    return {
        "rule": each.rule, "class": each.kind, "level": each.level, "message": each.message, "file": each.file,
        "line": each.line, "pointer": each.pointer, "deployment": each.subject, "flag": each.flag or None,
        "fix": None if fix is None else _fix(fix),
        "number": each.number, "waived": each.waived, "fingerprint": each.fingerprint,
    }  # fmt: skip
