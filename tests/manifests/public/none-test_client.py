"""Unit tests; no engine is started.

The real server runs elsewhere: `vllm serve Qwen/Qwen3-8B --max-num-batched-tokens 8192`.
"""
from unittest.mock import MagicMock, patch

from openai import OpenAI

COMMAND = "vllm serve Qwen/Qwen3-8B"
FLAGS = {"max_num_batched_tokens": 8192, "tensor_parallel_size": 2}


def test_prompt():
    with patch("vllm.LLM") as fake:
        fake.return_value.generate.return_value = [MagicMock(outputs=[MagicMock(text="ok")])]
        from app.offline import label

        assert label(["x"]) == ["ok"]


def test_flags_are_documented(docs):
    assert COMMAND in docs and all(name.replace("_", "-") in docs for name in FLAGS)


def test_remote():
    client = OpenAI(base_url="http://localhost:8000/v1", api_key="EMPTY")
    assert client.base_url.port == 8000
