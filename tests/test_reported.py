"""Cases that people reported, rebuilt as small inputs of our own, and what the gate answers."""

import json
import re
from pathlib import Path

import pytest

from chunkcalc.gate.catalogue import rules
from chunkcalc.report.gate.catalogue import documentation
from tests.manifest_files import check_text

ROOT = Path(__file__).parent.parent
KTRANSFER = '{"kv_connector": "NixlConnector", "kv_role": "%s"}'

CASES = {
    # verl 259: the engine refuses a budget below the context where chunking is off; two ways out.
    "verl-259": (
        "vllm serve Qwen/Qwen3-8B --no-enable-chunked-prefill --max-num-batched-tokens 8192 --max-model-len 9216",
        {"gpu": "h100"}, "CC101", "error", r"budget of 8,192 is below the context of 9,216.*chunked prefill on",
    ),
    # vllm 7604: offline, no time per token: a larger chunk reads the cache of the prompt less often.
    "vllm-7604": (
        "vllm serve meta-llama/Llama-3.1-70B-Instruct -tp 8 --max-num-batched-tokens 2048",
        {"gpu": "h100", "prompt": "40000", "output": "256", "concurrency": "8"}, "CC302", "warning",
        r"process prompts \d+ % slower than [\d,]+",
    ),
    # vllm 17885: on an A100 with tp 2 the activations of the budget take the room of requests.
    "vllm-17885-tp2": (
        "docker run --gpus 2 vllm/vllm-openai:v0.8.5 --model meta-llama/Llama-3.1-70B-Instruct -tp 2 "
        "--max-model-len 2048 --max-num-batched-tokens 8192",
        {"gpu": "a100", "prompt": "1024", "output": "512", "concurrency": "64"}, "CC306", "warning",
        r"leave KV cache for \d+ requests, 64 are wanted; fix: --max-num-batched-tokens 4096 leaves room for 2\d",
    ),
    # vllm 50708: 15 draft slots for each of 256 requests are more than the budget.
    "vllm-50708": (
        "vllm serve Qwen/Qwen3-8B --max-num-seqs 256 --max-num-batched-tokens 2048 --speculative-config "
        '\'{"method": "dflash", "model": "z/dflash", "num_speculative_tokens": 16}\'',
        {"gpu": "gb10", "engine_version": "0.26.0"}, "CC110", "error",
        r"15 draft slots for each of 256 requests leave -1,792 of the budget.*--max-num-seqs or num_speculative_tokens",
    ),
    # recipes 441: an image of gemma-4 does not fit the default of an A100.
    "recipes-441": (
        "docker run --gpus 1 vllm/vllm-openai:v0.28.0 --model google/gemma-4-26B-A4B-it",
        {"gpu": "a100"}, "CC109", "warning", r"2,496 tokens and must enter a step whole: the budget is 2,048",
    ),
    # sglang 34623: a long prompt stops every stream for its whole length.
    "sglang-34623": (
        "sglang serve --model-path Qwen/Qwen3-32B --tp-size 8 --chunked-prefill-size 4096",
        {"gpu": "h200", "prompt": "30000", "output": "500", "concurrency": "8", "ttft": "10s", "tpot": "40ms",
         "itl": "200ms"}, "CC303", "error", r"every stream stops for [\d.]+ m?s",
    ),
    # sglang-omni 789: decodes wait for prompts: mix them.
    "sglang-omni-789": (
        "sglang serve --model-path Qwen/Qwen3-8B --chunked-prefill-size 8192",
        {"gpu": "h100", "prompt": "2000", "output": "400", "concurrency": "24", "ttft": "2s", "tpot": "50ms"}, "CC303",
        "error", r"--enable-mixed-chunk with --chunked-prefill-size \d+ gives TTFT",
    ),
    # sglang 5663: the chunk is divided by the attention ranks.
    "sglang-5663": (
        "sglang serve --model-path deepseek-ai/DeepSeek-R1 --tp-size 16 --dp-size 4 --enable-dp-attention "
        "--chunked-prefill-size 32768 --nnodes 2 --node-rank 0",
        {"gpu": "h200"}, "CC106", "note", r"a chunk of 32,768 is divided by 4 attention ranks: 8,192 each",
    ),
    # TensorRT-LLM 9277: without chunking a prompt above max_num_tokens is refused.
    "trtllm-9277": (
        "trtllm-serve meta-llama/Llama-3.1-8B-Instruct --max_num_tokens 8192 --max_seq_len 16384",
        {"gpu": "h100", "prompt": "9351", "output": "100"}, "CC112", "error",
        r"a prompt of 9,351 tokens is refused at max_num_tokens 8,192",
    ),
    # vllm 43252: --config= is ignored.
    "vllm-43252": (
        "vllm serve Qwen/Qwen3-8B --config=/etc/vllm.yaml", {"gpu": "h100"}, "CC104", "error",
        r"is ignored: only two words, --config /etc/vllm.yaml",
    ),
    # DeepEP 165, sglang 28985: the low-latency mode takes 128 tokens per rank.
    "sglang-28985": (
        "sglang serve --model-path deepseek-ai/DeepSeek-R1 --tp-size 8 --moe-a2a-backend deepep "
        "--deepep-mode low_latency --max-running-requests 256 --chunked-prefill-size 128",
        {"gpu": "h200"}, "CC111", "error", r"256 decode tokens per rank exceed the 128",
    ),
    # vllm 23144: an 8B model with 1,024 in and 6 out needs no separate workers.
    "vllm-23144": (
        f"vllm serve meta-llama/Llama-3.1-8B-Instruct --kv-transfer-config '{KTRANSFER % 'kv_producer'}' &\n"
        f"vllm serve meta-llama/Llama-3.1-8B-Instruct --kv-transfer-config '{KTRANSFER % 'kv_consumer'}'",
        {"gpu": "h100", "prompt": "1024", "output": "6", "concurrency": "2", "ttft": "1s", "tpot": "200ms"}, "CC307",
        "warning", r"one worker like this decode worker meets both limits by itself",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_reported_cases_get_their_answer(name):
    script, settings, wanted, level, words = CASES[name]
    found = [finding for finding in check_text(script + "\n", **settings).findings if finding.rule == wanted]
    said = [f"{f.level} {f.message}; fix: {f.fix.text if f.fix else ''}" for f in found]
    assert any(line.startswith(level) and re.search(words, line) for line in said), said


def test_on_an_h100_the_image_fits():
    assert not check_text(
        "docker run --gpus 1 vllm/vllm-openai:v0.28.0 --model google/gemma-4-26B-A4B-it\n", gpu="h100"
    ).counting() or all(
        finding.rule != "CC109"
        for finding in check_text("vllm serve google/gemma-4-26B-A4B-it\n", gpu="h100").counting()
    )


def test_where_tp_is_four_the_budget_costs_no_requests():
    line = CASES["vllm-17885-tp2"][0].replace("-tp 2", "-tp 4").replace("--gpus 2", "--gpus 4")
    assert "CC306" not in [f.rule for f in check_text(line + "\n", **CASES["vllm-17885-tp2"][1]).counting()]


def test_a_long_context_is_explained_by_its_steps():
    """vllm 18681: how does a context of 128K fit a budget of 32K? In four steps."""
    report = check_text(
        "vllm serve deepseek-ai/DeepSeek-R1 -tp 8 -pp 2 --max-num-batched-tokens 32768 --max-model-len 131072\n",
        gpu="h200", prompt="131000", output="60", concurrency="1", ttft="60s", tpot="10s",
    )  # fmt: skip
    (each,) = report.deployments
    assert -(-each.answer.prompt_tokens // each.answer.chunk) == 4


@pytest.mark.parametrize("path", sorted((ROOT / "examples" / "good").glob("*")), ids=lambda path: path.name)
def test_good_examples_pass(path, run_cli):
    done = run_cli("check", str(path), "--fail-on", "warning", "--allow-empty")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("llama-8b.yaml", {"CC105", "CC301"}), ("compose.yaml", {"CC303"}),
        ("serve.sh", {"CC113", "CC114", "CC126", "CC304"}),
    ],
)  # fmt: skip
def test_bad_examples_fail(name, wanted, run_cli):
    done = run_cli("check", str(ROOT / "examples" / "bad" / name), "--json")
    assert done.returncode == 1
    assert wanted <= {finding["rule"] for finding in json.loads(done.stdout)["findings"]}


def test_the_rules_page_is_the_catalogue():
    page = (ROOT / "docs" / "gate.md").read_text(encoding="utf-8")
    assert documentation(rules()) in page
