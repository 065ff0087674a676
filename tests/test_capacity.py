"""Memory by each engine's rule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkcalc import solve
from chunkcalc.engines.capacity import (
    GIB,
    activation_bytes,
    capacity,
    largest_step,
    needed_bytes,
    pool_bytes,
    sequence_bytes,
)
from chunkcalc.records import Workload
from tests.deployments import deployment, deployments


def test_the_pool_of_each_rule():
    total, reserve, left = (deployment(engine=engine) for engine in ("vllm", "sglang", "trtllm"))
    memory, weights = total.hardware.memory - GIB / 2, 16.06e9
    other = activation_bytes(total, 2048, 32) + 1.36 * GIB
    assert pool_bytes(total, 2048, 32) == pytest.approx(0.92 * memory - weights - other, rel=1e-3)
    assert pool_bytes(left, 2048, 32) == pytest.approx(0.9 * (memory - weights - other), rel=1e-3)
    # SGLang keeps at least 10 GiB free on a GPU above 60 GiB.
    fraction = 1 - 10 * GIB / reserve.hardware.memory
    assert pool_bytes(reserve, 2048, 32) == pytest.approx(fraction * memory - weights, rel=1e-3)


def test_a_given_fraction_replaces_the_default():
    for engine in ("vllm", "sglang", "trtllm"):
        fields = {"model": "llama-3.1-8b", "gpu": "h100-sxm", "prompt": 1000, "batch": 8, "engine": engine}
        less, more = (solve(**fields, memory_fraction=share).capacity.kv_tokens for share in (0.5, 0.9))
        assert less < more


@given(deployments(), st.integers(1, 16_000), st.integers(1, 256))
def test_a_larger_budget_leaves_less_cache(found, n, sampled):
    assert pool_bytes(found, n + 512, sampled) <= pool_bytes(found, n, sampled)
    assert activation_bytes(found, n, sampled) > 0


def test_windows_hold_no_more_than_their_size():
    found = deployment("gemma-3-27b")
    full, window = 10 * 2 * 16 * 128 * 2, 52 * 2 * 16 * 128 * 2
    assert sequence_bytes(found, 500) == 500 * (full + window)
    assert sequence_bytes(found, 50_000) == 50_000 * full + 1024 * window


def test_concurrency_is_what_fits_beside_one_prompt():
    found = deployment("llama-3.1-8b")
    workload = Workload(prompt=4000, output=1000, batch=1, context=4500)
    most = capacity(found, workload, 1024).max_concurrency
    pool = pool_bytes(found, *largest_step(found, workload, 1024))
    assert needed_bytes(found, workload, most) <= pool < needed_bytes(found, workload, most + 1)


def test_a_smaller_budget_admits_more_on_a_tight_gpu():
    # The sign of vLLM pull request 17885: 70B on two 80 GB GPUs has little left for the cache.
    found = deployment("llama-3.1-70b", "a100-sxm4-80gb", tp=2)
    workload = Workload(prompt=1000, output=500, batch=64, context=1250)
    assert capacity(found, workload, 2048).max_concurrency > capacity(found, workload, 8192).max_concurrency
