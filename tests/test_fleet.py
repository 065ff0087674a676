"""A rate or users asked of `solve`, and of a fleet."""

import json
import math
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from chunkcalc import solve
from chunkcalc.answer.judged import outlook
from chunkcalc.answer.pools import Arrivals, PrefillUnit
from chunkcalc.answer.question import Question
from chunkcalc.answer.resolve import resolve
from chunkcalc.cli.main import program
from chunkcalc.errors import ChunkcalcError
from chunkcalc.sizing.fleet import fleet
from chunkcalc.sizing.shapes import COLOCATED, DISAGGREGATED

ASKED = {"model": "llama-3.1-8b", "gpu": "h100-sxm", "prompt": 4000, "output": 300, "ttft": 1.0, "tpot": 0.05}


def run(*arguments):
    return CliRunner().invoke(program(), [str(argument) for argument in arguments])


def test_a_rate_that_fits_is_feasible_and_says_how_much_more_fits():
    found = solve(**ASKED, rate=2.0)
    assert found.verdict == "feasible"
    assert found.load.highest > 2.0
    assert found.load.limit > found.load.highest
    assert found.workload.batch == pytest.approx(2.0 * 299 * found.load.flow.tpot, abs=1)
    more = solve(**ASKED, rate=found.load.highest * 0.99, budget=found.budget)
    assert more.holds
    most = solve(**ASKED, rate=found.load.highest * 1.05, budget=found.budget, with_remedies=False)
    assert most.verdict != "feasible"
    assert most.load.highest < found.load.highest * 1.05


def test_a_vanishing_rate_is_a_lone_request():
    low, lone = solve(**ASKED, rate=1e-3, budget=1024), solve(**ASKED, batch=1, budget=1024)
    assert low.expected.ttft_s == pytest.approx(lone.expected.ttft_s, rel=0.03)
    assert low.expected.step_s == pytest.approx(lone.expected.step_s, rel=0.01)


def test_ttft_its_percentiles_and_its_band_grow_with_the_rate():
    answers = [solve(**ASKED, rate=rate, budget=1024, with_remedies=False) for rate in (1.0, 3.0, 5.0)]
    ttfts = [found.expected.ttft_s for found in answers]
    bands = [found.error.ttft for found in answers]
    assert ttfts == sorted(ttfts)
    assert bands == sorted(bands)
    tail = solve(**ASKED, rate=3.0, budget=1024, percentile=99, with_remedies=False)
    assert tail.expected.ttft_s > answers[1].expected.ttft_s
    wider = solve(**ASKED, rate=3.0, budget=1024, prompt_p95=9000, with_remedies=False)
    assert wider.expected.ttft_s > answers[1].expected.ttft_s


def test_too_much_is_overloaded_and_replicas_carry_it():
    found = solve(**ASKED, rate=40.0)
    assert found.verdict == "overloaded"
    assert "one replica carries" in found.reasons[0]
    assert any("replicas" in remedy.change and remedy.verdict == "feasible" for remedy in found.remedies)


def test_a_queue_that_no_chunk_mends_is_overload():
    """65,536 tokens in, 3,072 out, 10 a second on eight GPUs: SGLang issue 29358 saw TTFT of 34 s at any chunk."""
    asked = {"model": "glm-4.6", "gpu": "h200-sxm", "tp": 8, "weights": "fp8", "engine": "sglang", "prompt": 65536,
             "output": 3072, "ttft": 10.0, "tpot": 0.1, "rate": 10.0}  # fmt: skip
    for chunk in (None, 8192, 32768):
        found = solve(**asked, chunk=chunk, with_remedies=False) if chunk else solve(**asked)
        assert found.verdict == "disaggregate"
        assert not found.load.steady
        assert all(line.predicted is None for line in found.limits)
    on_the_mean = solve(**asked, itl=math.inf)
    assert on_the_mean.verdict in ("overloaded", "disaggregate")
    assert [remedy for remedy in on_the_mean.remedies if "replicas" in remedy.change]


def test_a_given_budget_that_fails_is_told_a_better_one():
    found = solve(**ASKED, rate=2.0, budget=8192)
    assert found.verdict == "retune"
    assert found.remedies[0].set["budget"] is None


def test_users_never_queue_without_end():
    few, many = (solve(**ASKED, concurrency=users, budget=1024, with_remedies=False) for users in (4, 64))
    assert few.load.flow.batch <= 4
    assert many.load.flow.batch <= 64
    assert many.load.limit is None
    assert many.load.steady


@pytest.mark.parametrize(
    ("extra", "sentence"),
    [
        ({"rate": 1.0, "batch": 4}, "exclude each other"),
        ({"rate": 1.0, "concurrency": 4}, "exclude each other"),
        ({"percentile": 99}, "needs traffic"),
        ({"rate": 0.0}, "out of range"),
        ({"rate": float("nan")}, "not finite"),
        ({"rate": 1.0, "percentile": 100}, "out of range"),
        ({"rate": 1.0, "prompt_p95": 100}, "does not go with"),
        ({"rate": 1.0, "prompt_p95": 10**6}, "does not go with"),
    ],
)
def test_contradictory_loads_are_refused(extra, sentence):
    with pytest.raises(ChunkcalcError, match=sentence):
        solve(**ASKED, **extra)


def test_the_json_of_a_load():
    found = run("solve", "--model", "llama-3.1-8b", "--gpu", "h100-sxm", "--prompt", 4000, "--output", 300,
                "--ttft", "1s", "--tpot", "50ms", "--rate", 2, "--percentile", 99, "--json")  # fmt: skip
    load = json.loads(found.stdout)["load"]
    assert load["rate"] == 2
    assert load["percentile"] == 99
    assert load["ttft_s"]["p50"] <= load["ttft_s"]["p90"] <= load["ttft_s"]["p99"]


FLEET = Question(model="qwen3-32b", gpu="h100-sxm", prompt=4000, output=500, ttft=1.0, tpot=0.04, rate=12.0)


def test_a_fleet_is_cheapest_first_and_every_shape_carries_the_rate():
    found = fleet(FLEET)
    assert found.chosen is not None
    assert [shape.gpus for shape in found.shapes] == sorted(shape.gpus for shape in found.shapes)
    assert {shape.kind for shape in found.shapes} == {COLOCATED, DISAGGREGATED}
    for shape in found.shapes:
        assert shape.max_rate >= 12.0 * (1 - 1e-6)
        assert shape.ttft_s <= 1.0
        assert shape.tpot_s <= 0.04
    cheapest = min(shape.gpus for shape in found.shapes if shape.status == "feasible")
    assert found.chosen.gpus == cheapest


def test_a_colocated_shape_is_what_solve_says_of_its_replica():
    shape = next(each for each in fleet(FLEET).shapes if each.kind == COLOCATED and each.status == "feasible")
    asked = replace(FLEET, tp=shape.tp, rate=12.0 / shape.replicas)
    found = solve(**{name: getattr(asked, name) for name in ("model", "gpu", "prompt", "output", "ttft", "tpot", "tp",
                                                             "rate")})  # fmt: skip
    assert found.verdict == "feasible"
    assert found.budget == shape.budget
    assert found.expected.ttft_s == pytest.approx(shape.ttft_s)


def test_answers_of_six_tokens_do_not_pay_for_decode_units():
    """vLLM issue 23144: an 8B model, 1,024 tokens in and 6 out, was slower apart."""
    asked = Question(model="llama-3.1-8b", gpu="h100-sxm", prompt=1024, output=6, ttft=1.0, tpot=0.04, rate=50.0)
    found = fleet(asked)
    assert found.chosen.kind == COLOCATED
    assert found.reasons[0].startswith("do not disaggregate")


def test_twice_the_rate_needs_no_fewer_gpus():
    once, twice = fleet(FLEET), fleet(replace(FLEET, rate=24.0))
    assert twice.chosen.gpus >= once.chosen.gpus
    assert twice.chosen.gpus <= 2 * once.chosen.gpus


def test_the_fleet_command(tmp_path):
    arguments = ("fleet", "--model", "llama-3.1-8b", "--rate", 10, "--prompt", 1000, "--output", 100, "--ttft", "1s",
                 "--tpot", "40ms")  # fmt: skip
    found = run(*arguments, "--gpu", "h100-sxm", "--gpu", "l40s", "--price", 2.5, "--price", 1, "--json")
    assert found.exit_code == 0, found.exception
    data = json.loads(found.stdout)
    assert data["schema"] == "chunkcalc.fleet/2"
    assert {"kind", "tp", "pp", "replicas", "gpus", "chunk", "batch", "max_rate", "ttft_s", "tpot_s", "cost"} <= set(
        data["chosen"]
    )
    costs = [shape["cost"] for shape in data["shapes"]]
    assert costs == sorted(costs)
    shown = run(*arguments, "--gpu", "h100-sxm")
    assert max(len(line) for line in shown.stdout.splitlines()) <= 80
    assert run(*arguments, "--gpu", "h100-sxm", "--max-gpus", 1, "--ttft", "1ms").exit_code == 1
    for bad in (("--price", 1, "--price", 2, "--price", 3), ("--kv-link", "fast"), ("--rate", "-1")):
        assert isinstance(run(*arguments, "--gpu", "h100-sxm", *bad).exception, ChunkcalcError)


def test_a_budget_whose_queue_has_no_end_is_told_one_that_has():
    found = solve(**ASKED, rate=5.0, budget=256, with_remedies=False)
    assert found.verdict == "retune"
    assert "without end" in found.reasons[0]


def test_a_million_users_are_answered():
    found = solve(**ASKED, concurrency=10**6, with_remedies=False)
    assert found.verdict == "overloaded"


def test_a_tiny_rate_needs_one_unit():
    assert fleet(replace(FLEET, rate=1e-6)).chosen.replicas == 1


def test_a_prefill_units_band_widens_with_its_wait_as_a_replicas_does():
    case = resolve(FLEET)
    unit = PrefillUnit(outlook(case.deployment, case.workload, case.slo), Arrivals())
    most = unit.highest()
    bands = [unit.ttft_band(share * most) for share in (0.0, 0.5, 0.9, 1.0)]
    assert bands[0] == pytest.approx(case.deployment.hardware.bands["vllm"]["dense"].ttft)
    assert bands == sorted(bands)
    assert bands[-1] >= bands[0]
    assert unit.ttft(most) == pytest.approx(case.slo.ttft, rel=1e-4)


def test_a_pair_of_pools_is_sure_only_with_the_widened_band_to_spare():
    for shape in fleet(FLEET).shapes:
        if shape.kind == DISAGGREGATED and shape.status == "feasible":
            count, tp, pp = shape.prefill
            case = resolve(replace(FLEET, tp=tp, pp=pp))
            unit = PrefillUnit(outlook(case.deployment, case.workload, case.slo), Arrivals())
            assert shape.ttft_s * (1 + unit.ttft_band(FLEET.rate / count)) <= FLEET.ttft
