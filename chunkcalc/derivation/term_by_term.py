"""From the textbook's step and TTFT to the expected ones, term by term.

Each reading of a step counts one more effect than the one before, over the same kernels; the
differences between them add up to the prediction, so nothing is left unexplained.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from chunkcalc.answer.judged import outlook
from chunkcalc.answer.records import Answer
from chunkcalc.catalog.precision import peak
from chunkcalc.records import Hardware, Kernel
from chunkcalc.textbook.forms import ClosedForms
from chunkcalc.time import roofline
from chunkcalc.time.step import StepTimer, timer_for

NOTHING = 1e-12  # of rounding [s]
LINKS = frozenset(("allreduce", "handover"))
PRODUCTS = frozenset(("gemm", "moe"))
# What each reading adds to the one before; the first is E7.
TERMS = (
    ("tokens of the step", "drafts count, decodes that do not ride along do not, and a rank has whole requests"),
    ("parameters used", "a token meets its own experts, the head runs for sampled tokens; the textbook takes all of Ψ"),
    ("attention, activations", "queries times keys (C1, C7), the prompt's cache read again by each chunk, activations"),
    ("one kernel after another", "each waits for its own bottleneck; the textbook overlaps arithmetic with traffic"),
    ("fractions of the peaks", "what kernels reach of arithmetic and bandwidth, and idle or padded tiles (C4)"),
    ("launches, moved rows", "fixed time per launch; rows moved besides: quantised, permuted, or written to the cache"),
    ("links between GPUs", "messages of every layer (C5), and from stage to stage of a pipeline"),
    ("the engine", "small kernels, routing, sampling (C8), and what the GPU waits for the host (C10)"),
)  # fmt: skip


class Term(NamedTuple):
    """What one effect adds.

    name : of the effect
    why : in words
    step, ttft : time it adds to the longest step and to TTFT; None where it has no part in one [s]
    """

    name: str
    why: str
    step: float | None
    ttft: float | None


def readings(timer: StepTimer, forms: ClosedForms, step: Sequence[float]) -> list[float]:
    """A step by E7, then with one more of TERMS each; the last is the expected time.

    Parameters
    ----------
    timer : of the deployment
    forms : the textbook's
    step : prompt tokens, tokens cached before, decodes, context, prompts

    Returns
    -------
    times [s]
    """
    c, p, b, s, prompts = step
    hardware = timer.hardware
    kernels = [kernel for kernel in timer.kernels(c, p, b, s, prompts) if kernel.launches]
    own = [kernel for kernel in kernels if kernel.form not in LINKS]
    counted = [kernel for kernel in own if kernel.form in PRODUCTS or kernel.form in roofline.CACHE_FORMS]
    products = [kernel for kernel in counted if kernel.form in PRODUCTS]
    weights = sum(kernel.launches * kernel.least_bytes for kernel in products)
    cache = sum(kernel.launches * kernel.bytes for kernel in counted if kernel.form not in PRODUCTS)
    busy = sum(float(roofline.seconds(kernel, _without_launches(hardware, kernel))) for kernel in own)
    kernels_alone = sum(float(roofline.seconds(kernel, hardware)) for kernel in own)
    linked = sum(float(roofline.seconds(kernel, hardware)) for kernel in kernels if kernel.form in LINKS)
    drafts = timer.drafts
    return [
        forms.step(c),
        forms.step_of(c + b * (1 + drafts), b),
        max(sum(_compute(kernel, hardware) for kernel in products), (weights + cache) / hardware.bandwidth),
        max(sum(_compute(kernel, hardware) for kernel in own), sum(_memory(kernel, hardware) for kernel in own)),
        sum(max(_compute(kernel, hardware), _memory(kernel, hardware)) for kernel in own),
        busy,
        kernels_alone,
        kernels_alone + linked,
        float(timer.expected(c, p, b, s, prompts)),
    ]


def _compute(kernel: Kernel, hardware: Hardware) -> float:
    """All launches' arithmetic at peak [s]."""
    rate = hardware.peak["bf16"]
    if kernel.form not in roofline.ATTENTION_FORMS:
        rate = peak(hardware, kernel.dtype) or rate
    return float(kernel.launches * kernel.flops / rate)


def _memory(kernel: Kernel, hardware: Hardware) -> float:
    """All launches' traffic at full bandwidth [s]."""
    return float(kernel.launches * kernel.bytes / hardware.bandwidth)


def _without_launches(hardware: Hardware, kernel: Kernel) -> Hardware:
    key = f"{kernel.form}.{kernel.dtype}"
    bare = hardware.efficiency[key]._replace(latency=0.0, activations=0.0)
    return replace(hardware, efficiency={key: bare})


def side(kernel: Kernel, hardware: Hardware, name: str) -> float:
    """The time of one launch of a kernel if nothing but its arithmetic, or its traffic, took any."""
    one = kernel._replace(launches=1)
    one = one._replace(bytes=0.0) if name == "compute" else one._replace(flops=0.0, idle=0.0, waste=0.0, tile=0.0)
    return float(roofline.seconds(one, _without_launches(hardware, kernel)))


def terms(answer: Answer) -> list[Term]:
    """What each effect adds to the longest step and to TTFT at the answer's chunk.

    The first term is the textbook's own (E7, E9); all of them sum to the expected readings.
    """
    case, chunk = answer.case, answer.chunk
    timer = timer_for(case.deployment, answer.workload.draft_tokens)
    service = outlook(case.deployment, answer.workload, answer.slo, timer).expected
    forms, prefill = ClosedForms(case.deployment, answer.workload), service.prefill
    bound = forms.ttft(chunk)
    longest = readings(timer, forms, prefill.longest(chunk))
    each = [readings(timer, forms, (size, p, prefill.b, prefill.s, 1)) for size, p in prefill.chunks(chunk)]
    summed = [sum(times) for times in zip(*each, strict=True)]
    out = [Term("textbook", "E7 and E9: all parameters, peaks of datasheets, one maximum", longest[0], bound)]
    why = "E9 charges it its share of a full one, but it reads all weights and caches"
    out.append(Term("the last chunk is short", why, None, summed[0] - bound))
    for index, (name, why) in enumerate(TERMS):
        out.append(Term(name, why, longest[index + 1] - longest[index], summed[index + 1] - summed[index]))
    rest = prefill.total(chunk) - summed[-1]
    if abs(rest) > 1e-12 * summed[-1]:
        why = "chunks follow each other through pipeline stages, or decode steps run between them"
        out.append(Term("between the chunks", why, None, rest))
    out.append(Term("time per request", "reading, hashing and scheduling it", None, service.request_overhead))
    if answer.load is not None:
        waits = answer.expected.ttft_s - service.ttft(chunk)
        out.append(Term("waiting", "for the prompts of others, under the load that was given", None, waits))
    return [out[0], *(term for term in out[1:] if abs(term.step or 0.0) > NOTHING or abs(term.ttft or 0.0) > NOTHING)]
