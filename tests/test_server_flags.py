"""What published servers were started with, and which entry a run is given."""

import csv
from pathlib import Path

import pytest

import chunkcalc
from chunkcalc.catalog.lookup import load_hardware, load_model
from chunkcalc.records import KV_BYTES
from chunkcalc.scoring import server_flags
from chunkcalc.scoring.server_flags import Launch, launch_for

ENTRIES = [entry for entries in server_flags._entries().values() for entry in entries]


def ask(engine, model, gpu, weights, shape=(8, 1, 1), concurrency=64, lengths=(921, 921), **more):
    return launch_for(engine, model, gpu, weights, *shape, concurrency, *lengths, **more)


def test_the_data_speak_the_catalogues_language():
    for entry in ENTRIES:
        assert load_model(entry.model).how == "id"
        assert load_hardware(entry.gpu).how == "id"
        assert entry.kv in KV_BYTES
        assert entry.first <= entry.last
        assert entry.lengths
        assert entry.shapes
        assert all(shape.least <= shape.most for shape in entry.shapes)
        assert all(text in ("", "c") or int(text) > 0 for text in (entry.budget, entry.max_num_seqs, entry.graph_batch))


def test_the_data_name_their_source_and_repeat_nothing():
    lines = (Path(chunkcalc.__file__).parent / "scoring" / "server_flags.csv").read_text().splitlines()
    assert any("Source: " in line for line in lines if line.startswith("#"))
    rows = [line for line in lines if not line.startswith("#")]
    assert len(rows) == len(set(rows)) == len(ENTRIES) + 1
    assert all(row["config"] for row in csv.DictReader(rows))


# Flags as read in the scripts of the source.
KNOWN = [
    (("vllm", "llama-3.1-70b", "h200-sxm", "fp8", (4, 1, 1), 16), {}, Launch(8192, "fp8", 16, False, None, "exact")),
    (("trtllm", "llama-3.1-70b", "b200", "nvfp4", (2, 1, 1), 64), {}, Launch(16384, "fp8", None, True, 1024, "exact")),
    (("vllm", "gpt-oss-120b", "b200", "mxfp4", (2, 1, 1), 16), {"version": "0.11.0"},
     Launch(8192, "bf16", 512, False, 2048, "exact")),
    (("vllm", "gpt-oss-120b", "b200", "mxfp4", (2, 1, 1), 16), {"version": "0.15.1"},
     Launch(8192, "fp8", 512, False, 2048, "exact")),
    (("vllm", "minimax-m2", "b200", "fp8", (4, 1, 1), 64, (7372, 921)), {"version": "0.19.0"},
     Launch(16384, "fp8", None, False, 2048, "exact")),
    (("sglang", "deepseek-v3", "mi300x", "fp8"), {"version": "0.5.2"},
     Launch(196608, "bf16", None, False, 128, "exact")),
    (("sglang", "deepseek-v3", "mi300x", "fp8"), {"version": "0.5.9"},
     Launch(131072, "fp8", None, False, 128, "exact")),
]  # fmt: skip


@pytest.mark.parametrize(("run", "more", "launch"), KNOWN)
def test_known_launches(run, more, launch):
    assert ask(*run, **more) == launch


def test_the_first_difference_in_order_of_importance_is_named():
    run = ("vllm", "gpt-oss-120b", "b200", "mxfp4", (2, 1, 1), 16)
    assert ask(*run, version="0.16.0").match == "nearest version"
    assert ask(*run, version="0.11.0", date="2026-08-01").match == "nearest date"
    assert ask(*run, (100_000, 921)).match == "nearest lengths"
    assert ask(*run[:4], (2, 2, 1), 16).match == "nearest parallelism"
    assert ask(*run[:4], (2, 1, 1), 5000).match == "nearest concurrency"
    assert ask(*run, speculative=True).match == "other speculation"


def test_the_nearest_version_answers():
    run = ("sglang", "deepseek-v3", "mi300x", "fp8")
    assert ask(*run, version="0.5.3").budget == ask(*run, version="0.5.2").budget == 196608
    assert ask(*run, version="0.5.6") == ask(*run, version="0.5.5.post3")._replace(match="nearest version")
    assert ask(*run, version="nightly-dev").match == "nearest version"


def test_a_build_is_found_by_the_start_of_its_hash():
    entry = next(e for e in ENTRIES if e.versions and e.versions[0].startswith("nightly-93d8f834"))
    shape = entry.shapes[0]
    found = ask(
        entry.engine, entry.model, entry.gpu, entry.weights, shape[:3], shape.least, entry.lengths[0],
        version="nightly-93d8f834dd8acf33eb0e2a75b2711b628cb6e226", speculative=entry.speculative,
    )  # fmt: skip
    assert found.match == "exact"


def test_a_date_between_two_readings_counts_for_both_and_the_shape_decides():
    run = ("sglang", "deepseek-v3", "b200", "fp8", (4, 1, 1), 8, (7372, 921))
    assert ask(*run, version="0.5.6", date="2026-01-13") == Launch(8192, "fp8", 32, False, 32, "exact")


def test_what_is_said_of_few_concurrencies_goes_first():
    run = ("sglang", "deepseek-v3", "mi355x", "mxfp4", (8, 1, 1))
    assert ask(*run, 64, (7372, 921), version="0.5.2").budget == 32768
    assert ask(*run, 32, (7372, 921), version="0.5.2").budget == 196608


def test_without_version_and_date_the_earliest_entry_answers():
    run = ("vllm", "gpt-oss-120b", "b200", "mxfp4", (2, 1, 1), 16)
    assert ask(*run) == ask(*run, version="0.11.0")
    assert ask(*run) == ask(*run, date="2025-10")
    assert ask(*run, date="2026-03-10").kv == "fp8"


def test_another_gpu_of_the_architecture_stands_in_and_no_other():
    run = ("vllm", "gpt-oss-120b", "gb200", "mxfp4", (2, 1, 1), 16)
    assert ask(*run) == ask(*run[:2], "b200", *run[3:])._replace(match="other gpu")
    assert ask("sglang", "glm-5", "gb300", "fp8").match == "other gpu"
    assert ask("sglang", "glm-5", "mi300x", "fp8").match == "other gpu"
    assert ask("vllm", "minimax-m2", "h200-sxm", "nvfp4").match == "other weights"
    assert ask("trtllm", "gpt-oss-120b", "mi300x", "mxfp4") == Launch()
    assert ask("vllm", "qwen3-32b", "h200-sxm", "bf16") == Launch()


def test_sparse_mla_on_sglang_takes_the_cache_of_its_gpu():
    # Where no format is asked for: fp8 on Blackwell, 16-bit elsewhere.
    assert ask("sglang", "glm-5", "h200-sxm", "fp8").kv == "bf16"
    assert ask("sglang", "deepseek-v4-pro", "h200-sxm", "fp8", (8, 1, 1), 4).kv == "fp8"
