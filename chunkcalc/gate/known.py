"""A process with what is known of it -> what the engine makes of its command, and what is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from chunkcalc.answer.inspection import Inspection, inspect_command
from chunkcalc.catalog.lookup import Found, load_hardware
from chunkcalc.engines.command import Command, arguments, model_name, read
from chunkcalc.engines.dialects import dialect
from chunkcalc.engines.grammar import Arguments
from chunkcalc.engines.reading import Entry, Reading, Target
from chunkcalc.engines.tables import Table, table
from chunkcalc.errors import ChunkcalcError
from chunkcalc.gate.facts import about_model, gpu_of, model_of
from chunkcalc.gate.settings import Settings
from chunkcalc.manifests.expand import unknowns
from chunkcalc.manifests.process import SKIPPED, Process
from chunkcalc.records import ENGINE_NAMES, Hardware

# What holds on both of these holds on any GPU: the smallest and the largest that engines run on.
EXTREMES = ("l4", "b300")
SHORTEST, LONGEST = 1024, 10_000_000  # positions of the models that stand in for an unknown one
SIZES = ("budget", "max_num_seqs", "max_model_len", "chunk", "chunk_full")
UNREADABLE = "a file that can be read"


class Known:
    """A process, its model and its GPU, as far as they are known."""

    def __init__(self, process: Process, settings: Settings) -> None:
        self.process, self.settings = process, settings
        self.lacking = [told for told in process.problems if not (settings.get("model") and about_model(told))]
        self.given: Arguments | None = None
        self.table: Table | None = None
        self.inspection: Inspection | None = None
        self.model: Found | None = None
        self.hardware: Found | None = None
        self.model_as_written: str | None = None
        self.version_known = False
        self.reading: Reading | None = None
        self.sure: frozenset[str] = frozenset(SIZES)  # sizes of the reading that hold whatever is not known
        if process.command is None:
            self.lacking = self.lacking or [UNREADABLE]
            return
        self._read()

    @property
    def missing(self) -> Sequence[str]:
        """What is not known and would be needed."""
        return self.lacking

    @property
    def entry(self) -> Entry:
        """Which of the engine's entry points starts it."""
        return "offline" if self.process.offline else "server"

    @property
    def status(self) -> str:
        """`evaluated`, `unknown`, `disabled`, or `skipped`: a file of a folder that is no text."""
        if self.process.kind == SKIPPED:
            return SKIPPED
        if self.process.disabled:
            return "disabled"
        return "unknown" if self.missing or self.inspection is None else "evaluated"

    def _read(self) -> None:
        command = self.process.command
        assert command is not None
        asked = self.settings.get("engine-version")
        stated = command.version if self.settings.is_default("engine-version") else ""
        version = stated or asked or command.version
        self.version_known = bool(version)
        try:
            self.table = table(command.engine, version or None, "engine-version")
            self.given = arguments(command, self.table)
        except ChunkcalcError as error:
            self.lacking.append(str(error))
            return
        named = model_name(command, self.given)
        self._resolve("" if unknowns(named) else named)
        if self.model is not None and self.hardware is not None and not self.lacking:
            self.inspection = inspect_command(
                command, self.table, self.model.record, self.hardware.record, self.entry, self.given
            )
            self.reading = self.inspection.reading
            if self.inspection.deployment is None and not self.reading.refusals:
                notes = [note for note in self.inspection.notes if note.startswith("no memory figures")]
                self.lacking.append("; ".join(notes) or "this deployment is not modelled")
        else:
            self.reading = self._whatever()

    def _resolve(self, named: str) -> None:
        """Model and GPU, and what is missing of them."""
        asked, settings = self.settings.get("model"), self.settings
        model = model_of(self.process, self.given, named, asked, settings.is_default("model"))
        gpu = gpu_of(self.process, settings.get("gpu"), settings.is_default("gpu"))
        self.model, self.model_as_written, self.hardware = model.found, model.written, gpu.found
        if model.missing and not any(about_model(told) for told in self.lacking):
            self.lacking.append(model.missing)
        self.lacking += [gpu.missing] if gpu.missing else []

    def _whatever(self) -> Reading | None:
        """What the arguments mean whatever the model or the GPU is: what two extremes have in common."""
        command = self.process.command
        assert command is not None and self.table is not None
        gpus = [self.hardware.record] if self.hardware is not None else [load_hardware(n).record for n in EXTREMES]
        lengths = [self.model.record.max_position] if self.model is not None else [SHORTEST, LONGEST]
        readings = []
        for gpu in gpus:
            for length in lengths:
                readings.append(_reading(command, self.table, gpu, length, self.given, self.entry))
        known = [reading for reading in readings if reading is not None]
        if not known:
            return None
        first, rest = known[0], known[1:]
        self.sure = frozenset(name for name in SIZES if all(getattr(r, name) == getattr(first, name) for r in rest))
        common = {
            name: tuple(text for text in getattr(first, name) if all(text in getattr(r, name) for r in rest))
            for name in ("refusals", "differences")
        }
        return replace(first, **common)  # type: ignore[arg-type]

    def word(self, *fields: str) -> str:
        """The word that sets the first of some fields; empty where none is set."""
        given = self.given.given if self.given is not None else {}
        return next((given[name].word for name in fields if name in given), "")

    @cached_property
    def budget_field(self) -> str:
        """The field that holds the budget or the chunk."""
        engine = self.process.command.engine if self.process.command is not None else ""
        return dialect(engine or ENGINE_NAMES[0]).budget.lstrip("-").replace("-", "_")

    def names(self) -> Mapping[str, str]:
        """The deployment in words, for messages."""
        reading = self.reading
        gpu = self.hardware.record.id if self.hardware is not None else "an unknown GPU"
        gpus = reading.parallelism.gpus if reading is not None else 1
        return {"gpus": f"{gpus} x {gpu}", "model": self.model.record.id if self.model is not None else "?"}


def _reading(
    command: Command, found: Table, gpu: Hardware, length: int, given: Arguments | None, entry: Entry
) -> Reading | None:
    try:
        return read(command, found, Target(gpu, length, entry, command.environment), given)
    except ChunkcalcError:
        return None
