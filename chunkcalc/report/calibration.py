"""A calibration as text, as chunkcalc.calibration/1 and as the profile it makes."""

from __future__ import annotations

import json as _json
import shlex
import textwrap
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chunkcalc.catalog.profiles import SCALED
from chunkcalc.report.tables import WIDTH, table

if TYPE_CHECKING:
    from chunkcalc.scoring.calibrate import Calibrated, Fitted
    from chunkcalc.scoring.usable import LeftOut

SCHEMA = "chunkcalc.calibration/1"
LABEL = 10
MOST_REASONS = 6
STATES = {"yes": "determined", "partly": "partly determined", "no": "not determined: as unsure as before"}
ENOUGH = 3  # values of a load that tell its factors apart
NAMES = (("TPOT", "tpot"), ("TTFT", "ttft"), ("step", "step"))
FACTORS = {
    "kernels": "launches, memory, links", "prompts": "arithmetic", "host": "the host's launching",
    "request": "a request outside its steps", "sequence": "bookkeeping per decode",
}  # fmt: skip


def text(found: Calibrated, left_out: Sequence[LeftOut], path: str) -> str:
    """The report of `chunkcalc calibrate`."""
    versions = f" {', '.join(found.versions)}" if found.versions else ""
    head = f"{found.base.id} under {found.engine}{versions}"
    none = f"NOT CALIBRATED: the profile of {head} predicts these rows as well as any fit"
    rows = textwrap.wrap(f"CALIBRATED: {head}" if found.calibrated else none, WIDTH)
    rows += ["", _errors(found), "", _factors(found)]
    used = [f"{len(found.rows)} runs"] if found.rows else []
    used += [f"{found.steps:,} steps"] if found.steps else []
    rows += ["", *_wrapped("used", f"{' and '.join(used)}, {found.configurations} different configurations")]
    reasons = Counter(each.reason for each in left_out)
    for index, (reason, count) in enumerate(reasons.most_common(MOST_REASONS)):
        rows += _wrapped("left out" if not index else "", f"{count}: {reason}")
    if len(reasons) > MOST_REASONS:
        told = sum(count for _, count in reasons.most_common(MOST_REASONS))
        rows += _wrapped("", f"{len(left_out) - told}: for other reasons")
    if found.calibrated:
        said = zip(("TPOT", "TTFT", "gap"), found.bands, strict=True)
        bands = ", ".join(f"{name} \u00b1{100 * width:.0f} %" for name, width in said)
        rows += _wrapped("bands", f"of {found.kind} models, from now on: {bands}")
    for index, hint in enumerate(found.hints):
        rows += _wrapped("" if index else "not told", hint)
    rows += ["", *_next(found, path)]
    return "\n".join(rows)


def _errors(found: Calibrated) -> str:
    unseen = (found.held_out,) if found.checked else ()
    lines = []
    for name, field in NAMES:
        values = [getattr(each, field) for each in (found.before, *unseen, found.after)]
        shown = values if found.calibrated else values[:1]
        if values[0] is not None:
            lines.append((f"{name}, mean error", *(f"{100 * value:.1f}%" for value in shown)))
    heads = ("", "as shipped", *(("calibrated, rows it did not see",) if found.checked else ()), "rows it saw")
    return table(heads if found.calibrated else heads[:2], lines)


def _factors(found: Calibrated) -> str:
    rows = [f"{'time of':<29}{'x shipped':>9}  80% range"]
    for name, each in found.factors.items():
        between = f"{_digits(each.least)} to {_digits(each.most)}"
        rows.append(f"{FACTORS[name]:<29}{_digits(each.value):>9}  {between:<16}{STATES[each.determined]}")
    return "\n".join(rows)


def _digits(value: float) -> str:
    """Three digits, without an exponent."""
    return f"{float(f'{value:.3g}'):.6g}"


def _wrapped(label: str, words: str) -> list[str]:
    lines = textwrap.wrap(words, WIDTH - LABEL - 2, break_long_words=False, break_on_hyphens=False)
    return [f"{label if not index else '':<{LABEL}}  {line}" for index, line in enumerate(lines)]


def command(found: Calibrated, path: str) -> str:
    """A command that uses the profile."""
    gpu = path if found.calibrated else found.base.id
    if not found.rows:
        return shlex.join(["chunkcalc", "solve", "--gpu", gpu, "--engine", found.engine, "..."])
    run = found.rows[0].served.run
    words = ["chunkcalc", "solve", "--model", run.model, "--gpu", gpu, "--engine", found.engine]
    for name, value in (("--tp", run.tp), ("--attention-dp", run.dp), ("--ep", run.ep)):
        words += [name, str(value)] if value > 1 else []
    words += ["--weights", run.weights] if run.weights else []
    words += ["--prompt", str(round(run.prompt_tokens)), "--output", str(max(2, round(run.output_tokens)))]
    return shlex.join([*words, "--ttft", "1s", "--tpot", "30ms"])


def _next(found: Calibrated, path: str) -> list[str]:
    if not found.calibrated:
        told = "nothing was written: go on with the shipped profile, or measure more loads (users, prompt lengths)"
        return _wrapped("next", told)
    rows = _wrapped("written", path)
    if found.rows and not all(each.determined == "yes" for each in found.factors.values()):
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
        "files": [str(file) for file in files], "rows": len(found.rows), "steps": found.steps,
        "configurations": found.configurations,
        "left_out": [{"file": each.path, "row": each.row, "reason": each.reason} for each in left_out],
        "calibrated": found.calibrated, "checked": found.checked,
        "errors": {
            "before": found.before._asdict(), "held_out": found.held_out._asdict(), "after": found.after._asdict()
        },
        "factors": {name: _factor(each) for name, each in found.factors.items()},
        "kind": found.kind, "bands": found.bands._asdict(),
        "overheads": {key(name)[0]: value / key(name)[1] for name, value in found.values.items()},
        "not_told": list(found.hints), "profile": path if found.calibrated else None, "next": command(found, path),
    }  # fmt: skip


def _factor(each: Fitted) -> dict[str, Any]:
    return {**each._asdict(), "moved": each.moved}


def key(name: str) -> tuple[str, float]:
    """How a profile writes an overhead: its key, and the unit in seconds.

    >>> key("decode_layer"), key("cache")
    (('decode_layer_us', 1e-06), ('cache', 1.0))
    """
    for written, unit in SCALED.items():
        if written.rsplit("_", 1)[0] == name:
            return written, unit
    return name, 1.0


def profile(found: Calibrated, extends: str, files: Sequence[Path], date: str) -> str:
    """The profile: the shipped one, extended by what was fitted and where it comes from."""
    keys = {key(name)[0]: value / key(name)[1] for name, value in found.values.items()}
    told = {
        "date": date, "engine": found.engine, "engine_version": ", ".join(found.versions),
        "rows": len(found.rows) + found.steps,
        "files": [file.name for file in files], "fitted": list(keys),
    }  # fmt: skip
    lines = [f"# {found.base.name} as measured: written by chunkcalc calibrate", f"extends = {_json.dumps(extends)}"]
    lines += ["", f"[engine.{found.engine}]", *(f"{name} = {_digits(value)}" for name, value in keys.items())]
    held = ", ".join(f"{name} = {width:.3g}" for name, width in found.bands._asdict().items())
    lines += ["", f"[bands.{found.engine}]", f"{found.kind} = {{ {held} }}"]
    lines += ["", "[calibration]", *(f"{name} = {_json.dumps(value)}" for name, value in told.items())]
    for name, field in NAMES[:2]:
        value, before = getattr(found.held_out, field), getattr(found.before, field)
        if value is not None:
            lines.append(f"{field}_error = {value:.3g}  # {name} of rows left out of the fit; {before:.3g} as shipped")
    return "\n".join(lines) + "\n"
