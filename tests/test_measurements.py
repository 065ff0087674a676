"""Measurement tables: what a row becomes, rows that are left out, units, and files that are none."""

import csv
import io
import json
import math
from dataclasses import fields
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkcalc.errors import ChunkcalcError
from chunkcalc.measurements import MAX_BYTES, Measurements, Run, Skipped, StepRow, Timed, parse, read
from chunkcalc.traffic.arrivals import Request
from tests.measured_files import DOCUMENTS, FILES, SERVING, STEPS, TRACES, WIDE

GIVEN = {"gpu": "h100-sxm", "engine": "vllm", "model": "llama-3.1-8b"}


def changed(table, row, **cells):
    """The table with other cells in a 1-based row, or in every row where it is None."""
    rows = list(csv.DictReader(io.StringIO(table)))
    for each in rows if row is None else [rows[row - 1]]:
        for name, value in cells.items():
            each[name] = value(each[name]) if callable(value) else value
    return written(rows)


def without(table, *columns):
    """The table without columns."""
    rows = csv.DictReader(io.StringIO(table))
    return written([{name: value for name, value in row.items() if name not in columns} for row in rows])


def written(rows):
    out = io.StringIO()
    writer = csv.DictWriter(out, rows[0])
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def times(factor):
    """A cell times a factor, blanks left blank."""
    return lambda text: repr(float(text) * factor) if text else text


def test_a_row_of_the_first_table_becomes_a_run():
    found = parse(SERVING, "runs.csv")
    assert (found.kind, len(found.runs), found.skipped, found.assumed) == ("serving", 3, (), ())
    assert found.runs[0] == Run(
        row=1, path="runs.csv", source="inferencex", engine="vllm", engine_version="0.19.0", model="minimax-m2.5",
        gpu="b200", weights="fp8", kv="fp8", prompt_tokens=7372, output_tokens=921, concurrency=8, requests=80, tp=2,
        ttft=305.2 / 1000, tpot=0.0117263,
    )  # fmt: skip


def test_the_wider_columns_are_read():
    posted, medians, wide = parse(WIDE, "runs.csv").runs
    assert (posted.least_ratio, posted.wide, posted.spec, posted.prefix_cache, posted.kv) == (
        1,
        False,
        False,
        None,
        None,
    )
    assert posted.reference == "https://github.com/sgl-project/sglang (docs, command-a-plus)"
    assert (medians.ttft, medians.tpot, medians.ttft_p50, medians.tpot_p99) == (None, None, 0.06, 0.012)
    assert (medians.itl_p50, medians.itl_p99, medians.budget, medians.max_num_seqs) == (1e-5, 0.08, 8192, 256)
    assert (medians.concurrency, medians.rate, medians.least_ratio, medians.wide) == (None, 10, None, True)
    assert (medians.spec, medians.prefix_cache, medians.date) == (True, False, "2025-12-10")
    assert (wide.engine, wide.kv, wide.dp, wide.ep, wide.least_ratio, wide.prefix_cache) == (
        "trtllm",
        "fp8",
        8,
        8,
        0.8,
        True,
    )


def test_steps_are_read():
    found = parse(STEPS, "steps.csv")
    assert found.kind == "steps"
    assert found.steps[1] == StepRow(
        row=2, path="steps.csv", gpu="a100_sxm", model="Llama-3.1-8B", dtype="bf16", kv="bf16", c=0, p=0, b=32, s=2048,
        time=18.4264 / 1000, gemm=0.0098903, attention=0.0075411, elementwise=0.0003375, allreduce=0.0, head=0.0006575,
        regime="decode", attention_source="additive",
    )  # fmt: skip


def test_traces_are_read_one_per_server_by_arrival_from_zero():
    found = parse(TRACES, "traces.csv")
    assert (found.kind, [trace.tp for trace in found.traces]) == ("traces", [2, 1])
    first, second = found.traces
    assert (first.engine, first.budget, first.max_num_seqs) == ("vllm", 2048, 128)
    assert first.requests[0] == Timed(2, Request(0.0, 2361, 532), 0.5098, 0.089931)
    assert second.requests == (Timed(3, Request(0.0, 100, 1), 0.06, None), Timed(4, Request(1.0, 100, 20), 0.06, 0.02))


def test_unknown_columns_are_ignored_and_optional_ones_defaulted():
    cut = without(SERVING, "source", "engine_version", "weights", "kv", "requests", "tp", "dp", "ep")
    found = parse(cut.replace("concurrency", "Concurrency ", 1).replace("\r\n", "\n"), "runs.csv")
    assert (found.runs[0].tp, found.runs[0].weights, found.runs[0].concurrency) == (1, None, 8)
    assert "tp = 1" in found.assumed[0]
    assert parse(changed(SERVING, None, tp="2", more="x"), "runs.csv").runs[0].tp == 2


def test_options_fill_blanks_of_a_table_and_overrule_nothing():
    cut = changed(without(SERVING, "gpu", "tp"), 2, engine="")
    with pytest.raises(ChunkcalcError, match=r"has no column 'gpu'; add it, or give --gpu"):
        parse(cut, "runs.csv")
    found = parse(cut, "runs.csv", {"gpu": "b200", "engine": "SGLang", "tp": 4, "kv": None})
    assert [(run.gpu, run.engine, run.tp, run.kv) for run in found.runs] == [
        ("b200", "vllm", 4, "fp8"), ("b200", "sglang", 4, "fp8"), ("b200", "vllm", 4, "fp8")]  # fmt: skip
    assert found.assumed == ()


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"ttft_ms": "nan"}, "ttft_ms nan is not from 0"),
        ({"tpot_ms": "inf"}, "tpot_ms inf is not from 0"),
        ({"tpot_ms": "-3"}, "tpot_ms -3 is not from 0"),
        ({"tpot_ms": "0"}, "tpot_ms 0 is no time that a server takes"),
        ({"tpot_ms": "12 ms"}, "tpot_ms '12 ms' is no number"),
        ({"ttft_ms": "", "tpot_ms": " "}, "no latency"),
        ({"prompt_tokens": "0"}, "prompt_tokens 0 is not from 1"),
        ({"output_tokens": ""}, "output_tokens is blank"),
        ({"concurrency": ""}, "neither concurrency nor rate_rps says the load"),
        ({"concurrency": "8.5"}, "concurrency 8.5 is no whole number"),
        ({"concurrency": "9" * 400}, "concurrency inf is not from 1"),
        ({"tp": "two"}, "tp 'two' is no number"),
        ({"kv": "int4"}, "kv 'int4' is neither 16-bit nor fp8"),
        ({"model": " "}, "model is blank"),
        ({"spec": "maybe"}, "spec 'maybe' is neither on nor off"),
        ({"input_ratio": "1.5"}, "input_ratio 1.5 is not from 0 to 1"),
        ({"input_ratio": "long"}, "input_ratio 'long' is no number"),
        ({"rate_rps": "0"}, "rate_rps 0 is not from"),
        ({"ttft_p50_ms": "400", "ttft_p99_ms": "300"}, "ttft_p50 is above ttft_p99"),
    ],
)
def test_a_row_that_makes_no_sense_is_left_out_with_its_reason(cells, reason):
    table = changed(SERVING, None, spec="", input_ratio="", rate_rps="", ttft_p50_ms="", ttft_p99_ms="")
    found = parse(changed(table, 2, **cells), "runs.csv")
    assert [run.row for run in found.runs] == [1, 3]
    (skipped,) = found.skipped
    assert skipped.row == 2
    assert skipped.reason.startswith(reason)


def test_rows_that_do_not_fit_the_header_are_left_out():
    lines = SERVING.splitlines()
    found = parse("\n".join([lines[0], "", lines[1] + ",x", ",".join([""] * 16), lines[2]]) + "\n\n", "runs.csv")
    assert found.skipped == (Skipped(1, "17 cells under 16 columns"),)
    assert [run.row for run in found.runs] == [3]


@pytest.mark.parametrize("table", [STEPS, TRACES])
def test_rows_of_the_other_tables_are_left_out_too(table):
    name = "t_ref_ms" if table is STEPS else "ttft_ms"
    for cells in ({name: "x"}, {name: ""}, {"model": ""}, {"tp": "0.5"}):
        found = parse(changed(table, 1, **cells), "x.csv")
        assert [each.row for each in found.skipped] == [1]
    empty = changed(STEPS, 1, b="0")
    assert parse(empty, "x.csv").skipped == (Skipped(1, "a step without prompt tokens and without decodes"),)


def test_a_byte_order_mark_and_other_line_ends_are_read(tmp_path):
    path = tmp_path / "anything.txt"
    path.write_bytes(b"\xef\xbb\xbf" + SERVING.replace("\n", "\r\n").encode())
    assert len(read(path).runs) == 3


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty"),
        (b" \n\t\n", "is empty"),
        (b"\xff\xfe\x00", "is not UTF-8 text"),
        (b"hello", "is no table of measurements that is known (its header: 'hello')"),
        (b"a;b\n1;2\n", "separate the columns by commas, not by semicolons"),
        (b"Metric,avg,p50\nx,1,2\n", "give the JSON that lies beside it"),
        (SERVING.splitlines()[0].encode(), "has a header and no rows"),
        (without(SERVING, "concurrency").encode(), "has no column with the load; add concurrency or rate_rps"),
        (without(SERVING, "ttft_ms", "tpot_ms").encode(), "has no column with a latency; add one of ttft_ms"),
        (without(SERVING, "output_tokens").encode(), "has no column 'output_tokens'; add it"),
        (without(STEPS, "gpu").encode(), "has no column 'gpu'; add it, or give --gpu"),
        (SERVING.replace("ttft_ms,tpot_ms", "tpot_ms,tpot_ms").encode(), "has the column 'tpot_ms' twice"),
        (b'prompt_tokens,ttft_ms\n"' + b"x" * 200_000, "is not a CSV file"),
        (b"{", "is not JSON"),
        (b"[" * 100_000, "is nested too deeply"),
        (b"[]", "is JSON of no benchmark that is known"),
        (b'{"a": ' + b"9" * 5000 + b"}", "is not JSON"),
    ],
)
def test_files_that_are_none_say_what_where_and_what_to_do(tmp_path, content, sentence):
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(ChunkcalcError) as error:
        read(path)
    assert sentence in str(error.value)
    assert error.value.where == str(path)
    assert error.value.hint


def test_what_cannot_be_opened_and_what_is_too_large_is_refused(tmp_path):
    for path in (tmp_path, tmp_path / "none", tmp_path / "a\0b"):
        with pytest.raises(ChunkcalcError, match="cannot be read"):
            read(path)
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(ChunkcalcError, match="is larger than 64 MiB"):
        read(large)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("prompt_tokens,ttft_ms\n" + ",\n" * 500_001, "has more than 500,000 rows"),
        ("{}" * 100_001, "holds more than 100,000 entries"),
        ("{\n" + "{}\n" * 100_001, "holds more than 100,000 entries"),
    ],
)
def test_what_is_too_long_is_refused_before_it_fills_the_memory(content, sentence):
    with pytest.raises(ChunkcalcError, match=sentence):
        parse(content, "x")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"colour": "red"}, "--colour: 'colour' is no fact of a run"),
        ({"tp": "many"}, "--tp: tp 'many' is no number"),
        ({"tp": 0}, "--tp: tp 0 is not from 1"),
        ({"kv": "int8"}, "--kv: kv 'int8' is neither"),
        ({"spec": "perhaps"}, "--spec: spec 'perhaps' is neither on nor off"),
    ],
)
def test_options_are_checked(given, sentence):
    with pytest.raises(ChunkcalcError) as error:
        parse(SERVING, "runs.csv", given)
    assert str(error.value).startswith(sentence)


@pytest.mark.parametrize("table", [SERVING, WIDE, TRACES])
@pytest.mark.parametrize(("unit", "factor", "word"), [("s", 1e-3, "short"), ("us", 1e3, "long")])
def test_another_unit_is_seen_by_its_magnitude_asked_about_and_taken(table, unit, factor, word):
    columns = [name for name in table.splitlines()[0].split(",") if name.endswith("_ms")]
    other = changed(table, None, **dict.fromkeys(columns, times(factor)))
    with pytest.raises(ChunkcalcError) as error:
        parse(other, "x.csv")
    assert f"too {word} for milliseconds" in error.value.what
    assert f"give --unit {unit}, or --unit ms if it is right" in error.value.hint
    expected, found = parse(table, "x.csv"), parse(other, "x.csv", unit=unit)
    pairs = zip(expected.runs, found.runs, strict=True)
    assert all(
        one.tpot == pytest.approx(two.tpot) and one.ttft_p50 == pytest.approx(two.ttft_p50) for one, two in pairs
    )
    assert sum(map(len, parse(other, "x.csv", unit="ms")[1:4])) == sum(map(len, expected[1:4]))


def test_a_unit_that_makes_it_worse_is_refused():
    with pytest.raises(ChunkcalcError, match=r"tpot_ms in seconds has a median of 15.6 s, which no server has"):
        parse(SERVING, "x.csv", unit="s")
    with pytest.raises(ChunkcalcError, match="'h' is no unit of time"):
        parse(SERVING, "x.csv", unit="h")


def test_one_column_in_another_unit_is_seen():
    with pytest.raises(ChunkcalcError, match=r"ttft_ms has a median of 0.384, too short"):
        parse(changed(SERVING, None, ttft_ms=times(1e-3)), "x.csv")
    with pytest.raises(ChunkcalcError, match=r"the first token takes 0.2.* of the time of a further one"):
        parse(changed(SERVING, None, ttft_ms=times(1e-2)), "x.csv")
    with pytest.raises(ChunkcalcError, match=r"t_ref_ms has a median of 0.015, too short"):
        parse(changed(STEPS, None, t_ref_ms=times(1e-3)), "x.csv")


@pytest.mark.parametrize("row", [1, 2, 3])
def test_one_row_in_another_unit_is_seen(row):
    with pytest.raises(ChunkcalcError, match=r"tpot_ms mixes units: rows \d and \d are [\d,]+ times apart"):
        parse(changed(SERVING, row, tpot_ms=times(1e-3)), "x.csv")


def test_a_long_queue_is_not_taken_for_another_unit():
    queued = changed(SERVING, 3, ttft_ms="831200")
    assert len(parse(queued, "x.csv").runs) == 3
    repeated = written([*csv.DictReader(io.StringIO(SERVING)), *csv.DictReader(io.StringIO(queued))])
    with pytest.raises(ChunkcalcError, match="ttft_ms mixes units: rows 3 and 6"):
        parse(repeated, "x.csv")


def test_of_many_rows_a_pair_in_another_unit_is_left_out_and_named():
    rows = [*csv.DictReader(io.StringIO(SERVING))][:1]
    many = [{**rows[0], "concurrency": str(users)} for users in range(1, 400)]
    many[7]["tpot_ms"] = str(float(many[7]["tpot_ms"]) * 1e-3)
    found = parse(written(many), "x.csv")
    assert len(found.runs) + len(found.skipped) == len(many)
    assert {each.row for each in found.skipped} == {7, 8, 9}
    assert all("mixes units" in each.reason for each in found.skipped)


def test_of_several_sources_the_one_in_another_unit_is_left_out_and_named():
    rows = [*csv.DictReader(io.StringIO(SERVING))]
    seconds = [{**row, "source": "other", "model": "qwen3-8b"} for row in rows]
    for row in seconds:
        row.update({name: str(float(row[name]) * 1e-3) for name in ("ttft_ms", "tpot_ms") if row[name]})
    found = parse(written([*rows, *seconds]), "x.csv")
    assert {run.source for run in found.runs}.isdisjoint({"other"})
    assert [each.row for each in found.skipped] == [4, 5, 6]
    assert all("too short for milliseconds" in each.reason for each in found.skipped)


def test_a_note_tells_the_lengths_and_the_cap():
    row = {**next(csv.DictReader(io.StringIO(SERVING))), "rate_rps": "2", "concurrency": ""}
    row["note"] = "open loop; cap 25; lengths uniform in [0.1, 1.9] x nominal"
    (run,) = parse(written([row]), "x.csv").runs
    assert run.cap == 25
    assert run.least_ratio == pytest.approx(0.1 / 1.9)


def finite(found: Measurements) -> bool:
    """Whether every number of the records is one, and every text one line."""
    values = [getattr(each, field.name) for each in (*found.runs, *found.steps) for field in fields(each)]
    values += [value for trace in found.traces for each in trace.requests for value in (each.ttft, *each.request)]
    numbers = [value for value in values if isinstance(value, (int, float))]
    return all(math.isfinite(each) and each >= 0 for each in numbers) and all(
        value.isprintable() for value in values if isinstance(value, str) and value != "x"
    )


NAMES = sorted(FILES)
EDITS = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 12), st.text(max_size=6)), min_size=1, max_size=8)


@settings(max_examples=300)
@given(st.sampled_from(NAMES), EDITS, st.sampled_from([None, "s", "ms", "us"]), st.booleans())
def test_edited_files_raise_nothing_but_the_one_error(name, edits, unit, options):
    content = FILES[name]
    for place, cut, added in edits:
        at = int(place * len(content))
        content = content[:at] + added + content[at + cut :]
    try:
        found = parse(content, "x", GIVEN if options else None, unit)
    except ChunkcalcError as error:
        assert error.what
        assert error.where
    else:
        assert finite(found)
        rows = [each.row for each in found.skipped]
        assert all(one <= two for one, two in pairwise(rows))


CELLS = st.one_of(st.text(max_size=8), st.floats().map(repr), st.integers().map(str),
                  st.sampled_from(["", "nan", "-1", "0", "1e999", "1_0", "٣", "on", "1e-320"]))  # fmt: skip


@settings(max_examples=200)
@given(st.sampled_from([SERVING, WIDE, STEPS, TRACES]), st.data())
def test_any_cells_give_records_or_reasons(table, data):
    rows = list(csv.DictReader(io.StringIO(table)))
    for _ in range(data.draw(st.integers(1, 5))):
        row = data.draw(st.sampled_from(rows))
        row[data.draw(st.sampled_from(sorted(row)))] = data.draw(CELLS)
    try:
        found = parse(written(rows), "x")
    except ChunkcalcError:
        return
    assert finite(found)
    count = len(found.runs) + len(found.steps) + sum(len(trace.requests) for trace in found.traces)
    assert count + len(found.skipped) == len(rows)


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)),
    max_leaves=5,
)


def mutated(node, draw):
    """The document with one value, somewhere in it, replaced or taken out."""
    if isinstance(node, dict) and node and draw(st.integers(0, 4)):
        key = draw(st.sampled_from(sorted(node)))
        if draw(st.integers(0, 6)) == 0:
            return {name: value for name, value in node.items() if name != key}
        return node | {key: mutated(node[key], draw)}
    if isinstance(node, list) and node and draw(st.integers(0, 4)):
        at = draw(st.integers(0, len(node) - 1))
        return [*node[:at], mutated(node[at], draw), *node[at + 1 :]]
    return draw(VALUES)


@settings(max_examples=400)
@given(st.sampled_from(sorted(DOCUMENTS)), st.data())
def test_any_values_in_a_result_give_records_or_reasons(name, data):
    document = DOCUMENTS[name]
    for _ in range(data.draw(st.integers(1, 4))):
        document = mutated(document, data.draw)
    try:
        found = parse(json.dumps(document), "x", GIVEN)
    except ChunkcalcError:
        return
    assert finite(found)
