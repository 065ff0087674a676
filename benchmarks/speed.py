"""How fast the commands answer, as multiples of the bare interpreter's start on the same machine.

python benchmarks/speed.py             against the ratios in speed.json: exit code 1 where one is 1.5 times as high
python benchmarks/speed.py --record    write speed.json anew, on an idle machine
"""

from __future__ import annotations

import json
import os
import random
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

RECORDED = Path(__file__).with_name("speed.json")
SLOWER = 1.5  # times a recorded ratio
SHORT = 2.0  # a command that takes less is asked several times [s]
TIMES = 5
FILES = 1000
DATA_CENTRE = (
    "a100-sxm4-40gb,a100-sxm4-80gb,b200,b300,gb200,gb300,h100-nvl,h100-pcie,h100-sxm,h200-nvl,h200-sxm,h20,l40s,mi300x,"
    "mi325x,mi350x,mi355x"
)


class Asked(NamedTuple):
    """A command and the ratio that it may have at most."""

    name: str
    command: str
    most: float


LLAMA = "--model llama-3.1-8b --gpu h100-sxm --output 300"
README = (
    "--model llama-3.1-70b --gpu h100-sxm --tp 4 --weights fp8 --prompt 8192 --output 1024 --batch 32 "
    "--ttft 2s --tpot 60ms"
)
FLEET = "fleet --model qwen3-32b --rate 12 --prompt 4000 --output 500 --ttft 1s --tpot 40ms"
CHAT = "--prompt 600 --output 250 --requests 200000 --model llama-3.1-8b --gpu h100-sxm"
QUESTIONS = (
    Asked("solve", f"solve {README}", 17),
    Asked("solve --rate that holds", f"solve {LLAMA} --prompt 4000 --ttft 1s --tpot 50ms --rate 3 --percentile 99", 25),
    Asked("the same failing", f"solve {LLAMA} --prompt 4000 --ttft 300ms --tpot 15ms --rate 12 --percentile 99", 60),
    Asked("failing, prompt 32k", f"solve {LLAMA} --prompt 32k --ttft 300ms --tpot 15ms --rate 3 --percentile 99", 60),
    Asked(
        "failing, drafts",
        f"solve {LLAMA} --prompt 4000 --ttft 300ms --tpot 5ms --rate 12 --draft-tokens 4 --draft-acceptance 0.6", 60,
    ),
    Asked("failing, 512 users", f"solve {LLAMA} --prompt 2000 --ttft 300ms --tpot 15ms --concurrency 512", 100),
    Asked(
        "failing, prompt 100k",
        "solve --model llama-3.1-70b --gpu h100-sxm --tp 4 --prompt 100k --output 300 --batch 32 --ttft 3s --tpot 15ms",
        60,
    ),
    Asked("explain", f"explain {README}", 60),
    Asked("fleet, one GPU", f"{FLEET} --gpu h100-sxm", 100),
    Asked("fleet, data-centre GPUs", FLEET + "".join(f" --gpu {gpu}" for gpu in DATA_CENTRE.split(",")), 2500),
    Asked("check, one small file", "check examples/good/llama-8b.yaml", 25),
    Asked(f"check, {FILES:,} files", "check {many}", 420),
    Asked("replay of 200,000 requests", f"replay --arrivals poisson --rate 15 {CHAT} --budget 2048", 2300),
    Asked("replay of 200,000 at once", f"replay --arrivals burst {CHAT}", 2300),
)  # fmt: skip

MANIFEST = """apiVersion: apps/v1
kind: Deployment
metadata:
  name: d{index}
  annotations: {{chunkcalc/ttft: {ttft}ms, chunkcalc/tpot: {tpot}ms, chunkcalc/prompt: "{prompt}",
                chunkcalc/output: "{output}", chunkcalc/concurrency: "{users}"}}
spec:
  template:
    spec:
      nodeSelector: {{nvidia.com/gpu.product: {gpu}}}
      containers:
        - image: vllm/vllm-openai:v0.{version}.0
          args: [--model, {model}, --tensor-parallel-size, "{tp}", --max-num-batched-tokens, "{budget}",
                 --max-num-seqs, "{seqs}", --max-model-len, "32768"]
          resources: {{limits: {{nvidia.com/gpu: "{tp}"}}}}
"""


def manifests(folder: Path) -> None:
    """Distinct deployments, the same ones on every run.

    Parameters
    ----------
    folder : to write them to
    """
    draw = random.Random(7)
    for index in range(FILES):
        text = MANIFEST.format(
            index=index, ttft=draw.randint(300, 4000), tpot=draw.randint(15, 80), prompt=draw.randint(200, 12_000),
            output=draw.randint(50, 1500), users=draw.randint(1, 128), version=draw.randint(9, 12),
            gpu=draw.choice(("NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB", "NVIDIA-L40S", "NVIDIA-H200")),
            model=draw.choice(("meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen3-32B", "openai/gpt-oss-120b")),
            tp=draw.choice((1, 2, 4, 8)), budget=draw.choice((512, 2048, 8192)), seqs=draw.choice((64, 128, 256)),
        )  # fmt: skip
        (folder / f"{index}.yaml").write_text(text)


def seconds(cache: str, *words: str) -> float:
    """The least time of a process, of several runs where it is short [s].

    Parameters
    ----------
    cache : folder for compiled modules: as for a user whose first run is behind him
    words : of the interpreter
    """
    taken: list[float] = []
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment = {**kept, "PYTHONPYCACHEPREFIX": cache}
    while len(taken) < TIMES and sum(taken) < SHORT:
        start = time.perf_counter()
        done = subprocess.run([sys.executable, *words], check=False, capture_output=True, text=True,
                              env=environment)  # fmt: skip
        taken.append(time.perf_counter() - start)
        if done.returncode not in (0, 1):
            raise SystemExit(f"{shlex.join(words)}: {done.stderr}")
    return min(taken)


def ratio(cache: str, command: str) -> tuple[float, float]:
    """Seconds of a command, and the multiple of the bare interpreter beside it."""
    before, own = seconds(cache, "-c", "pass"), seconds(cache, "-m", "chunkcalc", *shlex.split(command))
    return own, own / min(before, seconds(cache, "-c", "pass"))


def main() -> None:
    """Measure, compare, and print a line for each question."""
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    found, slower = {}, []
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as cache:
        manifests(Path(folder))
        print(f"{'':<28}{'seconds':>9}{'ratio':>8}{'recorded':>10}{'at most':>9}")
        for name, words, most in QUESTIONS:
            command = words.format(many=folder)
            own, times = ratio(cache, command)
            before = recorded.get(name)
            if before is not None and times > SLOWER * before:  # a machine that was busy is asked again
                own, times = min((own, times), ratio(cache, command))
            found[name] = round(times, 1)
            late = before is not None and times > SLOWER * before
            slower += [name] if late else []
            shown = "-" if before is None else f"{before:,.0f}"
            mark = "  slower" if late else "  over" if times > most else ""
            print(f"{name:<28}{own:>9.2f}{times:>8,.0f}{shown:>10}{most:>9,.0f}{mark}", flush=True)
    if "--record" in sys.argv:
        RECORDED.write_text(json.dumps(found, indent=2) + "\n")
    elif slower:
        raise SystemExit(f"slower than {SLOWER} times the recorded ratio: {', '.join(slower)}")


if __name__ == "__main__":
    main()
