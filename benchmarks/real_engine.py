"""A real vLLM on the CPU, end to end: its step logs of two budgets calibrate a profile, which predicts two others.

    python benchmarks/real_engine.py DIR [--keep]

DIR holds a virtual environment `v` with vLLM's CPU build and a small model `tiny` (config.json, tokenizer) with dummy
weights. Budgets 128 and 512 are measured for the fit, 256 and 1024 for the judgement, each with 2 and 6 users. With
--keep, what DIR/logs holds already is not measured again. Prints a table: predicted against measured.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from statistics import median

from chunkcalc import calibrate, replay
from chunkcalc.traffic.arrivals import Request

FIT, JUDGED, USERS = (128, 512), (256, 1024), (2, 6)
PROMPT, OUTPUT, PER_USER, SEQS, PORT = 900, 40, 5, 16, 8123
SEED, APART, MANY = 1, 0.1, 4
PATIENCE = 300  # seconds until the server answers
# Peak, bandwidth and memory of two cores, as anybody would write them down: the steps say what is reached.
PROFILE = """\
id = "own-cpu"
name = "two cores"
vendor = "other"
arch = "cpu"
confidence = "C"
source = "peak of two cores with AVX2 at 2 GHz in single precision, one memory channel"
[peak]
bf16 = 1.3e11
[memory]
mib = 8192
bandwidth = 2e10
[link]
kind = "none"
bandwidth = 1e9
gpus_per_node = 1
[efficiency.gemm]  # a core waits for its memory: arithmetic and traffic add up
bf16 = { compute = 0.9, memory = 0.9, knee = 1 }
"""
LONG = re.compile(r"([1-9]\d*) context requests, .* (\d+) generation requests, .*elapsed time: ([\d.]+) ms")


@contextmanager
def server(folder: Path, budget: int) -> Iterator[None]:
    """vLLM with a budget, its log in logs/BUDGET.log."""
    env = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"}
    words = [
        "v/bin/vllm", "serve", "tiny", "--load-format", "dummy", "--dtype", "float32", "--max-model-len", "4096",
        "--max-num-batched-tokens", str(budget), "--max-num-seqs", str(SEQS), "--port", str(PORT),
        "--no-enable-prefix-caching", "--enable-logging-iteration-details",
    ]  # fmt: skip
    with (folder / "logs" / f"{budget}.log").open("w") as log:
        running = subprocess.Popen(words, cwd=folder, env=env, stdout=log, stderr=subprocess.STDOUT)
        try:
            _wait(running)
            yield
        finally:
            running.terminate()
            running.wait(60)


def _wait(running: subprocess.Popen[bytes]) -> None:
    for _ in range(PATIENCE):
        if running.poll() is not None:
            raise SystemExit("the server ended: see its log")
        try:
            with urllib.request.urlopen(f"http://localhost:{PORT}/health", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(1)
    raise SystemExit("the server does not answer")


def load(folder: Path, budget: int, users: int) -> None:
    """vLLM's own benchmark, its result in logs/BUDGET.USERS.json, the metrics page beside it."""
    words = [
        "v/bin/vllm", "bench", "serve", "--backend", "vllm", "--base-url", f"http://localhost:{PORT}",
        "--model", "tiny",
        "--endpoint", "/v1/completions", "--dataset-name", "random", "--random-input-len", str(PROMPT),
        "--random-output-len", str(OUTPUT), "--num-prompts", str(PER_USER * users), "--max-concurrency", str(users),
        "--ignore-eos", "--percentile-metrics", "ttft,tpot,itl", "--save-result",
        "--result-filename", f"logs/{budget}.{users}.json",
    ]  # fmt: skip
    subprocess.run(words, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with urllib.request.urlopen(f"http://localhost:{PORT}/metrics", timeout=10) as page:
        (folder / "logs" / f"{budget}.{users}.txt").write_bytes(page.read())


def measure(folder: Path, budget: int) -> None:
    """A budget under all loads; each load has its own log of steps."""
    with server(folder, budget):
        for users in USERS:
            load(folder, budget, users)


def steps_of(folder: Path, budget: int) -> Path:
    """The log of a budget; what was logged while the engine warmed up is left as it is."""
    return folder / "logs" / f"{budget}.log"


def measured(folder: Path, budget: int, users: int) -> tuple[float, float]:
    """Mean TPOT and TTFT that the benchmark saw [s]."""
    found = json.loads((folder / "logs" / f"{budget}.{users}.json").read_text())
    return found["mean_tpot_ms"] / 1e3, found["mean_ttft_ms"] / 1e3


def long_step(folder: Path, budget: int) -> float:
    """Median of the steps that fill the budget beside decodes, as the engine logged them [s]."""
    text = steps_of(folder, budget).read_text(errors="replace")
    times = [
        float(found[3]) / 1e3
        for found in LONG.finditer(text)
        if int(found[2]) and int(re.search(r"(\d+) context tokens", found[0])[1]) >= 0.9 * (budget - SEQS)  # type: ignore[index]
    ]
    return median(times)


def main() -> None:
    """Measure, calibrate, predict, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    folder = options.folder.resolve()
    (folder / "logs").mkdir(exist_ok=True)
    for budget in (*FIT, *JUDGED):
        if not options.keep or not (folder / "logs" / f"{budget}.{USERS[-1]}.txt").exists():
            measure(folder, budget)
    base, mine, model = folder / "own-cpu.toml", folder / "mine.toml", str(folder / "tiny" / "config.json")
    base.write_text(PROFILE)
    one_run = folder / "logs" / f"{FIT[1]}.{USERS[0]}.json"  # what the server and the client add
    found = calibrate(*(steps_of(folder, each) for each in FIT), one_run, gpu=str(base), model=model, engine="vllm",
                      budget=FIT[1])  # fmt: skip
    mine.write_text(found.profile())
    print(found)
    print("\n| budget | users | TPOT predicted / measured | longest gap / long step | TTFT predicted / measured |")
    print("|---|---|---|---|---|")
    for budget in (*FIT, *JUDGED):
        for users in USERS:
            draws = Random(SEED)  # requests of real users do not march in step, as equal ones would in a replay
            lengths = [round(OUTPUT * draws.uniform(1 - APART, 1 + APART)) for _ in range(PER_USER * users * MANY)]
            requests = [Request(0.0, PROMPT, length) for length in lengths]
            got = replay(requests, model=model, gpu=str(mine), budget=budget, max_num_seqs=SEQS, concurrency=users)
            tpot, ttft = measured(folder, budget, users)
            gap, step = max(each.gap or 0.0 for each in got.finished), long_step(folder, budget)
            cells = [
                f"{1e3 * a:.1f} / {1e3 * b:.1f} ms ({a / b - 1:+.0%})"
                for a, b in ((got.tpot["mean"], tpot), (gap, step), (got.ttft["mean"], ttft))
            ]
            seen = "" if budget in JUDGED else " (fitted)"
            print(f"| {budget}{seen} | {users} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
