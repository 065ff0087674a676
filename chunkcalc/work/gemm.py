"""One matrix product with weights: FLOPs 2 * m * out * in for m tokens, each weight read once."""

from __future__ import annotations

from typing import Any, NamedTuple

from chunkcalc.records import WEIGHT_BYTES, Kernel

# Activation bytes per element that a product of this weight format reads: weight-only formats
# keep 16-bit activations, the others quantise them first.
ACTIVATION_BYTES = {
    "bf16": 2.0, "fp8": 1.0, "fp8_block": 1.0, "int8": 1.0, "int4": 2.0, "int4_g32": 2.0, "mxfp4": 2.0, "nvfp4": 0.5625,
}  # fmt: skip
TILE = 128 * 128  # outputs of a tile: what one multiprocessor computes at a time
QUANTISED_ACTIVATIONS = frozenset(("fp8", "fp8_block", "int8", "nvfp4"))


class Weight(NamedTuple):
    """A weight matrix on one rank; `least_out` is what it holds of `out` when no rank keeps a copy
    of another's part."""

    out: float
    inner: float
    least_out: float

    @property
    def parameters(self) -> float:
        """Parameters on this rank [1]."""
        return self.out * self.inner


def split(out: float, inner: float) -> Weight:
    """A weight that tensor parallelism splits.

    Parameters
    ----------
    out, inner : dimensions on this rank [1]
    """
    return Weight(out, inner, out)


def copied(out: float, inner: float, ranks: int) -> Weight:
    """A weight that stands whole on every rank.

    Parameters
    ----------
    out, inner : dimensions [1]
    ranks : ranks with a copy [1]
    """
    return Weight(out, inner, out / ranks)


def product(name: str, m: Any, weight: Weight, dtype: str, launches: Any = 1) -> Kernel:
    """One product of m tokens with a weight; its least is that of the part no rank has twice.

    Parameters
    ----------
    name : class of work for the breakdown
    m : tokens [token]
    weight : the matrix on this rank
    dtype : weight format
    launches : times it runs in a step [1]
    """
    kernel = gemm(name, m, weight.out, weight.inner, dtype, launches)
    if weight.least_out == weight.out:
        return kernel
    share = weight.least_out / weight.out
    return kernel._replace(least_flops=kernel.least_flops * share, least_bytes=kernel.least_bytes * share)


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
        activation_bytes=quantised, tile=2 * inner * TILE, launches=launches,
    )  # fmt: skip
