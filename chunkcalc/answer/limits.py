"""What a model itself asks of vLLM's settings: images that must enter a step whole, blocks, states."""

from __future__ import annotations

import math
from collections.abc import Iterator

from chunkcalc.engines.blocks import Layout
from chunkcalc.engines.grammar import Arguments
from chunkcalc.engines.reading import Reading
from chunkcalc.engines.words import Remark
from chunkcalc.records import Model

# Tokens of the largest image that must be taken in one step, by the family of the model
# (vllm-project/recipes issue 441: gemma-4 needs 2,496, the default of an A100 is 2,048).
LARGEST_ITEM = {"gemma-4": 2496}
RAISED_SINCE = "0.33.0"  # vLLM raises a default budget to the largest item
COUNTED_SINCE = "0.21.0"  # prints the requests of the longest context times its tokens (issue 40691)
STATES_SINCE = "0.20.0"  # refuses more requests than state blocks (0.25.1 and 0.28.0 do in public logs)
BAND = 0.15  # of the predicted pool, within which a refusal is not certain; 22 start-up logs: median off by 6 %


def limits(
    reading: Reading, model: Model, given: Arguments | None, plan: Layout | None, pool: float
) -> tuple[list[Remark], list[Remark]]:
    """What the engine refuses, and what may fail.

    Parameters
    ----------
    reading : of the command line
    model : the model
    given : its arguments
    plan : the layout of the model's cache; None for one kind of layers
    pool : of the KV cache on one GPU [byte]
    """
    found = [*_items(reading, model, given), *_blocks(reading, given, plan), *_states(reading, given, plan, pool)]
    refused = [remark for remark in found if remark.facts["level"] == "error"]
    return refused, [remark for remark in found if remark.facts["level"] != "error"]


def _word(given: Arguments | None, *names: str) -> str:
    held = given.given if given is not None else {}
    return next((held[name].word for name in names if name in held), "")


def _items(reading: Reading, model: Model, given: Arguments | None) -> Iterator[Remark]:
    """Models whose images must enter a step whole."""
    tokens = next((n for family, n in LARGEST_ITEM.items() if model.id.startswith(family)), 0)
    word = _word(given, "max_num_batched_tokens")
    raised = not word and reading.table.since(RAISED_SINCE)
    shown = given.value("limit_mm_per_prompt") if given is not None else None
    text_only = (isinstance(shown, dict) and shown.get("image") == 0) or bool(_word(given, "language_model_only"))
    if tokens <= reading.budget or raised or text_only:
        return
    text = f"an image of {model.id} is {tokens:,} tokens and must enter a step whole: the budget is {reading.budget:,}"
    # Some versions raise a default by themselves; from which on is not known.
    yield Remark(text, "E09", word, level="error" if word else "warning", budget=4096)


def _blocks(reading: Reading, given: Arguments | None, plan: Layout | None) -> Iterator[Remark]:
    """Hybrid models with prefix caching: a block must fit the budget."""
    caching = given is not None and given.value("enable_prefix_caching")
    if plan is None or not plan.states or not caching or plan.largest() <= reading.budget:
        return
    block = plan.largest()
    text = (
        f"with prefix caching a block of this hybrid model is {block:,} tokens: a budget of {reading.budget:,} "
        "holds none"
    )
    word = _word(given, "max_num_batched_tokens")
    yield Remark(text, "E08", word, level="error", budget=math.ceil(block / 1024) * 1024)


def _states(reading: Reading, given: Arguments | None, plan: Layout | None, pool: float) -> Iterator[Remark]:
    """Hybrid models: every request that may run needs a block of state."""
    if plan is None or not plan.states or pool <= 0 or not reading.table.since(STATES_SINCE):
        return
    blocks = plan.blocks(pool)
    if reading.max_num_seqs <= blocks * (1 - BAND):
        return
    certain = reading.max_num_seqs > blocks * (1 + BAND)
    fewer = max(1, int(blocks * (1 - BAND)))
    text = (
        f"--max-num-seqs {reading.max_num_seqs:,} is more than the {blocks:,} blocks of recurrent state that fit: "
        f"{fewer:,} start for sure"
    )
    yield Remark(text, "E30", _word(given, "max_num_seqs"), level="error" if certain else "warning", requests=fewer)
