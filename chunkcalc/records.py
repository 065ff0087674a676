"""The records everything is said in: frozen, keyword-only, SI units, no behaviour beyond sums.

Ranges stand in the annotations and are enforced by `schema.py` on what a user
writes; the fields may hold symbols and arrays where a formula is fed with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any, Literal, NamedTuple, get_args

from chunkcalc.frozen import dataclass


class Within:
    """Bounds of a value, which pydantic enforces where `schema.py` reads a user's file."""

    def __init__(self, **bounds: float) -> None:
        self.bounds = bounds

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """The schema of the bare type with these bounds."""
        return {**handler(source), **self.bounds}


Positive = Annotated[float, Within(gt=0)]
Count = Annotated[int, Within(gt=0)]
Whole = Annotated[int, Within(ge=0)]
Fraction = Annotated[float, Within(ge=0, le=1)]
Name = Annotated[str, Within(min_length=1, max_length=200)]
Text = Annotated[str, Within(min_length=1, max_length=2000)]

Format = Literal["bf16", "fp8", "fp8_block", "int8", "int4", "int4_g32", "mxfp4", "nvfp4"]
KvFormat = Literal["bf16", "fp8"]
EngineName = Literal["vllm", "sglang", "trtllm", "atom"]  # each has a reader and two tables in engines/
ENGINE_NAMES: tuple[EngineName, ...] = get_args(EngineName)
Part = Literal["attention", "dense", "experts", "shared"]
Kind = Literal["dense", "moe", "latent", "hybrid"]  # of a model, as far as the error of a prediction depends on it

# Bytes per weight with scales: int4 in groups of 128 or 32 (fp16 scale, packed zero point), MXFP4 in
# blocks of 32 (8-bit scale), NVFP4 in blocks of 16 (8-bit scale); OCP MX specification 1.0.
WEIGHT_BYTES: Mapping[str, float] = {
    "bf16": 2.0, "fp8": 1.0, "fp8_block": 1.0, "int8": 1.0, "int4": 0.52, "int4_g32": 0.5625,
    "mxfp4": 0.53125, "nvfp4": 0.5625,
}  # fmt: skip
KV_BYTES: Mapping[str, float] = {"bf16": 2.0, "fp8": 1.0}


# What pydantic reads when `schema.py` validates a user's file into these records.
STRICT = {"extra": "forbid"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexer:
    """Small heads that score every cached token and pick the keys that attention reads."""

    __pydantic_config__ = STRICT
    heads: Count
    dim: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class Gqa:
    """Grouped-query attention.

    window : sliding window, tokens back that a query sees, itself included [token]
    chunk : positions see only their own block of that many tokens [token]
    gate : an output gate as wide as the queries
    shares_kv : no keys and values of its own, the cache of an earlier layer is read
    k_is_v : one projection gives keys and values
    norm_all : queries and keys are normalised over all heads together, so over the ranks too
    top_k, indexer : only the best keys are read [token], picked by this layer's indexer or, where
        it has none, by an earlier layer's
    """

    __pydantic_config__ = STRICT
    kind: Literal["gqa"] = "gqa"
    heads: Count
    kv_heads: Count
    head_dim: Count
    v_head_dim: Count | None = None
    window: Count | None = None
    chunk: Count | None = None
    gate: bool = False
    shares_kv: bool = False
    k_is_v: bool = False
    norm_all: bool = False
    top_k: Count | None = None
    indexer: Indexer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mla:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): one latent per token is cached.

    q_lora : rank of the queries; None projects them directly [1]
    gate : an output gate as wide as the values
    top_k, indexer : as in Gqa
    """

    __pydantic_config__ = STRICT
    kind: Literal["mla"] = "mla"
    heads: Count
    q_lora: Count | None = None
    kv_lora: Count
    nope: Count
    rope: Count
    v_head_dim: Count
    gate: bool = False
    top_k: Count | None = None
    indexer: Indexer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compressed:
    """DeepSeek V4: a raw window and one cached entry per `ratio` tokens before it (none: window only).

    q_lora, o_lora, o_groups : ranks of queries and grouped output, groups [1]
    top_k, indexer : as in Gqa, over compressed entries
    hyper_connections : copies of the residual stream [1]
    """

    __pydantic_config__ = STRICT
    kind: Literal["compressed"] = "compressed"
    heads: Count
    head_dim: Count
    q_lora: Count
    o_lora: Count
    o_groups: Count
    window: Count
    ratio: Count | None = None
    top_k: Count | None = None
    indexer: Indexer | None = None
    hyper_connections: Whole = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """Gated delta rule: Gated DeltaNet (`gdn`) or Kimi delta attention (`kda`)."""

    __pydantic_config__ = STRICT
    kind: Literal["delta"] = "delta"
    style: Literal["gdn", "kda"] = "gdn"
    key_heads: Count
    key_dim: Count
    value_heads: Count
    value_dim: Count
    conv: Count = 4
    full_gate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Mamba2:
    """A Mamba-2 state-space layer."""

    __pydantic_config__ = STRICT
    kind: Literal["mamba2"] = "mamba2"
    heads: Count
    head_dim: Count
    state: Count
    groups: Count = 1
    conv: Count = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """A layer without attention, or without a feed-forward part."""

    __pydantic_config__ = STRICT
    kind: Literal["none"] = "none"


Attention = Gqa | Mla | Compressed | Delta | Mamba2 | Absent


@dataclass(frozen=True, slots=True, kw_only=True)
class Dense:
    """A dense MLP; `gated` ones have three matrices, plain ones two."""

    __pydantic_config__ = STRICT
    kind: Literal["dense"] = "dense"
    intermediate: Count
    gated: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Moe:
    """A mixture of experts: `top_k` of `experts` per token, plus shared experts of a total width;
    `latent` is the width the experts run at where it differs from the hidden size. Some of a
    token's top_k routes may lead to `identity_experts`, which do nothing."""

    __pydantic_config__ = STRICT
    kind: Literal["moe"] = "moe"
    experts: Count
    top_k: Count
    intermediate: Count
    shared_intermediate: Whole = 0
    latent: Count | None = None
    identity_experts: Whole = 0
    gated: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerGroup:
    """`count` layers of one kind."""

    __pydantic_config__ = STRICT
    count: Count
    attention: Attention
    ffn: Dense | Moe | Absent


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """An architecture and the precision its checkpoint ships in.

    `variants` are further names whose checkpoints ship in another format than `weights`.
    `weights` is the format the checkpoint ships in, `formats` what parts of it use instead;
    `unquantised` names, per weight format, the parts that stay 16-bit in such checkpoints. Head,
    embedding, norms and routers always are. `per_layer_embedding` is the width of an embedding
    that every layer adds of its own (Gemma 3n and 4).
    """

    __pydantic_config__ = STRICT
    id: Name
    name: Name
    family: str = ""
    source: Text
    note: str = ""
    aliases: tuple[Name, ...] = ()
    hidden: Count
    vocab: Count
    tied_embeddings: bool = False
    max_position: Count
    mtp_layers: Whole = 0
    per_layer_embedding: Whole = 0
    weights: Format = "bf16"
    kv: KvFormat = "bf16"
    formats: Mapping[Part, Format] = field(default_factory=dict)
    unquantised: Mapping[Format, tuple[Part, ...]] = field(default_factory=dict)
    variants: Mapping[Name, Format] = field(default_factory=dict)
    published_params: Positive | None = None
    published_active_params: Positive | None = None
    layers: Annotated[tuple[LayerGroup, ...], Within(min_length=1)]

    @property
    def layer_count(self) -> int:
        """Layers of all groups."""
        return sum(group.count for group in self.layers)


class Efficiency(NamedTuple):
    """What a kernel form reaches on a GPU (see `roofline.py` for the formulas).

    compute, memory : achieved fractions of peak and bandwidth [1], at most 1
    latency : fixed time per launch [s]
    knee : exponent of the q-norm that joins compute and memory [1]
    activations : traffic of quantising or permuting activations, in units of the kernel's
        `activation_bytes` [1]
    waste : units of the kernel's `waste` done beyond the useful work [1]
    fill : tiles that each multiprocessor is paid for at least, in units of the kernel's `tile` [1]
    softmax : size of a head below which the softmax of a pair takes longer than its products [1]
    cached : bandwidth of the last-level cache over that of memory; 0 where it is not used [1]
    """

    compute: float = 1.0
    memory: float = 1.0
    latency: float = 0.0
    knee: float = 12.0
    activations: float = 0.0
    waste: float = 0.0
    fill: float = 0.0
    softmax: float = 0.0
    cached: float = 0.0


class Allreduce(NamedTuple):
    """An all-reduce over n GPUs: latency [s], bandwidth [byte/s], `ramp`: time that builds up over
    the first megabyte [s]."""

    latency: float
    bandwidth: float
    ramp: float = 0.0


HOST = tuple(f"host_{kind}" for kind in get_args(Kind))


class Overheads(NamedTuple):
    """What an engine adds to the kernels of its steps, and what it spares them.

    decode_layer : two small kernels per layer that are not counted [s]
    host_dense, host_moe, host_latent, host_hybrid : host time per layer of a step that no captured graph
        holds, by kind of model; it runs beside the GPU [s]
    host_graph : the same of a step with prompt tokens that is replayed layer by layer from captured graphs [s]
    host_spread : factor by which the host's time may be less or more [1]
    expert_layer : routing and sorting per mixture-of-experts layer of a step [s]
    norm_layer : per layer that normalises queries and keys over the heads of all ranks [s]
    sequence : sampling and bookkeeping per decode of a step [s]
    request : time per request outside its steps [s]
    prompt_token : the same per prompt token: reading it, hashing, sending [s]
    latent_request : the same per layer with latent attention [s]
    gateway : what stands between engine and client adds to every step [s]
    handover, handover_stall : where prefill and decode are apart: time from the end of the prefill to the first token
        beyond the transfer, and by how much an arriving request holds up the decodes of its unit [s]
    reshard, reshard_stall : the same where the units have different tensor parallel degrees [s]
    launches : share of a kernel's fixed time that is left inside a captured step [1]
    narrow_expert_launches : the same for experts in 4 bit, which run as one fused kernel [1]
    experts : time of the expert products over that of the kernels alone [1]
    arithmetic : time of arithmetic over that of the kernels alone, where those were not measured [1]
    cache : bandwidth that decode attention reaches over that of the kernel alone [1]
    quantising : share of quantising activations that is not fused into other kernels [1]
    kernels, prompts : time of launches, memory traffic and links, and of arithmetic, over that of the kernels as
        measured: what somebody's own numbers say of their system [1]
    """

    decode_layer: float = 0.0
    host_dense: float = 0.0
    host_moe: float = 0.0
    host_latent: float = 0.0
    host_hybrid: float = 0.0
    host_graph: float = 0.0
    host_spread: float = 1.0
    expert_layer: float = 0.0
    norm_layer: float = 0.0
    sequence: float = 0.0
    request: float = 0.0
    prompt_token: float = 0.0
    latent_request: float = 0.0
    gateway: float = 0.0
    handover: float = 0.0
    handover_stall: float = 0.0
    reshard: float = 0.0
    reshard_stall: float = 0.0
    launches: float = 1.0
    narrow_expert_launches: float = 1.0
    experts: float = 1.0
    arithmetic: float = 1.0
    cache: float = 1.0
    quantising: float = 1.0
    kernels: float = 1.0
    prompts: float = 1.0

    def with_host(self, factor: float) -> Overheads:
        """The same with a factor on every time of the host.

        Parameters
        ----------
        factor : 0 for a host that is never waited for [1]
        """
        return self._replace(**{name: factor * getattr(self, name) for name in (*HOST, "host_graph")})


class Band(NamedTuple):
    """Half-widths of the error, as fractions: nine in ten measurements stay below predicted x (1 + band) [1].

    tpot, ttft : of the means
    gap : of the longest gap between two tokens, against the 99th percentile of served ones
    """

    tpot: float
    ttft: float
    gap: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """What joins the GPUs of a node: bandwidth one way per GPU [byte/s], latency [s].

    pair_bandwidth : of the one link between two GPUs, where no switch joins them [byte/s]
    """

    kind: str
    bandwidth: Positive
    latency: Positive = 5e-6
    pair_bandwidth: Positive | None = None
    gpus_per_node: Count = 8
    domain: Count = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """One accelerator: dense peaks per dtype [FLOP/s], reported memory [byte], bandwidth [byte/s].

    `source` speaks of the whole profile, `sources` of the numbers under each key.
    `confidence` is A for figures with two sources, B with one, C announced; `instances` are cloud
    machine types with their number of devices; `allreduce` is keyed by the GPUs that take part,
    0 standing for any number where none was measured. `l2` is the last-level cache [byte], 0 where
    it is not known.

    `overheads` are those of each engine on this GPU, by the engine's name; `bands` the errors of
    predictions, by engine and kind of model; `measured` the engines of which somebody published runs on it,
    `newest` the newest version of each of which somebody published any.

    `efficiency` is keyed `form.dtype`; what is missing there comes from the generic set and makes
    an answer uncalibrated. `kernels` are those of an engine, by its name, where its own were measured.
    `tile_penalty[dtype][m]` is the measured time of m + 1 rows over m.
    """

    id: Name
    name: Name
    vendor: Name
    arch: Name
    confidence: Literal["A", "B", "C"] = "C"
    source: Text
    note: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)
    instances: Mapping[str, Count] = field(default_factory=dict)
    aliases: tuple[Name, ...] = ()
    peak: Mapping[str, Positive]
    memory: Positive
    bandwidth: Positive
    link: Link
    l2: float = 0.0
    sms: Count | None = None
    tile_rows: Count = 128
    tdp_w: Positive | None = None
    efficiency: Mapping[str, Efficiency] = field(default_factory=dict)
    kernels: Mapping[str, Mapping[str, Efficiency]] = field(default_factory=dict)
    overheads: Mapping[str, Overheads] = field(default_factory=dict)
    bands: Mapping[str, Mapping[str, Band]] = field(default_factory=dict)
    measured: frozenset[str] = frozenset()
    newest: Mapping[str, str] = field(default_factory=dict)
    allreduce: Mapping[int, Allreduce] = field(default_factory=dict)
    tile_penalty: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    generic: frozenset[str] = frozenset()

    def under(self, engine: str) -> Mapping[str, Efficiency]:
        """What kernels reach under an engine: its own where they were measured.

        Parameters
        ----------
        engine : its name
        """
        return {**self.efficiency, **self.kernels.get(engine, {})}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parallelism:
    """Degrees of one replica: tensor, pipeline, expert, and data parallel attention."""

    tp: Count = 1
    pp: Count = 1
    ep: Count = 1
    dp: Count = 1

    @property
    def stage_gpus(self) -> int:
        """GPUs that share a layer."""
        return self.tp * self.dp

    @property
    def gpus(self) -> int:
        """GPUs of the replica."""
        return self.tp * self.dp * self.pp


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """Weight format per part of the model, and the format of the KV cache."""

    weights: Format
    kv: KvFormat
    attention: Format
    dense: Format
    experts: Format
    shared: Format


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """How an engine composes, budgets and pays for its steps. Pure data.

    composition : `mixed` steps carry prompt tokens and decodes; `prefill_first` runs either
    attention : `split` runs prefill and decode attention as two kernels, `unified` as one
    prefill_interval : decode steps after every prompt step, where prompts go first [1]
    budget_counts_decodes : the flag counts decode tokens too (T = c + b(1 + drafts))
    captured : tokens up to which a step with prompt tokens runs from captured graphs, as a decode step does [token]
    eager : no step runs from a captured graph, decode steps included
    poll_interval : decode steps between two looks for new requests, where prompts go first [1]
    overheads : what it adds to the kernels of its steps
    memory_rule : what `memory_fraction` is a fraction of
    graphs_inside : whether that share must hold the captured CUDA graphs too
    kv_shift : memory of a GPU that it has for the KV cache beyond what is predicted, as it said itself [byte]
    memory_margin : share of the memory that it leaves unused beside [1]
    alignment : budgets are recommended in multiples of this [token]
    """

    name: EngineName
    version: str
    composition: Literal["mixed", "prefill_first"] = "mixed"
    attention: Literal["split", "unified"] = "split"
    budget_counts_decodes: bool = True
    prefill_interval: Whole = 0
    captured: Whole = 0
    eager: bool = False
    poll_interval: Count = 1
    overheads: Overheads = Overheads()
    memory_rule: Literal["total", "total_less_reserve", "left"] = "total"
    memory_fraction: Fraction | None = None
    graphs_inside: bool = True
    kv_shift: float = 0.0
    memory_margin: Fraction = 0.0
    alignment: Count = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """One replica: a model in some precision on some GPUs under an engine.

    narrowed : half-widths of the errors over those of the profile, where numbers measured on it narrowed them [1]
    """

    model: Model
    hardware: Hardware
    parallelism: Parallelism
    precision: Precision
    engine: Engine
    narrowed: Band = Band(1.0, 1.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What is served: `batch` requests decode at once, over the whole replica.

    prompt, output : tokens of a request [token]
    context : mean context of a decoding request [token]
    prefix_hit : share of the prompt found in the prefix cache [1]
    prefix_shared : that is one prefix of all requests, stored once; else each has its own
    draft_tokens, draft_acceptance : speculative tokens per step [token], chance that one holds [1]
    """

    prompt: Count
    output: Count
    batch: Whole
    context: Whole
    prefix_hit: Fraction = 0.0
    prefix_shared: bool = True
    draft_tokens: Whole = 0
    draft_acceptance: Fraction = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Slo:
    """Limits [s]; None where there is none.

    ttft : of the time to first token: without waiting for a batch, its percentile under traffic
    tpot : of the mean time per output token of a request
    itl : of the longest gap between two messages of a stream
    itl_given : the user set it; else it follows from `tpot`
    max_utilisation : highest utilisation of the capacity for prompts [1]
    """

    ttft: Positive | None = None
    tpot: Positive | None = None
    itl: Positive | None = None
    itl_given: bool = False
    max_utilisation: Fraction = 0.85

    @property
    def latency(self) -> tuple[float, ...]:
        """The latency limits that were given [s]."""
        return tuple(limit for limit in (self.ttft, self.tpot, self.itl) if limit is not None)


class Kernel(NamedTuple):
    """What one kernel must do on one GPU; nothing about how fast.

    name : class of work it belongs to, for the breakdown
    form : roofline that times it (`gemm`, `moe`, `prefill_attention`, ...)
    dtype : arithmetic format
    flops : arithmetic per launch [FLOP]
    bytes : memory traffic per launch [byte]
    least_flops, least_bytes : the part of each that no implementation avoids [FLOP], [byte]
    link_bytes, least_link_bytes : traffic to other GPUs per launch, one way, and its unavoidable part [byte]
    waste : arithmetic per unit of the form's waste constant [FLOP]
    activation_bytes : traffic of quantising or permuting activations, per unit of the constant [byte]
    idle : multiprocessors over tiles of queries: too few tiles leave the others idle [1]
    tile : arithmetic of one tile of outputs, which runs on one multiprocessor [FLOP]
    head_dim : elements of a head, mean of keys and values; 0 where there is no softmax [1]
    resident : memory that the traffic goes to and comes from, which may stay in the cache [byte]
    launches : how often it runs in a step [1]
    group : GPUs that take part [1]
    """

    name: str
    form: str
    dtype: str
    flops: float = 0.0
    bytes: float = 0.0
    least_flops: float = 0.0
    least_bytes: float = 0.0
    link_bytes: float = 0.0
    least_link_bytes: float = 0.0
    waste: float = 0.0
    activation_bytes: float = 0.0
    idle: float = 1.0
    tile: float = 0.0
    head_dim: float = 0.0
    resident: float = 0.0
    launches: float = 1.0
    group: int = 1
