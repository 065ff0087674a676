"""Prefill and decode on separate units: when it can work, and the ratio that keeps up.

Splitting isolates latency; it adds no throughput by itself. It can only help when a unit that
does nothing but prefill meets TTFT with the KV transfer included, and a unit that does nothing
but decode meets TPOT. Where one of these fails, the cure is other or more hardware.
"""

from __future__ import annotations

import math
from dataclasses import replace

from chunkcalc.answer.judged import Outlook, outlook
from chunkcalc.frozen import dataclass
from chunkcalc.records import Deployment, Slo
from chunkcalc.time.search import Limit, last
from chunkcalc.time.service import Service
from chunkcalc.work import counts

KV_LINK = 50e9  # one 400 Gb/s network card per unit, the usual least [byte/s]
CUTS_PER_STAGE = 8  # chunks tried per pipeline stage
MOST_UNITS = 8  # ratios are searched over 1..8 units on each side


@dataclass(frozen=True, slots=True, kw_only=True)
class Disaggregation:
    """A prefill pool and a decode pool of the same kind of unit.

    prefill_units, decode_units : the smallest ratio whose prefill keeps up [1]
    gpus : GPUs of that many units [1]
    chunk : prompt tokens of a step of the prefill units [token]
    transfer_s : KV cache of a prompt over the network [s]
    sure : both limits hold with their error bands to spare
    ttft_s, tpot_s : service time with the transfer, and a decode step per token [s]
    """

    prefill_units: int
    decode_units: int
    gpus: int
    chunk: int
    transfer_s: float
    sure: bool
    ttft_s: float
    tpot_s: float


def transfer_time(deployment: Deployment, prompt: float, cached: float = 0.0, link: float = KV_LINK) -> float:
    """Time to move a prompt's KV cache from a prefill to a decode unit; replicas travel once.

    Parameters
    ----------
    deployment : the replica
    prompt : tokens [token]
    cached : tokens of it that the decode unit's prefix cache holds already [token]
    link : bandwidth between the units [byte/s]

    Returns
    -------
    time [s]
    """
    model, kv = deployment.model, deployment.precision.kv
    moved = counts.sequence_bytes(model, kv, 1, prompt) - (counts.sequence_bytes(model, kv, 1, cached) if cached else 0)
    return float(moved / link)


def exposed_transfer(transfer: float, prefill: float, layers: int) -> float:
    """The part of a KV transfer that the first token waits for, where each layer leaves when it is done.

    Parameters
    ----------
    transfer : of the whole cache [s]
    prefill : of the prompt [s]
    layers : of the model [1]

    Returns
    -------
    time: the last layer's share, and what the link could not keep up with [s]

    Examples
    --------
    >>> exposed_transfer(0.1, 1.0, 10), exposed_transfer(2.0, 1.0, 10)
    (0.01, 1.1)
    """
    rest = 1 - 1 / layers
    return transfer / layers + max(0.0, (transfer - prefill) * rest)


def alone(view: Outlook, service: Service) -> Service:
    """The same service with nothing decoding beside the prompt."""
    return Service(
        service.step, replace(view.workload, batch=0), view.deployment.parallelism, mixed=service.mixed,
        accepted=service.accepted, request_overhead=service.request_overhead,
    )  # fmt: skip


def decode_certificate(service: Service, slo: Slo) -> bool:
    """Whether the decodes alone, without any prompt, already miss their limit."""
    late = slo.tpot is not None and service.decode_step / service.accepted > slo.tpot
    return late or (slo.itl is not None and service.decode_step > slo.itl)


def prefill_certificate(view: Outlook, service: Service, slo: Slo, extra: float = 0.0) -> bool:
    """Whether a prompt alone, without any decode, misses TTFT at every chunk.

    Parameters
    ----------
    view : the deployment
    service : the reading
    slo : limits
    extra : time added to TTFT, such as the KV transfer [s]
    """
    if slo.ttft is None:
        return False
    limit = Limit("ttft", slo.ttft - extra, alone(view, service).ttft_bounds)
    # Large chunks serve a prompt alone best, so the search starts there.
    return last([limit], 1, view.longest_chunk) is None


def prefill_rate(D: float, W: float) -> float:
    """The request rate at which a queue with fixed service time waits W on average.

    Parameters
    ----------
    D : service time [s]
    W : mean wait allowed [s]

    Returns
    -------
    rate [request/s]

    Notes
    -----
    The M/D/1 wait W = r D^2 / (2 (1 - r D)) of DistServe (arXiv 2401.09670), solved for r.

    Examples
    --------
    >>> r = prefill_rate(0.5, 0.25)
    >>> round(r * 0.5**2 / (2 * (1 - r * 0.5)), 6)
    0.25
    """
    return 2 * W / (D * (D + 2 * W)) if W > 0 else 0.0


def disaggregate(view: Outlook) -> Disaggregation | None:
    """The pools that meet both limits; None where one of the units misses its own."""
    service, slo, workload = view.expected, view.slo, view.workload
    transfer = transfer_time(view.deployment, workload.prompt, service.prefill.cached)
    if not service.b or decode_certificate(service, slo) or prefill_certificate(view, service, slo, transfer):
        return None
    prefill = alone(view, service).prefill
    # Alone, a prompt is fastest whole, or in a few even chunks that overlap in the pipeline.
    cuts = range(1, CUTS_PER_STAGE * prefill.stages + 1)
    chunk = min({math.ceil(prefill.tokens / cut) for cut in cuts}, key=prefill.total)
    time = prefill.total(chunk)
    ttft = time + transfer + service.request_overhead
    busy = prefill.occupancy(chunk)
    # Without a TTFT limit the queue is held to the utilisation limit instead.
    prefills = prefill_rate(busy, slo.ttft - ttft) if slo.ttft is not None else slo.max_utilisation / busy
    decodes = service.rate / service.decode_step * view.deployment.parallelism.dp * view.deployment.parallelism.pp
    units = _ratio(prefills * view.deployment.parallelism.dp, decodes)
    if units is None:
        return None
    return Disaggregation(
        prefill_units=units[0],
        decode_units=units[1],
        gpus=sum(units) * view.deployment.parallelism.gpus,
        chunk=chunk,
        transfer_s=transfer,
        sure=sure(slo, view.bands, ttft, service.decode_step, service.accepted),
        ttft_s=ttft,
        tpot_s=service.decode_step / service.accepted,
    )


def sure(slo: Slo, bands: tuple[float, float], ttft: float, step: float, accepted: float) -> bool:
    """Whether separate units keep the limits with their error bands to spare.

    Parameters
    ----------
    slo : limits
    bands : half-widths of the error of a decode step and of TTFT, as fractions [1]
    ttft : of the prefill unit, transfer and wait included [s]
    step : of the decode unit [s]
    accepted : tokens a decode yields per step [token]
    """
    tpot_band, ttft_band = bands
    longest = step * (1 + tpot_band)
    return (
        (slo.ttft is None or ttft * (1 + ttft_band) <= slo.ttft)
        and (slo.tpot is None or longest / accepted <= slo.tpot)
        and (slo.itl is None or longest <= slo.itl)
    )


def _ratio(prefills: float, decodes: float) -> tuple[int, int] | None:
    """The (prefill, decode) units that carry most per unit while the prefill keeps up."""
    sides = range(1, MOST_UNITS + 1)
    able = [(x, y) for y in sides for x in sides if x * prefills >= y * decodes]
    # Goodput per unit is y decodes / (x + y); among near equals the smaller deployment.
    return min(able, key=lambda units: (-round(units[1] / sum(units), 2), sum(units)), default=None)


def outlook_for(view: Outlook, **changes: object) -> Outlook:
    """The same workload and limits on a changed deployment."""
    return outlook(replace(view.deployment, **changes), view.workload, view.slo)  # type: ignore[arg-type]
