"""The replay against vLLM's own traces: every request's TTFT and TPOT.

    python benchmarks/trace_replay.py EVIDENCE_FOLDER

replays traces/vllm_traces.csv with the budget and the limit of requests it was recorded with. The two
RTX PRO 6000 of the 32B runs talk through the host: 16 GB/s and 20 us, as measured there.
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from pathlib import Path
from statistics import fmean

from chunkcalc.answer.question import Question
from chunkcalc.answer.replay import scheduler_for, simulate
from chunkcalc.answer.resolve import resolve
from chunkcalc.traffic.arrivals import Request

LINK = {"link": 16e9, "link_latency": 20e-6}


def table(folder: Path) -> str:
    """The table, in Markdown.

    Parameters
    ----------
    folder : the evidence folder
    """
    runs = defaultdict(list)
    with (folder / "traces" / "vllm_traces.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            runs[row["model"], int(row["tp"]), int(row["max_num_batched_tokens"]), int(row["max_num_seqs"])].append(row)
    lines = ["| trace | requests | mean TTFT | mean TPOT | TPOT, request by request |", "|---|---:|---:|---:|---:|"]
    for (model, tp, budget, most), rows in runs.items():
        question = Question(
            model=model, gpu="rtx-pro-6000", tp=tp, prompt=round(fmean(int(row["input"]) for row in rows)),
            output=round(fmean(int(row["output"]) for row in rows)), **(LINK if tp > 1 else {}),  # type: ignore[arg-type]
        )  # fmt: skip
        case = resolve(question)
        requests = [Request(float(row["arrival_s"]), int(row["input"]), int(row["output"])) for row in rows]
        served = simulate(case, requests, scheduler_for(case, budget, most)).served
        ttft = fmean(1e3 * (each.ttft or 0.0) for each in served) / fmean(float(row["ttft_ms"]) for row in rows)
        tpot = fmean(1e3 * (each.tpot or 0.0) for each in served) / fmean(float(row["tpot_ms"]) for row in rows)
        single = fmean(
            abs(1e3 * (each.tpot or 0.0) / float(row["tpot_ms"]) - 1) for each, row in zip(served, rows, strict=True)
        )
        lines.append(
            f"| {model}, tp {tp}, RTX PRO 6000 | {len(rows)} | {100 * (ttft - 1):+.1f} % | {100 * (tpot - 1):+.1f} % "
            f"| {100 * single:.1f} % |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(Path(sys.argv[1])))
