"""One kernel on one GPU: what the constants of a form mean."""

from dataclasses import replace

import pytest

from chunkcalc.catalog.lookup import load_hardware
from chunkcalc.records import Efficiency, Gqa, Kernel
from chunkcalc.time.roofline import CACHE_KEEPS, seconds
from chunkcalc.work import gqa
from chunkcalc.work.gemm import gemm
from tests.deployments import deployment

H200 = load_hardware("h200-sxm").record


def timed(kernel, hardware=H200, **constants):
    """Time of a kernel on a GPU that has these constants for its form and nothing else."""
    found = {f"{kernel.form}.{kernel.dtype}": Efficiency(**constants)}
    return seconds(kernel, replace(hardware, efficiency=found))


def test_a_product_with_few_tiles_takes_as_long_as_one_tile_on_every_multiprocessor():
    one, full = (gemm("mlp", 128 * high, 128 * wide, 8192, "bf16") for high, wide in ((1, 1), (12, 11)))
    assert timed(one, fill=1.0) == pytest.approx(timed(full))  # of 132 multiprocessors
    assert timed(one) < timed(full) / 20
    assert timed(full, fill=0.5) == timed(full)


def test_a_product_on_a_gpu_whose_multiprocessors_are_not_known_is_never_short_of_tiles():
    one = gemm("mlp", 128, 128, 8192, "bf16")
    assert timed(one, replace(H200, sms=None), fill=1.0) == timed(one)


def prompt(heads, c, p, head_dim=128):
    """Attention of a chunk in one layer."""
    attention = Gqa(heads=heads, kv_heads=1, head_dim=head_dim)
    ((kernel, *_),) = gqa.prefill_forms(deployment(gpu="h200-sxm"), attention, c, p, 1, 1)
    return kernel


def test_few_heads_leave_multiprocessors_idle():
    # 128 queries of a head are one tile: 66 heads fill half of 132 multiprocessors.
    half, full = prompt(66, 128, 10_000), prompt(132, 128, 10_000)
    assert timed(half) == pytest.approx(timed(full))
    assert timed(half._replace(idle=1.0)) == pytest.approx(timed(full) / 2)


def test_the_last_tile_of_a_prompt_costs_what_all_multiprocessors_would_do_meanwhile():
    kernel = prompt(132, 1280, 0)
    # Ten tiles per multiprocessor, which see half of the prompt on average; the last one sees all of it.
    assert timed(kernel, waste=1.0) / timed(kernel) == pytest.approx(1 + 2 / 10, rel=0.01)


@pytest.mark.parametrize(("head_dim", "slower"), [(64, 2), (128, 1), (256, 1)])
def test_small_heads_wait_for_their_softmax(head_dim, slower):
    kernel = prompt(132, 4096, 4096, head_dim)
    assert timed(kernel, softmax=128.0) == pytest.approx(slower * timed(kernel))


def test_what_the_cache_still_holds_is_read_faster():
    kept = CACHE_KEEPS * H200.l2
    small, large = (Kernel("norm", "elementwise", "bf16", bytes=2 * size, resident=size) for size in (kept, 4 * kept))
    assert timed(small, cached=3.0) == pytest.approx(timed(small) / 3)
    # A quarter of the large one is found in the cache.
    assert timed(large, cached=3.0) == pytest.approx(timed(large) * (0.75 + 0.25 / 3))
    assert timed(large, replace(H200, l2=0.0), cached=3.0) == timed(large)


def test_each_decode_pays_for_its_new_token():
    attention = Gqa(heads=32, kv_heads=8, head_dim=128)
    few, many = (gqa.decode_kernels(deployment(), attention, b, 4096 / b, 0, 1)[0] for b in (1, 64))
    assert few.bytes == many.bytes
    assert timed(many, activations=100.0) - timed(many) == pytest.approx(
        64 * (timed(few, activations=100.0) - timed(few))
    )
