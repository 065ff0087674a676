"""Calibration: known constants found again, what rows cannot tell, profiles that work, bad input refused."""

import csv
import io
import json
import tomllib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from chunkcalc.catalog import schema
from chunkcalc.catalog.lookup import load_hardware
from chunkcalc.catalog.profiles import data_folder, extended, read_toml
from chunkcalc.cli.main import program
from chunkcalc.errors import ChunkcalcError
from chunkcalc.measurements import Run
from chunkcalc.report import calibration as report
from chunkcalc.scoring.calibrate import calibrate, calibrated_hardware, exact_errors
from chunkcalc.scoring.constants import CHOICES, CONSTANTS, key
from chunkcalc.scoring.fitting import fit
from chunkcalc.scoring.sample import present, sample
from chunkcalc.scoring.served import Servers
from chunkcalc.scoring.usable import check, contradictory, impossible, usable
from chunkcalc.traffic.closed_loop import closed_loop

BASE = load_hardware("h100-sxm").record
SLOW = {"decode_layer": 80e-6, "request": 60e-3}  # a cluster that the shipped constants miss
COLUMNS = ("model", "gpu", "engine", "prompt_tokens", "output_tokens", "concurrency", "tp", "ttft_ms", "tpot_ms")
LOADS = [(users, prompt) for users in (1, 4, 16, 40) for prompt in (512, 2048, 4000)]


def run(users=1, prompt=1000, output=500, **more):
    return Run(row=users * 100_000 + prompt, path="bench.csv", engine="vllm", model="llama-3.1-8b", gpu="h100-sxm",
               prompt_tokens=prompt, output_tokens=output, concurrency=users, **more)  # fmt: skip


def served(values=SLOW, noise=0.0, loads=LOADS, **more):
    """Runs of a cluster with known constants."""
    servers, random, out = Servers(calibrated_hardware(BASE, "vllm", values)), np.random.default_rng(3), []
    for users, prompt in loads:
        each = servers.served(run(users, prompt, **more))
        loop = closed_loop(each.timer, each.bench)
        a, b = np.exp(noise * random.standard_normal(2))
        out.append(replace(each.run, tpot=loop.tpot * float(a), ttft=loop.ttft * float(b)))
    return out


def rows_of(runs):
    return usable(runs, BASE)[0]


def table(runs, **columns):
    """Runs as the CSV table that a user has."""
    out = io.StringIO()
    lines = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    lines.writeheader()
    for each in runs:
        line = {name: getattr(each, name) for name in COLUMNS[:7]}
        line |= {"ttft_ms": f"{1e3 * each.ttft:.4f}", "tpot_ms": f"{1e3 * each.tpot:.4f}"}
        lines.writerow({**line, **columns})
    return out.getvalue()


def command(*arguments):
    return CliRunner().invoke(program(), ["calibrate", *map(str, arguments)])


def test_every_constant_is_one_that_a_profile_holds():
    keys = {key(name)[0] for name in CONSTANTS}
    assert keys <= set(schema.EngineTable.model_fields)
    assert {name for names in CHOICES.values() for name in names} == set(CONSTANTS)
    assert all(constant.low < constant.high and constant.spread > 0 for constant in CONSTANTS.values())


def test_known_overheads_are_found_again():
    found = calibrate(rows_of(served(noise=0.02)), BASE)
    assert {"decode_layer", "request"} <= set(found.values)
    for name, value in SLOW.items():
        assert found.values[name] == pytest.approx(value, rel=0.25)
        assert abs(found.values[name] - value) < 2 * found.constants[name].half
    assert found.held_out.tpot < found.before.tpot / 5
    assert found.after.ttft < found.before.ttft / 4


def test_two_points_determine_the_two_overheads_alone():
    found = calibrate(rows_of(served(loads=[(1, 2000), (32, 2000)])), BASE)
    assert set(found.constants) == set(SLOW)
    assert {each.determined for each in found.constants.values()} == {"yes"}
    assert found.values["decode_layer"] == pytest.approx(SLOW["decode_layer"], rel=0.2)
    assert found.values["request"] == pytest.approx(SLOW["request"], rel=0.2)
    assert "launches" in found.kept


def test_shipped_constants_stay_where_they_predict_as_well():
    found = calibrate(rows_of(served({}, noise=0.02)), BASE)
    assert not found.choice
    assert not found.values
    assert found.before == found.after == found.held_out
    assert "NOT CALIBRATED" in report.text(found, [], "my.toml")


def test_noise_that_no_constant_explains_changes_nothing():
    runs = [
        replace(each, tpot=each.tpot * (1.4 if index % 2 else 0.8), ttft=each.ttft * (0.7 if index % 2 else 1.5))
        for index, each in enumerate(served({}))
    ]
    assert not calibrate(rows_of(runs), BASE).choice


@pytest.mark.slow
@settings(max_examples=8)
@given(st.floats(20e-6, 300e-6), st.floats(20e-3, 0.2))
def test_a_calibration_predicts_rows_that_it_has_not_seen(decode_layer, request):
    values = {"decode_layer": decode_layer, "request": request}
    rows = rows_of(served(values, noise=0.01))
    found = calibrate(rows[::2], BASE)
    before, after = (exact_errors(rows[1::2], BASE, each).mean(axis=1) for each in ({}, found.values))
    assert (after <= before + 0.01).all()


def test_constants_without_a_part_in_the_rows_are_no_candidates():
    found = present(sample(rows_of(served())), CHOICES["all"])
    assert {"decode_layer", "launches", "request"} <= set(found)
    assert not {"experts", "expert_layer", "narrow_expert_launches", "latent_request", "least_prompt_layer"} & set(
        found
    )


def test_features_agree_with_the_closed_loop_where_constants_move():
    rows = rows_of(served())
    of = sample(rows)
    moved = np.array([[each.tpot, each.ttft] for each in served(SLOW)]).T
    assert np.abs(of.predict(SLOW) / moved - 1).max() < 0.03
    assert np.abs(of.predict({}) / np.array([[row.loop.tpot, row.loop.ttft] for row in rows]).T - 1).max() < 1e-9


def test_a_fit_without_data_of_a_latency_leaves_the_shipped_value():
    runs = [replace(each, ttft=None) for each in served()]
    found = fit(sample(rows_of(runs)), ("decode_layer", "request"))
    assert found["request"] == pytest.approx(BASE.overheads["vllm"].request, rel=0.05)
    assert found["decode_layer"] == pytest.approx(SLOW["decode_layer"], rel=0.1)


def test_rows_are_left_out_with_a_reason():
    runs = [
        *served(),
        run(2, 700),
        run(3, 700, spec=True, tpot=0.01),
        replace(run(4, 700, tpot=0.01), concurrency=None),
    ]
    rows, out = usable(runs, BASE)
    assert len(rows) == len(LOADS)
    assert [each.reason.split()[0] for each in out] == ["has", "speculative", "no"]


def test_repeats_that_contradict_each_other_are_named():
    runs = served()
    twice = replace(runs[4], row=999, tpot=2 * runs[4].tpot)
    rows = rows_of([*runs, twice])
    assert [(a.served.run.row, b.served.run.row) for a, b in contradictory(rows)] == [(runs[4].row, 999)]
    with pytest.raises(ChunkcalcError, match=rf"bench.csv row {runs[4].row} and bench.csv row 999"):
        check(rows, BASE)
    check(rows_of([*runs, replace(runs[4], row=999, tpot=1.3 * runs[4].tpot)]), BASE)


def test_rows_below_the_floor_are_named():
    runs = served()
    runs[0] = replace(runs[0], tpot=1e-3)
    rows = rows_of(runs)
    assert [row.served.run.row for row, _ in impossible(rows)] == [runs[0].row]
    with pytest.raises(
        ChunkcalcError, match=r"faster than h100-sxm can be: bench.csv row 100512 \(TPOT 1 ms, at least"
    ):
        check(rows, BASE)


@pytest.mark.parametrize("loads", [[(1, 2000)], [(1, 2000), (1, 2000)]])
def test_one_configuration_is_refused(loads):
    with pytest.raises(ChunkcalcError, match="cannot be fitted and checked"):
        calibrate(rows_of(served(loads=loads)), BASE)


def test_rows_that_the_model_does_not_describe_are_refused():
    runs = [replace(each, tpot=each.tpot * (3 + 9 * (index % 3))) for index, each in enumerate(served({}))]
    with pytest.raises(ChunkcalcError, match="do not support a fit"):
        calibrate(rows_of([replace(each, ttft=None) for each in runs]), BASE)


def test_a_profile_extends_the_shipped_one_and_works_in_solve(tmp_path):
    bench, profile = tmp_path / "bench.csv", tmp_path / "my-h100.toml"
    bench.write_text(table(served(noise=0.01)))
    said = command(bench, "--gpu", "h100-sxm", "--engine", "vllm", "-o", profile)
    assert said.exit_code == 0, said.output
    assert max(map(len, said.output.splitlines())) <= 80 + len(str(profile))
    data = tomllib.loads(profile.read_text())
    assert data["extends"] == "h100-sxm"
    assert set(data) == {"extends", "engine", "calibration"}
    assert set(data["calibration"]["fitted"]) == set(data["engine"]["vllm"])
    assert data["calibration"]["rows"] == len(LOADS)
    joined = extended(
        {k: v for k, v in data.items() if k != "extends"}, read_toml(data_folder("hardware_profiles") / "h100-sxm.toml")
    )
    schema.check_hardware(joined, "my")
    mine = load_hardware(str(profile)).record.overheads["vllm"]
    assert mine.decode_layer == pytest.approx(SLOW["decode_layer"], rel=0.25)
    assert mine.expert_layer == BASE.overheads["vllm"].expert_layer
    asked = ("solve", "--model", "llama-3.1-8b", "--prompt", "2k", "--ttft", "2s", "--tpot", "50ms", "--batch", "8")
    tpots = [
        json.loads(CliRunner().invoke(program(), [*asked, "--gpu", gpu, "--json"]).output)["expected"]["tpot_s"]
        for gpu in ("h100-sxm", str(profile))
    ]
    assert tpots[1] > 1.1 * tpots[0]


def test_the_json_says_what_the_text_says(tmp_path):
    bench, profile = tmp_path / "bench.csv", tmp_path / "my.toml"
    bench.write_text(table(served(noise=0.01)))
    told = json.loads(command(bench, "--gpu", "h100", "-o", profile, "--json").output)
    assert told["schema"] == "chunkcalc.calibration/1"
    assert told["calibrated"]
    assert told["rows"] == len(LOADS)
    assert told["errors"]["held_out"]["tpot"] < told["errors"]["before"]["tpot"]
    fitted = {each["key"]: each["fitted"] for each in told["constants"] if each["fitted"] is not None}
    assert fitted == pytest.approx(tomllib.loads(profile.read_text())["engine"]["vllm"])
    assert told["next"].startswith(f"chunkcalc solve --model llama-3.1-8b --gpu {profile}")


def test_nothing_is_written_where_no_fit_predicts_better(tmp_path):
    bench, profile = tmp_path / "bench.csv", tmp_path / "my.toml"
    bench.write_text(table(served({}, noise=0.02)))
    said = command(bench, "--gpu", "h100-sxm", "-o", profile)
    assert said.exit_code == 1
    assert said.output.startswith("NOT CALIBRATED")
    assert not profile.exists()


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"gpu": "h200-sxm"}, (), "was measured on 'h200-sxm', not on h100-sxm"),
        ({"engine": "sglang"}, ("--engine", "vllm"), "several engines"),
        ({"tpot_ms": "nan", "ttft_ms": "nan"}, (), "no row can be"),
        ({"tp": "2"}, ("-o", "my.yaml"), "not a .toml file"),
        ({}, ("--gpu", "own.toml"), "own.toml"),
        ({}, ("--unit", "fortnight"), "no unit"),
    ],
)
def test_bad_input_is_one_sentence(tmp_path, columns, options, message):
    bench = tmp_path / "bench.csv"
    bench.write_text(table(served(loads=LOADS[:3]), **columns))
    said = command(bench, "--gpu", "h100-sxm", "-o", tmp_path / "my.toml", *options)
    assert isinstance(said.exception, ChunkcalcError)
    assert message in str(said.exception)
    assert not list(tmp_path.glob("*.toml*"))


def test_a_profile_is_overwritten_only_by_force(tmp_path):
    bench, profile = tmp_path / "bench.csv", tmp_path / "my.toml"
    bench.write_text(table(served(loads=[(1, 2000), (32, 2000)])))
    profile.write_text("mine")
    said = command(bench, "--gpu", "h100-sxm", "-o", profile)
    assert "exists" in str(said.exception)
    assert profile.read_text() == "mine"
    assert command(bench, "--gpu", "h100-sxm", "-o", profile, "--force").exit_code == 0
    assert 'extends = "h100-sxm"' in profile.read_text()
