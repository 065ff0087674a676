"""The tables of served latency in docs/accuracy.md.

    python benchmarks/serving_tables.py ../shared/evidence

Every set of (model, GPU, engine) predicted as shipped and by constants fitted without it, whole GPUs and engine
versions likewise (held_out.py); what each term buys; the textbook on the same rows; how many measurements the
bands hold, and how many limits drawn around them are judged right.
"""

from __future__ import annotations

import math
import multiprocessing
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from fit_engines import CONSTANTS, ENGINES, FIRST, LATER, TRUSTED, Array, Constant, Fit, chosen_rows, rows_of
from held_out import GROUPS, counted, decisions, gpus, left_out, table, versions

from chunkcalc.answer.judged import half_widths
from chunkcalc.measurements import read
from chunkcalc.records import Workload
from chunkcalc.scoring.errors import Summary
from chunkcalc.scoring.score import score
from chunkcalc.textbook.forms import ClosedForms
from chunkcalc.work.counts import kind

ENOUGH = 30  # rows of a class that tell how often its band holds
NEUTRAL = {"launches": 1.0, "narrow_expert_launches": 1.0, "experts": 1.0, "cache": 1.0, "quantising": 1.0, "cold": 1.0}
WORDS = {
    "decode_layer": "10 us per layer of every step",
    "host_dense": "host time of dense models",
    "host_moe": "host time with experts",
    "host_latent": "host time with latent attention",
    "host_hybrid": "host time of hybrids",
    "host_graph": "host time of replayed layers",
    "host_spread": "the range of the host's time, which no mean shows",
    "expert_layer": "routing, per MoE layer",
    "latent_request": "TensorRT-LLM, per MLA layer of a request",
    "norm_layer": "norm over all ranks before vLLM 0.18 (MiniMax)",
    "sequence": "3 us per decode and step",
    "request": "time per request",
    "prompt_token": "time per prompt token outside steps",
    "launches": "share of launches left in a step, by architecture",
    "narrow_expert_launches": "4-bit experts as one launch (0.3)",
    "experts": "speed of expert kernels (1)",
    "cache": "bandwidth of decode attention in a step",
    "quantising": "quantisation fused into other kernels (0)",
    "cold": "first wave of a server without warm-up (1.4, SGLang 3)",
}


def cells(predicted: Array, seen: Array) -> str:
    """MAPE / median, as cells of a table."""
    held = np.isfinite(predicted) & np.isfinite(seen)
    if not held.any():
        return "-"
    error = np.abs(predicted[held] / seen[held] - 1)
    return f"{100 * error.mean():.1f} / {100 * np.median(error):.1f}"


def sets(fit: Fit, predicted: Mapping[str, tuple[Array, Array]]) -> str:
    """Error by set: as shipped, left out, and by the textbook.

    Parameters
    ----------
    fit : rows and features
    predicted : TPOT and TTFT by column of the table
    """
    old = np.array([row.served.run.path.endswith("serving.csv") for row in fit.rows])
    head = "| model, GPU, engine | rows | " + " | ".join(f"TPOT {name}" for name in predicted)
    head += " | rows | " + " | ".join(f"TTFT {name}" for name in predicted) + " |"
    lines = [head, "|---|---:|" + "---:|" * len(predicted) + "---:|" + "---:|" * len(predicted)]
    named = [("**all**", old), ("vLLM alone", old & (fit.engine == ENGINES.index("vllm")))]
    named += [(label.replace(" ", ", "), old & (fit.sets == label)) for label in sorted(set(fit.sets[old]))]
    for name, rows in named:
        line = f"| {name} | {np.isfinite(fit.tpot[rows]).sum()} "
        line += "".join(f"| {cells(tpot[rows], fit.tpot[rows])} " for tpot, _ in predicted.values())
        line += f"| {np.isfinite(fit.ttft[rows]).sum()} "
        line += "".join(f"| {cells(ttft[rows], fit.ttft[rows])} " for _, ttft in predicted.values())
        lines.append(line + "|")
    return "\n".join(lines)


def textbook(fit: Fit) -> tuple[Array, Array]:
    """TPOT and TTFT of the published closed forms, without load."""
    tpot, ttft = [], []
    for row in fit.rows:
        bench, deployment = row.served.bench, row.served.deployment
        workload = Workload(
            prompt=math.ceil(bench.prompt), output=max(2, math.ceil(bench.output)), batch=math.ceil(bench.users),
            context=math.ceil(bench.prompt + bench.output / 2),
        )  # fmt: skip
        forms = ClosedForms(deployment, workload)
        tpot.append(forms.step(0))
        ttft.append(forms.ttft(max(1, math.floor(bench.budget))))
    return np.array(tpot), np.array(ttft)


def terms(folder: Path) -> str:
    """What each term buys: refitted without it, left out.

    Parameters
    ----------
    folder : of the serving tables
    """
    whole = rows_of(folder)
    old = np.array([row.served.run.path.endswith("serving.csv") for row in whole.rows])
    chosen = chosen_rows(whole, FIRST)
    lines = ["| without | TPOT fitted | left out | TTFT fitted | left out |", "|---|---:|---:|---:|---:|"]
    variants: dict[str, dict[str, Constant]] = {"**nothing left out**": {}}
    for name, constant in CONSTANTS.items():
        neutral = NEUTRAL.get(name, 0.0)
        variants[f"{WORDS[name]}"] = {name: replace(constant, start=neutral, fixed=True)}
    every = {name: replace(each, start=NEUTRAL.get(name, 0.0), fixed=True) for name, each in CONSTANTS.items()}
    variants["everything above: kernels alone"] = every
    _HELD["terms"] = whole, chosen
    with multiprocessing.get_context("fork").Pool() as pool:
        for name, pair in zip(variants, pool.map(_variant, variants.values()), strict=True):
            found, out = pair
            pairs = [(found[0], whole.tpot), (out[0], whole.tpot), (found[1], whole.ttft), (out[1], whole.ttft)]
            lines.append(f"| {name} | " + " | ".join(cells(guess[old], seen[old]) for guess, seen in pairs) + " |")
    return "\n".join(lines)


_HELD: dict[str, tuple[Fit, Array]] = {}  # for the processes that are forked off


def _variant(changed: Mapping[str, Constant]) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    whole, chosen = _HELD["terms"]
    fit = whole.with_constants({**CONSTANTS, **changed})
    if not fit.size:
        found = fit.predict(np.zeros(0))
        return found, found
    return fit.predict(fit.fit(chosen, rounds=12)), fit.left_out(chosen)


def coverage(fit: Fit, found: Mapping[str, tuple[Array, Array]]) -> str:
    """Share of rows that the shipped bands hold where their version, or their GPU, was left out, by class.

    Parameters
    ----------
    fit : rows and features
    found : predictions by what was left out
    """
    known = np.array([row.served.run.source.startswith(TRUSTED) for row in fit.rows])
    deployments = [row.served.deployment for row in fit.rows]
    classes = np.array([f"{each.engine.name}, {kind(each.model)}" for each in deployments])
    nvidia = np.array([each.hardware.vendor == "nvidia" for each in deployments])
    widths = [half_widths(row.served.timer) for row in fit.rows]
    lines = ["| class, left out | TPOT rows | inside | above | TTFT rows | inside | above |", "|---|" + "---:|" * 6]
    for name in ("versions", "GPUs"):
        for label in ["all", *sorted(set(classes[known & nvidia]))]:
            own = known & nvidia & ((classes == label) | (label == "all"))
            cells, told = [], False
            for index, (of, seen) in enumerate((("tpot", fit.tpot), ("ttft", fit.ttft))):
                rows = own & counted(fit)[index] & np.isfinite(found[name][index])
                over = seen[rows] / found[name][index][rows] - 1
                width = np.array([getattr(widths[row], of) for row in np.flatnonzero(rows)])
                told = told or rows.sum() >= ENOUGH
                few = rows.sum() < ENOUGH
                cells += [
                    str(rows.sum()),
                    *(
                        ["-", "-"]
                        if few
                        else [f"{100 * np.mean(np.abs(over) <= width):.0f} %", f"{100 * np.mean(over > width):.0f} %"]
                    ),
                ]
            if told:
                lines.append(f"| {label}, {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def judged(fit: Fit, found: Mapping[str, tuple[Array, Array]]) -> str:
    """Share of limits drawn around measured values that are judged right.

    Parameters
    ----------
    fit : rows and features
    found : predictions by what was left out
    """
    lines = ["| left out | latency | limits | judged right | of those judged kept |", "|---|---|---:|---:|---:|"]
    for name, pair in found.items():
        for what, guess, seen, own in zip(("TPOT", "TTFT"), pair, (fit.tpot, fit.ttft), counted(fit), strict=True):
            right, kept = decisions(guess[own], seen[own])
            lines.append(f"| {name} | {what} | {6 * own.sum():,} | {100 * right:.0f} % | {100 * kept:.0f} % |")
    return "\n".join(lines)


def second(folder: Path) -> str:
    """The newer collection as shipped, by engine and GPU.

    Parameters
    ----------
    folder : of the serving tables
    """
    found = score(read(folder / "serving2.csv"), ["engine", "gpu"])
    lines = [
        "| engine, GPU | TPOT rows | MAPE / median | bias | TTFT rows | MAPE / median | bias |",
        "|---|---:|---:|---:|---:|---:|---:|",
        f"| **all** | {_pair(found.tpot)} | {_pair(found.ttft)} |",
        f"| all, nothing left out | {_pair(found.every_tpot)} | {_pair(found.every_ttft)} |",
        f"| published medians against predicted ones | {_pair(found.medians_tpot)} | {_pair(found.medians_ttft)} |",
    ]
    for group in found.groups:
        lines.append(f"| {', '.join(map(str, group.key.values()))} | {_pair(group.tpot)} | {_pair(group.ttft)} |")
    return "\n".join(lines)


def _pair(errors: Summary) -> str:
    if not errors.n:
        return "0 | - | -"
    mean, middle, bias = (100 * (value or 0) for value in (errors.mape, errors.median, errors.bias))
    return f"{errors.n} | {mean:.1f} / {middle:.1f} | {bias:+.1f} %"


def tables(folder: Path) -> dict[str, str]:
    """Every table by the name of its place in docs/accuracy.md.

    Parameters
    ----------
    folder : the evidence folder
    """
    serving = folder / "serving"
    fit = rows_of(serving)
    first = chosen_rows(fit, FIRST)
    x = fit.fit(chosen_rows(fit, LATER), fit.fit(first), groups=LATER)
    labels = {"sets": fit.sets, "GPUs": gpus(fit), "versions": versions(fit)}
    found = {name: left_out(fit, each) for name, each in labels.items()}
    predicted = {"fitted": fit.predict(x), "left out": found["sets"], "textbook": textbook(fit)}
    return {
        "served": sets(fit, predicted),
        "held out": "\n".join(table(fit, found, GROUPS["engine"](fit))),
        "by source": "\n".join(table(fit, {"sets": found["sets"]}, GROUPS["source"](fit))),
        "judged": judged(fit, found),
        "terms": terms(serving),
        "coverage": coverage(fit, found),
        "second": second(serving),
    }


def main(arguments: Sequence[str]) -> None:
    """Print every table."""
    for name, text in tables(Path(arguments[0])).items():
        print(f"## {name}\n{text}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
