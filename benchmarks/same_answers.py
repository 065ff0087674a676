"""Whether a change of the code changed an answer: the JSON of seeded random questions, written once and compared later.

python benchmarks/same_answers.py record FILE       before the change
python benchmarks/same_answers.py compare FILE      after it: every field that differs by more than 1e-9
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import math
import random
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MANY = {"solve": 500, "check": 500, "sweep": 50, "replay": 50, "fleet": 20, "explain": 30}
CLOSE = 1e-9  # relative
MODELS = (
    "llama-3.1-8b", "llama-3.1-70b", "qwen3-32b", "Qwen/Qwen3-30B-A3B", "gpt-oss-120b", "deepseek-v3", "gemma-3-27b",
    "mistral-7b", "qwen3-8b",
)  # fmt: skip
GPUS = ("h100-sxm", "h200-sxm", "b200", "a100-sxm4-80gb", "l40s", "mi300x", "l4", "rtx-pro-6000")
ENGINES = ("vllm", "vllm", "vllm", "sglang", "trtllm")


def _some(draw: random.Random, low: float, high: float) -> int:
    """A whole number, its logarithm uniform."""
    return max(1, round(math.exp(draw.uniform(math.log(low), math.log(high)))))


def _deployment(draw: random.Random, *, many: bool = False) -> list[str]:
    words = ["--model", draw.choice(MODELS), "--gpu", draw.choice(GPUS), "--engine", draw.choice(ENGINES)]
    if not many:
        words += ["--tp", str(draw.choice((1, 2, 4, 8)))]
    if draw.random() < 0.3:
        words += ["--weights", draw.choice(("fp8", "int4", "bf16"))]
    return words


def _drafts(draw: random.Random) -> list[str]:
    if draw.random() < 0.8:
        return []
    return ["--draft-tokens", str(draw.randint(1, 7)), "--draft-acceptance", f"{draw.uniform(0.1, 0.9):.2f}"]


def _lengths(draw: random.Random, longest: float = 200_000) -> list[str]:
    words = ["--prompt", str(_some(draw, 1, longest)), "--output", str(_some(draw, 2, 3000))]
    return words + (["--prefix-hit", f"{draw.uniform(0, 0.95):.2f}"] if draw.random() < 0.2 else [])


def _limits(draw: random.Random) -> list[str]:
    words = []
    if draw.random() < 0.9:
        words += ["--ttft", f"{_some(draw, 50, 20_000)}ms"]
    if draw.random() < 0.9:
        words += ["--tpot", f"{_some(draw, 5, 200)}ms"]
    if draw.random() < 0.2:
        words += ["--itl", f"{_some(draw, 10, 500)}ms"]
    return words


def _load(draw: random.Random) -> list[str]:
    kind = draw.random()
    if kind < 0.5:
        return ["--batch", str(_some(draw, 1, 512))] if kind < 0.4 else []
    words = ["--rate", f"{math.exp(draw.uniform(-3, 3)):.3f}"]
    if kind > 0.85:
        return ["--concurrency", str(_some(draw, 1, 128))]
    return words + (["--percentile", str(draw.choice((50, 90, 99)))] if draw.random() < 0.5 else [])


def _solve(draw: random.Random) -> list[str]:
    setting = ["--budget", str(_some(draw, 64, 16_384))] if draw.random() < 0.3 else []
    return ["solve", *_deployment(draw), *_lengths(draw), *_limits(draw), *_drafts(draw), *_load(draw), *setting]


def _check(draw: random.Random) -> list[str]:
    files = sorted(path for path in (ROOT / "tests" / "manifests").rglob("*") if path.is_file())
    plain = [path for path in files if not path.name.endswith(".expected.json")]
    words = ["check", str(draw.choice(plain).relative_to(ROOT)), *_lengths(draw, 30_000), *_limits(draw)]
    if draw.random() < 0.5:
        words += ["--gpu", draw.choice(GPUS)]
    if draw.random() < 0.3:
        words += ["--model", draw.choice(MODELS)]
    return words + draw.choice(([], ["--concurrency", str(_some(draw, 1, 256))], ["--rate", "2"]))


def _explain(draw: random.Random) -> list[str]:
    return ["explain", *_deployment(draw), *_lengths(draw), *_limits(draw), *_drafts(draw), *_load(draw)]


def _sweep(draw: random.Random) -> list[str]:
    return [
        "sweep",
        *_deployment(draw),
        *_lengths(draw),
        *_limits(draw),
        *_drafts(draw),
        "--batch",
        "8:512:24",
        "--context",
        "2000,9000",
    ]


def _replay(draw: random.Random) -> list[str]:
    words = ["replay", *_deployment(draw), "--prompt", str(_some(draw, 10, 8000)), "--output", str(_some(draw, 2, 500))]
    kind = draw.choice(("poisson", "burst", "closed"))
    words += ["--arrivals", kind, "--requests", "200", "--seed", str(draw.randint(0, 9))]
    return words + {"poisson": ["--rate", "2"], "burst": [], "closed": ["--concurrency", "16"]}[kind]


def _fleet(draw: random.Random) -> list[str]:
    lengths = ["--prompt", str(_some(draw, 100, 16_000)), "--output", str(_some(draw, 20, 1500))]
    limits = ["--ttft", f"{_some(draw, 300, 6000)}ms", "--tpot", f"{_some(draw, 15, 100)}ms"]
    words = ["fleet", *_deployment(draw, many=True), *lengths, *limits, "--rate", str(_some(draw, 1, 40))]
    return words + (["--percentile", "95"] if draw.random() < 0.3 else [])


MAKERS = {"solve": _solve, "check": _check, "sweep": _sweep, "replay": _replay, "fleet": _fleet, "explain": _explain}


def questions() -> list[list[str]]:
    """Every question, the same on each run."""
    return [
        [*MAKERS[kind](random.Random(f"{kind} {index}")), "--json"]
        for kind, many in MANY.items()
        for index in range(many)
    ]


def ask(words: list[str]) -> tuple[str, Any, float]:
    """What a question prints and its exit code, and how long it took [s]."""
    from chunkcalc.cli import main  # noqa: PLC0415 - in each process

    out, err = io.StringIO(), io.StringIO()
    start, code = time.process_time(), 0
    argv, sys.argv = sys.argv, ["chunkcalc", *words]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main.main()
    except SystemExit as stop:
        code = int(stop.code or 0)
    finally:
        sys.argv = argv
    text = out.getvalue()
    answer = json.loads(text) if text.startswith(("{", "[")) else text
    return " ".join(words), {"exit": code, "answer": answer, "error": err.getvalue()}, time.process_time() - start


def differences(before: Any, after: Any, where: str = "") -> Iterator[str]:
    """Each place where two answers differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            yield from differences(before.get(key, "absent"), after.get(key, "absent"), f"{where}.{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from differences(one, other, f"{where}[{index}]")
    elif isinstance(before, float | int) and isinstance(after, float | int) and not isinstance(before, bool):
        if not math.isclose(before, after, rel_tol=CLOSE, abs_tol=1e-12):
            yield f"{where}: {before!r} -> {after!r}"
    elif before != after:
        yield f"{where}: {str(before)[:150]!r} -> {str(after)[:150]!r}"


def main() -> None:
    """Record or compare."""
    what, file = sys.argv[1], Path(sys.argv[2])
    asked = [words for words in questions() if len(sys.argv) < 4 or words[0] in sys.argv[3:]]
    with ProcessPoolExecutor() as pool:
        found = list(pool.map(ask, asked, chunksize=4))
    slow = sorted(found, key=lambda each: -each[2])[:5]
    for words, _, took in slow:
        print(f"{took:6.1f} s CPU  {words}")
    print(f"{len(found)} questions, {sum(took for *_, took in found):.0f} s CPU")
    answers = {words: answer for words, answer, _ in found}
    if what == "record":
        file.write_bytes(gzip.compress(json.dumps(answers).encode()))
        return
    before, changed = json.loads(gzip.decompress(file.read_bytes())), 0
    for words, answer in answers.items():
        places = list(differences(before[words], answer)) if words in before else ["not recorded"]
        changed += bool(places)
        if places:
            print(f"\n{words}", *places[:5], sep="\n    ")
    print(f"\n{changed} of {len(answers)} answers changed")
    sys.exit(bool(changed))


if __name__ == "__main__":
    main()
