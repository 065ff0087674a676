"""A layer without attention: nothing to do and nothing to keep."""

from __future__ import annotations

from typing import Any

from chunkcalc.records import Absent, Deployment, Kernel
from chunkcalc.work.gemm import Weight


def projections(attention: Absent, hidden: int, tp: int) -> list[Weight]:
    """No weights.

    Parameters
    ----------
    attention : the kind
    hidden : hidden size [1]
    tp : tensor parallel degree [1]
    """
    return []


def width(attention: Absent, tp: int) -> float:
    """No elements.

    Parameters
    ----------
    attention : the kind
    tp : tensor parallel degree [1]
    """
    return 0.0


def growth_bytes(attention: Absent, kv: str, tp: int) -> float:
    """No cache.

    Parameters
    ----------
    attention : the kind
    kv : KV format
    tp : tensor parallel degree [1]
    """
    return 0.0


def cache_bytes(attention: Absent, kv: str, tp: int, s: Any) -> Any:
    """No cache.

    Parameters
    ----------
    attention : the kind
    kv : KV format
    tp : tensor parallel degree [1]
    s : context [token]
    """
    return 0.0


def pairs(attention: Absent, c: Any, p: Any) -> Any:
    """No pairs.

    Parameters
    ----------
    attention : the kind
    c : tokens of the chunk [token]
    p : tokens cached before it [token]
    """
    return 0


def prefill_forms(
    deployment: Deployment, attention: Absent, c: Any, p: Any, prompts: Any, launches: Any
) -> list[list[Kernel]]:
    """No kernels.

    Parameters
    ----------
    deployment : the replica
    attention : the kind
    c, p : chunk and tokens cached before it [token]
    prompts : prompts that share the step [1]
    launches : layers of this kind [1]
    """
    return [[]]


def decode_kernels(
    deployment: Deployment, attention: Absent, b: Any, s: Any, drafts: Any, launches: Any, unified: bool = False
) -> list[Kernel]:
    """No kernels.

    Parameters
    ----------
    deployment : the replica
    attention : the kind
    b, s : decodes and their mean context [token]
    drafts : draft tokens verified per request [token]
    launches : layers of this kind [1]
    unified : without effect
    """
    return []
