"""One matrix product with weights: FLOPs 2 * m * out * in for m tokens, each weight read once."""

from __future__ import annotations

from typing import Any

from chunkcalc.records import WEIGHT_BYTES, Kernel

# Activation bytes per element that a product of this weight format reads: weight-only formats
# keep 16-bit activations, the others quantise them first.
ACTIVATION_BYTES = {
    "bf16": 2.0, "fp8": 1.0, "fp8_block": 1.0, "int8": 1.0, "int4": 2.0, "int4_g32": 2.0, "mxfp4": 2.0, "nvfp4": 0.5625,
}  # fmt: skip
QUANTISED_ACTIVATIONS = frozenset(("fp8", "fp8_block", "int8", "nvfp4"))


def gemm(name: str, m: Any, out: float, inner: float, dtype: str, launches: Any = 1) -> Kernel:
    """One product of m tokens with an (inner x out) weight matrix.

    Parameters
    ----------
    name : class of work for the breakdown
    m : tokens [token]
    out, inner : dimensions of the weight on this GPU [1]
    dtype : weight format
    launches : times it runs in a step [1]

    Returns
    -------
    the kernel; its waste and quantisation are zero for 16-bit and weight-only formats
    """
    weights = out * inner * WEIGHT_BYTES[dtype]
    activations = m * inner * ACTIVATION_BYTES[dtype] + 2 * m * out
    quantised = 3 * m * inner if dtype in QUANTISED_ACTIVATIONS else 0.0
    flops = 2 * m * out * inner
    return Kernel(
        name, "gemm", dtype, flops, weights + activations, flops, weights,
        quantised_bytes=quantised, launches=launches,
    )  # fmt: skip
