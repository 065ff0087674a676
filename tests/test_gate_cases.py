"""Small deployment files with what is right of each: none vanishes, none is judged half-read, none alarms falsely."""

import json
from pathlib import Path

import pytest

from chunkcalc.gate.check import Options, check, check_source, merged
from chunkcalc.gate.config import Config
from chunkcalc.gate.settings import Settings, parsed
from chunkcalc.manifests.sources import MAX_BYTES, read
from tests.manifest_files import FOLDER, TODAY, check_text, options

CASES = FOLDER / "cases"
LIMITS = {"ttft": "2s", "tpot": "50ms", "prompt": "4000", "output": "500", "concurrency": "32"}


def checked(name, **settings):
    """The report of a case on an H100, unless the settings say otherwise."""
    given = options(**{"gpu": "h100-sxm", **settings})
    source = read(CASES / name, name, True)
    return merged([check_source(source, given, Config(), name)], given, 1)


def folder(path, unknown="warn", **settings):
    """The report of a folder."""
    given = Settings(parsed({key.replace("_", "-"): value for key, value in settings.items()}, "command line", "test"))
    return check(Options(paths=(str(path),), root=Path(path), settings=given, today=TODAY), lambda: b"")


# What each case starts, its budget (None where none is written), the rules that it breaks, and what is not known.
RIGHT = [
    ("array-append-json.sh", "vllm", 128, {"CC102", "CC122"}, "--speculative-config"),
    ("heredoc-append-in-if.sh", "trtllm", 16384, set(), "attention_dp_config"),
    ("default-single-quoted.sh", "vllm", 8192, set(), ""),
    ("python-placeholders.yaml", "vllm", None, set(), "{max_model_len}"),
    ("kthena-empty-value.yaml", "vllm", 8192, set(), ""),
    ("kimi.sh", "vllm", None, {"CC119"}, ""),
    ("mpirun-hosts.sh", "trtllm", 8192, {"CC112"}, None),
    ("dynamo-own-flag.yaml", "vllm", 8192, set(), ""),
    ("kserve-s3.yaml", "vllm", None, set(), ""),
    ("attention-dp.yaml", "trtllm", 2112, set(), "the model is not named"),
    ("systemd-run.sh", "vllm", None, set(), ""),
    ("docker-exec.sh", "vllm", 8000, {"CC105"}, ""),
    ("podman-device.sh", "vllm", 8000, {"CC105"}, ""),
    ("cli-main.sh", "vllm", 8000, {"CC105"}, ""),
    ("image-in-variable.sh", "sglang", 8192, set(), ""),
    ("workflow.yml", "vllm", 8000, {"CC105"}, ""),
    ("skypilot.yaml", "vllm", 8000, {"CC105"}, ""),
    ("srt-slurm.yaml", "sglang", 6000, {"CC107", "CC129"}, ""),
    ("recipe-flags.yaml", "vllm", 128, {"CC102", "CC110"}, "the command that starts it"),
    ("batch-template.yaml", "vllm", 128, {"CC102"}, "the command that starts it"),
    ("dynamo-env-config.yaml", "vllm", 128, {"CC102"}, "the command that starts it"),
    ("dgdr-empty.yaml", None, None, set(), "planner"),
    ("custom-image-args-only.yaml", "vllm", 8192, set(), ""),
    ("script-in-image-neuron.yaml", None, None, set(), "run.sh"),
    ("unit-calls-script.service", None, None, set(), "vllm-server.sh"),
    ("modal-no-flags.py", "vllm", None, set(), ""),
    ("alias-700-bytes.yaml", None, None, set(), "40,000 values"),
    ("job.sbatch", "vllm", 8000, {"CC105"}, ""),
    ("job.slurm", "vllm", 8000, {"CC105"}, ""),
    ("Makefile", "vllm", 16384, set(), "unknown model"),
    ("Dockerfile", "vllm", 8000, {"CC105"}, ""),
    ("main.tf", "vllm", 8192, {"CC119", "CC129"}, ""),
    ("nomad.hcl", "vllm", 8000, {"CC105"}, ""),
]


@pytest.mark.parametrize(("name", "engine", "budget", "rules", "missing"), RIGHT, ids=[case[0] for case in RIGHT])
def test_a_case_is_read_right(name, engine, budget, rules, missing):
    report = checked(name)
    (each,) = report.deployments
    assert each.engine == engine
    written = each.budget.value if each.budget is not None and each.budget.source == "given" else None
    assert written == budget
    assert {f.rule for f in report.counting() if f.rule != "CC304"} == rules
    if missing is not None:
        assert (each.status == "unknown") == bool(missing)
        assert missing in "; ".join(each.missing)


def test_a_model_that_is_given_hides_nothing_else_that_is_unknown():
    report = checked("array-append-json.sh", model="qwen3-8b")
    assert [each.status for each in report.deployments] == ["unknown"] and report.fails("error", "fail")
    report = checked("config-plus-model.sh", model="qwen3-8b")
    assert [each.status for each in report.deployments] == ["evaluated"] and not report.counting()
    (each,) = check_text("vllm serve $ARGS --max-num-seqs 8\n", gpu="h100-sxm", model="qwen3-8b").deployments
    assert each.status == "unknown" and "adds to the command line" in each.missing[0]


def test_what_is_switched_off_is_not_judged():
    report = checked("production-stack-disabled.yaml")
    assert [each.status for each in report.deployments] == ["disabled"] and not report.findings


def test_both_commands_of_a_script_are_found_whatever_python_is_called():
    assert [each.engine for each in checked("python-in-variable.sh").deployments] == ["sglang", "sglang"]


def test_keywords_of_python_are_not_abbreviated():
    report = checked("ray-kwargs.yaml")
    assert {f.rule for f in report.counting()} == {"CC103", "CC304"}
    assert all("abbrev" not in f.message and "ambiguous" not in f.message for f in report.findings)


def test_the_workers_of_a_group_are_not_judged_again():
    assert len(checked("kserve-worker.yaml").deployments) == 1


def test_findings_on_one_flag_agree():
    report = checked("contradictory-fixes.sh", gpu="h200-sxm", **LIMITS)
    fixes = {f.fix.value for f in report.counting() if f.fix is not None and f.fix.flag == "--max-num-batched-tokens"}
    assert len(fixes) == 1 and "CC304" not in {f.rule for f in report.counting()}


def test_the_gpu_of_a_file_counts_unless_it_is_forced():
    manifest = (
        "kind: Pod\nspec:\n  nodeSelector: {cloud.google.com/gke-accelerator: nvidia-l4}\n  containers:\n"
        "  - {image: 'vllm/vllm-openai:v0.11.0', args: [--model, Qwen/Qwen3-8B, --max-model-len, '32768']}\n"
    )
    report = check_text(manifest, "x.yaml", gpu="h200-sxm")
    assert report.deployments[0].gpu == "l4" and {f.rule for f in report.counting()} >= {"CC119", "CC129"}


def test_a_budget_is_told_without_the_gpu():
    (each,) = check_text("vllm serve some-org/unknown-model --max-num-batched-tokens 8192\n").deployments
    assert each.effective is not None and each.effective.budget == 8192 and each.effective.max_model_len is None


def test_an_option_file_beside_a_script_is_read(tmp_path):
    (tmp_path / "run.sh").write_text(
        "trtllm-serve Qwen/Qwen3-8B --max_seq_len 32768 --extra_llm_api_options options.yaml\n"
    )
    (tmp_path / "options.yaml").write_text("enable_chunked_prefill: true\nmax_num_tokens: 4096\n")
    report = folder(tmp_path, gpu="h100-sxm")
    script = next(each for each in report.deployments if each.file == "run.sh")
    assert script.budget is not None and script.budget.value == 4096 and script.status == "evaluated"


def test_nothing_outside_the_folder_is_read(tmp_path):
    (tmp_path / "secret.yaml").write_text("max_num_tokens: 4096\n")
    inside = tmp_path / "in"
    inside.mkdir()
    for path in ("../secret.yaml", str(tmp_path / "secret.yaml")):
        (inside / "run.sh").write_text(f"trtllm-serve Qwen/Qwen3-8B --extra_llm_api_options {path}\n")
        (each,) = folder(inside, gpu="h100-sxm").deployments
        assert each.status == "unknown" and "not in this input" in each.missing[0]


def test_a_folder_of_a_model_is_read(tmp_path):
    config = next(each for each in json.loads((FOLDER.parent / "configs.json").read_text()).values())
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "config.json").write_text(json.dumps(config.get("config", config)))
    (tmp_path / "run.sh").write_text("vllm serve ./tiny --max-num-batched-tokens 4096\n")
    each = next(d for d in folder(tmp_path, gpu="h100-sxm").deployments if d.file == "run.sh")
    assert "unknown model" not in "; ".join(each.missing) and "behind a path" not in "; ".join(each.missing)


def test_a_folder_tells_of_every_file(tmp_path):
    for name in ("Dockerfile", "Makefile", "job.sbatch", "job.slurm", "main.tf", "nomad.hcl", "workflow.yml"):
        (tmp_path / name).write_text((CASES / name).read_text())
    (tmp_path / "broken.json").write_bytes(b"\0\1\2")
    report = folder(tmp_path)
    assert {each.file for each in report.deployments} == {path.name for path in tmp_path.iterdir()}
    assert [each.file for each in report.skipped] == ["broken.json"]


@pytest.mark.parametrize(
    "text", ["x=1\n" * 20_001 + "vllm serve a\n", "# " + "x" * 2**19 + "\nvllm serve a\n"], ids=["commands", "bytes"]
)
def test_a_script_that_is_cut_short_says_so(text):
    report = check_text(text)
    assert report.unknown and "the rest is not read" in report.unknown[0].missing[0]


def test_a_link_to_itself_and_a_large_file_are_told(tmp_path, run_cli):
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    done = run_cli("check", "loop.yaml", folder=tmp_path)
    assert done.returncode == 0 and "not a file" in done.stdout
    (tmp_path / "large.yaml").write_bytes(b"vllm:\n" + b"  k: 1\n" * (MAX_BYTES // 7 + 1))
    (tmp_path / "loop.yaml").unlink()
    done = run_cli("check", ".", "--unknown", "fail", folder=tmp_path)
    assert done.returncode == 1 and "skipped" in done.stdout


def test_a_file_that_cannot_be_parsed_is_no_success(tmp_path, run_cli):
    (tmp_path / "x.yaml").write_text("a: [vllm\nserve: {\n")
    assert run_cli("check", ".", folder=tmp_path).returncode == 2
    assert run_cli("check", ".", "--unknown", "ignore", folder=tmp_path).returncode == 0
    assert run_cli("check", ".", "--unknown", "fail", folder=tmp_path).returncode == 1


@pytest.mark.parametrize("entry", ["MODEL", "=x", "1A=x", "A=" + "x" * 5000])
def test_a_wrong_variable_is_refused(tmp_path, run_cli, entry):
    (tmp_path / "x.sh").write_text("vllm serve $MODEL\n")
    done = run_cli("check", "x.sh", "--set", entry, folder=tmp_path)
    assert done.returncode == 2 and "--set" in done.stderr


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.sh", "vllm serve $MODEL --max-num-seqs ${SEQS:-4}\n"),
        ("x.yaml", "run: |\n  vllm serve {{ MODEL }} --max-num-seqs {{ SEQS }}\n"),
        ("y.yaml", "kind: Pod\nspec:\n  containers:\n  - {image: 'vllm/vllm-openai:v0.11.0', args: [--model, $(MODEL), "
                   "--max-num-seqs, '${SEQS}']}\n"),
    ],
)  # fmt: skip
def test_variables_are_put_in(tmp_path, run_cli, name, text):
    (tmp_path / name).write_text(text)
    done = run_cli("check", name, "--gpu", "h100", "--set", "MODEL=Qwen/Qwen3-8B", "--set", "SEQS=7", "--json",
                   folder=tmp_path)  # fmt: skip
    (each,) = json.loads(done.stdout)["deployments"]
    assert (each["model"], each["max_num_seqs"], each["status"]) == ("qwen3-8b", 7, "evaluated")


def test_without_the_extra_hcl_is_unknown(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    report = checked("main.tf")
    assert [each.status for each in report.deployments] == ["unknown"]
    assert "chunkcalc[hcl]" in report.deployments[0].missing[0]


def test_taking_a_line_away_never_turns_unknown_into_pass():
    for name in ("array-append-json.sh", "heredoc-append-in-if.sh", "config-plus-model.sh"):
        lines = (CASES / name).read_text().splitlines(keepends=True)
        for index in range(len(lines)):
            left = "".join(lines[:index] + lines[index + 1 :])
            report = check_text(left, name, gpu="h100-sxm")
            starts = any(word in left for word in ("vllm serve", "trtllm-serve"))
            assert report.deployments or not starts, (name, index)


def test_a_raw_template_is_unknown_and_no_parse_error():
    report = check_text("spec:\n  {{- if .Values.x }}\n  image: vllm/vllm-openai:v0.11.0\n  {{- end }}\n", "t.yaml")
    assert report.unknown and not report.broken
