"""What stands between engine and client: a router, a proxy, a serving framework around the engine."""

from __future__ import annotations

from typing import NamedTuple

from chunkcalc import units
from chunkcalc.errors import ChunkcalcError


class Gateway(NamedTuple):
    """What stands between engine and client, such as a router or a proxy.

    step : it adds to every step that yields tokens [s]
    request : it adds to every request [s]
    """

    step: float = 0.0
    request: float = 0.0

    def __str__(self) -> str:
        return ",".join(f"{value * 1e3:g}ms/{name}" for name, value in zip(self._fields, self, strict=True) if value)


def parse_gateway(text: str, where: str = "--gateway") -> Gateway:
    """What stands between engine and client from `1.9ms/step`, `20ms/request`, or both with a comma between.

    Parameters
    ----------
    text : as written
    where : the option it stands in, for the error

    Raises
    ------
    ChunkcalcError : what cannot be read

    >>> parse_gateway("1.9ms/step,20ms/request")
    Gateway(step=0.0019, request=0.02)
    """
    found: dict[str, float] = {}
    for part in text.split(","):
        duration, _, per = (piece.strip() for piece in part.partition("/"))
        if per not in Gateway._fields or per in found:
            problem = f"'{part.strip():.40}' {'says it twice' if per in found else 'does not say per what'}"
            raise ChunkcalcError(problem, where, "write for example 1.9ms/step,20ms/request")
        found[per] = units.parse_duration(duration, where)
    return Gateway(**found)
