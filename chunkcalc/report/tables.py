"""Lists of models and GPUs as text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from chunkcalc.catalog.lookup import load_model
from chunkcalc.catalog.precision import precision_for
from chunkcalc.errors import ChunkcalcError
from chunkcalc.records import Hardware, Model, Moe
from chunkcalc.report.json import calibrated
from chunkcalc.units import format_bytes, format_count, format_si
from chunkcalc.work import counts

if TYPE_CHECKING:  # the other reports need none of it
    from chunkcalc.answer.inspection import Inspection
    from chunkcalc.engines.reading import Value

WIDTH = 80


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns as wide as their widest cell; the first to the left, the others to the right."""
    lines = [tuple(head), *(tuple(row) for row in rows)]
    widths = [max(len(line[index]) for line in lines) for index in range(len(head))]
    return "\n".join("  ".join(_aligned(line, widths)).rstrip() for line in lines)


def _aligned(line: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [cell.rjust(w) if index else cell.ljust(w) for index, (cell, w) in enumerate(zip(line, widths, strict=True))]


def _pairs(rows: Sequence[tuple[str, str]], width: int) -> str:
    """Name and value per line, long values wrapped under themselves."""
    out = []
    for name, value in rows:
        wrapped = textwrap.wrap(value, WIDTH - width, break_on_hyphens=False) or [""]
        out += [f"{name if not index else '':<{width}}{row}".rstrip() for index, row in enumerate(wrapped)]
    return "\n".join(out)


def models(records: Iterable[Model]) -> str:
    """One line per model."""
    head = ("model", "params", "active", "KV B/token", "fixed/seq", "weights")
    return table(head, (_model_row(record) for record in records))


def _model_row(record: Model) -> tuple[str, ...]:
    return (
        record.id,
        _billions(counts.parameters(record)),
        _billions(counts.active_parameters(record)),
        format_count(counts.kv_bytes_per_token(record, "bf16")),
        format_bytes(counts.fixed_bytes_per_sequence(record, "bf16")),
        record.weights,
    )


def _billions(count: float) -> str:
    billions = count / 1e9
    return f"{billions:.0f}B" if billions >= 99.95 else f"{billions:.1f}B" if billions >= 9.995 else f"{billions:.2f}B"


def gpus(records: Iterable[Hardware]) -> str:
    """One line per GPU."""
    head = ("gpu", "bf16", "fp8", "memory", "bandwidth", "link", "calibrated")
    return table(head, (_gpu_row(record) for record in records))


def _gpu_row(record: Hardware) -> tuple[str, ...]:
    return (
        record.id,
        *(format_si(record.peak[dtype], "F/s") if dtype in record.peak else "-" for dtype in ("bf16", "fp8")),
        format_bytes(record.memory),
        format_si(record.bandwidth, "B/s"),
        format_si(record.link.bandwidth, "B/s"),
        "yes" if calibrated(record) else "no",
    )


def model(record: Model) -> str:
    """Everything about a model."""
    growing = format_count(counts.kv_bytes_per_token(record, "bf16"))
    fixed = format_bytes(counts.fixed_bytes_per_sequence(record, "bf16"))
    shipped = format_bytes(counts.weight_bytes(record, precision_for(record)))
    rows = [
        ("id", record.id),
        ("name", record.name),
        ("also", ", ".join(record.aliases)),
        ("parameters", f"{counts.parameters(record):,.0f}"),
        ("active", f"{counts.active_parameters(record):,.0f} (head included)"),
        ("weights", f"{shipped} as shipped ({record.weights})"),
        ("KV cache", f"{growing} B per token, {fixed} fixed per sequence (16-bit)"),
        ("hidden", str(record.hidden)),
        ("vocabulary", f"{record.vocab}{' (tied)' if record.tied_embeddings else ''}"),
        ("positions", format_count(record.max_position)),
    ]
    for group in record.layers:
        rows.append((f"{group.count} layers", f"{_attention(group.attention)}; {_ffn(group.ffn)}"))
    rows.append(("source", record.source))
    if record.note:
        rows.append(("note", record.note))
    return _pairs(rows, 13)


def _attention(attention: object) -> str:
    names = [name for name in type(attention).__dataclass_fields__ if name != "kind"]  # type: ignore[attr-defined]
    values = ((name, getattr(attention, name)) for name in names)
    kind = getattr(attention, "kind", "")
    return f"{kind} " + ", ".join(f"{name} {value}" for name, value in values if value not in (None, False))


def _ffn(ffn: object) -> str:
    if isinstance(ffn, Moe):
        shared = f", shared {ffn.shared_intermediate}" if ffn.shared_intermediate else ""
        return f"moe {ffn.top_k} of {ffn.experts} experts, width {ffn.intermediate}{shared}"
    return f"dense, width {getattr(ffn, 'intermediate', '')}"


def gpu(record: Hardware) -> str:
    """Everything about a GPU."""
    link = record.link
    rows = [("id", record.id), ("name", record.name), ("also", ", ".join(record.aliases))]
    rows += [(f"{dtype} dense", format_si(value, "FLOP/s")) for dtype, value in record.peak.items()]
    rows += [
        ("memory", format_bytes(record.memory)),
        ("bandwidth", format_si(record.bandwidth, "B/s")),
        ("link", f"{link.kind}, {format_si(link.bandwidth, 'B/s')} one way, {link.gpus_per_node} GPUs per node"),
        ("calibrated", "yes" if calibrated(record) else "no: generic efficiencies, wider band"),
    ]
    if "bf16" in record.peak:
        rows.append(("ridge bf16", f"{record.peak['bf16'] / record.bandwidth:.0f} FLOP/B"))
    for key, value in sorted(record.efficiency.items()):
        if key not in record.generic:
            launch = f"{value.latency * 1e6:.1f} us"
            rows.append((f"  {key}", f"compute {value.compute:.3f}, memory {value.memory:.3f}, launch {launch}"))
    rows.append(("source", record.source))
    if record.note:
        rows.append(("note", record.note))
    return _pairs(rows, 26)


def engine(found: Inspection, log: Mapping[str, Any] | None = None) -> str:
    """What a command line means: the step, what memory admits, every value, what differs.

    Parameters
    ----------
    found : the command line on a GPU
    log : what its start-up log says; None without one
    """
    reading = found.reading
    parallelism = reading.parallelism
    head = (
        f"{reading.table.engine} {reading.table.version}: {found.model.id} on {parallelism.gpus} x {found.hardware.id}"
    )
    rank = " per rank" if parallelism.dp > 1 else ""
    mixed = reading.composition == "mixed"
    step = "decodes and prompts together" if mixed else "a prompt batch or the decodes, prompts first"
    beside = f", {reading.chunk_full:,} beside {reading.max_num_seqs:,} decodes" if mixed else ""
    rows = [
        ("step", f"{reading.budget:,} tokens{rank}: {step}"),
        ("chunk", f"{reading.chunk:,} prompt tokens{rank} with no decodes{beside}"),
        ("limit", f"{reading.max_num_seqs:,} requests{rank} of up to {reading.max_model_len:,} tokens"),
    ]
    if found.max_concurrency is not None:
        holds = f"{found.kv_tokens:,} tokens: " if found.kv_tokens is not None else ""
        most = f"{found.max_concurrency:,} of the full {reading.max_model_len:,} at once"
        rows.append(("KV cache", f"{holds}{most}{', over all ranks' if rank else ''}"))
    rows += _logged(found, log) if log is not None else []
    out = [head, "", _pairs(rows, 10), ""]
    shown = {name: value for name, value in reading.values.items() if value.value is not None}
    width = max(len(name) for name in shown) + 2
    out.append(_pairs([(name, _explained(value)) for name, value in shown.items()], width))
    for title, lines in (("refused", reading.refusals), ("differs", reading.differences), ("note", found.notes)):
        if lines:
            out += ["", _pairs([(title if not index else "", line) for index, line in enumerate(lines)], 10)]
    return "\n".join(_printable(line) for line in "\n".join(out).splitlines())


def _logged(found: Inspection, log: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The KV cache as the engine itself counted it, against what is predicted."""
    held, predicted = log.get("kv_tokens"), found.kv_tokens if found.kv_printed is None else found.kv_printed
    out = []
    if held:
        off = "" if not predicted else f", predicted {predicted:,} ({predicted / held - 1:+.0%})"
        out.append(("its log", f"KV cache of {held:,} tokens{off}"))
    version = log.get("engine_version")
    if version and version != found.reading.table.version:
        out.append(("", f"written by version {version}, read here as {found.reading.table.version}"))
    budget, means = log.get("budget"), found.reading.budget
    if budget and budget != means:
        out.append(("", f"of another start: its budget is {budget:,}, this command line means {means:,}"))
    model = str(log.get("model", found.model.id))
    if _other(model, found):
        out.append(("", f"of another model: {model[:60]}"))
    return out or [("its log", "says nothing of the KV cache")]


def _other(name: str, found: Inspection) -> bool:
    """Whether a log's model is another than the command line's; a folder may hold any."""
    if name.startswith(("/", ".")):
        return False
    try:
        return bool(load_model(name).record.id != found.model.id)
    except ChunkcalcError:
        return True


def _printable(line: str) -> str:
    """What a command line holds may be anything: no control characters."""
    return "".join(c if c.isprintable() else "?" for c in line)


def _explained(value: Value) -> str:
    number = isinstance(value.value, (int, float)) and not isinstance(value.value, bool)
    text = format_count(value.value) if isinstance(value.value, int) and number else str(value.value)
    text = textwrap.shorten(text, 40, placeholder="...") if len(text) > 40 else text
    return f"{text:<10}  {value.source}{': ' + value.rule if value.rule and value.rule != 'default' else ''}"
