"""Write the generated parts of the documentation.

    python benchmarks/write_docs.py [--load] [--served] [EVIDENCE_FOLDER]

fills the worked answers of README.md (after `<!-- answer: ... -->`) by running their command, the
rules of docs/gate.md, and, where the evidence folder is given, the tables of docs/accuracy.md and the
traces of docs/load.md; `--load` fills the rest of docs/load.md and `--served` docs/tails.md and the tables of
served latency in docs/accuracy.md, minutes each. Tests hold the answers to what the commands print, and the
rules to the catalogue.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

from chunkcalc.gate.catalogue import rules
from chunkcalc.report.gate.catalogue import documentation

ROOT = Path(__file__).parent.parent
MARK = re.compile(r"<!-- answer: (.*?) -->\n")
BLOCK = re.compile(r"\A(?:    .*\n|\n(?=    |\n))*")


def answered(text: str) -> str:
    """The text with the output of its command after every `<!-- answer: ... -->`."""
    head, *parts = MARK.split(text)
    for command, rest in zip(parts[::2], parts[1::2], strict=True):
        run = [sys.executable, "-m", "chunkcalc.cli.main", *shlex.split(command)]
        found = subprocess.run(run, capture_output=True, text=True, check=False)
        lines = [f"$ chunkcalc {command}", *found.stdout.rstrip().splitlines()]
        block = "".join(f"    {line}".rstrip() + "\n" for line in lines)
        head += f"<!-- answer: {command} -->\n{block}{BLOCK.sub('', rest)}"
    return head


def main(arguments: list[str]) -> None:
    """Rewrite the files in place."""
    for name in ("README.md",):
        path = ROOT / name
        path.write_text(answered(path.read_text()))
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
