"""How many requests may decode at once within the limits."""

from __future__ import annotations

from dataclasses import replace

from chunkcalc.answer.judged import Outlook
from chunkcalc.answer.recommendation import aligned_best
from chunkcalc.answer.window import keeps
from chunkcalc.engines.capacity import IN_FLIGHT, capacity
from chunkcalc.time.search import largest

ALIGNED_WITHIN = 64  # batches below the largest among which an aligned budget is looked for


def with_batch(view: Outlook, batch: int) -> Outlook:
    """The same deployment with another batch.

    Parameters
    ----------
    view : the deployment
    batch : decoding requests of the replica [token]
    """
    return replace(view, workload=replace(view.workload, batch=batch))


def most_within(view: Outlook, *, margin: bool, below: int | None = None) -> int:
    """The largest batch at which some chunk keeps every limit; 0 where a lone request fails.

    Whether some chunk keeps every limit can only change from yes to no as the batch grows, so this is a bisection.

    Parameters
    ----------
    view : the deployment
    margin : with the error bands to spare
    below : batches from this one on are not looked at [token]

    Returns
    -------
    requests of the whole replica [token]
    """
    parallelism = view.deployment.parallelism
    fits = capacity(view.deployment, replace(view.workload, batch=1), 1.0).max_concurrency
    high = min(fits, IN_FLIGHT * parallelism.dp, *([below - 1] if below is not None else []))
    if high < 1 or not keeps(with_batch(view, 1), margin=margin):
        return 0
    return largest(lambda batch: keeps(with_batch(view, batch), margin=margin), 1, high)


def largest_batch(view: Outlook) -> int:
    """The batch of a question that names none: the largest whose limits hold with their bands, else without; else 0.

    With the bands to spare, a slightly smaller batch that has an aligned budget is preferred where there is one.

    Returns
    -------
    requests of the whole replica [token]
    """
    most = most_within(view, margin=True)
    if not most:
        return most_within(view, margin=False)
    near = range(most, max(0, most - ALIGNED_WITHIN), -1)
    return next((batch for batch in near if aligned_best(with_batch(view, batch)) is not None), most)
