"""The one error a user sees: what is wrong, where, and what to do about it."""

from __future__ import annotations


class ChunkcalcError(Exception):
    """A problem with what the user gave (exit code 2).

    Parameters
    ----------
    what : one sentence without a final full stop
    where : the option, file or key it concerns ("" when there is none)
    hint : what to do instead ("" when there is nothing to add)
    """

    def __init__(self, what: str, where: str = "", hint: str = "") -> None:
        super().__init__(what, where, hint)
        self.what, self.where, self.hint = what, where, hint

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        hint = f"; {self.hint}" if self.hint else ""
        return f"{place}{self.what}{hint}"


class NotModelledError(ChunkcalcError):
    """A deployment that an engine would run, and that is beyond what is modelled here."""
