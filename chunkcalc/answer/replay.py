"""A deployment replayed: requests spread over its attention ranks, and what they saw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from chunkcalc.answer.resolve import Case
from chunkcalc.engines.dialects import dialect
from chunkcalc.frozen import dataclass
from chunkcalc.progress import Progress, silent
from chunkcalc.records import Hardware, Slo
from chunkcalc.time.step import StepTimer, timer_for
from chunkcalc.traffic.arrivals import Request
from chunkcalc.traffic.decodes import GAP
from chunkcalc.traffic.scheduler import Replay, Scheduler, Served, replay
from chunkcalc.traffic.users import scheduler_for as of_deployment

SHOWN = (50, 90, 99)
FEWEST, GROWN = 25, 4.0  # requests of a quarter, and times its wait, from which a queue has no end


@dataclass(frozen=True, slots=True, kw_only=True)
class Attained:
    """SLO attainment and goodput of a replay (DistServe, arXiv 2401.09670, section 2).

    share : of the requests that were within every limit; rejected ones were not [1]
    rate : of such requests: the goodput [request/s]
    missed : limit -> requests beyond it
    late_prompt : mean prompt of those whose first token was late; None where none was [token]
    """

    share: float
    rate: float
    missed: Mapping[str, int]
    late_prompt: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """What a replay gave.

    scheduler : of each rank
    served : every request in the order of arrival
    gaps : time between two tokens [s] -> how often
    duration_s : from the first arrival to the last token [s]
    batch : decoding requests of the replica, on average [1]
    busy : share of the time spent in steps [1]
    steps, prompt_steps : how many ran, and carried prompt tokens
    """

    scheduler: Scheduler
    served: Sequence[Served]
    gaps: Mapping[float, int]
    duration_s: float
    batch: float
    busy: float
    steps: int
    prompt_steps: int

    @property
    def finished(self) -> list[Served]:
        """Requests that were answered."""
        return [each for each in self.served if each.finished is not None]

    @property
    def outrun(self) -> bool:
        """Whether more arrives than is served: the last quarter waits far longer than the first, to the end."""
        times = [each.ttft for each in self.served if each.ttft is not None]
        quarter = len(times) // 4
        late = self.served[-1].request.arrival
        if quarter < FEWEST or late < self.duration_s / 20:  # a burst has no steady state to lose
            return False
        return sum(times[-quarter:]) > GROWN * sum(times[:quarter])

    def attained(self, slo: Slo) -> Attained:
        """How many requests were within every limit, and which the others missed.

        Parameters
        ----------
        slo : limits of single requests: their first token, their mean time per token, their longest gap
        """
        limits = {"ttft": slo.ttft, "tpot": slo.tpot, "itl": slo.itl}
        missed = dict.fromkeys((name for name, limit in limits.items() if limit is not None), 0)
        late: list[int] = []
        good = 0
        for each in self.served:
            values = {"ttft": each.ttft, "tpot": each.tpot, "itl": each.gap}
            over = [name for name in missed if each.finished is None or (values[name] or 0.0) > (limits[name] or 0.0)]
            good += not over
            for name in over:
                missed[name] += 1
            if "ttft" in over:
                late.append(each.request.prompt)
        share = good / len(self.served) if self.served else 0.0
        return Attained(
            share=share, rate=good / self.duration_s if self.duration_s else 0.0, missed=missed,
            late_prompt=sum(late) / len(late) if late else None,
        )  # fmt: skip

    @property
    def ttft(self) -> dict[str, float] | None:
        """Mean and percentiles of the time to first token [s]."""
        return summary(Counter(each.ttft for each in self.finished if each.ttft is not None))

    @property
    def tpot(self) -> dict[str, float] | None:
        """Mean and percentiles over requests of the mean time per output token [s]."""
        return summary(Counter(each.tpot for each in self.finished if each.tpot is not None))

    @property
    def itl(self) -> dict[str, float] | None:
        """Mean and percentiles of the gaps between two tokens [s]."""
        return summary(self.gaps)


def scheduler_for(case: Case, budget: int, most_running: int, *, whole: bool = False) -> Scheduler:
    """How a deployment composes its steps, on one attention rank.

    Parameters
    ----------
    case : the deployment and its workload
    budget : of a rank [token]
    most_running : requests in flight on a rank [1]
    whole : chunked prefill is off
    """
    return of_deployment(case.deployment, case.workload, budget, most_running, whole=whole)


def setting(
    case: Case, gpu: str | Hardware, model: str, budget: int | None, most_running: int | None, *, whole: bool = False
) -> tuple[int, int]:
    """Budget and requests at once: as given, else what the engine does without flags.

    Parameters
    ----------
    case : the deployment
    gpu, model : as named
    budget : None for the engine's own [token]
    most_running : None for the engine's own [1]
    whole : chunked prefill is off

    Returns
    -------
    budget [token], requests [1]
    """
    if budget is None or most_running is None:
        from chunkcalc.answer.inspection import inspect  # noqa: PLC0415 - only where something is left out

        engine = case.deployment.engine
        name = gpu if isinstance(gpu, str) else gpu.id
        words = dialect(engine.name)
        line = [*words.server, model, *(words.unchunked if whole else ())]
        reading = inspect(line, name, engine.version, model=model).reading
        budget, most_running = budget or reading.budget, most_running or reading.max_num_seqs
    return budget, most_running


def simulate(
    case: Case, requests: Iterable[Request], scheduler: Scheduler, timer: StepTimer | None = None,
    concurrency: int | None = None, progress: Progress = silent,
) -> Simulation:  # fmt: skip
    """Serve requests by a deployment; its attention ranks take them in turn.

    Parameters
    ----------
    case : the deployment
    requests : by arrival
    scheduler : of each rank
    timer : of the deployment, to share what it remembers
    concurrency : users of a closed loop; None for the arrivals as they are
    progress : told how many requests have begun, of how many
    """
    timer = timer or timer_for(case.deployment, case.workload.draft_tokens)
    ranks, listed = case.deployment.parallelism.dp, list(requests)
    used = min(ranks, concurrency or ranks)
    shares = [listed[rank::used] for rank in range(used)]
    users = [None if concurrency is None else concurrency // used + (rank < concurrency % used) for rank in range(used)]
    runs: list[Replay] = []
    for share, each in zip(shares, users, strict=True):
        before = sum(len(run.served) for run in runs)
        end = before + len(share)
        if share:
            told = lambda left, end=end: progress(end - left, len(listed))  # noqa: E731
            runs.append(replay(share, timer.expected, scheduler, each, told))
    return _together(runs, scheduler)


def _together(runs: Sequence[Replay], scheduler: Scheduler) -> Simulation:
    duration = max(run.duration_s for run in runs)
    gaps: Counter[float] = Counter()
    for run in runs:
        for gap, count in run.gaps.items():
            gaps[gap * GAP] += count
    longest = max(len(run.served) for run in runs)
    turns = [run.served[place] for place in range(longest) for run in runs if place < len(run.served)]
    return Simulation(
        scheduler=scheduler, served=turns, gaps=gaps, duration_s=duration,
        batch=sum(run.batch_seconds for run in runs) / duration if duration else 0.0,
        busy=max(run.busy_s for run in runs) / duration if duration else 0.0,
        steps=sum(run.steps for run in runs), prompt_steps=sum(run.mixed_steps for run in runs),
    )  # fmt: skip


def summary(values: Mapping[float, int]) -> dict[str, float] | None:
    """Mean and percentiles of values that occur so often; None without any."""
    total = sum(values.values())
    if not total:
        return None
    out = {"mean": sum(value * count for value, count in values.items()) / total}
    ordered, wanted, seen = sorted(values.items()), list(SHOWN), 0
    for value, count in ordered:
        seen += count
        while wanted and seen >= wanted[0] / 100 * total:
            out[f"p{wanted.pop(0)}"] = value
    return out
