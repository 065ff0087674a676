"""Benchmark rows as features: each step of a run, its kernels' time split by what an engine can change.

A fit needs the times of many steps under many trial constants. The kernels' times are linear in nearly
all of them, so they are summed once per step and constant; only attention to the cache is kept kernel
by kernel.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, get_args

import numpy as np

from chunkcalc.engines import NORM_FUSED
from chunkcalc.engines.tables import table
from chunkcalc.records import Deployment, Hardware, Kernel, Kind, Overheads
from chunkcalc.scoring.served import Served
from chunkcalc.time import roofline
from chunkcalc.time.step import StepTimer, with_host
from chunkcalc.traffic.closed_loop import Loop, Steps, first_token_time, full_step, lock_step, prompt_room, token_time
from chunkcalc.work.counts import kind

Array = np.ndarray[Any, np.dtype[np.float64]]
STEPS = ("decode", "prompt", "riding", "full")
KINDS = get_args(Kind)
PARTS = ("fixed", "launches", "narrow_expert_launches", "experts", "quantising", "arithmetic")
NUDGE = 0.1  # of the time of arithmetic, for its slope


class Row(NamedTuple):
    """A run to predict.

    served : what it was
    decoding, users : requests that decode at once, and in flight, on an attention rank [1]
    """

    served: Served
    decoding: float
    users: float


class Features:
    """Arrays over rows: sums of kernel times by step and part, counts that overheads multiply, the load.

    Parameters
    ----------
    rows : the runs
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        n = self.size = len(rows)
        self.parts = {part: np.zeros((n, len(STEPS))) for part in PARTS}
        self._cache: list[tuple[int, float, float]] = []
        self.layers, self.experts, self.latent, self.norm = np.zeros((4, n))
        self.decoding, self.users, self.asked, self.wave, self.output, self.prompt = np.zeros((6, n))
        self.together, self.ranks, self.poll, self.cold, self.chunks, self.found, self.half = np.ones((7, n))
        self.answers = np.ones((max((len(row.served.bench.answers) for row in rows), default=1), n))
        self.launched, self.replayed = np.zeros((2, n, len(STEPS)))  # layers that the host launches, or replays
        self.kinds = np.zeros(n, int)
        self.mixed = np.array([row.served.deployment.engine.composition == "mixed" for row in rows])
        for index, row in enumerate(rows):
            self._add(index, row)
        at, compute, memory = zip(*self._cache, strict=True)
        self._at, self._compute, self._bytes = np.array(at), np.array(compute), np.array(memory)

    def _add(self, index: int, row: Row) -> None:
        bench, deployment = row.served.bench, row.served.deployment
        self._count(index, deployment)
        ranks, timer = deployment.parallelism.dp, StepTimer(deployment, host=False)
        arithmetic = deployment.engine.overheads.arithmetic
        hardware = [
            roofline.served(deployment.hardware, Overheads(arithmetic=arithmetic * nudge), deployment.engine.name)
            for nudge in (1, 1 + NUDGE)
        ]
        for step, (c, b, p, prompts) in self._steps(index, row).items():
            if c > 0:
                held = self.replayed if c + b <= deployment.engine.captured else self.launched
                held[index, STEPS.index(step)] = deployment.model.layer_count
            for kernel in timer.kernels(c, p, b, bench.prompt + bench.output / 2, prompts):
                self._sum(index, STEPS.index(step), kernel, hardware[0], hardware[1])
        self.decoding[index], self.users[index] = row.decoding, row.users
        self.asked[index] = max(1.0, bench.users / ranks)
        self.wave[index] = min(1.0, row.users * ranks / max(1.0, bench.requests))
        self.output[index], self.prompt[index], self.cold[index] = bench.output, bench.prompt, bench.cold
        self.answers[:, index] = bench.answers
        self.poll[index] = deployment.engine.poll_interval
        self.ranks[index] = ranks if lock_step(deployment) else 1

    def _count(self, index: int, deployment: Deployment) -> None:
        """Layers that the overheads of a step are paid for."""
        groups, engine = deployment.model.layers, deployment.engine
        self.layers[index], self.kinds[index] = deployment.model.layer_count, KINDS.index(kind(deployment.model))
        self.experts[index] = sum(group.count for group in groups if group.ffn.kind == "moe")
        self.latent[index] = sum(group.count for group in groups if group.attention.kind == "mla")
        fused = engine.name != "vllm" or table(engine.name, engine.version).since(NORM_FUSED)
        if deployment.parallelism.tp > 1 and not fused:
            self.norm[index] = sum(group.count for group in groups if getattr(group.attention, "norm_all", False))

    def _steps(self, index: int, row: Row) -> dict[str, tuple[float, ...]]:
        """(prompt tokens, decodes, cached tokens, prompts) of each kind of step; chunks merged at their mean place."""
        bench, mixed, decoding = row.served.bench, bool(self.mixed[index]), row.decoding
        beside, room, found = prompt_room(row.served.deployment.engine, bench, decoding)
        chunks = math.ceil(bench.prompt / room) if found == 1 else 1
        carried, cached, half = full_step(bench, row.users, mixed=mixed)
        self.chunks[index], self.found[index], self.half[index] = chunks, found, half
        self.together[index] = carried / bench.prompt
        size = bench.prompt * found / chunks
        steps: dict[str, tuple[float, ...]] = {"decode": (0.0, decoding, 0.0, 1.0)}
        steps["full"] = (carried, half, cached, max(1.0, carried / bench.prompt))
        steps["prompt"] = (size, beside, (chunks - 1) / 2 * size, found)
        if beside:
            steps["riding"] = (0.0, beside, 0.0, 1.0)
        return steps

    def _sum(self, row: int, step: int, kernel: Kernel, hardware: Hardware, slower: Hardware) -> None:
        """A kernel's time into the part that an engine can change; those of prompts once per chunk."""
        launches = float(kernel.launches)
        if not launches:
            return
        if kernel.form in ("allreduce", "handover"):
            self.parts["fixed"][row, step] += roofline.seconds(kernel, hardware)
            return
        key = f"{kernel.form}.{kernel.dtype}"
        found = hardware.efficiency[key]
        busy = _busy(kernel, hardware, key)
        launch = found.latency * launches
        moved = found.activations * float(kernel.activation_bytes) / hardware.bandwidth * launches
        if kernel.form == "moe":
            narrow = key in roofline.NARROW_EXPERTS
            self.parts["narrow_expert_launches" if narrow else "fixed"][row, step] += launch
            self.parts["experts"][row, step] += busy
            self.parts["fixed"][row, step] += moved
        else:
            self.parts["launches"][row, step] += launch
            self.parts["quantising" if kernel.form == "gemm" else "fixed"][row, step] += moved
            if kernel.form in roofline.CACHE_FORMS:
                self._attention(row * len(STEPS) + step, kernel, hardware, key)
                return
            self.parts["fixed"][row, step] += busy
        self.parts["arithmetic"][row, step] += (_busy(kernel, slower, key) - busy) / NUDGE

    def _attention(self, place: int, kernel: Kernel, hardware: Hardware, key: str) -> None:
        """Attention to the cache: its arithmetic and its traffic."""
        found = hardware.efficiency[key]
        idle = {**hardware.efficiency, key: found._replace(latency=0.0, activations=0.0, memory=1.0)}
        memory = kernel.bytes / (found.memory * hardware.bandwidth) * kernel.launches
        compute = roofline.seconds(kernel._replace(bytes=0.0), replace(hardware, efficiency=idle))
        self._cache.append((place, float(compute), float(memory)))

    def kernels(self, shares: Mapping[str, Array]) -> Array:
        """Time of each row's steps under shares by part.

        Parameters
        ----------
        shares : values by row; `cache` is that of the cache's bandwidth, `arithmetic` over that of the deployment [1]

        Returns
        -------
        times, by row and step [s]
        """
        n = self.size
        cache = np.maximum(self._compute, self._bytes / shares["cache"][self._at // len(STEPS)])
        summed = np.bincount(self._at, weights=cache, minlength=n * len(STEPS)).reshape(n, len(STEPS))
        total: Array = np.asarray(summed, float)
        for part, values in self.parts.items():
            if part == "arithmetic":
                total = total + (values * (shares[part][:, None] - 1) if part in shares else 0.0)
            else:
                total = total + values * (shares[part][:, None] if part in shares else 1.0)
        return total

    def predict(self, held: Mapping[str, Array]) -> tuple[Array, Array]:
        """TPOT and TTFT of every row.

        Parameters
        ----------
        held : constants of `records.Overheads` by name, a value per row; `arithmetic` over that of the
            deployment, `cold` as of `closed.Loop`

        Returns
        -------
        times [s]
        """
        decode, prompt, riding, full = self.kernels(held).T
        always = (
            self.layers * held["decode_layer"] + self.experts * held["expert_layer"] + self.norm * held["norm_layer"]
        )
        launching = np.choose(self.kinds, [held[f"host_{each}"] for each in KINDS])
        host = self.launched * launching[:, None] + self.replayed * np.minimum(held["host_graph"], launching)[:, None]
        beside = np.where(self.mixed, np.maximum(self.decoding - 1, 0), 0.0)

        def step(name: str, time: Array, decodes: Array) -> Array:
            return np.asarray(with_host(time + always + held["sequence"] * decodes, host[:, STEPS.index(name)]))

        decode = decode + always + held["sequence"] * self.decoding
        prompt = self.chunks * step("prompt", prompt, beside)
        riding = np.where(beside > 0, self.chunks * (riding + always + held["sequence"] * beside), 0.0)
        steps = Steps(decode, prompt, np.maximum(1e-9, prompt - riding) / self.found, step("full", full, self.half))
        cold = np.where(self.cold > 1, held["cold"], 1.0)
        rest = held["request"] + held["latent_request"] * self.latent + held["prompt_token"] * self.prompt
        loop = Loop(
            self.users, self.wave, self.output, self.together, self.mixed, self.ranks, self.poll, rest, cold,
            tuple(self.answers),
        )  # fmt: skip
        tpot, ttft = token_time(steps, loop, self.decoding), first_token_time(steps, loop, self.decoding)
        return tpot, ttft + (self.asked / self.users - 1) * (self.output * tpot + ttft)


def _busy(kernel: Kernel, hardware: Hardware, key: str) -> float:
    """A kernel's time without launches and moves [s]."""
    bare = {**hardware.efficiency, key: hardware.efficiency[key]._replace(latency=0.0, activations=0.0)}
    return float(roofline.seconds(kernel, replace(hardware, efficiency=bare)))
