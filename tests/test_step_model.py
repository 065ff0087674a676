"""The time of a step as source text: the very numbers of the full step, in Python and in C."""

import ctypes
import json
import random
import shutil
import subprocess

import pytest

from chunkcalc.answer.question import Question
from chunkcalc.answer.resolve import resolve
from chunkcalc.time import written
from chunkcalc.time.step import timer_for

MODELS = ("llama-3.1-70b", "gpt-oss-120b", "deepseek-v3", "qwen3-next-80b-a3b", "gemma-4-26b-a4b")


def timer(model):
    return timer_for(resolve(Question(model=model, gpu="h200-sxm", tp=8, prompt=1000, output=2)).deployment, 0)


def points(count=300, seed=1):
    rng = random.Random(seed)
    for _ in range(count):
        yield rng.randint(0, 16384), rng.randint(0, 60_000), rng.randint(0, 512), rng.randint(1, 60_000)


@pytest.mark.parametrize("model", MODELS)
def test_python_gives_the_full_step(model):
    own = timer(model)
    room = {}
    exec(written.python(own, ["a model"]), room)
    for point in points():
        assert room["step_seconds"](*point) == pytest.approx(own.expected(*point), rel=1e-12)


def test_the_largest_chunk_is_the_inverse():
    own = timer("llama-3.1-70b")
    room = {}
    exec(written.python(own, []), room)
    for _, p, b, s in points(60, 2):
        limit = 0.02
        chunk = room["c_max"](p, b, s, limit)
        assert chunk == 0 or own.expected(chunk, p, b, s) <= limit
        assert chunk == written.MOST or own.expected(chunk + 1, p, b, s) > limit


@pytest.mark.skipif(shutil.which("cc") is None, reason="no compiler of C on this machine")
@pytest.mark.parametrize("model", MODELS)
def test_c_gives_what_python_gives(model, tmp_path):
    own = timer(model)
    (tmp_path / "step.c").write_text(written.c(own, ["a model"]))
    command = ["cc", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", "step.so", "step.c", "-lm"]
    subprocess.run(command, cwd=tmp_path, check=True)
    library = ctypes.CDLL(str(tmp_path / "step.so"))
    library.step_seconds.restype = ctypes.c_double
    library.step_seconds.argtypes = [ctypes.c_double] * 4
    for point in points():
        assert library.step_seconds(*point) == pytest.approx(own.expected(*point), rel=1e-12)


def test_every_format_is_written(tmp_path, run_cli):
    words = ("step-model", "--model", "llama-3.1-8b", "--gpu", "h100")
    assert "def step_seconds" in run_cli(*words).stdout
    assert json.loads(run_cli(*words, "--json").stdout)["schema"] == "chunkcalc.step-model/1"
    for name, part in (("a.c", "double step_seconds"), ("a.py", "def c_max"), ("a.json", '"lines"')):
        assert run_cli(*words, "-o", name, folder=tmp_path).returncode == 0
        assert part in (tmp_path / name).read_text()
        assert run_cli(*words, "-o", name, folder=tmp_path).returncode == 2
    assert run_cli(*words, "-o", "a.txt", folder=tmp_path).returncode == 2
