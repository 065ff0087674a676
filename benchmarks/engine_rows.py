"""Benchmark rows to fit the constants of engines to: which count, and the load that each was under."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from chunkcalc.errors import ChunkcalcError
from chunkcalc.measurements import Run, read
from chunkcalc.scoring.features import Row
from chunkcalc.scoring.healthy import exclusions
from chunkcalc.scoring.served import PUBLIC, Served, Servers

# Sources whose latencies are no mean of a known load, with the reason.
DOUBTFUL = {
    "4x3090": "power limit of 220 to 300 W",
    "aieev": "a balancer in front, first-request compilation inside the run",
    "blis-eval": "repeated prompts with the prefix cache on",
    "blis-train": "repeated prompts with the prefix cache on",
    "dennislee22": "may hit the prefix cache",
    "gpustack": "requests of conversations, all at once",
    "mlperf-5.1": "near saturation",
    "sglang-jax-docs": "TTFT and ITL from separate runs, on a TPU",
}
KNOWN_LOAD = ("inferencex", "dgx-spark-djv")  # harnesses whose arrivals are known


class Measured(NamedTuple):
    """A run with what it was and whether it counts."""

    served: Served
    tpot: float | None
    ttft: float | None
    counts: bool

    @property
    def label(self) -> tuple[str, str, str]:
        """Model, GPU and engine as the file writes them: what is left out together."""
        run = self.served.run
        return run.model, run.gpu, run.engine


def measured(paths: Sequence[Path]) -> list[Measured]:
    """Every row of the tables that can be predicted.

    Medians stand in for means that were not published, of the time per token only.
    """
    out = []
    for path in paths:
        runs, servers = read(path).runs, Servers()
        left = {each.row: each.of for each in exclusions(runs)}
        for run in runs:
            try:
                served = servers.served(run)
            except ChunkcalcError:
                continue
            of = left.get(run.row, "")
            tpot = None if of in ("both", "tpot") else run.tpot or run.tpot_p50
            ttft = None if of in ("both", "ttft") else _first_token(run)
            out.append(Measured(served, tpot, ttft, counts=tpot is not None or ttft is not None))
    return out


def _first_token(run: Run) -> float | None:
    """The mean of a known load; of a user alone the median, as its ten requests hold the first ones of the server."""
    if run.source.startswith(KNOWN_LOAD):
        return run.ttft
    return run.ttft_p50 if run.concurrency == 1 else None


def rows(found: Sequence[Measured]) -> list[Row]:
    """As features: with the decodes that a public run's latencies tell, else those of all users."""
    return [Row(each.served, *_flight(each)) for each in found]


def _flight(row: Measured) -> tuple[float, float]:
    """Requests that decode at once, and in flight, on an attention rank."""
    run, bench = row.served.run, row.served.bench
    users = max(1.0, bench.users / row.served.deployment.parallelism.dp)
    stay, first = run.output_tokens * (row.tpot or run.tpot or 0.0), run.ttft or run.ttft_p50 or 0.0
    decoding = users * stay / (stay + first) if stay and first and run.source.startswith(PUBLIC) else users
    return max(1.0, min(decoding, bench.most or math.inf)), users
