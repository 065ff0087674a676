"""A measured run as the deployment that served it and the load it was under."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from chunkcalc.answer.gateway import Gateway
from chunkcalc.answer.question import Question
from chunkcalc.answer.resolve import resolve
from chunkcalc.catalog.lookup import load_hardware, load_model
from chunkcalc.engines import default_budget
from chunkcalc.engines.dialects import dialect
from chunkcalc.engines.tables import VERSION, table
from chunkcalc.errors import ChunkcalcError
from chunkcalc.frozen import dataclass
from chunkcalc.measurements import Run
from chunkcalc.records import ENGINE_NAMES, Deployment
from chunkcalc.scoring.apart import apart, seen_before
from chunkcalc.scoring.open_loop import open_loop
from chunkcalc.scoring.server_flags import Launch, launch_for, poll_for
from chunkcalc.time.step import StepTimer
from chunkcalc.traffic.closed_loop import Bench, Closed, closed_loop
from chunkcalc.traffic.lengths import parts
from chunkcalc.work.counts import gpu_weight_bytes

# Which table of defaults holds the tokens of a step, and the largest batch.
PUBLIC = "inferencex"  # whose servers' launch scripts are known
PROFILED = "inferencex-profiling"  # a rerun with settings of its own
REQUESTS_PER_USER = 10  # of a public run, and assumed where a file does not say
# Runs that began without a warm-up met kernels and batch sizes for the first time in their first wave: the fit of
# benchmarks/fit_engines.py to them. Later ones warm the server with two requests per user.
COLD: Mapping[str, float] = {**dict.fromkeys(ENGINE_NAMES, 1.4), "sglang": 3.0}
WARM = 1.0
# Variation of the answers of conversations (ShareGPT), as a lognormal: over 19 runs of SGLang in GPUStack's tables the
# time that a wave of prompts adds per token is 4.4 times as long by request as by token (medians of serving2.csv:
# tpot_ms against itl_mean_ms, each less itl_p50_ms), which is what the lengths below give for E[1/o] E[o].
CONVERSATIONS = 2.14
ANSWERS = 16  # lengths that stand for all


Link = tuple[float | None, float | None]
NO_LINK: Link = (None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What a run was.

    run : as measured
    deployment : what served it
    timer : of the deployment, shared by its runs
    bench : its load
    launch : how well the server's launch is known
    prefill : timer of the prefill units, where these are apart
    seen : of the run's prompts, those that an earlier run of the server had sent [1]
    """

    run: Run
    deployment: Deployment
    timer: StepTimer
    bench: Bench
    launch: str
    prefill: StepTimer | None = None
    seen: int = 0


def predict(served: Served) -> Closed:
    """What the client of a run should see: a closed loop of users, or arrivals at a rate, together or apart.

    Raises
    ------
    ChunkcalcError : more arrives than is served
    """
    if served.prefill is not None:
        return apart(served.run, served.prefill, served.timer, served.bench, served.seen)
    if served.run.rate is not None:
        return open_loop(served.run, served.timer, served.bench)
    return closed_loop(served.timer, served.bench)


class Servers:
    """Deployments of runs, each resolved once.

    Parameters
    ----------
    hardware : the GPU to use instead of what a run names, for a profile of one's own; None for the catalogue's
    link : bandwidth one way per GPU [byte/s] and latency [s] of the link between GPUs, where it is known
    gateway : what stood before the engines; None for nothing
    """

    def __init__(self, hardware: Any = None, link: Link = NO_LINK, gateway: Gateway | None = None) -> None:
        self._hardware, self._link, self._gateway = hardware, link, gateway
        self._timers: dict[tuple[Any, ...], StepTimer] = {}

    def served(self, run: Run, runs: Sequence[Run] = ()) -> Served:
        """The deployment and load of a run.

        Parameters
        ----------
        run : the run
        runs : of its file

        Raises
        ------
        ChunkcalcError : an unknown name, a format that is not modelled, an open loop
        """
        if run.engine not in ENGINE_NAMES:
            hint = f"one of {', '.join(ENGINE_NAMES)}"
            raise ChunkcalcError(f"engine '{run.engine}' is not modelled", "engine", hint)
        if run.concurrency is None and run.rate is None:
            raise ChunkcalcError("neither users nor a rate of arrivals", "concurrency", "add one of the columns")
        if run.spec:
            raise ChunkcalcError("speculative decoding without its acceptance", "spec", "leave such rows out")
        launch, poll = self._launch(run)
        kv = run.kv
        if launch.kv and (kv is None or (run.source == PUBLIC and run.budget is None)):
            kv = "fp8" if launch.kv == "fp8" else "bf16"  # a file without budgets only assumed the format
        timer = self._timer(run, kv, poll)
        deployment = timer.deployment
        weights = gpu_weight_bytes(deployment.model, deployment.precision, deployment.parallelism)
        if weights > deployment.hardware.memory:
            raise ChunkcalcError(
                f"{weights / 1e9:.0f} GB of weights on each GPU of {deployment.hardware.memory / 1e9:.0f} GB",
                "tp", "the layout or the format is not the one that ran",
            )  # fmt: skip
        budget, most = self._limits(run, launch, deployment)
        public = run.source.startswith(PUBLIC)
        bench = Bench(
            prompt=run.prompt_tokens, output=run.output_tokens, users=run.concurrency or 1,
            requests=_requests(run),
            budget=budget, most=most, whole=launch.prefill_whole,
            cold=COLD[run.engine] if public and not run.date else WARM, answers=answers(run),
        )  # fmt: skip
        prefill = self._timer(replace(run, tp=run.p_tp or 1), kv, poll) if run.apart else None
        return Served(
            run=run, deployment=deployment, timer=timer, bench=bench, launch=launch.match, prefill=prefill,
            seen=seen_before(run, runs) if run.apart else 0,
        )  # fmt: skip

    def _launch(self, run: Run) -> tuple[Launch, int]:
        if not run.source.startswith(PUBLIC) or run.source == PROFILED:
            return Launch(), 1
        model, gpu = _model_id(run.model), _gpu_id(run.gpu)
        concurrency = run.concurrency or 1
        found = launch_for(
            run.engine, model, gpu, run.weights or "", run.tp, run.ep, run.dp, concurrency,
            run.prompt_tokens, run.output_tokens, run.engine_version or None, run.date or None, bool(run.spec),
        )  # fmt: skip
        poll = poll_for(model, gpu, run.weights or "", concurrency) if dialect(run.engine).polls else 1
        return found, poll

    def _timer(self, run: Run, kv: str | None, poll: int) -> StepTimer:
        version = run.engine_version if VERSION.fullmatch(run.engine_version) else None
        key = (run.model, run.gpu, run.engine, version, run.weights, kv, run.tp, run.dp, run.ep, run.pp, poll)
        timer = self._timers.get(key)
        if timer is None:
            question = Question(
                model=run.model, gpu=self._hardware or run.gpu, engine=run.engine, engine_version=version,
                prompt=max(1, round(run.prompt_tokens)), output=max(2, round(run.output_tokens)),
                tp=run.tp, pp=run.pp, ep=run.ep, attention_dp=run.dp, weights=run.weights, kv=kv, ttft=1.0,
                link=self._link[0], link_latency=self._link[1], gateway=self._gateway,
            )  # fmt: skip
            deployment = resolve(question).deployment
            engine = replace(deployment.engine, poll_interval=poll)
            timer = self._timers[key] = StepTimer(replace(deployment, engine=engine))
        return timer

    def _limits(self, run: Run, launch: Launch, deployment: Deployment) -> tuple[float, float | None]:
        """Tokens of a step on a rank, and the largest batch of a rank."""
        engine, hardware = deployment.engine, deployment.hardware
        found, words = table(engine.name, engine.version), dialect(engine.name)
        stated = run.budget or launch.budget
        known = isinstance(stated, (int, float)) and stated > 0
        budget = float(stated if known and stated else default_budget(engine, hardware))
        if not words.budget_per_rank:
            budget /= deployment.parallelism.dp  # its chunk is divided over the attention ranks
        most = run.max_num_seqs or launch.max_num_seqs
        if most is None:
            default = found.default(_field(words.requests), hardware)
            most = default.value if default and isinstance(default.value, int) else None
        return budget, most


def _requests(run: Run) -> int:
    """Requests from one moment at which all users sent to the next."""
    users = run.concurrency or 1
    return users if run.rounds else run.requests or REQUESTS_PER_USER * users


def _field(flag: str) -> str:
    return flag.lstrip("-").replace("-", "_")


def answers(run: Run) -> tuple[float, ...]:
    """Lengths of a run's answers over their mean, each as likely."""
    if run.wide:
        lengths = parts(CONVERSATIONS, ANSWERS)  # so few of them miss the longest: back to their mean
        return tuple(each * len(lengths) / sum(lengths) for each in lengths)
    ratio = 1.0 if run.least_ratio is None else run.least_ratio
    return tuple(2 * (ratio + (1 - ratio) * (index + 0.5) / ANSWERS) / (1 + ratio) for index in range(ANSWERS))


@lru_cache(maxsize=256)
def _model_id(name: str) -> str:
    return str(load_model(name).record.id)


@lru_cache(maxsize=256)
def _gpu_id(name: str) -> str:
    return str(load_hardware(name).record.id)
