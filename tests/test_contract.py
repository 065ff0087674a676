"""What an answer promises, on a seeded sample of random questions; benchmarks/contract.py does thousands."""

import pytest

from tests.contract import BATCH_CHECKS, TRAFFIC_CHECKS, cheaper, fleets, floors, questions


@pytest.mark.parametrize(("traffic", "count", "checks"), [(False, 40, BATCH_CHECKS), (True, 8, TRAFFIC_CHECKS)])
def test_every_promise_holds(traffic, count, checks):
    for question, _, found in questions(11, count, traffic=traffic):
        assert floors(found) == [], question
        for check in checks:
            assert check(question, found) == [], (check.__name__, question)


def test_the_cheapest_certain_fleet_is_chosen():
    for question, sized in fleets(3, 3):
        assert cheaper(question, sized) == []
