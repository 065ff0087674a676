"""`compare`: deployments side by side, and what makes the difference."""

import json

import pytest

from chunkcalc.answer.question import Question
from chunkcalc.answer.solve import answer
from chunkcalc.report import compare as report
from chunkcalc.report.compare import Compared
from chunkcalc.report.tables import WIDTH

SHARED = ("--model", "llama-3.1-8b", "--gpu", "h100-sxm", "--prompt", "4000", "--ttft", "1s", "--tpot", "40ms")


def side(name, **changes):
    asked = Question(model="llama-3.1-8b", gpu="h100-sxm", prompt=4000, batch=16, ttft=1.0, tpot=0.04)
    from dataclasses import replace  # noqa: PLC0415

    return Compared(name, answer(replace(asked, **changes), with_remedies=False))


def test_numbers_are_those_of_solve(run_cli):
    done = run_cli("compare", "--budget 2048", "--budget 512", *SHARED, "--batch", "16", "--json")
    data = json.loads(done.stdout)
    for each, budget in zip(data["compared"], ("2048", "512"), strict=True):
        alone = json.loads(run_cli("solve", *SHARED, "--batch", "16", "--budget", budget, "--json").stdout)
        assert each["verdict"] == alone["verdict"]
        assert each["ttft_s"] == pytest.approx(alone["expected"]["ttft_s"])
        assert sum(each["breakdown"].values()) == pytest.approx(alone["expected"]["step_s"])
    assert done.returncode == 1  # a budget of 2,048 misses the gap


def test_the_term_that_makes_the_difference_is_named():
    out = report.text([side("small", budget=512), side("large", budget=8192)])
    assert "mlp" in out and "8,192 tokens against 512" in out
    assert max(len(line) for line in out.splitlines()) <= WIDTH


def test_the_same_twice_has_no_difference():
    out = report.text([side("a", budget=512), side("b", budget=512)])
    assert "takes the same" in out and "%" not in out


def test_markdown_is_a_table():
    lines = report.markdown([side("a", budget=512), side("b", budget=1024)]).splitlines()
    assert lines[0].count("|") == lines[1].count("|") == lines[2].count("|") == 5


def test_a_price_gives_the_cost_of_tokens(run_cli):
    done = run_cli("compare", "--tp 1", "--tp 2", *SHARED, "--batch", "16", "--price", "h100-sxm=2", "--json")
    first, second = json.loads(done.stdout)["compared"]
    assert (first["per_hour"], second["per_hour"]) == (2, 4)
    assert first["per_million_output"] > 0


def test_a_file_stands_beside_a_question(tmp_path, run_cli):
    (tmp_path / "a.sh").write_text("vllm serve meta-llama/Llama-3.1-8B-Instruct --max-num-batched-tokens 1024\n")
    shared = ("--prompt", "4000", "--ttft", "1s", "--gpu", "h100-sxm")
    done = run_cli("compare", "a.sh", "--model llama-3.1-8b --batch 8", *shared, "--json", folder=tmp_path)
    assert [each["name"] for each in json.loads(done.stdout)["compared"]] == ["a.sh", "--model llama-3.1-8b --batch 8"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--tp 1"], "1 deployments"),
        (["--tp 1", "--tpp 2"], "tpp"),
        (["--tp 1", "--tp 'x"], "taken apart"),
        (["--tp 1", "--tp 2", "--price", "b200=2"], "has a price and is not asked"),
        (["--tp 1"] * 7, "7 deployments"),
    ],
)
def test_wrong_input_is_told(run_cli, words, says):
    done = run_cli("compare", *words, *SHARED)
    assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr
