"""Names and paths -> records: the shipped profiles, their aliases, and a user's own files.

A profile is one TOML file named after its id. The generic efficiencies fill what a GPU's profile
does not measure, and the record remembers which those are.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from chunkcalc.errors import ChunkcalcError
from chunkcalc.records import (
    KV_BYTES,
    WEIGHT_BYTES,
    Absent,
    Allreduce,
    Compressed,
    Delta,
    Dense,
    Efficiency,
    Gqa,
    Hardware,
    Indexer,
    LayerGroup,
    Link,
    Mamba2,
    Mla,
    Model,
    Moe,
)

MAX_BYTES = 16 * 2**20  # of a profile: anything larger is not one
GENERIC = "generic"
_SHARED_FORMS = frozenset(
    ("elementwise", "mla_absorb", "unified_attention", "indexer", "recurrent_prefill", "recurrent_decode", "mla_sparse")
)  # the same on every GPU
_KINDS: Mapping[str, Any] = {
    "gqa": Gqa, "mla": Mla, "compressed": Compressed, "delta": Delta, "mamba2": Mamba2, "none": Absent,
    "dense": Dense, "moe": Moe,
}  # fmt: skip


class Found(NamedTuple):
    """A record and how the name led to it."""

    record: Any
    how: str


def data_folder(name: str) -> Path:
    """The folder of shipped profiles: inside the installed package, or at the checkout's top.

    Parameters
    ----------
    name : `models` or `hardware_profiles`
    """
    installed = Path(__file__).parent / "_data" / name
    return installed if installed.is_dir() else Path(__file__).parent.parent / name


def load_model(name: str) -> Found:
    """A model by id, Hugging Face id, alias or path to a profile.

    Parameters
    ----------
    name : what the user wrote

    Returns
    -------
    the Model and how it was found

    Raises
    ------
    ChunkcalcError : unknown name (with the nearest ones), or an unreadable or invalid profile
    """
    return _load(name, "models", "model", "--model")


def load_hardware(name: str) -> Found:
    """A GPU by id, product name, alias or path to a profile, its efficiencies completed.

    Parameters
    ----------
    name : what the user wrote

    Returns
    -------
    the Hardware and how it was found

    Raises
    ------
    ChunkcalcError : unknown name (with the nearest ones), or an unreadable or invalid profile
    """
    return _load(name, "hardware_profiles", "GPU", "--gpu")


def models() -> Iterator[Model]:
    """Every shipped model, by id."""
    return (_shipped("models", path.stem) for path in _files("models"))


def gpus() -> Iterator[Hardware]:
    """Every shipped GPU, by id."""
    return (_shipped("hardware_profiles", path.stem) for path in _files("hardware_profiles"))


def _files(folder: str) -> list[Path]:
    return sorted(path for path in data_folder(folder).glob("*.toml") if path.stem != GENERIC)


@cache
def _shipped(folder: str, identifier: str) -> Any:
    data = read_toml(data_folder(folder) / f"{identifier}.toml")
    return model_from(data) if folder == "models" else hardware_from(data)


def _load(name: str, folder: str, noun: str, option: str) -> Found:
    if name.endswith(".toml"):
        return Found(_from_file(Path(name), folder, option), f"file {name}")
    wanted = _normal(name)
    files = _files(folder)
    if any(path.stem == wanted for path in files):
        return Found(_shipped(folder, wanted), "id")
    for path in files:
        # The text is searched before the TOML is parsed: only files that mention the name are read.
        if wanted and wanted in _normal(path.read_text(encoding="utf-8")):
            record = _shipped(folder, path.stem)
            if wanted in _names(record):
                return Found(record, f"{name} -> {record.id}")
    raise ChunkcalcError(f"unknown {noun} '{name}'", option, _nearest(wanted, folder))


def _names(record: Model | Hardware) -> set[str]:
    """Every normalised name of a record; a Hugging Face id also answers to its last part."""
    aliases = {_normal(alias) for alias in record.aliases}
    return {record.id} | aliases | {alias.rsplit("/", 1)[-1] for alias in aliases}


def _normal(name: str) -> str:
    return name.strip().lower().replace("_", "-").replace(" ", "-")


def _nearest(wanted: str, folder: str) -> str:
    from difflib import SequenceMatcher  # noqa: PLC0415 - only needed for a wrong name

    def likeness(identifier: str) -> float:
        names = _names(_shipped(folder, identifier))
        return max(SequenceMatcher(None, wanted, name).ratio() for name in names)

    near = sorted((path.stem for path in _files(folder)), key=likeness, reverse=True)[:3]
    command = "models list" if folder == "models" else "gpus list"
    return f"did you mean {', '.join(near)}? ('chunkcalc {command}' shows all)"


def _from_file(path: Path, folder: str, option: str) -> Any:
    from chunkcalc import schema  # noqa: PLC0415 - pydantic is loaded for a user's own files only

    data = read_toml(path, option)
    if folder == "models":
        return schema.model(data, str(path))
    schema.check_hardware(data, str(path))
    return hardware_from(data)


def read_toml(path: Path, option: str = "") -> dict[str, Any]:
    """A TOML file as plain data, of at most MAX_BYTES.

    Parameters
    ----------
    path : the file
    option : where the user named it

    Raises
    ------
    ChunkcalcError : unreadable, too large, or not TOML
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ChunkcalcError(
                f"'{path}' is larger than {MAX_BYTES >> 20} MiB",
                option,
                "a profile is a few kilobytes",
            )
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ChunkcalcError(
            f"cannot read '{path}' ({error.strerror})", option, "give a readable .toml profile"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ChunkcalcError(
            f"'{path}' is not valid TOML ({error})", option, "see 'chunkcalc models show ID --toml'"
        ) from None


def model_from(data: Mapping[str, Any]) -> Model:
    """A Model from the data of a valid profile.

    Parameters
    ----------
    data : what the file holds
    """
    fields = dict(data)
    fields["layers"] = tuple(
        LayerGroup(count=group["count"], attention=_kind(group["attention"]), ffn=_kind(group["ffn"]))
        for group in data["layers"]
    )
    fields["aliases"] = tuple(data.get("aliases", ()))
    fields["unquantised"] = {dtype: tuple(parts) for dtype, parts in data.get("unquantised", {}).items()}
    return Model(**fields)


def _kind(data: Mapping[str, Any]) -> Any:
    fields = dict(data)
    if "indexer" in fields:
        fields["indexer"] = Indexer(**fields["indexer"])
    return _KINDS[data["kind"]](**fields)


def hardware_from(data: Mapping[str, Any]) -> Hardware:
    """A Hardware from the data of a valid profile, completed with the generic constants.

    Parameters
    ----------
    data : what the file holds
    """
    fields = {key: value for key, value in data.items() if key not in ("memory", "link", "efficiency", "allreduce")}
    link = Link(**{"domain": data["link"].get("gpus_per_node", 8), **data["link"]})
    measured = _efficiencies(data.get("efficiency", {}))
    reduces = {int(n): _allreduce(value) for n, value in data.get("allreduce", {}).items()}
    generic = frozenset(_generic_efficiencies()) - frozenset(measured)
    efficiency = {**_generic_efficiencies(), **measured}
    for kv in KV_BYTES:
        decode, unified = (
            efficiency[f"decode_attention.{kv}"],
            efficiency[f"unified_attention.{kv}"],
        )
        efficiency[f"unified_attention.{kv}"] = unified._replace(memory=decode.memory, latency=decode.latency)
    fields["aliases"] = tuple(data.get("aliases", ()))
    fields["tile_penalty"] = {
        dtype: {int(m): ratio for m, ratio in row.items()} for dtype, row in data.get("tile_penalty", {}).items()
    }
    return Hardware(
        **fields,
        memory=data["memory"]["mib"] * 2**20,
        bandwidth=data["memory"]["bandwidth"],
        link=link,
        efficiency=efficiency,
        allreduce=_all_sizes(reduces, link),
        generic=frozenset(key for key in generic if key.split(".")[0] not in _SHARED_FORMS)
        | (frozenset() if reduces else frozenset(("allreduce",))),
    )


def _efficiencies(table: Mapping[str, Mapping[str, Mapping[str, float]]]) -> dict[str, Efficiency]:
    return {f"{form}.{dtype}": _efficiency(values) for form, rows in table.items() for dtype, values in rows.items()}


def _efficiency(values: Mapping[str, float]) -> Efficiency:
    rest = {key: value for key, value in values.items() if key != "latency_us"}
    return Efficiency(latency=values.get("latency_us", 0.0) * 1e-6, **rest)


def _allreduce(values: Mapping[str, float]) -> Allreduce:
    return Allreduce(values["latency_us"] * 1e-6, values["bandwidth"], values.get("ramp_us", 0.0) * 1e-6)


@cache
def _generic() -> dict[str, Any]:
    return read_toml(data_folder("hardware_profiles") / f"{GENERIC}.toml")


@cache
def _generic_efficiencies() -> dict[str, Efficiency]:
    return _efficiencies(_generic()["efficiency"])


def _all_sizes(measured: Mapping[int, Allreduce], link: Link) -> dict[int, Allreduce]:
    """All-reduces of every group size in the domain: the next larger measured one, else the largest."""
    generic = _generic()["allreduce"]["generic"]
    fallback = Allreduce(generic["latency_us"] * 1e-6, generic["link_fraction"] * link.bandwidth)
    sizes = sorted(measured)
    out = {}
    for n in range(2, max(link.domain, link.gpus_per_node) + 1):
        larger = [size for size in sizes if size >= n]
        out[n] = measured[larger[0] if larger else sizes[-1]] if sizes else fallback
    return out


def with_link(hardware: Hardware, bandwidth: float, latency: float | None) -> Hardware:
    """The GPU behind another link; measured all-reduces scale with its bandwidth.

    Parameters
    ----------
    hardware : the GPU
    bandwidth : one way per GPU [byte/s]
    latency : of a message [s]; None keeps the measured one

    Returns
    -------
    the GPU with that link
    """
    from dataclasses import replace  # noqa: PLC0415

    ratio = bandwidth / hardware.link.bandwidth
    allreduce = {
        n: Allreduce(fit.latency if latency is None else latency, fit.bandwidth * ratio, fit.ramp / ratio)
        for n, fit in hardware.allreduce.items()
    }
    link = replace(hardware.link, bandwidth=bandwidth, latency=latency or hardware.link.latency)
    return replace(hardware, link=link, allreduce=allreduce)


def weight_format_names() -> tuple[str, ...]:
    """Weight formats a deployment can name."""
    return tuple(WEIGHT_BYTES)
