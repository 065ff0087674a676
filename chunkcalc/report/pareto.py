"""The trade between tokens per second for a user and for a GPU: what no other point beats in both."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from chunkcalc.grids.trades import Trade
from chunkcalc.report.tables import WIDTH, table
from chunkcalc.units import format_count, format_duration

SHOWN = 16  # rows of the table


def text(best: Sequence[Trade], looked_at: int, left_out: Sequence[str] = ()) -> str:
    """The report of `chunkcalc sweep --pareto`.

    Parameters
    ----------
    best : of `frontier`
    looked_at : trades that kept the limits
    left_out : deployments that do not count, and why
    """
    without = [row for line in left_out for row in textwrap.wrap(f"left out: {line}", WIDTH, subsequent_indent="  ")]
    if not best:
        return "\n".join(["no point keeps every limit: loosen one, or try other GPUs", *without])
    step = max(1, -(-len(best) // SHOWN))
    shown = sorted({*range(0, len(best), step), len(best) - 1})
    head = ("tokens/s a user", "a GPU", "GPU", "tp", "batch", "budget", "TTFT", "TPOT")
    rows = [
        (
            f"{trade.per_user:.3g}", f"{trade.per_gpu:,.0f}", trade.keys["gpu"],
            str(trade.keys["tp"]), format_count(trade.point.batch), format_count(trade.point.budget),
            format_duration(trade.point.ttft_s), format_duration(trade.point.tpot_s),
        )
        for trade in (best[index] for index in shown)
    ]  # fmt: skip
    told = f"{len(best)} of {looked_at:,} points that keep every limit are beaten by no other in both"
    rest = f"; {len(shown)} of them" if len(shown) < len(best) else ""
    return "\n".join([*textwrap.wrap(told + rest, WIDTH), "", table(head, rows), *([""] if without else []), *without])


def document(best: Sequence[Trade], left_out: Sequence[str]) -> dict[str, Any]:
    """chunkcalc.pareto/1.

    Parameters
    ----------
    best : of `frontier`
    left_out : deployments that do not count, and why
    """
    rows = [
        {"tokens_per_s_per_user": trade.per_user, "tokens_per_s_per_gpu": trade.per_gpu, **trade.keys,
         **trade.point._asdict()}
        for trade in best
    ]  # fmt: skip
    return {"schema": "chunkcalc.pareto/1", "frontier": rows, "left_out": list(left_out)}
