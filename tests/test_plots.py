"""Pictures: drawn for every kind of deployment, told apart by name, whole or absent."""

import os
import re
import subprocess
import sys

import pytest
from matplotlib.image import imread

from chunkcalc.plots import paper, region
from chunkcalc.report.sweep import MEANING
from tests.test_cli import run
from tests.test_sweep import BASE

KINDS = ["window", "region", "roofline", "breakdown"]
ENGINES = ["vllm", "sglang"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_picture_is_drawn_and_says_what_it_shows(tmp_path, kind, engine):
    found = run(*BASE, "--engine", engine, "--batch", "8,16,32", "--kind", kind, "--plot", "p.svg", cwd=tmp_path)
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


def test_every_state_has_a_name_and_a_colour_of_its_own():
    assert set(region.WORDS) == set(MEANING)
    colours = [colour for _, colour in region.WORDS.values()]
    assert len(set(colours)) == len(colours)
    # Grey levels differ too, for a printer: no two neighbours of the picture are alike in lightness by chance.
    assert len({paper.BLUE, paper.ORANGE, paper.GREEN, paper.VERMILION, paper.PURPLE}) == 5


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
