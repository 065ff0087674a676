"""A budget policy as text and as chunkcalc.policy/1."""

from __future__ import annotations

import textwrap
from dataclasses import asdict
from typing import Any

from chunkcalc.report.tables import WIDTH, table
from chunkcalc.sizing.policy import Policy
from chunkcalc.units import format_count, format_duration

SCHEMA = "chunkcalc.policy/1"


def text(found: Policy) -> str:
    """The report of `chunkcalc policy`."""
    chosen, question = found.chosen, found.question
    flags = found.answer.flags[question.engine][:2]
    if all(cell.best == 0 for cell in found.cells):
        return "NONE: no budget keeps the limits under any of these loads"
    head = (
        f"{' '.join(flags)}: at worst {100 * chosen.regret:.3g} points of requests within the limits behind the best "
        f"budget of a load, {100 * chosen.mean_regret:.2g} on average"
    )
    rows = textwrap.wrap(head, WIDTH, subsequent_indent="  ")
    lost = sum(cell.best == 0 for cell in found.cells)
    if lost:
        rows.append(f"- {lost} of {len(found.cells)} loads are too much for this replica under every budget")
    rows += ["", "budget", _budgets(found), "", "best budget of each load, and the share of requests that it and the",
             f"chosen {format_count(chosen.budget)} keep within the limits", _loads(found)]  # fmt: skip
    return "\n".join(rows)


def _budgets(found: Policy) -> str:
    rows = [
        (
            format_count(cost.budget) + (" <" if cost is found.chosen else ""), f"{100 * cost.regret:.3g}",
            f"{100 * cost.mean_regret:.2g}", format_duration(cost.gap),
            "-" if cost.kv_tokens is None else format_count(cost.kv_tokens),
        )
        for cost in found.budgets
    ]  # fmt: skip
    return table(("", "worst regret", "mean", "longest step", "KV tokens"), rows)


def _loads(found: Policy) -> str:
    prompts = list(dict.fromkeys(cell.prompt for cell in found.cells))
    place = found.budgets.index(found.chosen)
    rows = []
    for rate in dict.fromkeys(cell.rate for cell in found.cells):
        row = [f"{rate:.3g}/s"]
        for prompt in prompts:
            cell = next(each for each in found.cells if (each.rate, each.prompt) == (rate, prompt))
            best = max(range(len(cell.shares)), key=lambda index: (round(cell.shares[index], 3), -index))
            shown = f"{format_count(found.budgets[best].budget)} {100 * cell.best:.3g} / {100 * cell.shares[place]:.3g}"
            row.append("-" if cell.best == 0 else shown)
        rows.append(tuple(row))
    return table(("", *(f"prompt {format_count(prompt)}" for prompt in prompts)), rows)


def json(found: Policy) -> dict[str, Any]:
    """The schema chunkcalc.policy/1."""
    return {
        "schema": SCHEMA,
        "chosen": asdict(found.chosen),
        "budgets": [asdict(cost) for cost in found.budgets],
        "loads": [
            {"rate": cell.rate, "prompt": cell.prompt, "shares": list(cell.shares)} for cell in found.cells
        ],
        "flags": list(found.answer.flags[found.question.engine]),
    }  # fmt: skip
