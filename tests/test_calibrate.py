"""Calibration: known factors found again, what rows cannot tell, logs of steps, profiles that work, bad input."""

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

from chunkcalc.answer.learning import Factors, scaled
from chunkcalc.catalog import schema
from chunkcalc.catalog.lookup import load_hardware
from chunkcalc.catalog.profiles import data_folder, extended, read_toml
from chunkcalc.cli.main import program
from chunkcalc.errors import ChunkcalcError
from chunkcalc.measurements import Run, StepRow
from chunkcalc.report import calibration as report
from chunkcalc.scoring.calibrate import calibrate, calibrated_hardware, overheads_of, step_groups
from chunkcalc.scoring.served import Servers
from chunkcalc.scoring.single import step_timers
from chunkcalc.scoring.usable import check, contradictory, impossible, usable
from chunkcalc.time.step import StepTimer
from chunkcalc.traffic.closed_loop import closed_loop

BASE = load_hardware("h100-sxm").record
SLOW = Factors(kernels=1.25, request=2.5)  # a cluster that the shipped profile misses
SAME = Factors()
COLUMNS = ("model", "gpu", "engine", "prompt_tokens", "output_tokens", "concurrency", "tp", "ttft_ms", "tpot_ms")
LOADS = [(users, prompt) for users in (1, 4, 16, 40) for prompt in (512, 2048, 4000)]


def run(users=1, prompt=1000, output=500, **more):
    return Run(row=users * 100_000 + prompt, path="bench.csv", engine="vllm", model="llama-3.1-8b", gpu="h100-sxm",
               prompt_tokens=prompt, output_tokens=output, concurrency=users, **more)  # fmt: skip


def cluster(factors):
    """The GPU of a cluster that differs from the shipped profile by factors."""
    shipped = BASE.overheads["vllm"]
    return calibrated_hardware(BASE, "vllm", scaled(shipped, factors)._asdict())


def served(factors=SLOW, noise=0.0, loads=LOADS, **more):
    """Runs of a cluster with known factors."""
    servers, random, out = Servers(cluster(factors)), np.random.default_rng(3), []
    for users, prompt in loads:
        each = servers.served(run(users, prompt, **more))
        loop = closed_loop(each.timer, each.bench)
        a, b = np.exp(noise * random.standard_normal(2))
        out.append(replace(each.run, tpot=loop.tpot * float(a), ttft=loop.ttft * float(b)))
    return out


def rows_of(runs):
    return usable(runs, BASE)[0]


def fitted(runs=(), steps=()):
    return calibrate(rows_of(runs), step_groups(steps, step_timers(BASE)), BASE)


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


def logged(factors=SLOW, budgets=(256, 2048), noise=0.0):
    """Steps as the engine of such a cluster would log them."""
    timer = StepTimer(step_timers(cluster(factors))(step(1, 0, 1, 1000)).deployment)
    random, out = np.random.default_rng(5), []
    for budget in budgets:
        for b in (1, 8, 32):
            for c in (0, budget - b):
                for _ in range(4):
                    time = float(timer.expected(c, 0, b, 1500)) * float(np.exp(noise * random.standard_normal()))
                    out.append(replace(step(b, c, 1, 1500), time=time, row=len(out)))
    return out


def step(b, c, prompts, s):
    return StepRow(row=1, path="engine.log", gpu="h100-sxm", model="llama-3.1-8b", engine="vllm", c=c, p=0, b=b, s=s,
                   prompts=prompts, time=1.0)  # fmt: skip


def test_known_factors_are_found_again():
    found = fitted(served(noise=0.02))
    assert found.calibrated
    assert found.factors["kernels"].value == pytest.approx(SLOW.kernels, rel=0.03)
    assert found.factors["request"].value == pytest.approx(SLOW.request, rel=0.2)
    assert found.factors["request"].least * 0.7 < SLOW.request < found.factors["request"].most * 1.4
    assert found.held_out.tpot < found.before.tpot / 5
    assert found.after.ttft < found.before.ttft / 2


@pytest.mark.parametrize("loads", [[(16, 2000)], [(1, 2000), (32, 2000)]])
def test_one_row_is_enough_to_begin(loads):
    found = fitted(served(loads=loads))
    assert found.calibrated
    assert not found.checked
    assert found.after.tpot < found.before.tpot / 4
    assert found.factors["kernels"].value == pytest.approx(SLOW.kernels, rel=0.05)
    assert found.factors["host"].determined == "no"


def test_steps_of_a_log_tell_the_factors():
    truth = Factors(kernels=1.2, prompts=1.3)
    found = fitted(steps=logged(truth, noise=0.02))
    assert found.calibrated
    assert found.steps == 48
    assert found.factors["kernels"].value == pytest.approx(truth.kernels, rel=0.03)
    assert found.factors["prompts"].value == pytest.approx(truth.prompts, rel=0.1)
    assert found.held_out.step < 0.05 < found.before.step
    assert found.hints == ()


def test_one_budget_alone_is_told_as_what_it_is():
    (hint,) = fitted(steps=logged(budgets=(2048,))).hints
    assert "log a budget of" in hint
    (hint,) = fitted(steps=[each for each in logged() if not each.c]).hints
    assert "only decodes" in hint


def test_runs_and_steps_are_fitted_together():
    found = fitted(served(noise=0.01), logged(noise=0.01))
    assert (len(found.rows), found.steps) == (len(LOADS), 48)
    assert found.factors["kernels"].value == pytest.approx(SLOW.kernels, rel=0.02)
    assert None not in found.held_out


def test_the_shipped_profile_stays_where_it_predicts_as_well():
    found = fitted(served(SAME, noise=0.02))
    assert not found.calibrated
    assert not found.values
    assert found.before == found.after == found.held_out
    assert "NOT CALIBRATED" in report.text(found, [], "my.toml")


def test_noise_that_no_factor_explains_changes_nothing():
    runs = [
        replace(each, tpot=each.tpot * (1.4 if index % 2 else 0.8), ttft=each.ttft * (0.7 if index % 2 else 1.5))
        for index, each in enumerate(served(SAME))
    ]
    assert not fitted(runs).calibrated


@pytest.mark.slow
@settings(max_examples=8)
@given(st.floats(0.9, 1.5), st.floats(0.5, 4.0))
def test_a_calibration_predicts_rows_that_it_has_not_seen(kernels, request):
    runs = served(Factors(kernels=kernels, request=request), noise=0.01)
    found = fitted(runs[::2])
    mine = usable(runs[1::2], calibrated_hardware(BASE, "vllm", found.values))[0]
    for before, after in zip(rows_of(runs[1::2]), mine, strict=True):
        assert abs(after.loop.tpot / after.tpot - 1) <= abs(before.loop.tpot / before.tpot - 1) + 0.01


def test_what_a_profile_holds_is_what_the_factors_are_of():
    shipped, found = BASE.overheads["vllm"], fitted(served())
    values = overheads_of(shipped, found.factors)
    moved = {name: each.value for name, each in found.factors.items() if each.moved}
    assert shipped._replace(**values) == scaled(shipped, Factors(**{**SAME._asdict(), **moved}))
    assert {report.key(name)[0] for name in values} <= set(schema.EngineTable.model_fields)


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


def test_rows_that_the_model_does_not_describe_are_refused():
    runs = [replace(each, tpot=each.tpot * (3 + 9 * (index % 3))) for index, each in enumerate(served(SAME))]
    with pytest.raises(ChunkcalcError, match="do not support a fit"):
        fitted([replace(each, ttft=None) for each in runs])


def test_a_profile_extends_the_shipped_one_and_works_in_solve(tmp_path):
    bench, profile = tmp_path / "bench.csv", tmp_path / "my-h100.toml"
    bench.write_text(table(served(noise=0.01)))
    said = command(bench, "--gpu", "h100-sxm", "--engine", "vllm", "-o", profile)
    assert said.exit_code == 0, said.output
    assert max(map(len, said.output.splitlines())) <= 80 + len(str(profile))
    data = tomllib.loads(profile.read_text())
    assert data["extends"] == "h100-sxm"
    assert set(data) == {"extends", "engine", "bands", "calibration"}
    mine = load_hardware(str(profile)).record.bands["vllm"]
    assert mine["dense"].tpot < BASE.bands["vllm"]["dense"].tpot
    assert mine["moe"] == BASE.bands["vllm"]["moe"]
    assert set(data["calibration"]["fitted"]) == set(data["engine"]["vllm"])
    assert data["calibration"]["rows"] == len(LOADS)
    joined = extended(
        {k: v for k, v in data.items() if k != "extends"}, read_toml(data_folder("hardware_profiles") / "h100-sxm.toml")
    )
    schema.check_hardware(joined, "my")
    mine = load_hardware(str(profile)).record.overheads["vllm"]
    assert mine.kernels == pytest.approx(SLOW.kernels, rel=0.05)
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
    assert told["overheads"] == pytest.approx(tomllib.loads(profile.read_text())["engine"]["vllm"], rel=0.01)
    assert told["next"].startswith(f"chunkcalc solve --model llama-3.1-8b --gpu {profile}")


def test_nothing_is_written_where_no_fit_predicts_better(tmp_path):
    bench, profile = tmp_path / "bench.csv", tmp_path / "my.toml"
    bench.write_text(table(served(SAME, noise=0.02)))
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
        ({}, ("--map", "ttft_ms"), "stands for nothing"),
        ({}, ("--map", "ttft_ms=nowhere"), "has no column 'nowhere'"),
        ({}, ("--map", "speed=ttft_ms"), "no column that is known"),
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


LINE = (
    "(APIServer pid=1) INFO [loggers.py:199] Engine 000: Iteration({i}): {r} context requests, {c} context tokens, "
    "{b} generation requests, {b} generation tokens, iteration elapsed time: {ms:.2f} ms, GPU KV cache usage: {u:.1f}%"
)
START = "INFO Initializing a V1 LLM engine (v0.30.0) with config: ...\nINFO GPU KV cache size: 100,000 tokens\n"


def log_of(steps):
    return "\n".join(
        LINE.format(i=i, r=int(each.c > 0), c=each.c, b=each.b, ms=1e3 * each.time, u=each.b * 1500 / 1000)
        for i, each in enumerate(steps)
    )


def test_a_log_of_steps_becomes_a_profile(tmp_path):
    start, log, profile = (tmp_path / name for name in ("start.log", "steps.log", "mine.toml"))
    start.write_text(START)
    log.write_text(log_of(logged()))
    said = command(start, log, "--gpu", "h100-sxm", "--model", "llama-3.1-8b", "-o", profile)
    assert said.exit_code == 0, said.output
    assert "vllm 0.30.0" in said.output
    assert tomllib.loads(profile.read_text())["engine"]["vllm"]["kernels"] == pytest.approx(SLOW.kernels, rel=0.05)


def test_a_profile_of_ones_own_hardware_is_extended_beside_it(tmp_path):
    own = tmp_path / "cpu.toml"
    own.write_text(
        'id = "cpu"\nname = "cores"\nvendor = "other"\narch = "cpu"\nconfidence = "C"\nsource = "own"\n'
        '[peak]\nbf16 = 3e13\n[memory]\nmib = 65536\nbandwidth = 2e11\n[link]\nkind = "none"\nbandwidth = 1e9\n'
    )
    log, profile = tmp_path / "steps.log", tmp_path / "mine.toml"
    log.write_text(START + log_of([replace(each, time=40 * each.time) for each in logged()]))
    said = command(log, "--gpu", own, "--model", "llama-3.1-8b", "-o", profile)
    assert said.exit_code == 0, said.output
    assert tomllib.loads(profile.read_text())["extends"] == "cpu.toml"
    assert load_hardware(str(profile)).record.peak == load_hardware(str(own)).record.peak
    profile.write_text('extends = "../cpu.toml"\n')
    with pytest.raises(ChunkcalcError, match="no other file beside it"):
        load_hardware(str(profile))
    profile.write_text('extends = "mine.toml"\n')
    with pytest.raises(ChunkcalcError, match="no other file beside it"):
        load_hardware(str(profile))


def test_columns_are_known_by_other_names(tmp_path):
    bench, profile = tmp_path / "bench.csv", tmp_path / "my.toml"
    text = table(served(noise=0.01))
    bench.write_text(text.replace("prompt_tokens,output_tokens,concurrency", "ISL,OSL,max_concurrency"))
    assert command(bench, "--gpu", "h100-sxm", "-o", profile).exit_code == 0
    bench.write_text(text.replace("ttft_ms", "first token").replace("tpot_ms", "pace"))
    said = command(bench, "--gpu", "h100", "-o", profile, "--force", "--map", "ttft_ms=first token,tpot_ms=pace")
    assert said.exit_code == 0, said.output
