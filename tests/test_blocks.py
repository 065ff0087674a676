"""How vLLM lays caches of several kinds of layers out, against what it logged when it started.

tests/start_up_logs.csv holds public start-up logs, each with its source.
"""

import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkcalc.answer.inspection import inspect
from chunkcalc.catalog.lookup import load_model, models
from chunkcalc.engines.blocks import layout
from chunkcalc.work.counts import gpu_weight_bytes
from tests.manifest_files import check_text

GIB = 2**30
LOGS = list(csv.DictReader((Path(__file__).parent / "start_up_logs.csv").read_text(encoding="utf-8").splitlines()))
# Row of the table, model, KV format, tp, drafts of its own layer, prefix caching; what the log gives is in the row.
EXACT = [
    (0, "nvidia/NVIDIA-Nemotron-3-Nano-4B-BF16", "fp8", 1, 0, False),
    (1, "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4", "fp8", 1, 3, False),
    (2, "Qwen/Qwen3.6-35B-A3B", "bf16", 1, 0, False),
    (34, "Qwen3.8-27B-FP8", "fp8", 2, 0, True),
    (37, "qwen3.6-35b-a3b-nvfp4", "fp8", 1, 0, True),
    (60, "google/gemma-4-12B-it", "bf16", 1, 0, False),
    (61, "google/gemma-4-26B-A4B-it", "bf16", 1, 0, False),
    (62, "google/gemma-4-26B-A4B-it", "bf16", 1, 0, False),
    (67, "cyankiwi/Kimi-Linear-48B-A3B-Instruct-AWQ-4bit", "bf16", 2, 0, False),
]
NEW = (34, 37, 60)  # logs of versions that print requests times context


@pytest.mark.parametrize(("row", "name", "kv", "tp", "drafts", "caching"), EXACT, ids=[str(case[0]) for case in EXACT])
def test_tokens_and_requests_are_those_of_the_log(row, name, kv, tp, drafts, caching):
    log = LOGS[row]
    pool, length = float(log["available_kv_gib"]) * GIB, int(log["max_model_len"])
    plan = layout(load_model(name).record, kv, tp, drafts)
    at_once = plan.concurrency(pool, length, int(log["max_num_batched_tokens"]), 1 + drafts + caching)
    assert at_once == pytest.approx(float(log["max_concurrency"]), rel=0.006)
    tokens = at_once * length if row in NEW else plan.counted(pool)
    assert tokens == pytest.approx(int(log["kv_tokens"]), rel=0.01)


def test_the_block_of_attention_is_the_one_that_is_logged():
    for name, kv, drafts, block in (
        ("Qwen/Qwen3.6-35B-A3B", "bf16", 0, 1056),
        ("nvidia/NVIDIA-Nemotron-3-Nano-4B-BF16", "fp8", 0, 1952),
        ("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4", "fp8", 3, 8432),
    ):
        assert layout(load_model(name).record, kv, 1, drafts).largest() == block


def test_one_kind_of_layers_needs_no_layout():
    assert layout(load_model("llama-3.1-8b").record, "bf16", 1) is None


@given(
    st.sampled_from([m for m in models() if layout(m, "bf16", 1) is not None]), st.integers(1, 64), st.integers(1, 9)
)
def test_more_memory_and_shorter_contexts_hold_more(model, gib, part):
    plan = layout(model, "bf16", 1)
    longest = model.max_position
    held = [plan.concurrency(gib * GIB, tokens, 2048) for tokens in (max(1, longest // part), longest)]
    assert held[0] >= held[1] >= 0
    assert plan.concurrency(2 * gib * GIB, longest, 2048) >= plan.concurrency(gib * GIB, longest, 2048)
    assert plan.blocks(gib * GIB) * plan.page_bytes * plan.size <= gib * GIB


@pytest.mark.parametrize(
    ("words", "version", "says"),
    [
        (["Qwen/Qwen3.6-27B", "--gpu-memory-utilization", "0.95"], "0.28.0", "blocks of recurrent state"),
        (["Qwen/Qwen3.6-27B", "--gpu-memory-utilization", "0.90"], "0.28.0", "blocks of recurrent state"),
        (["Qwen/Qwen3.6-27B", "--max-num-seqs", "128", "--max-model-len", "32768"], "0.28.0", ""),
        (["google/gemma-4-26B-A4B-it", "--max-num-batched-tokens", "512"], "0.24.0", "an image of"),
        (["google/gemma-4-26B-A4B-it", "--max-num-batched-tokens", "4096"], "0.24.0", ""),
    ],
)
def test_what_a_model_asks_of_the_settings_is_refused_by_name(words, version, says):
    refused = "; ".join(inspect(["vllm", "serve", *words], "h100-sxm", version).reading.refusals)
    assert says in refused if says else not refused


def test_latent_attention_was_not_chunked_by_the_old_engine():
    reading = inspect(["vllm", "serve", "deepseek-ai/DeepSeek-V3", "-tp", "8"], "h200-sxm", "0.7.3").reading
    assert reading.values["enable_chunked_prefill"].value is False


def test_a_checkpoint_keeps_its_own_format():
    words = ["vllm", "serve", "nvidia/Llama-3.3-70B-Instruct-NVFP4", "--quantization", "modelopt"]
    seen = inspect(words, "b200")
    assert seen.deployment.precision.weights == "nvfp4"


def test_packed_weights_have_figures_where_their_arithmetic_is_missing():
    seen = inspect(["vllm", "serve", "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", "-tp", "2"], "a100-sxm4-80gb")
    assert seen.kv_tokens > 0 and not seen.reading.refusals


def test_a_cache_that_is_8_bit_already_is_not_halved():
    tokens = [
        inspect(["vllm", "serve", "deepseek-ai/DeepSeek-V4-Flash", "-tp", "8", *more], "h200-sxm").kv_tokens
        for more in ([], ["--kv-cache-dtype", "fp8"])
    ]
    assert tokens[0] == tokens[1]


def test_slices_of_mxfp4_experts_are_filled_up():
    """Logs: 13.47 and 64.38 GiB on one H100."""
    for row in (3, 4):
        seen = inspect(["vllm", "serve", LOGS[row]["model"], "--max-model-len", "16000"], "h100-sxm")
        weights = gpu_weight_bytes(seen.model, seen.deployment.precision, seen.deployment.parallelism) / GIB
        assert weights == pytest.approx(float(LOGS[row]["weights_gib"]), rel=0.01)


def test_the_default_that_is_to_be_written_is_the_whole_budget():
    words = ["vllm", "serve", "Qwen/Qwen3-8B", "--max-num-seqs", "256", "--speculative-config",
             '{"method": "draft_model", "model": "x", "num_speculative_tokens": 5}']  # fmt: skip
    report = check_text(" ".join([*words[:-1], f"'{words[-1]}'"]) + "\n", gpu="l40s", **{"engine-version": "0.24.0"})
    fixes = [f.fix.value for f in report.findings if f.rule == "CC304"]
    assert fixes == ["2048"]


def test_a_start_up_log_stands_beside_what_is_predicted(tmp_path, run_cli):
    (tmp_path / "start.log").write_text(
        "INFO 01-01 Initializing a V1 LLM engine (v0.19.0) with config: model='Qwen/Qwen3.6-35B-A3B'\n"
        "INFO 01-01 [kv_cache_utils.py:1319] GPU KV cache size: 623,040 tokens\n"
    )
    words = ("engine", "--gpu", "gb10", "--log", "start.log", "--", "vllm", "serve", "Qwen/Qwen3.6-35B-A3B",
             "--gpu-memory-utilization", "0.95", "--max-num-batched-tokens", "2048", "--max-model-len",
             "131072")  # fmt: skip
    done = run_cli(*words, folder=tmp_path)
    assert "vllm 0.19.0" in done.stdout and "KV cache of 623,040 tokens, predicted" in done.stdout
    (tmp_path / "start.log").write_text("hello\n")
    done = run_cli(*words, folder=tmp_path)
    assert done.returncode == 2 and "no log of an engine's start" in done.stderr
