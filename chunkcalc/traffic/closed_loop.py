"""A closed loop from a cold start: what a benchmark with a fixed number of users measures.

All users send at once, each sends again when answered, and the means run over all requests. The
first wave finds a queue of everyone's prompts; later ones meet a prompt now and then. Plain
arithmetic on step times, so it takes numbers and arrays alike; `scheduler.py` is its judge.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from chunkcalc import ops
from chunkcalc.engines.capacity import capacity
from chunkcalc.engines.dialects import dialect
from chunkcalc.frozen import dataclass
from chunkcalc.records import Deployment, Engine, Workload
from chunkcalc.time.prefill import Prefill
from chunkcalc.time.service import request_overhead
from chunkcalc.time.step import StepTimer

# A server whose cache is sized by hand keeps it whatever the chunk; beyond this one the default would shrink it.
LARGEST_CHUNK = 16384
FULLEST = 0.95  # share of the time with prompts beyond which the wait for them is not told
ROUNDS, CLOSE = 60, 1e-4
HALF = 0.5


class Steps(NamedTuple):
    """Step times that a closed loop is made of [s].

    decode : a step of the decodes alone
    prompt : the steps that carry a prompt, decodes riding along
    added : by how much a prompt lengthens the steps of the others
    full : a step filled with prompts, as the first wave meets it
    """

    decode: Any
    prompt: Any
    added: Any
    full: Any


class Loop(NamedTuple):
    """The load on one attention rank.

    users : requests in flight [1]
    wave : share of all requests that the first wave makes up [1]
    output : tokens of an answer [token]
    together : prompts that a full step holds; below 1 where a prompt takes several steps [1]
    mixed : whether decodes ride along with prompts
    ranks : attention ranks that run their steps in lock step, so that each waits for all prompts [1]
    poll : decode steps between two looks for new requests [1]
    rest : time of a request outside its steps [s]
    cold : time of the first wave over that of a warm server [1]
    answers : lengths of the answers over their mean, each as likely; 1 where all are alike [1]
    """

    users: Any
    wave: Any
    output: Any
    together: Any
    mixed: Any
    ranks: Any
    poll: Any
    rest: Any
    cold: Any = 1.0
    answers: Sequence[Any] = (1.0,)


def token_time(steps: Steps, loop: Loop, decoding: Any) -> Any:
    """Mean time per output token over the first wave and the others.

    Every token takes the decode step. In a steady state each of the others brings a prompt per
    answer; a request of the first wave decodes while half of the wave's prompts still come. Where
    decodes ride along a token takes a full step at most. The mean runs over requests, so short
    answers, whose few tokens all meet the wave, weigh as much as long ones.

    Parameters
    ----------
    steps : step times
    loop : the load
    decoding : requests that decode at once [1]

    Returns
    -------
    time [s]
    """
    steady = steps.decode + _added(steps, loop, decoding)
    steady = ops.where(loop.mixed, ops.minimum(steady, ops.maximum(steps.full, steps.decode)), steady)
    behind = (loop.users - 1) / loop.together / 2  # full steps that come after a request's own
    longer = ops.maximum(0.0, steps.full - steps.decode)
    lengths = [ops.maximum(1.0, loop.output * part) for part in loop.answers]
    met = [ops.where(loop.mixed, ops.minimum(own, behind) * longer, behind * steps.full) / own for own in lengths]
    first = steps.decode + sum(met) / len(met)
    return loop.wave * first + (1 - loop.wave) * steady


def _added(steps: Steps, loop: Loop, decoding: Any) -> Any:
    """Time per token that the prompts of the others add in a steady state [s]."""
    return decoding / loop.output * steps.added * loop.ranks


def first_token_time(steps: Steps, loop: Loop, decoding: Any) -> Any:
    """Mean time to first token over the first wave and the others.

    A request of the first wave waits for half of the wave's prompts; a later one for the step
    under way, for a look of the scheduler, and for a prompt in the works.

    Parameters
    ----------
    steps : step times
    loop : the load
    decoding : requests that decode at once [1]

    Returns
    -------
    time [s]
    """
    added = _added(steps, loop, decoding)
    busy = ops.minimum(FULLEST, added / (steps.decode + added))
    queue = busy * steps.added / (2 * (1 - busy))
    later = steps.prompt + queue + steps.decode + (loop.poll - 1) / 2 * steps.decode + loop.rest
    first = first_wave(steps, loop) + loop.rest
    return loop.wave * loop.cold * first + (1 - loop.wave) * later


def typical(steps: Steps, loop: Loop, decoding: Any) -> tuple[Any, Any]:
    """First token and time per token of the request in the middle: of the later ones where these are most.

    A prompt in the works delays fewer than half of the requests, unless prompts take up half of the time.

    Parameters
    ----------
    steps : step times
    loop : the load
    decoding : requests that decode at once [1]

    Returns
    -------
    times [s]
    """
    if loop.wave > HALF:
        return first_token_time(steps, loop, decoding), token_time(steps, loop, decoding)
    later = loop._replace(wave=0.0, answers=(1.0,))
    added = _added(steps, later, decoding)
    tpot = token_time(steps, later, decoding)
    if added > HALF * (steps.decode + added):
        return first_token_time(steps, later, decoding), tpot
    return steps.prompt + steps.decode / 2 + (loop.poll - 1) / 2 * steps.decode + loop.rest, tpot


def first_wave(steps: Steps, loop: Loop) -> Any:
    """Mean time in which the prompts of all users are through, when all come at once.

    Parameters
    ----------
    steps : step times
    loop : the load

    Returns
    -------
    time [s]
    """
    return steps.full * (loop.users + ops.maximum(1.0, loop.together)) / loop.together / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """A closed loop, as the client sees it.

    ttft, tpot : means over the requests [s]
    longest : the longest step that carries prompt tokens [s]
    decoding : requests that decode at once, on the replica [1]
    waiting : users that wait for a place, in the KV cache or by the server's limit [1]
    steps : the step times at that batch; None where arrivals at a rate were predicted
    typical : first token, and time per token, of the request in the middle [s]
    """

    ttft: float
    tpot: float
    longest: float
    decoding: float
    waiting: float
    steps: Steps | None = None
    typical: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """How a benchmark loads a replica.

    prompt, output : mean tokens of a request [token]
    users : requests in flight on the replica [1]
    requests : in all [1]
    budget : tokens of a step of one rank; prompt tokens where prompts go first [token]
    most : requests that the server runs at once on a rank; None for what the KV cache holds [1]
    whole : a prompt is never cut
    cold : time of the first wave over that of a warm server [1]
    answers : lengths of the answers over their mean, each as likely [1]
    """

    prompt: float
    output: float
    users: float
    requests: float
    budget: float
    most: float | None = None
    whole: bool = False
    cold: float = 1.0
    answers: tuple[float, ...] = (1.0,)


def step_times(timer: StepTimer, bench: Bench, decoding: float, users: float) -> tuple[Steps, float]:
    """The step times of a closed loop on one rank, and the prompts that a full step holds.

    Parameters
    ----------
    timer : of the deployment
    bench : the load
    decoding : requests that decode at once on the rank [1]
    users : requests in flight on the rank [1]
    """
    engine = timer.deployment.engine
    mixed = engine.composition == "mixed"
    context = bench.prompt + bench.output / 2
    beside, room, found = prompt_room(engine, bench, decoding)
    decode = timer.expected(0, 0, decoding, context)
    if found > 1:
        prompt, count = timer.expected(found * bench.prompt, 0, 0.0, context, found), 1
    else:
        prefill = Prefill(timer.expected, math.ceil(bench.prompt), 0, beside, context)
        prompt, count = prefill.total(math.floor(room)), prefill.count(math.floor(room))
    riding = count * timer.expected(0, 0, beside, context) if beside else 0.0
    size, cached, half = full_step(bench, users, mixed=mixed)
    full = timer.expected(size, cached, half, context, max(1.0, size / bench.prompt))
    return Steps(decode, prompt, max(1e-9, prompt - riding) / found, full), size / bench.prompt


def prompt_room(engine: Engine, bench: Bench, decoding: float) -> tuple[float, float, float]:
    """Decodes beside a later prompt, tokens that a step has for prompts, and prompts that share it.

    Parameters
    ----------
    engine : of the deployment
    bench : the load
    decoding : requests that decode at once on the rank, one of which is being prefilled [1]
    """
    mixed = engine.composition == "mixed"
    beside = max(0.0, decoding - 1) if mixed else 0.0
    room = max(1.0, bench.budget - beside)
    if bench.whole:
        room = max(room, bench.prompt)
    # Prompts that came between two looks of the scheduler share a step.
    found = 1.0 if mixed else max(1.0, min(decoding * engine.poll_interval / bench.output, room / bench.prompt))
    return beside, room, found


def full_step(bench: Bench, users: float, *, mixed: bool) -> tuple[float, float, float]:
    """Prompt tokens, cached tokens before them and decodes of a step of the first wave.

    Parameters
    ----------
    bench : the load
    users : requests in flight on the rank [1]
    mixed : whether decodes ride along
    """
    half = users / 2 if mixed else 0.0
    room = max(1.0, bench.budget - half)
    if bench.whole:
        room = max(room, bench.prompt)
    size = min(room, users * bench.prompt)
    return size, max(0.0, bench.prompt - size) / 2, half


def closed_loop(timer: StepTimer, bench: Bench) -> Closed:
    """A benchmark with a fixed number of users.

    Parameters
    ----------
    timer : of the deployment
    bench : the load
    """
    deployment = timer.deployment
    ranks = deployment.parallelism.dp
    asked = max(1.0, bench.users / ranks)
    users = min(asked, _places(deployment, bench) / ranks)
    rest = request_overhead(deployment, bench.prompt)
    together_steps = ranks if lock_step(deployment) else 1
    decoding, ttft, tpot = users, 0.0, 0.0
    for _ in range(ROUNDS):
        steps, together = step_times(timer, bench, max(1.0, decoding), users)
        loop = Loop(
            users, min(1.0, users * ranks / max(1.0, bench.requests)), bench.output, together,
            deployment.engine.composition == "mixed", together_steps, deployment.engine.poll_interval, rest, bench.cold,
            bench.answers,
        )  # fmt: skip
        tpot, ttft = token_time(steps, loop, decoding), first_token_time(steps, loop, decoding)
        stay = bench.output * tpot
        after = users * stay / (stay + ttft)
        if abs(after - decoding) <= CLOSE * decoding:
            break
        decoding = (decoding + after) / 2
    # The others wait until a place is free: their number over the rate at which requests leave.
    queued = (asked / users - 1) * (bench.output * tpot + ttft)
    longest = max(steps.full, steps.prompt) + (0.0 if deployment.engine.composition == "mixed" else steps.decode)
    return Closed(
        ttft=float(ttft + queued), tpot=float(tpot), longest=float(longest), decoding=float(decoding * ranks),
        waiting=float((asked - users) * ranks), steps=steps, typical=_typical(steps, loop, decoding, queued),
    )  # fmt: skip


def _typical(steps: Steps, loop: Loop, decoding: float, queued: float) -> tuple[float, float]:
    ttft, tpot = typical(steps, loop, decoding)
    return float(ttft + queued), float(tpot)


def lock_step(deployment: Deployment) -> bool:
    """Whether all attention ranks take each step together, waiting for the one with a prompt.

    With experts spread over the ranks they exchange tokens in every layer; TensorRT-LLM balances
    its ranks so that prompts fall into the same steps.

    Parameters
    ----------
    deployment : the replica
    """
    experts = any(group.ffn.kind == "moe" for group in deployment.model.layers)
    return deployment.parallelism.dp > 1 and experts and not dialect(deployment.engine.name).balanced_ranks


def _places(deployment: Deployment, bench: Bench) -> float:
    """Requests that the replica runs at once: what its KV cache holds, at most what it is told."""
    prompt, output = math.ceil(bench.prompt), max(2, math.ceil(bench.output))
    held = Workload(prompt=prompt, output=output, batch=1, context=prompt + output * 3 // 4)
    tokens = capacity(deployment, held, min(LARGEST_CHUNK, math.floor(bench.budget))).kv_tokens
    places = math.inf if tokens is None else max(1.0, tokens / held.context)
    return min(places, math.inf if bench.most is None else bench.most * deployment.parallelism.dp)
