"""What variables stand for: the shell's and Kubernetes' ways to write them. Nothing is run.

What is not known stays in the text as a mark around its name, so that whoever meets it can say what
would resolve it.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping

OPEN, CLOSE = "\ue000", "\ue001"  # around what is not known; no file writes these
# Brackets and blanks of a name that is not known, so that no shell takes it apart.
_HIDDEN = str.maketrans("() <>${}", "\ue002\ue003\ue004\ue005\ue006\ue007\ue008\ue009")
_SHOWN = str.maketrans("\ue002\ue003\ue004\ue005\ue006\ue007\ue008\ue009", "() <>${}")
_NAMED = re.compile(
    r"\$?\{\{-?\s*(?:env\.|vars\.|inputs\.|matrix\.|\.Values\.|\.)?([A-Za-z_][\w.]*)\s*(?:\|[^{}]*)?-?\}\}"
)
MOST = 65_536  # characters of a value: variables that hold each other must end
_OPERATORS: dict[type, Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv, ast.Div: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip


def unknown(name: str) -> str:
    """The mark of something that is not known."""
    kept = re.sub(r"[\"'`|&;\n\t\\#].*$", "...", plain(name), flags=re.DOTALL)
    return f"{OPEN}{kept.translate(_HIDDEN)}{CLOSE}"


def unknowns(text: str) -> list[str]:
    """What is not known in a text."""
    return [name.translate(_SHOWN) for name in re.findall(f"{OPEN}([^{CLOSE}]*){CLOSE}", text)]


def plain(text: str) -> str:
    """A text with the marks of what is not known taken off."""
    return text.replace(OPEN, "").replace(CLOSE, "").translate(_SHOWN)


def kubernetes(text: str, variables: Mapping[str, str]) -> str:
    """Kubernetes puts `$(NAME)` in before anything runs; `$$` is a plain `$`, unknown names stay."""

    def put(match: re.Match[str]) -> str:
        return "$" if match.group() == "$$" else variables.get(match[1], match.group())

    return re.sub(r"\$\$|\$\(([A-Za-z_][\w.-]*)\)", put, text)[:MOST]


def templates(text: str) -> str:
    """A text with what a template engine or a person must still fill in marked as unknown."""
    if "{" not in text and "<" not in text:
        return text
    text = re.sub(r"\$?\{\{.*?\}\}", lambda match: unknown(" ".join(match.group().split())), text, flags=re.DOTALL)
    text = re.sub(r"(?<![$\w{}])\{[A-Za-z_]\w*\}(?!\})", lambda match: unknown(match.group()), text)
    return re.sub(r"<[A-Za-z][\w .:/-]{0,60}>", lambda match: unknown(match.group()), text)


def filled(text: str, variables: Mapping[str, str]) -> str:
    """A template of Ansible, Jinja, Helm or a workflow with the names that are known put in; the others stay.

    Parameters
    ----------
    text : such as `{{ model }}`, `${{ env.MODEL }}`, `{{ .Values.tp | default 2 }}`
    variables : that are known
    """
    if "{{" not in text:
        return text

    def put(match: re.Match[str]) -> str:
        known = variables.get(match[1])
        return match.group() if known is None or unknowns(known) else known

    return _NAMED.sub(put, text)[:MOST]


def _constant(value: str) -> Callable[[re.Match[str]], str]:
    return lambda _: value


def supplied(text: str, given: Mapping[str, str]) -> str:
    """A file with values put in where it leaves them to its environment or to a template engine.

    Parameters
    ----------
    text : of the file
    given : name -> value, each of one line
    """
    for name, value in given.items():
        own = re.escape(name)
        places = (
            rf"\$\{{{own}(:?[-=?][^}}]*)?\}}",  # ${NAME}, ${NAME:-default}
            rf"\$\({own}\)",  # $(NAME)
            rf"\$?\{{\{{-?\s*[\w.]*\b{own}\s*(\|[^{{}}]*)?-?\}}\}}",  # {{ NAME }}, {{ .Values.NAME | default 1 }}
            rf"\${own}\b",
            rf"<{own}>",
            rf"(?<![$\w{{]){{{own}}}(?!}})",
        )
        text = re.sub("|".join(places), _constant(value), text)
    return text


def literal(text: str, variables: Mapping[str, str]) -> str:
    """A word that no shell reads: Kubernetes' variables, templates, and what is substituted before."""
    text = templates(filled(kubernetes(text, variables), variables))
    text = re.sub(r"\$\(([A-Za-z_][\w.-]*)\)", lambda match: unknown(match.group()), text)
    return re.sub(r"\$\{[A-Za-z_]\w*(:?[-=?+][^}]*)?\}", lambda match: text_of(match.group(), {}), text)


def closing(text: str, start: int, pair: str) -> int:
    """The index after the bracket that closes one; the end where none does."""
    depth = 1
    for index in range(start, len(text)):
        depth += (text[index] == pair[0]) - (text[index] == pair[1])
        if not depth:
            return index + 1
    return len(text)


def dollar(text: str, start: int, variables: Mapping[str, str], quoted: bool = False) -> tuple[str, int]:
    """What a `$` of a shell stands for, and the index after it.

    Parameters
    ----------
    text, start : where the `$` stands
    variables : that are known
    quoted : whether it stands between double quotes
    """
    rest = text[start + 1 : start + 3]
    if rest == "((":
        end = closing(text, start + 3, "()")
        inside = text[start + 3 : end - 1]
        return arithmetic(inside, variables), min(end + 1, len(text))
    if rest[:1] == "(":
        end = closing(text, start + 2, "()")
        # Kubernetes puts $(NAME) in before the shell sees it.
        known = variables.get(text[start + 2 : end - 1])
        return unknown(" ".join(text[start:end].split())[:60]) if known is None else known, end
    if rest[:1] == "{":
        end = closing(text, start + 2, "{}")
        return _braced(text[start + 2 : end - 1], variables, quoted), end
    name = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!-]").match(text, start + 1)
    if not name:
        return "$", start + 1
    return variables.get(name.group(), unknown("$" + name.group())), name.end()


def _unquoted(text: str, variables: Mapping[str, str], quoted: bool) -> str:
    """A default of `${NAME:-default}` as the shell reads it: its own quotes go, single ones hold what is in them."""
    out = ""
    for part in re.findall(r"'[^']*'|[^']+|'", text):
        alone = len(part) > 1 and part[0] == part[-1] == "'" and not quoted
        out += part[1:-1] if alone else text_of(re.sub(r'(?<!\\)"', "", part), variables)
    return out


def _braced(inside: str, variables: Mapping[str, str], quoted: bool = False) -> str:
    """`${NAME}`, `${NAME:-default}` and their like."""
    match = re.fullmatch(r"([A-Za-z_]\w*|\d)(?:(:?[-=+?])(.*))?", inside, re.DOTALL)
    if not match:
        array = re.fullmatch(r"([A-Za-z_]\w*)\[[@*]\]", inside)
        return variables.get(array[1], unknown(f"${{{inside}}}")) if array else unknown(f"${{{inside[:60]}}}")
    name, kind, other = match[1], match[2], match[3]
    value = variables.get(name)
    known = value is not None and (value != "" or not (kind or "").startswith(":"))
    if kind and kind[-1] == "+":
        return _unquoted(other, variables, quoted) if known else ""
    if kind and kind[-1] in "-=" and not known:
        default = _unquoted(other, variables, quoted)
        if kind[-1] == "=" and isinstance(variables, dict):
            variables[name] = default
        return default
    return value if value is not None else unknown(f"${name}")


def text_of(text: str, variables: Mapping[str, str]) -> str:
    """A text with every `$` put in."""
    out, index = "", 0
    while index < len(text) and len(out) < MOST:
        if text[index] == "$":
            try:
                value, index = dollar(text, index, variables)
            except RecursionError:  # braces inside braces
                return out + unknown("nested too deeply")
            out += value
        else:
            out += text[index]
            index += 1
    return out[:MOST]


def arithmetic(text: str, variables: Mapping[str, str]) -> str:
    """The value of `$(( ... ))`: whole numbers and + - * / % only."""
    named = re.sub(
        r"(?<![\w$}])([A-Za-z_]\w*)", lambda m: variables.get(m[1], unknown("$" + m[1])), text_of(text, variables)
    )
    if unknowns(named):
        return unknown(unknowns(named)[0])
    try:
        return str(_value(ast.parse(named.strip()[:200], mode="eval").body))
    except (ValueError, SyntaxError, ZeroDivisionError, RecursionError, MemoryError):
        return unknown(f"$(({text.strip()[:40]}))")


def _value(node: ast.AST) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int and abs(node.value) < 10**15:
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.left), _value(node.right))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand)
    raise ValueError("not arithmetic")
