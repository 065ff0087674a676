"""What a fleet costs: prices per GPU and hour, a limit of what may be spent, and the cost of tokens and requests."""

from __future__ import annotations

import re
from collections.abc import Sequence

from chunkcalc import units
from chunkcalc.catalog.lookup import load_hardware
from chunkcalc.errors import ChunkcalcError
from chunkcalc.frozen import dataclass

HOUR = 3600.0
MILLION, THOUSAND = 1e6, 1e3


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What serving costs at one rate of requests.

    per_million_output, per_million_prompt : all of it shared out over output tokens, over prompt tokens
    per_thousand_requests : over requests
    """

    per_million_output: float
    per_million_prompt: float
    per_thousand_requests: float


def costs(per_hour: float, rate: float, prompt: float, output: float) -> Costs:
    """The cost of tokens and requests.

    Parameters
    ----------
    per_hour : of the fleet
    rate : that it serves [request/s]
    prompt, output : of a request [token]
    """
    requests = rate * HOUR
    return Costs(
        per_million_output=MILLION * per_hour / (requests * output),
        per_million_prompt=MILLION * per_hour / (requests * prompt),
        per_thousand_requests=THOUSAND * per_hour / requests,
    )


def parse_spend(text: str, where: str = "--spend") -> float:
    """A limit of what may be spent per hour, such as `60/h`.

    Parameters
    ----------
    text : as written; per hour, day or month (730 hours)
    where : for the error

    >>> parse_spend("60/h")
    60.0
    """
    number, slash, each = text.strip().partition("/")
    hours = {"h": 1.0, "hour": 1.0, "d": 24.0, "day": 24.0, "month": 730.0}.get(each.strip() if slash else "h")
    if hours is None:
        raise ChunkcalcError(f"'{text:.40}' is no spend", where, "write for example 60/h, 1400/day or 40000/month")
    return units.parse_number(number.strip(), where) / hours


def prices(gpus: Sequence[str], given: Sequence[str]) -> list[tuple[str, float | None]]:
    """Each GPU with its price per hour.

    Parameters
    ----------
    gpus : as asked
    given : `2.5` for all, one for each GPU, or `h100-sxm=2.5,b200=5`

    Raises
    ------
    ChunkcalcError : a price for a GPU that is not asked, another number of prices than GPUs
    """
    words = [word.strip() for entry in given for word in re.split(r"[,;]", entry) if word.strip()]
    named = [word for word in words if "=" in word]
    if named and len(named) < len(words):
        raise ChunkcalcError("mixes prices with and without a GPU", "--price", "write h100-sxm=2.5,b200=5")
    if named:
        return _named(gpus, named)
    if len(words) > 1 and len(words) != len(gpus):
        raise ChunkcalcError(f"{len(words)} prices for {len(gpus)} GPUs", "--price", "give one, or one for each GPU")
    read: list[float | None] = [units.parse_number(word, "--price") for word in words] or [None]
    return list(zip(gpus, read * len(gpus) if len(read) == 1 else read, strict=False))


def _named(gpus: Sequence[str], given: Sequence[str]) -> list[tuple[str, float | None]]:
    ids = {load_hardware(name).record.id: name for name in gpus}
    found: dict[str, float] = {}
    for word in given:
        name, _, price = word.partition("=")
        device = load_hardware(name.strip()).record.id
        if device not in ids:
            raise ChunkcalcError(f"'{name.strip():.40}' has a price and is not asked", "--price",
                                 f"the GPUs that are asked are {', '.join(gpus)}")  # fmt: skip
        found[ids[device]] = units.parse_number(price, "--price")
    return [(name, found.get(name)) for name in gpus]


def check_priced(gpus: Sequence[tuple[str, float | None]], spend: float | None) -> None:
    """Refuse a limit of the spending without every price.

    Raises
    ------
    ChunkcalcError : a GPU without a price
    """
    free = [name for name, price in gpus if price is None]
    if spend is not None and free:
        raise ChunkcalcError(
            f"{', '.join(free)} has no price", "--spend", f"add --price {free[0]}=2.50, per GPU and hour"
        )
