"""One budget for a load that changes: the least worst regret, by trying all."""

import json

import pytest

from chunkcalc.answer.question import Question
from chunkcalc.answer.replay import scheduler_for, simulate
from chunkcalc.answer.resolve import resolve
from chunkcalc.errors import ChunkcalcError
from chunkcalc.grids.grids import spaced
from chunkcalc.records import Slo
from chunkcalc.sizing.policy import ALIKE, BUDGETS, policy
from chunkcalc.traffic.arrivals import poisson

ASKED = Question(model="llama-3.1-8b", gpu="h100-sxm", prompt=1000, output=300, rate=1.0, ttft=1.0, tpot=0.06,
                 itl=float("inf"))  # fmt: skip
WORDS = ("policy", "--model", "llama-3.1-8b", "--gpu", "h100", "--ttft", "1s", "--tpot", "60ms")


def test_the_chosen_budget_has_the_least_worst_regret():
    found = policy(ASKED, [1.0, 4.0], [500, 4000, 12000])
    assert len(found.cells) == 6 and [cost.budget for cost in found.budgets] == list(BUDGETS)
    for place, cost in enumerate(found.budgets):
        behind = [max(cell.shares) - cell.shares[place] for cell in found.cells]
        assert cost.regret == max(behind) >= cost.mean_regret >= 0
    least = min(cost.regret for cost in found.budgets)
    alike = [cost for cost in found.budgets if cost.regret <= least + ALIKE]
    assert found.chosen.gap == min(cost.gap for cost in alike)


@pytest.mark.parametrize(("rate", "prompt"), [(2.0, 4000), (3.0, 8000)])
def test_the_shares_are_those_of_the_scheduler(rate, prompt):
    (cell,) = policy(ASKED, [rate], [prompt], (2048,)).cells
    case = resolve(Question(model="llama-3.1-8b", gpu="h100-sxm", prompt=prompt, output=300))
    shares = []
    for seed in range(3):
        found = simulate(case, poisson(rate, 800, prompt, 300, seed, 0.0), scheduler_for(case, 2048, 512))
        shares.append(found.attained(Slo(ttft=1.0)).share)
    assert cell.shares[0] == pytest.approx(sum(shares) / 3, abs=0.06)


def test_ranges_are_spaced():
    assert spaced("1:16", 5, float, "x") == pytest.approx([1, 2, 4, 8, 16])
    assert spaced("3,1", 5, float, "x") == [3, 1]
    for wrong in ("4:1", "1:2:3", "0:4"):
        with pytest.raises(ChunkcalcError, match="range"):
            spaced(wrong, 5, float, "x")


def test_the_command(run_cli):
    done = run_cli(*WORDS, "--rate", "1:4", "--prompt", "500:8k", "--json")
    data = json.loads(done.stdout)
    assert done.returncode == 0 and len(data["loads"]) == 20
    done = run_cli(*WORDS, "--rate", "1:4", "--prompt", "500:8k")
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert run_cli(*WORDS, "--rate", "900", "--prompt", "8k").returncode == 1
    for wrong in (("--rate", "4:1"), ("--rate", "x"), ("--rate", "-1"), ("--rate", "1", "--ttft", "3")):
        assert run_cli(*WORDS, *wrong, "--prompt", "500").returncode == 2
    assert run_cli(*WORDS[:5], "--rate", "1", "--prompt", "500").returncode == 2
