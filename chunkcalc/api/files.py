"""Files: deployment files checked, requests replayed, measurements scored, a profile calibrated."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from chunkcalc.answer import replay as replaying
from chunkcalc.answer.question import Question
from chunkcalc.answer.resolve import resolve
from chunkcalc.api.results import Calibration, Checked, Replayed, Scored, become
from chunkcalc.api.values import FAR, Bandwidth, Count, Duration, Share, pythonic, value
from chunkcalc.api.values import link as read_link
from chunkcalc.errors import ChunkcalcError
from chunkcalc.gate.check import FailOn, Unknown
from chunkcalc.progress import Progress, silent
from chunkcalc.records import EngineName, Hardware
from chunkcalc.traffic.arrivals import Request

PathLike = str | os.PathLike[str]
Unit = Literal["s", "ms", "us"]


@pythonic
def check(
    *paths: PathLike, ttft: Duration | None = None, tpot: Duration | None = None, itl: Duration | None = None,
    tpot_basis: Literal["step", "mean"] | None = None, prompt: Count | None = None, prompt_p95: Count | None = None,
    output: Count | None = None, concurrency: Count | None = None, rate: float | str | None = None,
    percentile: float | str | None = None, prefix_hit: Share | None = None, prefix_shared: bool | None = None,
    max_utilisation: Share | None = None, gateway: str | None = None, measured: Sequence[str] = (),
    gpu: str | None = None, model: str | None = None, engine_version: str | None = None, config: PathLike | None = None,
    waivers: bool = True, fail_on: FailOn = "error", unknown: Unknown = "warn",
) -> Checked:  # fmt: skip
    """What the engines do with the flags of deployment files, and whether the limits hold.

    Parameters
    ----------
    paths : files, folders or globs
    ttft, tpot, itl, tpot_basis, percentile, max_utilisation : limits, over what the files state
    prompt, prompt_p95, output, concurrency, rate, prefix_hit, prefix_shared : load per replica, as well
    gpu, model, engine_version, gateway, measured : facts, over what the files state; the last two as of `solve`
    config : a chunkcalc.toml for all; None for the nearest upwards
    waivers : whether waivers count
    fail_on : level of a finding that shuts the gate
    unknown : whether what cannot be evaluated does

    Raises
    ------
    ChunkcalcError : a path that does not exist, a value or configuration that cannot be read
    """
    from chunkcalc.gate.check import Options, repository  # noqa: PLC0415
    from chunkcalc.gate.check import check as run  # noqa: PLC0415
    from chunkcalc.gate.settings import Settings, parsed  # noqa: PLC0415

    if not paths:
        raise ChunkcalcError("no files are named", "paths", "give files, folders or globs")
    given = {
        "ttft": ttft, "tpot": tpot, "itl": itl, "tpot_basis": tpot_basis, "prompt": prompt, "prompt_p95": prompt_p95,
        "output": output, "concurrency": concurrency, "rate": rate, "percentile": percentile,
        "prefix_hit": prefix_hit, "prefix_shared": None if prefix_shared is None else ("no", "yes")[prefix_shared],
        "max_utilisation": max_utilisation, "gpu": gpu, "model": model, "engine_version": engine_version,
    }  # fmt: skip
    said = {name: value(name, each) for name, each in given.items() if each is not None}
    written = {name: _duration(each) if name in FAR else each for name, each in said.items()}
    written |= {"gateway": gateway, "measured": list(measured) or None}
    if written.get("percentile") == 0:
        written["percentile"] = "mean"
    named = [os.fspath(path) for path in paths]
    options = Options(
        paths=tuple(named), root=repository(named), settings=Settings(parsed(written, "argument", "")),
        config=None if config is None else Path(config), waivers=waivers,
    )  # fmt: skip
    return become(Checked, run(options, lambda: b""), fail_on=fail_on, policy=unknown)


def _duration(seconds: float) -> str:
    return "none" if seconds == math.inf else f"{seconds!r}s"


@pythonic
def replay(
    requests: PathLike | Iterable[Request], *, model: str, gpu: str | Hardware, budget: Count | None = None,
    max_num_seqs: Count | None = None, concurrency: Count | None = None, tp: int = 1, ep: int = 1,
    attention_dp: int = 1, weights: str | None = None, kv: str | None = None, engine: EngineName = "vllm",
    engine_version: str | None = None, mixed_chunk: bool = False, prefill_interval: int = 0,
    link: Bandwidth | None = None, memory_fraction: Share | None = None, gateway: str | None = None,
    measured: Sequence[str] = (), chunked_prefill: bool = True,
    prefix_hit: Share = 0.0, prefix_shared: bool = True,
) -> Replayed:  # fmt: skip
    """Step an engine's scheduler over requests: TTFT, TPOT and token gaps with their percentiles.

    Parameters
    ----------
    requests : path of a CSV with arrival, prompt and output tokens, or the requests, by arrival
    model, gpu, tp, ep, attention_dp, weights, kv, engine, engine_version, mixed_chunk, prefill_interval : as of `solve`
    link, memory_fraction, gateway, measured : as of `solve`
    budget : tokens per step (SGLang: the chunk); None for the engine's own [token]
    max_num_seqs : requests at once; None for the engine's own [1]
    concurrency : users at once; replaces the times of arrival [1]
    chunked_prefill : without it prompts enter a step whole
    prefix_hit, prefix_shared : share of each prompt in the prefix cache, and whether that is one prefix of all [1]

    Raises
    ------
    ChunkcalcError : an unknown name, a file that cannot be read, no request
    """
    from chunkcalc.traffic.arrivals import read_trace  # noqa: PLC0415

    listed = read_trace(Path(requests)).requests if isinstance(requests, str | os.PathLike) else list(requests)
    if not listed:
        raise ChunkcalcError("there is no request", "requests", "give at least one")
    bandwidth, latency = read_link(link)
    case = resolve(Question(
        model=model, gpu=gpu, tp=tp, ep=ep, attention_dp=attention_dp, weights=weights, kv=kv, engine=engine,
        engine_version=engine_version, link=bandwidth, link_latency=latency, mixed_chunk=mixed_chunk,
        prefill_interval=prefill_interval, prompt=max(1, round(sum(each.prompt for each in listed) / len(listed))),
        output=max(2, round(sum(each.output for each in listed) / len(listed))),
        memory_fraction=value("memory_fraction", memory_fraction), prefix_hit=value("prefix_hit", prefix_hit),
        prefix_shared=prefix_shared, gateway=value("gateway", gateway),
        measured=value("measured", measured),
    ))  # fmt: skip
    tokens, most = replaying.setting(
        case, gpu, model, value("budget", budget), value("max_num_seqs", max_num_seqs), whole=not chunked_prefill
    )
    scheduler = replaying.scheduler_for(case, tokens, most, whole=not chunked_prefill)
    found = replaying.simulate(case, listed, scheduler, concurrency=value("concurrency", concurrency))
    return become(Replayed, found, case=case)


@pythonic
def score(
    file: PathLike, *, by: Sequence[str] = (), unit: Unit | None = None, gpu: str | None = None,
    model: str | None = None, engine: EngineName | None = None, engine_version: str | None = None,
    tp: int | None = None, attention_dp: int | None = None, ep: int | None = None, weights: str | None = None,
    kv: str | None = None, link: Bandwidth | None = None, budget: int | None = None, gateway: str | None = None,
    like: Mapping[str, str] = MappingProxyType({}),
) -> Scored:  # fmt: skip
    """Predictions against measured runs, steps or traces: MAPE, median, p90 and bias of TPOT and TTFT.

    Parameters
    ----------
    file : a CSV table, or the result of a benchmark harness
    by : columns to group by, such as ("model", "gpu")
    unit : of the latencies; None as named
    gpu, model, engine, engine_version, tp, attention_dp, ep, weights, kv, link, budget : what the file leaves out;
        a `gpu` that ends in .toml is the profile to predict every row with
    gateway : what stood before the engines added, such as "1.9ms/step"
    like : models of the file that are shaped like known ones, such as {"minimax-m2.7": "minimax-m2"}

    Raises
    ------
    ChunkcalcError : a file that cannot be read
    """
    from chunkcalc.measurements import liked, read  # noqa: PLC0415
    from chunkcalc.scoring.score import score as run  # noqa: PLC0415

    said = {
        "gpu": gpu, "model": model, "engine": engine, "engine_version": engine_version, "tp": tp, "dp": attention_dp,
        "ep": ep, "weights": weights, "kv": kv, "budget": budget,
    }  # fmt: skip
    found = liked(read(Path(file), {name: each for name, each in said.items() if each is not None}, unit), like)
    own = gpu if gpu is not None and gpu.endswith(".toml") else None
    return become(
        Scored,
        run(found, list(by), iter, own, read_link(link), value("gateway", gateway)),
        assumed=tuple(found.assumed),
    )


@pythonic
def calibrate(
    *files: PathLike, gpu: str, engine: EngineName | None = None, model: str | None = None, tp: int | None = None,
    attention_dp: int | None = None, ep: int | None = None, weights: str | None = None, kv: str | None = None,
    engine_version: str | None = None, budget: Count | None = None, unit: Unit | None = None,
    mapped: Mapping[str, str] = MappingProxyType({}), progress: Progress = silent,
) -> Calibration:  # fmt: skip
    """Fit a GPU's profile to your own measurements; `profile()` of the result is its TOML.

    Parameters
    ----------
    files : results of vllm bench serve, sglang.bench_serving, GuideLLM, AIPerf, CSV tables, or the steps that an
        engine logs itself, with its start-up log
    gpu : what the profile extends: a shipped GPU, or a profile of your own
    engine, model, tp, attention_dp, ep, weights, kv, engine_version, budget : what the files leave out
    unit : of the latencies; None as named
    mapped : columns of a table by the names that are known, such as {"ttft_ms": "first token"}
    progress : told how far the fit is

    Raises
    ------
    ChunkcalcError : a file that cannot be read, no row that can be used
    """
    from chunkcalc.catalog.lookup import load_hardware  # noqa: PLC0415
    from chunkcalc.scoring.calibrate import calibrate as fit  # noqa: PLC0415
    from chunkcalc.scoring.calibrate import step_groups  # noqa: PLC0415
    from chunkcalc.scoring.gathered import gather  # noqa: PLC0415
    from chunkcalc.scoring.single import step_timers  # noqa: PLC0415
    from chunkcalc.scoring.usable import check as usable_runs  # noqa: PLC0415
    from chunkcalc.scoring.usable import one_kind, usable  # noqa: PLC0415

    base: Hardware = load_hardware(gpu).record
    said = {
        "gpu": gpu, "engine": engine, "model": model, "tp": tp, "dp": attention_dp, "ep": ep, "weights": weights,
        "kv": kv, "engine_version": engine_version, "budget": None if budget is None else value("budget", budget),
    }  # fmt: skip
    paths = [Path(file) for file in files]
    found = gather(paths, {name: each for name, each in said.items() if each is not None}, unit, mapped)
    one_kind([*found.runs, *found.steps], base, engine)
    rows, others = usable(found.runs, gpu)
    groups = step_groups(found.steps, step_timers(gpu))
    left_out = [*found.left_out, *others]
    if not rows and not groups:
        reason = f" ({left_out[0].reason})" if left_out else ""
        raise ChunkcalcError(f"no row can be used{reason}", "rows", "give runs with a fixed number of users")
    usable_runs(rows, base)
    calibrated = fit(rows, groups, base, progress)
    path = gpu if gpu.endswith(".toml") else ""
    return become(
        Calibration, calibrated, left_out=left_out, files=paths, path="calibrated.toml", assumed=found.assumed,
        extends=Path(path).name if path else base.id,
    )  # fmt: skip
