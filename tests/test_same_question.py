"""The same question to solve, check, sweep and fleet: the same numbers and the same verdict."""

import pytest

from chunkcalc import check, fleet, solve, sweep
from tests.test_python import ROOT

MANIFESTS = ROOT / "tests" / "manifests"
LIMITS = {"prompt": 4000, "output": 300, "ttft": 1.0, "tpot": 0.04}
PLAIN = {"model": "llama-3.1-8b", "gpu": "h100-sxm", **LIMITS}
FLAGS = {
    "vllm": "vllm serve meta-llama/Llama-3.1-8B-Instruct --max-num-seqs 256 --max-num-batched-tokens {}",
    "sglang": "python -m sglang.launch_server --model-path meta-llama/Llama-3.1-8B-Instruct --max-running-requests 256 "
    "--chunked-prefill-size {}",
}


def checked(tmp_path, engine, budget, **load):
    path = tmp_path / "start.sh"
    path.write_text(FLAGS[engine].format(budget) + "\n")
    (each,) = check(path, gpu="h100-sxm", **LIMITS, **load).deployments
    return each.answer


@pytest.mark.parametrize("engine", FLAGS)
@pytest.mark.parametrize("budget", [512, 2048, 8192])
@pytest.mark.parametrize(
    "more", [{}, {"itl": "none"}, {"prefix_hit": 0.5}, {"prefix_hit": 0.5, "prefix_shared": False}]
)
def test_a_batch_in_a_file(tmp_path, engine, budget, more):
    for batch in (1, 24, 100):
        asked = solve(**PLAIN, engine=engine, budget=budget, batch=batch, **more)
        found = checked(tmp_path, engine, budget, concurrency=batch, **more)
        # A launch script says how far graphs are captured; the question takes the engine's default for its batch.
        assert found.case.deployment.engine.composition == asked.case.deployment.engine.composition
        assert found.expected.ttft_s == pytest.approx(asked.expected.ttft_s, rel=1e-9)
        assert found.expected.tpot_s == pytest.approx(asked.expected.tpot_s, rel=1e-9)
        assert found.expected.itl_s == pytest.approx(asked.expected.itl_s, rel=1e-9)
        assert (found.verdict, found.chunk, found.limits) == (asked.verdict, asked.chunk, asked.limits)


@pytest.mark.parametrize("engine", FLAGS)
@pytest.mark.parametrize("rate", [0.5, 2.0, 5.0, 30.0])
@pytest.mark.parametrize("more", [{}, {"percentile": "mean", "itl": "none"}])
def test_a_rate_in_a_file(tmp_path, engine, rate, more):
    for budget in (512, 4096):
        asked = solve(**PLAIN, engine=engine, budget=budget, rate=rate, **more)
        found = checked(tmp_path, engine, budget, rate=rate, **more)
        assert (found.verdict, found.chunk, found.window) == (asked.verdict, asked.chunk, asked.window)
        assert (found.limits, found.reasons) == (asked.limits, asked.reasons)


@pytest.mark.parametrize("engine", FLAGS)
def test_a_sweep_has_the_numbers_of_each_batch(engine):
    points = sweep(**PLAIN, engine=engine, batch=[1, 24, 100], chunk=[512, 2048, 8192])
    for index, (chunk, batch) in enumerate(zip(points["chunk"], points["batch"], strict=True)):
        one = solve(**PLAIN, engine=engine, batch=int(batch), chunk=int(chunk))
        for name in ("step_s", "ttft_s", "tpot_s", "itl_s"):
            assert points[name][index] == pytest.approx(getattr(one.expected, name), rel=1e-9), name
        assert (points["state"][index] == "ok") == one.holds


@pytest.mark.parametrize("engine", FLAGS)
@pytest.mark.parametrize("rate", [0.5, 2.0, 4.0])
def test_a_fleet_of_one_replica(engine, rate):
    """Where one replica carries the rate, its shape is what solve says of that rate at that budget."""
    shapes = fleet(**PLAIN, engine=engine, rate=rate, itl="none").to_dict()["shapes"]
    lone = [each for each in shapes if each["kind"] == "colocated" and each["replicas"] == 1 and each["pp"] == 1]
    assert lone
    for each in lone:
        one = solve(**PLAIN, engine=engine, rate=rate, itl="none", budget=each["budget"], tp=each["tp"])
        assert (each["chunk"], each["batch"], each["status"]) == (one.chunk, one.workload.batch, one.verdict)
        assert each["ttft_s"] == pytest.approx(one.expected.ttft_s, rel=1e-9)
        assert each["tpot_s"] == pytest.approx(one.expected.tpot_s, rel=1e-9)


def test_every_file_with_a_rate_is_judged():
    """No file is lost to an internal error, which would leave the gate open."""
    for path, rate in ((MANIFESTS / "others", 6.0), (MANIFESTS, 1.5)):
        report = check(path, prompt=3000, output=200, rate=rate, ttft=1.0, tpot=0.04)
        assert report.deployments
        assert not [each for each in report.deployments if "internal error" in " ".join(each.missing)]


def test_a_limit_of_requests_counts_under_a_rate_and_a_batch(tmp_path):
    path = tmp_path / "start.sh"
    path.write_text(FLAGS["vllm"].format(512).replace("256", "8") + "\n")
    rate = check(path, gpu="h100-sxm", **LIMITS, rate=3.0)
    assert not rate.passes
    assert rate.deployments[0].answer.verdict != "feasible"
    crowd = check(path, gpu="h100-sxm", **LIMITS, concurrency=64)
    assert not crowd.passes


def test_a_batch_without_a_steady_state_is_told(tmp_path):
    """Latency limits hold, and prompts pile up: a finding all the same."""
    path = tmp_path / "start.sh"
    path.write_text(FLAGS["vllm"].format(512) + "\n")
    report = check(path, gpu="h100-sxm", **LIMITS, itl="none", concurrency=64)
    assert report.deployments[0].answer.verdict == "retune"
    assert any("of the capacity" in each.message for each in report.findings if each.level != "note")


def test_a_limit_of_requests_is_of_all_stages_together(tmp_path):
    """As many as decode fit below the limit, so with two stages it changes nothing."""
    asked = solve(**PLAIN, pp=2, budget=1024, rate=8.0)
    path = tmp_path / "start.sh"
    limit = f"--pipeline-parallel-size 2 --max-num-seqs {4 * asked.workload.batch}"
    path.write_text(FLAGS["vllm"].format(1024).replace("--max-num-seqs 256", limit) + "\n")
    (each,) = check(path, gpu="h100-sxm", **LIMITS, rate=8.0).deployments
    assert each.answer.load.steady
    assert (each.answer.verdict, each.answer.limits) == (asked.verdict, asked.limits)


@pytest.mark.parametrize(
    "more", [{}, {"gpu": "a100-sxm4-80gb", "model": "qwen3-8b", "ttft": 4.0, "tpot": 0.08}, {"engine": "trtllm"}]
)
@pytest.mark.parametrize("rate", [0.3, 1.0, 2.0])
def test_the_window_under_a_rate_is_what_each_of_its_budgets_says(rate, more):
    asked = {**PLAIN, **more, "rate": rate, "percentile": 0.9}
    ends = solve(**asked).window
    inside = [ends.chunk_min, (ends.chunk_min + ends.chunk_max) // 2, ends.chunk_max]
    outside = [ends.chunk_min - 10] if ends.chunk_min > 20 else []
    outside += [ends.chunk_max + 40] if ends.binding_max != "largest chunk of use" else []
    for chunk in (*inside, *outside):
        one = solve(**asked, chunk=chunk)
        assert one.window == ends
        assert one.holds == (chunk in inside)


@pytest.mark.parametrize("users", [8, 48])
def test_no_window_of_users_holds_what_its_answer_refutes(users):
    asked = {**PLAIN, "ttft": 2.0, "concurrency": users}
    ends = solve(**asked).window
    for chunk in (ends.chunk_min // 2, ends.chunk_min, (ends.chunk_min + ends.chunk_max) // 2, ends.chunk_max,
                  2 * ends.chunk_max):  # fmt: skip
        one = solve(**asked, chunk=chunk)
        assert one.holds == (one.window.chunk_min <= chunk <= one.window.chunk_max)
        assert one.holds == (ends.chunk_min <= chunk <= ends.chunk_max)
