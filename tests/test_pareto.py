"""The trade between tokens per second of a user and of a GPU."""

import json

from hypothesis import given
from hypothesis import strategies as st

from chunkcalc.grids.trades import Trade, frontier

PAIRS = st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), max_size=40)
WORDS = ("sweep", "--model", "llama-3.1-8b", "--prompt", "2000", "--output", "300", "--ttft", "1s", "--tpot", "40ms")


@given(PAIRS)
def test_nothing_beats_the_frontier_and_it_leaves_nothing_out(pairs):
    found = [Trade(float(user), float(gpu), {}, None) for user, gpu in pairs]
    best = {(each.per_user, each.per_gpu) for each in frontier(found)}
    beaten = {
        (a.per_user, a.per_gpu)
        for a in found
        for b in found
        if b.per_user >= a.per_user and b.per_gpu >= a.per_gpu and (b.per_user, b.per_gpu) != (a.per_user, a.per_gpu)
    }
    assert best == {(each.per_user, each.per_gpu) for each in found} - beaten


def test_every_point_keeps_the_limits(run_cli):
    data = json.loads(run_cli(*WORDS, "--gpu", "h100-sxm,l40s", "--pareto", "--json").stdout)
    rows = data["frontier"]
    assert rows and all(row["tpot_s"] <= 0.04 and row["ttft_s"] <= 1.0 and row["memory"] <= 1 for row in rows)
    assert [row["tokens_per_s_per_gpu"] for row in rows] == sorted(row["tokens_per_s_per_gpu"] for row in rows)


def test_limits_that_nothing_keeps_are_told(run_cli, tmp_path):
    done = run_cli(*WORDS[:-2], "--tpot", "1us", "--gpu", "l40s", "--pareto")
    assert done.returncode == 0 and "no point keeps every limit" in done.stdout
    done = run_cli(*WORDS, "--gpu", "h100-sxm", "--batch", "8,64", "--pareto", "--plot", "p.svg", folder=tmp_path)
    assert done.returncode == 0 and (tmp_path / "p.svg").read_text().startswith("<?xml")
