"""What an answer promises, held on random questions: used by the tests on a few, by benchmarks/contract.py on many."""

from __future__ import annotations

import math
import random
from dataclasses import replace

from chunkcalc.answer.batches import with_batch
from chunkcalc.answer.demand import Demand
from chunkcalc.answer.judged import LARGEST_DEFAULT_BUDGET, outlook
from chunkcalc.answer.pools import DecodeUnit, PrefillUnit
from chunkcalc.answer.question import Question
from chunkcalc.answer.recommendation import ENOUGH, best_pace, recommend
from chunkcalc.answer.resolve import resolve
from chunkcalc.answer.solve import answer
from chunkcalc.answer.verdict import FAILS, status
from chunkcalc.answer.window import keeps
from chunkcalc.errors import ChunkcalcError
from chunkcalc.sizing.fleet import fleet
from chunkcalc.sizing.shapes import every_unit

ORDER = {"feasible": 0, "marginal": 1, "retune": 2, "overloaded": 3, "disaggregate": 3, "scale_up": 4, "impossible": 5}
SMALL = 24  # GPUs of a fleet that is tried by hand
ROUND = 1e-9  # relative: what two ways to the same sum may differ by
MODELS = (
    "llama-3.1-8b",
    "llama-3.1-70b",
    "qwen3-32b",
    "Qwen/Qwen3-30B-A3B",
    "gpt-oss-120b",
    "deepseek-v3",
    "gemma-3-27b",
)
GPUS = ("h100-sxm", "a100-sxm4-80gb", "b200", "l40s", "mi300x", "rtx-4090")


def drawn(draw: random.Random, *, traffic: bool = False) -> Question:
    """A question as somebody might ask it."""
    prompt = round(10 ** draw.uniform(0, 5.3))
    output = round(10 ** draw.uniform(0.3, 3.3))
    drafts = draw.choice((0, 0, 0, 1, 3, 7))
    fields = {
        "model": draw.choice(MODELS), "gpu": draw.choice(GPUS), "prompt": prompt, "output": output,
        "tp": draw.choice((1, 1, 2, 4, 8)), "pp": draw.choice((1, 1, 1, 2)), "engine": draw.choice(
            ("vllm", "vllm", "sglang", "trtllm", "atom")), "draft_tokens": drafts,
        "draft_acceptance": draw.uniform(0, 1) if drafts else None, "prefix_hit": draw.choice((0.0, 0.0, 0.5, 0.9)),
        "ttft": draw.choice((None, 10 ** draw.uniform(-1.5, 1))),
        "tpot": draw.choice((None, 10 ** draw.uniform(-2.3, -0.7))),
        "itl": draw.choice((None, None, math.inf, 10 ** draw.uniform(-2, 0))),
    }  # fmt: skip
    if traffic:
        load = draw.choice(("rate", "concurrency"))
        fields[load] = 10 ** draw.uniform(-1, 1.3) if load == "rate" else round(10 ** draw.uniform(0, 2.3))
        fields["percentile"] = draw.choice((None, 0.0, 50.0, 99.0))
        fields["budget"] = draw.choice((None, None, None, round(10 ** draw.uniform(2.5, 4.3))))
    else:
        fields["batch"] = round(10 ** draw.uniform(0, 3.7))
        fields["budget"] = draw.choice((None, None, round(10 ** draw.uniform(2, 4.3))))
    return Question(**fields)


def questions(seed: int, count: int, *, traffic: bool = False):
    """Questions that can be answered."""
    draw = random.Random(seed)
    found = 0
    while found < count:
        question = drawn(draw, traffic=traffic)
        try:
            case = resolve(question)
            found_answer = answer(question, with_remedies=False)
        except ChunkcalcError:
            continue
        found += 1
        yield question, case, found_answer


def view_of(question: Question, batch: int | None = None):
    case = resolve(question)
    return with_batch(outlook(case.deployment, case.workload, case.slo), batch or case.workload.batch)


def floors(found) -> list[str]:
    """Quantities whose floor lies above the prediction."""
    out = []
    for name in ("step_s", "decode_step_s", "ttft_s", "tpot_s", "itl_s"):
        low, value = getattr(found.floor, name), getattr(found.expected, name)
        if low is not None and low > value * (1 + ROUND):
            out.append(f"{name}: floor {low} above {value}")
    return out


def implications(question: Question, found) -> list[str]:
    """What the verdict says and does not hold; of a batch."""
    composed = replace(question, **_composition(found))
    view, out, chunk = view_of(composed, found.workload.batch), [], found.chunk
    ratios = view.ratios(chunk)
    rules = all(rule.holds(chunk) for rule in view.rules(view.expected))
    kept = rules and all(ratio >= 1 for ratio in ratios.values())
    sure = kept and all(ratio >= 1 + view.band(name) for name, ratio in ratios.items())
    said = found.verdict
    if (said == "feasible") != sure:
        out.append(f"{said}, sure: {sure}")
    if (said == "marginal") != (kept and not sure):
        out.append(f"{said}, kept: {kept}, sure: {sure}")
    if said == "retune":
        best = recommend(view)
        others = answer(replace(question, budget=None, chunk=None), with_remedies=False)
        if not (question.budget or question.chunk) or not (best.keeps or others.holds):
            out.append("retune without another setting that holds")
    if said in ("overloaded", "disaggregate", "scale_up", "impossible") and keeps(view):
        out.append(f"{said} although a chunk keeps every limit")
    if said == "overloaded" and not _holds(question, found.max_batch):
        out.append(f"overloaded, and batch {found.max_batch} does not hold")
    if said == "disaggregate" and found.pools is None:
        out.append("disaggregate without pools")
    if said in ("scale_up", "impossible") and keeps(with_batch(view, 1)):
        out.append(f"{said} although a lone request keeps the limits")
    if said == "impossible" and not found.certain:
        out.append("impossible, and not certain")
    if found.may_hold and (kept or not rules):
        out.append("may hold, and does or cannot")
    return out


def _composition(found) -> dict[str, object]:
    engine = found.case.question
    return {"mixed_chunk": engine.mixed_chunk, "prefill_interval": engine.prefill_interval}


def _holds(question: Question, batch: int | None) -> bool:
    if not batch:
        return False
    other = answer(replace(question, batch=batch, budget=None, chunk=None), with_remedies=False)
    return other.holds


def chunk_rule(question: Question, found) -> list[str]:
    """Whether the chunk to set is the smallest sure one that is fast enough, by trying all aligned ones."""
    if found.given or found.verdict != "feasible" or found.load is not None:
        return []
    view = view_of(replace(question, **_composition(found)), found.workload.batch)
    sure = [c for c in view.aligned if status(view, c) == "feasible"]
    if not sure:
        return []
    pace = {c: view.expected.prefill.pace(c, c)[0] for c in sure}
    fast = [c for c in sure if pace[c] <= best_pace(view) / ENOUGH]
    wanted = fast[0] if fast else min(sure, key=lambda c: (round(pace[c] / min(pace.values()), 3), c))
    if fast and found.chunk != wanted:
        return [f"chunk {found.chunk}, the rule gives {wanted}"]
    if not fast and pace[found.chunk] > min(pace.values()) * 1.01:
        return [f"chunk {found.chunk} is not the fastest sure one"]
    return []


def harmless_limit(question: Question, found) -> list[str]:
    """A limit that holds with its band at the chunk to set changes nothing else."""
    if found.verdict != "feasible" or question.ttft is not None or found.given or found.load is not None:
        return []
    loose = found.expected.ttft_s * (1 + found.error.ttft) * 1.01
    other = answer(replace(question, ttft=loose), with_remedies=False)
    if (other.chunk, other.verdict, other.expected) != (found.chunk, found.verdict, found.expected):
        return [f"chunk {found.chunk} -> {other.chunk}, {found.verdict} -> {other.verdict} by a limit that holds"]
    return []


def looser(question: Question, found) -> list[str]:
    """A looser limit never makes the verdict worse."""
    out = []
    for name in ("ttft", "tpot", "itl"):
        limit = getattr(question, name)
        if limit is None or limit == math.inf:
            continue
        other = answer(replace(question, **{name: limit * 1.5}), with_remedies=False)
        if ORDER[other.verdict] > ORDER[found.verdict]:
            out.append(f"{name} {limit:.4g} -> {limit * 1.5:.4g}: {found.verdict} -> {other.verdict}")
    return out


def more_load(question: Question, found) -> list[str]:
    """More requests never make the verdict better."""
    name = next(name for name in ("rate", "concurrency", "batch") if getattr(question, name) is not None)
    value = getattr(question, name)
    more = value * 1.5 if name == "rate" else math.ceil(value * 1.5)
    try:
        other = answer(replace(question, **{name: more}), with_remedies=False)
    except ChunkcalcError:
        return []  # the budget leaves no room for so many
    if ORDER[other.verdict] < ORDER[found.verdict]:
        return [f"{name} {value:.4g} -> {more:.4g}: {found.verdict} -> {other.verdict}"]
    return []


def under_traffic(question: Question, found) -> list[str]:
    """What the verdict says of a rate or users and does not hold."""
    out, load = [], found.load
    held = {line.holds for line in found.limits}
    if found.holds and ("no" in held or not load.steady or load.shown not in (load.rate, load.users)):
        out.append(f"{found.verdict} with {held}, steady {load.steady}")
    if found.verdict == "feasible" and held - {"yes"}:
        out.append(f"feasible with {held}")
    if found.verdict == "marginal" and "close" not in held:
        out.append("marginal with nothing close")
    ends = found.window
    if (ends.chunk_min is not None) != (found.holds or found.verdict == "retune"):
        out.append(f"{found.verdict} with window {ends.chunk_min} to {ends.chunk_max}")
    beyond = ends.binding_max == "largest chunk of use"
    if found.holds and not ends.chunk_min <= found.chunk <= (math.inf if beyond else ends.chunk_max):
        out.append(f"{found.verdict} at {found.chunk} outside the window {ends.chunk_min} to {ends.chunk_max}")
    named = any(reason.startswith("within the limits one replica carries") for reason in found.reasons)
    if found.verdict == "overloaded" and not named:
        out.append("overloaded with nothing that is carried")
    if found.verdict in ("scale_up", "impossible"):
        lone = answer(replace(question, rate=None, concurrency=None, percentile=None, batch=1), with_remedies=False)
        if lone.verdict == "feasible":
            out.append(f"{found.verdict} although a lone request is feasible")
    return out


def fleets(seed: int, count: int):
    """Questions of fleets that some shape carries, with their answers."""
    draw = random.Random(seed)
    found = 0
    while found < count:
        question = Question(
            model=draw.choice(("llama-3.1-8b", "qwen3-32b", "gpt-oss-120b")),
            gpu=draw.choice(("h100-sxm", "l40s", "b200")),
            engine=draw.choice(("vllm", "vllm", "sglang", "trtllm")), rate=10 ** draw.uniform(-0.5, 1.3),
            prompt=round(10 ** draw.uniform(2, 4.2)), output=round(10 ** draw.uniform(0.5, 3)),
            ttft=10 ** draw.uniform(-0.7, 0.7), tpot=10 ** draw.uniform(-2, -1), itl=draw.choice((None, math.inf)),
            prefix_hit=draw.choice((0.0, 0.5)),
        )  # fmt: skip
        try:
            sized = fleet(question)
        except ChunkcalcError:
            continue
        if sized.chosen is not None and 1 < sized.chosen.gpus <= SMALL:
            found += 1
            yield question, sized


def cheaper(question: Question, sized) -> list[str]:
    """Certain shapes with fewer GPUs than the chosen one, by trying every number of units, and budgets in even ratios.

    A chosen shape that is not certain says that no certain one was found at all, up to some more GPUs.
    """
    units = list(every_unit(question, None, []))
    most = sized.chosen.gpus if sized.chosen.status == "feasible" else 2 * sized.chosen.gpus + 1
    longest, out = max(LARGEST_DEFAULT_BUDGET, question.prompt), []
    for unit in units:
        for replicas in range(1, math.ceil(most / unit.gpus)):
            demand = Demand(replace(unit.case, question=replace(question, rate=question.rate / replicas)), unit.timer)
            budgets = {demand.step * max(1, round(1.1**n)) for n in range(80)}
            settled = (demand.at(budget) for budget in budgets if budget <= longest)
            if any(each is not None and each.status == "feasible" for each in settled):
                out.append(f"{replicas} x {unit.degrees} is certain, and {sized.chosen} was chosen")
    views = [outlook(unit.case.deployment, unit.case.workload, unit.case.slo, unit.timer) for unit in units]
    for first, view in zip(units, views, strict=True):
        prefill = PrefillUnit(view, first.demand.arrivals)
        for second, other in zip(units, views, strict=True):
            carried = DecodeUnit(other).highest(margin=True)
            for x in range(1, most // first.gpus + 1):
                for y in range(1, math.ceil((most - x * first.gpus) / second.gpus)):
                    if prefill.keeps(question.rate / x, margin=True) and y * carried >= question.rate:
                        out.append(
                            f"{x} : {y} units of {first.degrees} and {second.degrees}, {sized.chosen} was chosen"
                        )
    return out


BATCH_CHECKS = (implications, chunk_rule, harmless_limit, looser, more_load)
TRAFFIC_CHECKS = (under_traffic, looser, more_load)
__all__ = ["BATCH_CHECKS", "FAILS", "TRAFFIC_CHECKS", "cheaper", "fleets", "floors", "questions"]
