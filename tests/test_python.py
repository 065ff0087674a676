"""The Python face: the same answers as the command line, errors in its own words, nothing shadowed."""

import dataclasses
import importlib
import inspect
import json
import pkgutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import chunkcalc
from chunkcalc import (
    ChunkcalcError,
    Request,
    calibrate,
    check,
    explain,
    fleet,
    gpus,
    models,
    replay,
    score,
    solve,
    sweep,
)

ROOT = Path(chunkcalc.__file__).parents[1]
LLAMA = {"model": "llama-3.1-8b", "gpu": "h100-sxm", "prompt": 4000, "ttft": 1.0, "tpot": 0.03}
LINE = ["--model", "llama-3.1-8b", "--gpu", "h100-sxm", "--prompt", "4000", "--ttft", "1s", "--tpot", "30ms"]
FUNCTIONS = ("solve", "check", "fleet", "explain", "sweep", "replay", "score", "calibrate", "models", "gpus")


def written(run_cli, *words):
    return json.loads(run_cli(*words, "--json", folder=ROOT).stdout)


def test_every_public_name_stays_callable_after_every_module_was_imported():
    for module in pkgutil.walk_packages(chunkcalc.__path__, "chunkcalc."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for name in FUNCTIONS:
        assert callable(getattr(chunkcalc, name)), name
    assert inspect.ismodule(chunkcalc.answer)
    assert set(chunkcalc.__all__) <= set(dir(chunkcalc))
    with pytest.raises(AttributeError, match="solv"):
        _ = chunkcalc.solv


@pytest.mark.parametrize("name", FUNCTIONS)
def test_signatures_are_explicit_and_documented(name):
    function = getattr(chunkcalc, name)
    for parameter in inspect.signature(function).parameters.values():
        assert parameter.kind is not inspect.Parameter.VAR_KEYWORD
        assert parameter.annotation is not inspect.Parameter.empty
    assert function.__doc__


def test_texts_and_numbers_ask_the_same():
    one = solve(**LLAMA, output=500, batch=32, link=64e9, prefix_hit=0.25)
    other = solve(
        model="llama-3.1-8b", gpu="h100-sxm", prompt="4k", ttft="1s", tpot="30ms", output="500", batch=32.0,
        link="64GB/s", prefix_hit="25%",
    )  # fmt: skip
    assert one.to_dict() == other.to_dict()
    record = next(model for model in models() if model.id == "llama-3.1-8b")
    assert solve(**{**LLAMA, "model": record}, batch=32).verdict == "feasible"
    tiny = dataclasses.replace(record, layers=(dataclasses.replace(record.layers[0], count=2),))
    assert solve(**{**LLAMA, "model": tiny}, batch=32).expected.ttft_s < one.expected.ttft_s


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tpot": 30}, "tpot: 30 are seconds; write '30ms'"), ({"ttft": 1000}, "ttft: 1000 are seconds"),
        ({"itl": 50}, "itl: 50 are seconds"), ({"ttft": "1"}, "ttft: '1' has no unit"),
        ({"prompt": "4kk"}, "prompt: '4kk' has the unknown suffix"), ({"gpu": "h101"}, "gpu: unknown GPU"),
        ({"draft_acceptance": 0.5}, "draft_acceptance: "), ({"mixed_chunk": True}, "mixed_chunk: "),
        ({"prefill_interval": 1}, "prefill_interval: "), ({"link": "16GB/s,"}, "link: '16GB/s,' ends in a comma"),
        ({"prompt": 1.5}, "prompt: 1.5 is not a whole number"), ({"batch": float("nan")}, "batch: nan"),
    ],
)  # fmt: skip
def test_errors_name_the_argument(change, words):
    with pytest.raises(ChunkcalcError) as error:
        solve(**{**LLAMA, **change})
    assert str(error.value).startswith(words)
    assert "--ttft" not in str(error.value)


def test_results_are_what_the_commands_write(run_cli):
    assert solve(**LLAMA, batch=32).to_dict() == written(run_cli, "solve", *LINE, "--batch", "32")
    assert explain(**LLAMA, batch=32).to_dict() == written(run_cli, "explain", *LINE, "--batch", "32")
    plan = fleet(**{**LLAMA, "gpu": ["h100-sxm"]}, rate=2)
    assert plan.to_dict() == written(run_cli, "fleet", *LINE, "--rate", "2")
    swept = sweep(**LLAMA, chunk="256:1024:256", batch=(8, 32))
    assert swept.to_dict() == written(run_cli, "sweep", *LINE, "--chunk", "256:1024:256", "--batch", "8,32")
    path = "examples/good/llama-8b.yaml"
    assert check(ROOT / path).to_dict()["summary"] == written(run_cli, "check", path)["summary"]
    bench = ROOT / "examples" / "bench" / "results.csv"
    wanted = written(run_cli, "score", str(bench), "--gpu", "h100-sxm", "--engine", "vllm")
    assert score(bench, gpu="h100-sxm", engine="vllm").to_dict() == wanted


def test_results_show_themselves():
    found = solve(**LLAMA, batch=32)
    assert str(found).startswith("FEASIBLE")
    assert repr(found).startswith("Solution(verdict='feasible', chunk=")
    assert len(repr(found)) < 200
    assert found._repr_html_().startswith("<pre>FEASIBLE")
    assert repr(models()[0]).startswith("Model(id=")
    assert "kind='gqa'" not in repr(models()[0]), "only what is not default"


def test_a_sweep_is_a_table_of_arrays():
    points = sweep(**LLAMA, chunk=[256, 512], batch="8,32", tp=[1, 2])
    assert {len(column) for column in points.values()} == {8}
    assert all(isinstance(column, np.ndarray) for column in points.values())
    assert set(points["gpus"]) == {1, 2}
    assert "points" in repr(points)


def test_files_are_read(tmp_path):
    requests = [Request(arrival=float(at), prompt=600, output=50) for at in range(20)]
    served = replay(requests, model="llama-3.1-8b", gpu="h100-sxm", budget="2k", link="64GB/s")
    assert served.ttft["p99"] >= served.ttft["mean"] > 0
    assert "requests" in str(served)
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival,prompt,output\n" + "".join(f"{at},600,50\n" for at in range(20)))
    assert replay(trace, model="llama-3.1-8b", gpu="h100-sxm", budget=2000, link=64e9).to_dict() == served.to_dict()
    found = calibrate(ROOT / "examples" / "bench" / "results.csv", gpu="h100-sxm", engine="vllm")
    assert found.to_dict()["schema"] == "chunkcalc.calibration/1"
    assert not check(ROOT / "examples" / "bad" / "llama-8b.yaml", fail_on="warning").passes
    assert check(ROOT / "examples" / "good" / "llama-8b.yaml", ttft="1ms").passes is False
    with pytest.raises(ChunkcalcError, match=r"^max_num_seqs: '4x'"):
        replay(requests, model="llama-3.1-8b", gpu="h100-sxm", max_num_seqs="4x")
    with pytest.raises(ChunkcalcError, match="ttft: 1000 are seconds"):
        check(ROOT / "examples", ttft=1000)
    assert len(gpus()) > 50


def test_the_python_page_runs():
    text = (ROOT / "docs" / "python.md").read_text()
    code = "\n".join(line[4:] for line in text.splitlines() if line.startswith("    "))
    before = (
        "import chunkcalc\nrequests = [chunkcalc.Request(arrival=0.1 * at, prompt=600, output=200) for at in range(50)]"
    )
    subprocess.run([sys.executable, "-c", f"{before}\n{code}"], cwd=ROOT, check=True, capture_output=True)


@pytest.mark.slow
def test_a_consumer_outside_the_checkout_is_typed(tmp_path):
    (tmp_path / "consumer.py").write_text(
        "from chunkcalc import solve\n"
        'found = solve(model="llama-3.1-8b", gpu="h100-sxm", prompt="4k", ttft="1s", tpot=0.03)\n'
        "budget: int = found.budget\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "consumer.py"], cwd=tmp_path, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
