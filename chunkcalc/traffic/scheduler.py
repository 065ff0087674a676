"""A scheduler stepped over arrivals: which tokens each step carries, timed by the step's prediction.

One attention rank of one replica. An engine that mixes fills its budget with the running requests
in the order of their admission, decodes and started prompts alike, then with waiting ones; an
engine that runs prompts first runs a batch of prompts whenever one waits, else the decodes. A
request is admitted when the KV cache has room for its prompt; when a decode finds none, the
request admitted last gives its place up and starts again.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from typing import NamedTuple

from chunkcalc.errors import ChunkcalcError
from chunkcalc.frozen import dataclass
from chunkcalc.time.prefill import cached_tokens
from chunkcalc.traffic.arrivals import Request
from chunkcalc.traffic.decodes import Decodes, Running

GRAIN = 32  # contexts and prefixes are timed in steps of so many tokens
BLOCK = 16  # tokens of a KV block
TOLD = 500  # requests between two words of how far it is

StepTime = Callable[..., float]  # step(c, p, b, s, prompts) -> seconds


class NewTokens(NamedTuple):
    """The share of the tokens still to come for which SGLang keeps room (schedule_policy.py, environ.py).

    start, least : where it begins and ends [1]
    steps : decode steps over which it falls [1]
    most : of a request that count [token]
    ahead : decode steps that it looks ahead after a request had to give its place up [1]
    """

    start: float
    least: float
    steps: float
    most: float
    ahead: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduler:
    """How an engine composes its steps, on one rank.

    budget : tokens of a step; prompt tokens where prompts go first [token]
    most_running : requests in flight [1]
    kv_tokens : tokens that the cache holds; None for no limit [token]
    mixed : steps carry prompts and decodes together
    longest : context beyond which a request is refused; None for no limit [token]
    whole : prompts enter a step whole (chunked prefill off)
    interval : decode steps after every prompt step, where prompts go first [1]
    reserve : an admitted request keeps room for its whole answer (TensorRT-LLM)
    new_tokens : tokens that those in flight are still to yield keep room in part (SGLang); None where they do not
    request_overhead : time of a request before its first step, whatever its prompt [s]
    token_overhead : and for each of its prompt tokens [s]
    cached : share of each prompt that needs no work [1]
    shared : which is one prefix, stored once
    accepted : tokens a decode yields per step [token]
    slots : tokens of the budget that a decode takes [token]
    """

    budget: int
    most_running: int
    kv_tokens: int | None = None
    longest: int | None = None
    mixed: bool = True
    whole: bool = False
    interval: int = 0
    reserve: bool = False
    new_tokens: NewTokens | None = None
    request_overhead: float = 0.0
    token_overhead: float = 0.0
    cached: float = 0.0
    shared: bool = True
    accepted: float = 1.0
    slots: int = 1


class Served(NamedTuple):
    """A request as it was served [s]; None where it was not.

    ttft : from its arrival to its first token
    tpot : mean time per further token
    gap : longest time between two of its tokens
    finished : when its last token came
    preempted : how often it gave its place up
    """

    request: Request
    ttft: float | None
    tpot: float | None
    gap: float | None
    finished: float | None
    preempted: int = 0


@dataclass(slots=True)
class Replay:
    """A replay and what came of it.

    served : by the order of arrival
    steps, mixed_steps : how many ran, and how many of them carried prompt tokens
    busy_s : time in steps [s]
    duration_s : from the first arrival to the last token [s]
    batch_seconds : decoding requests, integrated over time [s]
    gaps : time between two tokens in units of GAP -> how often
    """

    served: list[Served] = field(default_factory=list)
    steps: int = 0
    mixed_steps: int = 0
    busy_s: float = 0.0
    duration_s: float = 0.0
    batch_seconds: float = 0.0
    gaps: Counter[int] = field(default_factory=Counter)


def replay(
    requests: Iterable[Request], step: StepTime, scheduler: Scheduler, concurrency: int | None = None,
    progress: Callable[[int], None] = lambda left: None,
) -> Replay:  # fmt: skip
    """Serve requests.

    Parameters
    ----------
    requests : by arrival
    step : time of a step, step(c, p, b, s, prompts) [s]
    scheduler : how steps are composed
    concurrency : a closed loop: so many at once, each sent when one finishes, and not before its arrival
    progress : told now and then how many requests are still to come

    Returns
    -------
    what came of it

    Raises
    ------
    ChunkcalcError : no request
    """
    listed = list(requests)
    if not listed:
        raise ChunkcalcError("there is no request", "replay", "give at least one")
    return _Engine(listed, step, scheduler, concurrency).run(progress)


class _Engine:
    def __init__(
        self, requests: Sequence[Request], step: StepTime, scheduler: Scheduler, concurrency: int | None
    ) -> None:
        self.step, self.scheduler, self.closed = step, scheduler, concurrency is not None
        # When each is ready for its first step; of a closed loop, those that were sent.
        self.unsent: deque[tuple[int, Request]] = deque(enumerate(requests) if self.closed else ())
        self.coming = [] if self.closed else [(self._ready(each), place, each) for place, each in enumerate(requests)]
        heapq.heapify(self.coming)
        self.waiting: deque[Running] = deque()
        self.running: dict[int, Running] = {}  # in flight, by admission
        self.prompts: dict[int, Running] = {}  # of them: those whose prompt is not done
        self.stalled: deque[Running] = deque()  # decodes for which a step has no room
        self.decodes = Decodes(scheduler.accepted)
        self.prefix = 0  # tokens of the prefix that is stored once
        self.rooms = 0  # tokens of the KV cache that prompts and reserves take, in whole blocks
        self.ratio = 0.0 if scheduler.new_tokens is None else scheduler.new_tokens.start
        self.now, self.since_prompt = 0.0, 0
        self.out = Replay(served=[Served(request, None, None, None, None) for request in requests])
        self.out.gaps = self.decodes.gaps
        self.free = concurrency or 0
        self.times: dict[tuple[float, ...], float] = {}

    def run(self, progress: Callable[[int], None]) -> Replay:
        """Until every request is finished or refused.

        Parameters
        ----------
        progress : told now and then how many requests are still to come
        """
        self._arrive()
        told = len(self.unsent) + len(self.coming) + len(self.waiting)
        while self.coming or self.waiting or self.running:
            if not self.waiting and not self.running:
                self.now = max(self.now, self.coming[0][0])
                self._arrive()
                continue
            if self.scheduler.mixed:
                self._mixed_step()
            elif not self._prompt_step():
                self._decode_steps()
            self._arrive()
            left = len(self.unsent) + len(self.coming) + len(self.waiting)
            if told - left >= TOLD:
                told = left
                progress(left)
        self.out.duration_s = self.now - (0.0 if self.closed else self.out.served[0].request.arrival)
        return self.out

    def _arrive(self) -> None:
        """Requests that are ready by now join the queue; those that can never fit are refused."""
        while self.unsent and self.free > 0:
            place, request = self.unsent.popleft()
            request = request._replace(arrival=max(self.now, request.arrival))
            self.out.served[place] = self.out.served[place]._replace(request=request)
            if not self._never_fits(request):
                self.free -= 1
                heapq.heappush(self.coming, (self._ready(request), place, request))
        while self.coming and self.coming[0][0] <= self.now:
            _, place, request = heapq.heappop(self.coming)
            if self.closed or not self._never_fits(request):
                cached = self._cached(request)
                shared = cached if self.scheduler.shared else 0
                self.prefix = max(self.prefix, shared)
                self.waiting.append(Running(request, place, request.prompt, cached, shared))

    def _ready(self, request: Request) -> float:
        """When the host is done with a request that has come."""
        scheduler = self.scheduler
        return request.arrival + scheduler.request_overhead + scheduler.token_overhead * request.prompt

    def _cached(self, request: Request) -> int:
        return cached_tokens(request.prompt, self.scheduler.cached) if self.scheduler.cached else 0

    def _never_fits(self, request: Request) -> bool:
        limit, budget = self.scheduler.kv_tokens, self.scheduler.budget
        too_long = limit is not None and _blocks(request.prompt + request.output) > limit
        beyond = self.scheduler.longest is not None and request.prompt + request.output > self.scheduler.longest
        return beyond or too_long or (self.scheduler.whole and request.prompt > budget)

    @property
    def held(self) -> float:
        """Tokens of the KV cache that those in flight take: the last block of a decode is half full on average."""
        if self.scheduler.reserve:
            return self.prefix + self.rooms
        own = self.decodes.tokens - self.decodes.shared
        return self.prefix + self.rooms + own + self.decodes.count * BLOCK / 2

    def _room_for(self, request: Running) -> int:
        """What a request takes of the KV cache when it is admitted."""
        whole = request.request.prompt + request.request.output
        return _blocks((whole if self.scheduler.reserve else request.wanted) - request.shared)

    def _admits(self, request: Running) -> bool:
        if len(self.running) >= self.scheduler.most_running:
            return False
        if self.scheduler.kv_tokens is None or not self.running:
            return True
        kept = self.held + self._room_for(request)
        if self.scheduler.new_tokens is not None:
            most = self.scheduler.new_tokens.most
            prompts = sum(min(each.request.output, most) for each in self.prompts.values())
            to_come = prompts + min(self.decodes.to_come, most * self.decodes.count)
            kept += min(request.request.output - request.produced, most) + self.ratio * to_come
        return kept <= self.scheduler.kv_tokens

    def _admit(self, left: int, chunks: list[tuple[Running, int]]) -> int:
        """The first in the queue joins those in flight."""
        request = self.waiting.popleft()
        self.running[request.place] = self.prompts[request.place] = request
        request.room = self._room_for(request)
        self.rooms += request.room
        return self._take(request, left, chunks)

    @property
    def _most_decodes(self) -> int:
        """Decodes for which a step has room."""
        return self.scheduler.budget // self.scheduler.slots if self.scheduler.mixed else 1 << 30

    def _mixed_step(self) -> None:
        """One step of an engine that mixes; many at once where nothing but decodes runs."""
        left = self.scheduler.budget - (self.decodes.count + len(self.stalled)) * self.scheduler.slots
        chunks = self._started(left)
        left -= sum(size for _, size in chunks)
        while self.waiting and left > 0 and self._admits(self.waiting[0]):
            if self.scheduler.whole and self.waiting[0].wanted > left:
                break
            left -= self._admit(left, chunks)
        if chunks:
            self._run(chunks, decoding=True)
        else:
            self._decode_steps()

    def _started(self, left: int) -> list[tuple[Running, int]]:
        """What a step takes of the prompts that have begun."""
        chunks: list[tuple[Running, int]] = []
        for each in self.prompts.values():
            if left <= 0:
                break
            left -= self._take(each, left, chunks)
        return chunks

    def _take(self, request: Running, left: int, chunks: list[tuple[Running, int]]) -> int:
        size = min(left, request.wanted - request.done)
        chunks.append((request, size))
        return size

    def _prompt_step(self) -> bool:
        """A batch of prompts where one waits and the decodes have had their turns; else none."""
        turns = self.scheduler.interval
        if turns and self.decodes.count and self.since_prompt < turns:
            return False
        left = self.scheduler.budget
        chunks = self._started(left)
        left -= sum(size for _, size in chunks)
        while self.waiting and left > 0 and self._admits(self.waiting[0]):
            left -= self._admit(left, chunks)
        if not chunks:
            return False
        self.since_prompt = 0
        self._run(chunks, decoding=False)
        return True

    def _run(self, chunks: list[tuple[Running, int]], *, decoding: bool) -> None:
        """A step with prompt tokens: unequal prompts count as equal ones with as many query-key pairs."""
        total = sum(size for _, size in chunks)
        before = sum(size * request.done for request, size in chunks) / total
        prompts = total * total / sum(size * size for _, size in chunks)
        self._pass(self._time(total, before, prompts, decoding=decoding), 1, decoding=decoding)
        self.out.mixed_steps += 1
        for request, size in chunks:
            request.done += size
            if request.done >= request.wanted:
                self._answered(request)
        self._finish()
        self._make_room()

    def _answered(self, request: Running) -> None:
        """A prompt is done: its token comes, and it decodes."""
        del self.prompts[request.place]
        if not self.scheduler.reserve:
            self.rooms -= request.room
        if request.first is None:
            request.first = self.now
        else:  # it was preempted: its prompt was processed again
            request.gap = max(request.gap, self.now - request.last)
        request.produced += 1.0
        request.last = self.now
        if self.decodes.count < self._most_decodes:
            self.decodes.join(request, self.now)
        else:
            self.stalled.append(request)

    def _decode_steps(self) -> None:
        """As many decode steps as pass before something else happens."""
        if not self.decodes.count:
            raise ChunkcalcError(
                "a request waits for room that never comes", "replay", "raise the KV cache or the budget"
            )
        count = max(1, min(self.decodes.until_end(), self._until_full()))
        if self.scheduler.interval and self.waiting:
            count = min(count, max(1, self.scheduler.interval - self.since_prompt))
        first = self._time(0, 0, 1, decoding=True)
        if self.coming:
            count = min(count, max(1, math.ceil((self.coming[0][0] - self.now) / first)))
        self._pass(self._average(first, count), count, decoding=True)
        self.since_prompt += count
        self._finish()
        self._make_room()

    def _until_full(self) -> int:
        limit = self.scheduler.kv_tokens
        if limit is None or self.scheduler.reserve:
            return 1 << 30
        return max(1, int((limit - self.held) / (self.decodes.count * self.scheduler.accepted)))

    def _average(self, first: float, count: int) -> float:
        """Mean time of so many decode steps: contexts grow by as much, and the time with them."""
        if count == 1:
            return first
        return (first + self._time(0, 0, 1, count * self.scheduler.accepted, decoding=True)) / 2

    def _time(self, c: int, p: float, prompts: float, grown: float = 0.0, *, decoding: bool) -> float:
        count = self.decodes.count if decoding else 0
        context = self.decodes.tokens / count + grown if count else 0.0
        s, p = (GRAIN * round(value / GRAIN) for value in (context, p))
        key = (c, p, count, s, round(prompts, 2))
        found = self.times.get(key)
        if found is None:
            found = self.times[key] = float(self.step(c, p, float(count), float(max(s, 1)), max(1.0, prompts)))
        return found

    def _pass(self, time: float, count: int, *, decoding: bool) -> None:
        """Time goes by, and every decode of the step yields its tokens."""
        if decoding and self.decodes.count:
            self.decodes.advance(self.now, time, count)
            kept = self.scheduler.new_tokens
            if kept is not None:
                self.ratio = max(kept.least, self.ratio - count * (kept.start - kept.least) / kept.steps)
        self.out.steps += count
        self.out.busy_s += time * count
        self.out.batch_seconds += (self.decodes.count + len(self.stalled)) * time * count
        self.now += time * count

    def _finish(self) -> None:
        for each in self.decodes.ended():
            assert each.first is not None
            more = each.request.output - 1
            tpot = (each.last - each.first) / more if more else None
            self.out.served[each.place] = Served(
                each.request, each.first - each.request.arrival, tpot, each.gap if more else None, each.last,
                each.preempted,
            )  # fmt: skip
            self.free += self.closed
            if self.scheduler.reserve:
                self.rooms -= each.room
            del self.running[each.place]
        while self.stalled and self.decodes.count < self._most_decodes:
            request = self.stalled.popleft()
            self.decodes.join(request, request.last)

    def _make_room(self) -> None:
        """Where the cache overflows, the request admitted last waits again, with all its tokens to process."""
        limit = self.scheduler.kv_tokens
        if limit is None or self.held <= limit:
            return
        kept = self.scheduler.new_tokens
        if kept is not None and self.decodes.count:
            wanted = sum(each.request.output for each in self.running.values() if each.joined >= 0)
            done = wanted - self.decodes.to_come + kept.ahead * self.decodes.count
            self.ratio = min(1.0, done / wanted)
        while len(self.running) > 1 and self.held > limit:
            place, last = self.running.popitem()
            if self.prompts.pop(place, None) is not None:
                self.rooms -= last.room
            elif last.joined >= 0:
                self.decodes.leave(last)
            else:
                self.stalled.remove(last)
            last.wanted = last.request.prompt + int(last.produced)
            last.done = self._cached(last.request)
            last.preempted += 1
            self.waiting.appendleft(last)


def _blocks(tokens: float) -> int:
    return math.ceil(tokens / BLOCK) * BLOCK
