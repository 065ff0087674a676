"""Numbers that somebody measured on the deployment that is asked about, as a user writes them.

`tpot=31ms at batch 32`, `prefill=18k tok/s at chunk 8192`, `ttft=0.9s at users 16`, `1.33s per chunk of 2048`,
`kv=412k tokens`: a quantity, its value, and the conditions under which it was measured; what is left out is that of
the question.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from chunkcalc import units
from chunkcalc.answer.judged import outlook
from chunkcalc.answer.learning import Factors, Observation, with_factors
from chunkcalc.engines import default_budget
from chunkcalc.engines.capacity import capacity, decode_tokens, largest_step, pool_bytes
from chunkcalc.engines.dialects import dialect
from chunkcalc.errors import ChunkcalcError
from chunkcalc.records import Deployment, Slo, Workload
from chunkcalc.time.service import Service
from chunkcalc.time.step import timer_for
from chunkcalc.traffic.closed_loop import Bench, closed_loop

WHERE = "--measured"
HINT = "write for example 'tpot=31ms at batch 32' or 'prefill=18k tok/s at chunk 8192'"
WORDS = {"concurrency": "users", "isl": "prompt", "osl": "output", "decodes": "batch", "max-concurrency": "users"}
CONDITIONS = ("chunk", "budget", "batch", "users", "prompt", "output", "context", "tp")
MOST_NUMBERS = 32
LONGEST = 200  # characters of a number with its conditions
REQUESTS_PER_USER = 10  # of a benchmark with users
# Standard deviations of what is left of the logarithm of a quantity once the factors of its system are right. Of TPOT
# and TTFT those of a few with which the other rows of 150 public sets came out best (benchmarks/measured.py); an output
# rate and the gap count as these two, a step and a rate of prompts as runs of one configuration differ (1 to 4 %).
SPREADS: Mapping[str, float] = {
    "tpot": 0.03, "ttft": 0.1, "itl": 0.1, "step": 0.04, "prefill": 0.04, "output": 0.03,
}  # fmt: skip
KV, KV_BYTES = "kv", "kv_bytes"
DECODING = ("tpot", "itl", "step", "output")  # quantities that depend on who decodes
_PER_CHUNK = re.compile(r"(?P<value>.+?)\s+per\s+chunk(?:\s+of\s+(?P<chunk>[^\s,]+))?(?P<rest>[\s,].*)?")
_GIVEN = re.compile(r"(?P<name>[a-z_]+)\s*=\s*(?P<value>.+?)(?:\s+(?:at|@)\s+(?P<rest>.*))?")


class Number(NamedTuple):
    """A number that somebody measured.

    text : as written
    name : tpot, itl, ttft, step, prefill, output, kv or kv_bytes
    value : [s], [token/s], of the KV cache of a rank [token], or of a GPU [byte]
    at : conditions by name
    """

    text: str
    name: str
    value: float
    at: tuple[tuple[str, int], ...] = ()

    def given(self, name: str, otherwise: int | None = None) -> int | None:
        """A condition.

        Parameters
        ----------
        name : of the condition
        otherwise : where it is left out
        """
        return dict(self.at).get(name, otherwise)


class Numbers(tuple[Number, ...]):
    """Measured numbers, which show themselves as they were written."""

    __slots__ = ()

    def at_budget(self, budget: int) -> Numbers:
        """The same, measured at a token budget where they do not say at which.

        Parameters
        ----------
        budget : tokens of a step of a rank [token]
        """
        return Numbers(
            each if _of_prompts(each) or each.name == "step" else each._replace(at=(*each.at, ("budget", budget)))
            for each in self
        )

    def __str__(self) -> str:
        return "; ".join(each.text for each in self)


def parse_number(text: str, where: str = WHERE) -> Number:
    """A measured number from what a user writes.

    Parameters
    ----------
    text : as written
    where : the option it stands in, for the error

    Raises
    ------
    ChunkcalcError : what cannot be read

    >>> parse_number("tpot=31ms at batch 32")
    Number(text='tpot=31ms at batch 32', name='tpot', value=0.031, at=(('batch', 32),))
    >>> parse_number("1.33s per chunk of 2k").at
    (('chunk', 2000),)
    """
    plain = " ".join(text.split())
    if len(plain) > LONGEST:
        raise ChunkcalcError(f"'{plain[:40]}...' is too long", where, HINT)
    per = _PER_CHUNK.fullmatch(plain)
    if per and "=" not in per["value"]:
        chunk = {"chunk": units.parse_count(per["chunk"], where)} if per["chunk"] else {}
        rest = re.sub(r"^[\s,]*(at|@)?\s*", "", per["rest"] or "")
        said = tuple(_conditions(rest, chunk, where).items())
        return Number(plain, "step", units.parse_duration(per["value"], where), said)
    found = _GIVEN.fullmatch(plain)
    if not found:
        raise ChunkcalcError(f"'{plain:.60}' is no measured number", where, HINT)
    name = found["name"]
    if name not in (*SPREADS, KV):
        raise ChunkcalcError(f"'{name:.40}' is not known", where, f"choose from {', '.join((*SPREADS, KV))}")
    at = tuple(_conditions(found["rest"] or "", {}, where).items())
    if name == KV and found["value"].endswith("B"):
        size = found["value"].removesuffix("B")
        return Number(plain, KV_BYTES, units.parse_rate(f"{size}B/s", "B/s", where), at)
    return Number(plain, name, _value(name, found["value"], where), at)


def parse_numbers(texts: str | Sequence[str], where: str = WHERE) -> Numbers:
    """Measured numbers from a text each, or from one text with semicolons between them.

    Parameters
    ----------
    texts : as written
    where : the option they stand in, for the error

    Raises
    ------
    ChunkcalcError : what cannot be read
    """
    listed = texts.split(";") if isinstance(texts, str) else list(texts)
    if len(listed) > MOST_NUMBERS:
        raise ChunkcalcError(f"{len(listed)} numbers are too many", where, f"give {MOST_NUMBERS}, or use calibrate")
    return Numbers(parse_number(each, where) for each in listed)


def _value(name: str, text: str, where: str) -> float:
    if name == KV:
        return float(units.parse_count(re.sub(r"\s*tok(en)?s?$", "", text), where))
    if name in ("prefill", "output"):
        rate = re.fullmatch(r"(.+?)\s*(?:tok(?:en)?s?|t)/s", text)
        if not rate:
            raise ChunkcalcError(f"'{text:.40}' has no unit", where, "write tokens per second, such as 18k tok/s")
        value, suffix = units.split(rate[1], where, "write a number, such as 18k tok/s")
        if suffix not in units.PREFIXES or not value > 0:
            raise ChunkcalcError(f"'{text:.40}' is no rate", where, "write tokens per second, such as 18k tok/s")
        return value * units.PREFIXES[suffix]
    return units.parse_duration(text, where)


def _conditions(text: str, known: dict[str, int], where: str) -> dict[str, int]:
    out = dict(known)
    words = text.replace(",", " ").replace("=", " ").split()
    for name, value in zip(words[::2], [*words[1::2], ""], strict=False):
        word = WORDS.get(name, name)
        if word not in CONDITIONS or not value or word in out:
            problem = f"'{name:.40}' {'is said twice' if word in out else 'is no condition with a value'}"
            raise ChunkcalcError(problem, where, f"conditions are {', '.join(CONDITIONS)}, such as 'batch 32'")
        out[word] = units.parse_count(value, where)
    for one, other in (("chunk", "budget"), ("batch", "users")):
        if one in out and other in out:
            raise ChunkcalcError(f"{one} and {other} exclude each other", where, "give only one of the two")
    return out


def observation(number: Number, deployment: Deployment, workload: Workload, budget: int | None) -> Observation:
    """What a number is a measure of.

    Parameters
    ----------
    number : measured
    deployment : as the profile has it
    workload : of the question, for the conditions that it leaves out
    budget : tokens of a step of a rank, of the question; None for the engine's default [token]
    """
    prompt, output = number.given("prompt", workload.prompt), number.given("output", workload.output)
    assert prompt is not None and output is not None
    batch = number.given("batch", 0 if number.name == "prefill" else workload.batch)
    assert batch is not None
    own = replace(
        workload, prompt=prompt, output=max(1, output), batch=batch,
        context=number.given("context") or (prompt + output // 2 if number.given("prompt") else workload.context),
    )  # fmt: skip
    users = number.given("users")
    if not users and not batch and number.name in DECODING and not (number.name == "step" and _of_prompts(number)):
        raise ChunkcalcError(
            f"'{number.text}' does not say how many decode", WHERE, "add 'at batch 32' or 'at users 32'"
        )
    quantity = _with_users if users else _AT_BATCH[number.name]
    given = number.given("budget", budget) or step_budget(deployment)
    chunk = number.given("chunk") or max(1, given - decode_tokens(deployment, own, own.batch))

    def predict(factors: Factors) -> float:
        return quantity(number, with_factors(deployment, factors), own, chunk)

    return Observation(number.value, predict, SPREADS[number.name])


def step_budget(deployment: Deployment) -> int:
    """The tokens of a step of a rank of an engine that was started without a flag for them [token]."""
    whole = default_budget(deployment.engine, deployment.hardware)
    return whole if dialect(deployment.engine.name).budget_per_rank else max(1, whole // deployment.parallelism.dp)


def _service(deployment: Deployment, own: Workload) -> Service:
    return outlook(deployment, own, Slo()).expected


def _of_prompts(number: Number) -> bool:
    return number.given("chunk") is not None or number.given("budget") is not None


def _step(number: Number, deployment: Deployment, own: Workload, chunk: int) -> float:
    """A decode step, or with a chunk or budget the mean step that carries one."""
    if not _of_prompts(number):
        return _service(deployment, own).decode_step
    prefill = _service(deployment, own).prefill
    return float(prefill.total(chunk) / prefill.count(chunk))


def _rate_of_prompts(number: Number, deployment: Deployment, own: Workload, chunk: int) -> float:
    prefill = _service(deployment, own).prefill
    return float(deployment.parallelism.dp * prefill.tokens / prefill.total(chunk))


def _rate_of_answers(number: Number, deployment: Deployment, own: Workload, chunk: int) -> float:
    return own.batch / float(_service(deployment, own).tpot(chunk))


def _with_users(number: Number, deployment: Deployment, own: Workload, chunk: int) -> float:
    """What a benchmark with so many users measures: each sends ten requests."""
    users = number.given("users") or 1
    decodes = users / deployment.parallelism.dp if deployment.engine.budget_counts_decodes else 0
    budget = chunk + decodes if number.given("chunk") else chunk
    bench = Bench(
        prompt=own.prompt, output=max(2, own.output), users=users, requests=REQUESTS_PER_USER * users, budget=budget
    )
    found = closed_loop(timer_for(deployment, own.draft_tokens), bench)
    if number.name == "output":
        return users * own.output / (found.ttft + (own.output - 1) * found.tpot)
    if number.name == "prefill":
        return users * own.prompt / (found.ttft + (own.output - 1) * found.tpot)
    return {"ttft": found.ttft, "tpot": found.tpot, "itl": found.longest, "step": found.longest}[number.name]


_AT_BATCH: Mapping[str, Callable[[Number, Deployment, Workload, int], float]] = {
    "tpot": lambda number, deployment, own, chunk: float(_service(deployment, own).tpot(chunk)),
    "itl": lambda number, deployment, own, chunk: float(_service(deployment, own).gap(chunk)),
    "ttft": lambda number, deployment, own, chunk: float(_service(deployment, own).ttft(chunk)),
    "step": _step, "prefill": _rate_of_prompts, "output": _rate_of_answers,
}  # fmt: skip


def kv_shift(number: Number, deployment: Deployment, workload: Workload, budget: int | None) -> tuple[float, float]:
    """What is predicted for the KV cache, and by how much that of a GPU is larger as its start-up log has it.

    Parameters
    ----------
    number : of tokens of an attention rank, or of bytes of a GPU
    deployment : as the profile has it
    workload : of the question
    budget : as of `observation`

    Returns
    -------
    the prediction, in the number's unit; the difference [byte]
    """
    tokens = number.given("budget", budget) or step_budget(deployment)
    alone = replace(workload, batch=0)
    pool = float(pool_bytes(deployment, *largest_step(deployment, alone, tokens)))
    if number.name == KV_BYTES:
        return pool, number.value - pool
    per_token = capacity(deployment, alone, tokens).kv_bytes_per_token
    if not per_token:
        raise ChunkcalcError(f"{deployment.model.id} keeps no cache per token", WHERE, "give it in GiB")
    return pool / per_token, number.value * per_token - pool
