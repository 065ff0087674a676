"""Write the rules into docs/gate.md, between its two marks, from the catalogue that the gate uses."""

from pathlib import Path

from chunkcalc.gate.catalogue import rules
from chunkcalc.report.gate.catalogue import documentation

PAGE = Path(__file__).parent.parent / "docs" / "gate.md"
BEGIN, END = "<!-- rules -->\n", "<!-- end of rules -->\n"


def page(text: str) -> str:
    """The page with the rules as they are now."""
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    return before + BEGIN + documentation(rules()) + END + after


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
