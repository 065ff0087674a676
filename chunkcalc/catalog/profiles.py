"""Profile files -> records. A profile is one TOML file named after its id.

The generic efficiencies fill what a GPU's profile does not measure, and the record remembers
which those are.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import cache
from pathlib import Path
from typing import Any

from chunkcalc.catalog.names import normal
from chunkcalc.catalog.precision import PACKED
from chunkcalc.errors import ChunkcalcError
from chunkcalc.records import (
    KV_BYTES,
    Absent,
    Allreduce,
    Band,
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
    Overheads,
)

MAX_BYTES = 16 * 2**20  # of a profile: anything larger is not one
GENERIC = "generic"
# The same constants on every GPU: using them does not make an answer uncalibrated.
SHARED_FORMS = frozenset(
    ("elementwise", "mla_absorb", "unified_attention", "indexer", "recurrent_prefill", "recurrent_decode", "mla_sparse")
)
# Overheads that a profile writes in milli- or microseconds, in seconds.
MEASURED_VENDOR = "nvidia"  # whose kernels were measured
_MICRO = (
    "decode_layer", "host_dense", "host_moe", "host_latent", "host_hybrid", "host_graph", "expert_layer",
    "latent_request", "norm_layer", "sequence", "prompt_token",
)  # fmt: skip
_MILLI = ("request", "handover", "handover_stall", "reshard", "reshard_stall")
SCALED = {**{f"{name}_us": 1e-6 for name in _MICRO}, **{f"{name}_ms": 1e-3 for name in _MILLI}}
_KINDS: Mapping[str, Any] = {
    "gqa": Gqa, "mla": Mla, "compressed": Compressed, "delta": Delta, "mamba2": Mamba2, "none": Absent,
    "dense": Dense, "moe": Moe,
}  # fmt: skip


def data_folder(name: str) -> Path:
    """The folder of shipped profiles: inside the installed package, or at the checkout's top."""
    installed = Path(__file__).parents[1] / "_data" / name
    return installed if installed.is_dir() else Path(__file__).parents[2] / name


def read_toml(path: Path, option: str = "") -> dict[str, Any]:
    """A TOML file as plain data, of at most MAX_BYTES.

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
    except (ValueError, RecursionError) as error:  # TOML, UTF-8, numbers of thousands of digits
        raise ChunkcalcError(
            f"'{path}' is not valid TOML ({error})",
            option,
            "compare with a shipped profile (chunkcalc models show ID --toml, gpus show ID --toml)",
        ) from None


def extended(data: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """A profile that names another one as its base: tables are joined, everything else is replaced."""
    joined = dict(base)
    for key, value in data.items():
        own = base.get(key)
        joined[key] = extended(value, own) if isinstance(value, Mapping) and isinstance(own, Mapping) else value
    return joined


def model_from(data: Mapping[str, Any]) -> Model:
    """A Model from the data of a valid profile."""
    fields = dict(data)
    fields["layers"] = tuple(
        LayerGroup(count=group["count"], attention=_kind(group["attention"]), ffn=_kind(group["ffn"]))
        for group in data["layers"]
    )
    fields["aliases"] = tuple(data.get("aliases", ()))
    fields["variants"] = variants(data.get("variants", {}))
    fields["unquantised"] = {dtype: tuple(parts) for dtype, parts in data.get("unquantised", {}).items()}
    return Model(**fields)


def check_layers(model: Model, where: str) -> None:
    """Refuse sizes that contradict each other.

    Raises
    ------
    ChunkcalcError : KV heads that do not divide the heads, more chosen experts than there are
    """
    for index, group in enumerate(model.layers):
        attention, ffn = group.attention, group.ffn
        if isinstance(attention, Gqa) and attention.heads % attention.kv_heads:
            problem = f"{attention.kv_heads} KV heads do not divide {attention.heads} heads"
            raise ChunkcalcError(problem, f"{where}: layers.{index}.attention", "correct the value")
        if isinstance(ffn, Moe) and ffn.top_k > ffn.experts:
            problem = f"top_k {ffn.top_k} of {ffn.experts} experts"
            raise ChunkcalcError(problem, f"{where}: layers.{index}.ffn", "correct the value")


def variants(table: Mapping[str, Any]) -> dict[str, Any]:
    """Formats by normalised name; a Hugging Face id also answers to its last part."""
    spelled = {normal(name): weights for name, weights in table.items()}
    return {**{name.rsplit("/", 1)[-1]: weights for name, weights in spelled.items()}, **spelled}


def _kind(data: Mapping[str, Any]) -> Any:
    fields = dict(data)
    if "indexer" in fields:
        fields["indexer"] = Indexer(**fields["indexer"])
    return _KINDS[data["kind"]](**fields)


def hardware_from(data: Mapping[str, Any]) -> Hardware:
    """A Hardware from the data of a valid profile, completed with the generic constants."""
    apart = ("memory", "link", "efficiency", "kernels", "allreduce", "engine", "bands", "calibration", "extends")
    fields = {key: value for key, value in data.items() if key not in apart}
    link = Link(**{"domain": data["link"].get("gpus_per_node", 8), **data["link"]})
    names = {data["id"], data.get("extends", "")}
    measured = _efficiencies(data.get("efficiency", {}))
    reduces = {int(n): _allreduce(value) for n, value in data.get("allreduce", {}).items()}
    generic = frozenset(_generic_efficiencies()) - frozenset(measured)
    efficiency = {**_generic_efficiencies(), **measured}
    kernels = {engine: _efficiencies(table) for engine, table in data.get("kernels", {}).items()}
    for table in (efficiency, *kernels.values()):
        for key in [key for key in table if key.endswith(".int4")]:
            table[f"{key}_g32"] = table[key]  # smaller groups move more bytes, the kernel is the same
    generic |= {f"{key}_g32" for key in generic if key.endswith(".int4")}
    if "fp8" not in data["peak"]:  # weight-only: as 16 bit
        for form, dtype in ((form, dtype) for form in ("gemm", "moe") for dtype in PACKED.get(data["arch"], ())):
            efficiency[f"{form}.{dtype}"] = efficiency[f"{form}.bf16"]
            generic = generic - {f"{form}.{dtype}"} if f"{form}.bf16" not in generic else generic
    for kv in KV_BYTES:
        decode, unified = (
            efficiency[f"decode_attention.{kv}"],
            efficiency[f"unified_attention.{kv}"],
        )
        # The rest is that of the separate call: a first prompt token makes no step faster.
        own = {"memory": decode.memory, "latency": decode.latency, "activations": decode.activations}
        efficiency[f"unified_attention.{kv}"] = unified._replace(**own)
    fields["aliases"] = tuple(data.get("aliases", ()))
    fields["tile_penalty"] = {
        dtype: {int(m): ratio for m, ratio in row.items()} for dtype, row in data.get("tile_penalty", {}).items()
    }
    return Hardware(
        **fields,
        memory=data["memory"]["mib"] * 2**20,
        bandwidth=data["memory"]["bandwidth"],
        l2=data["memory"].get("l2_mib", 0.0) * 2**20,
        link=link,
        efficiency=efficiency,
        kernels=kernels,
        overheads=_overheads(data["arch"], data.get("engine", {})),
        bands=_bands(names, data["vendor"], data.get("bands", {})),
        measured=frozenset(name for name in _generic()["engine"] if names & _measured(name))
        | set(data.get("bands", {})),
        newest={name: table["newest"] for name, table in _generic()["bands"].items() if "newest" in table},
        allreduce=reduces or _any_size(link),
        generic=frozenset(key for key in generic if key.split(".")[0] not in SHARED_FORMS)
        | (frozenset() if reduces else frozenset(("allreduce",))),
    )


def _efficiencies(table: Mapping[str, Mapping[str, Mapping[str, float]]]) -> dict[str, Efficiency]:
    return {f"{form}.{dtype}": _efficiency(values) for form, rows in table.items() for dtype, values in rows.items()}


def _efficiency(values: Mapping[str, float]) -> Efficiency:
    rest = {key: value for key, value in values.items() if key != "latency_us"}
    return Efficiency(latency=values.get("latency_us", 0.0) * 1e-6, **rest)


def _overheads(arch: str, own: Mapping[str, Mapping[str, float]]) -> dict[str, Overheads]:
    """Each engine's overheads: for any GPU, for its architecture, then its own."""
    found = {}
    for name, table in _generic()["engine"].items():
        plain = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
        built = table.get(arch.removesuffix("-ultra"), {})
        values = {**plain, **built, **own.get(name, {})}
        found[name] = Overheads(
            **{
                key.rsplit("_", 1)[0] if key in SCALED else key: value * SCALED.get(key, 1.0)
                for key, value in values.items()
            }
        )
    return found


def _bands(
    names: AbstractSet[str], vendor: str, own: Mapping[str, Mapping[str, Mapping[str, float]]]
) -> dict[str, dict[str, Band]]:
    """Each engine's error bands by kind of model.

    They are wider on GPUs where nobody measured the engine, and where the kernels were not measured either.
    """
    generic = _generic()["bands"]
    least = Band(0.0, 0.0) if vendor == MEASURED_VENDOR else Band(**generic["other"]["any"])
    found = {}
    for name in _generic()["engine"]:
        table = generic[name]
        rows = table if names & _measured(name) else table.get("new", table)
        measured = {kind: Band(**values) for kind, values in rows.items() if kind not in ("measured", "newest", "new")}
        wide = {kind: Band(*map(max, band, least)) for kind, band in measured.items()}
        found[name] = wide | {
            kind: Band(**{**wide[kind]._asdict(), **values}) for kind, values in own.get(name, {}).items()
        }
    return found


def _measured(engine: str) -> set[str]:
    """The GPUs on which somebody measured an engine."""
    return set(_generic()["bands"][engine].get("measured", ()))


def _allreduce(values: Mapping[str, float]) -> Allreduce:
    return Allreduce(values["latency_us"] * 1e-6, values["bandwidth"], values.get("ramp_us", 0.0) * 1e-6)


@cache
def _generic() -> dict[str, Any]:
    return read_toml(data_folder("hardware_profiles") / f"{GENERIC}.toml")


@cache
def _generic_efficiencies() -> dict[str, Efficiency]:
    return _efficiencies(_generic()["efficiency"])


def _any_size(link: Link) -> dict[int, Allreduce]:
    """The generic all-reduce, for any number of GPUs."""
    generic = _generic()["allreduce"]["generic"]
    return {0: Allreduce(generic["latency_us"] * 1e-6, generic["link_fraction"] * link.bandwidth)}
