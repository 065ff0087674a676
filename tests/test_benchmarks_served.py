"""The judges of served tails and gaps: a run's requests, coarse steps, quantiles, sweeps of the chunk."""

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from chunkcalc.errors import ChunkcalcError
from chunkcalc.measurements import Run
from chunkcalc.scoring.healthy import Exclusion
from chunkcalc.scoring.served import Servers

ROOT = Path(__file__).parent.parent
RUN = Run(
    row=1, path="a.csv", source="test", engine="vllm", model="llama-3.1-8b", gpu="h100-sxm", prompt_tokens=900.0,
    output_tokens=90.0, concurrency=8, requests=64, tpot=0.01, itl_p50=0.009, itl_p99=0.03, least_ratio=0.8,
    budget=2048,
)  # fmt: skip


@pytest.fixture(scope="module")
def tools():
    """The scripts, imported as they import each other."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        names = ("served_replay", "longest_step", "chunk_sweeps", "tails")
        yield SimpleNamespace(**{name: importlib.import_module(name) for name in names})
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))


@pytest.fixture(scope="module")
def served():
    return Servers().served(RUN)


def test_requests_have_the_lengths_of_their_harness(tools, served):
    requests = tools.served_replay.requests_of(served)
    assert len(requests) == 64
    assert all(800 <= each.prompt <= 1000 and 80 <= each.output <= 100 for each in requests)
    assert len({each.prompt for each in requests}) > 20
    assert len(tools.served_replay.requests_of(served, 10)) == 10


def test_a_replay_serves_every_request_by_coarse_steps(tools, served):
    exact = tools.served_replay.replayed(served)
    coarse = tools.served_replay.replayed(served, tools.served_replay.Coarse(served.timer))
    assert all(each.finished for each in coarse.served)
    for q in (0.5, 0.99):
        assert tools.served_replay.quantile(coarse, q) == pytest.approx(
            tools.served_replay.quantile(exact, q), rel=0.03
        )
    assert tools.served_replay.quantile(exact, 0.5) < tools.served_replay.quantile(exact, 1.0)


def test_a_host_that_is_never_waited_for_leaves_the_gpu(tools, served):
    bare = tools.served_replay.hosting(served.timer, 0.0)
    assert bare.expected(0, 0, 8.0, 900.0) == served.timer.expected(0, 0, 8.0, 900.0)
    assert bare.expected(2048, 0, 8.0, 900.0) == pytest.approx(served.timer.gpu(2048, 0, 8.0, 900.0))
    twice = tools.served_replay.hosting(served.timer, 2.0)
    assert twice.host(2048, 8.0) == pytest.approx(2 * served.timer.host(2048, 8.0))
    assert twice.host(2048, 8.0) > 0


def test_points_count_a_load_once_and_prompt_steps_grow_with_the_host(tools):
    found, lost = tools.longest_step.points([RUN, RUN])
    assert [(each.rows, each.kind) for each in found] == [(2, "prompt")]
    assert not lost
    steps = found[0].hosted
    assert list(steps) == sorted(steps)
    assert found[0].bare == steps[0] < steps[-1]
    assert found[0].ours == steps[tools.longest_step.HOSTS.index(1.0)]


def test_rows_without_gaps_to_judge_are_told(tools):
    said = {1: Exclusion(1, "more than the prompts of all users take: waiting", "both")}
    reason = tools.longest_step.reason
    assert reason(RUN, {}) is None
    assert reason(RUN, said) == said[1].reason
    waits = Run(**{name: getattr(RUN, name) for name in RUN.__slots__} | {"note": "all requests at once"})
    assert reason(waits, said) is None


def test_sweeps_are_compared_with_their_first_chunk(tools, tmp_path):
    (tmp_path / "sweeps").mkdir()
    head = "source,kind,engine,model,gpu,tp,isl,osl,load,chunk,ttft_ms,tpot_or_itl_ms,itl_p99_or_max_ms,other\n"
    row = "a,prefill,vLLM branch,Qwen3-30B-A3B-FP8,4xH100 80GB,DCP4,32768,1,single,{},{},,,\n"
    text = head + row.format(8192, 800) + row.format(32768, 600) + "b,serve,mlx-vlm,x,y,1,1k,1,single,256,9,,,\n"
    (tmp_path / "sweeps" / "chunk_sweeps.csv").write_text(text)
    lines = tools.chunk_sweeps.table(tmp_path).splitlines()
    assert "| 32768 | TTFT | 600 ms |" in lines[3]
    assert "| -25.0 % | -" in lines[3]
    assert any("Apple silicon" in line for line in lines)


def test_an_unknown_engine_is_no_server():
    with pytest.raises(ChunkcalcError, match="not modelled"):
        Servers().served(Run(**{name: getattr(RUN, name) for name in RUN.__slots__} | {"engine": "mlc"}))
