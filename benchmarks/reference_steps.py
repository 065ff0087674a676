"""Expected step times against composed kernel measurements, without any engine overhead.

    python benchmarks/reference_steps.py EVIDENCE_FOLDER

prints a Markdown table: mean absolute percentage error, median, bias by GPU and by regime.
"""

from __future__ import annotations

import csv
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

from chunkcalc.catalog.lookup import load_hardware, load_model
from chunkcalc.engines import engine_for
from chunkcalc.records import Deployment, Format, KvFormat, Parallelism, Precision
from chunkcalc.time.step import StepTimer

GPUS = {
    "h100_sxm": "h100-sxm", "h200_sxm": "h200-sxm", "b200_sxm": "b200", "a100_sxm": "a100-sxm4-80gb",
    "l40s": "l40s", "rtx_pro_6000_server": "rtx-pro-6000",
}  # fmt: skip
DTYPES = {"bfloat16": "bf16", "fp8": "fp8", "nvfp4": "nvfp4"}


def errors(folder: Path) -> list[tuple[dict[str, str], float]]:
    """(row, predicted / reference - 1) of every reference step."""
    out = []
    with (folder / "steps" / "reference_steps.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            hardware = load_hardware(GPUS[row["gpu"]]).record
            model = load_model(row["model"].lower()).record
            engine = engine_for("vllm", hardware)
            joint = row["attn_source"] == "joint_measured"
            dtype = cast(Format, DTYPES[row["dtype"]])  # of every product, with one scale per tensor in fp8
            deployment = Deployment(
                model=model, hardware=hardware, parallelism=Parallelism(tp=int(row["tp"])),
                precision=Precision(
                    weights=dtype, kv=cast(KvFormat, DTYPES[row["kv"]]), attention=dtype, dense=dtype, experts=dtype,
                    shared=dtype,
                ),
                engine=replace(engine, attention="unified" if joint else "split"),
            )  # fmt: skip
            c, p, b, s = (int(row[key]) for key in "cpbs")
            timer = StepTimer(deployment, host=False)
            out.append((row, timer.expected(c, p, b, s) * 1e3 / float(row["t_ref_ms"]) - 1))
    return out


def table(rows: list[tuple[dict[str, str], float]]) -> str:
    """The errors as a Markdown table."""
    groups: dict[str, list[float]] = defaultdict(list)
    keys: list[Callable[[dict[str, str]], str]] = [
        lambda row: "all",
        lambda row: GPUS[row["gpu"]],
        lambda row: f"{DTYPES[row['dtype']]} weights",
        lambda row: f"regime: {row['regime'].replace('_', ' ')}",
    ]
    for key in keys:
        for row, error in rows:
            groups[key(row)].append(error)
    lines = ["| steps | n | MAPE % | median % | bias % |", "|---|---|---|---|---|"]
    for key, found in groups.items():
        sizes = [abs(error) for error in found]
        numbers = (statistics.mean(sizes), statistics.median(sizes), statistics.median(found))
        lines.append(f"| {key} | {len(found)} | " + " | ".join(f"{100 * x:.1f}" for x in numbers) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(table(errors(Path(sys.argv[1]))))
