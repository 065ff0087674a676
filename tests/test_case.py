"""Bad input: one clear sentence with what, where and a hint; never anything else."""

import math

import pytest

from chunkcalc import ChunkcalcError
from chunkcalc import solve as ask
from chunkcalc.answer.question import Question
from chunkcalc.answer.resolve import resolve
from chunkcalc.answer.solve import answer
from chunkcalc.catalog.lookup import load_hardware, load_model

GOOD = {"model": "llama-3.1-8b", "gpu": "h100-sxm", "prompt": 4000}
BAD = [
    ({"model": "lama-3.1-8b"}, "--model: unknown model"),
    ({"gpu": "h101"}, "--gpu: unknown GPU"),
    ({"prompt": 0}, "--prompt: 0 is out of range"),
    ({"prompt": -5}, "--prompt: -5 is out of range"),
    ({"prompt": 1.5}, "--prompt: 1.5 is not a whole number"),
    ({"prompt": math.nan}, "--prompt: nan is not finite"),
    ({"prompt": "4k"}, "--prompt: '4k' is not a number"),
    ({"prompt": True}, "--prompt: True is not a number"),
    ({"prompt": 10**12}, "--prompt: 1e+12 is out of range"),
    ({"prompt": 200_000}, "--prompt: prompt and output need 200512 positions"),
    ({"output": 0}, "--output: 0 is out of range"),
    ({"batch": 0}, "--batch: 0 is out of range"),
    ({"ttft": 0}, "--ttft: 0 is out of range"),
    ({"ttft": -1.0}, "--ttft: -1 is out of range"),
    ({"tpot": math.inf}, "--tpot: inf is not finite"),
    ({"itl": math.nan}, "--itl: nan is not finite"),
    ({"context": 10_000}, "--context: a mean context of 10000 is longer"),
    ({"prefix_hit": 1.0}, "--prefix-hit: a prompt is never cached whole"),
    ({"prefix_hit": 1.2}, "--prefix-hit: 1.2 is out of range"),
    ({"max_utilisation": 0}, "--max-utilisation: 0 is out of range"),
    ({"memory_fraction": 2}, "--memory-fraction: 2 is out of range"),
    ({"tp": 3}, "--tp: tp 3 does not divide the 32 attention heads"),
    ({"tp": 16}, "--tp: 16 GPUs per layer are more than one h100-sxm node has"),
    ({"tp": 4, "attention_dp": 4}, "--attention-dp: 16 GPUs per layer"),
    ({"pp": 64}, "--pp: pp 64 exceeds the 32 layers"),
    ({"ep": 2}, "--ep: llama-3.1-8b has no experts"),
    ({"model": "deepseek-v3", "gpu": "h200", "tp": 8, "ep": 3}, "--ep: ep 3 does not divide 256 experts"),
    ({"model": "deepseek-v3", "gpu": "h200", "tp": 2, "ep": 4, "engine": "sglang"}, "--ep: ep 4 does not divide the 2"),
    ({"model": "deepseek-v3", "gpu": "h200", "tp": 8, "ep": 2}, "--ep: vLLM spreads experts over all GPUs"),
    ({"gpu": "rtx-pro-4500"}, "--gpu: the peak arithmetic of rtx-pro-4500 is not confirmed"),
    ({"model": ""}, "--model: the name is empty"),
    ({"model": "./dir"}, "--model: './dir' is not the path of a profile"),
    ({"weights": "fp7"}, "--weights: unknown weight format"),
    ({"kv": "int4"}, "--kv: unknown KV format"),
    ({"gpu": "v100", "weights": "fp8"}, "--weights: v100-sxm2-16gb has no fp8 arithmetic"),
    ({"gpu": "h100", "weights": "nvfp4"}, "--weights: h100-sxm has no nvfp4 arithmetic"),
    ({"engine": "tgi"}, "--engine: unknown engine"),
    ({"prefill_interval": 1}, "--prefill-decode-interval: vllm has no such interval"),
    ({"mixed_chunk": True, "prefill_interval": 1, "engine": "sglang"}, "--prefill-decode-interval: mixed chunks leave"),
    ({"mixed_chunk": True}, "--enable-mixed-chunk: vllm always mixes"),
    ({"chunk": 512, "budget": 512}, "--budget: a chunk and a budget contradict each other"),
    ({"budget": 32, "batch": 32}, "--budget: a budget of 32 leaves no prompt tokens"),
    ({"draft_acceptance": 0.5}, "--draft-acceptance: an acceptance needs drafts"),
    ({"draft_tokens": 65}, "--draft-tokens: 65 is out of range"),
    ({"draft_tokens": 0.5}, "--draft-tokens: 0.5 is not a whole number"),
    ({"link_latency": 1e-5}, "--link: a latency needs a bandwidth"),
    ({"output": 1, "tpot": 0.03}, "--output: an answer of one token has nothing to decode"),
]  # fmt: skip


def solve(**question):
    """In the words of the command line; those of the Python face are tested in test_python.py."""
    return answer(Question(**question), with_remedies=False)


@pytest.mark.parametrize(("change", "sentence"), BAD, ids=lambda value: value if isinstance(value, str) else None)
def test_bad_input_is_one_sentence_with_a_hint(change, sentence):
    with pytest.raises(ChunkcalcError) as caught:
        solve(**{**GOOD, **change})
    assert str(caught.value).startswith(sentence)
    assert caught.value.hint
    assert "\n" not in str(caught.value)


def test_an_unknown_field_is_named():
    with pytest.raises(TypeError, match="promt"):
        ask(**GOOD, promt=3)


def test_what_would_run_instead_is_said():
    with pytest.raises(ChunkcalcError, match=r"compute in bf16.*int4"):
        solve(**{**GOOD, "gpu": "v100", "weights": "fp8"})


def test_records_are_taken_as_they_are():
    found = resolve(Question(model=load_model("llama-3.1-8b").record, gpu=load_hardware("l4").record, prompt=100))
    assert found.origins["model"] == found.origins["gpu"] == "record"


def test_every_input_says_where_it_came_from():
    case = resolve(Question(model="Llama-3.1-8B-Instruct", gpu="h100", prompt=4000, tp=2, kv="fp8", draft_tokens=2))
    assert case.origins["model"] == "Llama-3.1-8B-Instruct -> llama-3.1-8b"
    assert case.origins["tp"] == "given"
    assert case.origins["output"] == "assumed"
    assert case.workload.context == 4000 + 256
    assert len(case.notes) == 4


@pytest.mark.parametrize(
    ("model", "weights", "parts"),
    [
        ("llama-3.1-8b", None, ("bf16", "bf16")), ("llama-3.1-8b", "awq", ("int4", "int4")),
        ("deepseek-v3", None, ("fp8_block", "fp8_block")), ("deepseek-v3", "fp8", ("fp8_block", "fp8_block")),
        ("deepseek-v3", "nvfp4", ("bf16", "nvfp4")), ("gpt-oss-120b", None, ("bf16", "mxfp4")),
        ("gpt-oss-120b", "fp16", ("bf16", "bf16")),
    ],
)  # fmt: skip
def test_what_a_checkpoint_leaves_unquantised_stays_16_bit(model, weights, parts):
    case = resolve(Question(model=model, gpu="b200", tp=8, prompt=100, weights=weights))
    assert (case.deployment.precision.attention, case.deployment.precision.experts) == parts


def test_an_answer_of_one_token_is_a_prefill_only():
    found = solve(**GOOD, output=1, ttft=1.0)
    assert found.verdict == "feasible"
    assert found.expected.tpot_s is None
    assert found.chunking.output_tokens_per_s is None
