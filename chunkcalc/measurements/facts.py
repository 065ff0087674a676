"""What options say of a run where a file does not: checked once, by the option that gives it."""

from __future__ import annotations

from collections.abc import Mapping

from chunkcalc.errors import ChunkcalcError
from chunkcalc.measurements.cells import (
    UnreadableError,
    blank,
    count,
    engine_name,
    kv_format,
    switch,
    text,
    weight_format,
)

REQUIRED = ("model", "gpu", "engine")
NAMES = ("model", "gpu", "engine_version", "source", "reference", "date", "note")
MOST_GPUS = 4096
MOST_TOKENS = 1_000_000_000
MOST_REQUESTS = 1_000_000_000
COUNTS: Mapping[str, int] = {
    "tp": MOST_GPUS, "dp": MOST_GPUS, "ep": MOST_GPUS, "pp": MOST_GPUS, "budget": MOST_TOKENS,
    "max_num_seqs": MOST_REQUESTS, "concurrency": MOST_REQUESTS, "requests": MOST_REQUESTS,
    "p_num": MOST_GPUS, "p_tp": MOST_GPUS, "d_num": MOST_GPUS, "d_tp": MOST_GPUS,
    "kv_tokens": MOST_TOKENS,
}  # fmt: skip
OPTIONS = (*REQUIRED, "engine_version", "weights", "kv", "tp", "dp", "ep", "pp", "budget", "max_num_seqs", "spec",
           "kv_tokens",
           "prefix_cache", "source", "date")  # fmt: skip
DEGREES = ("tp", "dp", "ep", "pp")


def option(fact: str) -> str:
    """The option that gives a fact.

    >>> option("max_num_seqs")
    '--max-num-seqs'
    """
    return f"--{fact.replace('_', '-')}"


def parsed(values: Mapping[str, object]) -> dict[str, object]:
    """The facts of a run that stand by their own name in a file, None or "" where it says nothing.

    Raises
    ------
    UnreadableError : a value that its column cannot have
    """
    found: dict[str, object] = {name: text(values.get(name)) for name in NAMES}
    found |= {name: count(values.get(name), name, 1, most) for name, most in COUNTS.items()}
    found |= {name: switch(values.get(name), name) for name in ("spec", "prefix_cache")}
    found["engine"] = engine_name(values.get("engine"))
    found["weights"] = weight_format(values.get("weights"))
    found["kv"] = kv_format(values.get("kv"))
    return found


def given(defaults: Mapping[str, object]) -> dict[str, object]:
    """The facts that options give, checked.

    Returns
    -------
    those that say something

    Raises
    ------
    ChunkcalcError : an unknown name, an impossible value
    """
    stated = {name: value for name, value in defaults.items() if not blank(value)}
    for name, value in stated.items():
        if name not in OPTIONS:
            raise ChunkcalcError(f"'{name}' is no fact of a run", option(name), f"give one of {', '.join(OPTIONS)}")
        try:
            parsed({name: value})
        except UnreadableError as reason:
            raise ChunkcalcError(str(reason), option(name), "give what the server was launched with") from None
    return stated


def require(values: Mapping[str, object], where: str) -> None:
    """Refuse a run whose model, GPU or engine neither its file nor an option gives.

    Raises
    ------
    ChunkcalcError : the first that is missing, with the option that gives it
    """
    for fact in REQUIRED:
        if not text(values.get(fact)):
            raise ChunkcalcError(f"does not say the {fact}", where, f"give {option(fact)}")


def assumed(rows: list[Mapping[str, object]]) -> tuple[str, ...]:
    """The parallel degrees that no row says and that are then 1, as sentences."""
    if not rows or any(not blank(values.get(degree)) for values in rows for degree in (*DEGREES, "p_tp", "d_tp")):
        return ()
    return ("tp = 1: the file does not say how many GPUs served (--tp, --dp, --ep)",)


def with_note(values: dict[str, object], *notes: str) -> dict[str, object]:
    """The values with further caveats."""
    return values | {"note": "; ".join(part for part in (text(values.get("note")), *notes) if part)}
