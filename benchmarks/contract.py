"""Every promise of an answer, held on thousands of random questions.

    python benchmarks/contract.py [--count 2000] [--traffic 300] [--fleets 100] [--seed 1]

The tests hold the same on a seeded sample (tests/test_contract.py).
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.contract import BATCH_CHECKS, TRAFFIC_CHECKS, cheaper, fleets, floors, questions


def main() -> int:
    """Print what is broken, and how often."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--traffic", type=int, default=300)
    parser.add_argument("--fleets", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    broken: Counter[str] = Counter()
    verdicts: Counter[str] = Counter()
    for traffic, count, checks in ((False, options.count, BATCH_CHECKS), (True, options.traffic, TRAFFIC_CHECKS)):
        for question, _, found in questions(options.seed, count, traffic=traffic):
            verdicts[found.verdict] += 1
            said = [("floors", text) for text in floors(found)]
            said += [(check.__name__, text) for check in checks for text in check(question, found)]
            for name, text in said:
                broken[name] += 1
                print(f"{name}: {text}\n    {question}", flush=True)
    for question, sized in fleets(options.seed, options.fleets):
        for text in cheaper(question, sized):
            broken["cheaper"] += 1
            print(f"cheaper: {text}\n    {question}", flush=True)
    print(dict(verdicts))
    print("broken:", dict(broken) or "nothing")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
