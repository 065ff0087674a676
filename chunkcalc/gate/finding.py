"""A finding: a rule, a place, a sentence, and what to write instead."""

from __future__ import annotations

from chunkcalc.frozen import dataclass
from chunkcalc.gate.catalogue import Kind, Level


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """What to write instead.

    text : in words
    flag : the flag to set; empty where it is no single flag
    value : to set it to; empty for a flag without one
    also : further flags that go with it, with their values
    remove : the flag goes
    """

    text: str
    flag: str = ""
    value: str = ""
    also: tuple[tuple[str, str], ...] = ()
    remove: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A rule that a deployment breaks.

    rule, kind, level : of the catalogue
    message : what is written, the number against the limit, and why
    file, line, pointer : where
    begin : lines at which its deployment, and the command in it, begin
    subject : name of the deployment
    flag : what causes it; empty where a default does
    fix : one replacement
    number : what is compared with the limit, so that worse can be told from better; larger is worse
    waived : why it does not count; None where it does
    """

    rule: str
    kind: Kind
    level: Level
    message: str
    file: str
    line: int
    pointer: str = ""
    begin: tuple[int, ...] = ()
    subject: str = ""
    flag: str = ""
    fix: Fix | None = None
    number: float | None = None
    waived: str | None = None

    @property
    def fingerprint(self) -> str:
        """Stable against moved lines: rule, file, deployment and flag."""
        parts = "\0".join((self.rule, self.file, self.subject, self.pointer, self.flag))
        import hashlib  # noqa: PLC0415 - most reports need none

        return hashlib.sha256(parts.encode()).hexdigest()[:32]
