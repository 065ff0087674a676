"""One value of a file -> text, number, count or switch; what it cannot be is said as a reason."""

from __future__ import annotations

from collections.abc import Mapping

from chunkcalc.records import KvFormat

LONGEST_TEXT = 300  # characters that are kept
LONGEST_SHOWN = 40  # characters of a wrong value that are shown
LEAST_LATENCY, LONGEST_LATENCY = 1e-9, 1e7  # s
SWITCHES: Mapping[str, bool] = {"on": True, "true": True, "1": True, "yes": True,
                                "off": False, "false": False, "0": False, "no": False}  # fmt: skip
SIXTEEN_BITS = ("bf16", "bfloat16", "fp16", "float16", "half")
ENGINES: Mapping[str, str] = {
    "tensorrt-llm": "trtllm", "tensorrt_llm": "trtllm", "tensorrtllm": "trtllm", "trt-llm": "trtllm",
}  # fmt: skip


class UnreadableError(ValueError):
    """Why a row is left out, without a final full stop."""


def blank(value: object) -> bool:
    """Whether a value says nothing."""
    return value is None or (isinstance(value, str) and not value.strip())


def text(value: object) -> str:
    """A value as one line of printable text, "" where it says nothing."""
    if blank(value) or isinstance(value, (bool, list, dict)):
        return ""
    line = " ".join(str(value)[: 2 * LONGEST_TEXT].split())
    return "".join(letter if letter.isprintable() else "?" for letter in line)[:LONGEST_TEXT]


def number(value: object, name: str, least: float, most: float) -> float | None:
    """A number within bounds, None where the value says nothing.

    Raises
    ------
    UnreadableError : no number, not finite, out of bounds
    """
    if blank(value):
        return None
    try:
        found = float("" if isinstance(value, bool) else value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise UnreadableError(f"{name} '{text(value):.{LONGEST_SHOWN}}' is no number") from None
    if not least <= found <= most:  # NaN is not, either
        raise UnreadableError(f"{name} {found:g} is not from {least:g} to {most:g}")
    return found


def count(value: object, name: str, least: int, most: int) -> int | None:
    """A whole number within bounds, None where the value says nothing.

    Raises
    ------
    UnreadableError : no whole number, out of bounds
    """
    found = number(value, name, least, most)
    if found is not None and found != int(found):
        raise UnreadableError(f"{name} {found:g} is no whole number")
    return None if found is None else int(found)


def latency(value: object, name: str, per_second: float, *, zero: bool = False) -> float | None:
    """A time in seconds, None where the value says nothing.

    Parameters
    ----------
    value : a cell, or what JSON holds
    name : what it is, for the reason
    per_second : how many of its unit make a second [1]
    zero : whether it may be 0

    Raises
    ------
    UnreadableError : no number, below zero, or 0 where it may not be
    """
    found = number(value, name, 0.0, LONGEST_LATENCY * per_second)
    if found is None:
        return None
    seconds = found / per_second
    if seconds < LEAST_LATENCY and not (zero and found == 0):
        raise UnreadableError(f"{name} {found:g} is no time that a server takes")
    return seconds


def switch(value: object, name: str) -> bool | None:
    """On or off, None where the value says nothing.

    Raises
    ------
    UnreadableError : neither
    """
    if blank(value) or isinstance(value, bool):
        return value if isinstance(value, bool) else None
    found = SWITCHES.get(text(value).lower())
    if found is None:
        raise UnreadableError(f"{name} '{text(value):.{LONGEST_SHOWN}}' is neither on nor off")
    return found


def weight_format(value: object) -> str | None:
    """A format of weights in lower case, every 16-bit one as bf16; None where the value says nothing."""
    found = text(value).lower()
    return "bf16" if found in SIXTEEN_BITS else found or None


def kv_format(value: object) -> KvFormat | None:
    """The format of a KV cache, None where the value leaves it to the engine.

    Parameters
    ----------
    value : a cell, or what JSON holds: also an engine's own word, such as fp8_e4m3 or auto

    Raises
    ------
    UnreadableError : another format than 16 and 8 bits of floating point
    """
    found = text(value).lower().removesuffix("?")  # a source that is not sure
    if found in ("", "auto"):
        return None
    if found in SIXTEEN_BITS:
        return "bf16"
    if found.split("_")[0] == "fp8":
        return "fp8"
    raise UnreadableError(f"kv '{found:.{LONGEST_SHOWN}}' is neither 16-bit nor fp8")


def engine_name(value: object) -> str:
    """An engine in lower case and one spelling, "" where the value says nothing."""
    found = text(value).lower()
    return ENGINES.get(found, found)
