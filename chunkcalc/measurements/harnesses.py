"""JSON objects -> the harness that wrote them -> runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from chunkcalc.errors import ChunkcalcError
from chunkcalc.measurements.aiperf import is_aiperf, is_perf_export, perf_columns
from chunkcalc.measurements.cells import UnreadableError, blank, text
from chunkcalc.measurements.documents import Document, Documents
from chunkcalc.measurements.facts import assumed, require, with_note
from chunkcalc.measurements.guidellm import guidellm_columns, is_guidellm_report
from chunkcalc.measurements.magnitude import sound
from chunkcalc.measurements.run import Kind, Measurements, Skipped
from chunkcalc.measurements.serving import PER_SECOND, Unit, runs_of
from chunkcalc.measurements.sglang import is_sglang_result, sglang_columns
from chunkcalc.measurements.vllm import is_vllm_result, vllm_columns

Columns = dict[str, object]
RECOGNISE: Mapping[Kind, Callable[[Document], bool]] = {
    "vllm": is_vllm_result,
    "sglang": is_sglang_result,
    "guidellm": is_guidellm_report,
    "aiperf": lambda document: is_perf_export(document) and is_aiperf(document),
    "genai-perf": is_perf_export,
}
READ: Mapping[Kind, Callable[[Document], Columns]] = {
    "vllm": vllm_columns, "sglang": sglang_columns, "aiperf": perf_columns, "genai-perf": perf_columns,
}  # fmt: skip
# Files that lie beside the ones that are read: what only they hold, and what to give instead.
BESIDE = (
    ({"experiments", "service_kind"}, "give profile_export_genai_perf.json, which lies beside it"),
    ({"metadata", "metrics"}, "give profile_export_aiperf.json, which lies beside it"),
    ({"benchmark", "metric"}, "give the result itself, whose name does not end in .pytorch.json"),
)
KNOWN = "give the result of vllm bench serve, sglang.bench_serving, GuideLLM, AIPerf or GenAI-Perf, or a CSV table"


def read_documents(documents: Documents, path: str, given: Mapping[str, object], unit: Unit | None) -> Measurements:
    """The runs that the JSON objects of a file hold.

    Parameters
    ----------
    documents : the objects
    path : the file
    given : facts from options, which overrule what a server calls itself
    unit : of latencies whose key says milliseconds; None: what it says, if the magnitude bears it out.
        AIPerf and GenAI-Perf write the unit beside each number

    Raises
    ------
    ChunkcalcError : no known harness, a fact that neither the file nor an option gives, doubtful units
    """
    kind = _kind(documents, path)
    rows, skipped = _rows(documents, kind)
    filled = [(row, _overruled(values, given)) for row, values in rows]
    for _, values in filled:
        require(values, path)
    unit = "ms" if kind in ("aiperf", "genai-perf") else unit
    runs, unread = runs_of(filled, path, PER_SECOND[unit or "ms"])
    runs, odd = sound(runs, unit, path)
    left_out = sorted((*documents.skipped, *skipped, *unread, *odd))
    return Measurements(kind, tuple(runs), skipped=tuple(left_out), assumed=assumed([values for _, values in filled]))


def _kind(documents: Documents, path: str) -> Kind:
    for _, document in documents.found:
        for kind, recognise in RECOGNISE.items():
            if recognise(document):
                return kind
    first = documents.found[0][1] if documents.found else {}
    hint = next((hint for keys, hint in BESIDE if keys <= set(first)), KNOWN)
    raise ChunkcalcError("is JSON of no benchmark that is known", path, hint)


def _rows(documents: Documents, kind: Kind) -> tuple[list[tuple[int, Columns]], list[Skipped]]:
    """Each benchmark with its number; a report of GuideLLM holds several."""
    entries: Iterable[tuple[int, Columns | UnreadableError]]
    if kind == "guidellm":
        reports = [report for _, report in documents.found if is_guidellm_report(report)]
        entries = enumerate((each for report in reports for each in guidellm_columns(report)), 1)
    else:
        entries = [(row, _read(document, kind)) for row, document in documents.found]
    rows, skipped = [], []
    for row, entry in entries:
        if isinstance(entry, UnreadableError):
            skipped.append(Skipped(row, str(entry)))
        else:
            rows.append((row, entry))
    return rows, skipped


def _read(document: Document, kind: Kind) -> Columns | UnreadableError:
    if not RECOGNISE[kind](document):
        return UnreadableError(f"is no result of {kind}")
    try:
        return READ[kind](document)
    except UnreadableError as reason:
        return reason


def _overruled(values: Columns, given: Mapping[str, object]) -> Columns:
    """The values under the options, with a note of a name that the file has otherwise."""
    other = [name for name in ("model", "gpu", "engine") if text(values.get(name)) and not blank(given.get(name))]
    notes = [f"the file calls the {name} {text(values[name])}" for name in other if _other(values[name], given[name])]
    return with_note({**values, **given}, *notes)


def _other(named: object, given: object) -> bool:
    return text(named).lower() != text(given).lower()
