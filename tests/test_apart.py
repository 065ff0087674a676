"""Prefill and decode apart: the pools stepped, their closed forms, and what stands before an engine."""

import json
import math
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkcalc import ChunkcalcError, solve
from chunkcalc.answer.gateway import Gateway, parse_gateway
from chunkcalc.answer.pools import token_time
from chunkcalc.answer.question import Question
from chunkcalc.answer.resolve import resolve
from chunkcalc.measurements import read
from chunkcalc.scoring.apart import seen_before
from chunkcalc.scoring.score import score
from chunkcalc.time.step import StepTimer
from chunkcalc.traffic.apart import Pools, served_apart
from chunkcalc.traffic.arrivals import Request, poisson

HEADER = (
    "source,model,gpu,engine,prompt_tokens,output_tokens,concurrency,requests,p_num,p_tp,d_num,d_tp,ttft_ms,tpot_ms"
)


def pools(**changes):
    made = {
        "prefills": 1, "decodes": 1, "prefill": lambda place: 0.1, "before": 0.01, "between": 0.05, "stall": 0.002,
        "step": lambda b, s: 0.005 + 1e-4 * b, "most": 1000,
    }  # fmt: skip
    return Pools(**{**made, **changes})


def at_once(count, prompt=1000, output=101):
    return [Request(0.0, prompt, output)] * count


def test_a_lone_request_takes_the_sum_of_its_parts():
    (one,) = served_apart(at_once(1), pools())
    assert one.ttft == pytest.approx(0.01 + 0.1 + 0.05)
    assert one.tpot == pytest.approx(0.0051 + 0.002 / 100)
    assert one.gap == pytest.approx(0.0051 + 0.002)
    assert one.finished == pytest.approx(one.ttft + 100 * one.tpot)


def test_an_answer_of_one_token_ends_with_the_prefill():
    (one,) = served_apart(at_once(1, output=1), pools())
    assert (one.tpot, one.gap, one.finished) == (None, None, one.ttft)


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 40), st.integers(2, 60), st.integers(1, 20))
@settings(max_examples=60, deadline=None)
def test_every_request_is_served_once_and_never_faster_than_alone(prefills, decodes, count, output, users):
    found = served_apart(at_once(count, output=output), pools(prefills=prefills, decodes=decodes, most=7), users)
    assert len(found) == count
    for one in found:
        assert one.ttft >= 0.16 - 1e-12
        assert one.tpot >= 0.0051 - 1e-12
        assert one.gap >= one.tpot - 1e-12


def test_a_full_prefill_pool_passes_what_it_takes():
    found = served_apart(at_once(400), pools(prefills=2), 100)
    assert max(one.finished for one in found) == pytest.approx(400 * 0.1 / 2, rel=0.05)


@pytest.mark.parametrize("rate", [5, 15])
@pytest.mark.parametrize("stall", [0.0, 0.002, 0.02])
def test_the_closed_form_of_a_decode_unit_is_that_of_the_steps(rate, stall):
    found = served_apart(poisson(rate, 4000, 1000, 101, seed=3), pools(prefills=1000, stall=stall))[200:]
    tpot = fmean(one.tpot for one in found)
    others = rate * 100 * tpot  # Little's law; a request meets so many beside itself
    assert tpot == pytest.approx(token_time(0.005 + 1e-4 * (1 + others), stall, others, 1.0, 100), rel=0.02)


def test_requests_beyond_a_units_room_wait():
    free, full = (served_apart(at_once(32), pools(prefill=lambda place: 0.0, most=most)) for most in (32, 8))
    assert max(one.finished for one in full) > 1.5 * max(one.finished for one in free)


def table(tmp_path, *rows, name="apart.csv"):
    path = tmp_path / name
    path.write_text("\n".join([HEADER, *rows]) + "\n")
    return path


ROW = "me,gpt-oss-120b,h100-sxm,vllm,5000,250,{users},{requests},{p},{ptp},{d},{dtp},500,8"


def row(users=8, requests=40, p=1, ptp=1, d=1, dtp=2):
    return ROW.format(users=users, requests=requests, p=p, ptp=ptp, d=d, dtp=dtp)


def test_score_reads_rows_of_pools(tmp_path, run_cli):
    path = table(tmp_path, row(), row(ptp=2, p=2), row(dtp=8))
    found = json.loads(run_cli("score", str(path), "--gateway", "1.9ms/step", "--json").stdout)
    predicted = [each["ttft_s"] for each in found["predictions"]]
    assert len(predicted) == 3
    assert predicted[1] < predicted[0]
    before = json.loads(run_cli("score", str(path), "--json").stdout)["predictions"][0]
    assert found["predictions"][0]["tpot_s"] == pytest.approx(before["tpot_s"] + 0.0019, rel=0.02)


def test_units_without_their_other_pool_are_refused(tmp_path):
    found = read(table(tmp_path, row(), "me,gpt-oss-120b,h100-sxm,vllm,5000,250,8,40,1,1,,,500,8"))
    assert [each.reason for each in found.skipped] == ["p_num without d_num"]


def test_unequal_degrees_hold_the_decodes_up(tmp_path):
    found = score(read(table(tmp_path, row(ptp=2, users=32, requests=160), row(ptp=4, users=32, requests=160))))
    same, other = found.predictions
    assert other.predicted.tpot > 1.1 * same.predicted.tpot


def test_prompts_of_smaller_runs_come_again_only_from_harnesses_that_repeat_them(tmp_path):
    rows = [row(users=4, requests=20), row(users=8, requests=40)]
    mine = read(table(tmp_path, *rows)).runs
    theirs = read(table(tmp_path, *(each.replace("me,", "anyscale-ray,", 1) for each in rows), name="b.csv")).runs
    assert [seen_before(run, mine) for run in mine] == [0, 0]
    assert [seen_before(run, theirs) for run in theirs] == [0, 20]


def test_a_gateway_adds_itself_to_steps_and_requests():
    asked = {"model": "llama-3.1-8b", "gpu": "h100-sxm", "prompt": 4000, "ttft": 1.0}
    plain, behind = (
        resolve(Question(**asked, gateway=gateway)).deployment for gateway in (None, Gateway(0.0019, 0.02))
    )
    for at in ((0, 0, 32, 4000), (512, 0, 32, 4000)):
        added = StepTimer(behind).gpu(*at) - StepTimer(plain).gpu(*at)
        assert added == pytest.approx(0.0019)
        assert StepTimer(behind).floor(*at) == StepTimer(plain).floor(*at)
    assert behind.engine.overheads.request - plain.engine.overheads.request == pytest.approx(0.02)


def test_a_gateway_in_python_and_on_the_command_line(run_cli):
    line = ["--model", "llama-3.1-8b", "--gpu", "h100-sxm", "--prompt", "4000", "--ttft", "1s", "--tpot", "30ms"]
    shown = run_cli("solve", *line, "--gateway", "2ms/step", "--json")
    found = solve(model="llama-3.1-8b", gpu="h100-sxm", prompt=4000, ttft=1.0, tpot=0.03, gateway="2ms/step")
    assert json.loads(shown.stdout)["expected"]["tpot_s"] == found.to_dict()["expected"]["tpot_s"]


@pytest.mark.parametrize("text", ["1.9ms", "2ms/token", "1ms/step,2ms/step", "", "/step", "x/step", "-1ms/step"])
def test_what_is_no_gateway_is_refused(text):
    with pytest.raises(ChunkcalcError) as error:
        parse_gateway(text)
    assert error.value.hint


def test_a_gateway_reads_back():
    made = Gateway(0.0019, 0.02)
    assert parse_gateway(str(made)) == made
    assert math.isclose(parse_gateway("250us/request").request, 250e-6)
