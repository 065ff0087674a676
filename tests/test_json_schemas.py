"""What --json writes, against the schemas of docs/schemas/, which were read off other answers."""

import json

import jsonschema
import pytest

from chunkcalc import check, explain, fleet, score, solve, sweep
from chunkcalc.report.json import solve as document_of
from tests.contract import questions
from tests.test_cli import run
from tests.test_python import ROOT

LLAMA = {"model": "llama-3.1-8b", "gpu": "a100-sxm4-80gb", "prompt": 3000, "output": 200, "ttft": 1.5, "tpot": 0.05}
SCHEMAS = {path.stem.rpartition(".")[0]: json.loads(path.read_text()) for path in (ROOT / "docs" / "schemas").iterdir()}


def hold(document):
    document = json.loads(json.dumps(document))
    jsonschema.Draft202012Validator(SCHEMAS[document["schema"].partition("/")[0]]).validate(document)


@pytest.mark.parametrize(("traffic", "count"), [(False, 30), (True, 6)])
def test_answers(traffic, count):
    for _, _, found in questions(7, count, traffic=traffic):
        hold(document_of(found))


@pytest.mark.parametrize(
    "made",
    [
        lambda: solve(**LLAMA, batch=20), lambda: solve(**LLAMA, rate=2.5), lambda: explain(**LLAMA, batch=20),
        lambda: explain(**{**LLAMA, "tpot": 0.001}, engine="sglang", batch=5), lambda: fleet(**LLAMA, rate=9.0),
        lambda: sweep(**LLAMA, batch=[2, 50], chunk="128:2048"),
        lambda: check(ROOT / "examples", gpu="b200", prompt=2000, output=100, rate=2.0, ttft=1.0, tpot=0.02),
        lambda: check(ROOT / "tests" / "manifests" / "kubernetes", prompt=2000, concurrency=10, tpot=0.02),
        lambda: score(ROOT / "examples" / "bench" / "results.csv"),
    ],
)  # fmt: skip
def test_every_command(made):
    hold(made().to_dict())


@pytest.mark.parametrize("words", [["models", "list"], ["gpus", "list"], ["rules"], ["gpus", "show", "b200"]])
def test_lists(words):
    hold(json.loads(run(*words, "--json").stdout))


@pytest.mark.parametrize(
    "words",
    [
        ["calibrate", "examples/bench/results.csv", "--gpu", "h100-sxm", "-o"],
        ["observe", "examples/bench/metrics.txt", "--gpu", "h200-sxm", "--ttft", "1s", "--tpot", "9ms"],
        ["probe", "--model", "qwen3-32b", "--gpu", "h100-sxm", "--prompt", "3k", "--batch", "9", "--tpot", "50ms"],
    ],
    ids=lambda words: words[0],
)  # fmt: skip
def test_commands_about_measurements(words, tmp_path):
    more = [str(tmp_path / "own.toml")] if words[-1] == "-o" else []
    after = ["--", "vllm", "serve", "meta-llama/Llama-3.1-8B-Instruct"] if words[0] == "observe" else []
    named = [str(ROOT / word) if word.startswith("examples/") else word for word in words]
    hold(json.loads(run(*named, *more, "--json", *after).stdout))


def test_every_schema_is_one_and_names_itself():
    for name, schema in SCHEMAS.items():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["title"].startswith(name)
        assert schema["properties"]["schema"] == {"const": schema["title"]}
