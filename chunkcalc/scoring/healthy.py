"""Rows that are no test of a healthy deployment, found without any model of it.

Each test is a fact about serving that holds whatever the hardware does; what fails it is either not
plain decoding, mislabelled, or a system that misbehaved. Errors are told with and without them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, Literal, NamedTuple

from chunkcalc.measurements import Run

Of = Literal["tpot", "ttft", "both"]
PUBLIC = "inferencex"
FASTER = 0.87  # time per token of a longer answer over that of a shorter one, below which tokens come several at once
FEW = 16  # requests in flight up to which that shows
LONGER = 4  # times the output
MOST = 0.5  # share of the testable rows of a server or label that fail, beyond which all of it does
DROP = 0.75  # time per token with more users over that with fewer
STALL = 2.5  # first-token time over that of the same prompt with another answer length
LEAST_REQUESTS = 3  # of a user, below which it was in the first wave as often as not
REPEAT = 1.12  # time per token over that of another run of the same load; repeats differ by 1.6 % (median)
ALONE = 8  # requests in flight up to which that shows
SLOW_REPEAT = "another run of the same label was much faster"
CAVEATS: Mapping[str, tuple[str, Of]] = {
    "slow repeat": (SLOW_REPEAT, "both"),
    "all requests at once": ("all requests came at once", "ttft"),
    "form factor not stated": ("which card it was is not said", "both"),
    "kernels forced": ("kernels were forced that the engine would not choose", "both"),
    "queue-bound": ("bound by the queue, as its source says", "ttft"),
}
HARNESSES = frozenset(("nvidia-gap-analysis",))  # load pattern unknown: no first-token times


class Exclusion(NamedTuple):
    """A row that is left out.

    row : of the file
    reason : why
    of : what it is no measure of
    """

    row: int
    reason: str
    of: Of


def exclusions(runs: Sequence[Run], *, repeats: bool = True) -> list[Exclusion]:
    """Every row that fails a test, with the first test it fails; one of both latencies before one of a single one.

    Parameters
    ----------
    runs : of one file
    repeats : also runs of the same load that were slower than another; without, what the file says of them only
    """
    found: dict[int, Exclusion] = {}
    for test in (_speculative, _same_values, _queued, _falling, _repeats, _caveats, _stalled, _few, _harness):
        for each in () if test is _repeats and not repeats else test(runs):
            kept = found.get(each.row)
            if kept is None or (kept.of != "both" and each.of == "both"):
                found[each.row] = each
    return sorted(found.values())


def _label(run: Run) -> tuple[Any, ...]:
    return (run.source, run.engine, run.engine_version, run.model, run.gpu, run.weights, run.date)


def _server(run: Run) -> tuple[Any, ...]:
    return (*_label(run), run.tp, run.dp, run.ep, run.p_num, run.p_tp, run.d_num)


def _grouped(runs: Iterable[Run], key: Callable[[Run], Any]) -> dict[Any, list[Run]]:
    out: dict[Any, list[Run]] = defaultdict(list)
    for run in runs:
        out[key(run)].append(run)
    return out


def _speculative(runs: Sequence[Run]) -> Iterable[Exclusion]:
    """A longer answer to the same prompt cannot speed up the mean token: several came per step."""
    closed = [run for run in runs if run.tpot and 0 < (run.concurrency or 0) <= FEW and run.source.startswith(PUBLIC)]
    servers: dict[Any, list[bool]] = defaultdict(list)
    labels: dict[Any, list[bool]] = defaultdict(list)
    for key, group in _grouped(closed, lambda run: (_server(run), run.concurrency, round(run.prompt_tokens))).items():
        short, long = (pick(run.output_tokens for run in group) for pick in (min, max))
        if long < LONGER * short:
            continue
        means = [fmean(run.tpot or 0.0 for run in group if run.output_tokens == length) for length in (short, long)]
        fails = means[1] < FASTER * means[0]
        servers[key[0]].append(fails)
        labels[group[0].model, group[0].gpu, group[0].engine].append(fails)
    drafting, mostly = ({key for key, fails in each.items() if fmean(fails) > MOST} for each in (servers, labels))
    for run in runs:
        if _server(run) in drafting:
            yield Exclusion(run.row, "longer answers come faster per token: speculative decoding", "both")
        elif (run.model, run.gpu, run.engine) in mostly:
            yield Exclusion(run.row, "most testable rows of this label decode speculatively", "both")


def _same_values(runs: Sequence[Run]) -> Iterable[Exclusion]:
    """The same two latencies under two parallel layouts: one of the labels is wrong."""
    whole = [run for run in runs if run.tpot and run.ttft]
    load = _grouped(
        whole, lambda run: (*_label(run), run.prompt_tokens, run.output_tokens, run.concurrency, run.ttft, run.tpot)
    )
    for group in load.values():
        if len({(run.tp, run.dp, run.ep) for run in group}) > 1:
            yield from (Exclusion(run.row, "the same latencies stand under another layout", "both") for run in group)


def _queued(runs: Sequence[Run]) -> Iterable[Exclusion]:
    """Longer to the first token than all prompts of the users take: it waited for a place, or stalled.

    The prompts of the others came while a user decoded: each took at most output x TPOT over their number; the first
    wave waits for half of the users.
    """
    for run in runs:
        if run.ttft and run.tpot and run.concurrency and not run.apart and run.source not in HARNESSES:
            decoding = run.output_tokens * run.tpot
            wave = 1.0 if run.rounds else min(1.0, run.concurrency / (run.requests or 10 * run.concurrency))
            if run.ttft > decoding / max(1, run.concurrency - 1) + decoding / 2 * wave:
                yield Exclusion(
                    run.row, "more than the prompts of all users take: waiting for a place, or a stall", "both"
                )


def _falling(runs: Sequence[Run]) -> Iterable[Exclusion]:
    """More users cannot make a token faster by a quarter."""
    closed = [run for run in runs if run.tpot and run.concurrency]
    for group in _grouped(closed, lambda run: (_server(run), run.prompt_tokens, run.output_tokens)).values():
        most, falling = 0.0, []
        for run in sorted(group, key=lambda run: run.concurrency or 0):
            tpot = run.tpot or 0.0
            if tpot < DROP * most:
                falling.append(run)
            most = max(most, tpot)
        if len(falling) > 1:  # up and down again and again: none of them is that of the label
            falling = group
        yield from (Exclusion(run.row, "faster per token than with fewer users", "both") for run in falling)


def _few(runs: Sequence[Run]) -> Iterable[Exclusion]:
    """Where a user sends once or twice the first wave of prompts is most of the run."""
    for run in runs:
        loop = not run.rate and not run.rounds and (run.concurrency or 0) > 1
        if loop and run.requests and run.requests < LEAST_REQUESTS * (run.concurrency or 0):
            yield Exclusion(run.row, f"fewer than {LEAST_REQUESTS} requests per user", "ttft")


def _stalled(runs: Sequence[Run]) -> Iterable[Exclusion]:
    """The same prompt, alone, cannot take so much longer because of the answer that follows."""
    alone = [run for run in runs if run.ttft and (run.concurrency or ALONE + 1) <= ALONE]
    for group in _grouped(alone, lambda run: (_server(run), run.concurrency, run.prompt_tokens)).values():
        least = min(run.ttft or 0.0 for run in group)
        for run in group:
            if (run.ttft or 0.0) > STALL * least:
                yield Exclusion(run.row, "far above the same prompt with another answer length: a stall", "ttft")


def _repeats(runs: Sequence[Run]) -> Iterable[Exclusion]:
    """The same server under the same load was faster: something held this run up."""

    def load(run: Run) -> tuple[Any, ...]:
        return (
            *_server(run), run.pp, run.kv, run.spec, run.prefix_cache, run.budget, run.max_num_seqs,
            run.prompt_tokens, run.output_tokens, run.least_ratio, run.wide, run.concurrency, run.rate, run.requests,
        )  # fmt: skip

    for group in _grouped((run for run in runs if run.tpot), load).values():
        least = min(run.tpot or 0.0 for run in group)
        for run in group:
            if (run.tpot or 0.0) > REPEAT * least:
                yield Exclusion(run.row, SLOW_REPEAT, "both")


def _caveats(runs: Sequence[Run]) -> Iterable[Exclusion]:
    for run in runs:
        for words, (reason, of) in CAVEATS.items():
            if words in run.note:
                yield Exclusion(run.row, reason, of)


def _harness(runs: Sequence[Run]) -> Iterable[Exclusion]:
    for run in runs:
        if run.source in HARNESSES:
            yield Exclusion(run.row, "the load pattern of its harness is unknown", "ttft")
