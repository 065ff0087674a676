"""What the documentation shows is what the program prints."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from chunkcalc.catalog.lookup import load_hardware
from chunkcalc.cli.main import program

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


@pytest.mark.slow
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_worked_answers_are_what_the_commands_print(path):
    module, text = write_docs(), path.read_text()
    assert module.computed(path.name, module.answered(text)) == text


def test_every_command_is_documented():
    text = (ROOT / "docs" / "commands.md").read_text()
    for name in names(get_command(program())):
        assert f"\n## {name}\n" in text


def names(group, prefix=""):
    for name, command in group.commands.items():
        yield from names(command, f"{prefix}{name} ") if isinstance(command, TyperGroup) else [prefix + name]


SHELL = re.compile(r"^ {4,}(?:script: )?(?:helm template \. \| )?chunkcalc (.+)$", re.M)


@pytest.fixture(scope="module")
def place():
    """What the commands of the pages read, besides the examples: files a user has."""
    module = write_docs()
    with module.folder() as folder:
        shutil.copytree(ROOT / "examples" / "good", folder / "deploy")
        shutil.copytree(ROOT / "examples" / "bench", folder / "bench")
        shutil.copy(ROOT / "examples" / "bench" / "results.csv", folder / "results.csv")
        shutil.copy(ROOT / "examples" / "bench" / "metrics.txt", folder / "metrics.txt")
        shutil.copy(ROOT / "examples" / "good" / "llama-8b.yaml", folder / "deploy.yaml")
        configs = json.loads((ROOT / "tests" / "configs.json").read_text())
        (folder / "config.json").write_text(json.dumps(configs["llama-3.1-8b"]))
        rows = "".join(f"{0.7 * index:.1f},{900 + 10 * index},{40 + index}\n" for index in range(30))
        (folder / "trace.csv").write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + rows)
        for words in ("init -q -b main", "add -A", "-c user.name=t -c user.email=t@t commit -q -m 1",
                      "update-ref refs/remotes/origin/main main"):  # fmt: skip
            subprocess.run(["git", *words.split()], cwd=folder, check=True)
        module.run("calibrate bench/*.json --gpu h100-sxm --engine vllm -o my-h100.toml", folder).check_returncode()
        yield folder


def shown(path):
    """Command lines in blocks of code that are no worked answers, in their order."""
    return [line for line in SHELL.findall(path.read_text()) if not line.endswith("\\")]


@pytest.mark.slow
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_command_in_a_block_runs(path, place):
    deployment = (place / "deploy" / "llama-8b.yaml").read_text()
    for line in shown(path):
        written = re.search(r"(?:-o|--plot) (\S+)", line)
        if written:
            (place / written[1]).unlink(missing_ok=True)
        found = write_docs().run(line, place, deployment)
        assert found.returncode in (0, 1), (line, found.stderr)
        assert "error" not in found.stderr, (line, found.stderr)
        assert not written or (place / written[1]).stat().st_size > 0, line


def test_the_bands_of_the_readme_are_those_that_ship():
    bands = load_hardware("h100-sxm").record.bands
    every = [band for kinds in bands.values() for band in kinds.values()]
    dense = bands["vllm"]["dense"]
    tpot, ttft = (max(getattr(band, name) for band in every) for name in ("tpot", "ttft"))
    told = (
        f"about ±{100 * dense.tpot:.0f} % for TPOT and ±{100 * dense.ttft:.0f} % for TTFT of dense models under vLLM, "
        f"up to ±{100 * tpot:.0f} % and ±{100 * ttft:.0f} % for what was measured least, "
        f"±{100 * min(band.gap for band in every):.0f} % and more for the longest gap"
    )
    assert told in README


def test_commands_are_found_in_blocks():
    assert len(shown(ROOT / "README.md")) >= 15
    assert len(shown(ROOT / "docs" / "tutorial.md")) >= 6


def test_the_first_command_ends_in_the_question_of_the_worked_answer():
    command = next(line for line in README.splitlines() if ".venv/bin/chunkcalc solve" in line)
    question = command.split(".venv/bin/chunkcalc ")[1].removesuffix(" && ")
    assert f"<!-- answer: {question} -->" in README


def test_the_python_example_runs():
    block = re.search(r"From Python[^\n]*:\n\n((?:    .*\n)+)", README)[1]
    code = re.sub(r"^    ", "", block, flags=re.M)
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.startswith("feasible 512 Window(")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
        assert (path.parent / target).exists(), target


def commands(text: str) -> list[list[str]]:
    """The command lines of chunkcalc in code, up to a pipe or the engine's own words after `--`."""
    joined = re.sub(r" \\\n\s*", " ", text)
    found = re.findall(r"(?:^ {4,}|\$ |\| |&& |bin/|script: |`)chunkcalc ([^|&`\n]+)", joined, re.M)
    return [list(takewhile(lambda word: word != "--", shlex.split(line))) for line in found]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_command_and_option_shown_exists(path):
    for words in commands(path.read_text()):
        command, names = get_command(program()), iter(words)
        while isinstance(command, TyperGroup):
            command = command.commands[next(names)]
        known = {"-h", "--help"} | options_of(command)
        if command.name == "compare":  # takes those of solve, for one side in quotes or for all
            known |= options_of(get_command(program()).commands["solve"])
        said = [part for word in words for part in (word.split() if " " in word and word.startswith("-") else [word])]
        assert {word.split("=")[0] for word in said if re.match("--?[a-z]", word)} <= known, words


def options_of(command):
    """The names of a command's options."""
    return {name for each in command.params for name in (*each.opts, *each.secondary_opts)}


def test_command_lines_are_found_wherever_they_stand():
    shown = (
        "    $ chunkcalc gpus list\n    helm template . | chunkcalc check -\n`chunkcalc rules CC301` `chunkcalc.toml`"
    )
    assert commands(shown) == [["gpus", "list"], ["check", "-"], ["rules", "CC301"]]
    assert {words[0] for page in PAGES for words in commands(page.read_text())} >= {"solve", "check", "engine", "fleet"}
