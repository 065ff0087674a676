"""What is asked: one deployment, one workload, latency limits; every value checked for itself."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Literal

from chunkcalc.answer.gateway import Gateway
from chunkcalc.answer.measured import Number
from chunkcalc.answer.taught import Taught
from chunkcalc.engines.dialects import INTERVAL, MIXING
from chunkcalc.errors import ChunkcalcError
from chunkcalc.frozen import dataclass
from chunkcalc.records import ENGINE_NAMES, Hardware, Model


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Everything a user can say, in SI units; None where it was left out.

    model, gpu : name, path, or record
    prompt, output, context : tokens; context is the mean of a decoding request [token]
    batch : requests decoding at once on the replica; None asks for the largest that fits [token]
    ttft, tpot, itl : limits of the time to first token, of the mean time per output token, and of the longest gap
        between two messages of a stream; the gap's is that of `tpot` where it is left out, infinite for none [s]
    tpot_basis : deprecated: `mean` is an infinite `itl`
    tp, pp, ep, attention_dp : degrees of parallelism [1]
    weights, kv : formats
    draft_tokens, draft_acceptance : speculative decoding [token], [1]
    prefix_hit : share of the prompt in the prefix cache [1]
    prefix_shared : it is one prefix of all requests, such as a system prompt; else each request has its own
    engine : `vllm`, `sglang` or `trtllm`
    engine_version : None for the newest that was read
    mixed_chunk : SGLang only: mix decodes into prompt chunks
    prefill_interval : SGLang only: decode steps after every prompt step [1]
    chunk, budget : judge this one instead of searching [token]
    link, link_latency : bandwidth one way per GPU [byte/s] and latency [s] instead of the profile's
    memory_fraction : instead of the engine's default [1]
    max_utilisation : highest utilisation of the capacity for prompts [1]
    rate : requests that arrive at the replica, instead of a batch [request/s]
    concurrency : users of the replica that each wait for an answer before they ask again [1]
    percentile : of the time to first token that `ttft` limits under traffic; None for 95, 0 for the mean
    kv_link : bandwidth between prefill and decode units; None for one 400 Gb/s network card [byte/s]
    prompt_p95 : 95th percentile of the prompt's length; None where all are alike [token]
    gateway : what stands between engine and client adds; None for nothing
    measured : numbers that were measured on this deployment
    taught : what they taught, once that is known
    """

    model: str | Model
    gpu: str | Hardware
    prompt: int
    output: int | None = None
    context: int | None = None
    batch: int | None = None
    ttft: float | None = None
    tpot: float | None = None
    itl: float | None = None
    tpot_basis: Literal["step", "mean"] | None = None
    tp: int = 1
    pp: int = 1
    ep: int = 1
    attention_dp: int = 1
    weights: str | None = None
    kv: str | None = None
    draft_tokens: int = 0
    draft_acceptance: float | None = None
    prefix_hit: float = 0.0
    prefix_shared: bool = True
    engine: str = "vllm"
    engine_version: str | None = None
    mixed_chunk: bool = False
    prefill_interval: int = 0
    chunk: int | None = None
    budget: int | None = None
    link: float | None = None
    link_latency: float | None = None
    memory_fraction: float | None = None
    max_utilisation: float = 0.85
    rate: float | None = None
    concurrency: int | None = None
    percentile: float | None = None
    prompt_p95: int | None = None
    kv_link: float | None = None
    gateway: Gateway | None = None
    measured: tuple[Number, ...] = ()
    taught: Taught | None = None


LARGEST_COUNT = 1e9
MEAN, USUAL_PERCENTILE = 0.0, 95.0  # percentiles: what stands for the mean, and what is judged unless said otherwise
FAR = 1e17  # a bound that no user means
MOST_P95 = 3.8  # times the mean: beyond exp(1.645^2 / 2) no lognormal has such a 95th percentile
OPTIONS = {"prefill_interval": INTERVAL, "mixed_chunk": MIXING}
_SHARES = frozenset(("prefix_hit", "draft_acceptance", "memory_fraction", "max_utilisation"))
_ZERO = frozenset(("prefix_hit", "draft_acceptance", "percentile"))  # these may be zero
# Lowest and highest value of each number, and whether it must be whole.
_NUMBERS: dict[str, tuple[float, float, bool]] = {
    **dict.fromkeys(
        ("prompt", "output", "context", "batch", "chunk", "budget", "concurrency", "prompt_p95"),
        (1, LARGEST_COUNT, True),
    ),
    "rate": (0, 1e6, False),
    "percentile": (0, 99.99, False),
    **dict.fromkeys(("tp", "pp", "ep", "attention_dp"), (1, 4096, True)),
    **dict.fromkeys(("ttft", "tpot", "itl", "link_latency"), (0, 1e6, False)),
    **dict.fromkeys(("link", "kv_link"), (0, 1e18, False)),
    **dict.fromkeys(_SHARES, (0, 1, False)),
    "draft_tokens": (0, 64, True),
    "prefill_interval": (0, 1000, True),
}


def option(field: str) -> str:
    """The command line's name of a field."""
    return OPTIONS.get(field, "--" + field.replace("_", "-"))


def check(question: Question) -> None:
    """Refuse values out of range and values that contradict each other.

    Raises
    ------
    ChunkcalcError : the first one
    """
    for field in fields(question):
        value = getattr(question, field.name)
        if field.name in _NUMBERS and value is not None:
            _check_number(field.name, value)
    _check_pairs(question)


def _check_number(field: str, value: object) -> None:
    name = option(field)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ChunkcalcError(f"{value!r:.60} is not a number", name, "give a number in seconds, bytes or tokens")
    if value == math.inf and field == "itl":
        return  # no limit of the gap
    if not math.isfinite(value):
        raise ChunkcalcError(f"{value} is not finite", name, "give a finite number")
    low, high, whole = _NUMBERS[field]
    if whole and value != int(value):
        raise ChunkcalcError(f"{value:g} is not a whole number", name, f"give one of at least {low:g}")
    if value < low or value > high or (value == 0 and not whole and low == 0 and field not in _ZERO):
        raise ChunkcalcError(f"{value:g} is out of range", name, _range(field))


def _range(field: str) -> str:
    low, high, whole = _NUMBERS[field]
    if field in _SHARES:
        return f"give a fraction {'from' if field in _ZERO else 'above'} 0 to 1, such as 0.9"
    if not whole:
        return f"give a number {f'from {low:g}' if low else 'above zero'}{f' to {high:g}' if high < FAR else ''}"
    return f"give a whole number from {low:g} to {high:g}"


def _check_pairs(question: Question) -> None:
    if question.engine not in ENGINE_NAMES:
        hint = f"choose from {', '.join(ENGINE_NAMES)}"
        raise ChunkcalcError(f"unknown engine '{question.engine:.40}'", "--engine", hint)
    if question.chunk is not None and question.budget is not None:
        raise ChunkcalcError("a chunk and a budget contradict each other", "--budget", "give only one of the two")
    if question.mixed_chunk and question.prefill_interval:
        hint = "give only one of the two"
        raise ChunkcalcError("mixed chunks leave no prompt steps to space out", INTERVAL, hint)
    if question.draft_acceptance is not None and not question.draft_tokens:
        raise ChunkcalcError("an acceptance needs drafts", "--draft-acceptance", "add --draft-tokens")
    if question.prefix_hit == 1:
        hint = "the last token is always computed: give less than 1"
        raise ChunkcalcError("a prompt is never cached whole", "--prefix-hit", hint)
    _check_load(question)
    if question.link_latency is not None and question.link is None:
        raise ChunkcalcError("a latency needs a bandwidth", "--link", "write for example 16GB/s,20us")


def _check_load(question: Question) -> None:
    loads = [name for name in ("batch", "rate", "concurrency") if getattr(question, name) is not None]
    if len(loads) > 1:
        hint = "a batch decodes at once, a rate arrives, a concurrency waits for answers: give only one"
        raise ChunkcalcError(f"{' and '.join(map(option, loads))} exclude each other", option(loads[1]), hint)
    if question.rate is None and question.concurrency is None:
        for name in ("percentile", "prompt_p95"):
            if getattr(question, name) is not None:
                where = "--attainment, --percentile" if name == "percentile" else option(name)
                raise ChunkcalcError("needs traffic", where, "add --rate or --concurrency: only a queue has tails")
    check_p95(question.prompt, question.prompt_p95)
    if (question.rate or question.concurrency) and question.output == 1 and (question.tpot or question.itl):
        hint = "leave out --tpot and --itl, or raise --output"
        raise ChunkcalcError("an answer of one token has nothing to decode", "--output", hint)


def check_p95(prompt: int, p95: int | None) -> None:
    """Refuse a 95th percentile that no lognormal with this mean has.

    Parameters
    ----------
    prompt : mean prompt [token]
    p95 : its 95th percentile [token]

    Raises
    ------
    ChunkcalcError : below the mean, or too far above
    """
    if p95 is not None and not 1 <= p95 / prompt <= MOST_P95:
        hint = f"the 95th percentile lies between the mean and {MOST_P95:g} times the mean of a lognormal"
        raise ChunkcalcError(f"{p95} does not go with --prompt {prompt}", "--prompt-p95", hint)
