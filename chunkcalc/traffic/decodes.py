"""Decoding requests of a rank: all yield their tokens together, so one clock counts them for all.

What a request has yielded is the clock less what it showed when the request joined; its longest gap is the longest of
the steps since then. A step costs the same however many decode.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import Counter
from dataclasses import field

from chunkcalc.frozen import dataclass
from chunkcalc.traffic.arrivals import Request

GAP = 1e-4  # gaps between tokens are counted to this [s]
DONE = 1e-9  # of a token, by which an answer is complete


@dataclass(slots=True, eq=False)
class Running:
    """A request in flight.

    wanted : prompt tokens to process before it decodes; done : of them in the KV cache [token]
    shared : of its prompt, those that it takes from a prefix stored once [token]
    room : tokens of the KV cache that it takes beyond what the decodes count, in whole blocks [token]
    produced : tokens yielded when it last joined the decodes [token]
    first, last, gap : when its first and its last token came; longest time between two of them [s]
    joined, index : clock and step at which it joined; -1 while it does not decode
    """

    request: Request
    place: int
    wanted: int
    done: int = 0
    shared: int = 0
    room: int = 0
    produced: float = 0.0
    first: float | None = None
    last: float = 0.0
    gap: float = 0.0
    preempted: int = 0
    joined: float = -1.0
    index: int = 0


@dataclass(slots=True)
class Decodes:
    """Those that decode.

    accepted : tokens that a step yields to each [token]
    clock : tokens yielded to each since the beginning [token]
    count, tokens : of those that decode: how many, and their contexts together [token]
    shared : tokens of their contexts that are stored once for all, together [token]
    to_come : tokens that they are still to yield, together [token]
    last : when the last step ended [s]
    gaps : time between two tokens in units of GAP -> how often
    """

    accepted: float
    clock: float = 0.0
    count: int = 0
    tokens: float = 0.0
    shared: int = 0
    to_come: float = 0.0
    last: float = 0.0
    gaps: Counter[int] = field(default_factory=Counter)
    _ends: list[tuple[float, int, Running]] = field(default_factory=list)
    _fresh: list[Running] = field(default_factory=list)
    _steps: int = 0
    _at: list[int] = field(default_factory=list)
    _peaks: list[float] = field(default_factory=list)

    def join(self, request: Running, now: float) -> None:
        """A request whose prompt is done, and whose token of that step has come.

        Parameters
        ----------
        request : the request
        now : the time [s]
        """
        request.joined, request.last = self.clock, now
        left = request.request.output - request.produced
        self.count += 1
        self.tokens += request.wanted
        self.shared += request.shared
        self.to_come += left
        self._fresh.append(request)
        heapq.heappush(self._ends, (self.clock + left, request.place, request))

    def leave(self, request: Running) -> None:
        """A request that ends, or gives its place up.

        Parameters
        ----------
        request : the request
        """
        yielded = self.clock - request.joined
        self.count -= 1
        self.tokens -= request.wanted + yielded
        self.shared -= request.shared
        self.to_come -= request.request.output - request.produced - yielded
        request.produced = min(float(request.request.output), request.produced + yielded)
        if request in self._fresh:
            self._fresh.remove(request)
        else:
            request.last = self.last
            since = bisect_left(self._at, request.index)
            if since < len(self._peaks):
                request.gap = max(request.gap, self._peaks[since])
        request.joined = -1.0

    def until_end(self) -> int:
        """Steps until the first of them ends."""
        while self._ends and self._ends[0][2].joined < 0:
            heapq.heappop(self._ends)
        return max(1, -int(-(self._ends[0][0] - self.clock - DONE) // self.accepted)) if self._ends else 1

    def advance(self, start: float, time: float, count: int) -> None:
        """Steps in a row that yield each its tokens.

        Parameters
        ----------
        start : when the first begins [s]
        time : of each [s]
        count : of steps [1]
        """
        end = start + time
        self._steps += 1
        for request in self._fresh:
            request.index = self._steps + 1
            request.gap = max(request.gap, end - request.last)
            self.gaps[round((end - request.last) / GAP)] += 1
        if self.count > len(self._fresh):
            self._peak(end - self.last)
            self.gaps[round((end - self.last) / GAP)] += self.count - len(self._fresh)
        self._fresh.clear()
        if count > 1:
            self._steps += 1
            self._peak(time)
            self.gaps[round(time / GAP)] += (count - 1) * self.count
        yielded = count * self.accepted
        self.clock += yielded
        self.tokens += yielded * self.count
        self.to_come -= yielded * self.count
        self.last = start + time * count

    def _peak(self, gap: float) -> None:
        """The gaps of past steps that are longer than every later one."""
        while self._peaks and self._peaks[-1] <= gap:
            self._peaks.pop()
            self._at.pop()
        self._peaks.append(gap)
        self._at.append(self._steps)

    def ended(self) -> list[Running]:
        """Those whose answer is complete; they leave."""
        out = []
        while self._ends and (self._ends[0][2].joined < 0 or self._ends[0][0] <= self.clock + DONE):
            _, _, request = heapq.heappop(self._ends)
            if request.joined >= 0:
                self.leave(request)
                out.append(request)
        return out
