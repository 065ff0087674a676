"""What the documentation shows is what the program prints."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def write_docs():
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        import write_docs as module  # noqa: PLC0415
    finally:
        sys.path.pop(0)
    return module


def test_the_worked_answers_are_what_the_commands_print():
    assert write_docs().answered(README) == README


def test_the_first_command_ends_in_the_question_of_the_worked_answer():
    command = next(line for line in README.splitlines() if ".venv/bin/chunkcalc solve" in line)
    question = command.split(".venv/bin/chunkcalc ")[1].removesuffix(" && ")
    assert f"<!-- answer: {question} -->" in README


def test_the_python_example_runs():
    block = re.search(r"From Python:\n\n((?:    .*\n)+)", README)[1]
    code = re.sub(r"^    ", "", block, flags=re.M)
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.startswith("feasible 384 Window(")


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda path: path.name
)
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
        assert (path.parent / target).exists(), target


def test_every_option_in_the_readme_exists():
    text = subprocess.run(
        [sys.executable, "-m", "chunkcalc.cli.main", "solve", "--help"],
        capture_output=True, text=True, check=True, env={"COLUMNS": "200", "PATH": "", "TERM": "dumb"},
    ).stdout  # fmt: skip
    options = {word for line in re.findall(r"chunkcalc (solve .*)", README) for word in shlex.split(line)}
    for option in (word for word in options if word.startswith("--") and "-->" not in word):
        assert option in text
