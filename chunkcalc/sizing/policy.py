"""One budget for a load that changes: the one that is never far behind the best of each load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from chunkcalc.answer.demand import Demand, Settled
from chunkcalc.answer.question import Question
from chunkcalc.answer.records import Answer
from chunkcalc.answer.resolve import resolve
from chunkcalc.answer.solve import as_composed
from chunkcalc.engines.capacity import capacity
from chunkcalc.errors import ChunkcalcError
from chunkcalc.frozen import dataclass
from chunkcalc.progress import Progress, silent
from chunkcalc.time.step import timer_for

BUDGETS = (256, 512, 1024, 2048, 4096, 8192, 16384)
RATES, PROMPTS = 5, 4  # of a range that is given by its ends
ALIKE = 0.01  # of the requests: regrets this close are as good as each other
MOST_CELLS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A load under every budget.

    rate : requests [request/s]
    prompt : tokens of a prompt [token]
    shares : of the requests within every limit, by budget [1]
    """

    rate: float
    prompt: int
    shares: tuple[float, ...]

    @property
    def best(self) -> float:
        """The largest share that any budget reaches."""
        return max(self.shares)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a budget costs and how far behind it may fall.

    regret, mean_regret : of the share within the limits, at worst and on average over the loads [1]
    gap : longest step that it makes, over the loads [s]
    kv_tokens : that are left beside its activations [token]
    """

    budget: int
    regret: float
    mean_regret: float
    gap: float
    kv_tokens: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The answer.

    chosen : the budget with the least worst regret; of those within a point of it, the one with the shortest steps
    budgets : what each costs
    cells : by rate, then prompt
    answer : at the chosen budget, for its flags
    """

    question: Question
    chosen: Cost
    budgets: tuple[Cost, ...]
    cells: tuple[Cell, ...]
    answer: Answer


def policy(
    question: Question, rates: Sequence[float], prompts: Sequence[int], budgets: Sequence[int] = BUDGETS,
    progress: Progress = silent,
) -> Policy:  # fmt: skip
    """The budget with the least worst regret over loads.

    Parameters
    ----------
    question : with its limits; its rate and prompt do not count
    rates : requests per second [request/s]
    prompts : tokens of a prompt [token]
    budgets : to choose from [token]
    progress : told how many loads were looked at, of how many

    Raises
    ------
    ChunkcalcError : no limit, too many loads
    """
    if question.ttft is None and question.tpot is None and question.itl is None:
        raise ChunkcalcError("needs a limit", "--ttft", "give --ttft, --tpot or both")
    if len(rates) * len(prompts) > MOST_CELLS:
        raise ChunkcalcError(f"{len(rates) * len(prompts):,} loads are too many", "--rate", "give fewer values")
    cells: list[Cell] = []
    seen: dict[int, list[Settled]] = {budget: [] for budget in budgets}
    demands = [_demand(replace(question, rate=rates[0], prompt=prompt)) for prompt in prompts]
    for rate in rates:
        for prompt, demand in zip(prompts, demands, strict=True):
            shares = []
            for budget in budgets:
                found = demand.at(budget, rate)
                seen[budget] += [] if found is None else [found]
                shares.append(0.0 if found is None else within(found))
            cells.append(Cell(rate=rate, prompt=prompt, shares=tuple(shares)))
            progress(len(cells), len(rates) * len(prompts))
    costs = tuple(_cost(index, budget, cells, seen[budget]) for index, budget in enumerate(budgets))
    least = min(cost.regret for cost in costs)
    chosen = min((cost for cost in costs if cost.regret <= least + ALIKE), key=lambda cost: cost.gap)
    middle = replace(question, rate=rates[len(rates) // 2], prompt=prompts[len(prompts) // 2], budget=chosen.budget)
    return Policy(question=question, chosen=chosen, budgets=costs, cells=tuple(cells), answer=as_composed(middle))


def _demand(question: Question) -> Demand:
    case = resolve(question)
    return Demand(case, timer_for(case.deployment, question.draft_tokens), thorough=False)


def within(found: Settled) -> float:
    """The share of requests within every limit: none where the mean time per token or the gap is beyond its own.

    Parameters
    ----------
    found : a budget under a rate
    """
    view = found.view
    ratios = view.ratios(found.chunk)
    if any(ratio < 1 for name, ratio in ratios.items() if name in ("tpot", "itl")):
        return 0.0
    return 1.0 if view.slo.ttft is None else found.flow.within(view.slo.ttft)


def _cost(index: int, budget: int, cells: Sequence[Cell], seen: Sequence[Settled]) -> Cost:
    behind = [cell.best - cell.shares[index] for cell in cells]
    held = [capacity(each.view.deployment, each.view.workload, each.chunk).kv_tokens for each in seen]
    known = [tokens for tokens in held if tokens is not None]
    return Cost(
        budget=budget, regret=max(behind), mean_regret=sum(behind) / len(behind),
        gap=max((each.view.expected.prefill.longest_step(each.chunk) for each in seen), default=0.0),
        kv_tokens=min(known) if known else None,
    )  # fmt: skip
