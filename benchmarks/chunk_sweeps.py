"""What a change of the chunk or budget did to served latencies, against what is predicted.

    python benchmarks/chunk_sweeps.py EVIDENCE_FOLDER

Each source of sweeps/chunk_sweeps.csv that gives a latency at two chunks of a deployment that can be modelled:
every chunk against its first one, and the prediction over the measurement. The others are named with the reason.
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from chunkcalc.answer.question import Question
from chunkcalc.answer.resolve import Case, resolve
from chunkcalc.catalog.lookup import load_hardware
from chunkcalc.time.prefill import Prefill
from chunkcalc.time.service import request_overhead
from chunkcalc.time.step import StepTimer
from chunkcalc.traffic.closed_loop import Bench, closed_loop

MANY = 100  # requests per user: a steady state
BESIDE = (
    1100.0  # context of decodes beside a prompt, which no source states: prompts of 1,000 tokens and an answer [token]
)
SHOWN = {"ttft": "TTFT", "token": "TPOT", "longest": "longest gap"}


@dataclass(frozen=True)
class Sweep:
    """What a source's deployment is taken for.

    asked : of `Question`, beside lengths
    load : `alone`, `beside` (one prompt beside decodes), `users` (a closed loop)
    users : decodes, or users [1]
    notes : what was assumed and what is not modelled
    columns : latency -> column of the file
    """

    asked: Mapping[str, Any]
    load: str
    notes: str
    users: int = 0
    columns: Mapping[str, str] = field(default_factory=lambda: {"ttft": "ttft_ms"})


IMP = "engine imp as vLLM, GPU not stated: RTX 5090 assumed"
SWEEPS: Mapping[tuple[str, str], Sweep] = {
    ("TensorRT-LLM", "serve"): Sweep(
        {"model": "llama-3.3-70b", "gpu": "h100-sxm", "tp": 4, "engine": "trtllm"}, "users",
        "one user: TTFT and TPOT are those of a lone request, the throughput is another run's. Beside decodes a prompt "
        "of 2,048 would take two steps of a budget of 2,048", 1, {"ttft": "ttft_ms", "token": "tpot_or_itl_ms"},
    ),
    ("vLLM branch", "prefill"): Sweep(
        {"model": "qwen3-30b-a3b", "gpu": "h100-sxm", "tp": 4, "weights": "fp8", "engine": "vllm"}, "alone",
        "context-parallel prefill as tensor parallel; its collectives per chunk are not modelled",
    ),
    ("vLLM", "prefill"): Sweep(
        {"model": "deepseek-v4-flash", "gpu": "gb10", "tp": 2, "engine": "vllm"}, "alone",
        "no kernel of GB10 was measured; two hosts joined by Ethernet",
    ),
    ("imp Qwen3-14B NVFP4", "mixed-iteration"): Sweep(
        {"model": "qwen3-14b", "gpu": "rtx-5090", "weights": "nvfp4", "engine": "vllm"}, "beside", IMP, 31,
        {"ttft": "ttft_ms", "longest": "itl_p99_or_max_ms"},
    ),
    ("imp Qwen3-14B NVFP4", "serve"): Sweep(
        {"model": "qwen3-14b", "gpu": "rtx-5090", "weights": "nvfp4", "engine": "vllm"}, "users",
        f"{IMP}; its TTFT is p90 and its gap p95, ours are means", 32,
        {"ttft": "ttft_ms", "token": "tpot_or_itl_ms"},
    ),
    ("imp Qwen3.8-27B hybrid", "mixed-iteration"): Sweep(
        {"model": "qwen3.5-27b", "gpu": "rtx-5090", "weights": "nvfp4", "engine": "vllm"}, "beside",
        f"{IMP}; shaped like qwen3.5-27b, weights not stated: nvfp4 assumed", 31,
        {"ttft": "ttft_ms", "longest": "itl_p99_or_max_ms"},
    ),
    ("imp Qwen3.8-27B hybrid", "serve"): Sweep(
        {"model": "qwen3.5-27b", "gpu": "rtx-5090", "weights": "nvfp4", "engine": "vllm"}, "users",
        f"{IMP}; shaped like qwen3.5-27b, weights not stated: nvfp4 assumed; its TTFT is p90, its gap the largest", 32,
        {"ttft": "ttft_ms", "longest": "itl_p99_or_max_ms"},
    ),
}  # fmt: skip
LEFT_OUT = {
    "pegainfer": "one prompt without chunks per row; `RTX 5070 Ti class` names no GPU",
    "SGLang 0.5.13": "see SGLang 0.5.14",
    "SGLang 0.5.14": "the GPU is not named, more arrives than is served, and the version changed with the chunk",
    "custom CP": "context-parallel prefill over 8 L20X, a GPU without a profile",
    "mlx-vlm": "Apple silicon has no profile",
    "vLLM fork": "the same chunk on two attention kernels",
    "vLLM-Ascend": "one attention kernel, no chunk",
    "vLLM serve": "one budget; its longest gaps are in longest_step.py",
    "vLLM 0.11.0": "one budget; its longest gaps are in longest_step.py",
}


def predicted(sweep: Sweep, case: Case, prompt: int, output: int, chunk: int, users: int) -> dict[str, float]:
    """TTFT, time per token and longest gap at a chunk [s]."""
    deployment = case.deployment
    timer = StepTimer(deployment)
    if sweep.load == "users":
        bench = Bench(prompt=prompt, output=output, users=users, requests=MANY * users, budget=chunk)
        found = closed_loop(timer, bench)
        return {"ttft": found.ttft, "token": found.tpot, "longest": found.longest}
    beside = float(users) if sweep.load == "beside" else 0.0
    prefill = Prefill(timer.expected, prompt, 0, beside, BESIDE)
    ttft = prefill.total(chunk) + request_overhead(deployment, prompt)
    return {"ttft": ttft, "longest": prefill.longest_step(min(chunk, prompt))}


def _sweep(row: Mapping[str, str]) -> Sweep | None:
    engine = row["engine"]
    return SWEEPS.get((engine, row["kind"])) or SWEEPS.get((f"{engine} {row['model']}", row["kind"]))


def table(folder: Path) -> str:
    """The table, in Markdown.

    Parameters
    ----------
    folder : the evidence folder
    """
    groups: dict[tuple[str, str, str], list[Mapping[str, str]]] = defaultdict(list)
    lost = set()
    with (folder / "sweeps" / "chunk_sweeps.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            if _sweep(row) is None:
                lost.add(row["engine"] if row["engine"] in LEFT_OUT else f"{row['engine']} {row['kind']}")
            else:
                groups[row["engine"], row["model"], row["kind"]].append(row)
    lines = [
        "| engine, model, load | chunk | latency | measured | predicted | change with the chunk | predicted change |",
        "|---|---:|---|---:|---:|---:|---:|",
    ]
    notes = []
    for (engine, model, kind), rows in groups.items():
        sweep = _sweep(rows[0])
        assert sweep is not None
        lines += _lines(f"{engine}, {model}, {kind}", sweep, rows)
        notes.append(f"{engine}, {model}, {kind}: {sweep.notes}")
    told = [*notes, *(f"not modelled, {each}: {LEFT_OUT.get(each, '')}" for each in sorted(lost))]
    return "\n".join([*lines, "", *(f"- {each}." for each in told)])


def _joined(asked: Mapping[str, Any]) -> dict[str, Any]:
    """A node of as many GPUs as the source joined: nothing else of the hardware is changed."""
    hardware = load_hardware(asked["gpu"]).record
    if hardware.link is None or hardware.link.gpus_per_node >= asked.get("tp", 1):
        return {}
    link = replace(hardware.link, gpus_per_node=asked["tp"], domain=asked["tp"])
    return {"gpu": replace(hardware, link=link)}


def _lines(name: str, sweep: Sweep, rows: Sequence[Mapping[str, str]]) -> list[str]:
    prompt = int(rows[0]["isl"])
    output = int(rows[0]["osl"]) if rows[0]["osl"].isdigit() and int(rows[0]["osl"]) > 1 else 64
    case = resolve(Question(prompt=prompt, output=output, ttft=1.0, **(dict(sweep.asked) | _joined(sweep.asked))))
    lines: list[str] = []
    first: dict[str, tuple[float, float]] = {}
    for row in rows:
        ours = predicted(sweep, case, prompt, output, int(row["chunk"]), sweep.users)
        for kind, column in sweep.columns.items():
            if not row[column]:
                continue
            theirs = float(row[column]) / 1e3
            base = first.setdefault(kind, (theirs, ours[kind]))
            changes = [f"{100 * (now / then - 1):+.1f} %" for now, then in zip((theirs, ours[kind]), base, strict=True)]
            if row is rows[0]:
                changes = ["", ""]
            lines.append(
                f"| {name} | {row['chunk']} | {SHOWN[kind]} | {1e3 * theirs:.4g} ms | {1e3 * ours[kind]:.4g} ms "
                f"| {changes[0]} | {changes[1]} |"
            )
    return lines


if __name__ == "__main__":
    print(table(Path(sys.argv[1])))
