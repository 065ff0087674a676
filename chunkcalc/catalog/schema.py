"""Validation of a user's profiles with pydantic: the same records, one sentence per problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from chunkcalc.catalog.profiles import check_layers, variants
from chunkcalc.errors import ChunkcalcError
from chunkcalc.records import EngineName, Kind, Model, Name, Text

Share = Annotated[float, Field(gt=0, le=1)]
Amount = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Peak(_Table):
    """Dense peaks [FLOP/s]; a missing dtype is one the GPU cannot compute in."""

    bf16: Amount | None = None
    fp8: Amount | None = None
    int8: Amount | None = None
    fp4: Amount | None = None


class Memory(_Table):
    """Memory as the driver reports it [MiB], its bandwidth [byte/s], the last-level cache [MiB]."""

    mib: Amount
    bandwidth: Amount
    l2_mib: NotNegative = 0.0


class LinkTable(_Table):
    """The link between GPUs: bandwidth one way per GPU [byte/s], latency [s]."""

    kind: Name
    bandwidth: Amount
    latency: Amount = 5e-6
    pair_bandwidth: Amount | None = None
    gpus_per_node: Annotated[int, Field(gt=0)] = 8
    domain: Annotated[int, Field(gt=0)] = 8


class EfficiencyTable(_Table):
    """Achieved fractions and launch time of one form and dtype."""

    compute: Share = 1.0
    memory: Share = 1.0
    latency_us: NotNegative = 0.0
    knee: Annotated[float, Field(ge=1, le=100)] = 12.0
    activations: NotNegative = 0.0
    waste: NotNegative = 0.0
    fill: NotNegative = 0.0
    softmax: NotNegative = 0.0
    cached: NotNegative = 0.0


class AllreduceTable(_Table):
    """A measured all-reduce: latency and ramp [us], bandwidth [byte/s]."""

    latency_us: NotNegative
    bandwidth: Amount
    ramp_us: NotNegative = 0.0


class EngineTable(_Table):
    """What an engine adds to its kernels on this GPU; what is left out comes from the generic constants."""

    decode_layer_us: NotNegative | None = None
    host_dense_us: NotNegative | None = None
    host_moe_us: NotNegative | None = None
    host_latent_us: NotNegative | None = None
    host_hybrid_us: NotNegative | None = None
    host_graph_us: NotNegative | None = None
    host_spread: Annotated[float, Field(ge=1)] | None = None
    expert_layer_us: NotNegative | None = None
    latent_request_us: NotNegative | None = None
    norm_layer_us: NotNegative | None = None
    sequence_us: NotNegative | None = None
    prompt_token_us: NotNegative | None = None
    request_ms: NotNegative | None = None
    handover_ms: NotNegative | None = None
    handover_stall_ms: NotNegative | None = None
    reshard_ms: NotNegative | None = None
    reshard_stall_ms: NotNegative | None = None
    launches: NotNegative | None = None
    narrow_expert_launches: NotNegative | None = None
    experts: Amount | None = None
    arithmetic: Amount | None = None
    cache: Amount | None = None
    quantising: NotNegative | None = None
    kernels: Amount | None = None
    prompts: Amount | None = None


class BandTable(_Table):
    """Half-widths of the error of predictions, as fractions."""

    tpot: Annotated[float, Field(gt=0, le=2)]
    ttft: Annotated[float, Field(gt=0, le=2)]
    gap: Annotated[float, Field(gt=0, le=2)] | None = None


class Calibration(_Table):
    """Where fitted numbers of a profile come from."""

    date: Text
    engine: Name
    engine_version: str = ""
    rows: Annotated[int, Field(gt=0)]
    files: list[Text] = []
    fitted: list[Name] = []
    tpot_error: NotNegative | None = None
    ttft_error: NotNegative | None = None
    note: str = ""


class HardwareFile(_Table):
    """A hardware profile as a file."""

    id: Name
    name: Name
    vendor: Name
    arch: Name
    confidence: Literal["A", "B", "C"] = "C"
    sources: dict[Name, Text] = {}
    instances: dict[Name, Annotated[int, Field(gt=0)]] = {}
    aliases: list[Name] = []
    source: Text
    note: str = ""
    sms: Annotated[int, Field(gt=0)] | None = None
    tile_rows: Annotated[int, Field(gt=0)] = 128
    tdp_w: Amount | None = None
    peak: Peak
    memory: Memory
    link: LinkTable
    efficiency: dict[str, dict[str, EfficiencyTable]] = {}
    kernels: dict[EngineName, dict[str, dict[str, EfficiencyTable]]] = {}
    allreduce: dict[str, AllreduceTable] = {}
    tile_penalty: dict[str, dict[str, Annotated[float, Field(gt=0)]]] = {}
    engine: dict[EngineName, EngineTable] = {}
    bands: dict[EngineName, dict[Kind, BandTable]] = {}
    calibration: Calibration | None = None


_MODEL: TypeAdapter[Model] = TypeAdapter(Model)
_KINDS = {
    "attention": ("gqa", "mla", "compressed", "delta", "mamba2", "none"),
    "ffn": ("dense", "moe", "none"),
}
_RECORDS = frozenset(("Gqa", "Mla", "Compressed", "Delta", "Mamba2", "Absent", "Dense", "Moe"))


def model(data: Mapping[str, Any], where: str) -> Model:
    """A Model from a file's data.

    Raises
    ------
    ChunkcalcError : the first invalid key, by name
    """
    _check_kinds(data, where)
    try:
        found = _MODEL.validate_python(data)
    except ValidationError as error:
        raise _first(error, where) from None
    check_layers(found, where)
    return replace(found, variants=variants(found.variants))


def _check_kinds(data: Mapping[str, Any], where: str) -> None:
    """Name a wrong `kind` before the union of kinds reports one problem per member."""
    layers = data.get("layers")
    for index, layer in enumerate(layers if isinstance(layers, list) else []):
        for part, kinds in _KINDS.items():
            value = layer.get(part) if isinstance(layer, dict) else None
            if isinstance(value, dict) and value.get("kind") not in kinds:
                place = f"{where}: layers.{index}.{part}.kind"
                raise ChunkcalcError(
                    f"unknown kind {value.get('kind')!r:.40}", place, f"choose from {', '.join(kinds)}"
                )


def check_hardware(data: Mapping[str, Any], where: str) -> None:
    """Refuse invalid hardware data.

    Raises
    ------
    ChunkcalcError : the first invalid key, by name
    """
    try:
        HardwareFile.model_validate(data)
    except ValidationError as error:
        raise _first(error, where) from None


def _first(error: ValidationError, where: str) -> ChunkcalcError:
    """One problem, the most telling first: unknown keys, then wrong values, then missing keys."""
    order = {"extra_forbidden": 0, "unexpected_keyword_argument": 0, "missing": 2}
    # A union reports every member's problems; those of the member whose `kind` is wrong are noise.
    wrong = {
        item["loc"][:-1] for item in error.errors() if item["type"] == "literal_error" and item["loc"][-1] == "kind"
    }
    items = [
        item for item in error.errors() if not any(item["loc"][: len(loc)] == loc for loc in wrong)
    ] or error.errors()
    item = min(items, key=lambda item: order.get(item["type"], 1))
    key = ".".join(str(part) for part in item["loc"] if part not in _RECORDS)
    if order.get(item["type"]) == 0:
        return ChunkcalcError(f"unknown key '{key}'", where, "remove it or correct its spelling")
    if item["type"] == "missing":
        return ChunkcalcError(
            f"missing key '{key}'",
            where,
            "compare with a shipped profile (chunkcalc models show ID --toml, gpus show ID --toml)",
        )
    return ChunkcalcError(f"'{key}' is {item['input']!r:.60}: {item['msg'].lower()}", where, "correct the value")
