"""The textbook reading: the published closed forms E1-E12 on the unit's peaks, for comparison.

It takes all parameters of the model, and one attention rank: its decodes, the peaks of its GPUs, its share of the
weights (with one rank: all of them). It knows neither drafts nor pipelines nor steps without decodes, and decides
nothing.
"""

from __future__ import annotations

from chunkcalc.catalog.precision import peak
from chunkcalc.frozen import dataclass
from chunkcalc.records import Deployment, Slo, Workload
from chunkcalc.textbook import equations
from chunkcalc.time.search import Limit, first, last
from chunkcalc.time.service import Bounds
from chunkcalc.work import counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Textbook:
    """E4-E12 for a deployment: intensities [FLOP/byte], chunks [token], times [s]."""

    intensity: float
    intensity_decode_only: float
    ridge: float
    chunk_star: float
    step_s: float
    ttft_s: float
    chunk_min: int | None
    chunk_max: int | None
    feasible: bool | None


class ClosedForms:
    """E1-E11 with a deployment's numbers.

    Parameters
    ----------
    deployment : the replica
    workload : lengths and batch
    """

    def __init__(self, deployment: Deployment, workload: Workload) -> None:
        model, precision = deployment.model, deployment.precision
        ranks = deployment.parallelism
        self.psi = counts.parameters(model)
        self.P = ranks.tp * (peak(deployment.hardware, precision.weights) or deployment.hardware.peak["bf16"])
        self.B = ranks.tp * deployment.hardware.bandwidth
        self.b = workload.batch / (ranks.dp * ranks.pp)
        self.weights = equations.weight_bytes(self.psi, counts.weight_bytes(model, precision) / ranks.dp / self.psi)
        self.sequence = counts.sequence_bytes(model, precision.kv, 1, workload.context)
        self.kv = equations.kv_read_of_sequences(self.b, self.sequence)
        self.tokens = workload.prompt - int(workload.prompt * workload.prefix_hit)
        self.ridge = equations.ridge_intensity(self.P, self.B)
        self.t_memory = equations.memory_time(self.weights, self.kv, self.B)

    def step_of(self, tokens: float, decodes: float) -> float:
        """E7 for any number of tokens, of which some requests read their cache [s].

        Parameters
        ----------
        tokens : of the step [token]
        decodes : requests whose cache it reads [1]
        """
        compute = equations.compute_time(equations.step_flops(tokens, 0, self.psi), self.P)
        traffic = equations.kv_read_of_sequences(decodes, self.sequence)
        return float(equations.step_time(compute, equations.memory_time(self.weights, traffic, self.B)))

    def step(self, c: float) -> float:
        """E7 [s].

        Parameters
        ----------
        c : prompt tokens [token]
        """
        flops = equations.step_flops(c, self.b, self.psi)
        return float(equations.step_time(equations.compute_time(flops, self.P), self.t_memory))

    def ttft(self, c: int) -> float:
        """E9 [s].

        Parameters
        ----------
        c : chunk [token]
        """
        c = min(c, self.tokens)
        return float(equations.ttft_bound(self.tokens, c, self.step(c)))

    def intensity(self, c: float) -> float:
        """E4 [FLOP/byte].

        Parameters
        ----------
        c : prompt tokens [token]
        """
        return float(equations.intensity(equations.step_flops(c, self.b, self.psi), self.weights, self.kv))

    def ttft_bounds(self, low: int, high: int, limit: float) -> Bounds:
        """E9 over a range of chunks.

        Parameters
        ----------
        low, high : range [token]
        limit : unused
        """
        return Bounds(self.ttft(high), self.ttft(low))


def textbook(deployment: Deployment, workload: Workload, slo: Slo, chunk: int, longest: int) -> Textbook:
    """The textbook's answer to the same question.

    Parameters
    ----------
    deployment : the replica
    workload : lengths and batch
    slo : limits
    chunk : the chunk whose step it times [token]
    longest : largest chunk considered [token]
    """
    forms = ClosedForms(deployment, workload)
    limits = []
    if slo.ttft is not None:
        limits.append(Limit("ttft", slo.ttft, forms.ttft_bounds))
    if slo.tpot is not None:
        limits.append(Limit("tpot", slo.tpot, lambda low, high, _: Bounds(forms.step(low), forms.step(high))))
    low = first(limits, 1, longest)
    return Textbook(
        intensity=forms.intensity(chunk),
        intensity_decode_only=forms.intensity(0),
        ridge=forms.ridge,
        chunk_star=equations.optimal_chunk(forms.ridge, forms.weights, forms.kv, forms.psi, forms.b),
        step_s=forms.step(chunk),
        ttft_s=forms.ttft(chunk),
        chunk_min=low,
        chunk_max=None if low is None else last(limits, low, longest),
        feasible=low is not None if limits else None,
    )
