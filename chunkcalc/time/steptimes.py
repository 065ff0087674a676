"""The times of a deployment's steps: of one, or of all the full chunks of a prompt in a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chunkcalc.compiled import Remembered

MOST_HELD = 1_000_000  # times of chunks in a row that are remembered


class StepTimes:
    """One reading of the steps of a deployment, expected or floor.

    Parameters
    ----------
    rest : of (c, b, s): everything but attention to the prompt
    prefill : of (c, p, prompts): attention to the prompt
    join : of both -> time [s]
    """

    __slots__ = ("_held", "_join", "_prefill", "_rest", "_rows")

    def __init__(
        self, rest: Callable[..., Any], prefill: Callable[..., Any], join: Callable[[Any, Any], Any]
    ) -> None:  # fmt: skip
        self._rest, self._prefill, self._join = Remembered(rest), Remembered(prefill), join
        self._rows: dict[tuple[float, float], list[Any]] = {}
        self._held = 0

    def __call__(self, c: Any, p: Any, b: Any, s: Any, prompts: Any = 1) -> Any:
        """Time of a step.

        Parameters
        ----------
        c : prompt tokens [token]
        p : tokens of each of their prompts cached before [token]
        b : decoding requests [token]
        s : their mean context [token]
        prompts : prompts that share the c tokens, at least 1 [1]

        Returns
        -------
        time [s]
        """
        return self._join(self._rest(c, b, s), self._prefill(c, p, prompts))

    def formula(self, c: Any, p: Any, b: Any, s: Any) -> Any:
        """Time of a step with one prompt, as a formula of anything that `ops` knows; nothing is remembered.

        Parameters
        ----------
        c, p, b, s : as of a step
        """
        return self._join(self._rest.formula(c, b, s), self._prefill.formula(c, p, 1))

    def parts(self, c: Any, p: Any, b: Any, s: Any, prompts: Any = 1) -> tuple[Any, Any]:
        """Everything but attention to the prompt, and that, before they are joined.

        Parameters
        ----------
        c, p, b, s, prompts : as of a step
        """
        return self._rest(c, b, s), self._prefill(c, p, prompts)

    def row(self, c: float, starts: range, b: float, s: float) -> list[float]:
        """Times of steps with c tokens of one prompt each, one after every number of tokens cached before.

        Parameters
        ----------
        c : prompt tokens of each step [token]
        starts : tokens cached before each [token]
        b : decoding requests [token]
        s : their mean context [token]

        Returns
        -------
        times [s]
        """
        rest, join = self._rest(c, b, s), self._join
        return [join(rest, prefill) for prefill in self._prefills(c, starts)]

    def _prefills(self, c: float, starts: range) -> list[Any]:
        """Attention of each step; of chunks that follow each other it is remembered."""
        if starts.step != c:
            return self._prefill.over(c, starts, 1)
        known = self._rows.setdefault((c, starts.start), [])
        more = len(starts) - len(known)
        if more > 0:
            self._held += more
            if self._held > MOST_HELD:
                self._rows, self._held, known = {}, 0, []
            known += self._prefill.over(c, starts[len(known) :], 1)
        return known[: len(starts)]
