"""The kernel constants of the hardware profiles, fitted to public kernel timings.

    python benchmarks/fit_kernels.py EVIDENCE_FOLDER [--gpu ID ...] [--write]

For every GPU with tables in EVIDENCE_FOLDER/kernels: products with weights, attention of prompts
and of decodes, all-reduces; and one set for all NVIDIA GPUs together, for those without tables
(`generic`). The formula is `chunkcalc.time.roofline.seconds` on whole tables; least squares on the
logarithm of the time with a robust loss, inside physical bounds. Prints, as Markdown, the rows and
the error on all of them and on held-out shapes (half of them, twice), the constants, and what the
table does not determine. `--write` puts the constants into hardware_profiles/.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from bounded_fit import Constant, Fit, settled
from kernel_tables import (
    GPUS,
    LAYERS,
    US,
    Table,
    allreduces,
    attentions,
    experts,
    joint_calls,
    layer_products,
    products,
    small_kernels,
)

from chunkcalc.catalog.lookup import load_hardware
from chunkcalc.records import Allreduce, Efficiency
from chunkcalc.time.roofline import allreduce_time, seconds
from chunkcalc.work.gemm import QUANTISED_ACTIVATIONS

GENERIC = "generic"
AFTER = ("allreduce", "tile_penalty", "instances", "sources")  # sections of a profile that follow the kernels
OWN = "# Kernels of other engines, same source and script."
FASTEST = 0.95  # of the peak: attention beyond it was not timed alone
# Tables that served steps refute: a step of 8,192 prompt tokens of gpt-oss on an H200 takes 340 ms, by the table 230.
REFUTED = {"h100-sxm": "moe.mxfp4", "h200-sxm": "moe.mxfp4"}
WORST_TOGETHER = 0.4  # the same of all GPUs together
WORST = 0.3  # mean error on held-out shapes, beyond which a table is no model of the kernel
ENGINES = ("sglang", "trtllm")  # whose kernels stand beside those of vLLM
OTHERS = "{}_sglang_trtllm.csv"
# Constants that add something to a form: left out of a profile where they are 0.
ADDED = ("fill", "activations", "waste", "softmax", "ramp_us")
JOINT = "rtx_pro_6000_server"  # the calibrated GPU with a table of joint attention calls
PROFILES = Path(__file__).parent.parent / "hardware_profiles"
# Formats without a table, and the one whose constants generic.toml gives them.
ALIKE = {
    "unified_attention.fp8": "unified_attention.bf16",
    "gemm.int8": "gemm.fp8",
    "moe.int8": "moe.fp8",
    "gemm.int4": "gemm.bf16",
    "gemm.mxfp4": "gemm.nvfp4",
}
SOFTMAX = 80.0  # elements of a head; 75 to 118 on the data-centre GPUs measured at two head dimensions


FRACTION, LAUNCH = Constant(0.7, 0.05, 1.0, 1.0), Constant(8.0, 0.0, 100.0)
CONSTANTS: Mapping[str, Mapping[str, Constant]] = {
    "gemm": {
        "compute": FRACTION, "memory": FRACTION, "latency_us": LAUNCH, "knee": Constant(2.0, 1.0, 12.0, 12.0),
        "activations": Constant(2.0, 0.0, 10.0), "fill": Constant(0.3, 0.0, 1.0),
    },
    "decode_attention": {"memory": FRACTION, "latency_us": LAUNCH, "activations": Constant(50.0, 0.0, 400.0)},
    "prefill_attention": {
        "compute": FRACTION, "latency_us": LAUNCH, "activations": Constant(2.0, 0.0, 20.0),
        "waste": Constant(0.5, 0.0, 3.0), "softmax": Constant(80.0, 0.0, 128.0),
    },
    # Only their ratio shows: a unit of waste is the rest of each decode's query tile.
    "unified_attention": {"compute": Constant(0.6, 0.05, 1.0, 1.0), "waste": Constant(1.0, 1.0, 1.0)},
    # Rows per expert are padded to a tile of at most 64 rows.
    "moe": {
        "compute": FRACTION, "memory": FRACTION, "latency_us": LAUNCH, "knee": Constant(2.0, 1.0, 12.0, 12.0),
        "activations": Constant(2.0, 0.0, 10.0), "waste": Constant(5.0, 0.0, 64.0),
    },
    "elementwise": {"memory": FRACTION, "latency_us": LAUNCH, "cached": Constant(2.0, 1.0, 5.0)},
    "allreduce": {"latency_us": LAUNCH, "ramp_us": Constant(5.0, 0.0, 1000.0)},
}  # fmt: skip


def fit(tables: Sequence[Table], start: Efficiency = Efficiency()) -> Fit:  # noqa: B008
    """The constants of one form and format.

    Parameters
    ----------
    tables : measurements, of one GPU or of several that are to share constants
    start : what is not fitted
    """
    form, dtype = tables[0].kernel.form, tables[0].kernel.dtype
    constants = dict(CONSTANTS[form])
    if form == "gemm" and dtype not in QUANTISED_ACTIVATIONS:
        del constants["activations"]
    if form == "prefill_attention":
        fastest = min(1.0, max(float(np.max(reached(table))) for table in tables))
        constants["compute"] = Constant(0.9 * fastest, 0.05, fastest, fastest)
        if len({size for table in tables for size in table.head_dims}) == 1:  # which cannot tell
            constants["softmax"] = Constant(SOFTMAX, SOFTMAX, SOFTMAX)
    if form in ("gemm", "prefill_attention") and not tables[0].hardware.sms:
        constants = {name: constant for name, constant in constants.items() if name not in ("fill", "waste")}

    def model(values: Mapping[str, float], rows: Any) -> Any:
        times = []
        for table, wanted in zip(tables, np.split(rows, ends), strict=True):
            part = table.keep(wanted)
            hardware = replace(table.hardware, efficiency={f"{form}.{dtype}": efficiency(values, start)})
            times.append(part.beside + seconds(part.kernel, hardware))
        return np.concatenate(times)

    ends = np.cumsum([len(table.time) for table in tables])[:-1]
    time, shape = (np.concatenate([getattr(table, name) for table in tables]) for name in ("time", "shape"))
    return settled(constants, time, shape, model)


def reached(table: Table) -> Any:
    """Fractions of the 16-bit peak that the rows reach as a whole [1].

    Parameters
    ----------
    table : attention
    """
    return table.kernel.least_flops / (table.time * table.hardware.peak["bf16"])


def credible(table: Table) -> bool:
    """Whether the fastest prompts leave room below the datasheet, which no attention kernel reaches.

    Parameters
    ----------
    table : of an engine
    """
    return table.kernel.form != "prefill_attention" or float(np.max(reached(table))) < FASTEST


def efficiency(values: Mapping[str, float], start: Efficiency = Efficiency()) -> Efficiency:  # noqa: B008
    """An efficiency from constants named as in a profile.

    Parameters
    ----------
    values : constants
    start : the rest
    """
    rest = {name: value for name, value in values.items() if name != "latency_us"}
    latency = values["latency_us"] * US if "latency_us" in values else start.latency
    return start._replace(latency=latency, **rest)


def fit_allreduce(message: Any, time: Any, link: float) -> Fit:
    """The constants of an all-reduce.

    Parameters
    ----------
    message : sizes [byte]
    time : measured [s]
    link : bandwidth of the link, one way, which no all-reduce exceeds [byte/s]
    """

    def model(values: Mapping[str, float], rows: Any) -> Any:
        found = Allreduce(values["latency_us"] * US, values["bandwidth"], values["ramp_us"] * US)
        return allreduce_time(message[rows], found)

    constants = {**CONSTANTS["allreduce"], "bandwidth": Constant(0.4 * link, 0.0, link)}
    return settled(constants, time, np.arange(len(time)), model)


def tables_of(folder: Path, gpu: str, engine: str = "vllm") -> dict[str, Table]:
    """The tables of an engine on one GPU, by form and format; decodes before prompts, which read the cache alike.

    Parameters
    ----------
    folder : kernel timings
    gpu : as the files call it
    engine : whose kernels
    """
    hardware, only = load_hardware(GPUS[gpu]).record, {"gpu": gpu, "engine": engine}
    own = engine == "vllm"
    if own:  # without a table of its own it is taken as SGLang; its block-wise products were timed with their host
        only["engine"] = "sglang"
    out = products(folder / OTHERS.format("gemm"), hardware, **only)
    for kind in ("gen_attn", "ctx_attn"):
        out |= attentions(folder / OTHERS.format(kind), hardware, **only)
    if own:
        if (folder / f"gemm_{gpu}.csv").exists():
            out |= products(folder / f"gemm_{gpu}.csv", hardware)
        for kind in ("gen_attn", "ctx_attn"):
            if (folder / f"{kind}_{gpu}.csv").exists():
                out |= attentions(folder / f"{kind}_{gpu}.csv", hardware)
    out |= experts(folder / f"moe_{gpu}.csv", hardware, engine)
    order = ("gemm", "decode_attention", "prefill_attention", "moe")
    return dict(sorted(out.items(), key=lambda item: (order.index(item[0].split(".")[0]), item[0])))


def fit_all(tables: Mapping[str, Sequence[Table]]) -> dict[str, Fit]:
    """The constants of every form and format; prompts read a prefix as fast as decodes do.

    Parameters
    ----------
    tables : by form and format; decodes before prompts
    """
    out: dict[str, Fit] = {}
    for key, found in tables.items():
        form, dtype = key.split(".")
        start = Efficiency()
        if form == "prefill_attention":
            start = start._replace(memory=out[f"decode_attention.{dtype}"].values["memory"])
        out[key] = fit(found, start)
        if form == "prefill_attention":
            out[key] = out[key]._replace(values={**out[key].values, "memory": start.memory})
    return out


def fit_joint(path: Path, tables: Mapping[str, Table]) -> dict[str, Fit]:
    """The constant of attention calls that decodes share with a prompt chunk.

    Parameters
    ----------
    path : joint calls
    tables : of the GPU that they were timed on, by form and format
    """
    alone = {key: [table] for key, table in tables.items() if key.endswith("attention.bf16")}
    found = {key: efficiency(fit.values) for key, fit in fit_all(alone).items()}
    hardware = replace(tables["gemm.bf16"].hardware, efficiency=found)
    decode = found["decode_attention.bf16"]
    start = Efficiency(memory=decode.memory, latency=decode.latency)
    return {"unified_attention.bf16": fit([joint_calls(path, JOINT, hardware)], start)}


def report(gpu: str, fits: Mapping[str, Fit]) -> str:
    """Rows of the printed table.

    Parameters
    ----------
    gpu : id of the profile
    fits : by form and format
    """
    lines = []
    for key, found in fits.items():
        sizes = [100 * np.abs(errors) for errors in (found.errors, found.held_out)]
        numbers = [f"{x:.1f}" for x in (sizes[0].mean(), np.median(sizes[0]), sizes[1].mean())]
        constants = ", ".join(f"{name} {value:.3g}" for name, value in found.values.items())
        lines.append(
            f"| {gpu} | {key} | {len(found.errors)} | {' | '.join(numbers)} | {constants} "
            f"| {'; '.join(found.remarks)} |"
        )
    return "\n".join(lines)


def written(profile: str, fits: Mapping[str, Fit]) -> str:
    """A profile with these constants in place of its own.

    Parameters
    ----------
    profile : text of the file
    fits : by form and format
    """
    for key, found in fits.items():
        if ":" in key:
            continue
        form, name = key.split(".")
        section = "allreduce" if form == "allreduce" else f"efficiency.{form}"
        pattern = re.compile(rf"(^\[{re.escape(section)}\][^\[]*?^){re.escape(name)} = \{{[^}}]*\}}", re.M)
        profile, count = pattern.subn(rf"\g<1>{_line(name, found)}", profile)
        if not count:
            profile = _inserted(profile, section, _line(name, found))
    own: dict[str, list[str]] = {}
    for key, found in fits.items():
        if ":" in key:
            form, name = key.replace(":", ".").rsplit(".", 1)
            own.setdefault(f"[kernels.{form}]", []).append(_line(name, found))
    if not own:
        return profile
    profile = re.sub(rf"^{re.escape(OWN)}\n(?:(?:\[kernels|\w+ = \{{)[^\n]*\n)*", "", profile, flags=re.M)
    block = "\n".join([OWN, *(line for head, lines in own.items() for line in (head, *lines))])
    before, rest = profile.split("\n[sources]", 1)
    return f"{before.rstrip()}\n\n{block}\n\n[sources]{rest}"


def _line(name: str, found: Fit) -> str:
    values = {constant: value for constant, value in found.values.items() if value or constant not in ADDED}
    return f"{name} = {{ {', '.join(f'{constant} = {number(value)}' for constant, value in values.items())} }}"


def _inserted(profile: str, section: str, line: str) -> str:
    """A line at the end of its section, which is made where there is none."""
    head = f"[{section}]"
    if head in profile:
        before, rest = profile.split(head, 1)
        first, *others = rest.split("\n[", 1)
        return f"{before}{head}{first.rstrip()}\n{line}\n" + "".join(f"\n[{other}" for other in others)
    after = min(profile.index(f"\n[{name}]") for name in AFTER if f"\n[{name}]" in profile)
    return f"{profile[:after].rstrip()}\n\n{head}\n{line}\n{profile[after:]}"


def number(value: float) -> str:
    """Three digits, without an exponent.

    Parameters
    ----------
    value : any number
    """
    return f"{float(f'{value:.3g}'):.12g}"


def rewrite(identifier: str, fits: Mapping[str, Fit]) -> None:
    """Put constants into a profile; the generic one gives them to formats without a table, too.

    Parameters
    ----------
    identifier : of the profile
    fits : by form and format
    """
    if identifier == GENERIC:
        fits = {**fits, **{key: fits[like] for key, like in ALIKE.items()}}
    path = PROFILES / f"{identifier}.toml"
    path.write_text(written(path.read_text(), believed(identifier, fits)))


def believed(identifier: str, fits: Mapping[str, Fit]) -> dict[str, Fit]:
    """The fits that hold on held-out shapes, and that served steps do not refute.

    Parameters
    ----------
    identifier : of the profile
    fits : by form and format
    """
    worst, refuted = WORST_TOGETHER if identifier == GENERIC else WORST, REFUTED.get(identifier)
    return {key: found for key, found in fits.items() if key != refuted and np.abs(found.held_out).mean() <= worst}


def fits_of(folder: Path, wanted: Sequence[str]) -> Iterator[tuple[str, dict[str, Fit]]]:
    """The fits of each wanted profile, by form and format.

    Parameters
    ----------
    folder : kernel timings
    wanted : ids of profiles; the generic one needs the tables of all GPUs
    """
    together: dict[str, list[Table]] = {}
    joint: dict[str, Fit] = {}
    for gpu, identifier in GPUS.items():
        if identifier not in wanted and GENERIC not in wanted:
            continue
        tables = tables_of(folder, gpu)
        for key, table in tables.items():
            if table.hardware.vendor == "nvidia":
                together.setdefault(key, []).append(table)
        if gpu == JOINT and GENERIC in wanted:
            joint = fit_joint(folder / "mixed_attn_vllm019.csv", tables)
        if identifier in wanted:
            link = load_hardware(identifier).record.link.bandwidth
            reduces = allreduces(folder / "allreduce.csv", gpu).items()
            fits = fit_all({key: [table] for key, table in tables.items()})
            fits |= {f"allreduce.{gpus}": fit_allreduce(*found, link) for gpus, found in reduces}
            for engine in ENGINES:
                # Their tables of products hold a launch and a quantisation of each, which engines spare: with them
                # rows that were left out got worse (TPOT of TensorRT-LLM from 8.6 to 16 %).
                own = {
                    key: [table] for key, table in tables_of(folder, gpu, engine).items()
                    if "gemm" not in key and credible(table)
                }  # fmt: skip
                fits |= {f"{engine}:{key}": found for key, found in fit_all(own).items()}
            yield identifier, fits
    for identifier, (file, name) in LAYERS.items():
        if identifier in wanted:
            tables = layer_products(folder / file, name, load_hardware(identifier).record)
            yield identifier, fit_all({key: [table] for key, table in tables.items()})
    if GENERIC in wanted:
        small = {"elementwise.bf16": small_kernels(folder / "layer_ops_vllm019.csv")}
        yield GENERIC, fit_all(together | small) | joint


def table(folder: Path) -> str:
    """Error on held-out shapes of every form and GPU, as a Markdown table.

    Parameters
    ----------
    folder : kernel timings
    """
    everything = dict(fits_of(folder, [*GPUS.values(), *LAYERS, GENERIC]))
    forms = list(dict.fromkeys(key for fits in everything.values() for key in fits))
    lines = [f"| kernel | {' | '.join(everything)} |", "|---|" + "---|" * len(everything)]
    for form in forms:
        found = [fits.get(form) for fits in everything.values()]
        cells = ["" if one is None else f"{100 * np.abs(one.held_out).mean():.1f}" for one in found]
        lines.append(f"| {form} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("evidence", type=Path)
    parser.add_argument("--gpu", action="append", help="ids of profiles, or generic; all where none is given")
    parser.add_argument("--write", action="store_true", help="put the constants into hardware_profiles/")
    given = parser.parse_args()
    print("| GPU | kernel | n | MAPE % | median % | held out % | constants | not determined |")
    print("|---|---|---|---|---|---|---|---|")
    for identifier, fits in fits_of(given.evidence / "kernels", given.gpu or [*GPUS.values(), *LAYERS, GENERIC]):
        print(report(identifier, fits), flush=True)
        if given.write:
            rewrite(identifier, fits)


if __name__ == "__main__":
    main()
