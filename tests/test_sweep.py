"""Grids: arrays equal single answers, windows equal those of `solve`, files are whole or absent."""

import csv
import json
import math
import os
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkcalc import Question, solve
from chunkcalc.answer.judged import outlook
from chunkcalc.answer.resolve import resolve
from chunkcalc.answer.solve import answer as full_answer
from chunkcalc.grids.points import FEW, points, step_times, window_of
from chunkcalc.time.step import StepTimer
from tests.test_cli import run

DEPLOYMENTS = [
    {"model": "llama-3.1-8b", "gpu": "h100-sxm"},
    {"model": "llama-3.1-70b", "gpu": "h100-sxm", "tp": 4, "weights": "fp8"},
    {"model": "deepseek-v3", "gpu": "b200", "tp": 8, "engine": "sglang"},
    {"model": "deepseek-v3", "gpu": "h200-sxm", "tp": 2, "attention_dp": 4, "ep": 8},
    {"model": "gpt-oss-120b", "gpu": "h200-sxm", "engine": "trtllm"},
    {"model": "qwen3.5-397b-a17b", "gpu": "b200", "tp": 8},
    {"model": "llama-3.1-8b", "gpu": "rtx-pro-6000", "prefix_hit": 0.5},
    {"model": "llama-3.1-8b", "gpu": "h100-sxm", "pp": 2, "itl": 0.04},
    {"model": "llama-3.1-8b", "gpu": "h100-sxm", "engine": "sglang", "prefill_interval": 2, "itl": 0.2},
    {"model": "llama-3.1-8b", "gpu": "h100-sxm", "engine": "sglang", "mixed_chunk": True},
    {"model": "llama-3.1-8b", "gpu": "h100-sxm", "engine": "sglang", "prompt": 90, "output": 20},
    {"model": "llama-3.1-8b", "gpu": "h100-sxm", "prompt": 90, "output": 2, "draft_tokens": 2},
]  # fmt: skip
IDS = [f"{index}-{each['model']}-{each.get('engine', 'vllm')}" for index, each in enumerate(DEPLOYMENTS)]


def case_of(**deployment):
    return resolve(Question(**{"prompt": 4000, "output": 300, "ttft": 1.0, "tpot": 0.05, **deployment}))


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=IDS)
@settings(max_examples=10)
@given(data=st.data())
def test_a_step_of_a_grid_is_the_step_of_its_point(deployment, data):
    timer = StepTimer(case_of(**deployment).deployment)
    grid = [
        np.array(sorted(data.draw(st.sets(st.integers(1, most), min_size=1, max_size=6))))
        for most in (20_000, 512, 100_000)
    ]
    p = data.draw(st.integers(0, 30_000))
    found = step_times(timer, *grid, p)
    for index in np.ndindex(found.shape):
        c, b, s = (float(axis[at]) for axis, at in zip(grid, index, strict=True))
        assert found[index] == pytest.approx(timer.expected(c, p, b, s), rel=1e-12)


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=IDS)
def test_points_are_what_solve_says_of_them(deployment):
    case = case_of(**deployment)
    whole = case.workload.prompt + case.workload.output
    chunks, batches, contexts = [60, 512, 3999, 4000, 9000], [8, 16, 40], [whole // 2, whole - 20, whole]
    found = list(points(case, chunks, batches, contexts))
    assert len(found) == 45
    assert len(batches) * len(contexts) > FEW, "or no array was used"
    for point in found[:: 7 if case.deployment.engine.composition == "mixed" else 5]:
        question = replace(case.question, batch=point.batch, context=point.context, chunk=point.chunk)
        answer = full_answer(question, with_remedies=False)
        seen = answer.expected
        for name in ("step_s", "decode_step_s", "ttft_s", "tpot_s", "itl_s"):
            assert getattr(point, name) == pytest.approx(getattr(seen, name), rel=1e-12), name
        view = outlook(case.deployment, answer.workload, answer.slo)
        assert point.memory == pytest.approx(view.memory_share(point.chunk), rel=1e-12)
        limits = [view.memory_rule(), *view.latency_limits(view.expected), *view.rules(view.expected)]
        missed = {limit.name for limit in limits if not limit.holds(point.chunk)}
        assert point.state in (missed or {"ok"})
        assert point.utilisation == pytest.approx(answer.utilisation, rel=1e-12)
        assert point.budget == answer.budget


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=IDS)
def test_plain_numbers_and_arrays_give_the_same_points(deployment):
    case = case_of(**deployment)
    chunks, contexts = [64, 700, 5000], [30, 5000, 90_000]
    arrays = list(points(case, chunks, [4, 17, 64], contexts))
    single = [
        point for chunk in chunks for batch in (4, 17, 64) for context in contexts
        for point in points(case, [chunk], [batch], [context])
    ]  # fmt: skip
    for one, other in zip(arrays, single, strict=True):
        assert (one.chunk, one.budget, one.batch, one.context, one.state) == (
            other.chunk, other.budget, other.batch, other.context, other.state)  # fmt: skip
        for x, y in zip(one[4:11], other[4:11], strict=True):
            assert x == y or math.isclose(x, y, rel_tol=1e-12)


def test_the_window_is_that_of_solve_and_the_states_agree():
    case = case_of(**DEPLOYMENTS[1], prompt=8192, output=1024)
    batch, context = 32, 8704
    answer = solve(prompt=8192, output=1024, ttft=1.0, tpot=0.05, batch=batch, **DEPLOYMENTS[1])
    assert window_of(case, batch, context) == answer.window
    low, high = answer.window.chunk_min, answer.window.chunk_max
    states = [point.state for point in points(case, [low - 1, low, high, high + 1], [batch], [context])]
    assert states[1:3] == ["ok", "ok"]
    assert states[0] != "ok" != states[3]


BASE = ["sweep", "--model", "llama-3.1-8b", "--gpu", "h100-sxm", "--prompt", "4k", "--ttft", "500ms", "--tpot", "30ms"]


def test_the_chart_is_what_it_was(snapshot):
    found = run(*BASE, "--batch", "8,32,128")
    assert found.returncode == 0
    assert found.stdout == snapshot
    assert max(map(len, found.stdout.splitlines())) <= 80
    alone = run(*BASE, "--batch", "32", "--chunk", "256:4096").stdout
    assert alone == snapshot(name="one row")
    assert max(map(len, alone.splitlines())) <= 80


def test_every_gpu_is_a_row_or_left_out_with_its_reason():
    found = json.loads(run(*BASE, "--gpu", "all", "--chunk", "512", "--json").stdout)
    assert found["schema"] == "chunkcalc.sweep/2"
    gpus = {row["gpu"] for row in found["rows"]}
    assert "h100-sxm" in gpus
    assert len(gpus) + len(found["left_out"]) == 57
    assert any("peak arithmetic" in line for line in found["left_out"])
    case = resolve(Question(model="llama-3.1-8b", gpu="h100-sxm", prompt=4000, ttft=0.5, tpot=0.03))
    ends = [(row["chunk_min"], row["chunk_max"]) for row in found["windows"] if row["gpu"] == "h100-sxm"]
    window = window_of(case, 32, 4256)
    assert ends == [(window.chunk_min, window.chunk_max)]


def test_points_are_written_as_csv_and_json_lines(tmp_path):
    assert run(*BASE, "--tp", "1,2", "--batch", "8,16", "-o", "out.csv", cwd=tmp_path).returncode == 0
    assert run(*BASE, "--tp", "1,2", "--batch", "8,16", "-o", "out.jsonl", cwd=tmp_path).returncode == 0
    with (tmp_path / "out.csv").open() as file:
        rows = list(csv.DictReader(file))
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert len(rows) == len(lines) == 2 * 2 * 64
    for row, line in zip(rows, lines, strict=True):
        assert {name: str(value) for name, value in line.items()} == row
    assert sorted(os.listdir(tmp_path)) == ["out.csv", "out.jsonl"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--output", "1"], "an answer of one token"),
        (["--kind", "region"], "add --plot"),
        (["--context="], "no list of numbers"),
        (["--gpu", "h100-sxm,nope", "--tp", "1,2"], "nope"),
        (["-o", "out.csv", "--plot", "w.svg", "--chunk", "512"], "at least two chunks"),
        (["--chunk", "512:128"], "the range '512:128' falls"),
        (["--batch", ""], "no list of numbers"),
        (["--gpu", "h100-sxm,nope"], "nope"),
        (["--context", "9000"], "longer than prompt and output together"),
        (["--model", "llama-3.1-405b"], "no deployment is left"),
        (["-o", "out.txt"], "neither .csv nor .jsonl"),
        (["-o", "no/such/folder.csv"], "no folder"),
        (["--plot", "window.pdf"], "neither .svg nor .png"),
        (["--plot", "no/such/window.svg"], "no folder"),
        (["--plot", "w.svg", "--chunk", "512"], "at least two chunks"),
        (["--chunk", "1:16384:1", "--batch", "1:256:1"], "points are more than"),
        (["--chunk", "1:16384:1", "--batch", "1,2", "--json"], "-o out.jsonl"),
    ],
)
def test_bad_grids_and_targets_are_refused_and_leave_nothing(tmp_path, arguments, sentence):
    found = run(*BASE, *arguments, cwd=tmp_path)
    assert found.returncode == 2
    assert sentence in found.stderr
    assert "Traceback" not in found.stderr
    assert not found.stdout
    assert os.listdir(tmp_path) == []


def test_a_file_is_not_overwritten_without_being_told(tmp_path):
    (tmp_path / "out.csv").write_text("mine")
    found = run(*BASE, "-o", "out.csv", cwd=tmp_path)
    assert found.returncode == 2
    assert "--force" in found.stderr
    assert (tmp_path / "out.csv").read_text() == "mine"
    assert run(*BASE, "-o", "out.csv", "--force", cwd=tmp_path).returncode == 0
    assert (
        (tmp_path / "out.csv")
        .read_text()
        .startswith("model,gpu,gpus,tp,pp,dp,ep,engine,weights,kv,prompt,output,chunk")
    )


def test_an_unwritable_folder_is_an_error_and_leaves_no_partial_file():
    found = run(*BASE, "-o", "/proc/out.csv")  # a folder in which nobody may write
    assert found.returncode == 2
    assert "cannot write '/proc/out.csv'" in found.stderr
    assert "Traceback" not in found.stderr


def test_rows_that_differ_are_labelled_so(tmp_path):
    grid = ["--gpu", "h100-sxm,NVIDIA-A100-SXM4-80GB-MIG-3g.40gb", "--batch", "16,32", "--context", "4000,4200"]
    lines = run(*BASE, *grid, "--chunk", "128,512").stdout.splitlines()
    rows = [line for line in lines if " b " in line and " s " in line]
    names = [line.split(" s ")[0] + line.split(" s ")[1].split()[0] for line in rows]
    assert len(names) == len(set(names)) == 8
    assert max(map(len, lines)) <= 80


def test_the_gap_of_drafts_is_a_whole_message_in_the_table():
    drafts = ["--draft-tokens", "3", "--draft-acceptance", "0.7", "--batch", "16", "--chunk", "256:4096"]
    lines = run(*BASE, *drafts).stdout.splitlines()
    head = next(index for index, line in enumerate(lines) if "  gap  " in line)
    for line in lines[head + 1 :]:
        cells = re.split(r"  +", line)
        number, unit = cells[4].split()
        assert ("gap too long" in line) == (float(number) > 76 and unit == "ms"), line


def test_only_what_matters_is_told_of_a_picture(tmp_path):
    found = run(*BASE, "--gpu", "a10,h100-sxm", "--batch", "8,16", "--plot", "w.svg", cwd=tmp_path)
    assert found.stderr == "note: w.svg shows 1 x h100-sxm at batch 8\n", "not the GPU on which nothing holds"


def test_a_file_beside_the_output_is_left_alone(tmp_path):
    (tmp_path / "out.csv.part").write_text("mine")
    assert run(*BASE, "-o", "out.csv", cwd=tmp_path).returncode == 0
    assert (tmp_path / "out.csv.part").read_text() == "mine"


def test_a_terminal_without_the_letters_is_no_error():
    found = run(*BASE, "--batch", "32", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert found.returncode == 0
    assert "? every limit holds" in found.stdout


def test_columns_between_coarse_chunks_are_blank_but_for_the_window():
    row = run(*BASE, "--batch", "32", "--chunk", "256,4096").stdout.splitlines()[4]
    cells = row[9:53]
    assert row.startswith("h100-sxm ")
    assert (cells[0], cells[-1]) == ("u", "g")
    assert set(cells[1:-1]) == {" ", "█"}
    assert row.endswith("295-949")


def test_a_window_between_two_columns_is_shown():
    large = ["--model", "llama-3.1-70b", "--tp", "4", "--weights", "fp8", "--prompt", "8192", "--output", "1024"]
    limits = ["--ttft", "2s", "--tpot", "60ms", "--batch", "65"]
    row = run("sweep", "--gpu", "h100-sxm", *large, *limits).stdout.splitlines()[4]
    low, high = (int(end) for end in row.split()[-1].split("-"))
    assert high / low < 1.03
    assert row.count("█") == 1
