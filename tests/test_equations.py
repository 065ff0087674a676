"""Published numbers, the round trip of E4 and E6, and all three kinds of argument."""

import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from chunkcalc.textbook import equations as eq
from chunkcalc.textbook import ridge

P, B, PSI, KV = 989.4e12, 3.35e12, 8.03e9, 131_072
RIDGE = eq.ridge_intensity(P, B)
POINTS = [((0, 0), 295), ((32, 2048), 421), ((64, 4096), 863), ((128, 8192), 2695)]


@pytest.mark.parametrize(("load", "published"), POINTS)
def test_optimal_chunk_is_the_published_one(load, published):
    b, s = load
    kv = eq.kv_read_bytes(32, 8, 128, s, b, 2)
    assert kv == KV * b * s
    assert eq.optimal_chunk(RIDGE, eq.weight_bytes(PSI, 2), kv, PSI, b) == pytest.approx(published, abs=1)


def test_leaving_out_bytes_per_element_is_the_documented_trap():
    kv = eq.kv_read_bytes(32, 8, 128, 4096, 64, 1)
    assert eq.optimal_chunk(RIDGE, eq.weight_bytes(PSI, 2), kv, PSI, 64) == pytest.approx(547, abs=1)


def with_attention(I_star, W, weights, head, a, kappa, p, b, s):
    """E6 with attention, from its two parts."""
    h = ridge.flops_less_ridge_per_token(W, a, p, I_star, kappa)
    g = ridge.flops_less_ridge_of_decodes(W, b, head, a, s, I_star, weights, kappa, p)
    return ridge.optimal_chunk_with_attention(a, h, g)


@pytest.mark.parametrize(("load", "published"), [((32, 2048), (460, 374, 256)), ((128, 8192), (2899, 2310, 1456))])
def test_quadratic_optimum_is_the_published_one(load, published):
    b, s = load
    W = 32 * (2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
    head = 128256 * 4096
    found = [
        with_attention(RIDGE, W, 2 * (W + head), 2 * head * b, 4 * 32 * 128 * 32, KV, p, b, s) for p in (0, 7680, 30000)
    ]
    assert found == pytest.approx(published, abs=1)


def test_quadratic_optimum_reaches_the_ridge_it_is_defined_by():
    W, a, kappa, weights, head = 7e9, 5e5, KV, 1.5e10, 3e10
    p, b, s = 2000, 32, 2048
    c = with_attention(RIDGE, W, weights, head, a, kappa, p, b, s)
    flops = 2 * W * (c + b) + head + a * (c * p + c * (c + 1) / 2 + b * s)
    assert flops / (weights + kappa * (b * s + p + c)) == pytest.approx(RIDGE)


@given(b=st.integers(0, 512), s=st.integers(1, 100_000))
def test_intensity_at_the_optimal_chunk_is_the_ridge(b, s):
    weights, kv = eq.weight_bytes(PSI, 2), eq.kv_read_bytes(32, 8, 128, s, b, 2)
    c = eq.optimal_chunk(RIDGE, weights, kv, PSI, b)
    assert eq.intensity(eq.step_flops(c, b, PSI), weights, kv) == pytest.approx(RIDGE)


def test_intensity_at_the_optimal_chunk_on_arrays():
    b, s = np.array([1.0, 32, 64]), np.array([100.0, 2048, 4096])
    weights, kv = eq.weight_bytes(PSI, 2), eq.kv_read_bytes(32, 8, 128, s, b, 2)
    c = eq.optimal_chunk(RIDGE, weights, kv, PSI, b)
    np.testing.assert_allclose(eq.intensity(eq.step_flops(c, b, PSI), weights, kv), RIDGE)


def test_sympy_inverts_the_intensity_to_the_optimal_chunk():
    c, b, Psi, W, K, ridge = sympy.symbols("c b Psi W K I", positive=True)
    inverse = sympy.solve(sympy.Eq(eq.intensity(eq.step_flops(c, b, Psi), W, K), ridge), c)
    assert len(inverse) == 1
    assert sympy.simplify(inverse[0] - eq.optimal_chunk(ridge, W, K, Psi, b)) == 0


def test_a_70b_prompt_in_one_chunk_on_eight_h100():
    Psi = 70.6e9
    t = eq.step_time(
        eq.compute_time(eq.step_flops(32768, 0, Psi), 8 * P), eq.memory_time(eq.weight_bytes(Psi, 2), 0, 8 * B)
    )
    assert eq.ttft_bound(32768, 32768, t) == pytest.approx(0.58, abs=0.005)


def test_largest_and_smallest_chunk_are_inverses():
    b, weights, kv = 32, eq.weight_bytes(PSI, 2), eq.kv_read_bytes(32, 8, 128, 2048, 32, 2)
    t_memory = eq.memory_time(weights, kv, B)
    c_max = eq.largest_chunk(0.03, P, PSI, b)
    assert eq.compute_time(eq.step_flops(c_max, b, PSI), P) == pytest.approx(0.03)
    for ttft in (0.1, 0.2, 1.0):
        c_min = eq.smallest_chunk(ttft, 4096, P, PSI, b, t_memory)
        step = eq.step_time(eq.compute_time(eq.step_flops(c_min, b, PSI), P), t_memory)
        assert 4096 / c_min * step == pytest.approx(ttft)
        assert eq.feasible(c_min, c_max, t_memory, 0.03) == (t_memory <= 0.03)


@pytest.mark.parametrize("kind", ["float", "array", "symbol"])
def test_every_equation_takes_every_kind_of_number(kind):
    x = {"float": 3.0, "array": np.array([3.0, 4.0]), "symbol": sympy.Symbol("x", positive=True)}[kind]
    calls = [
        eq.step_flops(x, 1, 2), eq.weight_bytes(x, 2), eq.kv_read_bytes(1, 1, 1, x, 1, 2), eq.intensity(x, 1, 1),
        eq.ridge_intensity(x, 2), eq.optimal_chunk(x, 1, 1, 2, 1), eq.compute_time(x, 2), eq.memory_time(x, 1, 2),
        eq.step_time(x, 2), eq.chunk_count(x, 2), eq.ttft_bound(x, 2, 1), eq.ttft_of_full_steps(x, 2),
        eq.largest_chunk(x, 1, 2, 1),
        eq.smallest_chunk(x, 1, 10, 2, 1, 1), eq.feasible(x, 9, x, 9),
        with_attention(x, 1, 1, 1, 1, 0.1, 1, 1, 1),
    ]  # fmt: skip
    assert len(calls) == 16
    if kind == "symbol":
        assert all(isinstance(call, sympy.Basic) for call in calls)
    if kind == "array":
        assert all(np.shape(call) == (2,) for call in calls)
