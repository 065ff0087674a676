"""Attention of a chunk after a prefix against measured FlashInfer kernels on H800.

    python benchmarks/chunk_attention.py EVIDENCE_FOLDER

The H800 has the H100's arithmetic and bandwidth. Few heads leave multiprocessors idle and short
chunks pay a whole tile: the table shows the error by chunk over 16 to 128 heads.
"""

from __future__ import annotations

import csv
import statistics
import sys
from collections import defaultdict
from pathlib import Path

from chunkcalc.catalog.lookup import load_hardware
from chunkcalc.catalog.precision import precision_for
from chunkcalc.engines.dialects import prototype
from chunkcalc.records import Dense, Deployment, Gqa, LayerGroup, Model, Parallelism
from chunkcalc.time.roofline import seconds
from chunkcalc.work.attention import prefill_forms


def model_with(attention: Gqa) -> Model:
    """A model of one layer around an attention."""
    group = LayerGroup(count=1, attention=attention, ffn=Dense(intermediate=1))
    return Model(id="one", name="one", source="none", hidden=1, vocab=1, max_position=1, layers=(group,))


def table(folder: Path) -> str:
    """Error by chunk as a Markdown table."""
    hardware, errors = load_hardware("h100-sxm").record, defaultdict(list)
    with (folder / "kernels" / "chunk_prefill_attn_flashinfer.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            if row["gpu"] != "h800" or row["p"] == "0":
                continue
            attention = Gqa(heads=int(row["nh"]), kv_heads=int(row["nkv"]), head_dim=128)
            model = model_with(attention)
            deployment = Deployment(
                model=model, hardware=hardware, parallelism=Parallelism(), precision=precision_for(model),
                engine=prototype("vllm"),
            )  # fmt: skip
            (kernel,) = prefill_forms(deployment, attention, int(row["c"]), int(row["p"]), 1, 1)[0]
            errors[int(row["c"])].append(seconds(kernel, hardware) * 1e6 / float(row["us"]) - 1)
    errors[0] = [error for found in errors.values() for error in found]
    lines = ["| chunk | n | MAPE % | bias % |", "|---|---|---|---|"]
    for c, found in sorted(errors.items()):
        mape, bias = statistics.mean(abs(error) for error in found), statistics.median(found)
        lines.append(f"| {c or 'all'} | {len(found)} | {100 * mape:.1f} | {100 * bias:.1f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(table(Path(sys.argv[1])))
