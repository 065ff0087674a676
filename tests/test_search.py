"""Every search equals brute force, on made-up and on real quantities."""

import math
from dataclasses import replace

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from chunkcalc.answer.judged import outlook
from chunkcalc.answer.question import Question
from chunkcalc.answer.recommendation import best_pace, recommend, safest
from chunkcalc.answer.resolve import resolve
from chunkcalc.answer.verdict import status
from chunkcalc.answer.window import window
from chunkcalc.errors import ChunkcalcError
from chunkcalc.time import search
from chunkcalc.time.search import Limit
from chunkcalc.time.service import Bounds


def limit_on(values: list[int], value: float) -> Limit:
    """A limit on arbitrary values, with loose but true bounds."""

    def bounds(low: int, high: int, _: float) -> Bounds:
        part = values[low : high + 1]
        slack = 0 if low == high else 1
        return Bounds(min(part) - slack, max(part) + slack)

    return Limit("value", value, bounds)


@given(st.lists(st.lists(st.integers(0, 9), min_size=30, max_size=30), min_size=1, max_size=3), st.integers(0, 9))
def test_first_last_and_gaps_equal_brute_force(rows, value):
    limits = [limit_on(row, value) for row in rows]
    good = [c for c in range(30) if all(row[c] <= value for row in rows)]
    assert search.first(limits, 0, 29) == (good[0] if good else None)
    assert search.last(limits, 0, 29) == (good[-1] if good else None)
    assert search.has_gap(limits, 0, 29) == (len(good) < 30)


@given(st.lists(st.integers(-5, 9), min_size=1, max_size=40))
def test_best_is_the_first_highest_score(scores):
    candidates = range(len(scores))
    found = search.best(candidates, lambda c: scores[c], lambda low, high: max(scores[low : high + 1]))
    assert found == scores.index(max(scores))


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 120))
def test_largest_equals_brute_force(low, span, last):
    found = search.largest(lambda batch: batch <= last, low, low + span)
    assert found == max([low, *(batch for batch in range(low, low + span + 1) if batch <= last)])


@given(st.floats(1e-4, 1e5), st.sampled_from([0.0, 1e-3]))
def test_the_highest_load_is_found_from_below(last, close):
    found = search.highest(lambda load: load <= last, 0.0, search.SLOWEST, close)
    assert found <= last
    assert found == pytest.approx(last, rel=max(close, 1e-6))


@given(st.integers(0, 10**5))
def test_the_highest_whole_load_is_exact(last):
    assert search.highest(lambda users: users <= last, 0, 1, whole=True) == last


def test_best_of_nothing_and_of_impossible_scores():
    assert search.best([], lambda c: 1.0, lambda low, high: 1.0) is None
    assert search.best([1, 2], lambda c: -math.inf, lambda low, high: 0.0) is None


def test_an_empty_range_holds_nothing():
    assert search.first([], 2, 1) is None
    assert search.has_gap([limit_on([5], 0)], 1, 0) is False
    assert limit_on([3, 9], 5).holds(0)
    assert not limit_on([3, 9], 5).holds(1)


CASES = st.fixed_dictionaries(
    {
        "model": st.sampled_from(("llama-3.1-8b", "gemma-3-27b", "gpt-oss-120b", "deepseek-v3", "llama-3.1-70b")),
        "gpu": st.sampled_from(("h100-sxm", "h200-sxm", "b200", "l40s")),
        "tp": st.sampled_from((1, 2, 8)),
        "pp": st.sampled_from((1, 1, 1, 2)),
        "prompt": st.integers(1, 700),
        "output": st.integers(2, 600),
        "batch": st.integers(1, 200),
        "prefix_hit": st.sampled_from((0.0, 0.0, 0.4)),
        "engine": st.sampled_from(("vllm", "sglang", "trtllm")),
        "prefill_interval": st.sampled_from((0, 0, 1, 3)),
    }
)


def case_of(question):
    """The case, where such a deployment exists."""
    if question["engine"] != "sglang":
        question.pop("prefill_interval", None)
    try:
        return resolve(Question(**question))
    except ChunkcalcError:
        return None


LIMITS_PER_CASE = 20
NO_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)  # shrinking a search takes minutes


@settings(max_examples=15, phases=NO_SHRINKING)
@given(CASES, st.randoms(use_true_random=False))
def test_the_window_equals_brute_force(longest_900, question, rng):
    window_equals_brute_force(question, rng)


@pytest.mark.slow
@settings(max_examples=200, phases=NO_SHRINKING)
@given(CASES, st.randoms(use_true_random=False))
def test_the_window_equals_brute_force_on_thousands_of_random_limits(longest_900, question, rng):
    window_equals_brute_force(question, rng)


def window_equals_brute_force(question, rng):
    """The limits are drawn around what the deployment really does, so that they bind."""
    case = case_of(question)
    if case is None:
        return
    view = outlook(case.deployment, case.workload, case.slo)
    service, chunks = view.expected, range(1, view.longest_chunk + 1)
    values = {
        "ttft": [service.ttft(c) for c in chunks],
        "tpot": [service.tpot(c) for c in chunks],
        "itl": [service.gap(c) for c in chunks],
    }
    ruled = [all(rule.holds(c) for rule in view.rules(service)) for c in chunks]
    for _ in range(LIMITS_PER_CASE):
        names = rng.sample(sorted(values), rng.randint(0, 3))
        slo = {name: rng.choice(values[name]) * rng.uniform(0.8, 1.3) for name in names}
        view = outlook(case.deployment, case.workload, replace(case.slo, **slo))
        good = [c for c in chunks if ruled[c - 1] and all(values[name][c - 1] <= slo[name] for name in names)]
        found = window(view, [*view.latency_limits(view.expected), *view.rules(view.expected)])
        # A limit that equals a value to the last bit may fall on either side after rounding.
        close = [c for c in chunks for name in names if abs(values[name][c - 1] / slo[name] - 1) < 1e-12]
        if not close:
            assert found.chunk_min == (good[0] if good else None)
            assert found.chunk_max == (good[-1] if good else None)
            assert found.gaps == bool(good and len(good) < good[-1] - good[0] + 1)


@pytest.fixture(scope="module")
def longest_900():
    """Search chunks up to 900 only: brute force over 16,384 would take minutes."""
    patch = pytest.MonkeyPatch()
    patch.setattr("chunkcalc.answer.judged.LARGEST_DEFAULT_BUDGET", 900)
    yield
    patch.undo()


@settings(max_examples=60)
@given(CASES, st.floats(0.8, 3.0), st.floats(0.8, 3.0))
def test_the_chunk_to_set_is_the_one_of_its_rule(longest_900, question, first, second):
    """The smallest sure one that is fast, else the fastest; else the one with most to spare; by trying all."""
    case = case_of(question)
    if case is None:
        return
    view = outlook(case.deployment, case.workload, case.slo)
    limits = {"ttft": view.expected.ttft(300) * first, "tpot": view.expected.tpot(300) * second}
    case = resolve(Question(**question, **limits))
    view = outlook(case.deployment, case.workload, case.slo)
    found, rules = recommend(view), view.rules(view.expected)
    held = [*view.latency_limits(view.expected, margin=True), *rules]
    sure = [c for c in view.aligned if all(limit.holds(c) for limit in held)]
    fitting = [c for c in range(1, view.longest_chunk + 1) if view.memory_rule().holds(c)]
    pace = {c: view.expected.prefill.pace(c, c)[0] for c in fitting}
    if sure:
        fast = [c for c in sure if pace[c] <= min(pace.values()) / 0.95]
        assert found.keeps
        assert best_pace(view) <= min(pace.values()) * 1.01
        assert found.chunk <= fast[0] if fast else pace[found.chunk] <= min(pace[c] for c in sure) * 1.01
        assert found.chunk in sure
        assert view.headroom(safest(view)) == pytest.approx(max(view.headroom(c) for c in sure))
    held = [*view.latency_limits(view.expected), *rules]
    kept = [c for c in view.aligned if all(limit.holds(c) for limit in held)]
    if kept and not any(status(view, c) == "feasible" for c in range(1, view.longest_chunk + 1)):
        assert view.headroom(found.chunk) == pytest.approx(max(view.headroom(c) for c in kept))
