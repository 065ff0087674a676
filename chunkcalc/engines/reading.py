"""What a command line means: every value with where it came from, and what follows from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Any, Literal, NamedTuple

from chunkcalc.engines.grammar import Arguments
from chunkcalc.engines.tables import Table
from chunkcalc.engines.words import Remark
from chunkcalc.frozen import dataclass
from chunkcalc.records import Hardware, Parallelism

Entry = Literal["server", "offline"]
MOST_UNKNOWN = 20  # unknown flags that are named one by one
# Of both: ModelDType of vllm/config, the choices of --dtype in sglang/srt/server_args.py.
DTYPES = ("auto", "half", "float16", "bfloat16", "float", "float32")


class Value(NamedTuple):
    """A value of the engine: given, its default, or derived from others, and by which rule."""

    value: Any
    source: Literal["given", "default", "derived"]
    rule: str = ""


class Target(NamedTuple):
    """What the command line runs on.

    hardware : the device
    max_position : longest context of the model [token]
    entry : `server`, or `offline` for the Python class
    environment : variables set for the engine
    latent : whether the model has latent attention (MLA)
    """

    hardware: Hardware
    max_position: int
    entry: Entry = "server"
    environment: Mapping[str, str] = {}
    latent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a command line means, per attention rank [token] where nothing else is said.

    budget : tokens of a step
    chunk, chunk_full : prompt tokens of a step with no decodes, and with `max_num_seqs` of them
    max_num_seqs, max_model_len : most requests in flight; longest context
    composition : `mixed` or `prefill_first`
    interval : decode steps after every prompt step, where prompts go first [1]
    draft_tokens : speculative tokens per step
    drafter : how they are drafted, such as mtp or eagle3
    captured : tokens up to which a step with prompt tokens runs from captured graphs
    eager : no step runs from one
    weights, kv : formats as the flags name them; None where they follow the checkpoint
    memory_fraction : share of the memory, by the engine's rule [1]
    refusals : what the engine would refuse at start
    differences : what it does silently otherwise than is written
    notes : what the figures leave out
    """

    table: Table
    entry: Entry
    model: str
    values: Mapping[str, Value]
    budget: int
    chunk: int
    chunk_full: int
    max_num_seqs: int
    max_model_len: int
    composition: Literal["mixed", "prefill_first"] = "mixed"
    interval: int = 0
    parallelism: Parallelism = field(default_factory=Parallelism)
    draft_tokens: int = 0
    drafter: str = ""
    captured: int = 0
    eager: bool = False
    weights: str | None = None
    kv: str | None = None
    memory_fraction: float
    refusals: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()
    unknown_flags: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Values:
    """Collects the values of a command line in the order in which an engine settles them."""

    def __init__(self, arguments: Arguments, table: Table, target: Target, role: str = "") -> None:
        self.arguments, self.table, self.target, self.role = arguments, table, target, role
        self.found: dict[str, Value] = {}
        self.refusals = list(arguments.refusals)
        for flag in arguments.unknown[:MOST_UNKNOWN]:
            known = table.span(flag)
            spans = f": {table.engine} {known} has it" if known else ""
            self.refusals.append(
                Remark(f"{flag[:60]} is not a flag of {table.engine} {table.read}{spans}", "E03", flag)
            )
        self.differences = list(arguments.differences)
        self.notes: list[str] = []

    def refuse(self, rule: str, text: str, *names: str, **facts: Any) -> None:
        """Note what the engine refuses at start.

        Parameters
        ----------
        rule : of the catalogue
        text : the sentence
        names : the fields it concerns; the first that was given is to blame
        facts : as in `Remark`
        """
        self.refusals.append(Remark(text, rule, self._word(names), **facts))

    def differ(self, rule: str, text: str, *names: str, **facts: Any) -> None:
        """Note what the engine silently does otherwise than is written."""
        self.differences.append(Remark(text, rule, self._word(names), **facts))

    def strangers(self, words: Iterable[str]) -> None:
        """Refuse words that belong to no flag."""
        for word in list(words)[:1]:
            switch = word.lower() in ("true", "false")
            text = f"'{word}' belongs to no flag" + (": the one before it takes no value" if switch else "")
            self.refusals.append(Remark(text, "E03" if switch else "E21", word))

    def _word(self, names: Iterable[str]) -> str:
        given = self.arguments.given
        return next((given[name].word for name in names if name in given), "")

    def take(self, name: str, default: Any = None, rule: str = "default", least: float | None = 1) -> Any:
        """The value given, else the table's default, else `default`.

        Parameters
        ----------
        name : the field
        default, rule : what stands where neither has it, and why
        least : smallest value that the engine accepts; None to accept any
        """
        given = self.arguments.given.get(name)
        if given is not None:
            self.found[name] = Value(given.value, "given", given.flag)
            number = isinstance(given.value, (int, float)) and not isinstance(given.value, bool)
            if number and least is not None and not given.value >= least:
                self.refuse("E21", f"{given.flag} {given.value}: must be at least {least:g}", name)
                return self.derive(name, least, "smallest that is accepted, to go on")
            return given.value
        row = self.table.default(name, self.target.hardware, self.target.entry, self.role)
        if row is not None:
            self.found[name] = Value(row.value, "default", row.rule)
            return row.value
        if default is not None:
            self.found[name] = Value(default, "default", rule)
        return default

    def given(self, name: str) -> bool:
        """Whether the user set it."""
        return name in self.arguments.given

    def derive(self, name: str, value: Any, rule: str) -> Any:
        """Replace a value by one that follows from others."""
        before = self.found.get(name)
        if before is None or before.value != value:
            self.found[name] = Value(value, "derived", rule)
        return value

    def length(self, name: str, longer: bool) -> int:
        """The longest context: given, or the model's."""
        longest = self.target.max_position
        length: int = self.take(name, longest, "the model's longest context", least=None)
        flag = self.found[name].rule
        if length == -1 and self.table.options().get(name.replace("_", "-")) == "auto":
            return int(self.derive(name, longest, "auto: the longest that fits"))
        if length < 1:
            self.refuse("E21", f"{flag} {length}: must be at least 1", name)
            return int(self.derive(name, longest, "to go on"))
        if length > longest and longer:
            self.differ("E22", f"{flag} {length:,} is beyond the model's own {longest:,}", name)
        elif length > longest:
            self.refuse("E22", f"{flag} {length:,} exceeds the model's {longest:,}", name)
        return length

    def format(self, name: str, known: Mapping[str, str]) -> str | None:
        """A weight or cache format in our words; None where it follows the checkpoint."""
        word = str(self.take(name) or "auto").lower()
        if word in ("auto", "none", "compressed-tensors", "dtype", "half", "float16"):
            return None
        if word not in known:
            self.notes.append(f"{name} '{word[:30]}' is not modelled: the checkpoint's own format is taken")
        return known.get(word)

    def dtype(self) -> None:
        """`--dtype` of vLLM and SGLang, which take the same words."""
        word = str(self.take("dtype", "auto"))
        if word not in DTYPES:
            self.refuse("E21", f"--dtype {word:.30}: choose from {', '.join(DTYPES)}", "dtype")
        elif word in ("float", "float32"):
            self.notes.append("--dtype float32 is not modelled: 16 bit is taken")

    def left_out(self, **reasons: str) -> None:
        """Note what the figures leave out, where a flag is set."""
        for name, reason in reasons.items():
            value = self.take(name, least=None)
            if value is True or value not in (None, 0, 1):
                self.notes.append(reason)

    def suffixes(self, decimal: str, binary: Callable[[str], str], *names: str) -> None:
        """Tell where a suffix is decimal and a power of two was likely meant."""
        for name in names:
            given = self.arguments.given.get(name)
            if given is not None and given.text.strip()[-1:] in tuple(decimal):
                text = f"{given.flag} {given.text} is {given.value:,}; the power of two is written {binary(given.text)}"
                self.differ("E05", text, name, flag=given.flag, given=given.text)
