"""Names and paths -> records: ids, aliases, Hugging Face ids, product labels, machine types, files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from chunkcalc.catalog.names import Slice, bare_label, machine_family, normal, split_format, split_slice, untuned
from chunkcalc.catalog.profiles import GENERIC, data_folder, extended, hardware_from, model_from, read_toml
from chunkcalc.errors import ChunkcalcError
from chunkcalc.records import Allreduce, Format, Hardware, Link, Model

ALL = "all"
LONGEST_NAME = 100  # characters of a name that are compared and shown


class Found(NamedTuple):
    """A record, how the name led to it, and the devices of a machine type."""

    record: Any
    how: str
    devices: int | None = None


def load_model(name: str) -> Found:
    """A model by id, Hugging Face id, alias, quantised or tuned variant, or path to a profile or a
    config.json.

    Returns
    -------
    the Model, in the weight format that the name says, and how it was found

    Raises
    ------
    ChunkcalcError : unknown name (with the nearest ones), or an unreadable or invalid profile
    """
    if name.endswith(".toml"):
        from chunkcalc.catalog import schema  # noqa: PLC0415 - pydantic is loaded for a user's own files only

        return Found(schema.model(read_toml(Path(name), "--model"), name), f"file {name}")
    if name.endswith(".json"):
        from chunkcalc.catalog import configs  # noqa: PLC0415 - only for a user's own files

        return Found(configs.model_from_config(configs.read_json(name), name), f"config {name}")
    _refuse_paths(name, "--model")
    wanted = normal(name)
    model = _named("models", wanted)
    if model is not None:
        return Found(_variant(model, model.variants.get(wanted)), _how(name, model))
    base, weights = split_format(wanted)
    for candidate in (base, *untuned(base)):
        model = _named("models", candidate)
        if model is not None:
            chosen = _variant(model, weights or model.variants.get(candidate))
            return Found(chosen, f"{name} -> {model.id}" + (f", {chosen.weights} weights" if weights else ""))
    raise ChunkcalcError(f"unknown model '{name:.{LONGEST_NAME}}'", "--model", _nearest(wanted, "models"))


def load_hardware(name: str) -> Found:
    """A GPU by id, product label (also of a MIG slice), machine type, alias or path to a profile.

    Returns
    -------
    the Hardware, its efficiencies completed, how it was found, and the devices of a machine type

    Raises
    ------
    ChunkcalcError : unknown name (with the nearest ones), or an unreadable or invalid profile
    """
    if name.endswith(".toml"):
        from chunkcalc.catalog import schema  # noqa: PLC0415 - pydantic is loaded for a user's own files only

        data = read_toml(Path(name), "--gpu")
        data = _with_base(data, name)
        schema.check_hardware(data, name)
        return Found(hardware_from(data), f"file {name}")
    _refuse_paths(name, "--gpu")
    label, part = split_slice(normal(name))
    hardware = _named("hardware_profiles", label)
    how = "" if hardware is None else _how(name, hardware)
    family = machine_family(label)
    if hardware is None and family:
        hardware = _named("hardware_profiles", family)
        how = "" if hardware is None else f"{name} -> {hardware.id}, by its machine family; devices unknown"
    if hardware is None:
        hardware = _named("hardware_profiles", bare_label(label))
        how = "" if hardware is None else f"{name} -> {hardware.id}, by likeness of the label"
    if hardware is None:
        raise ChunkcalcError(f"unknown GPU '{name:.{LONGEST_NAME}}'", "--gpu", _nearest(label, "hardware_profiles"))
    count = {normal(machine): n for machine, n in hardware.instances.items()}.get(label)
    return Found(sliced(hardware, part) if part else hardware, how, count)


def models() -> Iterator[Model]:
    """Every shipped model, by id."""
    return (_shipped("models", path.stem) for path in _files("models"))


def gpus() -> Iterator[Hardware]:
    """Every shipped GPU, by id."""
    return (_shipped("hardware_profiles", path.stem) for path in _files("hardware_profiles"))


def named_gpus(text: str) -> list[str]:
    """The GPUs of a list: ids, product labels or files with commas between them, or `all` that are shipped.

    Raises
    ------
    ChunkcalcError : a name that nothing is known by
    """
    found = list(dict.fromkeys(name.strip() for name in text.split(",")))
    if ALL in (name.lower() for name in found):
        return [each.id for each in gpus()]
    for name in found:
        load_hardware(name)
    return found


def names(record: Model | Hardware) -> set[str]:
    """Every normalised name of a record; a Hugging Face id also answers to its last part."""
    aliases = {normal(alias) for alias in record.aliases}
    out = {record.id} | aliases | {alias.rsplit("/", 1)[-1] for alias in aliases}
    more = record.variants if isinstance(record, Model) else record.instances
    return out | {normal(name) for name in more}


def _with_base(data: dict[str, Any], where: str) -> dict[str, Any]:
    """A user's profile, joined with the shipped one that it extends, or with another one beside it."""
    base = data.pop("extends", None)
    if base is None:
        return data
    if isinstance(base, str) and base.endswith(".toml"):
        beside = Path(where).parent / base
        if "/" in base or "\\" in base or beside == Path(where):
            raise ChunkcalcError(f"'{base:.60}' is no other file beside it", f"{where}: extends", "name the file alone")
        under = read_toml(beside, f"{where}: extends")
        if str(under.get("extends", "")).endswith(".toml"):
            raise ChunkcalcError(f"'{base:.60}' extends a file itself", f"{where}: extends", "extend that file")
        return extended(data, _with_base(under, str(beside)))
    if not isinstance(base, str) or base not in {path.stem for path in _files("hardware_profiles")}:
        raise ChunkcalcError(f"unknown profile {base!r:.60}", f"{where}: extends", "give the id of a shipped GPU")
    return extended(data, read_toml(data_folder("hardware_profiles") / f"{base}.toml"))


def sliced(hardware: Hardware, part: Slice) -> Hardware:
    """A MIG slice as a device of its own: its share of arithmetic, memory and bandwidth, no link."""
    compute = part.sevenths / 7
    memory = min(1.0, part.gigabytes * 1e9 / hardware.memory)
    return replace(
        hardware,
        id=f"{hardware.id}-mig-{part.sevenths}g.{part.gigabytes}gb",
        peak={dtype: value * compute for dtype, value in hardware.peak.items()},
        sms=max(1, int(hardware.sms * compute)) if hardware.sms else None,
        memory=hardware.memory * memory,
        bandwidth=hardware.bandwidth * memory,
        l2=hardware.l2 * memory,
        link=Link(kind="none", bandwidth=hardware.link.bandwidth, gpus_per_node=1, domain=1),
    )


def with_link(hardware: Hardware, bandwidth: float, latency: float | None) -> Hardware:
    """The GPU behind another link.

    A bandwidth alone is the link's own: measured all-reduces scale with it. With a latency it is
    what a transfer was measured to reach: an all-reduce of n GPUs then moves 2 (n - 1) / n of its
    message at that speed.

    Parameters
    ----------
    hardware : the GPU
    bandwidth : one way per GPU [byte/s]
    latency : of a message [s]; None where it was not measured

    Returns
    -------
    the GPU with that link
    """
    if latency is None:
        ratio = bandwidth / hardware.link.bandwidth
        allreduce = {
            n: Allreduce(fit.latency, fit.bandwidth * ratio, fit.ramp / ratio) for n, fit in hardware.allreduce.items()
        }
    else:
        groups = [n for n in hardware.allreduce if n > 1] or [2, 4, 8]
        allreduce = {n: Allreduce(latency, bandwidth * n / (2 * (n - 1)), 0.0) for n in groups}
    link = replace(hardware.link, bandwidth=bandwidth, latency=latency or hardware.link.latency)
    return replace(hardware, link=link, allreduce=allreduce)


def _refuse_paths(name: str, option: str) -> None:
    """A name that is meant as a path but is not one of a profile."""
    if not name.strip():
        raise ChunkcalcError("the name is empty", option, "give a name, or the path of a .toml profile")
    if name.startswith(("./", "../", "/", "~")) or name == "-":
        hint = "profiles are files that end in .toml; a model may also be a config.json"
        raise ChunkcalcError(f"'{name}' is not the path of a profile", option, hint)


def _variant(model: Model, weights: Format | str | None) -> Model:
    """The model in another weight format than the one its profile ships in."""
    if weights is None or weights == model.weights:
        return model
    return replace(model, weights=weights, formats={})  # type: ignore[arg-type]


def _how(name: str, record: Model | Hardware) -> str:
    return "id" if normal(name) == record.id else f"{name} -> {record.id}"


@cache
def _files(folder: str) -> list[Path]:
    return sorted(path for path in data_folder(folder).glob("*.toml") if path.stem != GENERIC)


@cache
def _shipped(folder: str, identifier: str) -> Any:
    data = read_toml(data_folder(folder) / f"{identifier}.toml")
    build: Callable[..., Any] = model_from if folder == "models" else hardware_from
    return build(data)


@cache
def _texts(folder: str) -> dict[str, str]:
    """The normalised text of every profile: searched before any TOML is parsed."""
    return {path.stem: normal(path.read_text(encoding="utf-8")) for path in _files(folder)}


def _named(folder: str, wanted: str) -> Any:
    """The record of that name; None if there is none."""
    if any(path.stem == wanted for path in _files(folder)):
        return _shipped(folder, wanted)
    if len(wanted) < 2:
        return None
    for identifier, text in _texts(folder).items():
        if wanted in text:
            record = _shipped(folder, identifier)
            if wanted in names(record):
                return record
    return None


def _nearest(wanted: str, folder: str) -> str:
    from difflib import SequenceMatcher  # noqa: PLC0415 - only needed for a wrong name

    def likeness(identifier: str) -> float:
        return max(
            SequenceMatcher(None, wanted[:LONGEST_NAME], name).ratio() for name in names(_shipped(folder, identifier))
        )

    near = sorted((path.stem for path in _files(folder)), key=likeness, reverse=True)[:3]
    command = "models list" if folder == "models" else "gpus list"
    return f"did you mean {', '.join(near)}? ('chunkcalc {command}' shows all)"
