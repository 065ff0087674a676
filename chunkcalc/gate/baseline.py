"""A baseline: findings that are known, so that only new and worse ones count."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from chunkcalc.errors import ChunkcalcError
from chunkcalc.gate.finding import Finding

SCHEMA = "chunkcalc.baseline/1"
WORSE = 1.02  # times its old number from which a known finding counts again
MAX_BYTES = 16 * 2**20
LARGEST = 1e300


def written(findings: Iterable[Finding]) -> str:
    """The text of a baseline."""
    entries = sorted(
        ({"fingerprint": f.fingerprint, "rule": f.rule, "file": f.file, "level": f.level, "number": f.number}
         for f in findings if f.waived is None),
        key=lambda entry: (str(entry["file"]), str(entry["rule"]), str(entry["fingerprint"])),
    )  # fmt: skip
    return json.dumps({"schema": SCHEMA, "findings": entries}, indent=2) + "\n"


def known(findings: Iterable[Finding], path: Path) -> list[Finding]:
    """Findings with those marked that the baseline knows and that are no worse.

    Raises
    ------
    ChunkcalcError : unreadable, or no baseline
    """
    numbers = _read(path)
    out = []
    for finding in findings:
        entry = numbers.get(finding.fingerprint)
        same = finding.waived is None and entry is not None and not _worse(finding, *entry)
        out.append(replace(finding, waived="known (baseline)") if same else finding)
    return out


def _worse(finding: Finding, level: str, number: float | None) -> bool:
    if finding.level == "error" and level != "error":
        return True
    return finding.number is not None and number is not None and finding.number > number * WORSE


def _read(path: Path) -> dict[str, tuple[str, float | None]]:
    hint = "write one with --write-baseline FILE"
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        found = json.loads(data) if len(data) <= MAX_BYTES else None
    except OSError as error:
        raise ChunkcalcError(f"cannot be read ({error.strerror})", f"--baseline {path}", hint) from None
    except (ValueError, RecursionError):
        raise ChunkcalcError("is not valid JSON", f"--baseline {path}", hint) from None
    if not isinstance(found, dict) or found.get("schema") != SCHEMA or not isinstance(found.get("findings"), list):
        raise ChunkcalcError("is no baseline", f"--baseline {path}", hint)
    out = {}
    for entry in found["findings"]:
        if isinstance(entry, dict) and isinstance(entry.get("fingerprint"), str):
            number = entry.get("number")
            if number is not None and not (isinstance(number, (int, float)) and abs(number) < LARGEST):
                continue  # not a number to compare with: the finding counts
            out[entry["fingerprint"]] = (str(entry.get("level")), None if number is None else float(number))
    return out
