"""Public kernel timings as kernels of chunkcalc: what was measured, and the work it was.

Rows left out: times below the datasheet peak; decode attention whose cache still sat in the
last-level cache from the timing before (faster than memory once the shortest time of the table is
taken off), or whose context is below 128 tokens.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from chunkcalc.catalog.lookup import load_hardware, load_model
from chunkcalc.catalog.precision import peak, precision_for
from chunkcalc.engines.dialects import prototype
from chunkcalc.records import (
    WEIGHT_BYTES,
    Dense,
    Deployment,
    Gqa,
    Hardware,
    Kernel,
    LayerGroup,
    Model,
    Moe,
    Parallelism,
)
from chunkcalc.time.roofline import seconds
from chunkcalc.work import elementwise, gqa, moe
from chunkcalc.work.gemm import gemm

GPUS = {
    "a100_sxm": "a100-sxm4-80gb", "b200_sxm": "b200", "b300_sxm": "b300", "b60": "b60", "gb200": "gb200",
    "gb300": "gb300", "h100_sxm": "h100-sxm", "h200_sxm": "h200-sxm", "l40s": "l40s",
    "rtx_pro_6000_server": "rtx-pro-6000",
}  # fmt: skip
# GPUs with tables of layers alone, and how the files call them.
LAYERS = {
    "rtx-4090": ("layer_ops_vllm019.csv", "rtx_4090"), "rtx-3090": ("lss_v0_layers.csv", "RTX3090"),
    "rtx-a6000": ("lss_v0_layers.csv", "A6000"),
}  # fmt: skip
FORMATS = {"bfloat16": "bf16", "int4_wo": "int4"}  # the others are named as in chunkcalc
WEIGHTS = frozenset(("bf16", "fp8", "fp8_block", "nvfp4", "int4"))
# Formats of experts; mxfp4 runs with 8-bit activations where it can.
EXPERTS = {
    "bfloat16": "bf16", "fp8": "fp8", "fp8_block": "fp8_block", "nvfp4": "nvfp4", "int4_wo": "int4",
    "w4a16_mxfp4": "mxfp4", "w4a8_mxfp4_mxfp8": "mxfp4",
}  # fmt: skip
BALANCED = "balanced"
NARROW, WIDE = "w4a8_mxfp4_mxfp8", "w4a16_mxfp4"
LATENT_TOP_K, UNGATED = 22, (2688, 1856)
# Reads weights at a fifth of the bandwidth on Hopper, which no served row shows.
SLOW_EXPERTS = "vllm_modeloptfp8moe_flashinfer_cutlass"
SMALL_KERNELS = ("layernorm", "rotary_emb", "act_fn")  # in the order of `elementwise.kernels`
SHORTEST_CONTEXT = 128  # tokens; nothing shorter is served
LONGEST_MESSAGE = 2**28  # bytes; no all-reduce of a step is longer
US = 1e-6
COLUMNS = tuple(Kernel._fields[3:])
SHAPES = 2**20  # more than any dimension: two numbers in one


class Table(NamedTuple):
    """Measured kernels of one form and format on one GPU.

    hardware : the GPU
    kernel : their work, as arrays
    time : measured [s]
    shape : rows with the same number are held out together
    head_dims : head dimensions measured [1]
    beside : predicted time of what else ran in the same call [s]
    """

    hardware: Hardware
    kernel: Kernel
    time: Any
    shape: Any
    head_dims: tuple[int, ...] = ()
    beside: Any = 0.0

    def keep(self, wanted: Any) -> Table:
        """The rows of a mask.

        Parameters
        ----------
        wanted : which rows
        """
        fields = {name: getattr(self.kernel, name)[wanted] for name in COLUMNS}
        beside = np.broadcast_to(self.beside, self.time.shape)[wanted]
        kernel = self.kernel._replace(**fields)
        return self._replace(kernel=kernel, time=self.time[wanted], shape=self.shape[wanted], beside=beside)


def products(path: Path, hardware: Hardware, **only: str) -> dict[str, Table]:
    """Products with weights, by form and format.

    Parameters
    ----------
    path : columns dtype, m, n, k, us
    hardware : the GPU
    only : columns and what they must say
    """
    rows: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    for (dtype, *sizes), time in _fastest(path, ("dtype", "m", "n", "k"), only).items():
        rows[FORMATS.get(dtype, dtype)].append((*map(float, sizes), time))
    out = {}
    for dtype in sorted(rows.keys() & WEIGHTS):
        found = rows[dtype]
        m, n, k, time = np.array(found).T
        kernel = stack([gemm("gemm", m, n, k, dtype)])
        rate = peak(hardware, dtype) or hardware.peak["bf16"]
        least = np.maximum(kernel.flops / rate, kernel.bytes / hardware.bandwidth)
        out[f"gemm.{dtype}"] = Table(hardware, kernel, time, n * SHAPES + k).keep(time > least)
    return out


def layer_products(path: Path, gpu: str, hardware: Hardware) -> dict[str, Table]:
    """Products of whole layers, of GPUs whose products were timed in no other table.

    Parameters
    ----------
    path : columns gpu, model, tp, layer or layer_name, tokens, us
    gpu : as the table calls it
    hardware : the GPU
    """
    with path.open() as file:
        named = "layer" if ",layer," in file.readline() else "layer_name"
    rows = []
    for (name, tp, layer, tokens), time in _fastest(path, ("model", "tp", named, "tokens"), {"gpu": gpu}).items():
        if "moe" in name.lower():
            continue
        group = load_model(name.lower()).record
        kind, ffn = group.layers[0].attention, group.layers[0].ffn
        if not isinstance(kind, Gqa) or not isinstance(ffn, Dense):
            continue
        ranks, query, key = int(tp), kind.heads * kind.head_dim, kind.kv_heads * kind.head_dim
        hidden, inter = group.hidden, ffn.intermediate
        sizes = {
            "qkv_proj": (query + 2 * key, hidden), "q_proj": (query, hidden), "k_proj": (key, hidden),
            "v_proj": (key, hidden), "gate_up_proj": (2 * inter, hidden), "gate_proj": (inter, hidden),
            "up_proj": (inter, hidden),
        }  # fmt: skip
        if layer in sizes:
            out, inner = sizes[layer]
            rows.append((float(tokens), out / ranks, inner, time))
        elif layer in ("o_proj", "down_proj"):
            rows.append((float(tokens), hidden, (query if layer == "o_proj" else inter) / ranks, time))
    m, n, k, times = np.array(rows).T
    kernel = stack([gemm("gemm", m, n, k, "bf16")])
    least = np.maximum(kernel.flops / hardware.peak["bf16"], kernel.bytes / hardware.bandwidth)
    return {"gemm.bf16": Table(hardware, kernel, times, n * SHAPES + k).keep(times > least)}


def attentions(path: Path, hardware: Hardware, **only: str) -> dict[str, Table]:
    """Attention to whole prompts or of decodes, by form and KV format.

    Parameters
    ----------
    path : columns kv_dtype, hd, nh, nkv, b, us and new_tokens (prompts) or ctx (decodes), or their longer names
    hardware : the GPU
    only : columns and what they must say
    """
    with path.open() as file:
        names = file.readline().strip().split(",")
    prompts = "ctx" not in names
    short = ("kv_dtype", "hd", "nh", "nkv", "b", "new_tokens" if prompts else "ctx")
    long = ("kv_cache_dtype", "head_dim", "num_heads", "num_key_value_heads", "batch_size", "isl" if prompts else "ctx")
    groups: dict[str, dict[tuple[int, ...], list[tuple[float, ...]]]] = defaultdict(lambda: defaultdict(list))
    for (kv, *heads, b, tokens), time in _fastest(path, short if "kv_dtype" in names else long, only).items():
        groups[FORMATS.get(kv, kv)][tuple(map(int, heads))].append((float(b), float(tokens), time))
    return {
        f"{'prefill' if prompts else 'decode'}_attention.{kv}": _attention(hardware, kv, found, prompts)
        for kv, found in groups.items()
    }


def _attention(
    hardware: Hardware, kv: str, groups: dict[tuple[int, ...], list[tuple[float, ...]]], prompts: bool
) -> Table:
    kernels, columns = [], []
    for number, ((head_dim, heads, kv_heads), rows) in enumerate(groups.items()):
        b, tokens, time = np.array(rows).T
        attention = Gqa(heads=heads, kv_heads=kv_heads, head_dim=head_dim)
        replica = _replica(attention, hardware, kv)
        if prompts:
            ((kernel, *_),) = gqa.prefill_forms(replica, attention, b * tokens, 0.0 * b, b, 1)
        else:
            kernel, *_ = gqa.decode_kernels(replica, attention, b, tokens, 0, 1)
        kernels.append(kernel)
        columns.append((time, number * SHAPES + b, tokens))
    time, shape, tokens = (np.concatenate(column) for column in zip(*columns, strict=True))
    kernel = stack(kernels)
    memory = kernel.bytes / hardware.bandwidth
    good = time > np.maximum(memory, kernel.least_flops / max(hardware.peak["bf16"], hardware.peak.get(kv, 0.0)))
    if not prompts:
        good &= (time - time.min() > memory) & (tokens >= SHORTEST_CONTEXT)
    return Table(hardware, kernel, time, shape, tuple(sorted({head_dim for head_dim, *_ in groups}))).keep(good)


def joint_calls(path: Path, gpu: str, hardware: Hardware) -> Table:
    """Decodes that share an attention call with a prompt chunk (vLLM), the chunk's time predicted.

    Parameters
    ----------
    path : columns gpu, nh, nkv, c, p, b, s, us; head dimension 128
    gpu : as the table calls it
    hardware : the GPU, with constants of prompt and decode attention
    """
    groups: dict[tuple[int, int], list[tuple[float, ...]]] = defaultdict(list)
    for (name, heads, kv_heads, *sizes), time in _fastest(path, ("gpu", "nh", "nkv", "c", "p", "b", "s")).items():
        if name == gpu and sizes[0] != "0" and sizes[2] != "0":
            groups[int(heads), int(kv_heads)].append((*map(float, sizes), time))
    kernels, columns = [], []
    for number, ((heads, kv_heads), rows) in enumerate(groups.items()):
        c, p, b, s, time = np.array(rows).T
        attention = Gqa(heads=heads, kv_heads=kv_heads, head_dim=128)
        replica = _replica(attention, hardware, "bf16")
        ((chunk, *_),) = gqa.prefill_forms(replica, attention, c, p, 1.0, 1)
        kernel, *_ = gqa.decode_kernels(replica, attention, b, s, 0, 1, unified=True)
        kernels.append(kernel)
        columns.append((time, number * SHAPES + b, seconds(chunk, hardware)))
    time, shape, beside = (np.concatenate(column) for column in zip(*columns, strict=True))
    return Table(hardware, stack(kernels), time, shape, (128,), beside)


def small_kernels(path: Path) -> list[Table]:
    """Norms, rotary embedding and activation function of vLLM, one table per GPU, model and kernel.

    Parameters
    ----------
    path : columns gpu, model, tp, layer, tokens, us
    """
    groups: dict[tuple[str, ...], list[tuple[float, float]]] = defaultdict(list)
    for (*key, tokens), time in _fastest(path, ("gpu", "model", "tp", "layer", "tokens")).items():
        if key[-1] in SMALL_KERNELS:
            groups[tuple(key)].append((float(tokens), time))
    out = []
    for number, ((gpu, name, tp, layer), rows) in enumerate(groups.items()):
        hardware, model = load_hardware(GPUS.get(gpu, gpu.replace("_", "-"))).record, load_model(name.lower()).record
        replica = Deployment(
            model=model, hardware=hardware, parallelism=Parallelism(tp=int(tp)), precision=precision_for(model),
            engine=prototype("vllm"),
        )  # fmt: skip
        tokens, time = np.array(rows).T
        kernels = elementwise.kernels(replica, model.layers[0], tokens, 1)
        kernel = stack([kernels[SMALL_KERNELS.index(layer)]._replace(launches=1)])
        out.append(Table(hardware, kernel, time, np.full(len(time), number)))
    return out


def allreduces(path: Path, gpu: str) -> dict[int, tuple[Any, Any]]:
    """Messages [byte] and times [s] of vLLM's all-reduces, by GPUs that take part.

    Inside a CUDA graph where that was measured, the faster of vLLM's own kernel and NCCL.

    Parameters
    ----------
    path : columns gpu, lib, dtype, num_gpus, message_size (elements of two bytes), us
    gpu : as the table calls it
    """
    times: dict[tuple[int, bool], dict[float, float]] = defaultdict(dict)
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            message = 2 * float(row["message_size"])
            if row["gpu"] != gpu or row["dtype"] == "int8" or message > LONGEST_MESSAGE:
                continue
            if row["lib"].startswith(("vllm", "nccl")):
                found = times[int(row["num_gpus"]), row["lib"].endswith("eager")]
                found[message] = min(found.get(message, np.inf), float(row["us"]) * US)
    groups = sorted({gpus for gpus, _ in times})
    chosen = {gpus: times.get((gpus, False)) or times[gpus, True] for gpus in groups}
    return {gpus: (np.array(list(found)), np.array(list(found.values()))) for gpus, found in chosen.items()}


def stack(kernels: Iterable[Kernel]) -> Kernel:
    """Kernels of one form and format as one whose fields are arrays.

    Parameters
    ----------
    kernels : each with fields of one length
    """
    kernels = list(kernels)
    rows = [np.broadcast_arrays(*(np.atleast_1d(getattr(kernel, name)) for name in COLUMNS)) for kernel in kernels]
    return Kernel(*kernels[0][:3], *(np.concatenate(column).astype(float) for column in zip(*rows, strict=True)))


def experts(path: Path, hardware: Hardware, engine: str) -> dict[str, Table]:
    """Routed experts, balanced and skewed, by form and format, the fastest kernel of an engine.

    Balanced, each of E experts is touched as soon as n k >= E; skewed, as many as a random draw touches. Over
    several ranks only balanced ones: the busiest rank of a skewed draw is no rank of a deployment.

    Parameters
    ----------
    path : columns engine, kernel, dtype, hidden, inter, topk, experts, tp, ep, dist, tokens, us
    hardware : the GPU
    engine : whose kernels
    """
    keys = ("dtype", "kernel", "dist", "hidden", "inter", "topk", "experts", "tp", "ep", "tokens")
    best: dict[str, dict[tuple[int, ...], float]] = defaultdict(dict)
    timed = _fastest(path, keys, {"engine": engine})
    narrow = any(dtype == NARROW for dtype, *_ in timed)
    for (dtype, kernel, dist, *sizes), time in timed.items():
        key = (*map(int, sizes), int(dist == BALANCED))
        if (narrow and dtype == WIDE) or (dist != BALANCED and key[5] > 1):
            continue
        form = EXPERTS.get(dtype)
        # Experts without a gate, or between projections of their own, are another kernel.
        if form is None or key[2] == LATENT_TOP_K or key[:2] == UNGATED or kernel.startswith(SLOW_EXPERTS):
            continue
        best[form][key] = min(best[form].get(key, np.inf), time)
    out = {}
    for form, found in best.items():
        kernels, shapes = [], {}
        for hidden, inter, top_k, count, tp, ep, tokens, balanced in found:
            ffn = Moe(experts=count, top_k=top_k, intermediate=inter)
            kernel = moe.grouped(ffn, hidden, tp * ep, ep, form, float(tokens), 1)
            if balanced:
                touched, one = min(count, tokens * top_k) / ep, 3 * hidden * inter / tp
                moved, wasted = one * WEIGHT_BYTES[form] * touched, 2 * one * touched
                kernel = kernel._replace(flops=kernel.least_flops, bytes=moved, waste=wasted)
            kernels.append(kernel)
            shapes.setdefault((hidden, inter, top_k, count, tp, ep), len(shapes))
        shape = np.array([shapes[key[:6]] for key in found])
        table = Table(hardware, stack(kernels), np.array(list(found.values())), shape)
        out[f"moe.{form}"] = table.keep(table.time > table.kernel.least_bytes / hardware.bandwidth)
    return out


def _fastest(path: Path, keys: tuple[str, ...], only: Mapping[str, str] = MappingProxyType({})) -> dict[Any, float]:
    """The shortest time of each shape [s]."""
    best: dict[tuple[str, ...], float] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if any(row[name] != value for name, value in only.items()):
                continue
            key = tuple(row[name] for name in keys)
            best[key] = min(best.get(key, np.inf), float(row["us"]) * US)
    return best


def _replica(attention: Gqa, hardware: Hardware, kv: str) -> Deployment:
    """One layer around an attention, on one GPU."""
    group = LayerGroup(count=1, attention=attention, ffn=Dense(intermediate=1))
    model = Model(id="one", name="one", source="none", hidden=1, vocab=1, max_position=1, layers=(group,))
    precision = replace(precision_for(model), kv=kv)  # type: ignore[arg-type]
    return Deployment(
        model=model, hardware=hardware, parallelism=Parallelism(), precision=precision, engine=prototype("vllm")
    )
