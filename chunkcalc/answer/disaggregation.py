"""When prefill and decode on separate units of the same kind keep the limits, and the ratio that carries most.

Splitting isolates latency; it adds no throughput by itself. It can only help when a unit that does nothing but
prefill meets TTFT with its wait and the KV transfer included, and a unit that does nothing but decode meets TPOT and
the gap. Where one of these fails, the cure is other or more hardware.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

from chunkcalc.answer.judged import Outlook, outlook
from chunkcalc.answer.pools import Arrivals, DecodeUnit, PrefillUnit, alone, paired
from chunkcalc.frozen import dataclass
from chunkcalc.records import Slo
from chunkcalc.time.search import Limit, last
from chunkcalc.time.service import Service

EXACT = 1e-9  # a unit that carries its share to this is enough
SIDE = 64  # units of a pool up to which ratios are tried
NEAR = 0.95  # of the most that any ratio carries per unit: enough for a smaller deployment


@dataclass(frozen=True, slots=True, kw_only=True)
class Disaggregation:
    """A prefill pool and a decode pool of the same kind of unit.

    prefill_units, decode_units : the fewest that carry the rate; without one, the ratio that carries most per unit [1]
    gpus : GPUs of that many units [1]
    chunk : prompt tokens of a step of the prefill units [token]
    transfer_s : KV cache of a prompt over the network [s]
    sure : both limits hold with their error bands to spare
    ttft_s, tpot_s : with wait and transfer, and a decode step per token [s]
    rate : within the limits [request/s]
    """

    prefill_units: int
    decode_units: int
    gpus: int
    chunk: int
    transfer_s: float
    sure: bool
    ttft_s: float
    tpot_s: float
    rate: float


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


def disaggregate(view: Outlook, arrivals: Arrivals, rate: float | None = None) -> Disaggregation | None:
    """The pools that meet both limits; None where one of the units misses its own.

    Parameters
    ----------
    view : the deployment of a unit, with the limits
    arrivals : how requests come
    rate : that the pools are to carry; None for the ratio that carries most per unit [request/s]
    """
    if not view.expected.b:
        return None
    prefill = PrefillUnit(view, arrivals)
    units = _ratio if rate is None else partial(whole_units, rate)
    found = paired(prefill, DecodeUnit(view), units, rate)
    if not found:
        return None
    chosen, gpus = found[0], view.deployment.parallelism.gpus
    return Disaggregation(
        prefill_units=chosen.prefills, decode_units=chosen.decodes, gpus=(chosen.prefills + chosen.decodes) * gpus,
        chunk=prefill.chunk, transfer_s=prefill.transfer, sure=chosen.sure, ttft_s=chosen.ttft_s,
        tpot_s=chosen.tpot_s, rate=chosen.rate,
    )  # fmt: skip


def whole_units(rate: float, served: float, carried: float) -> tuple[int, int]:
    """The fewest (prefill, decode) units that carry a rate, by what one of each does [request/s]."""
    return max(1, math.ceil(rate / served - EXACT)), max(1, math.ceil(rate / carried - EXACT))


def _ratio(served: float, carried: float) -> tuple[int, int]:
    """The (prefill, decode) units that carry most per unit or nearly so: the smallest deployment."""
    sides = range(1, SIDE + 1)
    tried = {(math.ceil(y * carried / served - 1e-9), y) for y in sides}
    tried |= {(x, max(1, math.ceil(x * served / carried - 1e-9))) for x in sides}
    each = {units: min(units[0] * served, units[1] * carried) / sum(units) for units in tried}
    enough = NEAR * max(each.values())
    return min((units for units in tried if each[units] >= enough), key=lambda units: (sum(units), -each[units]))


def outlook_for(view: Outlook, **changes: object) -> Outlook:
    """The same workload and limits on a changed deployment."""
    return outlook(replace(view.deployment, **changes), view.workload, view.slo)  # type: ignore[arg-type]
