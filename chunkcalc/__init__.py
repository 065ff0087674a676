"""chunkcalc: an analytical capacity planner for LLM serving with chunked prefill.

    from chunkcalc import solve
    answer = solve(model="llama-3.1-8b", gpu="h100-sxm", prompt=4000, ttft=1.0, tpot=0.03)

Times are in seconds, sizes in bytes and tokens.
"""

from chunkcalc.answer import Answer, Chunking, Reading, Remedy
from chunkcalc.capacity import Capacity
from chunkcalc.case import Case
from chunkcalc.catalog import load_hardware, load_model
from chunkcalc.errors import ChunkcalcError
from chunkcalc.question import Question
from chunkcalc.records import (
    Deployment,
    Engine,
    Hardware,
    Kernel,
    Model,
    Parallelism,
    Precision,
    Slo,
    Workload,
)
from chunkcalc.solve import answer, solve
from chunkcalc.step import Step, StepTimer
from chunkcalc.textbook import Textbook
from chunkcalc.window import Window

__all__ = [
    "Answer",
    "Capacity",
    "Case",
    "ChunkcalcError",
    "Chunking",
    "Deployment",
    "Engine",
    "Hardware",
    "Kernel",
    "Model",
    "Parallelism",
    "Precision",
    "Question",
    "Reading",
    "Remedy",
    "Slo",
    "Step",
    "StepTimer",
    "Textbook",
    "Window",
    "Workload",
    "answer",
    "load_hardware",
    "load_model",
    "solve",
]
