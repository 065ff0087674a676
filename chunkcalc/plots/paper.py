"""What all pictures share: colours that colour-blind readers tell apart, axes of tokens, files."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chunkcalc.answer.records import Answer
from chunkcalc.errors import ChunkcalcError

# Okabe and Ito's colours.
BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY, YELLOW, GREY = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442", "#6b6b6b",
)  # fmt: skip
STYLE: dict[str, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "figure.constrained_layout.use": True,
    "legend.frameon": False,
    "svg.hashsalt": "chunkcalc",  # the same answer gives the same file
}
FORMATS = (".svg", ".png")
NARROW = 6.0  # times the smallest value: an axis from zero shows it all


def check_target(path: Path, option: str = "--plot") -> None:
    """Refuse what cannot become a picture, before anything is computed.

    Raises
    ------
    ChunkcalcError : another suffix, no matplotlib
    """
    if path.suffix.lower() not in FORMATS:
        raise ChunkcalcError(f"'{path.name:.60}' ends in neither .svg nor .png", option, "name the file window.svg")
    if importlib.util.find_spec("matplotlib") is None:
        raise ChunkcalcError("pictures need matplotlib", option, "install it: pip install 'chunkcalc[plot]'")


def canvas(width: float = 8.0, height: float = 5.0, heights: Sequence[float] = (1.0,)) -> tuple[Any, Any]:
    """A figure and its axes, one above the other with the same tokens, without a window on any screen."""
    import matplotlib  # noqa: PLC0415 - half a second that only a picture needs
    from matplotlib.figure import Figure  # noqa: PLC0415

    matplotlib.rcParams.update(STYLE)  # type: ignore[arg-type,unused-ignore]
    figure = Figure(figsize=(width, height))
    axes = figure.subplots(len(heights), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights})
    return figure, axes[:, 0]


def word(answer: Answer) -> str:
    """What the answer's chunk is: the one to set, the one that was judged, or the closest where none holds."""
    if answer.given:
        return "judged"
    return "set" if answer.holds and answer.window.chunk_min is not None else "closest"


def render(figure: Any, suffix: str) -> bytes:
    """The picture as a file's content."""
    out = io.BytesIO()
    metadata = {"Date": None} if suffix == ".svg" else {}
    figure.savefig(out, format=suffix[1:], dpi=150, metadata=metadata)
    return out.getvalue()


def token_axis(axes: Any, low: float, high: float) -> None:
    """A logarithmic axis of tokens: powers of two, and the ends where those are few.

    Parameters
    ----------
    axes : of the picture
    low, high : its ends [token]
    """
    axes.set_xscale("log", base=2)
    axes.set_xlim(low, high)
    ticks = [2**power for power in range(40) if low <= 2**power <= high]
    ticks = ticks[:: 1 + len(ticks) // 12]
    if len(ticks) < 4:
        ticks = sorted({round(low), round((low * high) ** 0.5), round(high)})
    axes.set_xticks(ticks, minor=False)
    axes.set_xticks([], minor=True)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")


def time_axis(axes: Any, values: Sequence[float]) -> None:
    """An axis of times: from zero where they differ little, else logarithmic."""
    low, high = min(values), max(values)
    if high < NARROW * low:
        axes.set_ylim(0, 1.1 * high)
        return
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_minor_formatter(lambda value, _: f"{value:g}" if f"{value:e}"[0] in "25" else "")


def label_ends(axes: Any, ends: list[tuple[float, str, str]], least: float = 0.055) -> None:
    """Names of curves at their right ends, moved apart where they would overlap.

    Parameters
    ----------
    axes : of the picture, its limits set
    ends : height in axes fractions [1], name, colour
    least : distance of two names in axes fractions [1]
    """
    places: list[float] = []
    for height, _, _ in sorted(ends):
        places.append(max(height, places[-1] + least) if places else height)
    for index in reversed(range(len(places))):
        places[index] = min(places[index], places[index + 1] - least if index + 1 < len(places) else 1.0)
    for place, (_, name, colour) in zip(places, sorted(ends), strict=True):
        axes.text(1.01, place, name, color=colour, transform=axes.transAxes, va="center", ha="left")
