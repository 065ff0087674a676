"""How else an engine could compose its steps: one that runs prompts first can be told to mix, or to take turns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from chunkcalc.answer.disaggregation import outlook_for
from chunkcalc.answer.judged import Outlook
from chunkcalc.engines.dialects import dialect
from chunkcalc.engines.tables import table
from chunkcalc.records import Engine


class Way(NamedTuple):
    """A way to compose steps: in words with its flag, what it changes of a question, and the engine that does so."""

    words: str
    changes: Mapping[str, Any]
    engine: Engine


def other_ways(engine: Engine, drafts: int) -> list[Way]:
    """The ways in which an engine could compose its steps instead; none where it mixes.

    Parameters
    ----------
    engine : as it composes them
    drafts : speculative tokens per step [token]
    """
    out: list[Way] = []
    if engine.composition != "prefill_first":
        return out
    words, options = dialect(engine.name), table(engine.name, engine.version).options()
    if words.mixing and not drafts:  # most speculative algorithms switch mixing off
        mixed = replace(engine, composition="mixed", budget_counts_decodes=True, prefill_interval=0)
        changes = {"mixed_chunk": True, "prefill_interval": 0}
        out.append(Way(f"mixing decodes into the prompt chunks ({words.mixing})", changes, mixed))
    if words.interval.lstrip("-") in options and not engine.prefill_interval:
        spaced = replace(engine, prefill_interval=1)
        out.append(Way(f"a decode step after every prompt step ({words.interval} 1)", {"prefill_interval": 1}, spaced))
    return out


def recomposed(view: Outlook) -> list[tuple[Way, Outlook]]:
    """The same workload and limits under each other way."""
    ways = other_ways(view.deployment.engine, view.workload.draft_tokens)
    return [(way, outlook_for(view, engine=way.engine)) for way in ways]
