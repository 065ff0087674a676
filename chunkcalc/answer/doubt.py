"""What is not known of the host, and what it decides: the answer at both ends of its range."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from chunkcalc.answer.judged import Outlook, outlook
from chunkcalc.answer.recommendation import keeping
from chunkcalc.answer.window import every_limit
from chunkcalc.engines import graphs
from chunkcalc.engines.tables import table
from chunkcalc.time.step import timer_for, with_host

MATTERS = 0.03  # of a step, below which the range of the host's time is not worth a word
HOSTS = ("host_dense", "host_moe", "host_latent", "host_hybrid", "host_graph")


class HostDoubt(NamedTuple):
    """The range of the host's time, and what follows at its ends.

    least_s, most_s : host time per layer of a step that no captured graph holds [s]
    budget_least, budget_most : to set where the host takes the least and the most; None where nothing holds [token]
    holds_least, holds_most : whether the setting of the answer keeps every limit by prediction
    flags : that capture such steps, and leave the host nothing to decide
    """

    least_s: float
    most_s: float
    budget_least: int | None
    budget_most: int | None
    holds_least: bool
    holds_most: bool
    flags: tuple[str, ...]

    @property
    def decides(self) -> bool:
        """Whether the answer is another at one of the ends."""
        return self.budget_least != self.budget_most or self.holds_least != self.holds_most


def host_doubt(view: Outlook, chunk: int, *, given: bool) -> HostDoubt | None:
    """What the host's time decides; None where the GPU hides it whatever it is.

    Parameters
    ----------
    view : the deployment under the workload that is answered for
    chunk : of the answer [token]
    given : the setting was asked about, and no other is looked for
    """
    engine, timer = view.deployment.engine, view.timer
    spread, layers = engine.overheads.host_spread, view.deployment.model.layer_count
    prefill = view.expected.prefill
    beyond = max(chunk, engine.captured - view.offset + 1)  # the smallest step that no graph holds, or the answer's
    step = prefill.longest(min(beyond, view.longest_chunk))
    host = float(timer.host(step[0], step[2]))
    if spread <= 1 or not host:
        return None
    gpu = float(timer.gpu(*step))
    joined = [with_host(gpu, host * factor) for factor in (1 / spread, 1.0, spread)]
    if joined[2] - joined[0] < MATTERS * joined[1]:
        return None
    fast, slow = (_under(view, factor) for factor in (1 / spread, spread))
    budgets = (None, None) if given else (_budget(fast), _budget(slow))
    most = max((budget for budget in budgets if budget), default=chunk + view.offset)
    return HostDoubt(
        least_s=host / layers / spread, most_s=host / layers * spread, budget_least=budgets[0],
        budget_most=budgets[1], holds_least=_holds(fast, chunk), holds_most=_holds(slow, chunk),
        flags=_capturing(view, most),
    )  # fmt: skip


def _holds(view: Outlook, chunk: int) -> bool:
    return all(limit.holds(chunk) for limit in every_limit(view))


def _under(view: Outlook, factor: float) -> Outlook:
    engine = view.deployment.engine
    each = engine.overheads
    overheads = each._replace(**{name: factor * getattr(each, name) for name in HOSTS})
    deployment = replace(view.deployment, engine=replace(engine, overheads=overheads))
    timer = timer_for(deployment, view.workload.draft_tokens)
    return outlook(deployment, view.workload, view.slo, timer, view.queueing)


def _budget(view: Outlook) -> int | None:
    chunk = keeping(view)
    return None if chunk is None else chunk + view.offset


def _capturing(view: Outlook, budget: int) -> tuple[str, ...]:
    """The option that captures steps of a budget, of an engine that captures steps with prompt tokens."""
    engine = view.deployment.engine
    if not engine.captured or budget <= engine.captured:
        return ()
    wanted = 1 << (budget - 1).bit_length()
    found = table(engine.name, engine.version)
    return graphs.flag(found, view.workload.batch, view.workload.draft_tokens, wanted)
