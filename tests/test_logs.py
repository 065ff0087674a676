"""The steps that engines log themselves, and what their start-up logs say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkcalc.errors import ChunkcalcError
from chunkcalc.measurements import parse

FACTS = {"gpu": "h100-sxm", "model": "llama-3.1-8b"}
# Lines of vLLM 0.32.0 as it wrote them, and of an older one.
VLLM = """\
(APIServer pid=1) INFO 11-30 23:18:13 [api_utils.py:286] non-default args: {'model_tag': 'tiny', 'port': 8123, \
'max_num_batched_tokens': 512, 'max_num_seqs': 16, 'tensor_parallel_size': 2}
(EngineCore pid=1) INFO 11-30 23:18:21 [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: model='tiny'
(EngineCore pid=1) INFO 11-30 23:19:27 [kv_cache_utils.py:2327] CPU KV cache size: 65,536 tokens, Maximum concurrency
(APIServer pid=1) INFO 11-30 23:19:50 [loggers.py:199] Engine 000: Iteration(0): 1 context requests, 512 context \
tokens, 0 generation requests, 0 generation tokens, iteration elapsed time: 547.98 ms, CPU KV cache usage: 0.8%
(APIServer pid=1) INFO 11-30 23:19:52 [loggers.py:199] Engine 000: Iteration(4): 0 context requests, 0 context \
tokens, 2 generation requests, 2 generation tokens, iteration elapsed time: 21.85 ms, CPU KV cache usage: 3.1%
(APIServer pid=1) INFO 11-30 23:19:52 [loggers.py:199] Engine 000: Iteration(5): 1 context requests, 510 context \
tokens, 2 generation requests, 2 generation tokens, iteration elapsed time: 501.00 ms, CPU KV cache usage: 4.7%
(EngineCore_DP1 pid=9) INFO [core.py:9] Iteration(6) (dummy): 0 context requests, 0 context tokens, 1 generation \
requests, 1 generation tokens, iteration elapsed time: 3.00 ms
INFO [core.py:355] Iteration(7): 0 context requests, 0 context tokens, 3 generation requests, 3 generation tokens, \
iteration elapsed time: 22.50 ms
"""
TRTLLM = "\n".join(
    f"[08/19/2026-14:11:49] [TRT-LLM] [I] [_torch][RANK 0] iter = {i}, global_rank = 0, rank = 0, "
    f"num_scheduled_requests = 3, kv_cache_util = 0.112, currank_total_requests = 0/1, host_step_time = 4.08ms, "
    f"prev_device_step_time = {before}, timestamp = 2026-08-19 14:11:49, states = {{'num_ctx_requests': {r}, "
    f"'num_ctx_tokens': {c}, 'num_generation_tokens': {b}, 'cached_kv_tokens': {held}}}"
    for i, before, r, c, b, held in (
        (1, "N/A", 1, 2000, 0, 0), (2, "95.5ms", 1, 1000, 4, 8000), (3, "60.0ms", 0, 0, 4, 8004),
        (5, "7.5ms", 0, 0, 4, 9),
    )
)  # fmt: skip
SGLANG = """\
[2026-10-01 00:00:10] max_total_num_tokens=100000, chunked_prefill_size=8192
[2026-10-01 00:00:11] Prefill batch, #new-seq: 4, #new-token: 4000, #cached-token: 0, token usage: 0.00
[2026-10-01 00:00:12] Decode batch, #running-req: 4, #token: 4100, token usage: 0.04, cuda graph: True, \
gen throughput (token/s): 80.00, #queue-req: 0
[2026-10-01 00:00:13] Decode batch, #running-req: 4, #token: 4400, token usage: 0.04, cuda graph: True, \
gen throughput (token/s): 400.00, #queue-req: 0
[2026-10-01 00:00:14] Prefill batch, #new-seq: 1, #new-token: 1000, #cached-token: 0, token usage: 0.04
[2026-10-01 00:00:15] Decode batch, #running-req: 5, #token: 5600, token usage: 0.05, cuda graph: True, \
gen throughput (token/s): 100.00, #queue-req: 0
"""


def test_a_log_of_vllm():
    found = parse(VLLM, "vllm.log", FACTS)
    assert found.launch == {"budget": 512, "tp": 2, "max_num_seqs": 16, "engine_version": "0.32.0", "kv_tokens": 65_536}
    assert [(each.c, each.b, each.prompts, each.time) for each in found.steps] == [
        (512, 0, 1, 0.54798), (0, 2, 1, 0.02185), (510, 2, 1, 0.501), (0, 3, 1, 0.0225),
    ]  # fmt: skip
    assert {each.tp for each in found.steps} == {2}
    assert {each.engine_version for each in found.steps} == {"0.32.0"}
    decode, mixed = found.steps[1:3]
    assert decode.s == mixed.s == pytest.approx(0.031 * 65_536 / 2)
    assert mixed.p == pytest.approx(0.047 * 65_536 - 0.031 * 65_536 - 510, abs=1)


def test_without_the_size_of_the_cache_contexts_are_not_known():
    lines = "\n".join(line for line in VLLM.split("\n") if "cache size" not in line)
    assert {each.s for each in parse(lines, "vllm.log", FACTS).steps} == {0.0}
    given_size = parse(lines, "vllm.log", {**FACTS, "kv_tokens": 65_536})
    whole = parse(VLLM, "vllm.log", FACTS).steps
    assert [(each.c, each.s, each.p) for each in given_size.steps] == [(each.c, each.s, each.p) for each in whole]


def test_a_log_of_tensorrt_llm_has_the_time_of_a_step_on_the_next_line():
    found = parse(TRTLLM, "trt.log", FACTS)
    assert [(each.c, each.b, each.time) for each in found.steps] == [(2000, 0, 0.0955), (1000, 4, 0.06)]
    assert {each.engine for each in found.steps} == {"trtllm"}


def test_a_log_of_sglang_has_decode_steps_where_no_prompt_ran_between():
    (only,) = parse(SGLANG, "sglang.log", FACTS).steps
    assert (only.b, only.c, only.s, only.time) == (4, 0, 1100.0, 0.01)
    assert only.engine == "sglang"


def test_a_start_up_log_alone_says_what_it_says():
    found = parse("\n".join(VLLM.split("\n")[:3]), "start.log", {})
    assert found.steps == ()
    assert found.launch["kv_tokens"] == 65_536


@pytest.mark.parametrize("text", ["non-default args: {'port': 8123}\n", "non-default args: {((((\n"])
def test_a_log_without_steps_is_told_how_to_log_them(text):
    with pytest.raises(ChunkcalcError) as error:
        parse(text, "start.log", FACTS)
    assert "--enable-logging-iteration-details" in error.value.hint


def test_a_log_without_a_gpu_asks_for_it():
    with pytest.raises(ChunkcalcError, match="does not say the"):
        parse(VLLM, "vllm.log", {"model": "llama-3.1-8b"})


@given(st.integers(0, len(VLLM)), st.text(max_size=20))
def test_a_cut_or_damaged_log_gives_steps_or_one_sentence(at, noise):
    for text in (VLLM[:at], VLLM[:at] + noise + VLLM[at:]):
        try:
            parse(text, "vllm.log", FACTS)
        except ChunkcalcError as error:
            assert error.what
