"""What the benchmark harnesses write: which key becomes which column, loads, names, and broken files."""

import json

import pytest

from chunkcalc.catalog.lookup import load_hardware, load_model
from chunkcalc.errors import ChunkcalcError
from chunkcalc.measurements import Skipped, parse
from tests.measured_files import (
    AIPERF,
    AIPERF_PHASES,
    DOCUMENTS,
    GENAI_PERF,
    GENAI_PERF_FIRST,
    GENAI_PERF_STIMULUS,
    GUIDELLM_MIDDLE,
    GUIDELLM_NEW,
    GUIDELLM_OLD,
    METRICS,
    SGLANG,
    SGLANG_SERVER,
    VLLM_ALL,
    VLLM_CLOSED,
    VLLM_RATE,
)

GIVEN = {"gpu": "l40s", "engine": "vllm", "model": "qwen3-8b"}


def runs(*documents, given=None, unit=None):
    """The runs of documents that stand one per line."""
    return parse("\n".join(map(json.dumps, documents)), "x", given or {}, unit).runs


def only(document, given=GIVEN):
    """The run of a document, with options."""
    (run,) = runs(document, given=given)
    return run


def test_vllm_in_an_open_loop():
    (run,) = runs(VLLM_RATE)
    assert (run.model, run.gpu, run.engine, run.date) == (
        "meta-llama/Llama-3.2-3B-Instruct", "4xNVIDIA_L40S", "vllm", "2025-05-30")  # fmt: skip
    assert (run.requests, run.prompt_tokens, run.output_tokens) == (300, 999, pytest.approx(270.1667))
    assert (run.rate, run.concurrency) == (10, None)
    assert (run.ttft, run.ttft_p50, run.ttft_p99) == pytest.approx((0.054577, 0.052999, 0.089766), rel=1e-4)
    assert (run.tpot, run.tpot_p50, run.tpot_p99) == pytest.approx((0.013578, 0.0135125, 0.0176522), rel=1e-4)
    assert (run.itl_mean, run.itl_p50, run.itl_p99) == pytest.approx((0.0135059, 0.0128416, 0.0342104), rel=1e-4)


def test_vllm_without_any_limit_has_all_requests_in_flight():
    (run,) = runs(VLLM_ALL)
    assert (run.concurrency, run.rate, run.note) == (900, None, "all requests at once")


def test_vllm_in_a_closed_loop_with_what_metadata_says():
    run = only(VLLM_CLOSED, {"engine": "vllm"})
    assert (run.concurrency, run.rate, run.requests, run.tp, run.engine_version) == (16, None, 298, 2, "0.19.0")
    assert (run.gpu, run.spec, run.least_ratio, run.note) == ("H100", True, 1, "2 requests failed")
    assert (run.tpot_p50, run.ttft_p95, run.itl_p95) == pytest.approx((0.013, 0.08, 0.03))


@pytest.mark.parametrize("join", [" ", "\n", ",", "pretty"])
def test_several_objects_of_a_file_are_read(join):
    objects = [json.dumps(each, indent=2 if join == "pretty" else None) for each in (VLLM_RATE, VLLM_ALL)]
    content = "[" + ",".join(objects) + "]" if join == "," else ("\n" if join == "pretty" else join).join(objects)
    assert [(run.row, run.requests) for run in parse(content, "x").runs] == [(1, 300), (2, 900)]


def test_a_line_that_was_cut_off_is_left_out():
    good = json.dumps(VLLM_RATE)
    for content in (f"{good[:90]}\n{good}\n{good}", f"{good}\n{good[:90]}\n{good}", f"{good}\n{good}\n{good[:90]}"):
        found = parse(content, "x")
        assert len(found.runs) == 2
        assert [each.reason for each in found.skipped] == ["is no JSON object"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"completed": 0}, "no request was answered"),
        ({"ramp_up_strategy": "linear"}, "the rate of requests was ramped up"),
        ({"mean_ttft_ms": float("nan")}, "ttft_ms nan is not from 0"),
        ({"mean_tpot_ms": -1}, "tpot_ms -1 is not from 0"),
        ({"total_output_tokens": None}, "output_tokens 0 is not from 1"),
        ({"mean_ttft_ms": 0, "mean_tpot_ms": 0, "mean_itl_ms": 0}, "no latency"),
        ({"request_rate": "trace"}, "arrivals follow a trace"),
        ({"model_id": 5, "completed": True}, "completed '' is no number"),
    ],
)
def test_a_result_that_makes_no_sense_is_left_out(change, reason):
    found = parse("\n".join([json.dumps(VLLM_RATE | change), json.dumps(VLLM_RATE)]), "x")
    assert len(found.runs) == 1
    assert found.skipped[0].row == 1
    assert found.skipped[0].reason.startswith(reason)


def test_without_streaming_zeros_are_no_measurements():
    (run,) = runs(VLLM_RATE | {"mean_ttft_ms": 0.0, "median_ttft_ms": 0.0, "p99_ttft_ms": 0.0})
    assert (run.ttft, run.ttft_p50, run.tpot is None) == (None, None, False)


def test_sglang_by_its_arguments_and_by_its_server():
    run = only(SGLANG)
    assert (run.engine, run.rate, run.concurrency, run.wide, run.spec) == ("vllm", 5, 256, True, None)
    assert run.note == "the file calls the engine sglang"
    assert (run.itl_p95, run.ttft_p99) == pytest.approx((0.0188396, 0.327914), rel=1e-4)
    (run,) = runs(SGLANG_SERVER, given={"gpu": "h200-sxm"})
    assert (run.model, run.engine, run.engine_version) == ("deepseek-ai/DeepSeek-V3", "sglang", "0.5.9")
    assert (run.tp, run.dp, run.ep, run.pp) == (1, 8, 8, 1)
    assert (run.budget, run.max_num_seqs, run.kv, run.weights) == (16384, 512, "fp8", "fp8")
    assert (run.prefix_cache, run.spec, run.least_ratio, run.concurrency, run.rate) == (False, False, 0.8, 32, None)


@pytest.mark.parametrize(
    ("server", "reason"),
    [
        ({"enable_dp_attention": False}, "8 replicas answered"),
        ({"dp_size": 3}, "tp_size 8 is no multiple of dp_size 3"),
        ({"decode": []}, "prefill and decode ran apart"),
    ],
)
def test_servers_that_are_no_single_replica_are_left_out(server, reason):
    document = SGLANG_SERVER | {"server_info": SGLANG_SERVER["server_info"] | server}
    (skipped,) = parse(json.dumps(document), "x", GIVEN).skipped
    assert skipped.reason.startswith(reason)


def test_an_sglang_server_without_chunks_and_with_drafts():
    server = SGLANG_SERVER["server_info"] | {"chunked_prefill_size": -1, "speculative_algorithm": "EAGLE"}
    run = only(SGLANG_SERVER | {"server_info": server, "accept_length": 2.5})
    assert (run.budget, run.spec) == (None, True)
    assert only(SGLANG | {"accept_length": 2.5}).spec is True


def test_guidellm_by_strategy():
    found = parse(json.dumps(GUIDELLM_OLD), "x", GIVEN)
    loads = [(run.concurrency, run.rate, run.note) for run in found.runs]
    named = "the file calls the model Qwen/Qwen3-8B"
    assert loads == [
        (1, None, named), (16, None, named), (42, None, f"as many requests as possible; {named}"),
        (None, 2.5, f"even gaps; {named}"), (None, 2.5, named)]  # fmt: skip
    assert found.skipped == (Skipped(6, "the strategy 'trace' has no one concurrency or rate"),)


@pytest.mark.parametrize("report", [GUIDELLM_OLD, GUIDELLM_MIDDLE, GUIDELLM_NEW])
def test_guidellm_of_every_layout(report):
    run = parse(json.dumps(report), "x", {"gpu": "l40s", "engine": "vllm"}).runs[1 if report is GUIDELLM_OLD else 0]
    assert (run.model, run.concurrency, run.requests, run.least_ratio) == ("Qwen/Qwen3-8B", 16, 200, 1)
    assert (run.prompt_tokens, run.output_tokens) == (512, 256)
    assert (run.ttft, run.ttft_p95, run.ttft_p99) == pytest.approx((0.05, 0.075, 0.1))
    assert (run.tpot, run.tpot_p50, run.tpot_p99, run.itl_mean) == (0.023, 0.023, 0.046, None)
    assert run.date in ("", "2025-04-01", "2026-08-06")
    assert ("3 requests failed" in run.note) == (report is GUIDELLM_MIDDLE)


def test_guidellm_without_metrics_streams_or_requests():
    first = {"strategy": {"type_": "synchronous"}}
    silent = METRICS | {"time_to_first_token_ms": {"successful": {"mean": 0.0, "percentiles": {"p50": 0.0}}}}
    benchmarks = [
        {"mode": "synchronous"},
        {"args": first, "metrics": silent},
        {"args": first, "metrics": METRICS, "request_totals": {"successful": 0}},
        {"metrics": METRICS},
    ]
    found = parse(json.dumps({"benchmarks": benchmarks}), "x", GIVEN)
    assert [(run.row, run.ttft) for run in found.runs] == [(2, None)]
    assert [each.reason.split(" (")[0] for each in found.skipped] == [
        "no metrics", "no request was answered", "no strategy says the load"]  # fmt: skip


def test_genai_perf_of_every_layout():
    run = only(GENAI_PERF, {"gpu": "a100"})
    assert (run.source, run.model, run.engine, run.concurrency) == ("GenAI-Perf", "ensemble", "trtllm", 100)
    assert (run.ttft, run.ttft_p95, run.tpot, run.tpot_p50) == pytest.approx(
        (0.184638, 0.35102, 0.00217673, 0.00217872), rel=1e-4
    )
    assert (run.prompt_tokens, run.output_tokens, run.itl_mean) == (200.85, 2565.855, None)
    run = only(GENAI_PERF_STIMULUS, {"gpu": "a100"})
    assert (run.model, run.engine, run.rate, run.concurrency) == ("small_model", "vllm", 5, None)
    run = only(GENAI_PERF_FIRST, {"gpu": "a100"})
    assert (run.model, run.prompt_tokens, run.output_tokens, run.concurrency) == ("gpt2_vllm", 550.05, 17.76, 1)
    assert (run.ttft, run.tpot, run.tpot_p99) == pytest.approx((0.0207578, 0.0038601, 0.0052637), rel=1e-4)


def test_aiperf_of_both_layouts():
    run = only(AIPERF, {"engine": "vllm"})
    assert (run.source, run.model, run.gpu) == ("AIPerf", "openai/gpt-oss-20b", "NVIDIA RTX 6000 Ada Generation")
    assert (run.concurrency, run.requests, run.date, run.least_ratio) == (100, 200, "2025-10-17", 1)
    assert run.note == "84 requests failed; cancelled"
    assert (run.tpot, run.tpot_p99, run.itl_mean, run.itl_p99) == pytest.approx((0.05176, 0.05587, 0.051, 0.3))
    run = only(AIPERF_PHASES, {"gpu": "h100", "engine": "vllm"})
    assert (run.model, run.rate, run.concurrency) == ("meta-llama/Llama-3.1-8B-Instruct", 4, 64)
    assert run.note.startswith("even gaps")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"time_to_first_token": {"unit": "fortnights", "avg": 1}}, "time_to_first_token is in the unknown unit"),
        ({"time_to_first_token": AIPERF["request_latency"]}, "answers were not streamed"),
        ({"input_config": {"phases": [{"name": "a"}, {"name": "b"}]}}, "2 phases of load in one result"),
        ({"input_config": {}}, "neither concurrency nor rate_rps"),
    ],
)
def test_exports_that_make_no_sense_are_left_out(change, reason):
    (skipped,) = parse(json.dumps(AIPERF | change), "x", GIVEN).skipped
    assert skipped.reason.startswith(reason)


@pytest.mark.parametrize(
    ("document", "given", "option"),
    [
        (VLLM_CLOSED, {}, "--engine"),
        (VLLM_RATE | {"gpu": ""}, {}, "--gpu"),
        (SGLANG, {"gpu": "h100"}, "--model"),
        (GUIDELLM_NEW, {"gpu": "h100"}, "--engine"),
        (GENAI_PERF, {}, "--gpu"),
    ],
)
def test_a_fact_that_nothing_says_names_the_option_that_gives_it(document, given, option):
    with pytest.raises(ChunkcalcError) as error:
        parse(json.dumps(document), "bench.json", given)
    assert (error.value.where, error.value.hint) == ("bench.json", f"give {option}")
    assert error.value.what == f"does not say the {option[2:]}"


def test_options_overrule_what_a_server_calls_itself_and_the_file_is_quoted():
    run = only(VLLM_RATE, {"model": "llama-3.2-3b", "gpu": "l40s", "engine": "vllm", "tp": 4})
    assert (run.model, run.gpu, run.tp) == ("llama-3.2-3b", "l40s", 4)
    assert run.note == (
        "the file calls the model meta-llama/Llama-3.2-3B-Instruct; the file calls the gpu 4xNVIDIA_L40S")  # fmt: skip


def test_what_is_taken_for_granted_is_said():
    assert "tp = 1" in parse(json.dumps(VLLM_RATE), "x").assumed[0]
    assert parse(json.dumps(VLLM_RATE), "x", {"tp": 1}).assumed == ()
    assert parse(json.dumps(SGLANG_SERVER), "x", {"gpu": "h100"}).assumed == ()


def test_a_result_in_seconds_is_asked_about_and_an_export_says_its_unit():
    seconds = {key: value / 1000 if key.endswith("_ms") else value for key, value in VLLM_RATE.items()}
    with pytest.raises(ChunkcalcError, match=r"tpot_ms has a median of 0.0136, too short for milliseconds"):
        runs(seconds)
    (run,) = runs(seconds, unit="s")
    assert run.tpot == pytest.approx(0.013578, rel=1e-4)
    assert runs(AIPERF, given=GIVEN, unit="s") == runs(AIPERF, given=GIVEN)


@pytest.mark.parametrize(
    ("document", "hint"),
    [
        ({"version": "1.0", "service_kind": "openai", "experiments": []}, "give profile_export_genai_perf.json"),
        ({"metadata": {"x_request_id": "1"}, "metrics": {}}, "give profile_export_aiperf.json"),
        ({"benchmark": {"name": "vLLM"}, "metric": {"name": "p99_itl_ms"}}, "does not end in .pytorch.json"),
        ({"benchmarks": []}, "give the result of vllm bench serve"),
        ({}, "give the result of vllm bench serve"),
    ],
)
def test_files_that_lie_beside_results_are_told_apart(document, hint):
    with pytest.raises(ChunkcalcError, match="is JSON of no benchmark that is known") as error:
        parse(json.dumps(document), "x")
    assert hint in error.value.hint


def test_another_harness_in_the_same_file_is_left_out():
    found = parse("\n".join(map(json.dumps, [VLLM_RATE, SGLANG])), "x")
    assert (found.kind, len(found.runs), found.skipped) == ("vllm", 1, (Skipped(2, "is no result of vllm"),))


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_every_harness_is_recognised(name):
    assert parse(json.dumps(DOCUMENTS[name]), "x", GIVEN).kind == name.rstrip("-123").removesuffix("-phases")


def test_names_in_results_are_names_that_the_catalogue_knows():
    assert load_hardware("NVIDIA H100 80GB HBM3").record.id == "h100-sxm"
    assert load_model(only(SGLANG_SERVER, {"gpu": "h100"}).model).record.id == "deepseek-v3"
