"""The output head: one row per sampled position, never one per token of the step."""

from __future__ import annotations

from typing import Any

from chunkcalc.records import Deployment, Kernel
from chunkcalc.work.gemm import gemm

SAMPLING_BYTES = 6  # per logit: written in 16 bit, read again and once more in 32-bit softmax


def kernels(deployment: Deployment, sampled: Any, launches: Any = 1) -> list[Kernel]:
    """The head for the sampled positions of a step; always 16-bit.

    Parameters
    ----------
    deployment : the replica
    sampled : sampled positions on this rank [token]
    launches : how often it runs in a step [1]
    """
    model, tp = deployment.model, deployment.parallelism.tp
    product = gemm("head", sampled, model.vocab / tp, model.hidden, "bf16", launches)
    return [product._replace(bytes=product.bytes + SAMPLING_BYTES * sampled * model.vocab / tp)]
