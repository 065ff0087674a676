"""The measurements of several files: what a start-up log says of the server holds for the runs and steps beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from chunkcalc.errors import ChunkcalcError
from chunkcalc.measurements import Run, StepRow, Unit, read
from chunkcalc.scoring.usable import LeftOut

SHARED = ("tp", "budget", "kv_tokens", "engine_version")  # what a log says of its server
NO_CONTEXT = "the contexts of the decodes are not known: give the start-up log too, for the size of its KV cache"


class Gathered(NamedTuple):
    """What the files of a calibration hold.

    runs, steps : of all of them
    left_out : rows that are neither
    assumed : what was read into them, as sentences
    """

    runs: list[Run]
    steps: list[StepRow]
    left_out: list[LeftOut]
    assumed: list[str]


def gather(
    files: Sequence[Path], said: Mapping[str, Any], unit: Unit | None, mapped: Mapping[str, str]
) -> Gathered:  # fmt: skip
    """Read files together.

    Parameters
    ----------
    files : results, tables and logs
    said : facts from options
    unit : of latencies
    mapped : columns of tables by the names that are known

    Raises
    ------
    ChunkcalcError : a file that cannot be read, or none with a run or a step
    """
    first = [(file, read(file, said, unit, mapped)) for file in dict.fromkeys(files)]
    launch = {
        name: value
        for _, found in first
        for name, value in found.launch.items()
        if name in SHARED and value is not None
    }
    out = Gathered([], [], [], [])
    for file, alone in first:
        own = {name: value for name, value in alone.launch.items() if name in SHARED and value is not None}
        known = {**launch, **own, **said}  # a log knows its own server best
        found = read(file, known, unit, mapped) if launch and (alone.runs or alone.steps) else alone
        if found.traces:
            hint = "give results with mean TTFT and TPOT, or a log of steps"
            raise ChunkcalcError("holds requests one by one, not runs", str(file), hint)
        out.runs.extend(found.runs)
        out.steps.extend(found.steps)
        out.left_out.extend(LeftOut(str(file), each.row, each.reason) for each in found.skipped)
        out.assumed.extend(each for each in found.assumed if each not in out.assumed)
    if not out.runs and not out.steps:
        reason = out.left_out[0].reason if out.left_out else "no runs and no steps"
        raise ChunkcalcError(f"no row can be read ({reason})", "rows", "see --help")
    if any(each.used for each in out.steps) and not any(each.s for each in out.steps):
        out.assumed.append(NO_CONTEXT)
    return out
