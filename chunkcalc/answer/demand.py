"""A question with a rate or a number of users: the setting that carries it, and the verdict under it.

The batch, the wait and how crowded a request finds the replica follow from the budget, so every
budget is judged under the traffic that it makes itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import cache

from chunkcalc.answer.composition import other_ways
from chunkcalc.answer.disaggregation import Disaggregation, disaggregate
from chunkcalc.answer.judged import LARGEST_DEFAULT_BUDGET, Outlook, outlook
from chunkcalc.answer.pools import KV_LINK, Arrivals
from chunkcalc.answer.recommendation import FINE_ALIGNMENT
from chunkcalc.answer.records import DISAGGREGATE, FEASIBLE, OVERLOADED, RETUNE, Load
from chunkcalc.answer.resolve import Case
from chunkcalc.answer.verdict import (
    FAILS,
    Verdict,
    apart,
    beyond,
    broken,
    certificates,
    judge,
    may_hold,
    status,
)
from chunkcalc.answer.window import Window, binding, every_limit
from chunkcalc.engines.capacity import decode_tokens
from chunkcalc.frozen import dataclass
from chunkcalc.records import Slo
from chunkcalc.time import search
from chunkcalc.time.service import Queueing
from chunkcalc.time.step import StepTimer, timer_for
from chunkcalc.traffic.flow import Flow, Traffic
from chunkcalc.traffic.lengths import variation
from chunkcalc.traffic.queueing import wait_error, waited_error
from chunkcalc.traffic.users import stepped
from chunkcalc.units import format_at_most, format_count, format_duration

STEPPED = 2  # budgets at which the most users are stepped
FAR, SPARSE = 0.8, 3  # of a limit over its prediction: below, a setting does not come near; of budgets looked at for it
NEAR = 4  # steps to either side of the best budget that are tried too
ROUNDS = 8  # of a budget for a given chunk
RATIO = 1.19  # of one budget to the next: four per doubling
ALIKE = 0.05  # times to first token this close are as good as each other
LESS = 1.3  # times fewer users, until they hold
CLOSE = 1e-3  # relative, at which a rate is found


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """A budget under its own traffic.

    budget, chunk : of a rank [token]
    load : requests per second, or users
    flow : the traffic
    view : the deployment under it
    status : feasible, marginal or fails
    """

    budget: int
    chunk: int
    load: float
    flow: Flow
    view: Outlook
    status: str

    @property
    def ttft(self) -> float:
        """The time to first token that is judged [s]."""
        return float(self.view.expected.ttft(self.chunk))

    @property
    def keeps(self) -> bool:
        """Whether the prediction keeps every limit."""
        return self.status != FAILS


class Demand:
    """The traffic of a question."""

    def __init__(self, case: Case, timer: StepTimer, *, thorough: bool = True, places: int | None = None) -> None:
        self.thorough, self.places = thorough, places
        self.case, self.timer, question = case, timer, case.question
        self.rate, self.users, self.percentile = question.rate, question.concurrency, case.percentile
        self.asked = float(question.rate or question.concurrency or 0)
        self.C = variation(question.prompt, question.prompt_p95)
        # Users wait for one another: their queue always has a steady state.
        self.slo: Slo = case.slo if self.users is None else replace(case.slo, max_utilisation=1.0)
        self.step = outlook(case.deployment, case.workload, self.slo, timer).alignment
        self._least = search.SLOWEST if self.users is None else 1.0
        # Each is asked for more than once.
        self._traffic, self._settled, self._highest = cache(self._at_budget), cache(self._settle), cache(self._find)

    def _at_budget(self, budget: int) -> Traffic:
        found = Traffic(self.case.deployment, self.case.workload, budget, self.timer, self.C)
        if self.places is not None and self.places < found.most:
            return Traffic(self.case.deployment, self.case.workload, budget, self.timer, self.C, most=self.places)
        return found

    def at(self, budget: int, load: float | None = None) -> Settled | None:
        """A budget under the question's load, or another; None where there is no steady state.

        Parameters
        ----------
        budget : of a rank [token]
        load : requests per second, or users
        """
        return self._settled(budget, self.asked if load is None else load)

    def _settle(self, budget: int, load: float) -> Settled | None:
        traffic = self._traffic(budget)
        flow = traffic.at_rate(load) if self.users is None else stepped(traffic, max(1, int(load)))
        return None if flow is None else self._under(budget, flow, load)

    def _look(self, budget: int) -> Settled | None:
        """A quick look at a budget: in closed form, which tells which budgets with users are worth stepping."""
        return self.at(budget) if self.users is None else self._quick(budget, self.users)

    def _quick(self, budget: int, users: int) -> Settled:
        return self._under(budget, self._traffic(budget).with_users(users), users)

    def _under(self, budget: int, flow: Flow, load: float) -> Settled:
        case = self.case
        batch = math.ceil(flow.batch - 1e-6) if case.workload.output > 1 else 0
        workload = replace(case.workload, batch=batch)
        offset = decode_tokens(case.deployment, workload, batch)
        chunk = max(1, budget - offset)
        bare = outlook(case.deployment, workload, self.slo, self.timer)
        service, judged = bare.expected, flow.ttft_at(self.percentile)
        wait = max(0.0, judged - service.ttft(chunk))
        tpot_band, ttft_band, _ = bare.error
        # Users wait for one another: their wait is as sure as the steps that it is made of.
        error = tpot_band if self.users else wait_error(tpot_band, max(flow.utilisation, flow.held))
        queueing = Queueing(
            wait=wait,
            error=waited_error(ttft_band, error, wait / judged),
            crowding=flow.tpot / service.tpot(chunk) if batch else 1.0,
            pressure=flow.utilisation / service.utilisation(chunk) if service.utilisation(chunk) else 1.0,
        )
        view = outlook(case.deployment, workload, self.slo, self.timer, queueing)
        return Settled(budget=budget, chunk=chunk, load=load, flow=flow, view=view, status=status(view, chunk))

    def best(self) -> Settled | None:
        """The budget to set; None where none has a steady state."""
        tried = self._budgets()
        found = self._best(map(self._look, tried))
        if found is None:
            return None
        if self.users is not None:
            return self._best_of_users(found, tried)
        step = self.step if found.status == FEASIBLE else FINE_ALIGNMENT
        near = (found.budget + count * step for count in range(-NEAR, NEAR + 1))
        return self._best(map(self.at, sorted({*tried, *(budget for budget in near if 0 < budget <= tried[-1])})))

    def _best_of_users(self, liked: Settled, tried: list[int]) -> Settled | None:
        """The budget that the quick look likes, stepped; its neighbours too where that fails, but not by far."""
        first = self.at(liked.budget)
        if first is None or first.keeps or self._far(first):
            return first
        place = tried.index(liked.budget)
        return self._best(map(self.at, tried[max(0, place - 1) : place + 2]))

    def hopeless(self) -> bool:
        """Whether no budget comes near to holding, by a quick look at some of them."""
        looked = map(self._look, self._budgets()[::SPARSE])
        return all(found is None or self._far(found) for found in looked)

    def _far(self, settled: Settled) -> bool:
        """Whether a setting is so far from holding that its neighbours are not worth stepping."""
        return settled.view.closeness(settled.chunk) < FAR

    def _best(self, settled: Iterable[Settled | None]) -> Settled | None:
        """Of those that keep every limit with its band, the smallest whose first token comes within 5 % of the soonest.

        Else the one whose worst ratio of prediction to limit is least, among those that keep every limit, then all.
        """
        found = [each for each in settled if each is not None]
        certain = [each for each in found if each.status == FEASIBLE]
        if certain:
            enough = (1 + ALIKE) * min(each.ttft for each in certain)
            return next(each for each in certain if each.ttft <= enough)
        kept = [each for each in found if each.keeps] or found
        return max(kept, key=lambda each: each.view.closeness(each.chunk), default=None)

    def _budgets(self) -> list[int]:
        """Aligned budgets to try, in even ratios, up to a whole prompt and beyond every default."""
        longest = max(LARGEST_DEFAULT_BUDGET, self.case.workload.prompt)
        count = math.ceil(math.log(longest / self.step) / math.log(RATIO)) + 1
        most = max(1, longest // self.step)
        return sorted({self.step * min(most, max(1, round(RATIO**n))) for n in range(count)})

    def window(self, inside: Settled) -> Window | None:
        """The chunks that carry the rate, each budget under the traffic that it makes; None with users.

        Parameters
        ----------
        inside : a setting that does
        """
        if self.users is not None or not self.thorough:
            return None
        tried = sorted({*self._budgets(), inside.budget})
        held = [self.keeps(budget) for budget in tried]
        first, last = held.index(True), len(held) - 1 - held[::-1].index(True)
        low = self._edge(tried[first], tried[first - 1] if first else 0)
        high = self._edge(tried[last], tried[last + 1]) if last + 1 < len(tried) else tried[last]
        ends = [self.at(low), self.at(high)]
        chunks = [1 if end is None else end.chunk for end in ends]
        return Window(
            chunk_min=chunks[0], chunk_max=chunks[1], gaps=not all(held[first : last + 1]),
            binding_min=self._binds(low - 1) if low > 1 else "smallest chunk",
            binding_max=self._binds(high + 1) if last + 1 < len(tried) else "largest chunk of use",
        )  # fmt: skip

    def _edge(self, inside: int, outside: int) -> int:
        """The last budget that carries the rate on the way from one that does to one that does not."""
        while abs(inside - outside) > 1:
            middle = (inside + outside) // 2
            inside, outside = (middle, outside) if self.keeps(middle) else (inside, middle)
        return inside

    def _binds(self, budget: int) -> str:
        """What a budget that does not carry the rate breaks."""
        found = self.at(budget)
        return "utilisation" if found is None else binding(every_limit(found.view), found.chunk)

    def given(self) -> int | None:
        """The budget to judge; None to look for one. A given chunk leaves room for the decodes beside it."""
        question = self.case.question
        if question.chunk is None:
            return question.budget
        budget = question.chunk
        for _ in range(ROUNDS):
            settled = self.at(budget) or self.fullest(budget)
            wanted = question.chunk + settled.view.offset
            if wanted == budget:
                break
            budget = wanted
        return budget

    def fullest(self, given: int | None = None) -> Settled:
        """The most traffic within the limits: at the given budget, or at the one that carries most.

        Parameters
        ----------
        given : the budget; None for any [token]

        Returns
        -------
        the setting; a lone request where none keeps the limits
        """
        best, carried = given or self.step, 0.0
        if self.users is not None and not given:
            return self._fullest_of_users()
        for budget in [given] if given else self._budgets():
            # One look tells whether a budget can beat the best so far.
            if self.keeps(budget, max(carried * (1 + CLOSE), self._least)) and self.alone(budget).keeps:
                best, carried = budget, self.highest(budget, carried)
        return (self.at(best, carried) if carried else None) or self._nearest(given)

    def _nearest(self, given: int | None) -> Settled:
        """One request at a time, at the budget that comes nearest to keeping the limits."""
        alone = map(self.alone, [given] if given else self._budgets())
        return max(alone, key=lambda each: each.view.closeness(each.chunk))

    def _fullest_of_users(self) -> Settled:
        """The most users within the limits: stepped at the budgets where the quick look sees most."""
        seen = {budget: self._seen(budget) for budget in self._budgets()}
        liked = sorted(seen, key=lambda budget: (-seen[budget], budget))[:STEPPED]
        carried, budget = max((self.highest(budget), -budget) for budget in liked)
        return (self.at(-budget, carried) if carried else None) or self._nearest(None)

    def _seen(self, budget: int) -> float:
        """The most users within the limits at a budget, by the quick look."""

        def keeps(users: float) -> bool:
            return self._quick(budget, int(users)).keeps

        return search.highest(keeps, 1.0, 2.0, CLOSE, whole=True, most=self.asked) if keeps(1.0) else 0.0

    def keeps(self, budget: int, load: float | None = None) -> bool:
        """Whether a budget keeps every limit under a load, or the question's.

        Parameters
        ----------
        budget : of a rank [token]
        load : requests per second, or users
        """
        found = self.at(budget, load)
        return found is not None and found.keeps

    def alone(self, budget: int) -> Settled:
        """One user at a time.

        Parameters
        ----------
        budget : of a rank [token]
        """
        flow = stepped(self._traffic(budget), 1)
        return self._under(budget, flow, 1.0 if self.users else flow.rate)

    def answer(self, settled: Settled, verdict: Verdict, *, steady: bool = True) -> tuple[Outlook, Verdict, Load]:
        """What `settle` returns for a setting."""
        load = Load(
            rate=self.rate, users=self.users, percentile=self.percentile, flow=settled.flow, steady=steady,
            shown=settled.load, highest=self.highest(settled.budget) if self.thorough else None,
            limit=self.limit(settled.budget) if self.thorough else None,
            wait_s=settled.view.expected.queueing.wait,
        )  # fmt: skip
        return settled.view, verdict, load

    def reasons(self, settled: Settled | None, most: Settled, words: str = "") -> tuple[str, ...]:
        """Why a load is too much, and how many replicas carry it."""
        out, slo, highest = [], self.slo, self.highest(most.budget)
        unit = " requests/s" if self.users is None else " users"
        if settled is None:
            out.append(f"at {self.asked:g}{unit} the queue grows without end")
        else:
            view, chunk = settled.view, settled.chunk
            wait = view.expected.queueing.wait
            if slo.ttft is not None and view.expected.ttft(chunk) - wait <= slo.ttft < view.expected.ttft(chunk):
                waiting = f"{format_duration(wait)} of TTFT is waiting"
                out.append(f"at {self.asked:g}{unit}, {waiting}: the queue decides, not the chunk")
            out += broken(view, chunk)
        how = f"budget {format_count(most.budget)}" + (f", {words}" if words else "")
        best = f"within the limits one replica carries {format_at_most(highest)}{unit} ({how})"
        return (f"{best}: {max(2, math.ceil(self.asked / highest))} carry this", *out)

    @property
    def arrivals(self) -> Arrivals:
        """How the requests would come to separate units."""
        return Arrivals(self.percentile, self.C, self.case.question.kv_link or KV_LINK)

    def failing(
        self, shown: Settled, most: Settled, pools: Disaggregation | None, together: float, reasons: tuple[str, ...]
    ) -> Verdict:
        """The verdict where no budget carries the load: less of it, separate units, or other hardware.

        Parameters
        ----------
        shown : the setting that the answer shows
        most : the one that carries most
        pools : separate units within the limits
        together : the load that `most` carries [request/s], [1]
        reasons : why the load is too much
        """
        view, gpus = most.view, self.case.deployment.parallelism.gpus
        rate = 0.0 if not together else together if self.users is None else most.flow.rate
        if pools is not None and pools.rate / pools.gpus > rate / gpus and self._fewer_apart(pools, rate):
            least = (apart(pools, rate / gpus, f"{together:.3g} {self.unit}" if together else ""), *reasons)
            return Verdict(name=DISAGGREGATE, chunk=shown.chunk, pools=pools, reasons=least)
        if together:
            return Verdict(name=OVERLOADED, chunk=shown.chunk, reasons=reasons)
        return beyond(view, shown.chunk, (*reasons, *broken(view, most.chunk)), may=False)

    def _fewer_apart(self, pools: Disaggregation, rate: float) -> bool:
        """Whether the asked rate itself takes fewer GPUs apart than replicas that each carry a rate."""
        if self.rate is None or not rate:
            return True
        return pools.gpus < math.ceil(self.rate / rate) * self.case.deployment.parallelism.gpus

    @property
    def unit(self) -> str:
        """Of the load, in words."""
        return "requests/s" if self.users is None else "users"

    def highest(self, budget: int, least: float = 0.0) -> float:
        """The highest rate, or number of users, within the limits at a budget.

        Parameters
        ----------
        budget : of a rank [token]
        least : a load that is known to be within them
        """
        return self._highest(budget, least)

    def _find(self, budget: int, least: float) -> float:
        if not least and not self.keeps(budget, self._least):
            return 0.0
        low = least or self._least
        if self.users is None:
            return search.highest(lambda load: self.keeps(budget, load), low, 2 * low, CLOSE)
        # The first to try is what the quick look sees.
        first = max(2.0, self._seen(budget))
        while first > 2 and not self.keeps(budget, first):
            first //= LESS
        return search.highest(lambda load: self.keeps(budget, load), low, first, CLOSE, whole=True)

    def limit(self, budget: int) -> float | None:
        """The rate at which a budget loses its steady state; None with users [request/s].

        Parameters
        ----------
        budget : of a rank [token]
        """
        return None if self.users is not None else self._traffic(budget).limit()


def settle(case: Case, timer: StepTimer, places: int | None = None) -> tuple[Outlook, Verdict, Load]:
    """The view, the verdict and the load of a question with a rate or users.

    Parameters
    ----------
    case, timer : the deployment, and its timer
    places : requests that a rank runs at once; None for as many as its memory holds
    """
    demand = Demand(case, timer, places=places)
    given = demand.given()
    settled = demand.best() if given is None else demand.at(given)
    if settled is not None and settled.keeps:
        return demand.answer(settled, replace(judge(settled.view, settled.chunk), window=demand.window(settled)))
    near = settled is not None and may_hold(settled.view, settled.chunk)
    best = settled if given is None else demand.best()
    hint, owner = "", demand
    if best is not None and best.keeps:
        hint = f"budget {format_count(best.budget)} keeps every limit under this load"
    elif given is not None:
        for words, other in _recomposed(case, places):
            found = other.best()
            if found is not None and found.keeps:
                best, owner, hint = (
                    found,
                    other,
                    f"{words} at budget {format_count(found.budget)} keeps every limit under this load",
                )
                break
    if given is not None and best is not None and hint:
        shown = settled or demand.fullest(given)
        endless = "" if settled else "under this load its queue grows without end"
        failing = tuple(filter(None, (endless, *broken(shown.view, shown.chunk), hint)))
        verdict = Verdict(name=RETUNE, chunk=shown.chunk, may_hold=near, reasons=failing, best=best.view,
                          window=owner.window(best))  # fmt: skip
        return demand.answer(shown, verdict, steady=settled is not None)
    most = own = demand.fullest()
    carried = 0.0
    reasons: tuple[str, ...] = ("a lone request already misses the limits",)
    for words, other in [("", demand), *_recomposed(case, places)]:
        fullest = own if other is demand else other.fullest()
        load = other.highest(fullest.budget) if fullest.keeps else 0.0
        if load > carried:
            most, carried, reasons = fullest, load, other.reasons(settled, fullest, words)
    pools = disaggregate(own.view, demand.arrivals, case.question.rate)
    shown = settled or (own if given is None else demand.fullest(given))
    verdict = demand.failing(shown, most, pools, carried, reasons)
    return demand.answer(shown, replace(verdict, may_hold=near), steady=settled is not None)


def _recomposed(case: Case, places: int | None) -> list[tuple[str, Demand]]:
    """The same traffic on other compositions of the steps, in words each."""
    out = []
    for way in other_ways(case.deployment.engine, case.workload.draft_tokens):
        deployment = replace(case.deployment, engine=way.engine)
        timer = timer_for(deployment, case.workload.draft_tokens)
        out.append((way.words, Demand(replace(case, deployment=deployment), timer, places=places)))
    return out


def holding(case: Case, timer: StepTimer) -> tuple[Outlook, Verdict, Load] | None:
    """What `settle` returns where the limits hold, without how much more would; None where they do not."""
    if certificates(lone := outlook(case.deployment, replace(case.workload, batch=1), case.slo, timer), lone.expected):
        return None
    demand = Demand(case, timer, thorough=False)
    given = demand.given()
    if given is None and demand.hopeless():
        return None
    settled = demand.best() if given is None else demand.at(given)
    if settled is None or not settled.keeps:
        return None
    return demand.answer(settled, judge(settled.view, settled.chunk))
