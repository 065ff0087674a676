"""A deployment under a rate or a number of users: what each budget makes of them, the best one, the most it carries.

The batch, the wait and how crowded a request finds the replica follow from the budget, so every
budget is judged under the traffic that it makes itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import cache

from chunkcalc.answer.judged import LARGEST_DEFAULT_BUDGET, Outlook, outlook
from chunkcalc.answer.pools import KV_LINK, Arrivals
from chunkcalc.answer.recommendation import FINE_ALIGNMENT
from chunkcalc.answer.records import FEASIBLE
from chunkcalc.answer.resolve import Case
from chunkcalc.answer.verdict import (
    FAILS,
    status,
)
from chunkcalc.answer.window import Window, binding, every_limit
from chunkcalc.engines.capacity import decode_tokens
from chunkcalc.frozen import dataclass
from chunkcalc.records import Slo
from chunkcalc.time import search
from chunkcalc.time.service import Queueing
from chunkcalc.time.step import StepTimer
from chunkcalc.traffic.flow import Flow, Traffic
from chunkcalc.traffic.lengths import variation
from chunkcalc.traffic.queueing import wait_error, waited_error
from chunkcalc.traffic.users import stepped

STEPPED = 2  # budgets at which the most users are stepped
FAR, SPARSE = 0.8, 3  # of a limit over its prediction: below, a setting does not come near; of budgets looked at for it
NEAR = 4  # steps to either side of the best budget that are tried too
ROUNDS = 8  # of a budget for a given chunk
RATIO = 1.19  # of one budget to the next: four per doubling
ALIKE = 0.05  # times to first token this close are as good as each other
LESS = 1.3  # times fewer users, until they hold
EDGE = 0.05  # relative, to which the ends of a window with users are found
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
        """The chunks that carry the load, each budget under the traffic that it makes; None where not thorough.

        Exact under a rate; with users both ends are stepped, to 5 %.

        Parameters
        ----------
        inside : a setting that does
        """
        if not self.thorough:
            return None
        tried = sorted({*self._budgets(), inside.budget})
        looks = [None if budget == inside.budget else self._look(budget) for budget in tried]
        held = [budget == inside.budget or (look is not None and look.keeps)
                for budget, look in zip(tried, looks, strict=True)]  # fmt: skip
        first, last = held.index(True), len(held) - 1 - held[::-1].index(True)
        around = (0, *tried, tried[-1] + 1)  # tried[i] stands at i + 1
        if self.users is None:
            low, below = self._edge(tried[first], around[first])
            high, above = self._edge(tried[last], around[last + 2])
        else:  # a look is a guess
            low, below = self._edge(inside.budget, 0, tried[first], EDGE)
            high, above = self._edge(inside.budget, around[-1], tried[last], EDGE)
        return Window(
            chunk_min=self._chunk(low), chunk_max=self._chunk(high), gaps=not all(held[first : last + 1]),
            binding_min=self._binds(below) if below else "smallest chunk",
            binding_max=self._binds(above) if above < around[-1] else "largest chunk of use",
        )  # fmt: skip

    def _edge(self, good: int, bad: int, guess: int | None = None, near: float = 0.0) -> tuple[int, int]:
        """The last budget that carries the load on the way from one that does to one that does not, and the next.

        From a guess in strides that double, then by halving.

        Parameters
        ----------
        good, bad : budgets [token]
        guess : between them, where there is one [token]
        near : how close the two need to come [1]
        """
        probe, stride, outwards = guess or (good + bad) // 2, near, 1 if bad > good else -1
        while abs(bad - good) > max(1, near * good):
            kept = self.keeps(probe)
            good, bad = (probe, bad) if kept else (good, probe)
            probe += round(stride * probe) * (outwards if kept else -outwards)
            stride *= 2
            if not min(good, bad) < probe < max(good, bad):
                probe = (good + bad) // 2
        return good, bad

    def _chunk(self, budget: int) -> int:
        found = self.at(budget)
        return 1 if found is None else found.chunk

    def _binds(self, budget: int) -> str:
        """What a budget that does not carry the load breaks."""
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

    @property
    def arrivals(self) -> Arrivals:
        """How the requests would come to separate units."""
        return Arrivals(self.percentile, self.C, self.case.question.kv_link or KV_LINK)

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
