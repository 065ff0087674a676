"""How fast: `solve()` warm, the whole command against the bare interpreter's start, replay and fleet; and where the
evidence folder is given, `score` of its public runs and `calibrate` on 200 of them.

python benchmarks/speed.py [EVIDENCE_FOLDER]
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from chunkcalc import solve
from chunkcalc.arrivals import poisson
from chunkcalc.case import resolve
from chunkcalc.catalog import gpus, load_hardware
from chunkcalc.fleet import fleet
from chunkcalc.measurements import read
from chunkcalc.question import Question
from chunkcalc.scoring.calibrate import calibrate
from chunkcalc.scoring.score import score
from chunkcalc.scoring.usable import usable
from chunkcalc.simulation import scheduler_for, simulate

QUESTIONS = {
    "8B, no batch": {"model": "llama-3.1-8b", "gpu": "h100-sxm", "prompt": 4000, "ttft": 1.0, "tpot": 0.03},
    "70B fp8 tp 4, batch 32": {
        "model": "llama-3.1-70b", "gpu": "h100-sxm", "tp": 4, "weights": "fp8", "prompt": 8192, "output": 1024,
        "batch": 32, "ttft": 2.0, "tpot": 0.06,
    },
    "DeepSeek V3 tp 8, batch 32": {
        "model": "deepseek-v3", "gpu": "h200-sxm", "tp": 8, "prompt": 4000, "batch": 32, "ttft": 1.5, "tpot": 0.08,
    },
    "gpt-oss-120b tp 2, batch 64": {
        "model": "gpt-oss-120b", "gpu": "h100-sxm", "tp": 2, "prompt": 4000, "batch": 64, "ttft": 1.5, "tpot": 0.03,
    },
    "8B SGLang, batch 32": {
        "model": "llama-3.1-8b", "gpu": "h100-sxm", "prompt": 8000, "batch": 32, "ttft": 1.0, "tpot": 0.05,
        "engine": "sglang",
    },
    "8B, prompt 100k, batch 4": {
        "model": "llama-3.1-8b", "gpu": "h200-sxm", "prompt": 100_000, "batch": 4, "ttft": 20.0, "tpot": 0.05,
    },
}  # fmt: skip
COMMAND = (
    "solve --model llama-3.1-70b --gpu h100-sxm --tp 4 --weights fp8 --prompt 8192 --output 1024 --batch 32 "
    "--ttft 2s --tpot 60ms"
)


def median(run: Callable[[], object], times: int) -> float:
    """Median seconds of a call."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def started(*arguments: str) -> float:
    """Median seconds of a process."""
    return median(lambda: subprocess.run([sys.executable, *arguments], check=False, stdout=subprocess.DEVNULL), 15)


CHAT = 20_000  # requests
DATA_CENTRE = 8  # GPUs of a node
FLEET = Question(model="qwen3-32b", gpu="h100-sxm", rate=12.0, prompt=4000, output=500, ttft=1.0, tpot=0.04)


def _chat() -> None:
    """A chat workload: 600 tokens in, 250 out, 15 a second."""
    case = resolve(Question(model="llama-3.1-8b", gpu="h100-sxm", prompt=600, output=250))
    simulate(case, poisson(15.0, CHAT, 600, 250, 1, 0.8), scheduler_for(case, 2048, 256))


MANY = 200  # rows of a calibration


def _measured(folder: Path) -> None:
    """Print the times of what needs measurements."""
    path = folder / "serving" / "serving.csv"
    start = time.perf_counter()
    found = score(read(path))
    print(f"score of {found.rows:,} rows in {time.perf_counter() - start:.1f} s")
    base = load_hardware("b200").record
    runs = [run for run in read(path).runs if run.gpu == "b200" and run.engine == "vllm"]
    rows = usable(runs, base)[0][:MANY]
    print(f"calibrate on {len(rows)} rows in {median(lambda: calibrate(rows, base), 1):.1f} s")


def main() -> None:
    """Print all times."""
    medians = []
    for name, question in QUESTIONS.items():
        taken = median(lambda question=question: solve(with_remedies=False, **question), 9)  # type: ignore[misc]
        medians.append(taken)
        print(f"solve() {name:<30}{1e3 * taken:8.1f} ms")
    print(f"solve() {'median':<30}{1e3 * statistics.median(medians):8.1f} ms")
    bare, whole = started("-c", "pass"), started("-m", "chunkcalc.cli.main", *COMMAND.split())
    served = median(_chat, 1)
    print(f"replay {CHAT:,} requests of a chat in {served:.1f} s, {CHAT / served:,.0f} requests/s")
    names = [(gpu.id, None) for gpu in gpus() if gpu.confidence == "A" and gpu.link.gpus_per_node >= DATA_CENTRE]
    taken = median(lambda: fleet(FLEET, names), 1)
    print(f"fleet over {len(names)} data-centre GPUs in {taken:.1f} s, {taken / len(names):.2f} s each")
    for folder in sys.argv[1:]:
        _measured(Path(folder))
    print(f"command {1e3 * whole:.0f} ms, bare interpreter {1e3 * bare:.0f} ms: {whole / bare:.1f} times")


if __name__ == "__main__":
    main()
