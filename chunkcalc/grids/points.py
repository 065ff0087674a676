"""Grids: every chunk, batch and context of a deployment at once, by the same code as a single answer.

A step time is plain arithmetic, so arrays go through `StepTimer` as numbers do; a prompt is cut one
chunk size at a time, with all batches and contexts in one array.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from chunkcalc.answer.judged import Outlook, outlook
from chunkcalc.answer.question import Question
from chunkcalc.answer.resolve import OF_A_GPU, Case, resolve
from chunkcalc.answer.window import Window, every_limit, window
from chunkcalc.catalog.lookup import named_gpus
from chunkcalc.engines.capacity import decode_tokens
from chunkcalc.errors import ChunkcalcError
from chunkcalc.records import Slo, Workload
from chunkcalc.time.step import StepTimer, timer_for
from chunkcalc.work.counts import gpu_weight_bytes

Array = np.ndarray[Any, np.dtype[np.float64]]
BLOCK = 16_384  # points of an array: what stays in the cache of a core
FEW = 8  # points up to which plain numbers, which remember parts of a step, are faster than arrays
QUANTITIES = ("step_s", "decode_step_s", "ttft_s", "tpot_s", "itl_s", "utilisation", "memory")
HOLDS = "ok"


class Point(NamedTuple):
    """A deployment at one chunk, batch and context; times in seconds.

    chunk, budget : prompt tokens of a step, and all its tokens on an attention rank [token]
    batch, context : decoding requests of the replica, and their mean context [token]
    step_s, decode_step_s : the longest step that carries prompt tokens, and one that carries none
    ttft_s, tpot_s, itl_s : time to first token without queueing, mean per token, longest gap
    utilisation : of the capacity for prompts [1]
    memory : KV cache needed over KV cache left [1]
    state : `ok`, or the first limit that fails: memory, tpot, itl, ttft or utilisation
    """

    chunk: int
    budget: int
    batch: int
    context: int
    step_s: float
    decode_step_s: float
    ttft_s: float
    tpot_s: float
    itl_s: float
    utilisation: float
    memory: float
    state: str


def step_times(timer: StepTimer, chunks: Array, batches: Array, contexts: Array, p: float = 0.0) -> Array:
    """The expected step of every (chunk, batch, context).

    Parameters
    ----------
    timer : of the deployment
    chunks : prompt tokens of the step on a rank [token]
    batches : decodes of the step on a rank [token]
    contexts : their mean contexts [token]
    p : prompt tokens cached before the chunk [token]

    Returns
    -------
    times, by chunk, batch and context [s]
    """
    b, s = batches[:, None].astype(float), contexts[None, :].astype(float)
    out = np.empty((len(chunks), len(batches), len(contexts)))
    rows = max(1, BLOCK // (len(batches) * len(contexts)))
    for start in range(0, len(chunks), rows):
        c = chunks[start : start + rows, None, None].astype(float)
        out[start : start + rows] = timer.expected(c, p, b, s)
    return out


def points(
    case: Case, chunks: Sequence[int], batches: Sequence[int], contexts: Sequence[int],
    told: Callable[[int], None] = lambda _: None,
) -> Iterator[Point]:  # fmt: skip
    """Every point of a grid, batch by batch within a chunk.

    Parameters
    ----------
    case : the deployment, its prompt and its limits
    chunks, batches, contexts : the grid [token]
    told : called with the number of points that are done since the last call
    """
    timer = timer_for(case.deployment, case.workload.draft_tokens)
    pairs = [(batch, context) for batch in batches for context in contexts]
    for chunk in chunks:
        for start in range(0, len(pairs), BLOCK):
            block = pairs[start : start + BLOCK]
            yield from _few(case, timer, chunk, block) if len(block) <= FEW else _many(case, timer, chunk, block)
            told(len(block))


def deployments(question: Question, gpus: str, degrees: Sequence[int]) -> tuple[list[Case], list[str]]:
    """Every deployment of a question that can be computed, and why the others cannot.

    Parameters
    ----------
    question : without GPU and degree
    gpus : ids, names or files with commas between them, or `all` that are shipped
    degrees : of tensor parallelism [1]

    Raises
    ------
    ChunkcalcError : a name that nothing is known by, a fault that is not the GPU's, or no deployment left
    """
    names = named_gpus(gpus)
    cases, left_out, only = [], [], None
    if question.measured:  # of the first
        question = replace(question, taught=resolve(replace(question, gpu=names[0], tp=degrees[0])).question.taught)
    for name, tp in itertools.product(names, degrees):
        called = f"{name}{f' x {tp}' if tp > 1 else ''}"
        try:
            case = resolve(replace(question, gpu=name, tp=tp))
        except ChunkcalcError as error:
            if error.where not in OF_A_GPU:
                raise  # not about this GPU: no other would do either
            left_out.append(f"{called}: {error.what}")
            only = error
            continue
        weights = gpu_weight_bytes(case.deployment.model, case.deployment.precision, case.deployment.parallelism)
        if weights > case.deployment.hardware.memory:
            left_out.append(f"{called}: its memory does not hold the weights")
            continue
        cases.append(case)
    if not cases:
        if only is not None and len(left_out) == 1:
            raise only
        reason = f" ({left_out[0]})" if left_out else ""
        raise ChunkcalcError(f"no deployment is left{reason}", "--gpu", "give other GPUs or a larger --tp")
    return cases, left_out


def window_of(case: Case, batch: int, context: int) -> Window:
    """The window of chunks that keep every limit, found exactly.

    Parameters
    ----------
    case : the deployment, its prompt and its limits
    batch, context : decoding requests, and their mean context [token]
    """
    view = _view(case, timer_for(case.deployment, case.workload.draft_tokens), batch, context)
    return window(view, every_limit(view))


def _few(case: Case, timer: StepTimer, chunk: int, pairs: Sequence[tuple[int, int]]) -> Iterator[Point]:
    for batch, context in pairs:
        view = _view(case, timer, batch, context)
        found = _quantities(view, chunk)
        yield _point(case, chunk, batch, context, found, _judged(view, chunk, found))


def _many(case: Case, timer: StepTimer, chunk: int, pairs: Sequence[tuple[int, int]]) -> Iterator[Point]:
    view = _view(case, timer, *np.array(pairs, float).T)
    found = _quantities(view, chunk)
    columns = np.broadcast_arrays(*found, *_judged(view, chunk, found), np.zeros(len(pairs)))[:-1]
    for (batch, context), *values in zip(pairs, *(column.tolist() for column in columns), strict=True):
        yield _point(case, chunk, batch, context, values[: len(QUANTITIES)], values[len(QUANTITIES) :])


def _point(
    case: Case, chunk: int, batch: int, context: int, found: Sequence[float], judged: Sequence[float]
) -> Point:  # fmt: skip
    budget = chunk + decode_tokens(case.deployment, case.workload, batch)
    return Point._make((chunk, budget, batch, context, *found, _state(case.slo, *judged)))


def _view(case: Case, timer: StepTimer, batch: Any, context: Any) -> Outlook:
    workload: Workload = replace(case.workload, batch=batch, context=context)
    return outlook(case.deployment, workload, case.slo, timer)


def _quantities(view: Outlook, chunk: int) -> tuple[Any, ...]:
    """Those of QUANTITIES, in that order."""
    service = view.expected
    return (
        service.prefill.longest_step(chunk), service.decode_step, service.ttft(chunk), service.tpot(chunk),
        service.gap(chunk), service.utilisation(chunk), view.memory_share(chunk),
    )  # fmt: skip


def _judged(view: Outlook, chunk: int, found: tuple[Any, ...]) -> tuple[Any, ...]:
    """What each limit judges: memory, TPOT, longest gap, TTFT, utilisation."""
    _, _, ttft, tpot, itl, utilisation, memory = found
    return memory, tpot, itl, ttft, utilisation


def _state(slo: Slo, memory: float, tpot: float, itl: float, ttft: float, utilisation: float) -> str:
    if memory > 1:
        return "memory"
    if slo.tpot is not None and tpot > slo.tpot:
        return "tpot"
    if slo.itl is not None and itl > slo.itl:
        return "itl"
    if slo.ttft is not None and ttft > slo.ttft:
        return "ttft"
    return "utilisation" if utilisation > slo.max_utilisation else HOLDS


def columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Rows with the same keys as arrays by key."""
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}
