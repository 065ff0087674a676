"""Write the generated parts of the documentation.

    python benchmarks/write_docs.py [--load] [--served] [EVIDENCE_FOLDER]

fills the worked answers of README.md and docs/ (after `<!-- answer: ... -->`) by running their commands, the rules of
docs/gate.md, the derivation, the list of commands, and the pictures; and, where the evidence folder is given, the
tables of docs/accuracy.md and the traces of docs/load.md; `--load` fills the rest of docs/load.md and `--served`
docs/tails.md and the tables of served latency in docs/accuracy.md, minutes each. Tests hold the answers to what the
commands print, the rules to the catalogue, and the list of commands to the program.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory

import command_reference

from chunkcalc import Question, StepTimer, solve
from chunkcalc.answer.resolve import resolve
from chunkcalc.gate.catalogue import rules
from chunkcalc.report.derivation import nomenclature
from chunkcalc.report.gate.catalogue import documentation
from chunkcalc.units import format_count, format_duration, format_si

ROOT = Path(__file__).parent.parent
MARK = re.compile(r"<!-- answer: (.*?) -->\n")
BLOCK = re.compile(r"\A(?:    .*\n|\n(?=    |\n))*")


def answered(text: str) -> str:
    """The text with the output of its command after every `<!-- answer: ... -->`, run in one folder, in order."""
    head, *parts = MARK.split(text)
    with folder() as place:
        for command, rest in zip(parts[::2], parts[1::2], strict=True):
            found = run(command, place)
            lines = [f"$ chunkcalc {command}", *found.stdout.rstrip().splitlines()]
            block = "".join(f"    {line}".rstrip() + "\n" for line in lines)
            head += f"<!-- answer: {command} -->\n{block}{BLOCK.sub('', rest)}"
    return head


@contextmanager
def folder() -> Iterator[Path]:
    """A folder of its own with what the commands of the documentation read, so that they leave nothing behind."""
    with TemporaryDirectory() as name:
        place = Path(name)
        shutil.copytree(ROOT / "examples", place / "examples")
        yield place


def run(command: str, place: Path, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """A command line of chunkcalc as a shell would run it, without one."""
    words = [
        found for word in shlex.split(command)
        for found in (sorted(str(path.relative_to(place)) for path in place.glob(word)) if "*" in word else [word])
    ]  # fmt: skip
    python = [sys.executable, "-m", "chunkcalc.cli.main", *words]
    return subprocess.run(python, capture_output=True, text=True, check=False, cwd=place, input=stdin)


def main(arguments: list[str]) -> None:
    """Rewrite the files in place."""
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        before = path.read_text(encoding="utf-8")
        path.write_text(computed(path.name, answered(before)), encoding="utf-8")
    pictures()
    path = ROOT / "docs" / "gate.md"
    before, rest = path.read_text(encoding="utf-8").split("<!-- rules -->\n")
    after = rest.split("<!-- end of rules -->\n")[1]
    listed = f"<!-- rules -->\n{documentation(rules())}<!-- end of rules -->\n"
    path.write_text(before + listed + after, encoding="utf-8")
    if "--load" in arguments:
        import load_table  # noqa: PLC0415 - takes minutes

        arguments.remove("--load")
        path = ROOT / "docs" / "load.md"
        path.write_text(tabulated(path.read_text(), {"load": load_table.table()}))
    served = "--served" in arguments
    if served:
        arguments.remove("--served")
    if arguments:
        import chunk_attention  # noqa: PLC0415 - these need the evidence folder
        import fit_kernels  # noqa: PLC0415
        import reference_steps  # noqa: PLC0415
        import trace_replay  # noqa: PLC0415

        folder = Path(arguments[0])
        tables = {
            "kernels": fit_kernels.table(folder / "kernels"),
            "reference steps": reference_steps.table(reference_steps.errors(folder)),
            "chunk attention": chunk_attention.table(folder),
        }
        if served:
            import serving_tables  # noqa: PLC0415 - takes minutes

            tables |= serving_tables.tables(folder)
            tails_of(folder)
        path = ROOT / "docs" / "accuracy.md"
        path.write_text(tabulated(path.read_text(), tables))
        path = ROOT / "docs" / "load.md"
        path.write_text(tabulated(path.read_text(), {"traces": trace_replay.table(folder)}))


def computed(name: str, text: str) -> str:
    """A page with its tables that are computed rather than measured."""
    if name == "README.md":
        return tabulated(text, {"errors": errors((ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8"))})
    if name == "questions.md":
        return tabulated(text, {"ride along": riding(), "chunk costs": costs()})
    if name == "derivation.md":
        head = text.split("<!-- derivation -->\n", maxsplit=1)[0]
        return f"{tabulated(head, {'nomenclature': nomenclature()})}<!-- derivation -->\n{run(EXPLAINED, ROOT).stdout}"
    if name == "commands.md":
        return f"{text.split('<!-- commands -->', maxsplit=1)[0]}<!-- commands -->\n{command_reference.text()}"
    return text


def errors(accuracy: str) -> str:
    """The errors that matter most, out of the tables of docs/accuracy.md."""

    def row(table: str, first: str) -> list[str]:
        rows = takewhile(bool, accuracy.split(f"<!-- {table} -->\n")[1].splitlines())
        return next(cells for cells in (line.strip("| ").split(" | ") for line in rows) if cells[0] == first)

    served, steps = row("served", "**all**"), row("reference steps", "all")
    rows = [
        ("public benchmark runs, model, GPU and engine left out of the fit: TPOT", served[1], served[3]),
        ("the same: TTFT", served[5], served[7]),
        ("steps composed of measured kernels, six GPUs, bf16 to nvfp4", steps[1], f"{steps[2]} / {steps[3]}"),
    ]
    told = [_line((about, f"{int(count):,}", f"{found} %")) for about, count, found in rows]
    return "\n".join([_line(("against", "rows", "error")), "|---|---:|---:|", *told])


DEPLOYMENT = "--model llama-3.1-70b --gpu h100-sxm --tp 4 --weights fp8 --prompt 8192 --output 1024"
LIMITS = "--ttft 2s --tpot 60ms"
EXPLAINED = f"explain {DEPLOYMENT} --batch 32 {LIMITS} --markdown"
PICTURES = {"window": "32", "region": "1:256", "roofline": "32", "breakdown": "32"}


def _questions_timer() -> StepTimer:
    question = Question(model="llama-3.1-70b", gpu="h100-sxm", tp=4, weights="fp8", prompt=8192, output=1024)
    return StepTimer(resolve(question).deployment)


def riding() -> str:
    """What decodes cost alone, and beside a chunk."""
    timer, context, chunk = _questions_timer(), 8704.0, 448
    head = ("decodes", "a step of them alone", "the chunk alone", "both in one step", "the decodes add", "beside alone")
    lines = [_line(head), _line(["---:"] * len(head))]
    bare = timer.expected(chunk, 0, 0, context)
    for b in (8.0, 16.0, 32.0, 64.0):
        alone, both = timer.expected(0, 0, b, context), timer.expected(chunk, 0, b, context)
        shown = [format_duration(time) for time in (alone, bare, both, both - bare)]
        lines.append(_line([f"{b:.0f}", *shown, f"{100 * (both - bare) / alone:.0f} %"]))
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def costs() -> str:
    """What cutting a prompt costs: steps, weights read again, arithmetic, the stall it removes."""
    lines = [
        "| chunk | steps of a prompt | weights read, per GPU | prompt tokens/s | longest step |",
        "|---:|---:|---:|---:|---:|",
    ]
    for chunk in (128, 256, 480, 1024, 2048, 8192):
        found = solve(model="llama-3.1-70b", gpu="h100-sxm", tp=4, weights="fp8", prompt=8192, output=1024, batch=32,
                      chunk=chunk, ttft=2.0, tpot=0.06)  # fmt: skip
        steps = -(-8192 // chunk)
        weights = format_si(steps * found.capacity.weights_bytes, "B")
        rate = format_count(found.chunking.prompt_tokens_per_s)
        lines.append(_line([f"{chunk:,}", str(steps), weights, rate, format_duration(found.expected.step_s)]))
    return "\n".join(lines)


def pictures() -> None:
    """The pictures of the tutorial."""
    place = ROOT / "docs" / "pictures"
    place.mkdir(exist_ok=True)
    for kind, batch in PICTURES.items():
        command = f"sweep {DEPLOYMENT} {LIMITS} --batch {batch} --kind {kind} --plot {place / kind}.svg --force"
        run(command, ROOT).check_returncode()


def tails_of(folder: Path) -> None:
    """Write docs/tails.md: everything between a `<!-- name -->` and its `<!-- end -->`."""
    import chunk_sweeps  # noqa: PLC0415 - these need the evidence folder, and minutes
    import longest_step  # noqa: PLC0415
    import tails  # noqa: PLC0415

    path = ROOT / "docs" / "tails.md"
    text = path.read_text(encoding="utf-8")
    for name, module in (("longest step", longest_step), ("tails", tails), ("chunk sweeps", chunk_sweeps)):
        mark = f"<!-- {name} -->\n"
        head, rest = text.split(mark)
        text = f"{head}{mark}{module.table(folder)}\n<!-- end -->{rest.split('<!-- end -->', 1)[1]}"
    path.write_text(text, encoding="utf-8")


def tabulated(text: str, tables: dict[str, str]) -> str:
    """The text with each table after its `<!-- name -->`."""
    for name, table in tables.items():
        mark = f"<!-- {name} -->\n"
        head, tail = text.split(mark)
        tail = re.sub(r"\A(\|.*\n)*", "", tail)
        text = f"{head}{mark}{table}\n{tail}"
    return text


if __name__ == "__main__":
    main(sys.argv[1:])
