"""The closed forms of `chunkcalc/traffic` against the replay, over engines, prompts and utilisations.

    python benchmarks/load_table.py

prints the table of docs/load.md. Both are timed by the same steps, so what differs is queueing alone.
"""

from __future__ import annotations

from statistics import fmean
from typing import NamedTuple

from chunkcalc.answer.question import Question
from chunkcalc.answer.replay import Simulation, simulate
from chunkcalc.answer.resolve import Case, resolve
from chunkcalc.time.service import request_overhead
from chunkcalc.time.step import StepTimer
from chunkcalc.traffic.arrivals import Request, burst, poisson
from chunkcalc.traffic.flow import Flow, Traffic
from chunkcalc.traffic.scheduler import Scheduler
from chunkcalc.traffic.users import scheduler_for, stepped

UTILISATIONS = (0.2, 0.4, 0.6, 0.8, 0.85)
USERS = (4, 16, 48)
SEEDS = (3, 4, 5)
MANY = 4096  # requests in flight: no limit here
SLACK = 2.0  # times the unloaded figures: the limits of the highest rate


class Setup(NamedTuple):
    """A deployment, its lengths and its budget."""

    engine: str
    model: str
    tp: int
    prompt: int
    output: int
    budget: int
    mixed_chunk: bool = False


SETUPS = (
    Setup("vllm", "llama-3.1-8b", 1, 4000, 300, 1024),
    Setup("vllm", "llama-3.1-8b", 1, 1000, 300, 2048),
    Setup("vllm", "llama-3.1-8b", 1, 500, 200, 8192),
    Setup("vllm", "qwen3-32b", 2, 8000, 400, 2048),
    Setup("sglang", "llama-3.1-8b", 1, 4000, 300, 4096),
    Setup("sglang", "llama-3.1-8b", 1, 1000, 300, 8192),
    Setup("sglang", "qwen3-32b", 2, 6000, 300, 4096),
    Setup("sglang", "llama-3.1-8b", 1, 3000, 300, 1024, True),
    Setup("trtllm", "llama-3.1-8b", 1, 2000, 300, 2048),
    Setup("vllm", "qwen3-32b", 4, 3000, 600, 1536),
    Setup("vllm", "llama-3.1-8b", 1, 2000, 200, 512),
    Setup("trtllm", "llama-3.1-8b", 1, 6000, 500, 3072),
    Setup("vllm", "gpt-oss-120b", 1, 4000, 400, 1024),
    Setup("sglang", "qwen3-30b-a3b", 1, 2000, 400, 4096),
)


def case_of(setup: Setup) -> Case:
    """The deployment of a setup, on H100.

    Parameters
    ----------
    setup : the setup
    """
    return resolve(
        Question(model=setup.model, gpu="h100-sxm", tp=setup.tp, engine=setup.engine, prompt=setup.prompt,
                 output=setup.output, mixed_chunk=setup.mixed_chunk)
    )  # fmt: skip


class Seen(NamedTuple):
    """What requests saw in their steady state [s]."""

    ttft: float
    tpot: float
    ttft_p95: float


class Judge:
    """A setup, by closed form and by replay.

    Parameters
    ----------
    setup : the setup
    """

    def __init__(self, setup: Setup) -> None:
        self.setup, self.case = setup, case_of(setup)
        self.timer = StepTimer(self.case.deployment, 0)
        self.traffic = Traffic(self.case.deployment, self.case.workload, setup.budget, self.timer, most=MANY)
        self.scheduler = Scheduler(
            budget=setup.budget, most_running=MANY, mixed=self.traffic.mixed,
            request_overhead=request_overhead(self.case.deployment, self.case.workload.prompt),
        )  # fmt: skip

    def replayed(self, rate: float, seed: int = SEEDS[0]) -> Seen:
        """What the replay gives at a rate.

        Parameters
        ----------
        rate : of arrivals [request/s]
        seed : of the draws
        """
        count = int(min(6000, max(3000, 150 * rate)))
        requests = poisson(rate, count, self.setup.prompt, self.setup.output, seed)
        return seen(simulate(self.case, requests, self.scheduler, self.timer), count // 5, 0)

    def with_users(self, users: int) -> Seen:
        """What the replay gives with users; answers of unequal length, so that they do not march in step.

        Parameters
        ----------
        users : how many
        """
        scheduler = scheduler_for(self.case.deployment, self.case.workload, self.setup.budget, MANY)
        drawn = burst(max(300, 30 * users), self.setup.output, 1, 1, spread=0.1)
        requests = [Request(0.0, self.setup.prompt, max(2, each.prompt)) for each in drawn]
        return seen(simulate(self.case, requests, scheduler, self.timer, users), 2 * users, users)

    def at_utilisation(self, utilisation: float) -> float | None:
        """The rate that makes a utilisation; None where the steady state is lost before.

        Parameters
        ----------
        utilisation : of the prefill [1]
        """
        rate = self.traffic.highest(lambda flow: flow.utilisation <= utilisation)
        flow = self.traffic.at_rate(rate)
        return rate if flow is not None and flow.utilisation > utilisation - 0.01 else None

    def highest(self) -> tuple[float, float]:
        """The highest rate within twice the unloaded figures, by closed form and by replay."""
        alone = self.traffic.with_users(1)

        def keeps(flow: Flow | Seen) -> bool:
            return flow.ttft <= SLACK * alone.ttft and flow.tpot <= SLACK * alone.tpot

        found = self.traffic.highest(keeps)
        low, high = 0.3 * found, min(1.6 * found, 0.99 * self.traffic.limit())
        for _ in range(7):
            middle = (low + high) / 2
            runs = [self.replayed(middle, seed) for seed in SEEDS]
            mean = Seen(*(fmean(values) for values in zip(*runs, strict=True)))
            low, high = (middle, high) if keeps(mean) else (low, middle)
        return found, (low + high) / 2


def seen(found: Simulation, first: int, last: int) -> Seen:
    """Means over the requests of a steady state.

    Parameters
    ----------
    found : a replay
    first, last : requests left out at either end
    """
    kept = [each for each in found.served[first : len(found.served) - last] if each.ttft and each.tpot]
    times = sorted(each.ttft for each in kept if each.ttft)
    return Seen(fmean(times), fmean(each.tpot for each in kept if each.tpot), times[int(0.95 * len(times))])


def table() -> str:
    """The table, in Markdown: closed form over replay, less one."""
    rows = ["| engine, model, prompt/output, budget | load | utilisation | TPOT | TTFT | p95 TTFT |",
            "|---|---|---:|---:|---:|---:|"]  # fmt: skip
    for setup in SETUPS:
        judge = Judge(setup)
        name = f"{setup.engine}{' mixed' if setup.mixed_chunk else ''}, {setup.model}"
        name += f", {setup.prompt}/{setup.output}, {setup.budget}"
        for utilisation in UTILISATIONS:
            rate = judge.at_utilisation(utilisation)
            flow = None if rate is None else judge.traffic.at_rate(rate)
            if rate is None or flow is None:
                continue
            runs = [judge.replayed(rate, seed) for seed in SEEDS]
            real = Seen(*(fmean(values) for values in zip(*runs, strict=True)))
            rows.append(_row(name, f"{rate:.2f}/s", flow, real))
        for users in USERS:
            rows.append(_row(name, f"{users} users", stepped(judge.traffic, users), judge.with_users(users)))
        ours, theirs = judge.highest()
        rows.append(f"| {name} | highest rate {ours:.2f}/s | {100 * (ours / theirs - 1):+.0f} % | | | |")
    return "\n".join(rows)


def _row(name: str, load: str, flow: Flow, real: Seen) -> str:
    errors = (flow.tpot / real.tpot, flow.ttft / real.ttft, flow.ttft_quantile(0.95) / real.ttft_p95)
    cells = " | ".join(f"{100 * (error - 1):+.0f} %" for error in errors)
    return f"| {name} | {load} | {flow.utilisation:.2f} | {cells} |"


if __name__ == "__main__":
    print(table())
