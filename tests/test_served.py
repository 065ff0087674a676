"""A measured run as the deployment that served it and the load it was under."""

from dataclasses import replace

import pytest

from chunkcalc.catalog.lookup import load_hardware
from chunkcalc.engines import FALLBACK_BUDGET
from chunkcalc.errors import ChunkcalcError
from chunkcalc.measurements import Run
from chunkcalc.scoring.served import COLD, PROFILED, PUBLIC, REQUESTS_PER_USER, WARM, Servers
from chunkcalc.scoring.server_flags import poll_for

RUN = Run(
    row=1, path="runs.csv", source="mine", engine="vllm", engine_version="0.24.0", model="llama-3.1-8b",
    gpu="h100-sxm", prompt_tokens=1000.4, output_tokens=500.6, concurrency=16,
)  # fmt: skip
SERVERS = Servers()


def served(**changes):
    return SERVERS.served(replace(RUN, **changes))


def test_a_run_that_says_everything_is_taken_at_its_word():
    found = served(
        weights="fp8", kv="fp8", tp=2, pp=2, budget=4096, max_num_seqs=64, requests=100, concurrency=32,
        model="meta-llama/Llama-3.1-70B-Instruct",
    )  # fmt: skip
    deployment, bench = found.deployment, found.bench
    assert (deployment.model.id, deployment.hardware.id) == ("llama-3.1-70b", "h100-sxm")
    assert (deployment.parallelism.tp, deployment.parallelism.pp) == (2, 2)
    assert (deployment.precision.dense, deployment.precision.kv) == ("fp8", "fp8")
    assert (deployment.engine.name, deployment.engine.version) == ("vllm", "0.24.0")
    assert (bench.prompt, bench.output, bench.users) == (1000.4, 500.6, 32)
    assert (bench.requests, bench.budget, bench.most, bench.whole, bench.cold) == (100, 4096, 64, False, WARM)
    assert found.launch == "none"
    assert found.run.row == 1


def test_what_a_run_leaves_out_is_the_engines_default():
    found = served()
    assert (found.bench.budget, found.bench.most) == (8192, 1024)  # vLLM 0.24 as a server on an H100
    assert found.bench.requests == REQUESTS_PER_USER * 16
    assert found.deployment.precision.weights == "bf16"
    assert served(gpu="l40s").bench.budget == 2048
    nightly = served(engine_version="nightly-0123abcd")
    assert nightly.deployment.engine.version == "0.33.0", "what is no version is taken as the newest"


def test_sglang_divides_its_chunk_over_the_attention_ranks():
    one, four = (
        served(engine="sglang", engine_version="0.5.9", model="deepseek-v3", gpu="h200-sxm", tp=tp, dp=dp, budget=8192)
        for tp, dp in ((8, 1), (2, 4))
    )
    assert (one.bench.budget, four.bench.budget) == (8192, 2048)
    assert one.bench.most is None
    assert one.deployment.engine.poll_interval == 1


def test_a_budget_that_is_switched_off_falls_back():
    assert served(budget=-1, engine="trtllm", engine_version="1.2.1").bench.budget in (8192, FALLBACK_BUDGET)


PUBLISHED = {
    "source": PUBLIC, "engine": "sglang", "engine_version": "", "model": "deepseek-v3", "gpu": "b200",
    "weights": "fp8", "tp": 8, "concurrency": 64, "prompt_tokens": 1000.0, "output_tokens": 1000.0,
}  # fmt: skip


def test_a_published_run_has_the_launch_of_its_server():
    found, mine = served(**PUBLISHED, date="2026-02-01"), served(**{**PUBLISHED, "source": "mine"})
    assert found.launch != "none"
    assert mine.launch == "none"
    assert found.deployment.engine.poll_interval == poll_for("deepseek-v3", "b200", "fp8", 64) == 30
    assert mine.deployment.engine.poll_interval == 1
    assert served(**{**PUBLISHED, "source": PROFILED}).launch == "none", "a rerun has settings of its own"


def test_the_cache_format_of_a_published_run_is_that_of_its_launch_unless_the_file_knows_better():
    assert served(**PUBLISHED).deployment.precision.kv == "fp8"
    assert served(**PUBLISHED, kv="bf16").deployment.precision.kv == "fp8", "a file without budgets assumed it"
    assert served(**PUBLISHED, kv="bf16", budget=8192).deployment.precision.kv == "bf16"


def test_a_published_run_without_a_date_began_cold():
    assert served(**PUBLISHED).bench.cold == COLD["sglang"] > COLD["vllm"] > WARM
    assert served(**PUBLISHED, date="2026-02-01").bench.cold == WARM
    assert served().bench.cold == WARM


def test_runs_of_one_deployment_share_a_timer():
    servers = Servers()
    first = servers.served(RUN)
    assert servers.served(replace(RUN, row=2, concurrency=64)).timer is first.timer
    assert servers.served(replace(RUN, kv="fp8")).timer is not first.timer
    assert servers.served(replace(RUN, engine_version="0.17.0")).timer is not first.timer
    assert first.timer.deployment is first.deployment


def test_another_profile_stands_for_the_gpu():
    own = replace(load_hardware("h200-sxm").record, id="mine")
    found = Servers(own).served(RUN)
    assert found.deployment.hardware.id == "mine"
    assert found.bench.most == 1024


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"engine": "lmdeploy"}, "engine 'lmdeploy' is not modelled"),
        ({"concurrency": None}, "neither users nor a rate of arrivals"),
        ({"spec": True}, "speculative decoding"),
        ({"model": "no-such-model"}, "unknown model"),
        ({"gpu": "no-such-gpu"}, "unknown GPU"),
        ({"weights": "fp7"}, "unknown weight format"),
        ({"tp": 3}, "does not divide"),
    ],
)
def test_runs_that_cannot_be_judged_are_refused(changes, sentence):
    with pytest.raises(ChunkcalcError, match=sentence):
        served(**changes)
