"""Deployments for the tests: named ones, and a hypothesis strategy over all that exist."""

from __future__ import annotations

from hypothesis import assume
from hypothesis import strategies as st

from chunkcalc.answer.question import Question
from chunkcalc.answer.resolve import resolve
from chunkcalc.catalog.lookup import gpus, load_hardware, load_model, models
from chunkcalc.catalog.precision import check_arithmetic, precision_for
from chunkcalc.engines import engine_for
from chunkcalc.errors import ChunkcalcError
from chunkcalc.records import ENGINE_NAMES, Deployment, Parallelism

MODELS = [model.id for model in models()]
GPUS = [gpu.id for gpu in gpus()]
CALIBRATED = ("a100-sxm4-80gb", "h100-sxm", "h200-sxm", "b200")
DENSE_FULL = ("llama-3.1-8b", "llama-3.1-70b", "llama-3.1-405b", "qwen3-32b", "mistral-small-24b")


def deployment(model="llama-3.1-8b", gpu="h100-sxm", *, weights=None, kv=None, engine="vllm", **degrees) -> Deployment:
    """A deployment by names."""
    found, hardware = load_model(model).record, load_hardware(gpu).record
    return Deployment(
        model=found,
        hardware=hardware,
        parallelism=Parallelism(**degrees),
        precision=precision_for(found, weights, kv),
        engine=engine_for(engine, hardware),
    )


@st.composite
def deployments(draw, models=tuple(MODELS), gpus=tuple(GPUS), weights=("bf16", "fp8", "nvfp4", "int4", None)):
    """Any deployment that `solve` accepts."""
    name, gpu = draw(st.sampled_from(models)), draw(st.sampled_from(gpus))
    question = Question(
        model=name,
        gpu=gpu,
        prompt=1000,
        engine=draw(st.sampled_from(sorted(ENGINE_NAMES))),
        weights=draw(st.sampled_from(weights)),
        kv=draw(st.sampled_from(("bf16", "fp8"))),
        tp=draw(st.sampled_from((1, 2, 4, 8))),
        pp=draw(st.sampled_from((1, 1, 2))),
        ep=draw(st.sampled_from((1, 1, 2, 8))),
        attention_dp=draw(st.sampled_from((1, 1, 2, 4))),
    )
    try:
        return resolve(question).deployment
    except ChunkcalcError:
        assume(False)


def check_exists(found: Deployment) -> None:
    """Raise where the GPU lacks the arithmetic."""
    check_arithmetic(found.precision, found.hardware)
