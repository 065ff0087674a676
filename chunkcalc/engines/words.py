"""Text that knows more than its letters: where a word stands, and which rule a remark belongs to."""

from __future__ import annotations

from typing import Any


class Word(str):
    """A word of a command line, with its place in a file.

    Parameters
    ----------
    text : the word
    line : 1-based line in the file; 0 where it comes from no file
    pointer : JSON pointer of the value that holds it
    file : the file, where it is another one than the command's; empty otherwise
    """

    line: int
    pointer: str
    file: str

    def __new__(cls, text: str, line: int = 0, pointer: str = "", file: str = "") -> Word:
        """A word at its place."""
        word = super().__new__(cls, text)
        word.line, word.pointer, word.file = line, pointer, file
        return word

    def at(self, text: str) -> Word:
        """Another text at the same place."""
        return Word(text, self.line, self.pointer, self.file)


class Remark(str):
    """What an engine refuses or silently does otherwise than is written.

    Parameters
    ----------
    text : the sentence
    rule : number in the catalogue of `gate/catalogue.py`, such as `E02`; empty for none of its own
    word : the word that causes it; empty where a default does
    facts : what the sentence tells, for those who act on it
    """

    rule: str
    word: str
    facts: dict[str, Any]

    def __new__(cls, text: str, rule: str = "", word: str = "", **facts: Any) -> Remark:
        """A remark of a rule about a word."""
        remark = super().__new__(cls, text)
        remark.rule, remark.word, remark.facts = rule, word, facts
        return remark


def placed(text: str, like: str) -> str:
    """A text at the place of a word, where the word has one."""
    return like.at(text) if isinstance(like, Word) else text
