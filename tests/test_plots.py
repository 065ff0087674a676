"""Pictures: drawn for every kind of deployment, told apart by name, whole or absent."""

import math
import os
import re
import subprocess
import sys

import pytest
from matplotlib.colors import to_rgb
from matplotlib.image import imread

from chunkcalc import Question
from chunkcalc.answer.judged import outlook
from chunkcalc.answer.resolve import resolve
from chunkcalc.answer.solve import answer as solve_answer
from chunkcalc.grids.points import points
from chunkcalc.plots import breakdown, paper, region, roofline, window
from chunkcalc.plots.states import COLOURS
from chunkcalc.report.chart import LETTERS, STYLES
from chunkcalc.report.sweep import MEANING
from chunkcalc.time.step import StepTimer
from tests.test_cli import run
from tests.test_sweep import BASE

KINDS = ["window", "region", "roofline", "breakdown"]
ENGINES = ["vllm", "sglang"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_picture_is_drawn_and_says_what_it_shows(tmp_path, kind, engine):
    limits = ["--itl", "none"] if engine == "sglang" else []  # prompts first stops every stream for a whole prompt
    found = run(
        *BASE, *limits, "--engine", engine, "--batch", "8,16,32", "--kind", kind, "--plot", "p.svg", cwd=tmp_path
    )
    assert found.returncode == 0, found.stderr
    text = " ".join(re.findall(r"<!-- (.*?) -->", (tmp_path / "p.svg").read_text()))
    assert f"llama-3.1-8b, bf16, on h100-sxm ({engine})" in text
    wanted = {
        "window": ["time to first token (s)", "time per token (ms)", "limit 500 ms", "limit 30.0 ms", "textbook c*"],
        "region": ["chunk: prompt tokens per step", "batch: requests decoding at once", "every limit holds"],
        "roofline": ["decodes alone", "memory 3.35 TB/s", "FLOP per byte"],
        "breakdown": ["share of the longest step (%)", "mlp", "longest step"],
    }[kind]
    for words in wanted:
        assert words in text
    assert os.listdir(tmp_path) == ["p.svg"]


SGLANG = {"engine": "sglang", "itl": math.inf}


def drawn(kind, chunks=(128, 256, 400, 512, 1024, 4096), batch=24, **changes):
    """An answer, its figure, and what it was drawn from."""
    given = {"model": "llama-3.1-8b", "gpu": "h100-sxm", "prompt": 4000, "output": 300, "ttft": 0.5, "tpot": 0.03}
    question = Question(**{**given, "batch": batch, **changes})
    answer, case = solve_answer(question, with_remedies=False), resolve(question)
    found = list(points(case, chunks, [batch], [case.workload.context]))
    figure = {
        "window": lambda: window.draw("t", answer, found), "roofline": lambda: roofline.draw("t", answer, chunks),
        "breakdown": lambda: breakdown.draw("t", answer, chunks), "region": lambda: region.draw("t", found),
    }[kind]()  # fmt: skip
    return answer, figure, found


@pytest.mark.parametrize("changes", [{}, SGLANG, {"itl": 0.05}, {"ttft": None}, {"tpot": None}, {"itl": math.inf}])
def test_the_window_picture_draws_what_is_judged(changes):
    answer, figure, found = drawn("window", **changes)
    top, middle, _ = figure.axes
    assert list(top.lines[0].get_ydata()) == [point.ttft_s for point in found]
    judged = "tpot_s" if answer.slo.tpot is not None else "itl_s"
    assert list(middle.lines[0].get_ydata()) == [pytest.approx(1e3 * getattr(point, judged)) for point in found]
    limits = [line.get_ydata()[0] for axes in (top, middle) for line in axes.lines if line.get_linestyle() == "--"
              and len(line.get_ydata())]  # fmt: skip
    wanted = [answer.slo.ttft, *(1e3 * each for each in (answer.slo.tpot, answer.slo.itl) if each)]
    assert limits == [pytest.approx(each) for each in wanted if each is not None]


def test_the_window_picture_shades_what_holds_and_says_what_does_not():
    answer, figure, found = drawn("window")
    top, _, strip = figure.axes
    shaded = [patch for patch in top.patches if patch.get_facecolor()[:3] == to_rgb(paper.GREEN)]
    assert len(shaded) == 1
    low, high = shaded[0].get_x(), shaded[0].get_x() + shaded[0].get_width()
    for point in found:
        assert (low <= point.chunk <= high) == (point.state == "ok"), point
    named = [text.get_text() for text in strip.get_legend().get_texts()]
    assert named == [words for state, words in MEANING.items() if state in {point.state for point in found}]
    assert f"set {answer.chunk}" in " ".join(text.get_text() for text in top.texts)


@pytest.mark.parametrize("changes", [{}, SGLANG])
def test_the_roofline_has_each_step_where_it_is(changes):
    answer, figure, _ = drawn("roofline", **changes)
    single = [line for line in figure.axes[0].lines if len(line.get_xdata()) == 1]
    markers = [line for line in single if line.get_marker() in ("o", "*", "s")]
    timer = StepTimer(answer.case.deployment)
    riding = 24 if not changes else 0
    for chunk, line in zip((0, 128, 256, 400, 512, 1024, 4096), markers, strict=True):
        prompts = max(1, chunk / 4000)
        step = timer.step(chunk, 0, riding if chunk else 24, 4150.0, prompts)
        flops = sum(k.launches * k.flops for k in timer.kernels(chunk, 0, riding if chunk else 24, 4150.0, prompts))
        assert line.get_xdata()[0] == pytest.approx(step.intensity)
        assert line.get_ydata()[0] == pytest.approx(flops / step.expected)


@pytest.mark.parametrize("changes", [{}, SGLANG, {"pp": 2, "batch": 13}])
def test_the_breakdown_is_that_of_the_longest_step(changes):
    answer, figure, _ = drawn("breakdown", **changes)
    prefill = outlook(answer.case.deployment, answer.workload, answer.slo).expected.prefill
    timer = StepTimer(answer.case.deployment)
    layers = figure.axes[0].collections
    for index, chunk in enumerate((128, 256, 400, 512, 1024, 4096)):
        step = timer.step(*prefill.longest(chunk))
        bottoms = [layer.get_paths()[0].vertices for layer in layers]
        heights = sorted(high_of(vertices, chunk) for vertices in bottoms)
        whole = sorted(step.breakdown.values())
        assert heights[-1] == pytest.approx(100 * whole[-1] / step.expected, abs=1e-6), (index, chunk)
        assert sum(heights) == pytest.approx(100)


def high_of(vertices, x):
    """The height of a layer of a stack at x."""
    at = vertices[abs(vertices[:, 0] - x) < 1e-9, 1]
    return max(at) - min(at)


def test_a_chunk_is_called_what_it_is():
    assert paper.word(drawn("region")[0]) == "set"
    assert paper.word(drawn("region", tpot=0.001)[0]) == "closest"
    assert paper.word(drawn("region", chunk=300)[0]) == "judged"


def test_a_png_holds_a_picture(tmp_path):
    assert run(*BASE, "--plot", "p.png", cwd=tmp_path).returncode == 0
    pixels = imread(tmp_path / "p.png")
    assert pixels.shape[0] > 600
    assert pixels.shape[1] > 900
    assert pixels[..., :3].std() > 0.05, "an empty page"


def test_the_same_answer_gives_the_same_file(tmp_path):
    for name in ("a.svg", "b.svg"):
        run(*BASE, "--plot", name, cwd=tmp_path)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_every_state_has_a_name_a_letter_and_a_colour_of_its_own():
    assert set(COLOURS) == set(MEANING) == set(LETTERS)
    for each in (list(COLOURS.values()), list(LETTERS.values()), list(MEANING.values())):
        assert len(set(each)) == len(each)
    assert set(LETTERS) < set(STYLES)


def test_without_matplotlib_an_error_says_what_to_install(tmp_path):
    blocked = "import sys; sys.modules['matplotlib'] = None; import importlib.util as u; f = u.find_spec;"
    blocked += "u.find_spec = lambda n, *a: None if n == 'matplotlib' else f(n, *a);"
    blocked += "from chunkcalc.cli.main import main; main()"
    command = [sys.executable, "-c", blocked, *BASE, "--plot", "p.svg"]
    found = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert found.returncode == 2
    assert "pip install 'chunkcalc[plot]'" in found.stderr
    assert not found.stdout
    assert os.listdir(tmp_path) == []
