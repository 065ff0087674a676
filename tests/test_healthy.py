"""Rows that are no test of a healthy deployment: each test with rows that pass and rows that fail."""

from dataclasses import replace

import pytest

from chunkcalc.measurements import Run
from chunkcalc.scoring.healthy import ALONE, DROP, FASTER, FEW, PUBLIC, REPEAT, STALL, Exclusion, exclusions

RUN = Run(
    row=1, path="runs.csv", source=PUBLIC, engine="vllm", model="llama-3.1-8b", gpu="h100-sxm", weights="fp8", tp=1,
    prompt_tokens=1000, output_tokens=1000, concurrency=8, ttft=0.05, tpot=0.01,
)  # fmt: skip


def rows(*changes):
    return [replace(RUN, row=index, **change) for index, change in enumerate(changes, 1)]


def left_out(*changes):
    return {each.row: (each.reason, each.of) for each in exclusions(rows(*changes))}


LONG = {"output_tokens": 8000}


def test_rows_of_a_healthy_server_all_count():
    assert exclusions([]) == []
    assert left_out({}, {"concurrency": 16, "tpot": 0.011}, {**LONG, "tpot": 0.0101, "ttft": 0.06}) == {}


def test_longer_answers_that_come_faster_per_token_are_speculation():
    found = left_out({}, {**LONG, "tpot": 0.99 * FASTER * 0.01}, {"concurrency": 64})
    assert set(found) == {1, 2, 3}, "all rows of that server"
    assert {of for _, of in found.values()} == {"both"}
    assert "speculative" in found[1][0]
    assert left_out({}, {**LONG, "tpot": 1.01 * FASTER * 0.01}) == {}


@pytest.mark.parametrize(
    "change",
    [
        {"output_tokens": 3999},  # not that much longer
        {**LONG, "concurrency": FEW + 1},  # another load
        {**LONG, "prompt_tokens": 8000},  # another prompt
        {**LONG, "tp": 2},  # another server
        {**LONG, "source": "mine"},  # not told of both
        {**LONG, "tpot": None},
    ],
)
def test_a_faster_token_elsewhere_says_nothing_of_speculation(change):
    assert left_out({}, {"tpot": 0.008, **change}) == {}


def test_many_in_flight_hide_speculation():
    many = {"concurrency": FEW + 1}
    assert left_out(many, {**LONG, **many, "tpot": 0.005}) == {}


def test_a_label_whose_servers_mostly_speculate_is_left_out_as_a_whole():
    def server(tp, tpot):
        return [{"tp": tp, "tpot": tpot + tp / 1e5}, {**LONG, "tp": tp, "tpot": 0.01 + tp / 1e5}]

    drafting, plain = [*server(2, 0.02), *server(4, 0.02)], server(1, 0.01)
    found = left_out(*drafting, *plain)
    assert set(found) == {1, 2, 3, 4, 5, 6}
    assert "most testable rows of this label" in found[5][0]
    other = [{**change, "engine": "sglang"} for change in plain]
    assert set(left_out(*drafting, *other)) == {1, 2, 3, 4}
    assert set(left_out(*server(2, 0.02), *plain)) == {1, 2}, "half of them is not most"


def test_the_same_latencies_under_two_layouts_are_a_wrong_label():
    found = left_out({"tp": 2}, {"tp": 4}, {"tp": 8, "tpot": 0.0101})
    assert set(found) == {1, 2}
    assert found[1][1] == "both"
    assert left_out({}, {}) == {}, "a row that stands twice has one layout"
    assert left_out({"tp": 2}, {"tp": 4, "concurrency": 4}) == {}
    assert left_out({"tp": 2}, {"tp": 4, "weights": "bf16"}) == {}


# 100 tokens of 10 ms are a second, in which the prompts of seven others ran, the first wave half a tenth.
SHORT = {"output_tokens": 100}
LEAST = 1.0 / 7 + 1.0 / 2 / 10


def test_longer_than_all_prompts_take_is_waiting_for_a_place():
    assert left_out({**SHORT, "ttft": 0.99 * LEAST}) == {}
    ((reason, of),) = left_out({**SHORT, "ttft": 1.01 * LEAST}).values()
    assert "waiting for a place" in reason
    assert of == "both"
    one = {**SHORT, "ttft": 0.6, "note": "rounds of c requests sent at once"}
    assert left_out(one) == {}, "all of a run that is one wave wait for half of it"
    assert left_out({**SHORT, "ttft": 9.0, "concurrency": None, "rate": 1.0}) == {}, "an open loop may queue"


def test_more_users_do_not_make_a_token_much_faster():
    few, many = {"concurrency": 4, "tpot": 0.02}, {"concurrency": 64, "tpot": 0.99 * DROP * 0.02}
    assert left_out(many, few) == {1: ("faster per token than with fewer users", "both")}
    assert left_out({**many, "tpot": 1.01 * DROP * 0.02}, few) == {}
    assert left_out({**many, "prompt_tokens": 500}, few) == {}
    assert left_out({**many, "tp": 8}, few) == {}
    # The most is remembered: a slow row in between does not excuse a later one.
    assert set(left_out(few, {"concurrency": 16, "tpot": 0.016}, many)) == {3}


def test_a_first_token_far_above_that_of_the_same_prompt_is_a_stall():
    found = left_out({}, {"output_tokens": 500, "ttft": 1.01 * STALL * 0.05, "tpot": 0.0101})
    assert found == {2: ("far above the same prompt with another answer length: a stall", "ttft")}
    assert left_out({}, {"output_tokens": 500, "ttft": 0.99 * STALL * 0.05, "tpot": 0.0101}) == {}
    many = {"concurrency": ALONE + 1}
    assert left_out(many, {**many, "output_tokens": 500, "ttft": 0.2, "tpot": 0.0101}) == {}
    assert left_out({}, {"prompt_tokens": 8000, "ttft": 0.2, "tpot": 0.0101}) == {}, "a longer prompt takes longer"


@pytest.mark.parametrize(
    ("note", "of"),
    [("all requests at once", "ttft"), ("slow repeat of row 7", "both"), ("it was queue-bound", "ttft"), ("odd", None)],
)
def test_what_a_file_says_against_its_own_row(note, of):
    assert [each.of for each in exclusions(rows({"note": note}))] == ([of] if of else [])


def test_a_harness_whose_load_is_unknown_gives_no_first_token_times():
    found = left_out({"source": "nvidia-gap-analysis", **SHORT, "ttft": 9.0}, {})
    assert set(found) == {1}
    assert found[1][1] == "ttft"


def test_a_row_is_left_out_once_and_for_the_most_that_it_is_no_measure_of():
    stalled = {"output_tokens": 500, "ttft": 0.2, "tpot": 0.0101}
    found = exclusions(
        rows({}, {**stalled, "note": "slow repeat"}, {**stalled, "note": "queue-bound", "tpot": 0.0102, "tp": 2})
    )
    assert [(each.row, each.of) for each in found] == [(2, "both"), (3, "ttft")]
    assert isinstance(found[0], Exclusion)
    both = exclusions(rows({**SHORT, "ttft": 9.0, "note": "queue-bound"}))
    assert [each.of for each in both] == ["both"]
    assert "waiting for a place" in both[0].reason


def test_another_run_of_the_same_load_that_was_faster_shows_that_something_held_this_one_up():
    slower = {"tpot": 1.01 * REPEAT * 0.01}
    assert set(left_out({}, slower)) == {2}
    assert left_out({}, {"tpot": 0.99 * REPEAT * 0.01}) == {}
    assert left_out({}, {**slower, "budget": 2048}) == {}, "another budget is another server"
    assert left_out({}, {**slower, "concurrency": 64}) == {}, "more users take longer"


def test_up_and_down_again_is_no_server_of_the_label():
    # Qwen3-32B under TensorRT-LLM, fp8 on GB200: 8, 42, 28, 133 and 72 ms with rising users.
    times = (0.008, 0.042, 0.028, 0.133, 0.072)
    found = left_out(*({"concurrency": 4**power, "tpot": time} for power, time in enumerate(times, 1)))
    assert set(found) == {1, 2, 3, 4, 5}


def test_one_or_two_requests_of_a_user_are_mostly_the_first_wave():
    assert left_out({"requests": 23}) == {1: ("fewer than 3 requests per user", "ttft")}
    assert left_out({"requests": 24}) == left_out({"requests": None}) == {}
    assert left_out({"requests": 1, "concurrency": 1}) == {}
    assert left_out({"requests": 16, "note": "rounds of c requests sent at once"}) == {}, "every one is a first wave"


def test_forced_kernels_are_no_measure_of_the_engine_s_own():
    assert left_out({"note": "Marlin kernels forced"})[1][1] == "both"
