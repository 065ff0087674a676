"""What the documentation shows is what the program prints."""

import re
import shlex
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from chunkcalc.cli.main import app

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


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


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
        assert (path.parent / target).exists(), target


def commands(text: str) -> list[list[str]]:
    """The command lines of chunkcalc in code, up to a pipe or the engine's own words after `--`."""
    found = re.findall(r"(?:^ {4,}|\$ |\| |&& |bin/|script: |`)chunkcalc ([^|&`\n]+)", text, re.M)
    return [list(takewhile(lambda word: word != "--", shlex.split(line))) for line in found]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_command_and_option_shown_exists(path):
    for words in commands(path.read_text()):
        command, names = get_command(app), iter(words)
        while isinstance(command, TyperGroup):
            command = command.commands[next(names)]
        known = {"-h", "--help"} | {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
        assert {word.split("=")[0] for word in words if re.match("--?[a-z]", word)} <= known, words


def test_command_lines_are_found_wherever_they_stand():
    shown = (
        "    $ chunkcalc gpus list\n    helm template . | chunkcalc check -\n`chunkcalc rules CC301` `chunkcalc.toml`"
    )
    assert commands(shown) == [["gpus", "list"], ["check", "-"], ["rules", "CC301"]]
    assert {words[0] for page in PAGES for words in commands(page.read_text())} >= {"solve", "check", "engine", "fleet"}
