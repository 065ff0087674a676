"""The answer as frozen records: what `solve` returns and every report prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from chunkcalc.answer.disaggregation import Disaggregation
from chunkcalc.answer.doubt import HostDoubt
from chunkcalc.answer.resolve import Case
from chunkcalc.answer.window import Window
from chunkcalc.engines.capacity import Capacity
from chunkcalc.frozen import dataclass
from chunkcalc.records import Band, Slo, Workload
from chunkcalc.textbook.forms import Textbook
from chunkcalc.time.step import Step

if TYPE_CHECKING:  # a batch needs none of it
    from chunkcalc.traffic.flow import Flow

FEASIBLE, MARGINAL, RETUNE = "feasible", "marginal", "retune"
OVERLOADED, DISAGGREGATE, SCALE_UP, IMPOSSIBLE = (
    "overloaded",
    "disaggregate",
    "scale_up",
    "impossible",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a user sees at one chunk, by one reading of the physics [s].

    step_s : longest step that carries prompt tokens
    decode_step_s : step without prompt tokens
    ttft_s : time to first token without queueing
    tpot_s : mean time per output token
    itl_s : longest gap between two tokens of a stream
    """

    step_s: float
    decode_step_s: float | None
    ttft_s: float
    tpot_s: float | None
    itl_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunking:
    """What chunking buys and costs against a prompt in one piece.

    stall_unchunked_s : gap of every stream while a whole prompt is processed [s]
    ttft_unchunked_s : TTFT of that prompt [s]
    ride_along_s : what the decodes add to a step that carries a chunk [s]
    decode_alone_s : what the same decodes cost in a step of their own [s]
    extra_weight_bytes : weights read again by the further chunks of a prompt, per GPU [byte]
    prompt_tokens_per_s, output_tokens_per_s : rates of the replica [token/s]
    prompt_tokens_per_s_unchunked, output_tokens_per_s_unchunked : the same without chunking [token/s]
    """

    stall_unchunked_s: float
    ttft_unchunked_s: float
    ride_along_s: float
    decode_alone_s: float | None
    extra_weight_bytes: float
    prompt_tokens_per_s: float
    output_tokens_per_s: float | None
    prompt_tokens_per_s_unchunked: float
    output_tokens_per_s_unchunked: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """A change that makes the limits hold, solved again.

    change : what to do, in words
    set : fields of the Question that it changes; empty for disaggregation
    verdict : of the changed deployment
    gpus : GPUs it needs
    """

    change: str
    set: Mapping[str, object]
    verdict: str
    gpus: int
    ttft_s: float
    tpot_s: float | None
    window: tuple[int, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitLine:
    """A latency limit and what it judges.

    name : `ttft`, `tpot` or `itl`
    judges : in words
    limit, predicted, floor : [s]; predictions are None where there is no steady state
    band : half-width of the error of the prediction [1]
    holds : `yes`, `close` inside the band, or `no`
    """

    name: str
    judges: str
    limit: float
    predicted: float | None
    floor: float
    band: float
    holds: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanAlone:
    """What the limits without that of the gap would give.

    verdict : feasible, marginal or fails
    budget_max : the largest budget that keeps them; None where none does [token]
    tpot_s : mean time per output token at the chunk of the answer [s]
    """

    verdict: str
    budget_max: int | None
    tpot_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The traffic of a question with a rate or users.

    rate, users : what was asked [request/s], [1]
    percentile : of the time to first token that the limit judges; None for the mean
    flow : the steady state, or the fullest there is
    steady : the asked load has a steady state
    shown : the load that the answer's numbers are of: the asked one, or what can be carried
    highest : rate, or users, within the limits at this budget; None where it was not looked for
    limit : rate at which the steady state is lost; None with users [request/s]
    wait_s : part of the judged time to first token that is waiting [s]
    """

    rate: float | None
    users: int | None
    percentile: float | None
    flow: Flow
    steady: bool
    shown: float
    highest: float | None
    limit: float | None
    wait_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to a Question.

    chunk, budget : judged (`given`) or recommended [token]
    aligned : the budget is a multiple of what the engine and the GPU like
    step : the longest step that carries prompt tokens
    headroom : smallest limit over prediction at that chunk; None without limits [1]
    utilisation, balance : of the capacity for prompts [1], chunk of balance [token]
    prompt_tokens : of a prompt, without what the prefix cache holds [token]
    load : where a rate or users were asked for
    limits : each latency limit and what it judges
    mean_alone : without the limit of the gap; None where there is none, or none on the mean
    may_hold : a failing verdict misses by less than the error bands
    safest_chunk : the chunk with most to spare, where the limits hold for sure [token]
    error : half-widths of the errors of TPOT, TTFT and the gap, for 80 % of cases [1]
    pools : separate units that keep the limits, where they were looked for
    knee : tokens per step at which the linear layers turn compute-bound [token]
    host : what the range of the host's time decides; None where it decides nothing
    """

    case: Case
    workload: Workload
    slo: Slo
    verdict: str
    certain: bool
    may_hold: bool
    needs_disaggregation: bool
    pools: Disaggregation | None
    reasons: tuple[str, ...]
    chunk: int
    safest_chunk: int | None
    budget: int
    given: bool
    aligned: bool
    window: Window
    headroom: float | None
    utilisation: float
    balance: float
    max_batch: int | None
    textbook: Textbook
    floor: Reading
    expected: Reading
    limits: tuple[LimitLine, ...]
    mean_alone: MeanAlone | None
    error: Band
    step: Step
    knee: float | None
    host: HostDoubt | None
    chunking: Chunking
    capacity: Capacity
    load: Load | None
    prompt_tokens: int
    looked_for_remedies: bool
    remedies: tuple[Remedy, ...]
    flags: Mapping[str, tuple[str, ...]]
    warnings: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether the limits hold on the expected reading (exit code 0)."""
        return self.verdict in (FEASIBLE, MARGINAL)
