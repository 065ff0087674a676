"""`chunkcalc check` from outside: exit codes, formats, streams, bad usage."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

GOOD = "# chunkcalc: gpu=h100\nvllm serve Qwen/Qwen3-8B --max-num-batched-tokens 8192\n"
BAD = "# chunkcalc: gpu=h100\nvllm serve Qwen/Qwen3-8B --max-num-batched-tokens 256 --max-num-seqs 512\n"
WARN = "# chunkcalc: gpu=h100\nvllm serve Qwen/Qwen3-8B --max-num-batched-tokens 8k\n"
OPEN = "vllm serve $MODEL\n"


@pytest.mark.parametrize(
    ("text", "options", "code"),
    [
        (GOOD, [], 0), (BAD, [], 1), (BAD, ["--fail-on", "never"], 0), (WARN, [], 0),
        (WARN, ["--fail-on", "warning"], 1),
        (OPEN, [], 0), (OPEN, ["--unknown", "fail"], 1), (OPEN, ["--unknown", "ignore"], 0), ("echo\n", [], 3),
        ("echo\n", ["--allow-empty"], 0), (GOOD, ["--gpu", "nothing"], 2), (GOOD, ["--ttft", "3"], 2),
        (GOOD, ["--format", "xml"], 2), (GOOD, ["--format", "json", "--format", "text"], 2),
        (GOOD, ["--config", "none.toml"], 2), (GOOD, ["--baseline", "none.json"], 2),
        (GOOD, ["--concurrency", "1", "--rate", "2"], 2), (GOOD, ["--diff", "no-such-thing"], 2),
    ],
)  # fmt: skip
def test_exit_codes(tmp_path, run_cli, text, options, code):
    (tmp_path / "x.sh").write_text(text)
    done = run_cli("check", "x.sh", *options, folder=tmp_path)
    assert done.returncode == code, done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    if code == 2:
        assert done.stdout == ""
        assert done.stderr.startswith("error:") or "Usage" in done.stderr


def test_no_path_and_a_wrong_path_are_wrong_usage(tmp_path, run_cli):
    assert run_cli("check", folder=tmp_path).returncode == 2
    done = run_cli("check", "nothing.yaml", folder=tmp_path)
    assert (done.returncode, "does not exist" in done.stderr) == (2, True)


def test_standard_input(run_cli, tmp_path):
    done = run_cli("check", "-", "--json", "--gpu", "h100", given="image: 'vllm/vllm-openai:v0.11.0'\nargs: [--x]\n",
                   folder=tmp_path)  # fmt: skip
    assert json.loads(done.stdout)["deployments"][0]["file"] == "stdin"


def test_several_formats_at_once(tmp_path, run_cli):
    (tmp_path / "x.sh").write_text(BAD)
    done = run_cli("check", ".", "--format", "text", "--format", "sarif=a.sarif", "--format", "junit=b.xml", "--format",
                   "gitlab=c.json", "--format", "markdown=d.md", folder=tmp_path)  # fmt: skip
    assert done.returncode == 1
    assert "CC102" in done.stdout
    assert all("CC102" in (tmp_path / name).read_text() for name in ("a.sarif", "b.xml", "c.json", "d.md"))
    wrong = run_cli("check", ".", "--format", "sarif=no/such/folder/x", folder=tmp_path)
    assert wrong.returncode == 2


def test_on_github_annotations_and_the_step_summary(tmp_path, run_cli):
    (tmp_path / "x.sh").write_text(BAD)
    env = {**os.environ, "GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}
    done = run_cli("check", "x.sh", folder=tmp_path, env=env)
    assert done.stdout.startswith("::error file=x.sh,line=2,title=chunkcalc CC102::")
    assert "CC102" in (tmp_path / "summary.md").read_text()


def test_json_has_the_fields_of_its_schema(tmp_path, run_cli):
    (tmp_path / "x.sh").write_text(BAD)
    found = json.loads(run_cli("check", "x.sh", "--json", folder=tmp_path).stdout)
    assert found["schema"] == "chunkcalc.check/2"
    assert set(found) == {"schema", "deployments", "findings", "summary"}
    assert {
        "file", "document", "pointer", "line", "engine", "engine_version", "model", "model_as_written", "gpu", "gpus",
        "tp", "pp", "dp", "ep", "role", "max_num_seqs", "max_model_len", "weights", "kv", "budget", "effective",
        "status", "missing", "verdict", "numbers",
    } <= set(found["deployments"][0])  # fmt: skip
    assert set(found["deployments"][0]["budget"]) == {"flag", "value", "source", "line"}
    assert set(found["deployments"][0]["effective"]) == {
        "budget",
        "max_num_seqs",
        "max_model_len",
        "chunk",
        "chunk_full",
    }
    assert {"rule", "class", "level", "message", "file", "line", "pointer", "fix", "waived"} <= set(
        found["findings"][0]
    )


def test_many_files_are_checked_in_their_order(tmp_path, run_cli):
    for index in range(80):
        (tmp_path / f"{index:03}.sh").write_text(GOOD)
    found = json.loads(run_cli("check", ".", "--json", folder=tmp_path).stdout)
    assert [each["file"] for each in found["deployments"]] == [f"{index:03}.sh" for index in range(80)]


def test_paths_are_relative_to_the_repository(tmp_path, run_cli):
    (tmp_path / ".git").mkdir()
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy" / "x.sh").write_text(BAD)
    for folder, path in (
        (tmp_path / "deploy", "x.sh"),
        (tmp_path, "deploy"),
        (tmp_path.parent, str(tmp_path / "deploy")),
    ):
        found = json.loads(run_cli("check", path, "--json", folder=folder).stdout)
        assert found["findings"][0]["file"] == "deploy/x.sh"


def test_rules(run_cli):
    done = run_cli("rules")
    assert done.returncode == 0
    assert "CC301" in done.stdout
    assert max(len(line) for line in done.stdout.splitlines()) <= 80
    assert "breaks it:" in run_cli("rules", "CC301").stdout
    assert json.loads(run_cli("rules", "--json").stdout)["schema"] == "chunkcalc.rules/1"
    assert run_cli("rules", "CC999").returncode == 2


def test_the_hook_and_the_action_are_yaml():
    root = Path(__file__).parent.parent
    (hook,) = yaml.safe_load((root / ".pre-commit-hooks.yaml").read_text())
    assert hook["entry"].split()[:2] == ["chunkcalc", "check"]
    action = yaml.safe_load((root / "action.yml").read_text())
    script = "".join(step.get("run", "") for step in action["runs"]["steps"])
    assert not re.search(r"\$\{\{ *inputs", script), "inputs reach the script through the environment only"


def test_init_writes_what_it_found_and_says_what_it_guessed(tmp_path, run_cli):
    (tmp_path / "a.sh").write_text("#SBATCH --gres=gpu:h100:1\nvllm serve Qwen/Qwen3-8B --max-model-len 8192\n")
    done = run_cli("init", "--ttft", "2s", folder=tmp_path)
    text = (tmp_path / "chunkcalc.toml").read_text()
    assert done.returncode == 0 and 'gpu = "h100-sxm"' in text and 'ttft = "2s"' in text
    assert "prompt = 4096  # guessed" in text and "# tpot" in text
    assert run_cli("init", folder=tmp_path).returncode == 2  # it is there already
    assert run_cli("init", "--force", "--ttft", "2", folder=tmp_path).returncode == 2
    assert run_cli("check", ".", "--concurrency", "4", folder=tmp_path).returncode in (0, 1)


@pytest.mark.parametrize("code", [0, 2, 3])
def test_the_script_of_the_action_names_only_reports_that_exist(tmp_path, code, run_cli):
    text = {0: GOOD, 2: GOOD, 3: "echo\n"}[code]
    (tmp_path / "x.sh").write_text(text)
    action = yaml.safe_load((Path(__file__).parent.parent / "action.yml").read_text())
    step = next(step for step in action["runs"]["steps"] if step.get("id") == "check")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "chunkcalc").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m chunkcalc "$@"\n')
    (tmp_path / "bin" / "chunkcalc").chmod(0o755)
    environment = {
        "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin",
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_OUTPUT": str(tmp_path / "out"),
        "PATHS": "x.sh",
        "ARGUMENTS": "--ttft 3" if code == 2 else "",
        "FAIL_ON": "error",
        "UNKNOWN": "warn",
        "FORMAT": "github",
    }
    done = subprocess.run(["bash", "-c", step["run"]], cwd=tmp_path, env=environment, capture_output=True, check=False)
    assert done.returncode == code
    outputs = dict(line.split("=", 1) for line in (tmp_path / "out").read_text().splitlines())
    named = [outputs[name] for name in ("json", "sarif-file", "markdown-file") if name in outputs]
    assert all(Path(path).is_file() for path in named) and bool(named) == (code != 2)
