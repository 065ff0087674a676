"""A benchmark run replayed request by request: its lengths drawn as its harness drew them."""

from __future__ import annotations

import math
import random
from dataclasses import replace

from chunkcalc.arrivals import Request
from chunkcalc.capacity import IN_FLIGHT, capacity
from chunkcalc.closed import LARGEST_CHUNK
from chunkcalc.lengths import draw
from chunkcalc.load import request_overhead
from chunkcalc.records import Workload
from chunkcalc.replay import GAP, Replay, Scheduler, StepTime, replay
from chunkcalc.scoring.served import Served
from chunkcalc.step import StepTimer

WIDE = 1.0  # coefficient of variation of the lengths of real conversations
SEED = 7


def requests_of(served: Served, most: int | None = None) -> list[Request]:
    """The requests of a run: uniform lengths, or those of conversations.

    Parameters
    ----------
    served : the run
    most : requests that are enough
    """
    run, draws = served.run, random.Random(SEED)
    count = max(1, round(min(served.bench.requests, most or math.inf)))
    ratio = 1.0 if run.least_ratio is None else run.least_ratio

    def length(mean: float) -> int:
        if run.wide:
            return max(2, draw(draws, mean, WIDE))
        longest = mean * 2 / (1 + ratio)
        return max(2, round(draws.uniform(ratio * longest, longest)))

    return [Request(0.0, length(run.prompt_tokens), length(run.output_tokens)) for _ in range(count)]


def scheduler_of(served: Served, prompt: int) -> Scheduler:
    """How the server composes the steps of one attention rank.

    Parameters
    ----------
    served : the run
    prompt : the longest [token]
    """
    deployment, bench = served.deployment, served.bench
    long, answer = math.ceil(bench.prompt), max(2, math.ceil(bench.output))
    held = Workload(prompt=long, output=answer, batch=1, context=long + answer // 2)
    tokens = capacity(deployment, held, min(LARGEST_CHUNK, math.floor(bench.budget))).kv_tokens
    return Scheduler(
        budget=max(1, math.floor(max(bench.budget, prompt) if bench.whole else bench.budget)),
        most_running=IN_FLIGHT if bench.most is None else math.floor(bench.most),
        kv_tokens=None if tokens is None else tokens // deployment.parallelism.dp,
        mixed=deployment.engine.composition == "mixed", whole=bench.whole,
        interval=deployment.engine.prefill_interval, reserve=deployment.engine.name == "trtllm",
        request_overhead=request_overhead(deployment, bench.prompt),
    )  # fmt: skip


def replayed(served: Served, step: StepTime | None = None, most: int | None = None) -> Replay:
    """One attention rank of a closed loop from the moment that all its users send at once.

    Parameters
    ----------
    served : the run
    step : time of a step, in place of the deployment's own
    most : requests of the replica that are enough
    """
    ranks = served.deployment.parallelism.dp
    requests = requests_of(served, most)[::ranks]
    users = max(1, min(round(served.bench.users / ranks), len(requests)))
    scheduler = scheduler_of(served, max(request.prompt for request in requests))
    return replay(requests, step or served.timer.expected, scheduler, users)


class Variants:
    """Steps of a deployment whose engine adds other times to its prompt steps.

    Parameters
    ----------
    served : the run
    """

    def __init__(self, served: Served) -> None:
        self._deployment = deployment = served.deployment
        engine = deployment.engine
        self.overheads = engine.overheads
        bare = replace(engine, overheads=engine.overheads._replace(least_prompt_layer=0.0))
        self._timer = StepTimer(replace(deployment, engine=bare))
        self._times: dict[tuple[float, ...], float] = {}
        self._layers = deployment.model.layer_count
        self._experts = sum(group.count for group in deployment.model.layers if group.ffn.kind == "moe")

    def step(self, layer: float | None = None, least: float | None = None) -> StepTime:
        """The time of a step, given the host's per layer and the least per expert layer of prompt steps.

        Parameters
        ----------
        layer, least : `Overheads.prompt_layer` and `least_prompt_layer`; None for the engine's own [s]
        """
        own, decode = max(self.overheads.prompt_layer, self.overheads.decode_layer), self.overheads.decode_layer
        more = 0.0 if layer is None else self._layers * (max(layer, decode) - own)
        floor = self._experts * (self.overheads.least_prompt_layer if least is None else least)
        captured = self._deployment.engine.captured

        def time(c: float, p: float, b: float, s: float, prompts: float) -> float:
            key = (c, p, b, s, prompts)
            found = self._times.get(key)
            if found is None:
                found = self._times[key] = float(self._timer.expected(c, p, b, s, prompts))
            return max(found + (more if c + b > captured else 0.0), floor) if c else found

        return time


def quantile(gaps: Replay, q: float) -> float:
    """A quantile of the gaps between two tokens of a stream [s].

    Parameters
    ----------
    gaps : a replay
    q : such as 0.99 [1]
    """
    total, seen = sum(gaps.gaps.values()), 0
    for gap, count in sorted(gaps.gaps.items()):
        seen += count
        if seen >= q * total:
            return gap * GAP
    return 0.0
