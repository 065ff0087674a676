"""A derivation as Markdown and as a LaTeX document."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from chunkcalc.derivation.derive import Derivation, Shown
from chunkcalc.derivation.nomenclature import NOMENCLATURE
from chunkcalc.derivation.symbolic import EQUATIONS
from chunkcalc.report import explain as words

PREAMBLE = r"""% Compile twice: the tables take their widths from the first run.
\documentclass{article}
\usepackage[a4paper,margin=2.2cm]{geometry}
\usepackage{amsmath,amssymb,longtable}
\allowdisplaybreaks
\begin{document}
\small
"""
LONG = 210  # characters of LaTeX that fill a line
ESCAPES = {
    "%": r"\%",
    "_": r"\_",
    "&": r"\&",
    "#": r"\#",
    "±": r"$\pm$",
    "Ψ": r"$\Psi$",
    "κ": r"$\kappa$",
    "·": r"$\cdot$",
    "^": r"\^{}",
}


def markdown(found: Derivation) -> str:
    """The derivation as Markdown."""
    parts = [f"**{words.subject(found)}**"]
    for head, equations in ((words.TEXTBOOK, found.textbook), (words.CORRECTED, found.corrected)):
        parts.append(f"## {head}")
        parts += [f"- {note}" for note in found.notes] if head == words.TEXTBOOK else []
        parts += [markdown_equation(each) for each in equations]
    if found.departures:
        parts += [f"## {words.DEPARTURES}", "\n".join(f"- {_starless(each)}" for each in found.departures)]
    if found.floor is not None:
        formula = "\n".join(f"    {row}" for row in words.floor_rows(found))
        parts += [f"## {words.FLOOR}", formula, _bold(words.floor_words(found))]
    *rows, (name, step, ttft, why) = words.term_rows(found)
    rows.append((f"**{name}**", f"**{step}**", f"**{ttft}**", why))
    parts += [f"## {words.TERMS}", _table(("", "longest step", "TTFT", "why"), rows), _bold(words.terms_words(found))]
    moved = [(words.change_name(change), *words.change_cells(found.base, change)) for change in found.changes]
    parts += [f"## {words.CHANGES}", _table(("10 % more", "window", "c_max", "step", "TTFT", "mean TPOT"), moved)]
    parts.append(_bold(words.change_words(found)))
    told = (f"- **{head}**: {_starless(answer)}" for head, answer in found.questions)
    parts += [f"## {words.QUESTIONS}", "\n".join(told), _bold(words.conclusion(found))]
    return "\n\n".join(parts) + "\n"


def markdown_equation(shown: Shown) -> str:
    """One equation as Markdown."""
    rows = [f"{shown.left} = {shown.symbols}", f"  = {shown.numbers}", f"  = {shown.value}"]
    if shown.inverse:
        rows.append(f"from {shown.inverse}")
    body = "\n".join(f"    {row}" for row in rows)
    return f"### {shown.key}: {shown.title}\n\n{body}\n\n{_bold(shown.takeaway)} ({shown.source})"


def nomenclature() -> str:
    """The letters as a Markdown table."""
    rows = [(each.symbol, f"`{name}`", each.unit, each.meaning) for name, each in NOMENCLATURE.items()]
    seen = {each.symbol for each in NOMENCLATURE.values()}
    for key, each in EQUATIONS.items():
        if each.left[0] not in seen and each.unit != "bool":
            seen.add(each.left[0])
            rows.append((each.left[0], "", each.unit, f"{each.title} ({key})"))
    return _table(("symbol", "in the code", "unit", "meaning"), rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [tuple(head), ("---", *["---"] * (len(head) - 1)), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "."


def _bold(text: str) -> str:
    """A sentence in bold Markdown, whose own stars stay stars."""
    return f"**{_starless(_sentence(text))}**"


def _starless(text: str) -> str:
    return text.replace("*", r"\*")


def latex(found: Derivation) -> str:
    """The derivation as a document that LaTeX compiles."""
    parts = [PREAMBLE, rf"\noindent\textbf{{{_escaped(words.subject(found))}}}"]
    for head, equations in ((words.TEXTBOOK, found.textbook), (words.CORRECTED, found.corrected)):
        parts.append(rf"\section*{{{_escaped(head)}}}")
        parts += _latex_list(found.notes) if head == words.TEXTBOOK else []
        parts += [latex_equation(each) for each in equations]
    if found.departures:
        parts += [rf"\section*{{{_escaped(words.DEPARTURES)}}}", *_latex_list(found.departures)]
    if found.floor is not None:
        parts += [rf"\section*{{{_escaped(words.FLOOR)}}}", *_latex_floor(found)]
    parts += [rf"\section*{{{_escaped(words.TERMS)}}}", *_latex_terms(found)]
    parts += [rf"\section*{{{_escaped(words.CHANGES)}}}", *_latex_changes(found)]
    told = [f"{head}: {answer}" for head, answer in found.questions]
    parts += [rf"\section*{{{_escaped(words.QUESTIONS)}}}", *_latex_list(told)]
    parts.append(r"\section*{Nomenclature}")
    parts += [
        r"\begin{longtable}{lll}",
        *(rf"${each.tex}$ & {_escaped(each.unit)} & {_escaped(each.meaning)} \\" for each in NOMENCLATURE.values()),
        r"\end{longtable}", rf"\noindent\textbf{{{_escaped(_sentence(words.conclusion(found)))}}}", r"\end{document}",
    ]  # fmt: skip
    return "\n".join(parts) + "\n"


def latex_equation(shown: Shown) -> str:
    """One equation as a paragraph of LaTeX."""
    unit = EQUATIONS[shown.key].unit
    rows = [*shown.tex, rf"{EQUATIONS[shown.key].left[1]} = \text{{{_escaped(shown.value)}}}"]
    body = " \\\\\n".join(row.replace(" = ", " &= ", 1) for row in rows)
    size = "scriptsize" if max(map(len, rows)) > LONG else "footnotesize"
    title = f"{shown.key}: {shown.title}" + (f" [{unit}]" if unit not in ("1", "bool") else "")
    return (
        rf"\paragraph{{{_escaped(title)}}}" + "\n" + rf"{{\{size}\begin{{align*}}{body}\end{{align*}}}}" + "\n"
        + rf"\textbf{{{_escaped(_sentence(shown.takeaway))}}} \emph{{({_escaped(shown.source)})}}"
    )  # fmt: skip


def _latex_list(notes: Sequence[str]) -> list[str]:
    if not notes:
        return []
    return [r"\begin{itemize}", *(rf"\item {_escaped(note)}" for note in notes), r"\end{itemize}"]


def _latex_floor(found: Derivation) -> Iterator[str]:
    assert found.floor is not None
    sides = (side.replace(" ·", r"\cdot").replace("^2", "^{2}") for side in found.floor.sides)
    rows = r" \\ ".join(re.sub(r"([mnpfu]?s)\b", r"\\,\\mathrm{\1}", side) for side in sides)
    yield rf"\[ t \ge \max\begin{{cases}} {rows} \end{{cases}} \]"
    yield rf"This is {_escaped(words.floor_value(found))}. \textbf{{{_escaped(_sentence(words.floor_words(found)))}}}"


def _latex_terms(found: Derivation) -> Iterator[str]:
    yield r"\begin{longtable}{lrrp{8cm}}"
    yield r" & longest step & TTFT & why \\ \hline \endhead"
    for name, step, ttft, why in words.term_rows(found):
        yield rf"{'' if why else chr(92) + 'hline '}{_escaped(name)} & {step} & {ttft} & {_escaped(why)} \\"
    yield rf"\end{{longtable}} \noindent\textbf{{{_escaped(_sentence(words.terms_words(found)))}}}"


def _latex_changes(found: Derivation) -> Iterator[str]:
    yield r"\begin{longtable}{lrrrrr}"
    yield r"10 \% more & window & $c_{\max}$ & step & TTFT & TPOT \\ \hline \endhead"
    for change in found.changes:
        cells = (words.change_name(change), *words.change_cells(found.base, change))
        yield " & ".join(_escaped(cell) for cell in cells) + r" \\"
    yield rf"\end{{longtable}} \noindent\textbf{{{_escaped(_sentence(words.change_words(found)))}}}"


def _escaped(text: str) -> str:
    return re.sub("[" + re.escape("".join(ESCAPES)) + "]", lambda found: ESCAPES[found[0]], text)
