"""One deployment, a fleet of them, or all at once: solve, explain, fleet, sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from chunkcalc.answer.solve import answer
from chunkcalc.api.results import Explanation, FleetPlan, Points, Solution, become
from chunkcalc.api.values import Bandwidth, Count, Duration, Share, pythonic, question
from chunkcalc.records import EngineName, Hardware, Model

Basis = Literal["step", "mean"]
Counts = int | str | Sequence[int]  # one, several, or a grid such as "128:16384"


@pythonic
def solve(
    *, model: str | Model, gpu: str | Hardware, prompt: Count, output: Count | None = None, batch: Count | None = None,
    context: Count | None = None, rate: float | str | None = None, concurrency: Count | None = None,
    prompt_p95: Count | None = None, prefix_hit: Share = 0.0, prefix_shared: bool = True, ttft: Duration | None = None,
    tpot: Duration | None = None, itl: Duration | None = None, percentile: float | str | None = None,
    tpot_basis: Basis | None = None, max_utilisation: Share = 0.85, tp: int = 1, pp: int = 1, ep: int = 1,
    attention_dp: int = 1, weights: str | None = None, kv: str | None = None, draft_tokens: int = 0,
    draft_acceptance: Share | None = None, engine: EngineName = "vllm", engine_version: str | None = None,
    mixed_chunk: bool = False, prefill_interval: int = 0, link: Bandwidth | None = None,
    memory_fraction: Share | None = None, kv_link: Bandwidth | None = None, gateway: str | None = None,
    measured: Sequence[str] = (),
    chunk: Count | None = None, budget: Count | None = None, with_remedies: bool = True,
) -> Solution:  # fmt: skip
    """Which chunk to set, whether the limits hold, and if not, what would make them hold.

    Parameters
    ----------
    model, gpu : id, Hugging Face id or product name, path of a profile or config.json, or a record
    prompt, output, context : tokens; the context is the mean of a decoding request [token]
    batch : requests decoding at once; None for the largest that holds [token]
    rate, concurrency : requests per second, or users that each wait for an answer, instead of a batch
    prompt_p95 : 95th percentile of the prompt's length; None where all are alike [token]
    prefix_hit : share of the prompt in the prefix cache [1]
    prefix_shared : it is one prefix of all requests, stored once; else each request has its own
    ttft, tpot, itl : limits of the time to first token, of the mean time per output token, and of the longest gap
        between two messages, that of `tpot` where it is left out; "none" for no limit of the gap [s]
    percentile : of the time to first token that `ttft` limits under traffic: "mean", or 95 where it is left out
    tpot_basis : deprecated: "mean" is `itl="none"`
    max_utilisation : highest share of the capacity for prompts [1]
    tp, pp, ep, attention_dp : degrees of parallelism [1]
    weights, kv : formats; None as shipped
    draft_tokens, draft_acceptance : speculative tokens per step, and the chance that one holds
    engine, engine_version : the newest that was read where the version is None
    mixed_chunk, prefill_interval : SGLang: mix decodes into chunks; decode steps after every prompt step
    link : between GPUs, such as 16e9 [byte/s], "16GB/s" or "16GB/s,20us"
    memory_fraction : share of the memory, by the engine's own rule [1]
    kv_link : network between prefill and decode units [byte/s]
    gateway : what stands before the engine adds, such as "1.9ms/step,20ms/request"
    measured : what you measured on this deployment, such as ["tpot=31ms at batch 32"]
    chunk, budget : judge this one instead of looking for one [token]
    with_remedies : solve the changes that would help, where the limits do not hold

    Returns
    -------
    the answer: `verdict`, `chunk`, `budget`, `window`, `expected`, `remedies` and more

    Raises
    ------
    ChunkcalcError : an unknown name, a value out of range, a contradiction

    Examples
    --------
    >>> found = solve(model="llama-3.1-8b", gpu="h100-sxm", prompt="4k", batch=32, ttft="1s", tpot=0.03)
    >>> found.verdict, found.to_dict()["verdict"]
    ('feasible', 'feasible')
    """
    asked = question(
        model=model, gpu=gpu, prompt=prompt, output=output, batch=batch, context=context, rate=rate,
        concurrency=concurrency, prompt_p95=prompt_p95,
        prefix_hit=prefix_hit, prefix_shared=prefix_shared, ttft=ttft, tpot=tpot, itl=itl,
        percentile=percentile, tpot_basis=tpot_basis, max_utilisation=max_utilisation, tp=tp, pp=pp, ep=ep,
        attention_dp=attention_dp, weights=weights, kv=kv, draft_tokens=draft_tokens,
        draft_acceptance=draft_acceptance, engine=engine, engine_version=engine_version, mixed_chunk=mixed_chunk,
        prefill_interval=prefill_interval, link=link, memory_fraction=memory_fraction, kv_link=kv_link,
        gateway=gateway,
        measured=measured, chunk=chunk, budget=budget,
    )  # fmt: skip
    return become(Solution, answer(asked, with_remedies=with_remedies))


@pythonic
def explain(
    *, model: str | Model, gpu: str | Hardware, prompt: Count, output: Count | None = None, batch: Count | None = None,
    context: Count | None = None, prefix_hit: Share = 0.0, prefix_shared: bool = True, ttft: Duration | None = None,
    tpot: Duration | None = None, itl: Duration | None = None, tpot_basis: Basis | None = None,
    max_utilisation: Share = 0.85, tp: int = 1, pp: int = 1, ep: int = 1, attention_dp: int = 1,
    weights: str | None = None, kv: str | None = None, draft_tokens: int = 0, draft_acceptance: Share | None = None,
    engine: EngineName = "vllm", engine_version: str | None = None, mixed_chunk: bool = False,
    prefill_interval: int = 0,
    link: Bandwidth | None = None, memory_fraction: Share | None = None, gateway: str | None = None,
    measured: Sequence[str] = (),
    chunk: Count | None = None, budget: Count | None = None,
) -> Explanation:  # fmt: skip
    """The derivation of an answer: every equation with its numbers, what the textbook leaves out, what moves it.

    Parameters
    ----------
    model, gpu, prompt, output, batch, context, prefix_hit, ttft, tpot, itl, tpot_basis, max_utilisation : as of `solve`
    tp, pp, ep, attention_dp, weights, kv, draft_tokens, draft_acceptance, engine, engine_version : as of `solve`
    mixed_chunk, prefill_interval, link, memory_fraction, gateway, measured, chunk, budget : as of `solve`
    prefix_shared : as of `solve`

    Raises
    ------
    ChunkcalcError : an unknown name, a value out of range, a contradiction
    """
    from chunkcalc.derivation import derive  # noqa: PLC0415 - sympy takes its time

    asked = question(
        model=model, gpu=gpu, prompt=prompt, output=output, batch=batch, context=context,
        prefix_hit=prefix_hit, prefix_shared=prefix_shared,
        ttft=ttft, tpot=tpot, itl=itl, tpot_basis=tpot_basis, max_utilisation=max_utilisation, tp=tp, pp=pp, ep=ep,
        attention_dp=attention_dp, weights=weights, kv=kv, draft_tokens=draft_tokens,
        draft_acceptance=draft_acceptance, engine=engine, engine_version=engine_version, mixed_chunk=mixed_chunk,
        prefill_interval=prefill_interval, link=link, memory_fraction=memory_fraction, gateway=gateway,
        measured=measured, chunk=chunk,
        budget=budget,
    )  # fmt: skip
    return become(Explanation, derive.explain(answer(asked, with_remedies=False)))


@pythonic
def fleet(
    *, model: str | Model, gpu: str | Sequence[str] | Mapping[str, float], rate: float | str, prompt: Count,
    output: Count | None = None, prompt_p95: Count | None = None, prefix_hit: Share = 0.0, prefix_shared: bool = True,
    ttft: Duration | None = None, tpot: Duration | None = None, itl: Duration | None = None,
    percentile: float | str | None = None, tpot_basis: Basis | None = None, max_utilisation: Share = 0.85,
    weights: str | None = None, kv: str | None = None, draft_tokens: int = 0, draft_acceptance: Share | None = None,
    engine: EngineName = "vllm", engine_version: str | None = None, link: Bandwidth | None = None,
    memory_fraction: Share | None = None, kv_link: Bandwidth | None = None, gateway: str | None = None,
    measured: Sequence[str] = (),
    max_gpus: int | None = None, spend: float | str | None = None, spare: int = 0,
) -> FleetPlan:  # fmt: skip
    """How many GPUs carry a rate within the limits: shapes and chunk, together or apart, cheapest first.

    Parameters
    ----------
    model, prompt, output, prompt_p95, prefix_hit, ttft, tpot, itl, percentile, tpot_basis : as of `solve`
    max_utilisation, weights, kv, draft_tokens, draft_acceptance, engine, engine_version, link : as of `solve`
    memory_fraction, prefix_shared, gateway, measured : as of `solve`
    gpu : one name, several to compare, "all", or names with their price per GPU and hour
    rate : requests per second of the whole fleet
    kv_link : network between prefill and decode units, such as "50GB/s", what it is where left out [byte/s]
    max_gpus : leave larger shapes out
    spend : the most per hour, such as 60 or "1400/day"; every GPU needs a price then
    spare : units of each kind that may be lost while the rest carries the rate

    Raises
    ------
    ChunkcalcError : no limit, an unknown name, a value out of range
    """
    from chunkcalc.catalog.lookup import named_gpus  # noqa: PLC0415
    from chunkcalc.sizing import fleet as sizing  # noqa: PLC0415
    from chunkcalc.sizing.money import parse_spend  # noqa: PLC0415

    names = named_gpus(gpu if isinstance(gpu, str) else ",".join(gpu))
    prices = gpu if isinstance(gpu, Mapping) else dict.fromkeys(names)
    asked = question(
        model=model, gpu=names[0] if names else "", rate=rate, prompt=prompt, output=output, prompt_p95=prompt_p95,
        prefix_hit=prefix_hit, prefix_shared=prefix_shared,
        ttft=ttft, tpot=tpot, itl=itl, percentile=percentile, tpot_basis=tpot_basis,
        max_utilisation=max_utilisation, weights=weights, kv=kv, draft_tokens=draft_tokens,
        draft_acceptance=draft_acceptance, engine=engine, engine_version=engine_version, link=link,
        memory_fraction=memory_fraction, kv_link=kv_link, gateway=gateway,
        measured=measured,
    )  # fmt: skip
    most = parse_spend(str(spend), "spend") if spend is not None else None
    priced = [(name, prices[name]) for name in names]
    return become(FleetPlan, sizing.fleet(asked, priced, max_gpus, spend=most, spare=spare))


@pythonic
def sweep(
    *, model: str | Model, gpu: str | Sequence[str], prompt: Count, output: Count | None = None,
    chunk: Counts = "128:16384", batch: Counts = 32,
    context: Counts | None = None, tp: int | Sequence[int] = 1,
    prefix_hit: Share = 0.0, prefix_shared: bool = True,
    ttft: Duration | None = None, tpot: Duration | None = None, itl: Duration | None = None,
    tpot_basis: Basis | None = None, max_utilisation: Share = 0.85, pp: int = 1, ep: int = 1, attention_dp: int = 1,
    weights: str | None = None, kv: str | None = None, draft_tokens: int = 0, draft_acceptance: Share | None = None,
    engine: EngineName = "vllm", engine_version: str | None = None, mixed_chunk: bool = False,
    prefill_interval: int = 0,
    link: Bandwidth | None = None, memory_fraction: Share | None = None, gateway: str | None = None,
    measured: Sequence[str] = (),
) -> Points:  # fmt: skip
    """Every chunk, batch and context of every deployment at once.

    Parameters
    ----------
    model, prompt, output, prefix_hit, ttft, tpot, itl, tpot_basis, max_utilisation, pp, ep : as of `solve`
    weights, kv, draft_tokens, draft_acceptance, engine, engine_version, mixed_chunk, prefill_interval : as of `solve`
    attention_dp, link, memory_fraction, prefix_shared, gateway, measured : as of `solve`
    gpu : one name, several, or "all"
    chunk, batch, context : values, or a range such as "128:16384" (64 of them) or "8:64:8" [token]
    tp : one degree of tensor parallelism, or several [1]

    Returns
    -------
    a dict of numpy arrays of equal length, one for each column: pandas and polars take it

    Raises
    ------
    ChunkcalcError : an unknown name, a value out of range, no deployment left
    """
    from chunkcalc.grids.points import columns, deployments, points  # noqa: PLC0415 - numpy takes 100 ms
    from chunkcalc.report import sweep as report  # noqa: PLC0415
    from chunkcalc.report.chart import chart  # noqa: PLC0415
    from chunkcalc.report.lines import plain  # noqa: PLC0415

    chunks, batches = _numbers(chunk, "chunk"), _numbers(batch, "batch")
    contexts = None if context is None else _numbers(context, "context")
    asked = question(
        model=model, gpu="", prompt=prompt, output=output, context=contexts[-1] if contexts else None,
        prefix_hit=prefix_hit, prefix_shared=prefix_shared,
        ttft=ttft, tpot=tpot, itl=itl, tpot_basis=tpot_basis, max_utilisation=max_utilisation,
        pp=pp, ep=ep, attention_dp=attention_dp, weights=weights, kv=kv, draft_tokens=draft_tokens,
        draft_acceptance=draft_acceptance, engine=engine, engine_version=engine_version, mixed_chunk=mixed_chunk,
        prefill_interval=prefill_interval, link=link, memory_fraction=memory_fraction, gateway=gateway,
        measured=measured,
    )  # fmt: skip
    names = gpu if isinstance(gpu, str) else ",".join(gpu)
    cases, left_out = deployments(asked, names, [tp] if isinstance(tp, int) else list(tp))
    swept = [list(points(case, chunks, batches, contexts or [case.workload.context])) for case in cases]
    strips = [strip for case, found in zip(cases, swept, strict=True) for strip in report.strips(case, found)]
    rows = [
        report.record(report.keys_of(case), point)
        for case, found in zip(cases, swept, strict=True) for point in found
    ]  # fmt: skip
    out = Points(columns(rows))
    out.document = report.document(rows, strips, left_out)
    out.text = plain(chart(cases[0], strips, left_out, swept[0] if len(strips) == 1 else ()))
    return out


def _numbers(given: Counts, name: str) -> list[int]:
    from chunkcalc.grids.grids import parse_values  # noqa: PLC0415

    return parse_values(str(given) if isinstance(given, (str, int)) else ",".join(map(str, given)), name)
