"""The fit of kernel constants: it finds the constants that made a table, and says what a table cannot tell."""

import importlib
import sys
import tomllib
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from chunkcalc.catalog import schema
from chunkcalc.catalog.lookup import load_hardware
from chunkcalc.catalog.profiles import hardware_from
from chunkcalc.records import Efficiency, Gqa
from chunkcalc.time.roofline import seconds
from chunkcalc.work import gqa
from chunkcalc.work.gemm import gemm
from tests.deployments import deployment

ROOT = Path(__file__).parent.parent
H200 = load_hardware("h200-sxm").record
NOISE = 0.03


@pytest.fixture(scope="module")
def tools():
    """benchmarks/kernel_tables.py and fit_kernels.py."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        yield importlib.import_module("kernel_tables"), importlib.import_module("fit_kernels")
    finally:
        sys.path.pop(0)


def noisy(kernel, **constants):
    """Times of a table of kernels [us], 3 % off at random."""
    hardware = replace(H200, efficiency={f"{kernel.form}.{kernel.dtype}": Efficiency(**constants)})
    times = np.asarray(seconds(kernel, hardware)) * 1e6
    return times * np.exp(np.random.default_rng(1).normal(0, NOISE, times.shape))


def write(path, header, rows):
    """A CSV file."""
    path.write_text("\n".join([header, *(",".join(str(value) for value in row) for row in rows)]) + "\n")


GEMM = {"compute": 0.7, "memory": 0.8, "latency": 5e-6, "knee": 2.0, "activations": 3.0, "fill": 0.4}


def products(path, sizes):
    """A table of fp8 products."""
    m, n, k = np.array(list(sizes), float).T
    times = noisy(gemm("gemm", m, n, k, "fp8"), **GEMM)
    rows = zip(["fp8"] * len(m), m.astype(int), n.astype(int), k.astype(int), times, strict=True)
    write(path, "dtype,m,n,k,us", rows)


def test_a_product_table_gives_back_its_constants(tools, tmp_path):
    tables, fits = tools
    sizes = (1024, 2048, 4096, 8192, 16384)
    products(tmp_path / "gemm.csv", product((1, 16, 64, 128, 256, 512, 1024, 4096, 16384), sizes, sizes))
    found = fits.fit([tables.products(tmp_path / "gemm.csv", H200)["gemm.fp8"]])
    wanted = {**GEMM, "latency_us": 5.0}
    del wanted["latency"]
    assert found.values == pytest.approx(wanted, rel=0.06)
    assert found.remarks == ()
    assert np.abs(found.errors).mean() < NOISE
    assert np.abs(found.held_out).mean() < NOISE


def test_what_a_table_cannot_tell_is_not_fitted(tools, tmp_path):
    tables, fits = tools
    # Large products only: nothing about few tiles.
    products(tmp_path / "gemm.csv", product((512, 2048, 8192), (8192, 16384), (4096, 8192, 16384)))
    found = fits.fit([tables.products(tmp_path / "gemm.csv", H200)["gemm.fp8"]])
    assert found.values["fill"] == 0.0
    assert any(remark.startswith("fill not determined") for remark in found.remarks)
    assert np.abs(found.errors).mean() < NOISE


def test_impossible_rows_are_left_out(tools, tmp_path):
    tables, _ = tools
    rows = [("bfloat16", 4096, 4096, 4096, us) for us in (1.0,)] + [("bfloat16", 4096, 4096, 8192, 1e3)]
    write(tmp_path / "gemm.csv", "dtype,m,n,k,us", rows)
    assert tables.products(tmp_path / "gemm.csv", H200)["gemm.bf16"].time.tolist() == [1e-3]


def attentions(tools, path, requests, lengths, **constants):
    """A table of prompts (with `waste`) or decodes of these constants, written and read again."""
    tables, _ = tools
    prompts, rows = "waste" in constants, []
    for head_dim, heads, kv_heads, b, tokens in product((64, 128), (8, 16, 32, 64), (4, 8), requests, lengths):
        attention = Gqa(heads=heads, kv_heads=kv_heads, head_dim=head_dim)
        alone = deployment(gpu="h200-sxm")
        if prompts:
            ((kernel, *_),) = gqa.prefill_forms(alone, attention, b * tokens, 0, b, 1)
        else:
            kernel, *_ = gqa.decode_kernels(alone, attention, b, tokens, 0, 1)
        rows.append((("bfloat16", "bfloat16", head_dim, heads, kv_heads, b, tokens), kernel))
    times = noisy(tables.stack(kernel for _, kernel in rows), **constants)
    length = "new_tokens" if prompts else "ctx"
    lines = [(*shape, time) for (shape, _), time in zip(rows, times, strict=True)]
    write(path, f"dtype,kv_dtype,hd,nh,nkv,b,{length},us", lines)
    ((_, table),) = tables.attentions(path, H200).items()
    return table


def test_a_prompt_table_gives_back_its_constants(tools, tmp_path):
    constants = {"compute": 0.65, "memory": 0.8, "latency": 12e-6, "activations": 2.5, "waste": 0.4, "softmax": 90.0}
    table = attentions(tools, tmp_path / "ctx.csv", (1, 4), (128, 512, 1024, 2048, 4096, 16384), **constants)
    found = tools[1].fit([table], Efficiency(memory=0.8))
    wanted = {"compute": 0.65, "latency_us": 12.0, "activations": 2.5, "waste": 0.4, "softmax": 90.0}
    assert found.values == pytest.approx(wanted, rel=0.08)


def test_a_decode_table_gives_back_its_constants(tools, tmp_path):
    constants = {"memory": 0.8, "latency": 11e-6, "activations": 150.0}
    requests, contexts = (1, 16, 64, 256, 1024), (16, 128, 512, 2048, 8192)
    table = attentions(tools, tmp_path / "gen.csv", requests, contexts, **constants)
    found = tools[1].fit([table])
    assert found.values == pytest.approx({"memory": 0.8, "latency_us": 11.0, "activations": 150.0}, rel=0.06)
    assert len(table.time) <= 16 * len(requests) * 4, "contexts that nobody serves are left out"


def test_an_allreduce_gives_back_its_constants(tools):
    message = 2.0 ** np.arange(8, 29)
    time = (4e-6 + message / 2e11 + 6e-6 * np.minimum(message, 1e6) / 1e6) * np.exp(
        np.random.default_rng(2).normal(0, NOISE, len(message))
    )
    found = tools[1].fit_allreduce(message, time, H200.link.bandwidth)
    assert found.values == pytest.approx({"latency_us": 4.0, "ramp_us": 6.0, "bandwidth": 2e11}, rel=0.1)


def test_a_profile_takes_the_constants_and_keeps_everything_else(tools):
    _, fits = tools
    text = (ROOT / "hardware_profiles" / "h200-sxm.toml").read_text()
    none = np.zeros(1)
    found = {
        "gemm.fp8": fits.Fit({"compute": 0.5, "latency_us": 7.123, "fill": 0.0, "knee": 2.0}, none, none, ()),
        "allreduce.4": fits.Fit({"latency_us": 3.0, "ramp_us": 0.0, "bandwidth": 1.234e11}, none, none, ()),
    }
    before, after = tomllib.loads(text), tomllib.loads(fits.written(text, found))
    schema.check_hardware(after, "here")
    read = hardware_from(after)
    assert read.efficiency["gemm.fp8"] == pytest.approx(Efficiency(compute=0.5, latency=7.12e-6, knee=2.0))
    assert tuple(read.allreduce[4]) == pytest.approx((3e-6, 1.23e11, 0.0))
    for data in (before, after):
        del data["efficiency"]["gemm"]["fp8"], data["allreduce"]["4"]
    assert before == after


def test_a_line_and_a_section_that_a_profile_lacks_are_added(tools):
    _, fits = tools
    found = fits.Fit({"compute": 0.5}, np.zeros(1), np.zeros(1), ())
    text = fits.written("[efficiency.gemm]\n\n[sources]\n", {"gemm.int4": found, "moe.int4": found})
    assert text == (
        "[efficiency.gemm]\nint4 = { compute = 0.5 }\n\n[efficiency.moe]\nint4 = { compute = 0.5 }\n\n[sources]\n"
    )


def test_the_kernels_of_other_engines_replace_those_that_stand_there(tools):
    _, fits = tools
    found = fits.Fit({"compute": 0.5}, np.zeros(1), np.zeros(1), ())
    once = fits.written("a = 1\n\n[sources]\n", {"sglang:moe.bf16": found})
    assert "[kernels.sglang.moe]\nbf16 = { compute = 0.5 }" in once
    assert fits.written(once, {"sglang:moe.bf16": found}) == once


def test_tables_that_no_constants_describe_or_served_steps_refute_are_not_written(tools):
    _, fits = tools
    good, wild = (fits.Fit({"compute": 0.5}, np.zeros(1), np.full(1, off), ()) for off in (0.1, 0.35))
    assert set(fits.believed("l40s", {"moe.mxfp4": good, "moe.int4": wild})) == {"moe.mxfp4"}
    assert set(fits.believed("h200-sxm", {"moe.mxfp4": good, "gemm.bf16": good})) == {"gemm.bf16"}
    assert set(fits.believed(fits.GENERIC, {"moe.int4": wild})) == {"moe.int4"}
