"""A process under its stated workload -> what users see, and what another setting would give."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from chunkcalc.answer.assembly import assemble
from chunkcalc.answer.batches import largest_batch
from chunkcalc.answer.judged import Outlook, outlook
from chunkcalc.answer.measured import Numbers
from chunkcalc.answer.question import Question
from chunkcalc.answer.recommendation import keeping, recommend
from chunkcalc.answer.records import Answer
from chunkcalc.answer.records import Load as Traffic
from chunkcalc.answer.resolve import Case, resolve
from chunkcalc.answer.solve import as_composed
from chunkcalc.answer.taught import Taught
from chunkcalc.answer.verdict import Verdict
from chunkcalc.engines.capacity import Capacity, capacity
from chunkcalc.engines.dialects import dialect, prototype
from chunkcalc.errors import ChunkcalcError
from chunkcalc.frozen import dataclass
from chunkcalc.gate.known import Known
from chunkcalc.time.search import last
from chunkcalc.time.step import StepTimer, timer_for

ASSUMED_OUTPUT = 512
MOST_ROUNDS = 12  # of the fixed point between a request rate and its batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How many requests decode at once on a replica, and why no more.

    batch : decoding requests
    asked : as the concurrency or the rate asks; None where neither is stated
    admits : what the KV cache holds at the mean context
    """

    batch: int
    asked: int | None
    admits: int


class Evaluation(Known):
    """A process, evaluated as far as what is known allows."""

    @property
    def missing(self) -> Sequence[str]:
        """What is not known, and why a workload or an answer cannot be computed."""
        return [*self.lacking, *(why for _, why in (self._case, self._answer) if why)]

    @property
    def case(self) -> Case | None:
        """The deployment under its workload; None without a prompt, or where the engine refuses it."""
        return self._case[0]

    @cached_property
    def _case(self) -> tuple[Case | None, str]:
        seen = self.inspection
        if seen is None or seen.deployment is None or self.settings.get("prompt") is None or self.process.disabled:
            return None, ""
        try:
            found = resolve(self.question(batch=None))
        except ChunkcalcError as error:
            return None, str(error)
        given = seen.deployment.engine
        engine = replace(found.deployment.engine, captured=given.captured, eager=given.eager)
        return replace(found, deployment=replace(found.deployment, engine=engine)), ""

    def question(self, batch: int | None, **changes: Any) -> Question:
        """The deployment and its workload as a question."""
        return replace(self._asked(batch, **changes), taught=self._taught)

    @cached_property
    def _taught(self) -> Taught | None:
        """What the numbers of the settings teach, on the deployment as it is written."""
        return resolve(self._asked(None)).question.taught if self.settings.get("measured") else None

    def _asked(self, batch: int | None, **changes: Any) -> Question:
        assert self.inspection is not None and self.model is not None and self.hardware is not None
        reading, settings = self.inspection.reading, self.settings
        parallelism = reading.parallelism
        prefill = self.process.role == "prefill"
        fields: dict[str, Any] = {
            "model": self.model.record, "gpu": self.hardware.record, "prompt": settings.get("prompt"),
            "output": 1 if prefill else settings.get("output") or ASSUMED_OUTPUT,
            "ttft": settings.get("ttft"), "tpot": None if prefill else settings.get("tpot"),
            "itl": None if prefill else settings.get("itl"), "tpot_basis": settings.get("tpot-basis"),
            "tp": parallelism.tp, "pp": parallelism.pp, "ep": parallelism.ep, "attention_dp": parallelism.dp,
            "weights": reading.weights, "kv": reading.kv, "draft_tokens": reading.draft_tokens,
            "prefix_hit": settings.get("prefix-hit") or 0.0, "prefix_shared": settings.get("prefix-shared") != "no",
            "engine": reading.table.engine,
            "engine_version": reading.table.version,
            "memory_fraction": None if self._share_follows_chunk else reading.memory_fraction,
            "mixed_chunk": bool(dialect(reading.table.engine).mixing) and reading.composition == "mixed",
            "prefill_interval": reading.interval, "max_utilisation": settings.get("max-utilisation") or 0.85,
            "gateway": settings.get("gateway"),
            "measured": Numbers(settings.get("measured") or ()).at_budget(reading.budget),
        }  # fmt: skip
        if self.rate is not None:
            # The batch follows from the traffic, in the account of `solve --rate`.
            fields |= {"rate": self.rate, "percentile": settings.get("percentile")}
            fields["prompt_p95"] = settings.get("prompt-p95")
            batch = None
        return Question(**{**fields, **changes, "batch": batch})

    @property
    def rate(self) -> float | None:
        """Requests per second on a replica that prefills and decodes; None where that is not stated."""
        return self.settings.get("rate") if self.process.role == "both" else None

    @property
    def _share_follows_chunk(self) -> bool:
        """SGLang's share of the memory follows from the chunk where no flag sets it."""
        assert self.reading is not None
        engine = self.reading.table.engine
        return prototype(engine).memory_rule == "total_less_reserve" and not self.word(dialect(engine).fraction)

    @cached_property
    def timer(self) -> StepTimer:
        """Of the deployment; shared, because it remembers."""
        assert self.case is not None
        return timer_for(self.case.deployment, self.case.workload.draft_tokens)

    def view(self, batch: int) -> Outlook:
        """The deployment with some requests decoding."""
        assert self.case is not None
        if batch not in self._views:
            workload = replace(self.case.workload, batch=batch)
            self._views[batch] = outlook(self.case.deployment, workload, self.case.slo, self.timer)
        return self._views[batch]

    @cached_property
    def _views(self) -> dict[int, Outlook]:
        return {}

    @cached_property
    def most_running(self) -> int:
        """Requests that may run at once on a replica, by the engine's limit."""
        assert self.reading is not None
        return self.reading.max_num_seqs * self.reading.parallelism.dp

    def memory(self, batch: int) -> Capacity:
        """The memory of a replica with some requests decoding."""
        assert self.case is not None and self.reading is not None
        return capacity(self.case.deployment, replace(self.case.workload, batch=batch), self.reading.chunk)

    @cached_property
    def load(self) -> Load:
        """The batch that the stated load brings about: no more than the engine and its memory admit."""
        assert self.case is not None and self.inspection is not None
        concurrency, rate = self.settings.get("concurrency"), self.settings.get("rate")
        most = min(concurrency or self.most_running, self.most_running)
        admits = self.memory(most).max_concurrency
        if self.inspection.kv_tokens is not None:
            admits = min(admits, int(self.inspection.kv_tokens / self.case.workload.context))
        if self.process.role == "prefill":
            return Load(batch=0, asked=concurrency, admits=admits)
        if self.settled is not None:
            batch = self.settled[0].workload.batch  # what the traffic brings, and the engine admits
            return Load(batch=batch, asked=batch, admits=admits)
        asked = concurrency if rate is None else self._decoding(rate, max(1, min(most, admits)))
        batch = 1 if asked is None else max(1, min(asked, self.most_running, admits))
        return Load(batch=batch, asked=asked, admits=admits)

    @cached_property
    def settled(self) -> tuple[Outlook, Verdict, Traffic] | None:
        """The traffic of a rate at the setting that is written; None without one."""
        if self.case is None or self.reading is None or self.rate is None:
            return None
        return self._settled(self.reading.chunk)

    def _settled(self, budget: int | None) -> tuple[Outlook, Verdict, Traffic]:
        """The same at a budget of a rank, or at the best."""
        assert self.case is not None and self.reading is not None
        from chunkcalc.answer.settling import settle  # noqa: PLC0415 - most files state no rate

        case = replace(self.case, question=replace(self.case.question, budget=budget))
        view, verdict, load = settle(case, self.timer, self.reading.max_num_seqs)
        return view, verdict, replace(load, flow=load.flow.tabulated())  # reports may come from other processes

    @property
    def loaded(self) -> Outlook:
        """The deployment under the load that is stated."""
        return self.view(self.load.batch) if self.settled is None else self.settled[0]

    @property
    def at(self) -> str:
        """The load, in words."""
        return f"batch {self.load.batch}" if self.rate is None else f"{self.rate:g} requests/s"

    def _decoding(self, rate: float, most: int) -> int:
        """On a decode worker, by Little's law: as many as arrive while one decodes; the step depends on how many."""
        assert self.case is not None
        batch, tokens = 1, max(1, self.case.workload.output - 1)
        for _ in range(MOST_ROUNDS):
            service = self.view(batch).expected
            wanted = max(1, math.ceil(rate * tokens * service.decode_step / service.accepted))
            if wanted == batch or batch >= most:
                return wanted
            batch = min(wanted, most)
        return batch

    def chunk(self, batch: int) -> int:
        """Prompt tokens of a step beside some decodes, on one rank; at least one."""
        assert self.reading is not None
        if self.reading.composition != "mixed":
            return self.reading.chunk
        ranks = self.reading.parallelism.dp * self.reading.parallelism.pp
        return max(1, self.reading.chunk - math.ceil(batch / ranks) * (1 + self.reading.draft_tokens))

    @property
    def answer(self) -> Answer | None:
        """The answer at the setting that is written; None where there is nothing to judge."""
        return self._answer[0]

    @cached_property
    def _answer(self) -> tuple[Answer | None, str]:
        if self.case is None or self.process.role == "decode":
            return None, ""
        batch = self.load.batch or None
        try:
            if self.settled is not None:
                loaded, verdict, load = self.settled
                return assemble(self.case, loaded, self.timer, verdict, True, load), ""
            asked = self.question(batch=batch, chunk=self.chunk(batch or 0))
            view = self.view(batch) if batch else None
            return as_composed(asked, self.timer, view), ""
        except ChunkcalcError as error:
            return None, str(error)

    @cached_property
    def retuned(self) -> Answer | None:
        """The answer at the best setting of the same deployment; None where that keeps the latency limits no more."""
        if self.case is None or self.process.role == "decode":
            return None
        view = self.view(self.load.batch) if self.load.batch and self.rate is None else None
        if view is not None:
            if last(view.latency_limits(view.expected), 1, view.longest_chunk) is None:
                return None
            best = keeping(view) or recommend(view).chunk
            if any(reached < 1 for reached in view.ratios(best).values()):
                return None
        try:
            if self.settled is not None:
                loaded, verdict, load = self._settled(None)
                return assemble(self.case, loaded, self.timer, verdict, False, load)
            asked = self.question(batch=self.load.batch or None)
            return as_composed(asked, self.timer, view)
        except ChunkcalcError:
            return None

    @cached_property
    def mixing(self) -> Answer | None:
        """SGLang with decodes mixed into its chunks, at the best chunk; None where it cannot mix."""
        if self.case is None or self.reading is None or self.reading.draft_tokens:
            return None
        try:
            asked = self.question(batch=self.load.batch or None, mixed_chunk=True, prefill_interval=0)
            return as_composed(asked)
        except ChunkcalcError:
            return None

    @cached_property
    def sustainable(self) -> int:
        """The largest batch that is a steady state within the limits; 0 where none is."""
        assert self.case is not None
        return largest_batch(self.view(1))

    def long_view(self, prompt: int) -> Outlook | None:
        """The deployment under prompts of another length."""
        assert self.case is not None
        if prompt > self.case.deployment.model.max_position:
            return None
        workload = replace(self.case.workload, prompt=prompt, batch=self.load.batch)
        return outlook(self.case.deployment, workload, self.case.slo, self.timer)

    def admitted_at(self, budget: int) -> int:
        """Requests that the KV cache holds beside the activations of another budget."""
        assert self.case is not None
        batch = min(self.settings.get("concurrency") or self.most_running, self.most_running)
        return capacity(
            self.case.deployment, replace(self.case.workload, batch=min(batch, budget)), budget
        ).max_concurrency
