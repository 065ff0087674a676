"""The tables of served latency in docs/accuracy.md.

    python benchmarks/serving_tables.py ../shared/evidence

Every set of (model, GPU, engine) predicted as shipped and by constants fitted without it; what each
term buys; the textbook on the same rows; how many measurements the bands hold.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from bands import ENOUGH, HELD, PUBLIC, left_out
from fit_engines import CONSTANTS, ENGINES, FIRST, LATER, Constant, Fit, chosen_rows, rows_of

from chunkcalc.measurements import read
from chunkcalc.records import Workload
from chunkcalc.scoring.errors import Summary
from chunkcalc.scoring.score import score
from chunkcalc.textbook.forms import ClosedForms
from chunkcalc.work.counts import kind

Array = np.ndarray
NEUTRAL = {"launches": 1.0, "narrow_expert_launches": 1.0, "experts": 1.0, "cache": 1.0, "quantising": 1.0, "cold": 1.0}
WORDS = {
    "decode_layer": "10 us per layer of every step",
    "prompt_layer": "200 us per layer of a prompt step",
    "expert_layer": "routing, per MoE layer",
    "latent_request": "TensorRT-LLM, per MLA layer of a request",
    "least_prompt_layer": "SGLang, least host time per MoE layer of a prompt step",
    "norm_layer": "norm over all ranks before vLLM 0.18 (MiniMax)",
    "sequence": "3 us per decode and step",
    "request": "time per request",
    "prompt_token": "time per prompt token outside steps",
    "launches": "share of launches left in a step, by architecture",
    "narrow_expert_launches": "4-bit experts as one launch (0.3)",
    "experts": "speed of expert kernels, by architecture",
    "cache": "bandwidth of decode attention in a step",
    "quantising": "quantisation fused into other kernels (0)",
    "cold": "first wave of a server without warm-up (1.4)",
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
    for name, changed in variants.items():
        fit = whole.with_constants({**CONSTANTS, **changed})
        if fit.size:
            x = fit.fit(chosen)
            found, out = fit.predict(x), fit.left_out(chosen)
        else:
            found = out = fit.predict(np.zeros(0))
        pairs = [(found[0], fit.tpot), (out[0], fit.tpot), (found[1], fit.ttft), (out[1], fit.ttft)]
        lines.append(f"| {name} | " + " | ".join(cells(guess[old], seen[old]) for guess, seen in pairs) + " |")
    return "\n".join(lines)


def coverage(fit: Fit) -> str:
    """Share of rows that bands set on the other half of the sets hold.

    Parameters
    ----------
    fit : rows and features
    """
    predicted = left_out(fit)
    known = np.array([row.served.run.source.startswith(PUBLIC) for row in fit.rows])
    nvidia = np.array([row.served.deployment.hardware.vendor == "nvidia" for row in fit.rows])
    models = np.array([kind(row.served.deployment.model) for row in fit.rows])
    labels = sorted(set(fit.sets[known & nvidia]))
    lines = ["| latency | bands set on | rows | held |", "|---|---|---:|---:|"]
    for index, (name, seen) in enumerate((("TPOT", fit.tpot), ("TTFT", fit.ttft))):
        error = np.abs(predicted[index] / seen - 1)
        held = rows = 0
        for label in labels:
            inside = known & nvidia & (fit.sets == label) & np.isfinite(error)
            if not inside.any():
                continue
            first = int(np.flatnonzero(inside)[0])
            alike = known & nvidia & ~(fit.sets == label) & np.isfinite(error) & (fit.engine == fit.engine[first])
            same = alike & (models == models[first])
            base = same if same.sum() >= ENOUGH else alike
            if base.sum() < ENOUGH:
                continue
            width = np.quantile(error[base], HELD) + (0.0 if base is same else 0.1)
            held += int((error[inside] <= width).sum())
            rows += int(inside.sum())
        lines.append(f"| {name} | the other sets of its class | {rows} | {100 * held / rows:.0f} % |")
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
        f"| published medians against predicted means | {_pair(found.medians_tpot)} | {_pair(found.medians_ttft)} |",
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
    predicted = {"fitted": fit.predict(x), "left out": fit.left_out(first), "textbook": textbook(fit)}
    return {
        "served": sets(fit, predicted),
        "terms": terms(serving),
        "coverage": coverage(fit),
        "second": second(serving),
    }


def main(arguments: Sequence[str]) -> None:
    """Print every table."""
    for name, table in tables(Path(arguments[0])).items():
        print(f"## {name}\n{table}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
