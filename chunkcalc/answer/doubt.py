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


class HostDoubt(NamedTuple):
    """The range of the host's time, and what follows at its ends.

    least_s, most_s : host time per layer of a step that no captured graph holds [s]
    budget_least, budget_most : to set where the host takes the least and the most; None where nothing holds, or the
        setting was given [token]
    holds_least, holds_most : whether the setting of the answer keeps every limit by prediction
    flags : that capture such steps; none where the ends differ with them, too
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
    ends = _ends(view, chunk, spread, given=given)
    found = HostDoubt(host / layers / spread, host / layers * spread, *ends, flags=())
    return found._replace(flags=_capturing(view, chunk, found, given=given)) if found.decides else found


def _ends(
    view: Outlook, chunk: int, spread: float, *, given: bool
) -> tuple[int | None, int | None, bool, bool]:  # fmt: skip
    """Budgets to set, and whether the setting holds, where the host takes the least and the most."""
    fast, slow = (_under(view, factor) for factor in (1 / spread, spread))
    budgets = (None, None) if given else (_budget(fast), _budget(slow))
    return *budgets, _holds(fast, chunk), _holds(slow, chunk)


def _holds(view: Outlook, chunk: int) -> bool:
    return all(limit.holds(chunk) for limit in every_limit(view))


def _under(view: Outlook, factor: float, captured: int | None = None) -> Outlook:
    """The same where the host takes a factor of its time."""
    engine = view.deployment.engine
    overheads = engine.overheads.with_host(factor)
    engine = replace(engine, overheads=overheads, captured=engine.captured if captured is None else captured)
    deployment = replace(view.deployment, engine=engine)
    timer = timer_for(deployment, view.workload.draft_tokens)
    return outlook(deployment, view.workload, view.slo, timer, view.queueing)


def _budget(view: Outlook) -> int | None:
    chunk = keeping(view)
    return None if chunk is None else chunk + view.offset


def _capturing(view: Outlook, chunk: int, found: HostDoubt, *, given: bool) -> tuple[str, ...]:
    """The option that captures the steps in doubt, where with it both ends agree."""
    engine = view.deployment.engine
    budgets = (chunk + view.offset, found.budget_least or 0, found.budget_most or 0)
    wanted = 1 << (max(budgets) - 1).bit_length()
    if not engine.captured or wanted <= engine.captured:
        return ()
    held = _under(view, 1.0, wanted)
    budget_least, budget_most, holds_least, holds_most = _ends(held, chunk, engine.overheads.host_spread, given=given)
    if budget_least != budget_most or holds_least != holds_most:
        return ()
    found_table = table(engine.name, engine.version)
    return graphs.flag(found_table, view.workload.batch, view.workload.draft_tokens, wanted)
