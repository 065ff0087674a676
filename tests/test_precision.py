"""From a weight format's name to the format of each part."""

from dataclasses import replace

import pytest

from chunkcalc.catalog.lookup import load_model
from chunkcalc.catalog.precision import precision_for
from chunkcalc.errors import ChunkcalcError

LLAMA, DEEPSEEK = (load_model(name).record for name in ("llama-3.1-8b", "deepseek-v3"))


@pytest.mark.parametrize(
    ("asked", "shipped", "variants", "wanted"),
    [
        ("fp8", "fp8_block", {}, "fp8_block"),
        ("int4", "int4_g32", {}, "int4_g32"),
        ("FP8", "bf16", {"mine-fp8": "fp8_block"}, "fp8_block"),
        ("awq", "bf16", {"mine-w4a16": "int4_g32"}, "int4_g32"),
        ("fp8", "bf16", {"a": "fp8_block", "b": "fp8"}, "fp8"),
        ("fp8", "bf16", {}, "fp8"),
        ("fp8", "fp8", {"a": "fp8_block"}, "fp8"),
        ("int4", "fp8_block", {}, "int4"),
        ("fp8_block", "bf16", {}, "fp8_block"),
        ("nvfp4", "fp8_block", {}, "nvfp4"),
    ],
)
def test_a_format_is_the_kind_in_which_the_model_is_published(asked, shipped, variants, wanted):
    found = precision_for(replace(LLAMA, weights=shipped, variants=variants), asked)
    assert {found.weights, found.attention, found.dense, found.experts, found.shared} == {wanted}


def test_a_shipped_model_in_fp8_by_blocks():
    assert precision_for(DEEPSEEK, "fp8") == precision_for(DEEPSEEK)
    assert precision_for(DEEPSEEK).experts == "fp8_block"
    assert precision_for(LLAMA, "fp8").dense == "fp8"


def test_parts_that_a_checkpoint_leaves_alone_stay_16_bit():
    model = replace(LLAMA, weights="bf16", variants={"x": "fp8_block"}, unquantised={"fp8_block": ("attention",)})
    found = precision_for(model, "fp8")
    assert (found.attention, found.dense) == ("bf16", "fp8_block")


def test_parts_in_a_format_of_their_own_are_those_of_the_checkpoint():
    model = replace(LLAMA, weights="fp8_block", formats={"experts": "mxfp4"})
    assert precision_for(model).experts == precision_for(model, "fp8").experts == "mxfp4"
    assert precision_for(model, "nvfp4").experts == "nvfp4"


@pytest.mark.parametrize(("weights", "kv", "option"), [("fp7", None, "--weights"), (None, "fp4", "--kv")])
def test_unknown_formats_are_refused(weights, kv, option):
    with pytest.raises(ChunkcalcError, match="unknown") as caught:
        precision_for(LLAMA, weights, kv)
    assert str(caught.value).startswith(option)
