"""Engines: defaults by version and device, the argument grammar, refusals, the way back to flags."""

import argparse
import re
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chunkcalc
from chunkcalc import ChunkcalcError, Question
from chunkcalc.answer.inspection import inspect
from chunkcalc.answer.judged import outlook
from chunkcalc.answer.solve import answer
from chunkcalc.catalog.lookup import load_hardware
from chunkcalc.engines.command import locate, read
from chunkcalc.engines.dialects import dialect, prototype
from chunkcalc.engines.grammar import parse
from chunkcalc.engines.reading import Target
from chunkcalc.engines.sglang import grammar as sglang_grammar
from chunkcalc.engines.tables import table
from chunkcalc.records import ENGINE_NAMES

ROOT = Path(chunkcalc.__file__).parent

MODEL = "meta-llama/Llama-3.1-8B-Instruct"


def reading(line, gpu="h100-sxm", version=None, entry="server", max_position=131072):
    command = locate(line.split())
    return read(command, table(command.engine, version), Target(load_hardware(gpu).record, max_position, entry))


# Read from the released wheels: version, GPU, entry point -> budget and requests.
VLLM_DEFAULTS = [
    ("0.33.0", "b200", "server", 16384, 1024), ("0.33.0", "b200", "offline", 16384, 1024),
    ("0.33.0", "mi300x", "server", 16384, 1024), ("0.28.0", "mi355x", "server", 16384, 1024),
    ("0.33.0", "h100-sxm", "server", 8192, 1024), ("0.33.0", "h100-sxm", "offline", 16384, 1024),
    ("0.33.0", "h200-sxm", "server", 8192, 1024), ("0.33.0", "h20", "server", 8192, 1024),
    ("0.33.0", "gh200-96", "server", 8192, 1024), ("0.33.0", "rtx-pro-6000", "server", 8192, 1024),
    ("0.33.0", "a100-sxm4-80gb", "server", 2048, 256), ("0.33.0", "a100-sxm4-80gb", "offline", 8192, 256),
    ("0.33.0", "l40s", "server", 2048, 256), ("0.33.0", "l4", "offline", 8192, 256),
    ("0.33.0", "a10", "server", 2048, 256), ("0.33.0", "gb10", "server", 2048, 256),
    ("0.24.0", "gb10", "server", 2048, 256), ("0.24.0", "b200", "server", 8192, 1024),
    ("0.24.0", "b200", "offline", 16384, 1024), ("0.10.2", "h100-sxm", "server", 8192, 1024),
    ("0.10.2", "a100-sxm4-80gb", "server", 2048, 256), ("0.8.5", "a100-sxm4-80gb", "server", 8192, 1024),
    ("0.8.5", "a100-sxm4-80gb", "offline", 16384, 1024), ("0.8.5", "l40s", "server", 2048, 256),
    ("0.9.0", "a100-sxm4-80gb", "server", 2048, 256),
    ("0.8.0", "h200-sxm", "server", 8192, 1024), ("0.8.0", "b200", "server", 2048, 1024),
    ("0.27.0", "b200", "server", 8192, 1024), ("0.28.0", "b200", "server", 16384, 1024),
    ("0.33.0", "tpu-v6e", "server", 1024, 256), ("0.33.0", "tpu-v6e", "offline", 2048, 256),
    ("0.33.0", "tpu-v5e", "server", 512, 256), ("0.33.0", "tpu-v5p", "offline", 512, 256),
    ("0.33.0", "NVIDIA-H100-80GB-HBM3-MIG-3g.40gb", "server", 2048, 256),
]  # fmt: skip


@pytest.mark.parametrize(("version", "gpu", "entry", "budget", "requests"), VLLM_DEFAULTS)
def test_vllm_defaults(version, gpu, entry, budget, requests):
    found = reading(f"vllm serve {MODEL}", gpu, version, entry)
    assert (found.budget, found.max_num_seqs) == (budget, min(requests, budget))
    assert found.values["max_num_batched_tokens"].source == "default"


@pytest.mark.parametrize(("version", "share"), [("0.6.6", 0.9), ("0.19.0", 0.9), ("0.20.0", 0.92), ("0.33.0", 0.92)])
def test_vllm_memory_share(version, share):
    assert reading(f"vllm serve {MODEL}", version=version).memory_fraction == share


# Read from the released wheels: version, GPU -> chunk.
SGLANG_DEFAULTS = [
    ("0.5.23", "t4", 2048), ("0.5.23", "a10", 4096), ("0.5.23", "rtx-5090", 4096), ("0.5.23", "l40s", 4096),
    ("0.5.23", "a100-sxm4-40gb", 4096), ("0.5.23", "h100-sxm", 8192), ("0.5.23", "h200-sxm", 8192),
    ("0.5.23", "b200", 16384), ("0.5.23", "mi300x", 16384), ("0.5.20", "a10", 4096), ("0.5.15", "a10", 2048),
    ("0.5.10", "rtx-5090", 2048), ("0.5.6", "l40s", 4096),
    ("0.5.3", "l40s", 4096), ("0.5.19", "a10", 2048), ("0.4.8", "b200", 16384), ("0.5.2", "l40s", 8192),
    ("0.5.2", "a10", 2048),
    ("0.5.2", "b200", 16384), ("0.4.6", "a10", 2048), ("0.4.6", "l40s", 8192), ("0.4.6", "b200", 8192),
]  # fmt: skip


@pytest.mark.parametrize(("version", "gpu", "chunk"), SGLANG_DEFAULTS)
def test_sglang_defaults(version, gpu, chunk):
    found = reading(f"sglang serve --model-path {MODEL}", gpu, version)
    assert (found.chunk, found.composition) == (chunk, "prefill_first")


def test_sglang_roles_in_old_versions():
    assert reading(f"sglang serve --model {MODEL} --disaggregation-mode prefill", version="0.4.6").chunk == 16384


def test_trtllm_defaults():
    found = reading(f"trtllm-serve {MODEL}")
    assert (found.budget, found.max_num_seqs, found.memory_fraction) == (8192, 2048, 0.9)
    assert any("above 8,192 tokens is refused" in line for line in found.differences)  # issue 9277
    assert not any(
        "is refused" in line for line in reading(f"trtllm-serve {MODEL} --enable_chunked_prefill").differences
    )


VALUES = [
    ("vllm serve M --max-num-batched-tokens 8k", 8000), ("vllm serve M --max-num-batched-tokens 8K", 8192),
    ("vllm serve M --max-num-batched-tokens=4096", 4096), ("vllm serve M --max_num_batched_tokens 4096", 4096),
    ("vllm serve M --max-num-batched-token 4096", 4096), ("vllm serve M --max-num-batched-tokens 25.6k", 25600),
    ("vllm serve M --max-num-batched-tokens 1024 --max-num-batched-tokens 4096", 4096),
    ("python3 -m vllm.entrypoints.openai.api_server --model M --max-num-batched-tokens 4096", 4096),
    ("env VLLM_LOG=1 /usr/bin/vllm serve M --max-num-batched-tokens 4096", 4096),
    ("vllm serve M --performance-mode throughput", 16384),
    ("vllm serve M --max-model-len 16 --max-num-seqs 2", 32),
    ("vllm serve M --no-enable-chunked-prefill --max-model-len 32K", 32768),
    ("vllm serve M --disable-chunked-prefill --max-model-len 32K", 32768),
    ("vllm serve M -dp 8 -ep --all2all-backend deepep_low_latency", 256),
    ("sglang serve --model-path M --chunked-prefill-size 4096", 4096),
    ("python -m sglang.launch_server --model M --tp 8 --dp 4 --enable-dp-attention --chunked-prefill-size 32768", 8192),
    ("sglang serve --model M --chunked-prefill-size 32768", 32768),
    ("sglang serve --model M --chunked-prefill-size 8192 --max-prefill-tokens 5000 --page-size 64", 8192),
    ("vllm/vllm-openai:v0.24.0 --model M --max-num-batched-tokens 4096", 4096),
    ("sglang serve --model M --chunked-prefill-size 32768 --max-prefill-tokens 32Ki", 32768),
    ("trtllm-serve M --max_num_tokens 4096", 4096), ("trtllm-serve serve M --max_num_tokens=4096 --tp_size 4", 4096),
]  # fmt: skip


@pytest.mark.parametrize(("line", "budget"), VALUES)
def test_the_budget_of_a_command_line(line, budget):
    found = reading(line)
    assert found.budget == budget
    assert not found.refusals


REFUSED = [
    ("vllm serve M --max-num-batched-tokens 1.5K", "'K' takes whole numbers only"),
    ("vllm serve M --max-num-batched-tokens 8q", "unknown suffix 'q'"),
    ("vllm serve M --max-num-seqs 8k", "takes no suffix"),
    ("vllm serve M --max-num-seqs", "needs a value"),
    ("vllm serve M --max-num-seqs 0", "must be at least 1"),
    ("vllm serve M --enable-chunked-prefill=false", "takes no value"),
    ("vllm serve M --enable-chunked-prefill false", "'false' belongs to no flag"),
    ("vllm serve M --max-num 8", "is ambiguous"), ("vllm serve --foo=1 M", "--foo is not a flag"),
    ("vllm serve M --max-num-seqs=1" + "0" * 400, "larger than"), ("vllm serve M --cpu-offload-gb inf", "not a finite"),
    ("vllm serve M --cpu-offload-gb -5", "must be at least 0"), ("vllm serve M --block-size 0", "must be at least 1"),
    ("vllm serve M --speculative-config.a 1 --speculative-config.a+ 2", "is not a list"),
    ("vllm serve M --speculative-config." + "a." * 3000 + "a 1", "nested too deeply"),
    ("vllm serve M --speculative-config {}", "is not a mapping"),
    ('vllm serve M -sc {"num_speculative_tokens":1' + "0" * 400 + "}", "must be a whole number up to 64"),
    ("vllm serve M --speculative-config.method", "needs a value"),
    ("sglang serve --model M --tp 4 --ep 3", "does not divide --tp-size 4"),
    ("python -m sglang.launch_server M", "belongs to no flag"),
    ("vllm serve M --wibble 3", "--wibble is not a flag of vllm 0.33.0"),
    ("vllm serve M --max-num-partial-prefills 2", "is not a flag of vllm 0.33.0"),
    ("vllm serve M --max-num-batched-tokens 64 --max-num-seqs 128", "is below --max-num-seqs 128"),
    ("vllm serve M --no-enable-chunked-prefill --max-num-batched-tokens 2048", "is below the context of 131,072"),
    ("vllm serve M --max-num-active-seqs 64 --max-num-seqs 32", "exceeds --max-num-seqs 32"),
    ("vllm serve M --long-prefill-token-threshold 4096 --max-model-len 2048", "exceeds the context of 2,048"),
    ("vllm serve M --max-model-len 1M", "exceeds the model's 131,072"),
    ("vllm serve M --gpu-memory-utilization 1.2", "must be above 0 and at most 1"),
    ("vllm serve M --gpu-memory-utilization nan", "not a finite number"),
    ("vllm serve M --speculative-config {broken", "not valid JSON"),
    ("sglang serve --model M --max-prefill-tokens 8K", "unknown suffix 'K'"),
    ("sglang serve --model M --chunked-prefill-size 8k", "takes no suffix"),
    ("sglang serve --model M --chunked-prefill-size 1000 --page-size 64", "is not a multiple of --page-size 64"),
    ("sglang serve --model M --tp 8 --dp 3 --enable-dp-attention", "3 attention ranks do not divide --tp-size 8"),
    ("sglang serve --model M --max_running_requests 4", "is not a flag"),
    ("trtllm-serve M --max_num_token 4096", "is not a flag"),
    ("trtllm-serve M --max-num-tokens 4096", "is not a flag"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "sentence"), REFUSED)
def test_what_an_engine_would_refuse(line, sentence):
    found = reading(line)
    assert any(sentence in refusal for refusal in found.refusals), found.refusals


DIFFERENT = [
    ("vllm serve M --max-num-batched-tokens 8k", None, "is 8,000; the power of two is written 8K"),
    ("vllm serve M --max-num-partial-prefills 2", "0.10.2", "falls back to the V0 engine"),
    ("vllm serve M --speculative-config {\"method\":\"ngram\"} --speculative-config.x 1", None, "replaces the whole"),
    ("vllm serve M --config=x.yaml", None, "is ignored"),
    ("vllm serve M --max-num-seqs 8 --max-num-seqs 16", None, "given more than once"),
    ("vllm serve M --no-enable-chunked-prefill", "0.10.2", "chunks prompts even with"),
    ("vllm serve A --model B", None, "named twice"),
    ("vllm serve M --max-num-batched-tokens 256 --max-num-seqs 256", None, "prompts wait until some finish"),
    ("sglang serve --model M --chunked-prefill-size -1", None, "a prompt runs whole"),
    ("sglang serve --model M --dp 2", None, "starts 2 independent replicas"),
    ("sglang serve --model M --enable-mixed-chunk --speculative-algorithm EAGLE", "0.5.18", "is switched off"),
    ("trtllm-serve M --max_num_tokens 1024", None, "exceeds max_num_tokens 1,024"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "version", "sentence"), DIFFERENT)
def test_what_an_engine_does_silently(line, version, sentence):
    assert any(sentence in line for line in reading(line, version=version).differences)


def spec(slots):
    """The example of vllm PR 51725: 6 extra slots per request come from six draft tokens in parallel."""
    return f"vllm serve M --max-num-batched-tokens 8192 --max-num-seqs 1024 --speculative-config.method draft_model \
        --speculative-config.num_speculative_tokens {slots} --speculative-config.parallel_drafting true"


def test_draft_slots_by_version():
    assert reading(spec(6), version="0.24.0").budget == 2048  # 8192 - 6 * 1024
    assert reading(spec(6), version="0.33.0").budget == 8192
    negative = reading(spec(9), version="0.26.0")  # issue 50708
    assert any("leave -1,024 of the budget of 8,192" in line for line in negative.refusals)
    assert reading('vllm serve M -sc {"method":"mtp","num_speculative_tokens":3} --max-num-seqs 32').chunk_full == (
        8192 - 32 * 4
    )


def test_a_yaml_file_stands_below_the_command_line(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("model: M\nmax-num-seqs: 32\nmax_num_batched_tokens: 4096\nenable-prefix-caching: false\n")
    found = reading(f"vllm serve --config {path} --max-num-seqs 16")
    assert (found.model, found.budget, found.max_num_seqs) == ("M", 4096, 16)
    assert "enable_prefix_caching" not in found.values
    assert any("dropped silently" in line for line in found.differences)
    module = reading(f"python -m vllm.entrypoints.openai.api_server --config {path}", version="0.28.0")
    assert module.values["enable_prefix_caching"].value is False
    path.write_text("max-num-seqs: 5\nserved-model-name: [x, y]\n")
    assert reading(f"vllm serve M --config {path}").model == "M"
    path.write_text("max_running_requests: 64\n")
    assert reading(f"sglang serve --model M --config {path}").refusals
    path.write_text("max-num-seqs: null\n")
    assert reading(f"vllm serve M --config {path}").refusals


def test_trtllm_yaml_overrules_the_command_line(tmp_path):
    path = tmp_path / "extra.yaml"
    path.write_text(
        "max_num_tokens: 2112\nenable_attention_dp: true\nmax_batch_size: null\nkv_cache_config:\n  dtype: fp8\n"
        "  free_gpu_memory_fraction: 0.8\nspeculative_config:\n  decoding_type: MTP\n  num_nextn_predict_layers: 1\n"
    )
    found = reading(f"trtllm-serve M --max_num_tokens 8192 --tp_size 8 --extra_llm_api_options {path}")
    assert (found.budget, found.max_num_seqs, found.kv, found.memory_fraction) == (2112, 2048, "fp8", 0.8)
    assert (found.parallelism.dp, found.parallelism.tp, found.draft_tokens) == (8, 1, 1)
    assert any("overrule --max_num_tokens 8192: 2112" in line for line in found.differences)
    assert found.notes[0] == "YAML options that play no part here: speculative_config.decoding_type"
    path.write_text("max_num_tokens: [1]\n")
    assert any("not a whole number" in line for line in reading(f"trtllm-serve M --config {path}").refusals)


BAD_FILES = [
    ("[1, 2]", "not a mapping"),
    ("a: [", "not valid YAML"),
    ("!!python/object:os.system {}", "not valid YAML"),
]


@pytest.mark.parametrize(("content", "sentence"), BAD_FILES)
def test_a_bad_file_is_named(content, sentence, tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text(content)
    with pytest.raises(ChunkcalcError, match=sentence):
        reading(f"vllm serve M --config {path}")


def test_the_interval_needs_a_version_that_has_it():
    asked = {"model": "llama-3.1-8b", "gpu": "h100-sxm", "prompt": 1000, "batch": 8, "prefill_interval": 4}
    answer(Question(**asked, engine="sglang", engine_version="0.5.19"), with_remedies=False)
    for engine, version in (("sglang", "0.5.18"), ("vllm", None), ("trtllm", None)):
        with pytest.raises(ChunkcalcError, match="has no such interval"):
            answer(Question(**asked, engine=engine, engine_version=version), with_remedies=False)


def test_missing_pieces_are_named(tmp_path):
    for words, sentence in (
        (["python", "app.py"], "no engine found"),
        (["vllm", "serve"], "names no model"),
        (["vllm", "serve", "/models/x"], "say which one it is with --model"),
        (["vllm", "serve", MODEL, "--config", str(tmp_path / "no.yaml")], "cannot be read"),
    ):
        with pytest.raises(ChunkcalcError, match=sentence):
            inspect(words, "h100-sxm")
    with pytest.raises(ChunkcalcError, match="is not a version"):
        inspect(["vllm", "serve", MODEL], "h100-sxm", "latest; rm")


@pytest.mark.parametrize(
    ("asked", "taken"),
    [(None, "0.33.0"), ("0.26.1", "0.26.0"), ("v0.9.0.1", "0.9.0"), ("0.5.0", "0.6.6"), ("1.0", "0.33.0"),
     ("0.8.5.post1", "0.8.5"), ("0.24.0+cu128", "0.24.0"), ("0.33", "0.33.0"), ("0.8", "0.8.0"),
     ("0.20.0rc1", "0.20.0")],
)  # fmt: skip
def test_the_nearest_version_is_read_and_said(asked, taken):
    assert table("vllm", asked).read == taken
    if asked == "0.26.1":
        assert "taken as 0.26.0" in inspect(["vllm", "serve", MODEL], "h100-sxm", asked).notes[0]


def test_pr_17885_smaller_budget_admits_more_on_a100():
    """A100-80G, 70B in bf16: at TP2 the budget 2048 instead of 8192 admits at least 10 % more."""
    line = "vllm serve meta-llama/Llama-3.1-70B-Instruct --max-model-len 4096 --max-num-batched-tokens"
    tokens = [
        inspect([*line.split(), str(budget), "--tensor-parallel-size", "2"], "a100-sxm4-80gb", "0.8.5").kv_tokens
        for budget in (8192, 2048)
    ]
    assert tokens[1] >= 1.10 * tokens[0]


def test_pr_17885_throughput_at_tp4_hardly_changes():
    rates = [
        answer(
            Question(
                model="llama-3.1-70b", gpu="a100-sxm4-80gb", tp=4, prompt=8192, output=1024, batch=32, budget=budget,
                engine_version="0.8.5",
            ),
            with_remedies=False,
        ).chunking.output_tokens_per_s
        for budget in (8192, 2048)
    ]  # fmt: skip
    assert rates[1] == pytest.approx(rates[0], rel=0.05)


def test_sglang_34623_one_prompt_at_a_time():
    """458K tokens in rounds of 4096: about 112 prompt steps stand between two tokens of a stream."""
    found = answer(
        Question(
            model="llama-4-scout", gpu="b200", tp=8, prompt=458_000, output=512, batch=1, chunk=4096, engine="sglang"
        ),
        with_remedies=False,
    )
    view = outlook(found.case.deployment, found.workload, found.slo)
    steps = view.expected.prefill.steps(4096)
    assert len(steps) == 112
    assert found.expected.itl_s == pytest.approx(sum(steps) + found.expected.decode_step_s, rel=1e-6)


VLLM_VERSIONS = ["0.6.6", "0.7.3", "0.8.0", "0.8.5", *(f"0.{n}.0" for n in range(9, 34))]
SGLANG_VERSIONS = ["0.4.6", "0.4.10", *(f"0.5.{n}" for n in range(1, 24))]
VERSIONS = {
    "vllm": VLLM_VERSIONS,
    "sglang": SGLANG_VERSIONS,
    "trtllm": ["1.0.0", "1.1.0", "1.2.1"],
    "atom": ["0.1.3", "0.1.5", "0.1.6", "0.1.7"],
}
STARTS = {
    "vllm": "vllm serve M", "sglang": "sglang serve --model M", "trtllm": "trtllm-serve M",
    "atom": "python -m atom.entrypoints.openai_server --model M",
}  # fmt: skip


@settings(max_examples=60)
@given(data=st.data())
def test_reading_the_flags_of_an_answer_gives_the_answer(data):
    engine = data.draw(st.sampled_from(sorted(VERSIONS)))
    version = data.draw(st.sampled_from(VERSIONS[engine]))
    mixed = engine == "sglang" and data.draw(st.booleans())
    batch = data.draw(st.integers(1, 64))
    found = answer(
        Question(
            model="llama-3.1-8b",
            gpu="h100-sxm",
            prompt=data.draw(st.integers(64, 8000)),
            batch=batch,
            output=128,
            tp=data.draw(st.sampled_from([1, 2])),
            chunk=data.draw(st.integers(batch, 4000)),
            ttft=5.0,
            kv=data.draw(st.sampled_from([None, "fp8"])),
            engine=engine,
            engine_version=version,
            mixed_chunk=mixed,
        ),
        with_remedies=False,
    )
    back = reading(" ".join([STARTS[engine], *found.flags[engine]]), version=version)
    assert not back.refusals
    assert (back.chunk_full, back.budget, back.max_num_seqs) == (
        found.chunk,
        found.budget if engine not in ("sglang", "atom") or mixed else found.chunk,
        batch,
    )
    assert back.composition == found.case.deployment.engine.composition
    if engine != "trtllm":  # its KV format stands in the YAML options
        assert (back.kv or "bf16") == found.case.deployment.precision.kv
    assert back.parallelism == found.case.deployment.parallelism


def oracle(options, aliases):
    """Python's own parser over the same options: what SGLang runs, without its meaning."""
    parser = argparse.ArgumentParser(exit_on_error=False, add_help=False)
    parser.error = lambda message: (_ for _ in ()).throw(argparse.ArgumentError(None, message))
    also = {name: [alias for alias, target in aliases.items() if target == name] for name in options}
    for name, kind in options.items():
        spellings = [f"--{name}", *also[name]]
        if kind in ("switch", "bool"):
            action = "store_true" if kind == "switch" else argparse.BooleanOptionalAction
            parser.add_argument(*spellings, dest=name, action=action, default=argparse.SUPPRESS)
        else:
            more = {"list": {"nargs": "+"}, "text?": {"nargs": "?", "const": True}}.get(kind, {})
            kinds = {"int": int, "float": float}
            parser.add_argument(*spellings, dest=name, type=kinds.get(kind, str), default=argparse.SUPPRESS, **more)
    return parser


COMMON = ["chunked-prefill-size", "max-running-requests", "enable-mixed-chunk", "tp-size", "mem-fraction-static",
          "lora-paths", "lora-strict-loading", "model-path", "served-model-name", "page-size"]  # fmt: skip
WORDS = ["1", "-1", "8", "2048", "0.5", "x", "a,b", "8k", "true"]


@settings(max_examples=60)
@given(data=st.data())
def test_the_grammar_agrees_with_argparse(data):
    grammar_agrees_with_argparse(data)


@pytest.mark.slow
@settings(max_examples=1000)
@given(data=st.data())
def test_the_grammar_agrees_with_argparse_on_many_lines(data):
    grammar_agrees_with_argparse(data)


def grammar_agrees_with_argparse(data):
    found = table("sglang")
    rules = sglang_grammar(found)
    words = []
    for _ in range(data.draw(st.integers(1, 4))):
        flag = f"--{data.draw(st.sampled_from(COMMON))}"
        flag = flag[: data.draw(st.integers(max(4, len(flag) - 6), len(flag)))]
        values = data.draw(st.lists(st.sampled_from(WORDS), max_size=2))
        words += [f"{flag}={values[0]}", *values[1:]] if values and data.draw(st.booleans()) else [flag, *values]
    ours = parse(words, rules)
    try:
        theirs, rest = oracle(rules.options, rules.aliases).parse_known_args(words)
    except (argparse.ArgumentError, ValueError):
        assert ours.refusals
        return
    assert {name.replace("-", "_"): value for name, value in vars(theirs).items()} == {
        name: list(each.value) if isinstance(each.value, tuple) else each.value for name, each in ours.given.items()
    }
    assert bool(rest) == bool(ours.unknown or ours.positional)
    assert not ours.refusals


def test_requests_of_sglang_with_speculation():
    line = f"sglang serve --model {MODEL} --tp 8 --dp 8 --enable-dp-attention --speculative-algorithm EAGLE"
    assert reading(line, "b200").max_num_seqs == 48 // 8
    assert reading(line.replace("--speculative-algorithm EAGLE", "--max-running-requests 64"), "b200").max_num_seqs == 8


def test_the_reserve_of_sglang():
    """server_args.py 0.5.6: 512 + 1.5 * 8192 + 2 * 512 + 1024 MiB, and 512 * 8 * 4.5 more with attention ranks."""
    memory = load_hardware("h100-sxm").record.memory / 2**20
    plain = reading(f"sglang serve --model {MODEL} --tp 8", version="0.5.6")
    assert plain.memory_fraction == round(1 - (512 + 1.5 * 8192 + 1024 + 1024) / memory, 3)
    ranks = reading(f"sglang serve --model {MODEL} --tp 8 --dp 8 --enable-dp-attention", version="0.5.6")
    assert ranks.memory_fraction == round(1 - (512 + 1.5 * 8192 + 1024 + 1024 + 512 * 8 * 4.5) / memory, 3)
    whole = reading(f"sglang serve --model {MODEL} --tp 8 --chunked-prefill-size -1", version="0.5.6")
    assert whole.memory_fraction == round(1 - (512 + 1.5 * 16384 + 1024 + 1024) / memory, 3)


SPECULATION = [  # version, method, drafts -> scheduled budget, chunk alone, chunk beside 64 decodes of 8192
    ("0.33.0", "dflash", 8, 8192, 8192, 8192 - 64 * 9), ("0.24.0", "dflash", 8, 8192 - 7 * 64, 8192 - 7 * 64, None),
    ("0.30.0", "dflash", 8, 8192, 8184, 8184 - 64 * 17), ("0.33.0", "draft_model", 3, 8192, 8191, 8191 - 64 * 5),
    ("0.33.0", "mtp", 3, 8192, 8192, 8192 - 64 * 4), ("0.16.0", "draft_model", 3, 8192, 8192, 8192 - 64 * 4),
]  # fmt: skip


@pytest.mark.parametrize(("version", "method", "drafts", "budget", "chunk", "full"), SPECULATION)
def test_slots_of_each_method(version, method, drafts, budget, chunk, full):
    config = f'{{"method":"{method}","num_speculative_tokens":{drafts}}}'
    line = f"vllm serve M --max-num-batched-tokens 8192 --max-num-seqs 64 --speculative-config {config}"
    found = reading(line, version=version)
    assert (found.budget, found.chunk) == (budget, chunk)
    assert full is None or found.chunk_full == full


def test_command_lines_as_they_are_written():
    for line in (
        ["bash", "-c", f"VLLM_USE_V1=1 exec vllm serve {MODEL} --max-num-seqs 64 | tee log"],
        [f"vllm serve {MODEL} --max-num-seqs 64"],
        ["docker", "run", "--gpus", "all", "vllm/vllm-openai:v0.24.0", "--model", MODEL, "--max-num-seqs", "64"],
        ["vllm", "--model", MODEL, "--max-num-seqs", "64"],
        ["vllm/vllm-openai:latest", MODEL, "--max-num-seqs", "64"],
        ["cd", "/opt/vllm", "&&", "vllm", "serve", MODEL, "--max-num-seqs", "64", "&&", "echo", "done"],
    ):
        found = inspect(line, "h200-sxm")
        assert found.reading.max_num_seqs == 64
        assert not found.reading.refusals
    assert inspect(["vllm/vllm-openai:v0.24.0", "--model", MODEL], "b200").reading.table.version == "0.24.0"
    with pytest.raises(ChunkcalcError, match="does not start a server"):
        inspect(["vllm", "bench", "serve"], "h200-sxm")


def test_a_cache_set_by_hand_must_fit():
    for flag in ("--kv-cache-memory-bytes 500G", "--num-gpu-blocks-override 100000000"):
        found = inspect([*f"vllm serve {MODEL} --max-model-len 8192".split(), *flag.split()], "h100-sxm")
        assert any("is more than" in refusal for refusal in found.reading.refusals)
        assert found.kv_tokens * 131_072 < 80e9
    most = inspect(f"vllm serve {MODEL} --cpu-offload-gb 1000".split(), "h100-sxm")
    assert most.kv_tokens * 131_072 < 80e9


def test_what_is_not_modelled_is_noted_not_refused():
    for line, sentence in (
        ("vllm serve deepseek-ai/DeepSeek-R1 --data-parallel-size 16 --enable-expert-parallel", "no memory figures"),
        (f"vllm serve {MODEL} --quantization torchao", "is not modelled"),
        (f"vllm serve {MODEL} --long-prefill-token-threshold 1024", "at most 1,024 tokens of a step"),
        (f"vllm serve {MODEL} --prefill-schedule-interval 4", "every 4 steps only"),
        (f"vllm serve {MODEL} --enable-lora --max-model-len 8192", "LoRA adapters"),
        (f"sglang serve --model {MODEL} --speculative-algorithm EAGLE3", "chooses the number of draft tokens"),
    ):
        found = inspect(line.split(), "h200-sxm")
        assert any(sentence in note for note in found.notes)
        assert not found.reading.refusals
    longer = inspect(["VLLM_ALLOW_LONG_MAX_MODEL_LEN=1", *f"vllm serve {MODEL} --max-model-len 256K".split()], "b200")
    assert not longer.reading.refusals


LOGGED = [  # command, GPU, version -> tokens of the KV cache in the engine's own log
    # vllm PR 12569
    ("vllm serve neuralmagic/Meta-Llama-3.1-70B-Instruct-quantized.w8a8 --max-model-len 2048 "
     "--gpu-memory-utilization 0.98", "h100-sxm", "0.8.0", 22_096),
    # vllm issue 10517: whole prompts, so the context sets the activations
    ("vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 20000", "rtx-3090", "0.6.6", 31_232),
    ("vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 29000", "rtx-3090", "0.6.6", 23_648),
    # vllm issue 13061: 8.69 GiB per GPU in the worker's log (its other GPU had less)
    ("vllm serve deepseek-ai/DeepSeek-R1-Distill-Qwen-14B --tensor-parallel-size 2 --gpu-memory-utilization 0.98 "
     "--enable-chunked-prefill true", "rtx-4090", "0.7.3", 94_918),
    # vllm issue 21348
    ("sglang serve --model Qwen/Qwen3-235B-A22B-FP8 --tp 4 --mem-fraction-static 0.93", "h100-sxm", "0.4.9", 367_404),
]  # fmt: skip


@pytest.mark.parametrize(("line", "gpu", "version", "tokens"), LOGGED)
def test_the_cache_is_as_large_as_engines_log(line, gpu, version, tokens):
    assert inspect(line.split(), gpu, version).kv_tokens == pytest.approx(tokens, rel=0.06)


ATOM = "python3 -m atom.entrypoints.openai_server --model deepseek-ai/DeepSeek-R1"


def atom(flags="", version="0.1.7"):
    return reading(f"{ATOM} {flags}", gpu="mi355x", version=version)


def test_atom_runs_prompts_or_decodes():
    """atom/config.py and scheduler.py, ROCm/ATOM: defaults, and prompts first in steps of their own."""
    found = atom("-tp 8 --kv_cache_dtype fp8")
    assert (found.budget, found.chunk, found.chunk_full, found.max_num_seqs) == (16384, 16384, 16384, 512)
    assert found.composition == "prefill_first"
    assert (found.parallelism.tp, found.kv, found.memory_fraction) == (8, "fp8", 0.9)
    assert not found.refusals
    assert not found.differences


def test_atom_before_chunks_holds_up_long_prompts():
    found = atom("--kv_cache_dtype fp8", version="0.1.2")
    assert [remark.rule for remark in found.differences] == ["E12"]
    assert "holds up all behind it" in found.differences[0]


@pytest.mark.parametrize(
    ("flags", "version", "sentence"),
    [
        ("--kv-cache-dtype fp8", "0.1.6", "--kv-cache-dtype is not a flag"),
        ("--kv-cache-dtype fp8", "0.1.7", None),
        ("--kv_cache_dtype int8", "0.1.7", "choose from bf16, fp8"),
        ("-tp 16", "0.1.7", "at most 8"),
        ("--long-prefill-token-threshold 2048", "0.1.5", "is not a flag"),
        ("--long-prefill-token-threshold 8", "0.1.7", "between the block of 16"),
        ("-pp 2 -dp 2", "0.1.7", "do not go with data parallelism"),
        ("--enable-chunked-prefil", "0.1.7", None),
    ],
)
def test_what_atom_refuses(flags, version, sentence):
    found = atom(flags, version)
    assert (not found.refusals) == (sentence is None)
    if sentence:
        assert any(sentence in remark for remark in found.refusals)


def test_atom_spreads_attention_over_ranks():
    found = atom("-tp 4 -dp 2 --enable-dp-attention --enable-expert-parallel --max-num-batched-tokens 4096")
    assert (found.parallelism.tp, found.parallelism.dp, found.parallelism.ep) == (1, 8, 8)
    assert found.chunk == 4096
    assert atom("--long-prefill-token-threshold 2048").chunk == 2048
    assert atom("--method mtp --num-speculative-tokens 3 --max-num-batched-tokens 1024").max_num_seqs == 256


def test_every_engine_is_complete():
    """A reader, two tables and overheads for every engine of the list."""
    for name in ENGINE_NAMES:
        assert dialect(name).title
        assert prototype(name).name == name
        assert name in load_hardware("h100-sxm").record.overheads
        assert name in load_hardware("h100-sxm").record.bands
        assert locate([*dialect(name).server, "M"]).engine == name


OTHERS = defaultdict(  # flags of the same name that belong to other programs: KServe's runtime, Dynamo's workers
    set, {"kserve.py": {"--backend"}, "launches.py": {"--enable-multimodal", "--expert-parallel-size"}}
)


def test_flags_of_engines_stand_in_their_folder():
    """No file outside engines/ names a flag of an engine; those that are options of chunkcalc too are its own."""
    own = set(re.findall(r"`(--[a-z][a-z0-9-]+)", (ROOT.parent / "docs" / "commands.md").read_text()))
    theirs = {f"--{flag}" for name in ENGINE_NAMES for flag in table(name).options()} | {
        alias for name in ENGINE_NAMES for alias in table(name).aliases() if alias.startswith("--")
    }
    named = {}
    for path in sorted(ROOT.rglob("*.py")):
        if "engines" not in path.relative_to(ROOT).parts:
            flags = set(re.findall(r"--[a-z][a-z0-9_-]+[a-z0-9]", path.read_text())) & theirs - own - OTHERS[path.name]
            if flags:
                named[path.relative_to(ROOT).as_posix()] = sorted(flags)
    assert named == {}
