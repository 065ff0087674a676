"""What was measured, as records: benchmark runs, single steps, requests one by one, rows left out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from chunkcalc.frozen import dataclass
from chunkcalc.records import KvFormat
from chunkcalc.traffic.arrivals import Request

CAP = re.compile(r"\bcap (\d{1,9})\b")  # in a note: of the requests in flight
PLUG_INS = ("atom",)  # engines whose kernels run inside others
Kind = Literal["serving", "steps", "traces", "vllm", "sglang", "guidellm", "aiperf", "genai-perf"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One benchmark run of one server under one load.

    Names are as the file writes them; `catalog/lookup.py` resolves them. Latencies are seen by the client;
    None is what the file does not say.

    row : 1-based data row or entry of the file
    path : the file
    source, reference : who measured, and where it is published
    engine, engine_version : the server, and its version ("" where unknown)
    model, gpu : what was served, and on what
    weights, kv : format of the weights and of the KV cache
    prompt_tokens, output_tokens : mean lengths [token]
    concurrency : requests in flight, held by a closed loop [1]
    rate : of arrivals, in an open loop; with a concurrency too, that one is a cap [request/s]
    requests : sent in the run [1]
    tp, dp, ep, pp : tensor, attention data, expert and pipeline parallel degrees; tp dp pp GPUs [1]
    p_num, p_tp, d_num, d_tp : prefill and decode units apart, and the tensor parallel degree of each [1]
    ttft, tpot : means over the requests [s]
    ttft_p50, ttft_p95, ttft_p99, tpot_p50, tpot_p99 : percentiles over the requests [s]
    itl_mean, itl_p50, itl_p95, itl_p99 : over all gaps between two messages of a stream [s]
    budget : tokens of a step, or of a chunk, as the server was launched [token]
    max_num_seqs : requests that the server runs at once, as launched [1]
    least_ratio : shortest prompt over the longest, where lengths are uniform; 1: all alike, 0: from one token [1]
    wide : lengths of real conversations (ShareGPT)
    spec : with speculative decoding
    prefix_cache : with a prefix cache
    date : of the run, as YYYY-MM-DD
    note : caveats of the file, and what was taken for granted
    """

    row: int
    path: str
    source: str = ""
    reference: str = ""
    engine: str
    engine_version: str = ""
    model: str
    gpu: str
    weights: str | None = None
    kv: KvFormat | None = None
    prompt_tokens: float
    output_tokens: float
    concurrency: int | None = None
    rate: float | None = None
    requests: int | None = None
    tp: int = 1
    dp: int = 1
    ep: int = 1
    pp: int = 1
    p_num: int | None = None
    p_tp: int | None = None
    d_num: int | None = None
    d_tp: int | None = None
    ttft: float | None = None
    tpot: float | None = None
    ttft_p50: float | None = None
    ttft_p95: float | None = None
    ttft_p99: float | None = None
    tpot_p50: float | None = None
    tpot_p99: float | None = None
    itl_mean: float | None = None
    itl_p50: float | None = None
    itl_p95: float | None = None
    itl_p99: float | None = None
    budget: int | None = None
    max_num_seqs: int | None = None
    least_ratio: float | None = None
    wide: bool = False
    spec: bool | None = None
    prefix_cache: bool | None = None
    date: str = ""
    note: str = ""

    @property
    def rounds(self) -> bool:
        """All users send at once, and again when all are answered."""
        return "sent at once" in self.note

    @property
    def apart(self) -> bool:
        """Prefill and decode ran on units of their own."""
        return self.p_num is not None

    @property
    def cap(self) -> int | None:
        """Requests in flight at most of an open loop [1]."""
        if self.rate is None or self.concurrency is not None:
            return self.concurrency
        found = CAP.search(self.note)
        return int(found[1]) if found else None

    @property
    def kernels(self) -> str:
        """The engine whose kernels ran as a plug-in of another: ATOM's are named in the other's version; else empty."""
        other = next((name for name in PLUG_INS if name in self.engine_version.lower()), "")
        return "" if other == self.engine else other

    @property
    def server(self) -> str:
        """The engine, and whose kernels it ran where they were not its own."""
        return f"{self.engine} with {self.kernels} kernels" if self.kernels else self.engine


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """One step of an engine: c prompt tokens after p cached ones, beside b decodes of mean context s.

    row, path : as for `Run`
    gpu, model, tp : what ran, and over how many GPUs [1]
    engine, engine_version : what ran it; None for kernels alone
    dtype, kv : format of the weights and of the KV cache
    c, p, b, s : prompt tokens, tokens before them, decodes, mean context of a decode [token], [1]
    prompts : that share the c tokens [1]
    used : share of the KV cache that is in use after it, where its tokens are not known [1]
    time : of the step [s]
    gemm, attention, elementwise, allreduce, head : its parts [s]
    regime, attention_source : the file's own labels
    """

    row: int
    path: str
    gpu: str
    model: str
    tp: int = 1
    engine: str | None = None
    engine_version: str = ""
    dtype: str | None = None
    kv: KvFormat | None = None
    c: int
    p: int
    b: int
    s: float
    prompts: int = 1
    used: float | None = None
    time: float
    gemm: float | None = None
    attention: float | None = None
    elementwise: float | None = None
    allreduce: float | None = None
    head: float | None = None
    regime: str = ""
    attention_source: str = ""


class Timed(NamedTuple):
    """A request of a trace, as it was served.

    row : 1-based data row of the file
    request : its arrival, counted from the first of its trace, and its lengths
    ttft : time to its first token [s]
    tpot : mean time of its further tokens; None where there are none [s]
    """

    row: int
    request: Request
    ttft: float
    tpot: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredTrace:
    """Requests one by one through one server, by arrival.

    path : the file
    engine, gpu, model, tp : what served them, on how many GPUs [1]
    budget, max_num_seqs : tokens of a step and requests at once, as launched [token], [1]
    requests : as they were served
    """

    path: str
    engine: str
    gpu: str
    model: str
    tp: int = 1
    budget: int | None = None
    max_num_seqs: int | None = None
    requests: tuple[Timed, ...]


class Skipped(NamedTuple):
    """A row that could not be read.

    row : 1-based data row or entry of the file
    reason : why, without a final full stop
    """

    row: int
    reason: str


class Measurements(NamedTuple):
    """What a file holds.

    kind : of the file
    runs, steps, traces : what was measured; a file holds one sort of the three
    skipped : rows that could not be read
    assumed : what no row and no option says and was taken for granted, for people
    launch : what a log says of its server: budget, degrees, version, tokens of the KV cache
    """

    kind: Kind
    runs: tuple[Run, ...] = ()
    steps: tuple[StepRow, ...] = ()
    traces: tuple[MeasuredTrace, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    assumed: tuple[str, ...] = ()
    launch: Mapping[str, Any] = MappingProxyType({})
