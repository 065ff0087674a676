"""Prefill and decode on units apart, stepped over requests: prompts queue at one pool, answers are decoded in another.

A prefill unit takes prompts whole, one after the other; a request then goes to the decode unit whose turn it is, and
holds that one's decodes up when it arrives.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import field

from chunkcalc.frozen import dataclass
from chunkcalc.traffic.arrivals import Request
from chunkcalc.traffic.decodes import Decodes, Running
from chunkcalc.traffic.scheduler import GRAIN, Served


@dataclass(frozen=True, slots=True, kw_only=True)
class Pools:
    """What units apart take for what they do.

    prefills, decodes : units of each kind [1]
    prefill : time of a request's prompt on a prefill unit, by its place among the requests [s]
    before : time of a request before its prefill, outside the units [s]
    between : from the end of the prefill to the first token: the transfer and what the engine adds [s]
    stall : by which an arriving request holds up the decodes of its unit [s]
    step : a decode step, by requests and mean context [s]
    most : requests of a decode unit at once [1]
    """

    prefills: int
    decodes: int
    prefill: Callable[[int], float]
    before: float
    between: float
    stall: float
    step: Callable[[float, float], float]
    most: int


@dataclass(slots=True)
class _DecodeUnit:
    """One decode unit: who decodes, who waits, and whether a step is under way."""

    decodes: Decodes = field(default_factory=lambda: Decodes(1.0))
    waiting: deque[Running] = field(default_factory=deque)
    busy: bool = False


def served_apart(requests: Sequence[Request], pools: Pools, concurrency: int | None = None) -> list[Served]:
    """Serve requests.

    Parameters
    ----------
    requests : by arrival
    pools : that serve them
    concurrency : a closed loop: so many at once, each sent when one finishes

    Returns
    -------
    each as it was served, by the order of arrival
    """
    return _Apart(requests, pools, concurrency).run()


class _Apart:
    def __init__(self, requests: Sequence[Request], pools: Pools, concurrency: int | None) -> None:
        self.pools, self.closed = pools, concurrency is not None
        self.requests, self.sent = list(requests), 0
        self.free = [0.0] * pools.prefills
        self.units = [_DecodeUnit() for _ in range(pools.decodes)]
        self.turn = 0
        self.events: list[tuple[float, int, int]] = []  # when, at which decode unit (-1: none yet), whose place
        self.out = [Served(request, None, None, None, None) for request in self.requests]
        self.times: dict[tuple[int, int], float] = {}
        for _ in range(min(len(self.requests), concurrency or len(self.requests))):
            self._send(0.0)

    def run(self) -> list[Served]:
        """Until every request is finished."""
        while self.events:
            now, unit, place = heapq.heappop(self.events)
            if unit < 0:
                self._arrive(place, now)
            else:
                self._step_ended(unit, now)
        return self.out

    def _send(self, now: float) -> None:
        """The next request goes to the prefill unit that is free first."""
        place = self.sent
        self.sent += 1
        request = self.requests[place]
        request = request._replace(arrival=now if self.closed else request.arrival)
        self.requests[place] = request
        unit = min(range(len(self.free)), key=self.free.__getitem__)
        done = max(request.arrival + self.pools.before, self.free[unit]) + self.pools.prefill(place)
        self.free[unit] = done
        heapq.heappush(self.events, (done + self.pools.between, -1, place))

    def _arrive(self, place: int, now: float) -> None:
        """A request comes to a decode unit with its first token."""
        request = self.requests[place]
        one = Running(request, place, request.prompt, produced=1.0, first=now, last=now)
        if request.output <= 1:
            self._finished(one)
            return
        index = self.turn
        self.turn = (self.turn + 1) % len(self.units)
        self.units[index].waiting.append(one)
        if not self.units[index].busy:
            self._begin(index, now)

    def _begin(self, index: int, now: float) -> None:
        """The next step of a unit, with those that have come since."""
        unit, joined = self.units[index], 0
        while unit.waiting and unit.decodes.count < self.pools.most:
            one = unit.waiting.popleft()
            unit.decodes.join(one, one.last)
            joined += 1
        unit.busy = unit.decodes.count > 0
        if unit.busy:
            time = self._time(unit.decodes) + self.pools.stall * joined
            unit.decodes.advance(now, time, 1)
            heapq.heappush(self.events, (now + time, index, -1))

    def _time(self, decodes: Decodes) -> float:
        context = decodes.tokens / decodes.count
        key = (decodes.count, round(context / GRAIN))
        if key not in self.times:
            self.times[key] = float(self.pools.step(key[0], key[1] * GRAIN))
        return self.times[key]

    def _step_ended(self, index: int, now: float) -> None:
        for one in self.units[index].decodes.ended():
            self._finished(one)
        self._begin(index, now)

    def _finished(self, one: Running) -> None:
        assert one.first is not None
        more = one.request.output - 1
        tpot = (one.last - one.first) / more if more else None
        self.out[one.place] = Served(
            one.request, one.first - one.request.arrival, tpot, one.gap if more else None, one.last
        )  # fmt: skip
        if self.closed and self.sent < len(self.requests):
            self._send(one.last)
