"""Steps that vLLM runs from captured graphs: by its flags, and told by the flags of an answer."""

import pytest

from chunkcalc import solve
from chunkcalc.answer.inspection import inspect
from chunkcalc.engines.graphs import LARGEST, default
from chunkcalc.engines.tables import table
from tests.manifest_files import check_text

SERVE = "vllm serve meta-llama/Llama-3.1-8B-Instruct "


def captured(words, version="0.24.0"):
    return inspect((SERVE + words).split(), "h100-sxm", version).reading.captured


def test_graphs_reach_twice_the_decodes_that_may_run():
    assert captured("") == LARGEST
    assert captured("--max-num-seqs 256") == 512
    assert captured("--max-num-seqs 64") == 128
    assert captured("--max-num-seqs 64", "0.9.2") == 512, "older versions captured them all"
    assert default(table("vllm", "0.24.0"), 32, 3) == 256


@pytest.mark.parametrize(
    ("words", "tokens"),
    [
        ("--enforce-eager", 0),
        ("--max-cudagraph-capture-size 1024", 1024),
        ("--cudagraph-capture-sizes 1 2 4 96", 96),
        ('--compilation-config {"max_cudagraph_capture_size":256}', 256),
        ('--compilation-config {"cudagraph_capture_sizes":[1,2,80]}', 80),
        ('--compilation-config {"cudagraph_mode":"FULL_DECODE_ONLY"}', 0),
        ('--compilation-config {"cudagraph_mode":"PIECEWISE"}', 128),
    ],
)
def test_flags_decide_what_is_captured(words, tokens):
    assert captured("--max-num-seqs 64 " + words) == tokens


def test_the_deployment_of_a_command_line_has_its_graphs():
    found = inspect((SERVE + "--max-num-seqs 64").split(), "h100-sxm", "0.24.0")
    assert found.deployment.engine.captured == 128


ASKED = {"model": "llama-3.1-8b", "gpu": "h100-sxm", "prompt": 4000, "batch": 32, "ttft": 1.0, "tpot": 0.03}


@pytest.mark.parametrize(
    ("version", "option"),
    [(None, "--max-cudagraph-capture-size"), ("0.11.0", "--cuda-graph-sizes"), ("0.9.2", None)],
)
def test_an_answer_captures_what_it_counts_on(version, option):
    found = solve(**ASKED, engine_version=version, with_remedies=False)
    words = found.flags["vllm"]
    assert ("capture" in " ".join(words) or "graph" in " ".join(words)) == (option is not None)
    if option:
        assert words[words.index(option) + 1] == str(min(found.budget, LARGEST))
    read = inspect([*SERVE.split(), *words], "h100-sxm", version).reading
    assert read.captured >= min(found.budget, LARGEST)


def test_many_requests_need_no_option():
    found = solve(**{**ASKED, "batch": 300, "prompt": 300, "tpot": 0.2}, with_remedies=False)
    assert "--max-cudagraph-capture-size" not in found.flags["vllm"]


def test_the_gate_charges_the_host_for_steps_that_are_not_captured():
    load = {"gpu": "h100-sxm", "prompt": "4000", "output": "500", "concurrency": "32", "ttft": "2s", "tpot": "50ms"}
    base = SERVE + "--max-model-len 8192 --max-num-seqs 32 --max-num-batched-tokens 512"
    few, told, eager = (
        check_text(line + "\n", **load).deployments[0].answer.expected
        for line in (base, base + " --max-cudagraph-capture-size 512", base + " --enforce-eager")
    )
    assert told.step_s < few.step_s == eager.step_s
    assert told.decode_step_s == few.decode_step_s < eager.decode_step_s


@pytest.mark.parametrize(
    ("line", "eager"),
    [
        (SERVE, False), (SERVE + "--enforce-eager", True),
        (SERVE + '--compilation-config {"cudagraph_mode":"none"}', True),
        (SERVE + '--compilation-config {"cudagraph_mode":"FULL_DECODE_ONLY"}', False),
        ("sglang serve --model-path meta-llama/Llama-3.1-8B-Instruct", False),
        ("sglang serve --model-path meta-llama/Llama-3.1-8B-Instruct --disable-cuda-graph", True),
    ],
)  # fmt: skip
def test_flags_leave_decode_steps_to_the_host(line, eager):
    found = inspect(line.split(), "h100-sxm")
    assert found.reading.eager == found.deployment.engine.eager == eager
