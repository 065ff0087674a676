"""`check` and `engine` say the same of a command line, whatever stands on it."""

import random
import shlex
from pathlib import Path

import pytest

from chunkcalc.answer.inspection import inspect
from chunkcalc.gate.check import Options, check
from chunkcalc.gate.settings import Settings, parsed

MODELS = ("meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen3-30B-A3B", "openai/gpt-oss-20b", "deepseek-ai/DeepSeek-V3",
          "Qwen/Qwen3-Next-80B-A3B-Instruct", "google/gemma-3-27b-it")  # fmt: skip
GPUS = ("h100-sxm", "a100-sxm4-80gb", "l40s", "b200", "mi300x")
STARTS = {
    "vllm": ("vllm", "serve"), "sglang": ("python3", "-m", "sglang.launch_server", "--model-path"),
    "trtllm": ("trtllm-serve", "serve"),
}  # fmt: skip
FLAGS = {
    "vllm": {
        "--tensor-parallel-size": ("1", "2", "3", "8"), "--pipeline-parallel-size": ("1", "2"),
        "--max-model-len": ("8192", "131072", "500000", "auto"), "--max-num-batched-tokens": ("256", "8192", "65536"),
        "--max-num-seqs": ("8", "256", "4096"), "--gpu-memory-utilization": ("0.5", "0.95", "1.2"),
        "--kv-cache-dtype": ("fp8", "auto"), "--quantization": ("fp8", "awq"), "--block-size": ("7", "64"),
        "--dtype": ("float16", "foo"), "--no-enable-chunked-prefill": (), "--enforce-eager": (),
        "--max-num-bats": ("1",),
    },
    "sglang": {
        "--tp": ("1", "2", "8"), "--context-length": ("4096", "200000"), "--chunked-prefill-size": ("512", "8192"),
        "--mem-fraction-static": ("0.5", "0.97"), "--max-running-requests": ("1", "2048"), "--enable-mixed-chunk": (),
        "--kv-cache-dtype": ("fp8_e5m2", "auto"), "--page-size": ("16", "64"), "--max-total-tokens": ("10000",),
    },
    "trtllm": {
        "--tp_size": ("1", "2", "8"), "--max_batch_size": ("1", "512"), "--max_num_tokens": ("512", "8192"),
        "--max_seq_len": ("2048", "200000"), "--kv_cache_free_gpu_memory_fraction": ("0.5", "0.9"),
    },
}  # fmt: skip


def drawn(draw: random.Random) -> tuple[str, list[str]]:
    """A GPU and a command line."""
    engine = draw.choice(sorted(STARTS))
    words = [*STARTS[engine], draw.choice(MODELS)]
    for flag, values in FLAGS[engine].items():
        if draw.random() < 0.3:
            words += [flag, *([draw.choice(values)] if values else [])]
    return draw.choice(GPUS), words


@pytest.mark.parametrize("seed", range(40))
def test_check_and_engine_agree(tmp_path, seed):
    gpu, words = drawn(random.Random(seed))
    seen = inspect(words, gpu)
    path = Path(tmp_path, "start.sh")
    path.write_text(shlex.join(words) + "\n")
    settings = Settings(parsed({"gpu": gpu}, "cli", "cli"))
    (found,) = check(Options(paths=(str(path),), root=tmp_path, settings=settings), lambda: b"").deployments
    assert found.refused == bool(seen.reading.refusals), words
    if not found.refused:
        assert found.kv_tokens == seen.kv_tokens, words
        assert found.budget is None or found.budget.value == seen.reading.budget, words
