"""A running server, judged: the load on its metrics page, what users see, and what is predicted for both."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from statistics import fmean
from typing import NamedTuple

from chunkcalc.answer.replay import scheduler_for, simulate
from chunkcalc.answer.resolve import Case
from chunkcalc.errors import ChunkcalcError
from chunkcalc.frozen import dataclass
from chunkcalc.measurements.metrics import Page
from chunkcalc.records import Band
from chunkcalc.scoring.errors import quantile
from chunkcalc.traffic.arrivals import burst, poisson

FAR = 2.0  # half-widths of the error band beyond which a measured value is not explained
STEPPED, ROUNDS, SEED, SPREAD = 400, 5, 1, 0.2  # requests to step, rounds of users, draws, how unequal they are
LOAD_HINT = "give two pages with --apart, or --concurrency or --rate"
FEW = 20  # requests below which a page says little


class Load(NamedTuple):
    """The load that a page tells.

    requests : finished [1]
    prompt, output : mean tokens of a request [token]
    prefix_hit : share of prompt tokens in the prefix cache [1]
    rate : of requests; None where the time is not known [request/s]
    users : in flight on average, by Little's law with a rate, else as the page shows at its moment; None for none [1]
    decoding : share of its time that a request decodes [1]
    preempted : requests that gave their place up [1]
    arrivals : the rate is that of arrivals, which do not wait for answers, as the user says
    """

    requests: float
    prompt: float
    output: float
    prefix_hit: float
    rate: float | None
    users: float | None
    decoding: float
    preempted: float
    arrivals: bool = False

    @property
    def batch(self) -> int | None:
        """Requests that decode at once; None where nobody knows how many there are [1]."""
        return None if self.users is None else max(1, round(self.users * self.decoding))


class Seen(NamedTuple):
    """A latency as measured and as predicted.

    name : ttft, ttft_p95, tpot, itl_p99 or queue
    measured, predicted : [s]
    band : half-width of the error of the prediction; None where it has none [1]
    """

    name: str
    measured: float
    predicted: float | None
    band: float | None = None

    @property
    def explained(self) -> bool | None:
        """Whether the two agree within the band, twice over; None without a prediction."""
        if self.predicted is None or self.band is None:
            return None
        return abs(self.measured / self.predicted - 1) <= FAR * self.band


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A server as it was seen.

    page : its metrics
    load : on it
    seen : latencies
    notes : what the page does not tell, as sentences
    """

    page: Page
    load: Load
    seen: tuple[Seen, ...]
    notes: tuple[str, ...]


def load_of(page: Page, seconds: float | None, where: str) -> Load:
    """The load of a page, or of what happened between two.

    Parameters
    ----------
    page : counters and histograms
    seconds : that they count over; None where it is not known [s]
    where : the page came from, for errors

    Raises
    ------
    ChunkcalcError : no request was finished
    """
    requests = page.counters.get("requests", 0.0)
    if requests <= 0:
        hint = "wait for some, and try again"
        raise ChunkcalcError("no request was finished: there is nothing to judge", where, hint)
    prompt = _mean(page, "prompt", page.counters.get("prompt_tokens", 0.0) / requests)
    output = _mean(page, "output", page.counters.get("output_tokens", 0.0) / requests)
    queries = page.counters.get("cache_queries") or page.counters.get("prompt_tokens", 0.0)
    hit = min(1.0, page.counters.get("cache_hits", 0.0) / queries) if queries else 0.0
    rate = requests / seconds if seconds else None
    stay = page.histograms["e2e"].mean if "e2e" in page.histograms else None
    now = page.gauges.get("running", 0.0) + page.gauges.get("waiting", 0.0)
    users = rate * stay if rate is not None and stay else now or None
    first = page.histograms["ttft"].mean if "ttft" in page.histograms else None
    decoding = max(0.0, 1 - first / stay) if first and stay else 1.0
    return Load(requests, prompt, output, hit, rate, users, decoding, page.counters.get("preemptions", 0.0))


def _mean(page: Page, name: str, otherwise: float) -> float:
    found = page.histograms[name].mean if name in page.histograms else None
    return otherwise if found is None else found


def measured(page: Page, load: Load) -> dict[str, float]:
    """The latencies of a page.

    Parameters
    ----------
    page : counters and histograms
    load : on it
    """
    held = page.histograms
    out: dict[str, float | None] = {}
    if "ttft" in held:
        out |= {"ttft": held["ttft"].mean, "ttft_p95": held["ttft"].quantile(0.95)}
    if "tpot" in held:
        out["tpot"] = held["tpot"].mean
    elif "ttft" in held and "e2e" in held and load.output > 1:
        first, whole = held["ttft"].mean, held["e2e"].mean
        out["tpot"] = (whole - first) / (load.output - 1) if first is not None and whole is not None else None
    if "itl" in held:
        out["itl_p99"] = held["itl"].quantile(0.99)
    if "queue" in held:
        out["queue"] = held["queue"].mean
    return {name: value for name, value in out.items() if value is not None}


def predicted(case: Case, load: Load, budget: int, most: int) -> dict[str, float]:
    """The same latencies as the scheduler steps them: requests of the mean lengths under the load of the page.

    Parameters
    ----------
    case : the deployment
    load : on the page
    budget, most : tokens of a step and requests at once, of a rank [token], [1]

    Raises
    ------
    ChunkcalcError : neither a rate nor users, or no request that fits
    """
    prompt, output = max(1, round(load.prompt)), max(2, round(load.output))
    users = None if load.arrivals or load.users is None else max(1, round(load.users))
    if load.arrivals and load.rate is not None:
        requests = poisson(load.rate, STEPPED, prompt, output, SEED, SPREAD)
    elif users is not None:
        requests = burst(max(STEPPED, ROUNDS * users), prompt, output, SEED, SPREAD)
    else:
        raise ChunkcalcError("nothing runs at the moment, and a single page has no rate", "--concurrency", LOAD_HINT)
    draws = Random(SEED)  # users do not march in step
    requests = [
        each._replace(output=max(2, round(output * draws.uniform(1 - SPREAD, 1 + SPREAD)))) for each in requests
    ]
    found = simulate(case, requests, scheduler_for(case, budget, most), concurrency=users)
    later = [each for each in found.served[users or 0 :] if each.finished is not None]
    if not later:
        raise ChunkcalcError("no request of these lengths fits this server", "--config", "check what it says")
    first = sorted(each.ttft for each in later if each.ttft is not None)
    token = [each.tpot for each in later if each.tpot is not None]
    gaps = found.itl or {}
    return {"ttft": fmean(first), "ttft_p95": quantile(first, 0.95), "tpot": fmean(token), "itl_p99": gaps["p99"]}


def compared(page: Page, load: Load, found: Mapping[str, float], error: Band | None) -> Observed:
    """Measured beside predicted.

    Parameters
    ----------
    page, load : of the server
    found : predicted latencies by name; empty where there are none [s]
    error : half-widths of their errors; None without a prediction [1]
    """
    bands: dict[str, float] = {}
    if error is not None:
        bands = {"ttft": error.ttft, "ttft_p95": error.ttft, "tpot": error.tpot, "itl_p99": error.gap}
    values = measured(page, load).items()
    seen = tuple(Seen(name, value, found.get(name), bands.get(name)) for name, value in values)
    return Observed(page=page, load=load, seen=seen, notes=tuple(_notes(load)))


def _notes(load: Load) -> list[str]:
    out = []
    if load.requests < FEW:
        out.append(f"{load.requests:.0f} requests say little: wait for more")
    if load.rate is None:
        out.append("one page has no rate: two with --apart tell it; here users are those at its moment, or as given")
    if load.preempted:
        out.append(f"{load.preempted:.0f} requests gave their place up: the KV cache is too small for this load")
    return out
