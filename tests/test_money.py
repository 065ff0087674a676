"""What a fleet costs, units to lose, and the files that start it."""

import json
import random
from dataclasses import replace

import jsonschema
import pytest
import yaml

from chunkcalc.answer.question import Question
from chunkcalc.answer.replay import scheduler_for, simulate
from chunkcalc.answer.resolve import resolve
from chunkcalc.errors import ChunkcalcError
from chunkcalc.records import Slo
from chunkcalc.report.emit import written
from chunkcalc.sizing.fleet import fleet
from chunkcalc.sizing.money import costs, parse_spend, prices
from chunkcalc.traffic.arrivals import poisson
from tests.manifest_files import check_text

ASKED = Question(model="llama-3.1-8b", gpu="h100-sxm", prompt=2000, output=300, rate=20.0, ttft=1.0, tpot=0.04)
# What Kubernetes and compose require of the parts that are written here.
DEPLOYMENT = {
    "type": "object",
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "properties": {
        "apiVersion": {"const": "apps/v1"},
        "kind": {"const": "Deployment"},
        "metadata": {
            "required": ["name"],
            "properties": {
                "name": {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63},
                "annotations": {"additionalProperties": {"type": "string"}},
            },
        },
        "spec": {
            "required": ["selector", "template"],
            "properties": {
                "replicas": {"type": "integer", "minimum": 0},
                "template": {
                    "properties": {
                        "spec": {
                            "required": ["containers"],
                            "properties": {
                                "containers": {
                                    "items": {
                                        "required": ["name", "image"],
                                        "properties": {
                                            "command": {"items": {"type": "string"}},
                                            "args": {"items": {"type": "string"}},
                                        },
                                    }
                                }
                            },
                        }
                    }
                },
            },
        },
    },
}
COMPOSE = {
    "required": ["services"],
    "properties": {
        "services": {
            "additionalProperties": {
                "required": ["image"],
                "properties": {
                    "command": {"items": {"type": "string"}},
                    "labels": {"additionalProperties": {"type": "string"}},
                },
            }
        }
    },
}


def test_costs_are_shared_out():
    found = costs(per_hour=36.0, rate=10.0, prompt=1000, output=100)
    assert found.per_thousand_requests == pytest.approx(1.0)
    assert found.per_million_output == pytest.approx(10.0)
    assert found.per_million_prompt == pytest.approx(1.0)


@pytest.mark.parametrize(("text", "value"), [("60", 60), ("60/h", 60), ("48/day", 2), ("7300/month", 10)])
def test_spends_are_read(text, value):
    assert parse_spend(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "x", "60/year", "-1/h"])
def test_wrong_spends_are_refused(text):
    with pytest.raises(ChunkcalcError, match="--spend"):
        parse_spend(text)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (["2"], [2.0, 2.0]),
        (["2", "3"], [2.0, 3.0]),
        (["b200=5,h100=2"], [2.0, 5.0]),
        (["b200=5"], [None, 5.0]),
        ([], [None] * 2),
    ],
)
def test_prices_belong_to_their_gpu(given, found):
    assert [price for _, price in prices(["h100-sxm", "b200"], given)] == found


@pytest.mark.parametrize("given", [["l40s=1"], ["2", "b200=3"], ["1", "2", "3"]])
def test_wrong_prices_are_refused(given):
    with pytest.raises(ChunkcalcError, match="--price"):
        prices(["h100-sxm", "b200"], given)


def test_a_limit_of_spending_leaves_dearer_shapes_out_and_says_the_least():
    whole = fleet(ASKED, [("h100-sxm", 2.0)])
    least = min(shape.cost for shape in whole.shapes)
    assert all(shape.cost <= least for shape in fleet(ASKED, [("h100-sxm", 2.0)], spend=least).shapes)
    nothing = fleet(ASKED, [("h100-sxm", 2.0)], spend=least / 2)
    assert nothing.chosen is None and any(f"{least:,.2f}" in told for told in nothing.left_out)
    with pytest.raises(ChunkcalcError, match="has no price"):
        fleet(ASKED, [("h100-sxm", None)], spend=10.0)


def test_spares_are_added_and_change_nothing_else():
    plain, spared = fleet(ASKED), fleet(ASKED, spare=1)
    for shape in plain.shapes:
        twin = next(s for s in spared.shapes if (s.kind, s.tp, s.pp, s.composition, s.budget) == (
            shape.kind, shape.tp, shape.pp, shape.composition, shape.budget) and s.max_rate == shape.max_rate
            and s.gpus > shape.gpus)  # fmt: skip
        assert twin.replicas == shape.replicas + (1 if shape.prefill is None else 2)


def asked_by(rng):
    """A question whose fleet has a shape."""
    return replace(
        ASKED,
        model=rng.choice(["llama-3.1-8b", "qwen3-32b", "qwen3-30b-a3b"]),
        gpu=rng.choice(["h100-sxm", "h200-sxm"]),
        engine=rng.choice(["vllm", "sglang", "trtllm"]),
        prompt=rng.choice([500, 2000, 6000]),
        output=rng.choice([100, 400]),
        rate=rng.choice([2.0, 9.0, 25.0]),
        ttft=rng.choice([1.0, 2.0]),
        tpot=rng.choice([0.04, 0.08]),
    )


@pytest.mark.parametrize("seed", range(4))
def test_what_is_written_passes_the_gate(seed):
    rng = random.Random(seed)
    found = fleet(asked_by(rng))
    if found.chosen is None or (found.chosen.prefill is not None and found.question.engine == "trtllm"):
        pytest.skip("no shape, or pools of an engine whose connector is not described")
    for kind in ("kubernetes", "compose", "command"):
        text = written(found, kind)
        report = check_text(text, "fleet.sh" if kind == "command" else "fleet.yaml")
        assert [each.status for each in report.deployments] == ["evaluated"] * (
            1 if found.chosen.prefill is None else 2
        )
        assert not [f for f in report.findings if f.level == "error"], (kind, [f.message for f in report.findings])
        if found.chosen.prefill is None:
            (each,) = report.deployments
            assert each.verdict == found.chosen.status, (kind, seed)
        if kind == "kubernetes":
            for document in yaml.safe_load_all(text):
                jsonschema.validate(document, DEPLOYMENT)
        if kind == "compose":
            jsonschema.validate(yaml.safe_load(text), COMPOSE)


def test_values_of_the_production_stack_are_read_back():
    found = fleet(ASKED)
    report = check_text(written(found, "helm"), "values.yaml")
    assert report.deployments and all(each.engine == "vllm" for each in report.deployments)
    assert yaml.safe_load(written(found, "helm"))["servingEngineSpec"]["modelSpec"]


def test_attainment_and_goodput_count_single_requests(run_cli):
    case = resolve(replace(ASKED, rate=None, batch=1))
    found = simulate(case, poisson(8.0, 400, 2000, 100, 1, 0.0), scheduler_for(case, 2048, 256))
    times = sorted(each.ttft for each in found.served)
    got = found.attained(Slo(ttft=times[299]))
    assert got.share == pytest.approx(300 / 400) and got.missed == {"ttft": 100}
    assert got.rate == pytest.approx(300 / found.duration_s)
    assert found.attained(Slo(ttft=1e3, tpot=1e3)).share == 1.0
    words = ("replay", "--arrivals", "burst", "--requests", "20", "--prompt", "500", "--output", "20", "--model",
             "llama-3.1-8b", "--gpu", "h100")  # fmt: skip
    done = run_cli(*words, "--ttft", "1ms", "--attainment", "0.9", "--json")
    assert done.returncode == 1 and json.loads(done.stdout)["attainment"] == 0.0
    assert run_cli(*words, "--attainment", "0.9").returncode == 2


def test_the_closed_form_of_attainment_is_the_inverse_of_the_quantile():
    from chunkcalc.answer.solve import answer  # noqa: PLC0415

    flow = answer(replace(ASKED, rate=2.0), with_remedies=False).load.flow
    for share in (0.6, 0.9, 0.99):
        assert flow.within(flow.spread(share)) == pytest.approx(share, abs=2e-4)
    assert flow.within(1e9) == 1.0 and flow.within(0.0) == 0.0
