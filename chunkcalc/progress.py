"""How far a long search is: what a caller may want to hear."""

from collections.abc import Callable

Progress = Callable[[float, float], None]  # what is done, and what there is to do


def silent(done: float, of: float) -> None:
    """Nobody listens.

    Parameters
    ----------
    done, of : what is done, and what there is to do
    """
