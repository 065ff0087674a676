"""Benchmark rows as features: each step of a run, its kernels' time split by what an engine can change.

A fit needs the times of thousands of steps under many trial constants. The kernels' times are linear in
nearly all of them, so they are summed once per step and constant; only attention to the cache is kept
kernel by kernel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from chunkcalc import roofline
from chunkcalc.closed import full_step
from chunkcalc.engines import NORM_FUSED
from chunkcalc.engines.tables import VERSION, order
from chunkcalc.errors import ChunkcalcError
from chunkcalc.measurements import Run, read
from chunkcalc.records import Efficiency, Hardware, Kernel, Overheads
from chunkcalc.scoring.healthy import exclusions
from chunkcalc.scoring.served import PUBLIC, Served, Servers
from chunkcalc.step import StepTimer

Array = np.ndarray
STEPS = ("decode", "prompt", "riding", "full")
PARTS = ("fixed", "launches", "narrow_expert_launches", "experts", "products", "quantising")


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
    """The mean of a public run; of a user alone the median, as its ten requests hold the first ones of the server."""
    if run.source.startswith(PUBLIC):
        return run.ttft
    return run.ttft_p50 if run.concurrency == 1 else None


class Features:
    """Arrays over rows: sums of kernel times by step and part, counts that overheads multiply, the load."""

    def __init__(self, rows: Sequence[Measured]) -> None:
        self.rows = rows
        n = len(rows)
        self.parts = {part: np.zeros((n, len(STEPS))) for part in PARTS}
        self._cache: list[tuple[int, float, float]] = []
        self.layers, self.experts, self.latent, self.norm = np.zeros((4, n))
        self.decoding, self.users, self.wave, self.output, self.prompt = np.zeros((5, n))
        self.together, self.ranks, self.poll, self.cold, self.chunks, self.found, self.half = np.ones((7, n))
        self.mixed = np.array([row.served.deployment.engine.composition == "mixed" for row in rows])
        for index, row in enumerate(rows):
            self._add(index, row)
        at, compute, memory = zip(*self._cache, strict=True)
        self._at, self._compute = np.array(at), np.array(compute)
        self._bytes = np.array(memory)

    def _add(self, index: int, row: Measured) -> None:
        run, bench, deployment = row.served.run, row.served.bench, row.served.deployment
        timer = StepTimer(deployment, host=False)
        hardware = roofline.served(deployment.hardware, Overheads(arithmetic=deployment.engine.overheads.arithmetic))
        groups, ranks = deployment.model.layers, deployment.parallelism.dp
        self.layers[index] = deployment.model.layer_count
        self.experts[index] = sum(group.count for group in groups if group.ffn.kind == "moe")
        self.latent[index] = sum(group.count for group in groups if group.attention.kind == "mla")
        if deployment.parallelism.tp > 1 and deployment.engine.name == "vllm" and _before(run):
            self.norm[index] = sum(group.count for group in groups if getattr(group.attention, "norm_all", False))
        users = max(1.0, bench.users / ranks)
        stay, first = run.output_tokens * (row.tpot or run.tpot or 0.0), run.ttft or run.ttft_p50 or 0.0
        decoding = users * stay / (stay + first) if stay and first and run.source.startswith(PUBLIC) else users
        decoding = max(1.0, min(decoding, bench.most or math.inf))
        for step, (c, b, p, prompts) in self._steps(index, row, decoding, users).items():
            for kernel in timer.kernels(c, p, b, bench.prompt + bench.output / 2, prompts):
                self._sum(index, STEPS.index(step), kernel, hardware)
        self.decoding[index], self.users[index] = decoding, users
        self.wave[index] = min(1.0, users * ranks / max(1.0, bench.requests))
        self.output[index], self.prompt[index], self.cold[index] = bench.output, bench.prompt, bench.cold
        self.poll[index] = deployment.engine.poll_interval
        moe = self.experts[index] > 0
        self.ranks[index] = ranks if moe and ranks > 1 and deployment.engine.name != "trtllm" else 1

    def _steps(self, index: int, row: Measured, decoding: float, users: float) -> dict[str, tuple[float, ...]]:
        """(prompt tokens, decodes, cached tokens, prompts) of each kind of step; chunks merged at their mean place."""
        bench, mixed = row.served.bench, bool(self.mixed[index])
        room = max(1.0, bench.budget - (decoding if mixed else 0.0))
        if bench.whole:
            room = max(room, bench.prompt)
        beside = max(0.0, decoding - 1) if mixed else 0.0
        poll = row.served.deployment.engine.poll_interval
        found = 1.0 if mixed else max(1.0, min(decoding * poll / bench.output, room / bench.prompt))
        chunks = math.ceil(bench.prompt / room) if found == 1 else 1
        carried, cached, half = full_step(bench, users, mixed=mixed)
        self.chunks[index], self.found[index], self.half[index] = chunks, found, half
        self.together[index] = carried / bench.prompt
        size = bench.prompt * found / chunks
        steps = {"decode": (0.0, decoding, 0.0, 1.0), "full": (carried, half, cached, max(1.0, carried / bench.prompt))}
        steps["prompt"] = (size, beside, (chunks - 1) / 2 * size, found)
        if beside:
            steps["riding"] = (0.0, beside, 0.0, 1.0)
        return steps

    def _sum(self, row: int, step: int, kernel: Kernel, hardware: Hardware) -> None:
        """A kernel's time into the part that an engine can change; those of prompts once per chunk."""
        launches = float(kernel.launches)
        if not launches:
            return
        if kernel.form in ("allreduce", "handover"):
            self.parts["fixed"][row, step] += roofline.seconds(kernel, hardware)
            return
        key = f"{kernel.form}.{kernel.dtype}"
        found = hardware.efficiency[key]
        bare = {**hardware.efficiency, key: found._replace(latency=0.0, activations=0.0)}
        busy = float(roofline.seconds(kernel, _with(hardware, bare)))
        launch = found.latency * launches
        moved = found.activations * float(kernel.activation_bytes) / hardware.bandwidth * launches
        if kernel.form == "moe":
            narrow = key in roofline.NARROW_EXPERTS
            self.parts["narrow_expert_launches" if narrow else "fixed"][row, step] += launch
            self.parts["experts"][row, step] += busy
            self.parts["fixed"][row, step] += moved
            return
        self.parts["launches"][row, step] += launch
        self.parts["quantising" if kernel.form == "gemm" else "fixed"][row, step] += moved
        if kernel.form in roofline.CACHE_FORMS:
            idle = {**hardware.efficiency, key: found._replace(latency=0.0, activations=0.0, memory=1.0)}
            memory = kernel.bytes / (found.memory * hardware.bandwidth) * launches
            compute = float(roofline.seconds(kernel._replace(bytes=0.0), _with(hardware, idle)))
            self._cache.append((row * len(STEPS) + step, compute, float(memory)))
        else:
            self.parts["products" if kernel.form == "gemm" else "fixed"][row, step] += busy

    def kernels(self, shares: dict[str, Array]) -> Array:
        """Time of each row's steps [row, step] under shares by part; `cache` is that of the cache's bandwidth."""
        n = len(self.rows)
        cache = np.maximum(self._compute, self._bytes / shares["cache"][self._at // len(STEPS)])
        total = np.bincount(self._at, weights=cache, minlength=n * len(STEPS)).reshape(n, len(STEPS))
        for part, values in self.parts.items():
            total = total + values * (shares[part][:, None] if part in shares else 1.0)
        return total


def _with(hardware: Hardware, efficiency: dict[str, Efficiency]) -> Hardware:
    return replace(hardware, efficiency=efficiency)


def _before(run: Run) -> bool:
    """Whether the engine is older than the fused norm of queries and keys."""
    return bool(VERSION.fullmatch(run.engine_version)) and order(run.engine_version) < order(NORM_FUSED)
