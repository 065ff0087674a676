"""Prefill and decode apart: what the handover takes, and how far predictions of measured pools are off.

    python benchmarks/pools.py EVIDENCE [--gateway 1.9ms/step] [--fit]

Prints errors by kind of layout, and how often the better of two layouts under the same load is predicted as such.
With --fit also the constants (records.Overheads.handover ...) that suit the rows best, each kind of layout by itself;
`fit_engines.py` holds what was taken.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path

from chunkcalc.answer.gateway import parse_gateway
from chunkcalc.measurements import read
from chunkcalc.scoring.errors import summary
from chunkcalc.scoring.found import Scored
from chunkcalc.scoring.score import score
from chunkcalc.scoring.served import predict

APART = 0.10  # by which two layouts must differ as measured to have an order
KNEE = (8, 64)  # users from which a run is warm, and up to which its pools keep up
FIRST = {True: (0.05, 0.075, 0.1, 0.125, 0.15), False: (0.1, 0.125, 0.15, 0.175, 0.2)}
STALLS = {True: (0.001, 0.002, 0.003, 0.004), False: (0.02, 0.03, 0.04, 0.05, 0.06)}
NAMES = {True: ("handover", "handover_stall"), False: ("reshard", "reshard_stall")}


def kind(each: Scored) -> str:
    """The kind of layout of a row."""
    run = each.served.run
    if run.concurrency is None:
        return "arrivals at a rate"
    if run.p_tp == 1:
        return "users, one-GPU prefill"
    return "users, same tp" if run.p_tp == run.d_tp else "users, other tp"


def errors(found: Sequence[Scored]) -> None:
    """Print the errors by source and kind of layout."""
    kinds = sorted({(each.served.run.source, kind(each)) for each in found})
    for source, name in kinds:
        rows = [each for each in found if (each.served.run.source, kind(each)) == (source, name)]
        said = []
        for latency in ("tpot", "ttft"):
            each = summary(ratio for row in rows if latency in row.of and (ratio := row.ratio(latency)))
            if each.n:
                said.append(f"{latency} {each.median:6.1%} / {each.mape:6.1%} / {each.bias:+6.1%} ({each.n})")
        print(f"{source:14s} {name:24s} {'   '.join(said)}")


def order(found: Sequence[Scored]) -> None:
    """Print how often the better of two layouts is predicted as such."""
    right = {"tpot": [0, 0], "ttft": [0, 0]}
    for one, other in combinations(found, 2):
        a, b = one.served.run, other.served.run
        same = (a.source, a.model, a.gpu, a.prompt_tokens, a.concurrency, a.rate)
        if same != (b.source, b.model, b.gpu, b.prompt_tokens, b.concurrency, b.rate):
            continue
        for latency, held in right.items():
            x, y = getattr(a, latency), getattr(b, latency)
            if not x or not y or max(x, y) / min(x, y) < 1 + APART:
                continue
            held[1] += 1
            held[0] += (getattr(one.predicted, latency) < getattr(other.predicted, latency)) == (x < y)
    print(", ".join(f"order of two layouts by {name}: {held[0]} of {held[1]}" for name, held in right.items()))


def fit(found: Sequence[Scored]) -> None:
    """Print the constants that suit the warm runs of each kind of handover best: least median error of both."""
    for alike in (True, False):
        warm = [
            each for each in found
            if KNEE[0] <= (each.served.run.concurrency or 0) <= KNEE[1]
            and (each.served.run.p_tp == each.served.run.d_tp) == alike and each.of
        ]  # fmt: skip
        tried = []
        for values in product(FIRST[alike], STALLS[alike]):
            rows = []
            for each in warm:
                served = each.served
                for timer in (served.timer, served.prefill):
                    deployment = timer.deployment
                    changed = deployment.engine.overheads._replace(**dict(zip(NAMES[alike], values, strict=True)))
                    timer.deployment = replace(deployment, engine=replace(deployment.engine, overheads=changed))
                rows.append(replace(each, predicted=predict(served)))
            both = [summary(row.ratio(name) for row in rows if name in row.of) for name in ("tpot", "ttft")]
            tried.append((sum(each.median for each in both), values, both))
        for _, values, both in sorted(tried, key=lambda each: each[0])[:3]:
            said = ", ".join(f"{name} {value * 1e3:g} ms" for name, value in zip(NAMES[alike], values, strict=True))
            tpot, ttft = (f"{each.median:.1%} / {each.mape:.1%}" for each in both)
            print(f"{said}: TPOT {tpot}, TTFT {ttft}")


def main() -> None:
    """Read, score, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("evidence", type=Path)
    parser.add_argument("--gateway", default="1.9ms/step", help="of Ray Serve, which stands before these engines")
    parser.add_argument("--fit", action="store_true")
    options = parser.parse_args()
    runs = read(options.evidence / "disaggregated" / "pd3.csv")
    found = score(runs, gateway=parse_gateway(options.gateway)).predictions
    errors(found)
    order(found)
    if options.fit:
        fit(found)


if __name__ == "__main__":
    main()
