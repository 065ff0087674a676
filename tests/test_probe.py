"""What to run to be certain: runs that lessen the doubt, commands that start what they say."""

import json
import math
import random
import shlex

import pytest

from chunkcalc import solve
from chunkcalc.answer.inspection import inspect
from chunkcalc.answer.judged import outlook
from chunkcalc.answer.learning import PRIOR, Factors
from chunkcalc.answer.measured import Numbers, observation, parse_number
from chunkcalc.answer.probing import MOST, SETTLED, candidates, probe
from chunkcalc.report import probe as report

LLAMA = {"model": "llama-3.1-70b", "gpu": "h100-sxm", "tp": 4, "weights": "fp8", "prompt": 8000, "output": 500}
CLOSE = {**LLAMA, "batch": 16, "ttft": 0.9, "tpot": 0.03}
CLEAR = {**LLAMA, "batch": 8, "ttft": 60.0, "tpot": 2.0}
SMALL = {"model": "llama-3.1-8b", "gpu": "h100-sxm", "prompt": 4000, "batch": 16, "ttft": 0.3, "tpot": 0.013}
SERVED = [{**SMALL, "engine": engine} for engine in ("vllm", "sglang", "trtllm", "atom")]


def of(fields):
    answer = solve(**fields, with_remedies=False)
    view = outlook(answer.case.deployment, answer.workload, answer.slo)
    return answer, view, probe(answer, view)


@pytest.mark.parametrize("fields", [CLOSE, *SERVED])
def test_every_run_lessens_the_doubt_and_narrows_the_bands(fields):
    _, _, found = of(fields)
    assert found.open_limits
    assert 0 < len(found.chosen) <= MOST
    doubt, widths = found.doubt, found.widths
    for each in found.chosen:
        assert each.doubt < doubt
        assert all(after <= before + 1e-9 for after, before in zip(each.widths, widths, strict=True))
        assert each.plan.seconds > 0
        doubt, widths = each.doubt, each.widths
    assert len(found.chosen) < MOST or found.chosen[-2].doubt > SETTLED


def test_a_log_of_steps_comes_first_where_the_engine_writes_one():
    assert of(CLOSE)[2].chosen[0].plan.kind == "steps"
    assert "steps" not in {each.plan.kind for each in of(SERVED[1])[2].chosen}


def test_nothing_is_asked_where_nothing_is_open():
    answer, _, found = of(CLEAR)
    assert (found.open_limits, found.chosen) == ((), ())
    assert found.doubt < SETTLED
    assert "nothing needs to be measured" in report.text(answer, found)


@pytest.mark.parametrize("fields", SERVED)
def test_commands_start_what_they_say(fields):
    answer, view, _ = of(fields)
    for plan in candidates(answer, view):
        server, bench = report.commands(answer, plan)
        words = shlex.split(server.partition(" >")[0].partition(" &")[0])
        reading = inspect(words, "h100-sxm", answer.case.deployment.engine.version, model="llama-3.1-8b").reading
        assert reading.budget == plan.budget
        assert not reading.unknown_flags
        assert str(plan.users) in shlex.split(bench)
        for text in plan.texts:
            observation(parse_number(text), view.deployment, view.workload, plan.budget)


def test_a_plan_measures_what_its_texts_say_and_a_number_in_its_place_is_taken():
    answer, view, found = of(CLOSE)
    draws = random.Random(3)
    factors = Factors(*(math.exp(width * draws.gauss(0, 1)) for width in PRIOR))
    numbers = []
    for each in found.chosen:
        for text in each.plan.texts:
            number = parse_number(text)
            value = observation(number, view.deployment, view.workload, each.plan.budget).predict(factors)
            numbers.append(number._replace(value=value))
    taught = solve(**CLOSE, measured=[f"{each.text.partition('=')[0]}={each.value * 1e3:.6g}ms{_rest(each)}"
                                      for each in Numbers(numbers)], with_remedies=False)  # fmt: skip
    assert taught.error.tpot == pytest.approx(found.chosen[-1].widths.tpot, rel=0.4)
    assert taught.error.tpot < answer.error.tpot


def _rest(number):
    return " at" + number.text.partition(" at")[2]


def test_the_command_says_it_in_text_and_in_json(run_cli):
    words = ("--model", "llama-3.1-70b", "--gpu", "h100-sxm", "--tp", "4", "--weights", "fp8", "--prompt", "8000",
             "--output", "500", "--batch", "16", "--ttft", "900ms", "--tpot", "30ms")  # fmt: skip
    shown, data = run_cli("probe", *words), json.loads(run_cli("probe", *words, "--json").stdout)
    assert shown.returncode == 1
    assert max(map(len, shown.stdout.splitlines())) <= 80
    assert data["schema"] == "chunkcalc.probe/1"
    assert data["then"].startswith("chunkcalc calibrate engine.log")
    assert "--enable-logging-iteration-details" in data["runs"][0]["commands"][0]
    assert "vllm bench serve" in shown.stdout
    clear = run_cli("probe", *words[:-4], "--ttft", "60s", "--tpot", "2s")
    assert clear.returncode == 0
    bad = run_cli("probe", *words[:-4])
    assert bad.returncode == 2
    assert "needs a limit" in bad.stderr
