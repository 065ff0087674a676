"""The replay: conservation, order, capacity, traces, and the command."""

import csv
import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from chunkcalc.cli.main import program
from chunkcalc.errors import ChunkcalcError
from chunkcalc.traffic.arrivals import Request, burst, poisson, read_trace
from chunkcalc.traffic.scheduler import Scheduler, replay

DEPLOYMENT = ("--model", "llama-3.1-8b", "--gpu", "h100-sxm")


def step(c, p, b, s, prompts=1):
    """A step in round numbers: 10 ms, 10 us a prompt token, 0.1 ms a decode."""
    return 0.01 + 1e-5 * c + 1e-4 * b + 1e-9 * b * s


def run(*arguments):
    return CliRunner().invoke(program(), ["replay", *map(str, arguments)])


REQUESTS = st.lists(st.tuples(st.floats(0, 5), st.integers(1, 3000), st.integers(1, 200)), min_size=1, max_size=25).map(
    lambda rows: [Request(*row) for row in sorted(rows)]
)
SCHEDULERS = st.builds(
    Scheduler,
    budget=st.integers(64, 4096),
    most_running=st.integers(1, 40),
    kv_tokens=st.one_of(st.none(), st.integers(3300, 20000)),
    mixed=st.booleans(),
    interval=st.integers(0, 3),
    reserve=st.booleans(),
)


@settings(max_examples=150)
@given(REQUESTS, SCHEDULERS)
def test_every_request_is_answered_once_and_in_time(requests, scheduler):
    found = replay(requests, step, scheduler)
    assert len(found.served) == len(requests)
    for request, served in zip(requests, found.served, strict=True):
        assert served.request == request
        assert served.ttft > 0
        assert served.finished >= request.arrival + served.ttft - 1e-9
        assert (served.tpot is None) == (request.output == 1)
        if served.tpot is not None:
            assert served.tpot >= 0.01 - 1e-9 or served.preempted
            assert served.gap >= served.tpot - 1e-6
    assert found.busy_s <= found.duration_s + 1e-6


@settings(max_examples=60)
@given(REQUESTS, SCHEDULERS)
def test_it_is_the_same_every_time(requests, scheduler):
    first, second = replay(requests, step, scheduler), replay(requests, step, scheduler)
    assert first.served == second.served
    assert first.steps == second.steps


def test_a_lone_request_takes_its_steps():
    found = replay([Request(0.0, 1000, 11)], step, Scheduler(budget=400, most_running=8))
    prompt = 3 * 0.01 + 1000 * 1e-5
    assert found.served[0].ttft == pytest.approx(prompt)
    assert found.served[0].tpot == pytest.approx(0.0101, rel=1e-3)
    assert found.steps == 3 + 10


def test_littles_law_holds():
    requests = poisson(4.0, 3000, 500, 100, seed=1)
    found = replay(requests, step, Scheduler(budget=1024, most_running=1000))
    decoding = sum(each.finished - each.request.arrival - each.ttft for each in found.served)
    assert found.batch_seconds == pytest.approx(decoding, rel=0.02)


def test_prompts_first_stop_every_stream_and_mixing_does_not():
    requests = [Request(0.0, 100, 200), Request(0.5, 4000, 2)]
    mixed = replay(requests, step, Scheduler(budget=256, most_running=8))
    first = replay(requests, step, Scheduler(budget=256, most_running=8, mixed=False))
    assert mixed.served[0].gap < 0.02
    assert first.served[0].gap > 16 * 0.01


def test_a_small_cache_preempts_and_a_smaller_one_refuses():
    requests = burst(8, 500, 400)
    free = replay(requests, step, Scheduler(budget=2048, most_running=8))
    tight = replay(requests, step, Scheduler(budget=2048, most_running=8, kv_tokens=5000))
    assert sum(each.preempted for each in free.served) == 0
    assert sum(each.preempted for each in tight.served) > 0
    assert all(each.finished for each in tight.served)
    none = replay(requests, step, Scheduler(budget=2048, most_running=8, kv_tokens=600))
    assert all(each.finished is None for each in none.served)


def test_a_reserve_never_preempts():
    tight = Scheduler(budget=2048, most_running=8, kv_tokens=5000, reserve=True)
    assert sum(each.preempted for each in replay(burst(8, 500, 400), step, tight).served) == 0


def test_without_chunks_a_prompt_beyond_the_budget_is_refused():
    found = replay(
        [Request(0.0, 3000, 5), Request(0.0, 100, 5)], step, Scheduler(budget=2048, most_running=8, whole=True)
    )
    assert [each.finished is None for each in found.served] == [True, False]


def test_a_closed_loop_keeps_its_users_busy():
    found = replay(burst(100, 200, 50), step, Scheduler(budget=1024, most_running=64), concurrency=10)
    assert all(each.finished for each in found.served)
    assert found.batch_seconds / found.duration_s <= 10
    assert found.batch_seconds / found.duration_s > 8


@pytest.mark.parametrize("header", ["arrival_s,input,output", "TIMESTAMP,ContextTokens,GeneratedTokens",
                                    "Timestamp,Model,Request tokens,Response tokens",
                                    "arrival_timestamp,prompt_size,token_size"])  # fmt: skip
def test_traces_are_read_by_their_published_column_names(tmp_path, header):
    names = header.split(",")
    row = ["5.5", *(["gpt"] if "Model" in names else []), "100", "20"]
    path = tmp_path / "trace.csv"
    path.write_text("\n".join([header, ",".join(row), ",".join(["6.5", *row[1:]])]) + "\n")
    assert read_trace(path).requests == [Request(0.0, 100, 20), Request(1.0, 100, 20)]


def test_azures_dates_are_read(tmp_path):
    path = tmp_path / "azure.csv"
    rows = ["2023-11-16 18:15:46.6805900,374,44", "2023-11-16 18:15:50.9951690,396,109"]
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + "\n".join(rows) + "\n")
    found = read_trace(path).requests
    assert found[1].arrival == pytest.approx(4.314579)
    assert found[1].output == 109


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "has no column for the arrival"),
        ("arrival_s,input,output\n", "holds no request"),
        ("arrival_s,input,output\n1,2\n", "row 2 is no request"),
        ("arrival_s,input,output\n1,x,3\n", "row 2 is no request"),
        ("arrival_s,input,output\nnan,2,3\n", "row 2 is no request"),
        ("arrival_s,input,output\n1,0,3\n", "row 2 is no request"),
        ("arrival_s,input,output\n1,1e400,3\n", "row 2 is no request"),
        ("arrival_s,input,output\n2,5,3\n1,5,3\n", "is not sorted by arrival"),
        ("arrival_s,prompts,output\n1,5,3\n", "has no column for the prompt"),
    ],
)
def test_bad_traces_are_refused_in_a_sentence(tmp_path, text, sentence):
    path = tmp_path / "trace.csv"
    path.write_text(text)
    with pytest.raises(ChunkcalcError, match=sentence):
        read_trace(path)
    found = run(path, *DEPLOYMENT)
    assert isinstance(found.exception, ChunkcalcError)


def test_the_command_replays_and_writes_requests(tmp_path):
    rows = tmp_path / "requests.csv"
    found = run("--arrivals", "poisson", "--rate", 3, "--requests", 200, "--prompt", 2000, "--output", 100,
                *DEPLOYMENT, "--budget", 1024, "--json", "--per-request", rows)  # fmt: skip
    assert found.exit_code == 0
    data = json.loads(found.stdout)
    assert data["schema"] == "chunkcalc.replay/1"
    assert data["requests"] == data["finished"] + data["rejected"] == 200
    for name in ("ttft_ms", "tpot_ms", "itl_ms"):
        assert list(data[name]) == ["mean", "p50", "p90", "p99"]
        assert data[name]["p50"] <= data[name]["p90"] <= data[name]["p99"]
    written = list(csv.DictReader(rows.read_text().splitlines()))
    assert len(written) == 200
    mean = sum(float(row["ttft_ms"]) for row in written) / 200
    assert mean == pytest.approx(data["ttft_ms"]["mean"], rel=1e-3)
    again = run("--arrivals", "poisson", "--rate", 3, "--requests", 200, "--prompt", 2000, "--output", 100,
                *DEPLOYMENT, "--budget", 1024, "--json")  # fmt: skip
    assert json.loads(again.stdout) == data


def test_attention_ranks_share_the_requests():
    found = run("--arrivals", "burst", "--requests", 64, "--prompt", 1000, "--output", 20, "--model",
                "deepseek-v3", "--gpu", "h200-sxm", "--tp", 1, "--attention-dp", 8, "--ep", 8, "--json")  # fmt: skip
    assert found.exit_code == 0, found.exception
    data = json.loads(found.stdout)
    assert data["finished"] == 64
    assert math.isfinite(data["duration_s"])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "no requests"),
        (["--arrivals", "poisson", "--prompt", 10, "--output", 5], "go together"),
        (["--arrivals", "burst", "--prompt", 10], "need lengths"),
        (["--arrivals", "closed", "--prompt", 10, "--output", 5], "go together"),
        (["--arrivals", "burst", "--prompt", 10, "--output", 5, "--requests", "2000001"], "too many"),
        (["trace.csv", "--rate", 3], "its own requests"),
        (["nowhere.csv"], "cannot be read"),
    ],
)
def test_contradictions_are_refused(arguments, sentence):
    found = run(*arguments, *DEPLOYMENT)
    assert isinstance(found.exception, ChunkcalcError)
    assert sentence in str(found.exception)


def test_times_with_and_without_a_zone_and_failed_requests(tmp_path):
    path = tmp_path / "trace.csv"
    rows = [
        "2024-05-10 00:00:00.009930+00:00,374,44",
        "2024-05-10 00:00:01+00:00,5,0",
        "2024-05-10 00:00:02.5+00:00,7,9",
    ]
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + "\n".join(rows) + "\n")
    found = read_trace(path)
    assert found.unanswered == 1
    assert found.requests[1].arrival == pytest.approx(2.49007)


def test_users_are_no_more_than_asked_with_many_ranks():
    found = run("--arrivals", "closed", "--concurrency", 4, "--model", "deepseek-v3", "--gpu", "h200-sxm", "--ep", 8,
                "--attention-dp", 8, "--requests", 40, "--prompt", 1000, "--output", 50, "--json")  # fmt: skip
    assert json.loads(found.stdout)["batch"] <= 4


def test_the_trace_is_not_overwritten(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text("arrival_s,input,output\n1,5,3\n")
    found = run(path, *DEPLOYMENT, "--per-request", path)
    assert "would overwrite" in str(found.exception)


def test_nothing_served_does_not_hold():
    found = run("--arrivals", "burst", "--prompt", 1000, "--output", 10, "--no-chunked-prefill", "--budget", 100,
                *DEPLOYMENT)  # fmt: skip
    assert found.exit_code == 1


@pytest.mark.parametrize(("rate", "outrun"), [(1, False), (5, True)])
def test_a_queue_without_end_is_told(rate, outrun):
    found = run("--arrivals", "poisson", "--rate", rate, "--requests", 1000, "--prompt", 4000, "--output", 500,
                "--model", "qwen3-32b", "--gpu", "h100-sxm", "--tp", 2, "--json")  # fmt: skip
    assert json.loads(found.stdout)["outrun"] is outrun
