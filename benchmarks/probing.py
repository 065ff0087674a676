"""Probes of random questions whose limits are open, answered by systems drawn from the prior: how many are settled.

    python benchmarks/probing.py [--count 60] [--seed 1]

Each system's true factors are drawn from the prior of `answer/learning.py`, and what every chosen run would have
measured is predicted with them, off by as much as such a number usually is. Settled is an answer that is neither
marginal nor may hold any more.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from dataclasses import replace
from pathlib import Path
from statistics import fmean

sys.path.insert(0, str(Path(__file__).parents[1]))
from chunkcalc.answer.judged import outlook
from chunkcalc.answer.learning import LINEAR, Factors, prior_for
from chunkcalc.answer.measured import SPREADS, Number, Numbers, observation, parse_number
from chunkcalc.answer.probing import probe
from chunkcalc.answer.solve import answer
from chunkcalc.errors import ChunkcalcError
from chunkcalc.time.step import timer_for
from tests.contract import questions


def drawn(draws: random.Random, prior: Factors) -> Factors:
    """The factors of a system."""
    given = zip(Factors._fields, prior, strict=True)
    return Factors(*(
        max(0.1, 1 + width * draws.gauss(0, 1)) if name in LINEAR else math.exp(width * draws.gauss(0, 1))
        for name, width in given
    ))  # fmt: skip


def main() -> None:
    """Ask, probe, measure, answer again."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    draws, before, after, settled, runs = random.Random(options.seed), [], [], [], []
    for question, _, found in questions(options.seed, 100 * options.count):
        view = outlook(found.case.deployment, found.workload, found.slo)
        plan = probe(found, view)
        if not plan.open_limits or not plan.chosen:
            continue
        prior = prior_for(timer_for(view.deployment))
        factors, numbers = drawn(draws, prior), list[Number]()
        for each in plan.chosen:
            for text in each.plan.texts:
                number = parse_number(text)
                one = observation(number, view.deployment, view.workload, each.plan.budget)
                off = math.exp(SPREADS[number.name] * draws.gauss(0, 1))
                budget = (
                    ()
                    if dict(number.at).keys() & {"chunk", "budget"} or number.name == "step"
                    else (("budget", each.plan.budget),)
                )
                numbers.append(number._replace(value=one.predict(factors) * off, at=(*number.at, *budget)))
        try:
            again = answer(
                replace(question, batch=found.workload.batch, measured=Numbers(numbers)), with_remedies=False
            )
        except ChunkcalcError:
            continue  # four times off: another system
        left = probe(again, outlook(again.case.deployment, again.workload, again.slo))
        before.append(plan.doubt)
        after.append(left.doubt)
        settled.append(not left.open_limits or (again.verdict not in ("marginal",) and not again.may_hold))
        runs.append(len(plan.chosen))
        if len(settled) >= options.count:
            break
    print(
        f"{len(settled)} open questions, {fmean(runs):.1f} runs each: {fmean(settled):.0%} settled; limits open "
        f"{fmean(before):.0%} -> {fmean(after):.0%}"
    )


if __name__ == "__main__":
    main()
