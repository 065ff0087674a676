"""A shell script -> the commands it would run, each word with its line. Nothing is run.

Lines run one after the other, whatever the conditions: what only some branch sets is taken as not known, the
rest of a variable, an array or a written file is kept (`branches`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import PurePosixPath
from typing import NamedTuple

from chunkcalc.engines.words import Word
from chunkcalc.frozen import dataclass
from chunkcalc.manifests.branches import Content, either, either_content, either_text
from chunkcalc.manifests.decisive import harmless
from chunkcalc.manifests.doubts import BUILDS, IMAGE, START
from chunkcalc.manifests.expand import MOST, closing, dollar, text_of, unknown

MOST_COMMANDS = 20_000  # of one script, assignments counted
MOST_TELLING = 400  # commands of a script that may start an engine
MOST_CHARACTERS = 2**19  # of one script
MANY = 4_000  # characters of a value from which its words keep no lines of their own
MOST_WORDS = 10_000  # of one array
DEEPEST = 8  # arrays inside arrays
# Commands that may start an engine or another script: only these need to know their variables.
_TELLING = re.compile(r"vllm|sglang|trt|tensorrt|dynamo|docker|podman|nerdctl|(^|/)(ba|z|da|a)?sh$|\.(ba)?sh$")
Place = Callable[[int], Word]  # offset in the script -> an empty word that stands there
SCRIPTS = (".sh", ".bash", ".sbatch", ".slurm")
SHELLS = frozenset(("sh", "bash", "zsh", "dash", "ash"))
_SPREAD = re.compile(r'"\$(?:\{(\w+)\[@\]\}|@|\{@\})"')
_SCRIPT_NEXT = re.compile(r"-[a-z]*c[a-z]*")
_BARE = re.compile(r"\$[@*]|\$\{[@*]\}")
SEPARATORS = ("&&", "||", ";;", ";", "|", "&", "\n", "(", ")")
OPENING = frozenset(("if", "for", "while", "until", "case", "select"))
CLOSING = frozenset(("fi", "done", "esac"))
KEYWORDS = frozenset(("then", "else", "elif", "do", "{", "}", "!", "time", "function")) | OPENING | CLOSING
SETTING = frozenset(("export", "local", "declare", "readonly", "typeset"))
# Programs that ask: what follows them by && may not run.
TESTS = frozenset(("[", "[[", "test", "command", "grep", "which", "nvidia-smi"))
_GIVEN_SCRIPTS = SHELLS | {"ssh", "sbatch", "su", "runuser"}  # run what they are given as their input


class Line(NamedTuple):
    """A simple command.

    words : program and arguments, variables put in
    variables : set before it, in the script or on its own line
    comment : it is what is left of a command that a comment inside a continuation cut off
    """

    words: tuple[Word, ...]
    variables: Mapping[str, str]
    comment: bool = False


@dataclass(slots=True)
class Script:
    """What a script would do.

    lines : its simple commands
    problem : why it would not run
    cut : line from which it is not read; 0 where all of it is
    files : path -> content, where it writes any, with the place of each content
    """

    lines: list[Line] = field(default_factory=list)
    problem: str = ""
    cut: int = 0
    files: dict[str, Content] = field(default_factory=dict)


def run_dry(
    text: str, place: Place, variables: Mapping[str, str] | None = None, arguments: Sequence[Word] = ()
) -> Script:
    """Read a script without running it."""
    whole, text = text, text[:MOST_CHARACTERS]
    try:
        script = _Reader(text, place, dict(variables or {}), arguments).script
        if len(whole) > MOST_CHARACTERS:
            script.cut = place(MOST_CHARACTERS).line
            script.problem = f"its script is longer than {MOST_CHARACTERS // 1024} KiB: the rest is not read"
        return script
    except RecursionError:
        return Script(problem="its script is nested too deeply")


class _Value(Word):
    """What a variable holds, with the line at which each of its words was put into it."""

    origin: Mapping[str, int]

    def part(self, text: str) -> Word:
        """One of its words at its own line."""
        return Word(text, self.origin.get(text, self.line), self.pointer, self.file)


class _Token(NamedTuple):
    """A word, a separator, or the start of a here-document."""

    word: Word
    kind: str = "word"
    quoted: bool = False


class _Here(NamedTuple):
    """A here-document that begins on the next line."""

    end: str
    tabs: bool
    quoted: bool
    file: str = ""
    appends: bool = False


class _Reader:
    def __init__(
        self, text: str, place: Place, variables: dict[str, str], arguments: Sequence[Word] = (),
        arrays: Mapping[str, list[Word]] | None = None, level: int = 0,
    ) -> None:  # fmt: skip
        self.text, self.place, self.variables = text, place, variables
        self.arrays: dict[str, list[Word]] = {**(arrays or {}), "@": list(arguments)}
        self.index, self.depth, self.level = 0, 0, level
        self.pending: list[_Here] = []
        self.script = Script()
        self.cut_off, self.last, self.told = False, "", 0
        self.chance = False  # whether the command runs by the outcome of a test before it
        command: list[_Token] = []
        count = 0
        for token in self._tokens():
            if token.kind == "word":
                command.append(token)
                continue
            head = str(command[0].word) if command else ""
            if command:
                self._finish(command)
            self._chained(token.word, head)
            count += 1
            command = []
            if count >= MOST_COMMANDS:
                self.script.problem = f"its script has more than {MOST_COMMANDS:,} commands: the rest is not read"
                self.script.cut = token.word.line
                break

    def _chained(self, mark: str, head: str) -> None:
        """What a separator says of the command behind it: after `||`, or a test and `&&`, it may not run."""
        if mark == "||" or (mark == "&&" and head in TESTS):
            self.chance = True
        elif mark != "&&" and (head or mark != "\n"):
            self.chance = False

    @property
    def branched(self) -> bool:
        """Whether what stands here runs on some branch only."""
        return self.depth > 0 or self.chance

    def _tokens(self) -> Iterator[_Token]:
        text, joined = self.text, False
        while self.index < len(text):
            char = text[self.index]
            if char == "\\" and text[self.index + 1 : self.index + 2] == "\n":
                self.index += 2
                joined = True
            elif char in " \t":
                self.index += 1
            elif char == "#":
                end = text.find("\n", self.index)
                self.cut_off = joined
                self.index = len(text) if end < 0 else end
            elif char == "\n":
                yield _Token(self.place(self.index).at("\n"), "end")
                self.index += 1
                if not joined:
                    self.cut_off = False
                joined = False
                self._here_documents()
            elif (found := next((mark for mark in SEPARATORS if text.startswith(mark, self.index)), None)) is not None:
                yield _Token(self.place(self.index).at(found), "end")
                self.index += len(found)
            elif re.compile(r"\d?>&\d|&>|\d?>>?|<<<|<<-?|<").match(text, self.index):
                self._redirection()
            else:
                for token in self._word():
                    self.last = str(token.word)
                    yield token
        yield _Token(Word(""), "end")

    def _redirection(self) -> None:
        mark = re.compile(r"\d?>&\d|&>|\d?>>?|<<<|<<-?|<").match(self.text, self.index)
        assert mark is not None
        self.index = mark.end()
        if re.fullmatch(r"\d?>&\d", mark.group()):
            return
        while self.text[self.index : self.index + 1] in (" ", "\t"):
            self.index += 1
        raw = self.text[self.index : self.index + 1]
        target = next(iter(self._word()), None)
        if target is None:
            return
        if mark.group() in ("<<", "<<-"):
            self.pending.append(_Here(str(target.word), mark.group() == "<<-", raw in "'\"\\"))
        elif ">" in mark.group():
            self.written, self.appends = str(target.word), ">>" in mark.group()
            self.pending = [h if h.file else h._replace(file=self.written, appends=self.appends) for h in self.pending]

    written: str = ""
    appends: bool = False

    def _here_documents(self) -> None:
        """The lines up to each end mark become the content of the file that they are written to."""
        for here in self.pending:
            begin, body = self.index, ""
            while self.index < len(self.text):
                stop = self.text.find("\n", self.index)
                stop = len(self.text) if stop < 0 else stop
                line = self.text[self.index : stop]
                self.index = min(stop + 1, len(self.text))
                if (line.lstrip("\t") if here.tabs else line).strip() == here.end:
                    break
                body += (line.lstrip("\t") if here.tabs else line) + "\n"
            target = here.file or self.written
            if not target:
                self._given(body if here.quoted else text_of(body, self.variables), self.place(begin))
            else:
                content = body if here.quoted else text_of(body, self.variables)
                self._write(target, content, self.place(begin), here.appends or (not here.file and self.appends))
        self.pending, self.written, self.appends = [], "", False

    def _given(self, body: str, place: Word) -> None:
        """A here-document that a program reads: a shell runs it; what others do with a start of an engine is told."""
        if not self.script.lines or not (START.search(body) or IMAGE.search(body) or BUILDS.search(body)):
            return
        line, text = self.script.lines[-1], place.at(body)
        if any(PurePosixPath(word).name in _GIVEN_SCRIPTS for word in line.words):
            self.script.lines.append(Line((place.at("bash"), place.at("-c"), text), dict(self.variables)))
        else:
            self.script.lines.append(Line((place.at(line.words[0]), text), line.variables))

    def _write(self, target: str, text: str, first: Word, appends: bool) -> None:
        """Content whose variables are put in keeps its lines, not its columns."""
        files, new = self.script.files, Content.at(text, first)
        before = files.get(target)
        if before is None:
            files[target] = new
        elif self.branched:
            files[target] = either_content(before, new, appends, target)
        else:
            files[target] = before.then(new) if appends else new

    def _word(self) -> Iterator[_Token]:
        """One word; unquoted variables split into several."""
        text, start, out, quoted = self.text, self.index, "", False
        spot = self.place(start)
        array = re.compile(r"([A-Za-z_]\w*)(\+?)=\(").match(text, start)
        if array:
            self._array(array)
            return
        while self.index < len(text) and len(out) < MOST:
            char = text[self.index]
            if char in " \t\n;|&<>()":
                break
            spread = _SPREAD.match(text, self.index)
            if spread is not None and (spread[1] or "@") in self.arrays:
                self.index = spread.end()
                yield from (_Token(word, quoted=True) for word in self.arrays[spread[1] or "@"])
                return
            bare = _BARE.match(text, self.index) if self.arrays["@"] else None
            if bare is not None:
                self.index = bare.end()
                yield from (_Token(word.at(part)) for word in self.arrays["@"] for part in word.split())
            elif char == "$":
                value, self.index = dollar(text, self.index, self.variables)
                # Flags inside a variable stand where it was set.
                spot = value if isinstance(value, Word) and value.line and not out else spot
                parts = value.split()
                if not quoted and not re.match(r"[A-Za-z_]\w*=", out) and len(parts) > 1:
                    placed = value.part if isinstance(value, _Value) else spot.at
                    yield from (_Token(placed(part)) for part in [out + parts[0], *parts[1:-1]])
                    out, spot = parts[-1], placed(parts[-1])
                else:
                    out += value if parts else ""
            else:
                quoted = quoted or char in "'\""
                out += self._piece(char)
        if out or quoted:
            yield _Token(spot.at(out), quoted=quoted)

    def _piece(self, char: str) -> str:
        """The next piece of a word that is not a variable: quoted, escaped, in backticks, or plain."""
        text = self.text
        if char in "'\"":
            return self._quoted(char)
        if char == "\\":
            following = text[self.index + 1 : self.index + 2]
            self.index += 2
            return following.replace("\n", "")
        if char == "`":
            begin, end = self.index, text.find("`", self.index + 1)
            self.index = len(text) if end < 0 else end + 1
            comment = text[begin + 1 : self.index].lstrip().startswith("#")
            return "" if comment else unknown(text[begin : self.index][:60])
        self.index += 1
        return char

    def _quoted(self, mark: str) -> str:
        """A quoted stretch, from its opening mark."""
        text, out = self.text, ""
        opened = self.place(self.index).line
        self.index += 1
        while True:
            if self.index >= len(text):
                self.script.problem = f"a quote that opens on line {opened} never closes"
                break
            char = text[self.index]
            if char == mark:
                self.index += 1
                break
            if mark == '"' and char == "\\" and text[self.index + 1 : self.index + 2] in '"\\$`\n':
                following = text[self.index + 1 : self.index + 2]
                # In a script for another shell (bash -c "...") the break is kept: that shell joins the lines.
                joined = "\\\n" if _SCRIPT_NEXT.fullmatch(self.last) else ""
                out += joined if following == "\n" else following
                self.index += 2
            elif mark == '"' and char == "$":
                value, self.index = dollar(text, self.index, self.variables, True)
                out += value if len(out) < MOST else ""
            else:
                out += char
                self.index += 1
        return out

    def _array(self, match: re.Match[str]) -> None:
        """`NAME=(...)` and `NAME+=(...)`."""
        end = closing(self.text, match.end(), "()")
        offset = match.end()
        inside = re.sub(r"(?m)(^|\s)#.*$", lambda match: " " * len(match.group()), self.text[offset : end - 1])
        if self.level >= DEEPEST:
            self.script.problem = "its arrays are nested too deeply"
            self.index = end
            return
        inner = _Reader(
            inside.replace("\\\n", "  ").replace("\n", " "),
            lambda at: self.place(offset + at),
            self.variables,
            (),
            self.arrays,
            self.level + 1,
        )
        words = [word for line in inner.script.lines for word in line.words]
        before = self.arrays.get(match[1], [])
        if self.branched and (match[2] or before):
            words = either(before, words, match[1], bool(match[2]))
        elif self.branched and not harmless(" ".join(words)):
            words = [self.place(offset).at(unknown(f"${match[1]}"))]  # on one branch only
        elif match[2]:
            words = [*before, *words]
        self.arrays[match[1]] = words[:MOST_WORDS]
        self.variables[match[1]] = " ".join(self.arrays[match[1]])[:MOST]
        self.index = end

    def _finish(self, tokens: list[_Token]) -> None:
        """A simple command: keywords and assignments off, then what is left."""
        while tokens and tokens[0].word in KEYWORDS and not tokens[0].quoted:
            self.depth += (tokens[0].word in OPENING) - (tokens[0].word in CLOSING)
            loop = tokens[0].word in ("for", "select", "case")
            tokens = tokens[1:]
            if loop and tokens:
                self.variables[tokens[0].word] = unknown(f"${tokens[0].word}")
                return
        names = bool(tokens) and tokens[0].word in SETTING
        tokens = tokens[1:] if names else tokens
        own: dict[str, str] = {}
        while tokens and (match := re.match(r"([A-Za-z_]\w*)(\+?)=", tokens[0].word)):
            before = self.variables.get(match[1], "") if match[2] else ""
            own[match[1]] = tokens[0].word.at(before + tokens[0].word[match.end() :])
            tokens = tokens[1:]
        if names or not tokens:
            for name, value in own.items():
                self._set(name, value)
            return
        words = tuple(token.word for token in tokens[:MOST_WORDS])
        if words[:2] == ("set", "--"):
            self.arrays["@"] = list(words[2:])
        if words[0] == "cd" or words[0] == "set":
            return
        telling = any(_TELLING.search(word) for word in words)
        known = {**self.variables, **own} if telling else own
        self.told += telling
        if self.told > MOST_TELLING:
            self.script.problem = f"its script starts more than {MOST_TELLING:,} programs that may be engines"
            self.script.cut = self.script.cut or words[0].line
            return
        self.script.lines.append(Line(words, known, self.cut_off and words[0].startswith("-")))

    def _set(self, name: str, value: str) -> None:
        before, line = self.variables.get(name), value.line if isinstance(value, Word) else 0
        if self.branched and before != value and not harmless(value):
            value = either_text(before, value, name)
        known = before.origin if isinstance(before, _Value) else {}
        held = _Value(value[:MOST], line, *((value.pointer, value.file) if isinstance(value, Word) else ()))
        held.origin = {part: known.get(part, line) for part in held.split()} if len(held) < MANY else {}
        self.variables[name] = held
