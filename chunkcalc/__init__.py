"""chunkcalc: an analytical capacity planner for LLM serving with chunked prefill.

    from chunkcalc import solve
    answer = solve(model="llama-3.1-8b", gpu="h100-sxm", prompt="4k", ttft="1s", tpot="30ms")

Times are in seconds, sizes in bytes and tokens; texts with a unit do as well. See docs/python.md.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chunkcalc.answer.question import Question
    from chunkcalc.api.deployments import explain, fleet, solve, sweep
    from chunkcalc.api.files import calibrate, check, replay, score
    from chunkcalc.api.listing import gpus, models
    from chunkcalc.api.results import Calibration, Checked, Explanation, FleetPlan, Points, Replayed, Scored, Solution
    from chunkcalc.errors import ChunkcalcError
    from chunkcalc.records import Hardware, Model
    from chunkcalc.time.step import StepTimer
    from chunkcalc.traffic.arrivals import Request

__all__ = [
    "Calibration", "Checked", "ChunkcalcError", "Explanation", "FleetPlan", "Hardware", "Model", "Points", "Question",
    "Replayed", "Request", "Scored", "Solution", "StepTimer", "calibrate", "check", "explain", "fleet", "gpus",
    "models", "replay", "score", "solve", "sweep",
]  # fmt: skip

# Where each public name stands: it is loaded when it is asked for.
_HOMES = {
    "Question": "answer.question", "ChunkcalcError": "errors", "Hardware": "records", "Model": "records",
    "StepTimer": "time.step", "Request": "traffic.arrivals",
    **dict.fromkeys(("explain", "fleet", "solve", "sweep"), "api.deployments"),
    **dict.fromkeys(("calibrate", "check", "replay", "score"), "api.files"),
    **dict.fromkeys(("gpus", "models"), "api.listing"),
    **dict.fromkeys(
        ("Calibration", "Checked", "Explanation", "FleetPlan", "Points", "Replayed", "Scored", "Solution"),
        "api.results",
    ),
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'chunkcalc' has no attribute '{name}'")
    found = globals()[name] = getattr(import_module(f"chunkcalc.{_HOMES[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
