"""Every kind of attention behind one interface: the module of each kind answers the same questions.

`projections` (weights), `width` (elements per token), `pairs` (work of a chunk), `growth_bytes`
and `cache_bytes` (what it keeps), `prefill_forms` (the ways to attend to a chunk, of which an
engine takes the cheaper) and `decode_kernels`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from chunkcalc.records import Attention, Delta, Deployment, Gqa, Kernel, Mla
from chunkcalc.work import absent, compressed, gqa, mla, recurrent
from chunkcalc.work.gemm import Weight

MODULES: Mapping[str, ModuleType] = {
    "gqa": gqa, "mla": mla, "compressed": compressed, "delta": recurrent, "mamba2": recurrent, "none": absent,
}  # fmt: skip


def projections(attention: Attention, hidden: int, tp: int) -> list[Weight]:
    """Each projection weight on one of tp ranks.

    Parameters
    ----------
    attention : the kind
    hidden : hidden size [1]
    tp : tensor parallel degree [1]
    """
    found: list[Weight] = MODULES[attention.kind].projections(attention, hidden, tp)
    return found


def other_parameters(attention: Attention) -> float:
    """Parameters outside the projections: MLA's expansion, short convolutions [1].

    Parameters
    ----------
    attention : the kind
    """
    if isinstance(attention, Mla):
        return mla.expansion(attention, 1).parameters
    return recurrent.convolution_parameters(attention) if attention.kind in ("delta", "mamba2") else 0.0


def heads(attention: Attention) -> int:
    """Heads that tensor parallelism splits; 0 where there is nothing to split [1].

    Parameters
    ----------
    attention : the kind
    """
    if isinstance(attention, Delta):
        return attention.value_heads
    return int(getattr(attention, "heads", 0))


def kv_heads(attention: Attention) -> int:
    """Key-value heads that tensor parallelism splits or replicates; 0 where there are none [1].

    Parameters
    ----------
    attention : the kind
    """
    return attention.kv_heads if isinstance(attention, Gqa) else 0


def width(attention: Attention, tp: int) -> float:
    """Elements per token that small kernels touch on one of tp ranks [1].

    Parameters
    ----------
    attention : the kind
    tp : tensor parallel degree [1]
    """
    return float(MODULES[attention.kind].width(attention, tp))


def pairs(attention: Attention, c: Any, p: Any) -> Any:
    """(query, key) pairs of c tokens after p cached ones [1].

    Parameters
    ----------
    attention : the kind
    c : tokens of the chunk [token]
    p : tokens cached before it [token]
    """
    return MODULES[attention.kind].pairs(attention, c, p)


def growth_bytes(attention: Attention, kv: str, tp: int) -> float:
    """Cache per token of a long context on one of tp ranks [byte].

    Parameters
    ----------
    attention : the kind
    kv : KV format
    tp : tensor parallel degree [1]
    """
    return float(MODULES[attention.kind].growth_bytes(attention, kv, tp))


def cache_bytes(attention: Attention, kv: str, tp: int, s: Any) -> Any:
    """Cache and state of one sequence of s tokens on one of tp ranks [byte].

    Parameters
    ----------
    attention : the kind
    kv : KV format
    tp : tensor parallel degree [1]
    s : context [token]
    """
    return MODULES[attention.kind].cache_bytes(attention, kv, tp, s)


def prefill_forms(
    deployment: Deployment, attention: Attention, c: Any, p: Any, prompts: Any, launches: Any
) -> list[list[Kernel]]:
    """The ways to attend to c prompt tokens, shared out over `prompts` prompts with p cached each.

    Parameters
    ----------
    deployment : the replica
    attention : the kind
    c : prompt tokens of the step on this rank [token]
    p : tokens of each prompt cached before [token]
    prompts : prompts that share the step, at least 1; may be fractional [1]
    launches : layers of this kind, 0 in a step without prompt tokens [1]
    """
    found: list[list[Kernel]] = MODULES[attention.kind].prefill_forms(deployment, attention, c, p, prompts, launches)
    return found


def decode_kernels(
    deployment: Deployment, attention: Attention, b: Any, s: Any, drafts: Any, launches: Any, unified: bool = False
) -> list[Kernel]:
    """Attention of b decodes at mean context s; the drafts of a request share one cache read.

    Parameters
    ----------
    deployment : the replica
    attention : the kind
    b : decoding requests on this rank [token]
    s : mean context [token]
    drafts : draft tokens verified per request [token]
    launches : layers of this kind, 0 in a step without decodes [1]
    unified : the call is shared with a prompt chunk (GQA only)
    """
    module = MODULES[attention.kind]
    found: list[Kernel] = module.decode_kernels(deployment, attention, b, s, drafts, launches, unified)
    return found
