"""Units that are not what a column says: told by magnitude, and asked about rather than guessed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import median

from chunkcalc.errors import ChunkcalcError
from chunkcalc.measurements.run import Run, Skipped
from chunkcalc.measurements.serving import Unit

# Bounds on the median of a column [s], generous on both sides. Below: a step reads its weights once, and no
# server passes 2,000 tokens/s in most of its streams; a first token also crosses a network and a tokenizer.
# Above: a token in 5 s is no stream, and the longest queue that anyone reported waits for half an hour.
# Percentiles of single gaps are left out: a message with several tokens makes gaps of almost nothing.
BOUNDS: Mapping[str, tuple[float, float]] = {
    **dict.fromkeys(("tpot", "tpot_p50", "itl_mean"), (0.5e-3, 5.0)),
    "tpot_p99": (0.5e-3, 60.0),
    **dict.fromkeys(("ttft", "ttft_p50", "ttft_p95", "ttft_p99"), (1e-3, 3600.0)),
}
STEP_BOUNDS = (20e-6, 60.0)
# A first token comes out of a step that costs at least about a decode's, after half of the one that runs.
LEAST_TTFT = 0.5  # of the time per token
MOST_ODD, FEW_OF = 4, 100  # rows of a table in another unit that are left out: at most so many, of so many each
MIXED = (200.0, 5000.0)  # rows of one configuration so far apart differ in their unit
# A step grows at most in proportion to its batch, so this much more load cannot explain it.
COMPARABLE_LOAD = 8.0
WORDS: Mapping[str, str] = {"s": "seconds", "ms": "milliseconds", "us": "microseconds"}


def check_columns(columns: Mapping[str, Iterable[float | None]], unit: Unit | None, where: str) -> None:
    """Ask about the unit where the median of a column is no such latency.

    Parameters
    ----------
    columns : by the name in `BOUNDS`, their values [s]
    unit : that the user gave; None: they were read as milliseconds. Milliseconds given are taken as given
    where : the file, for the error

    Raises
    ------
    ChunkcalcError : the first such column, with the unit that it may be in
    """
    for name, values in columns.items():
        _check(f"{name}_ms", values, BOUNDS[name], unit, where)
    if unit != "ms":
        for part in ("", "_p50"):
            _check_pairs(columns.get(f"ttft{part}", ()), columns.get(f"tpot{part}", ()), where)


def check_steps(times: Sequence[float], unit: Unit | None, where: str) -> None:
    """The same for the times of single steps.

    Parameters
    ----------
    times : of the steps [s]
    unit, where : as for `check_columns`

    Raises
    ------
    ChunkcalcError : their median is no time of a step
    """
    _check("t_ref_ms", times, STEP_BOUNDS, unit, where)


def sound(runs: Sequence[Run], unit: Unit | None, where: str) -> tuple[list[Run], list[Skipped]]:
    """Runs whose latencies can be in the unit that is said, and those that are left out.

    Parameters
    ----------
    runs : of a file
    unit, where : as for `check_columns`

    Raises
    ------
    ChunkcalcError : a file that is in another unit, or mixes several
    """
    odd = {each.row: each for each in (*_mixed_rows(runs, where), *_odd_sources(runs, unit, where))}
    return [run for run in runs if run.row not in odd], list(odd.values())


def _odd_sources(runs: Sequence[Run], unit: Unit | None, where: str) -> list[Skipped]:
    """Rows of sources whose median is no such latency; refused where all sources are alike."""
    sources: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        sources[run.source].append(run)
    odd: list[tuple[list[Run], ChunkcalcError]] = []
    for some in sources.values():
        try:
            check_columns({name: [getattr(run, name) for run in some] for name in BOUNDS}, unit, where)
        except ChunkcalcError as error:
            odd.append((some, error))
    if odd and len(odd) == len(sources):
        raise odd[0][1]
    return [Skipped(run.row, error.what) for some, error in odd for run in some]


def _mixed_rows(runs: Sequence[Run], where: str) -> list[Skipped]:
    """Rows that are in another unit than those of the same configuration; too many of them are refused."""
    found: dict[int, str] = {}
    for name in ("tpot", "tpot_p50", "ttft", "ttft_p50"):
        groups: dict[object, list[tuple[float, float, int]]] = defaultdict(list)
        for run in runs:
            if (value := getattr(run, name)) is not None:
                waits = (run.requests, run.note) if name.startswith("ttft") else ()
                groups[*_configuration(run), *waits].append((run.concurrency or run.rate or 0.0, value, run.row))
        for group in groups.values():
            found |= _mixed(sorted(group), name)
    if found and (len(found) > MOST_ODD or len(found) * FEW_OF > len(runs)):
        raise ChunkcalcError(
            next(iter(found.values())), where, "write the whole column in one unit, or take the wrong rows out"
        )
    return [Skipped(row, reason) for row, reason in sorted(found.items())]


def _mixed(group: Sequence[tuple[float, float, int]], name: str) -> dict[int, str]:
    """Neighbours by load; a queue can make a first token wait 1,000 times longer, so TTFT only at equal load."""
    out: dict[int, str] = {}
    reach = COMPARABLE_LOAD if name.startswith("tpot") else 1.0
    for (load, value, row), (more, other, later) in pairwise(group):
        apart = max(value, other) / min(value, other)
        if more <= load * reach and MIXED[0] <= apart <= MIXED[1]:
            what = f"{name}_ms mixes units: rows {row} and {later} are {apart:,.0f} times apart in one configuration"
            out |= {row: what, later: what}
    return out


def _configuration(run: Run) -> tuple[object, ...]:
    return (run.model, run.gpu, run.engine, run.weights, run.kv, run.tp, run.dp, run.ep, run.pp, run.prompt_tokens,
            run.output_tokens, run.budget, run.spec, run.concurrency is None)  # fmt: skip


def _check(
    column: str, values: Iterable[float | None], bounds: tuple[float, float], unit: Unit | None, where: str
) -> None:
    known = [value for value in values if value is not None]
    if unit == "ms" or not known or bounds[0] <= (middle := median(known)) <= bounds[1]:
        return
    if unit is not None:
        what = f"{column} in {WORDS[unit]} has a median of {middle:.3g} s, which no server has"
        raise ChunkcalcError(what, where, "write every column in one unit")
    guess: Unit = "s" if middle < bounds[0] else "us"
    what = (
        f"{column} has a median of {_shown(middle * 1e3)}, too {'short' if guess == 's' else 'long'} for milliseconds"
    )
    hint = f"is it in {WORDS[guess]}? give --unit {guess}, or --unit ms if it is right"
    raise ChunkcalcError(what, where, hint)


def _check_pairs(first: Iterable[float | None], further: Iterable[float | None], where: str) -> None:
    """First tokens that come in less time than the further ones: the two columns differ in their unit."""
    ratios = [ttft / tpot for ttft, tpot in zip(first, further, strict=False) if ttft and tpot]
    if ratios and median(ratios) < LEAST_TTFT:
        what = f"the first token takes {median(ratios):.2g} of the time of a further one in the median row"
        raise ChunkcalcError(what, where, "write both columns in milliseconds, or give --unit ms if it is right")


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
