"""Write docs/schemas/: a JSON Schema of what each command writes with --json.

    python benchmarks/json_schemas.py [COMMAND,...]

The shape is read off some hundred answers of every kind, and their texts off the records that they are made of; what
no answer had is refused. The tests hold other answers against the files.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from genson import SchemaBuilder

sys.path.insert(0, str(Path(__file__).parents[1]))
from chunkcalc import sweep
from chunkcalc.answer import disaggregation, records, window
from chunkcalc.answer.solve import answer as solved
from chunkcalc.derivation.derive import explain as derive
from chunkcalc.errors import ChunkcalcError
from chunkcalc.report import explain, fleet
from chunkcalc.report.json import solve as document_of
from chunkcalc.sizing import shapes
from chunkcalc.textbook import forms
from tests.contract import fleets, questions

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "schemas"
MAPS = frozenset(("missed", "breakdown", "bound_by", "flags", "set", "settings", "plug_ins", "values"))  # keys are data
LLAMA = ("--model", "llama-3.1-8b", "--gpu", "h100-sxm", "--prompt", "4000", "--output", "300")
LIMITS = ("--ttft", "1s", "--tpot", "40ms")
EXPERTS = ("--model", "gpt-oss-120b", "--gpu", "h200-sxm", "--prompt", "4000")
POISSON = ("--arrivals", "poisson", "--rate", "3", "--requests", "60")
OUT = "out.toml"  # in a folder of its own
QWEN = "Qwen/Qwen3-8B"
PAGE = "examples/bench/metrics.txt"
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("solve", *LLAMA, *LIMITS, "--rate", "3"), ("solve", *LLAMA, *LIMITS, "--rate", "30", "--budget", "4096"),
    ("solve", *LLAMA, "--concurrency", "20", "--ttft", "1s"), ("solve", *LLAMA), ("solve", *LLAMA, "--batch", "4"),
    ("solve", *LLAMA, *LIMITS, "--batch", "32", "--measured", "tpot=20ms at batch 32", "--measured", "kv=400k tokens"),
    ("explain", *LLAMA, *LIMITS, "--batch", "32"), ("explain", *EXPERTS, "--batch", "64", "--tpot", "60ms"),
    ("explain", *LLAMA, "--batch", "4", "--ttft", "10ms", "--tpot", "2ms"), ("explain", *LLAMA),
    ("explain", *LLAMA, "--batch", "32", "--equation", "E6"),
    ("fleet", *LLAMA, *LIMITS, "--rate", "12"),
    ("fleet", *LLAMA, *LIMITS, "--rate", "12", "--gpu", "b200,l40s", "--price", "2.5"),
    ("fleet", *LLAMA, "--ttft", "1ms", "--rate", "1"), ("fleet", *LLAMA, *LIMITS, "--rate", "100", "--max-gpus", "4"),
    ("sweep", *LLAMA, *LIMITS, "--batch", "8,32", "--chunk", "256:4096"),
    ("sweep", *LLAMA, "--gpu", "h100,l4", "--engine", "sglang", "--batch", "8,3000"),
    ("fleet", *LLAMA, *LIMITS, "--rate", "12", "--price", "2", "--spend", "90/h", "--spare", "1"),
    ("compare", "--tp 1", "--tp 2", *LLAMA, *LIMITS, "--batch", "8"),
    ("compare", "--budget 512", "--engine sglang", *LLAMA, *LIMITS, "--rate", "2", "--price", "2"),
    ("compare", "--tp 1", "--gpu h200", *LLAMA[:-2], "--output", "1"),
    ("sweep", *LLAMA, *LIMITS, "--pareto"), ("sweep", *LLAMA, *LIMITS, "--gpu", "l4,h100", "--pareto"),
    ("replay", *POISSON, *LLAMA, "--ttft", "200ms", "--tpot", "12ms", "--itl", "1s"),
    ("replay", *POISSON, *LLAMA), ("replay", *POISSON, *LLAMA, "--budget", "1024"),
    ("replay", "--arrivals", "closed", "--concurrency", "8", "--requests", "60", *LLAMA),
    ("policy", *LLAMA[:4], *LIMITS, "--rate", "1:4", "--prompt", "500:4k"),
    ("policy", *LLAMA[:4], *LIMITS, "--rate", "90", "--prompt", "500,4k"),
    ("step-model", *LLAMA[:4]), ("step-model", *EXPERTS[:4], "--tp", "2"),
    ("models", "list"), ("gpus", "list"), ("models", "show", "gpt-oss-120b"), ("gpus", "show", "h100-sxm"),
    ("engine", "--gpu", "h100", "--", "vllm", "serve", QWEN, "--max-num-seqs", "64"),
    ("engine", "--gpu", "h100", "--", "vllm", "serve", QWEN, "--max-num-seqs", "99", "--max-num-batched-tokens", "64"),
    ("engine", "--gpu", "h100", "--", "python", "-m", "sglang.launch_server", "--model", QWEN),
    ("check", "tests/manifests", "examples", "--prompt", "4000", "--concurrency", "32", "--gpu", "h100-sxm", *LIMITS),
    ("check", "tests/manifests", "examples", "--prompt", "4000", "--rate", "3", "--tpot", "20ms"),
    ("check", "examples"), ("check", "examples/bad", "--diff", "examples/good"), ("rules",),
    ("score", "examples/bench/results.csv"), ("score", "examples/bench/results.csv", "--by", "concurrency"),
    ("calibrate", "examples/bench/results.csv", "--gpu", "h100-sxm", "--engine", "vllm", "-o", OUT),
    ("calibrate", "examples/bench/8192in-1users.json", "examples/bench/8192in-16users.json",
     "--gpu", "h100-sxm", "--engine", "vllm", "-o", OUT),
    ("calibrate", "examples/bench/8192in-1users.json", "--gpu", "h100-sxm", "--engine", "vllm", "-o", OUT),
    ("observe", PAGE), ("observe", PAGE, "--rate", "2", "--gpu", "h100", *LIMITS, "--", "vllm", "serve", QWEN),
    ("observe", PAGE, "--gpu", "h100", "--ttft", "1s", "--", "vllm", "serve", "meta-llama/Llama-3.1-8B-Instruct"),
    ("observe", PAGE, "--gpu", "h100", "--", "vllm", "serve", "somebody/unknown"),
    ("probe", *LLAMA, *LIMITS, "--batch", "32"), ("probe", *LLAMA, "--batch", "32", "--tpot", "16ms"),
    ("probe", *LLAMA, "--batch", "32", "--ttft", "300ms", "--tpot", "20ms", "--engine", "sglang"),
)  # fmt: skip


def documents(only: Collection[str]) -> Iterator[dict[str, Any]]:
    """Answers of every command, or of some, as they are written."""
    for words in COMMANDS:
        if only and words[0] not in only:
            continue
        with TemporaryDirectory() as place:
            said = [str(Path(place) / word) if word == OUT else word for word in _json(words)]
            found = subprocess.run(
                [sys.executable, "-m", "chunkcalc", *said], capture_output=True, text=True, check=False, cwd=ROOT
            )
        if not found.stdout:
            raise SystemExit(f"chunkcalc {' '.join(words)}: {found.stderr}")
        yield json.loads(found.stdout)
    if only:
        return
    for traffic, count in ((False, 300), (True, 40)):
        for _, _, answer in questions(1, count, traffic=traffic):
            yield document_of(answer)
    for question, _, _ in questions(3, 40):
        yield document_of(solved(question))
    for question, _, answer in questions(2, 60):
        yield explain.json(derive(answer))
        with suppress(ChunkcalcError):  # none of its GPUs holds the model
            yield sweep(
                model=question.model, gpu=str(question.gpu), prompt=question.prompt, output=question.output,
                batch=[1, 300, 20_000], tp=[1, 8], ttft=question.ttft, tpot=question.tpot, engine=question.engine,
            ).to_dict()  # fmt: skip
    for _, sized in fleets(2, 20):
        yield fleet.json(sized)


def _json(words: tuple[str, ...]) -> tuple[str, ...]:
    """With --json, before a command line that follows --."""
    place = words.index("--") if "--" in words else len(words)
    return (*words[:place], "--json", *words[place:])


def texts() -> dict[str, str]:
    """What a field means, by the docstrings of the records."""
    classes = (
        records.Answer, records.Reading, records.Chunking, records.Remedy, records.LimitLine, records.MeanAlone,
        records.Load, window.Window, disaggregation.Disaggregation, shapes.Shape, forms.Textbook,
    )  # fmt: skip
    out: dict[str, str] = {}
    for each in classes:
        for names, text in re.findall(r"^    ([a-z_, ]+) : (.+)$", each.__doc__ or "", re.MULTILINE):
            for name in names.split(", "):
                out.setdefault(name, text)
    return out


def refined(schema: dict[str, Any], meant: dict[str, str]) -> dict[str, Any]:
    """The same, where other keys are refused, but those of maps, which are data."""
    out = {key: value for key, value in schema.items() if key not in ("properties", "items", "anyOf")}
    if "properties" in schema:
        out["properties"] = {}
        for name, inner in schema["properties"].items():
            each = _map(inner, meant) if name in MAPS else refined(inner, meant)
            out["properties"][name] = ({"description": meant[name]} if name in meant else {}) | each
        out["additionalProperties"] = False
    if "items" in schema:
        out["items"] = refined(schema["items"], meant)
    if "anyOf" in schema:
        out["anyOf"] = [refined(each, meant) for each in schema["anyOf"]]
    return out


def _map(schema: dict[str, Any], meant: dict[str, str]) -> dict[str, Any]:
    """An object whose keys are data: what its values have in common."""
    if "anyOf" in schema:
        return {"anyOf": [_map(each, meant) for each in schema["anyOf"]]}
    builder = SchemaBuilder(schema_uri=None)
    for each in schema.get("properties", {}).values():
        builder.add_schema(each)
    values = refined(builder.to_schema(), meant)
    kinds = values.get("type", [])
    if isinstance(kinds, list) and "string" in kinds:
        values = {"type": ["boolean", "null", "number", "string"]}  # of any field
    return {"type": schema["type"], **({"additionalProperties": values} if values else {})}


def main() -> None:
    """Write a file for each schema name."""
    builders: dict[str, SchemaBuilder] = {}
    for document in documents(sys.argv[1].split(",") if len(sys.argv) > 1 else ()):
        builders.setdefault(document["schema"], SchemaBuilder()).add_object(json.loads(json.dumps(document)))
    FOLDER.mkdir(exist_ok=True)
    for name, builder in builders.items():
        found = refined(builder.to_schema(), texts())
        found["$schema"] = "https://json-schema.org/draft/2020-12/schema"
        found["title"] = name
        found["properties"]["schema"] = {"const": name}
        path = FOLDER / f"{name.replace('/', '.')}.json"
        path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except ChunkcalcError as error:
        sys.exit(str(error))
