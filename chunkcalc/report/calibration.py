"""A calibration as text, as chunkcalc.calibration/1 and as the profile it makes."""

from __future__ import annotations

import json as _json
import shlex
import textwrap
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chunkcalc.report.tables import WIDTH, table
from chunkcalc.scoring.constants import CONSTANTS, key

if TYPE_CHECKING:  # a fit loads numpy and scipy; its report does not
    from chunkcalc.scoring.calibrate import Calibrated, Errors
    from chunkcalc.scoring.fitting import Range
    from chunkcalc.scoring.usable import LeftOut

SCHEMA = "chunkcalc.calibration/1"
LABEL = 10
MOST_REASONS = 6
STATES = {"yes": "determined", "partly": "partly determined", "no": "not determined"}
ENOUGH = 3  # values of a load that tell its constants apart
NAMES = (("TPOT", "tpot"), ("TTFT", "ttft"))


def text(found: Calibrated, left_out: Sequence[LeftOut], path: str) -> str:
    """The report of `chunkcalc calibrate`."""
    versions = f" {', '.join(found.versions)}" if found.versions else ""
    head = f"{found.base.id} under {found.engine}{versions}"
    none = f"NOT CALIBRATED: the shipped constants of {head} predict these rows as well as any fit"
    rows = textwrap.wrap(f"CALIBRATED: {head}" if found.choice else none, WIDTH)
    rows += ["", _errors(found), "", _constants(found)]
    rows += ["", *_wrapped("rows", f"{len(found.rows)} used, {found.configurations} different configurations")]
    reasons = Counter(each.reason for each in left_out)
    for index, (reason, count) in enumerate(reasons.most_common(MOST_REASONS)):
        rows += _wrapped("left out" if not index else "", f"{count}: {reason}")
    if len(reasons) > MOST_REASONS:
        told = sum(count for _, count in reasons.most_common(MOST_REASONS))
        rows += _wrapped("", f"{len(left_out) - told}: for other reasons")
    if found.kept:
        rows += _wrapped("as shipped", f"{', '.join(key(name)[0] for name in found.kept)}: not tried, or no better")
    rows += ["", *_next(found, path)]
    return "\n".join(rows)


def _errors(found: Calibrated) -> str:
    lines = []
    for name, field in NAMES:
        values = [getattr(each, field) for each in (found.before, found.held_out, found.after)]
        shown = values if found.choice else values[:1]
        if values[0] is not None:
            lines.append((f"{name}, mean error", *(f"{100 * value:.1f}%" for value in shown)))
    head = ("", "shipped", "calibrated, rows it did not see", "rows it saw") if found.choice else ("", "shipped")
    return table(head, lines)


def _constants(found: Calibrated) -> str:
    if not found.choice:
        words = "What these rows alone would tell of the two overheads:"
        return f"{words}\n{_listed(found, moved=False)}"
    return _listed(found, moved=True)


def _listed(found: Calibrated, *, moved: bool) -> str:
    rows = [f"{'constant':<23}{'shipped':>9}{'fitted' if moved else '':>9}  80% range"]
    for name, each in found.constants.items():
        written, unit = key(name)
        shipped, fitted, half = (_digits(value / unit) for value in (each.shipped, each.value, each.half))
        fitted = (fitted if each.moved else "-") if moved else ""
        rows.append(f"{written:<23}{shipped:>9}{fitted:>9}  ± {half:<8}{_state(each)}")
    return "\n".join(rows)


def _digits(value: float) -> str:
    """Three digits, without an exponent."""
    return f"{float(f'{value:.3g}'):.6g}"


def _state(each: Range) -> str:
    if each.edge and each.moved:
        return "at its bound"
    if each.beside:
        return f"trades off with {each.beside}"
    return STATES[each.determined]


def _wrapped(label: str, words: str) -> list[str]:
    lines = textwrap.wrap(words, WIDTH - LABEL - 2, break_long_words=False, break_on_hyphens=False)
    return [f"{label if not index else '':<{LABEL}}  {line}" for index, line in enumerate(lines)]


def command(found: Calibrated, path: str) -> str:
    """A command that uses the profile."""
    run = found.rows[0].served.run
    gpu = path if found.choice else found.base.id
    words = ["chunkcalc", "solve", "--model", run.model, "--gpu", gpu, "--engine", found.engine]
    for name, value in (("--tp", run.tp), ("--attention-dp", run.dp), ("--ep", run.ep)):
        words += [name, str(value)] if value > 1 else []
    words += ["--weights", run.weights] if run.weights else []
    words += ["--prompt", str(round(run.prompt_tokens)), "--output", str(max(2, round(run.output_tokens)))]
    return shlex.join([*words, "--ttft", "1s", "--tpot", "30ms"])


def _next(found: Calibrated, path: str) -> list[str]:
    if not found.choice:
        told = "nothing was written: go on with the shipped profile, or measure more loads (users, prompt lengths)"
        return _wrapped("next", told)
    rows = _wrapped("written", path)
    if not all(each.determined == "yes" for each in found.constants.values()):
        rows += _wrapped("more", _more(found))
    words = command(found, path)
    lines = textwrap.wrap(words, WIDTH - LABEL - 6, break_long_words=False, break_on_hyphens=False)
    for index, line in enumerate(lines):
        end = "" if index == len(lines) - 1 else " \\"
        rows.append(f"{'' if index else 'next':<{LABEL}}  {'  ' if index else ''}{line}{end}")
    return rows


def _more(found: Calibrated) -> str:
    """What to measure so that more constants are determined."""
    runs = [row.served.run for row in found.rows]
    varied: dict[str, set[int] | set[int | None]] = {
        "users": {run.concurrency for run in runs},
        "prompt lengths": {round(run.prompt_tokens) for run in runs},
        "tensor parallel degrees": {run.tp for run in runs},
    }
    few = [words for words, values in varied.items() if len(values) < ENOUGH]
    return f"rows with other {', '.join(few)} would determine more" if few else "the others matter little to such loads"


def json(found: Calibrated, left_out: Sequence[LeftOut], files: Sequence[Path], path: str) -> dict[str, Any]:
    """The schema chunkcalc.calibration/1."""
    return {
        "schema": SCHEMA, "gpu": found.base.id, "engine": found.engine, "engine_versions": list(found.versions),
        "files": [str(file) for file in files], "rows": len(found.rows), "configurations": found.configurations,
        "left_out": [{"file": each.path, "row": each.row, "reason": each.reason} for each in left_out],
        "calibrated": bool(found.choice), "moved": found.choice or None,
        "errors": {
            "before": _both(found.before), "held_out": _both(found.held_out), "after": _both(found.after)
        },
        "constants": [_constant(name, each, moved=bool(found.choice)) for name, each in found.constants.items()],
        "kept": list(found.kept), "profile": path if found.choice else None, "next": command(found, path),
    }  # fmt: skip


def _both(errors: Errors) -> dict[str, float | None]:
    return {"tpot": errors.tpot, "ttft": errors.ttft}


def _constant(name: str, each: Range, *, moved: bool) -> dict[str, Any]:
    written, unit = key(name)
    return {
        "key": written, "meaning": CONSTANTS[name].meaning, "shipped": each.shipped / unit,
        "fitted": each.value / unit if moved and each.moved else None, "range_80": each.half / unit,
        "determined": each.determined, "at_bound": each.edge, "trades_off_with": each.beside or None,
    }  # fmt: skip


def profile(found: Calibrated, files: Sequence[Path], date: str) -> str:
    """The profile: the shipped one, extended by what was fitted and where it comes from."""
    keys = {key(name)[0]: value / key(name)[1] for name, value in found.values.items()}
    told = {
        "date": date, "engine": found.engine, "engine_version": ", ".join(found.versions), "rows": len(found.rows),
        "files": [file.name for file in files], "fitted": list(keys),
    }  # fmt: skip
    lines = [f"# {found.base.name} as measured: written by chunkcalc calibrate", f'extends = "{found.base.id}"']
    lines += ["", f"[engine.{found.engine}]", *(f"{name} = {_digits(value)}" for name, value in keys.items())]
    lines += ["", "[calibration]", *(f"{name} = {_json.dumps(value)}" for name, value in told.items())]
    for name, field in NAMES:
        value, before = getattr(found.held_out, field), getattr(found.before, field)
        if value is not None:
            lines.append(f"{field}_error = {value:.3g}  # {name} of rows left out of the fit; {before:.3g} as shipped")
    return "\n".join(lines) + "\n"
