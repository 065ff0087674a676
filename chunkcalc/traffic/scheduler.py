"""A scheduler stepped over arrivals: which tokens each step carries, timed by the step's prediction.

One attention rank of one replica. An engine that mixes fills its budget with the running requests
in the order of their admission, decodes and started prompts alike, then with waiting ones; an
engine that runs prompts first runs a batch of prompts whenever one waits, else the decodes. A
request is admitted when the KV cache has room for its prompt; when a decode finds none, the
request admitted last gives its place up and starts again.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from typing import NamedTuple

from chunkcalc.errors import ChunkcalcError
from chunkcalc.frozen import dataclass
from chunkcalc.traffic.arrivals import Request

GRAIN = 32  # contexts and prefixes are timed in steps of so many tokens
BLOCK = 16  # tokens of a KV block
TOLD = 500  # requests between two words of how far it is
GAP = 1e-4  # gaps between tokens are counted to this [s]

StepTime = Callable[..., float]  # step(c, p, b, s, prompts) -> seconds


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
    request_overhead : time per request outside its steps [s]
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
    request_overhead: float = 0.0
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


@dataclass(slots=True, eq=False)
class _Running:
    """A request in flight.

    done : tokens of it in the KV cache; wanted : prompt tokens to process before it decodes
    room : tokens of the KV cache that it takes, in whole blocks
    last : when its last token came; gap : longest time between two of them
    """

    request: Request
    index: int
    wanted: int
    done: int = 0
    room: int = 0
    produced: float = 0.0
    first: float | None = None
    last: float = 0.0
    gap: float = 0.0
    preempted: int = 0

    @property
    def decoding(self) -> bool:
        """Whether its prompt is done."""
        return self.done >= self.wanted


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
    concurrency : a closed loop: so many at once, each sent when one finishes; arrivals do not count
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
        self.coming = deque(enumerate(requests))
        self.waiting: deque[_Running] = deque()
        self.running: list[_Running] = []  # by admission
        self.decodes: list[_Running] = []  # of them: prompts end in the order in which they were admitted
        self.held = 0  # tokens of the KV cache that those in flight take, in whole blocks
        self.now, self.since_prompt = 0.0, 0
        self.out = Replay(served=[Served(request, None, None, None, None) for request in requests])
        self.free = concurrency or 0
        self.times: dict[tuple[float, ...], float] = {}

    def run(self, progress: Callable[[int], None]) -> Replay:
        """Until every request is finished or refused.

        Parameters
        ----------
        progress : told now and then how many requests are still to come
        """
        self._arrive()
        told = len(self.coming) + len(self.waiting)
        while self.coming or self.waiting or self.running:
            if not self.waiting and not self.running:
                self.now = max(self.now, self.coming[0][1].arrival)
                self._arrive()
                continue
            if self.scheduler.mixed:
                self._mixed_step()
            elif not self._prompt_step():
                self._decode_steps()
            self._arrive()
            left = len(self.coming) + len(self.waiting)
            if told - left >= TOLD:
                told = left
                progress(left)
        self.out.duration_s = self.now - (0.0 if self.closed else self.out.served[0].request.arrival)
        return self.out

    def _arrive(self) -> None:
        """Requests that have come by now join the queue; those that can never fit are refused."""
        while self.coming and (self.free > 0 if self.closed else self.coming[0][1].arrival <= self.now):
            index, request = self.coming.popleft()
            if self.closed:
                self.free -= 1
                request = request._replace(arrival=self.now)
                self.out.served[index] = self.out.served[index]._replace(request=request)
            if self._never_fits(request):
                self.free += self.closed
                continue
            self.waiting.append(_Running(request, index, request.prompt))

    def _never_fits(self, request: Request) -> bool:
        limit, budget = self.scheduler.kv_tokens, self.scheduler.budget
        too_long = limit is not None and _blocks(request.prompt + request.output) > limit
        beyond = self.scheduler.longest is not None and request.prompt + request.output > self.scheduler.longest
        return beyond or too_long or (self.scheduler.whole and request.prompt > budget)

    def _room_for(self, request: _Running) -> int:
        """What a request takes of the KV cache when it is admitted."""
        whole = request.request.prompt + request.request.output
        return _blocks(whole if self.scheduler.reserve else request.wanted)

    def _admits(self, request: _Running) -> bool:
        if len(self.running) >= self.scheduler.most_running:
            return False
        if self.scheduler.kv_tokens is None:
            return True
        return self.held + self._room_for(request) <= self.scheduler.kv_tokens

    def _admit(self, left: int, chunks: list[tuple[_Running, int]]) -> int:
        """The first in the queue joins those in flight."""
        request = self.waiting.popleft()
        self.running.append(request)
        request.room = self._room_for(request)
        self.held += request.room
        return self._take(request, left, chunks)

    def _mixed_step(self) -> None:
        """One step of an engine that mixes; many at once where nothing but decodes runs."""
        left = self.scheduler.budget - len(self.decodes) * self.scheduler.slots
        chunks: list[tuple[_Running, int]] = []
        if len(self.decodes) < len(self.running):
            for each in self.running:
                if not each.decoding and left > 0:
                    left -= self._take(each, left, chunks)
        while self.waiting and left > 0 and self._admits(self.waiting[0]):
            if self.scheduler.whole and self.waiting[0].wanted > left:
                break
            left -= self._admit(left, chunks)
        if not chunks:
            self._decode_steps()
            return
        self._run(chunks, self.decodes[: self.scheduler.budget // self.scheduler.slots])

    def _take(self, request: _Running, left: int, chunks: list[tuple[_Running, int]]) -> int:
        size = min(left, request.wanted - request.done)
        chunks.append((request, size))
        return size

    def _prompt_step(self) -> bool:
        """A batch of prompts where one waits and the decodes have had their turns; else none."""
        turns = self.scheduler.interval
        if turns and self.decodes and self.since_prompt < turns:
            return False
        left = self.scheduler.budget
        chunks: list[tuple[_Running, int]] = []
        if len(self.decodes) < len(self.running):
            for each in self.running:
                if not each.decoding and left > 0:
                    left -= self._take(each, left, chunks)
        while self.waiting and left > 0 and self._admits(self.waiting[0]):
            left -= self._admit(left, chunks)
        if not chunks:
            return False
        self.since_prompt = 0
        self._run(chunks, [])
        return True

    def _run(self, chunks: list[tuple[_Running, int]], decodes: list[_Running]) -> None:
        """A step with prompt tokens: unequal prompts count as equal ones with as many query-key pairs."""
        total = sum(size for _, size in chunks)
        before = sum(size * request.done for request, size in chunks) / total
        prompts = total * total / sum(size * size for _, size in chunks)
        self._pass(self._time(total, before, prompts, decodes), decodes, 1)
        self.out.mixed_steps += 1
        for request, size in chunks:
            request.done += size
            if request.decoding:
                self.decodes.append(request)
                self._token(request, 1.0)
                if request.first is None:
                    request.first = self.now
        self._finish()
        self._make_room()

    def _decode_steps(self) -> None:
        """As many decode steps as pass before something else happens."""
        decodes = self.decodes
        if not decodes:
            raise ChunkcalcError(
                "a request waits for room that never comes", "replay", "raise the KV cache or the budget"
            )
        decodes = decodes[: max(1, self.scheduler.budget // self.scheduler.slots)] if self.scheduler.mixed else decodes
        accepted = self.scheduler.accepted
        ends = min(math.ceil((each.request.output - each.produced) / accepted) for each in decodes)
        count = max(1, min(ends, self._until_full(decodes)))
        if self.scheduler.interval and self.waiting:
            count = min(count, max(1, self.scheduler.interval - self.since_prompt))
        first = self._time(0, 0, 1, decodes)
        if self.coming and not self.closed:
            count = min(count, max(1, math.ceil((self.coming[0][1].arrival - self.now) / first)))
        self._pass(self._average(first, decodes, count), decodes, count)
        self.since_prompt += count
        self._finish()
        self._make_room()

    def _until_full(self, decodes: list[_Running]) -> int:
        limit = self.scheduler.kv_tokens
        if limit is None or self.scheduler.reserve:
            return 1 << 30
        return max(1, (limit - self.held) // len(decodes))

    def _average(self, first: float, decodes: list[_Running], count: int) -> float:
        """Mean time of so many decode steps: contexts grow by as much, and the time with them."""
        if count == 1:
            return first
        grown = count * self.scheduler.accepted
        return (first + self._time(0, 0, 1, decodes, grown)) / 2

    def _time(self, c: int, p: float, prompts: float, decodes: list[_Running], grown: float = 0.0) -> float:
        context = sum(each.done for each in decodes) / len(decodes) + grown if decodes else 0.0
        s, p = (GRAIN * round(value / GRAIN) for value in (context, p))
        key = (c, p, len(decodes), s, round(prompts, 2))
        found = self.times.get(key)
        if found is None:
            found = self.times[key] = float(self.step(c, p, float(len(decodes)), float(max(s, 1)), max(1.0, prompts)))
        return found

    def _pass(self, time: float, decodes: list[_Running], count: int) -> None:
        """Time goes by, and every decode yields its tokens."""
        most, gaps, end = count * self.scheduler.accepted, self.out.gaps, self.now + time * count
        whole, before, longest, bucket, alike = round(most), -1.0, 0.0, 0, 0
        for each in decodes:
            if each.last == before:  # as nearly all: their last token came in the same step
                alike += 1
            else:
                if alike:
                    gaps[bucket] += alike
                before, alike = each.last, 1
                since = self.now + time - before
                longest, bucket = max(time, since), round(since / GAP)
            left = each.request.output - each.produced
            new = whole
            if left < most:
                each.produced += left
                new = round(left)
            else:
                each.produced += most
            each.done += new
            if each.done > each.room:
                self.held -= each.room
                each.room = _blocks(each.done)
                self.held += each.room
            each.gap = longest if longest > each.gap else each.gap
            each.last = end
        if alike:
            gaps[bucket] += alike
        if count > 1:
            gaps[round(time / GAP)] += (count - 1) * len(decodes)
        self.out.steps += count
        self.out.busy_s += time * count
        self.out.batch_seconds += len(self.decodes) * time * count
        self.now = end

    def _token(self, request: _Running, tokens: float) -> None:
        request.produced += tokens
        if request.first is not None:  # it was preempted: its prompt was processed again
            request.gap = max(request.gap, self.now - request.last)
        request.last = self.now

    def _finish(self) -> None:
        done = [each for each in self.decodes if each.produced >= each.request.output - 1e-9]
        if not done:
            return
        overhead = self.scheduler.request_overhead
        for each in done:
            assert each.first is not None
            more = each.request.output - 1
            tpot = (each.last - each.first) / more if more else None
            self.out.served[each.index] = Served(
                each.request, each.first - each.request.arrival + overhead, tpot, each.gap if more else None,
                each.last, each.preempted,
            )  # fmt: skip
            self.free += self.closed
            self.held -= each.room
        ended = set(map(id, done))
        self.running = [each for each in self.running if id(each) not in ended]
        self.decodes = [each for each in self.decodes if id(each) not in ended]

    def _make_room(self) -> None:
        """Where the cache overflows, the request admitted last waits again, with all its tokens to process."""
        limit = self.scheduler.kv_tokens
        while limit is not None and len(self.running) > 1 and self.held > limit:
            last = self.running.pop()
            self.held -= last.room
            if last.decoding:
                self.decodes.remove(last)
            last.wanted = last.request.prompt + int(last.produced)
            last.done = 0
            last.preempted += 1
            self.waiting.appendleft(last)


def _blocks(tokens: float) -> int:
    return math.ceil(tokens / BLOCK) * BLOCK
