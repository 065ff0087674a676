"""The program as a user meets it: output, exit codes, errors, speed of its imports."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

FIRST = [
    "--model",
    "meta-llama/Llama-3.1-8B-Instruct",
    "--gpu",
    "h100",
    "--prompt",
    "4k",
    "--ttft",
    "1s",
    "--tpot",
    "30ms",
]
SECOND = [
    "--model", "llama-3.1-70b", "--gpu", "h100-sxm", "--tp", "4", "--weights", "fp8", "--prompt", "8192",
    "--output", "1024", "--batch", "32", "--ttft", "2s", "--tpot", "60ms",
]  # fmt: skip
FAILING = [*SECOND[:-1], "15ms"]
MARGINAL = [*SECOND[:-1], "40ms"]


def run(*arguments, **options):
    command = [sys.executable, "-m", "chunkcalc", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


@pytest.mark.parametrize("arguments", [FIRST, SECOND, FAILING], ids=["first", "second", "failing"])
def test_reports_are_what_they_were(arguments, snapshot):
    assert run("solve", *arguments).stdout == snapshot


def test_the_verbose_report_is_what_it_was(snapshot):
    assert run("solve", *SECOND, "--verbose").stdout == snapshot


@pytest.mark.parametrize("arguments", [FIRST, SECOND, FAILING, [*SECOND, "--engine", "sglang"]])
def test_a_report_fits_a_terminal(arguments):
    lines = run("solve", *arguments).stdout.splitlines()
    assert max(len(line) for line in lines) <= 80
    assert len(lines) <= 44


def test_exit_codes():
    assert run("solve", *FIRST).returncode == 0
    assert run("solve", *FAILING, "--no-remedies").returncode == 1
    assert run("solve", *MARGINAL, "--no-remedies").returncode == 0
    assert run("solve", *MARGINAL, "--no-remedies", "--strict").returncode == 1
    assert run("solve", *FIRST[:-2], "--tpot", "30").returncode == 2


def test_json_is_versioned_and_complete():
    found = run("solve", *SECOND, "--json")
    data = json.loads(found.stdout)
    assert data["schema"] == "chunkcalc.solve/2"
    assert list(data) == [
        "schema", "inputs", "verdict", "certain", "may_hold", "chunk", "safest_chunk", "budget", "limits", "mean_alone",
        "textbook", "floor", "expected", "knee", "host", "measured", "window", "chunking", "capacity", "load",
        "needs_disaggregation", "pools", "reasons", "remedies", "flags", "warnings",
    ]  # fmt: skip
    assert [(line["name"], line["limit"]) for line in data["limits"]] == [("ttft", 2.0), ("tpot", 0.06), ("itl", 0.06)]
    for line in data["limits"]:
        assert set(line) == {"name", "judges", "limit", "predicted", "floor", "band", "holds"}
        assert line["floor"] <= line["predicted"]
    assert set(data["floor"]) == {"step_s", "decode_step_s", "ttft_s", "tpot_s", "itl_s"}
    assert set(data["expected"]) == {*data["floor"], "error", "breakdown", "bottleneck"}
    assert sum(data["expected"]["breakdown"].values()) == pytest.approx(data["expected"]["step_s"])
    assert data["inputs"]["context"] == {"value": 8704, "from": "prompt + output / 2"}
    assert data["window"]["budget"] == data["window"]["chunk"] + 32
    assert data["flags"]["vllm"][:2] == ["--max-num-batched-tokens", str(data["window"]["budget"])]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([*FIRST[:-2], "--tpot", "30"], "error: --tpot: '30' has no unit; write a number with a unit"),
        ([*FIRST, "--chunk", "512", "--budget", "512"], "error: --budget: a chunk and a budget contradict"),
        ([*FIRST, "--tp", "3"], "error: --tp: tp 3 does not divide"),
        ([*FIRST, "--link", "16"], "error: --link: '16' has no unit"),
        ([*FIRST, "--link", "16GB/s,"], "error: --link: '16GB/s,' ends in a comma"),
        ([*FIRST, "--prefix-hit", "1.5"], "error: --prefix-hit: '1.5' is outside its range"),
        (["--model", "nothing", *FIRST[2:]], "error: --model: unknown model 'nothing'; did you mean"),
        (["--model", "/no/such.toml", *FIRST[2:]], "error: --model: cannot read '/no/such.toml'"),
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_errors_are_one_line_on_stderr_and_nothing_on_stdout(arguments, sentence, as_json):
    found = run("solve", *arguments, *(["--json"] if as_json else []))
    assert found.returncode == 2
    assert found.stdout == ""
    assert found.stderr.startswith(sentence)
    assert found.stderr.count("\n") == 1


def test_missing_and_unknown_options_are_usage_errors():
    for arguments in (["solve", "--model", "x"], ["solve", *FIRST, "--nonsense"], ["nonsense"]):
        found = run(*arguments)
        assert found.returncode == 2
        assert "Traceback" not in found.stderr


def test_other_spellings_and_a_link():
    same = run("solve", "--model", "llama-3.1-8b", "--gpu", "h100", "--isl", "4k", "--osl", "512", "--json")
    assert json.loads(same.stdout)["inputs"]["prompt"]["value"] == 4000
    slow = run("solve", *SECOND, "--link", "16GB/s,20us", "--no-remedies", "--json")
    assert json.loads(slow.stdout)["inputs"]["link_bandwidth"] == {"value": 16e9, "from": "given"}


@pytest.mark.parametrize("name", ["models", "gpus"])
def test_the_catalogue_is_listed_and_shown(name, snapshot):
    listed = json.loads(run(name, "list", "--json").stdout)
    assert listed["schema"] == f"chunkcalc.{name}/1"
    first = listed[name][0]["id"]
    assert first in run(name, "list").stdout
    shown = run(name, "show", first)
    assert shown.returncode == 0
    assert max(len(line) for line in shown.stdout.splitlines()) <= 80
    assert json.loads(run(name, "show", first, "--json").stdout)[name][0]["id"] == first
    assert run(name, "show", "nothing").returncode == 2
    assert run(name, "list").stdout == snapshot


CONFIG = json.dumps(json.loads((Path(__file__).parent / "configs.json").read_text())["qwen3-30b-a3b"])


def test_a_config_is_imported_and_solved(tmp_path):
    config, profile = tmp_path / "config.json", tmp_path / "my-model.toml"
    config.write_text(CONFIG)
    done = run("models", "import", str(config), "-o", str(profile))
    assert (done.returncode, done.stdout) == (0, "")
    assert "30.53B parameters" in done.stderr
    piped = run("models", "import", "-", "--name", "my-model", input=CONFIG)
    assert piped.stdout.replace("standard input", str(config)) == profile.read_text()
    answers = [
        json.loads(run("solve", "--model", name, "--gpu", "h200", "--prompt", "2k", "--batch", "8", "--json").stdout)
        for name in (str(profile), str(config), "qwen3-30b-a3b")
    ]
    assert answers[0]["expected"] == answers[1]["expected"] == answers[2]["expected"]


def test_a_failed_import_leaves_no_file(tmp_path):
    assert run("models", "import", "-", "-o", str(tmp_path / "no" / "m.toml"), input=CONFIG).returncode == 2
    failed = run("models", "import", "-", "-o", str(tmp_path / "m.toml"), input="{")
    assert failed.returncode == 2
    assert failed.stderr.startswith("error: standard input: is not valid JSON")
    assert list(tmp_path.iterdir()) == []


def test_a_profile_is_shown_as_toml_to_start_from(tmp_path):
    for name, shown in (("models", "qwen3-32b"), ("gpus", "l4")):
        text = run(name, "show", shown, "--toml").stdout
        path = tmp_path / "mine.toml"
        path.write_text(text)
        assert run(name, "show", str(path)).stdout == run(name, "show", shown).stdout


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("reader", ["head -1", "true"])
@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["gpus", "list"], 0), (["models", "list", "--json"], 0), (["solve", *FAILING, "--no-remedies"], 1), (["-h"], 0)],
    ids=["list", "json", "failing", "help"],
)
def test_a_reader_that_stops_early_changes_no_exit_code(arguments, code, reader, unbuffered):
    command = (
        f"{shlex.join([sys.executable, '-m', 'chunkcalc.cli.main', *arguments])} | {reader}; exit ${{PIPESTATUS[0]}}"
    )
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    found = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, env=environment)
    assert (found.returncode, found.stderr) == (code, "")


def test_version_and_help():
    assert run("--version").stdout.startswith("chunkcalc 0.")
    assert "solve" in run("--help").stdout
    assert "--ttft" in run("solve", "--help").stdout


def test_solving_loads_no_heavy_library():
    code = (
        "import sys, chunkcalc.cli.main\n"
        f"sys.argv = ['chunkcalc', 'solve', *{SECOND!r}]\n"
        "try: chunkcalc.cli.main.main()\n"
        "except SystemExit: pass\n"
        "print([name for name in ('sympy', 'scipy', 'numpy', 'yaml', 'rich.table') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines()[-1] == "[]"


def test_no_colour_codes_in_a_pipe():
    assert "\x1b" not in run("solve", *FIRST).stdout


ENGINE = ["engine", "--gpu", "a100-sxm4-80gb", "--version", "0.24.0", "--", "vllm", "serve"]


def test_an_engine_command_line_is_explained(snapshot):
    found = run(*ENGINE, "meta-llama/Llama-3.1-8B-Instruct", "--max-num-seqs", "64", "--max-model-len", "16k")
    assert found.returncode == 0
    assert found.stdout == snapshot
    assert max(len(line) for line in found.stdout.splitlines()) <= 80


def test_an_engine_command_line_as_json():
    words = ["engine", "sglang", "--gpu", "b200", "--json", "--", "serve", "--model-path", "deepseek-ai/DeepSeek-V3"]
    found = json.loads(run(*words, "--tp", "8").stdout)
    assert found["schema"] == "chunkcalc.engine/1"
    assert (found["budget"], found["composition"], found["values"]["tp_size"]["source"]) == (
        16384,
        "prefill_first",
        "given",
    )
    assert found["kv_tokens"] > 500_000


def test_a_refused_engine_command_line_exits_1():
    found = run(*ENGINE, "meta-llama/Llama-3.1-70B-Instruct")
    assert found.returncode == 1
    assert "no memory is left for the KV cache" in found.stdout
    assert run(*ENGINE).returncode == 2


def test_help_names_the_defaults():
    text = " ".join(run("solve", "--help", env={**os.environ, "COLUMNS": "200"}).stdout.split())
    for default in ("Default: 512.", "Default: the largest that holds.", "Default: as shipped.", "Default: bf16."):
        assert default in text


def test_nothing_is_overwritten_without_force(tmp_path):
    config = tmp_path / "config.json"
    config.write_text(json.dumps(json.loads((Path(__file__).parent / "configs.json").read_text())["llama-3.1-8b"]))
    kept = tmp_path / "kept.toml"
    kept.write_text("mine")
    rows = tmp_path / "rows.csv"
    rows.write_text("mine")
    drawn = ["--arrivals", "burst", "--requests", "5", "--prompt", "100", "--output", "5"]
    drawn += ["--model", "llama-3.1-8b", "--gpu", "h100-sxm"]
    for words, path in (
        (["models", "import", str(config), "-o", str(kept)], kept),
        (["replay", *drawn, "--per-request", str(rows)], rows),
    ):
        refused = run(*words)
        assert refused.returncode == 2
        assert "exists" in refused.stderr
        assert path.read_text() == "mine"
        assert run(*words, "--force").returncode == 0
        assert path.read_text() != "mine"
