"""Scores: what counts, what is told, and how errors are summed up."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkcalc.catalog.lookup import load_hardware
from chunkcalc.errors import ChunkcalcError
from chunkcalc.measurements import parse
from chunkcalc.report import score as report
from chunkcalc.scoring.errors import quantile, summary
from chunkcalc.scoring.score import score
from chunkcalc.scoring.served import Servers
from chunkcalc.traffic.closed_loop import closed_loop

HEAD = "source,engine,model,gpu,weights,kv,prompt_tokens,output_tokens,concurrency,requests,tp,dp,ep,ttft_ms,tpot_ms\n"
# Rows of InferenceMAX (SemiAnalysis), as published through ai-dynamo/aiconfigurator: Llama 70B fp8 on H100.
ROWS = (
    "inferencex,vllm,llama-3.1-70b,h100-sxm,fp8,fp8,921,921,4,40,4,1,1,80,11.78\n"
    "inferencex,vllm,llama-3.1-70b,h100-sxm,fp8,fp8,921,921,16,160,4,1,1,121,13.19\n"
    "inferencex,vllm,llama-3.1-70b,h100-sxm,fp8,fp8,7372,921,4,40,4,1,1,453,13.27\n"
    "inferencex,vllm,llama-3.1-70b,h100-sxm,fp8,fp8,921,921,4,40,8,1,1,70,9.11\n"
)


def test_models_are_read_as_others_of_their_shape(tmp_path, run_cli):
    path = tmp_path / "bench.csv"
    text = "model,gpu,engine,prompt_tokens,output_tokens,concurrency,requests,ttft_ms,tpot_ms\n"
    path.write_text(f"{text}our-own-8b,h100-sxm,vllm,1000,200,8,80,100,9\n")
    assert "no row could be predicted" in run_cli("score", str(path)).stderr
    assert run_cli("score", str(path), "--like", "our-own-8b=llama-3.1-8b").returncode == 0
    assert "no row is of" in run_cli("score", str(path), "--like", "other=llama-3.1-8b").stderr


def test_steps_of_an_engine_are_read_by_their_own_names():
    """Inside the engine: what it adds counts, as it does not for kernels alone."""
    names = "gpu,engine,engine_version,model,weights,kv,tp,prefill_tokens,prefix_tokens,batch,context,step_ms"
    inside, alone = (
        score(parse(f"{names}\nh100-sxm,{engine},llama-3.1-8b,bf16,bf16?,1,0,0,32,2048,8.6\n", "steps.csv"))
        for engine in ("vllm,0.20.0", ",")
    )
    assert inside.kind == alone.kind == "steps"
    assert inside.step.bias > alone.step.bias


def scored(rows: str, by: tuple[str, ...] = ()):
    """A score of rows of the table."""
    return score(parse(HEAD + rows, "t.csv"), by)


def test_published_rows_are_within_the_band_of_their_class():
    found = scored(ROWS)
    assert (found.rows, found.scored, found.tpot.n, found.ttft.n) == (4, 4, 4, 4)
    assert found.tpot.mape < 0.11
    assert found.ttft.mape < 0.60


def test_a_prediction_is_the_closed_loop_of_its_row():
    run = parse(HEAD + ROWS, "t.csv").runs[0]
    served = Servers().served(run)
    predicted = closed_loop(served.timer, served.bench)
    assert scored(ROWS).predictions[0].ratio("tpot") == pytest.approx(predicted.tpot / 0.01178)


def test_what_cannot_be_predicted_is_told_with_its_row():
    bad = ROWS + ROWS.splitlines()[0].replace("llama-3.1-70b", "no-such-model") + "\n"
    found = scored(bad)
    assert [each.row for each in found.skipped] == [5]
    assert "no-such-model" in found.skipped[0].reason
    assert found.rows == 5 and found.scored == 4


def test_an_excluded_row_counts_only_where_nothing_is_left_out():
    waiting = "inferencex,vllm,llama-3.1-70b,h100-sxm,fp8,fp8,921,921,64,640,4,1,1,90000,19.5\n"
    found = scored(ROWS + waiting)
    assert [(each.row, each.of) for each in found.excluded] == [(5, "both")]
    assert found.tpot.n == 4 and found.every_tpot.n == 5


def test_a_row_below_the_floor_is_told_and_counted():
    fast = "posted,vllm,llama-3.1-70b,h100-sxm,fp8,fp8,921,921,4,40,4,1,1,80,1.2\n"
    found = scored(ROWS + fast)
    assert [each.served.run.row for each in found.predictions if each.below_floor] == [5]
    assert found.tpot.n == 5
    assert "faster than their hardware" in report.text(found)


def test_groups_share_out_the_rows():
    found = scored(ROWS, ("tp",))
    assert [(dict(group.key), group.tpot.n) for group in found.groups] == [({"tp": 4}, 3), ({"tp": 8}, 1)]
    with pytest.raises(ChunkcalcError, match="no column 'colour'"):
        scored(ROWS, ("colour",))


def test_nothing_to_predict_is_an_error():
    with pytest.raises(ChunkcalcError, match="no row could be predicted"):
        scored(ROWS.splitlines()[0].replace("vllm", "mlc") + "\n")


def test_steps_are_kernels_alone():
    text = "gpu,model,tp,dtype,kv,c,p,b,s,t_ref_ms\nh100_sxm,Llama-3.1-8B,1,bfloat16,bfloat16,0,0,32,2048,8.6\n"
    found = score(parse(text, "s.csv"))
    assert found.kind == "steps" and found.step.n == 1
    assert found.step.mape < 0.2


@pytest.mark.parametrize(
    "text",
    [
        HEAD + ROWS,
        "gpu,model,tp,c,p,b,s,t_ref_ms\nh100-sxm,llama-3.1-8b,1,0,0,32,2048,8.6\n",
        "gpu,model,engine,arrival_s,input,output,ttft_ms,tpot_ms\nh100-sxm,llama-3.1-8b,vllm,0,1000,100,60,8\n",
    ],
    ids=["runs", "steps", "traces"],
)
def test_a_profile_of_ones_own_predicts_every_kind_of_row(text: str):
    shipped = load_hardware("h100-sxm").record
    slower = replace(shipped, bandwidth=shipped.bandwidth / 2)
    own, plain = (score(parse(text, "t.csv"), hardware=gpu) for gpu in (slower, None))
    error = "step" if plain.kind == "steps" else "tpot"
    assert getattr(own, error).bias > getattr(plain, error).bias + 0.1


def test_the_json_has_every_key_of_its_schema():
    data = report.json(scored(ROWS, ("engine",)))
    assert data["schema"] == "chunkcalc.score/1"
    assert {"rows", "scored", "tpot", "ttft", "all", "excluded", "skipped", "groups"} <= set(data)
    assert set(data["tpot"]) == {"n", "mape", "median", "p90", "bias"}
    assert data["groups"][0]["key"] == {"engine": "vllm"}
    json.dumps(data)


def test_every_line_fits_eighty_columns():
    assert max(map(len, report.text(scored(ROWS)).splitlines())) <= 80


def test_the_command_scores_a_file_and_refuses_a_bad_one(tmp_path: Path):
    good, bad = tmp_path / "good.csv", tmp_path / "bad.csv"
    good.write_text(HEAD + ROWS)
    bad.write_text("a,b\n1,2\n")
    run = [sys.executable, "-m", "chunkcalc", "score"]
    done = subprocess.run([*run, str(good), "--json"], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["scored"] == 4
    assert done.stderr == ""  # no bar in a pipe
    failed = subprocess.run([*run, str(bad)], capture_output=True, text=True, check=False)
    assert failed.returncode == 2 and failed.stderr.startswith("error: ") and "Traceback" not in failed.stderr


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=60))
def test_a_summary_is_what_its_words_say(ratios: list[float]):
    found = summary(ratios)
    off = [abs(ratio - 1) for ratio in ratios]
    assert found.n == len(ratios)
    assert found.mape == pytest.approx(sum(off) / len(off))
    assert sum(each <= found.p90 for each in off) >= math.ceil(0.9 * len(off))
    assert found.p90 in off
    assert min(ratios) - 1 <= found.bias <= max(ratios) - 1


def test_a_quantile_holds_its_share():
    assert quantile([1, 2, 3, 4], 0.5) == 2
    assert quantile([1, 2, 3, 4], 1.0) == 4
    assert quantile([7], 0.9) == 7


def test_arrivals_at_a_rate_are_predicted_as_an_open_loop():
    head = HEAD.replace("concurrency", "rate_rps")
    row = "posted,vllm,llama-3.1-8b,h100-sxm,bf16,bf16,1024,128,{},100,1,1,1,60,9\n"
    calm = score(parse(head + row.format(1.0), "t.csv")).predictions[0].predicted
    busy = score(parse(head + row.format(10.0), "t.csv")).predictions[0].predicted
    assert busy.tpot > calm.tpot and busy.ttft > calm.ttft
    flood = score(parse(head + row.format(900.0), "t.csv")).predictions[0].predicted
    assert flood.ttft > busy.ttft, "a hundred requests end, however fast they come"
    with pytest.raises(ChunkcalcError, match="more arrives than is served"):
        score(parse(head + row.replace("{},100,", "{},,").format(900.0), "t.csv"))


def ratio_of(row: str, tpot: float, ttft: float):
    """A score of a row whose latencies are factors of the predicted ones."""
    lone = scored(row).predictions[0].predicted
    cells = row.strip().split(",")
    return scored(",".join([*cells[:-2], str(1e3 * ttft * lone.ttft), str(1e3 * tpot * lone.tpot)]) + "\n")


def test_bands_hold_what_lies_inside_them_and_tell_what_lies_above():
    row = ROWS.splitlines()[0]
    width = scored(row + "\n").predictions[0].width("tpot")
    for factor, inside, above in ((1.0, 1, 0), (0.99 + width, 1, 0), (1.01 + width, 0, 1), (0.99 - width, 0, 0)):
        found = ratio_of(row, factor, 1.0)
        assert found.bands["tpot"] == (1, inside, above)
        assert found.bands["ttft"].inside == 1
        assert report.json(found)["bands"]["tpot"] == {"rows": 1, "inside": inside, "above": above}


def test_limits_around_a_measured_value_are_judged_by_the_prediction():
    exact = ratio_of(ROWS.splitlines()[0], 1.0, 1.0).decisions["tpot"]
    assert exact[:3] == (6, 1.0, 1.0)
    # Predicted at 0.75 of the measured value: limits at 0.8 and 0.9 of it are called kept, and are not.
    low = ratio_of(ROWS.splitlines()[0], 1 / 0.75, 1.0).decisions["tpot"]
    assert low.right == pytest.approx(4 / 6)
    assert low.kept == pytest.approx(3 / 5)


def test_medians_are_compared_with_predicted_medians():
    head = HEAD.replace("ttft_ms,tpot_ms", "ttft_p50_ms,tpot_p50_ms")
    row = "test,vllm,llama-3.1-8b,h100-sxm,bf16,bf16,1024,256,16,160,1,1,1,{},{}\n"
    ttft, tpot = score(parse(head + row.format(60, 9), "t.csv")).predictions[0].predicted.typical
    found = score(parse(head + row.format(1e3 * ttft, 1e3 * tpot), "t.csv"))
    assert found.medians_tpot.mape == pytest.approx(0, abs=1e-9)
    assert found.medians_ttft.mape == pytest.approx(0, abs=1e-9)
    mean = found.predictions[0].predicted
    assert ttft < mean.ttft, "the first wave waits longest, and is fewer than half of all"


def test_a_cap_holds_what_a_rate_would_pile_up():
    head = HEAD.replace("concurrency", "rate_rps").replace("ttft_ms", "note,ttft_ms")
    row = "posted,vllm,llama-3.1-8b,h100-sxm,bf16,bf16,1024,128,900,100,1,1,1,{},60,9\n"
    free, held = (score(parse(head + row.format(note), "t.csv")).predictions[0].predicted for note in ("", "cap 4"))
    assert held.tpot < free.tpot and held.ttft < free.ttft


def test_rounds_are_first_waves():
    head = HEAD.replace("ttft_ms", "note,ttft_ms")
    row = "posted,vllm,llama-3.1-8b,h100-sxm,bf16,bf16,4096,256,8,80,1,1,1,{},400,9\n"
    loop, rounds = (
        score(parse(head + row.format(note), "t.csv")).predictions[0].predicted.ttft
        for note in ("", "rounds of c requests sent at once")
    )
    assert rounds > 1.5 * loop
