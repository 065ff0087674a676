"""How vLLM lays a model of several kinds of layers out in one pool of blocks, and how many requests that holds.

Layers of one kind make groups of equally many layers; all groups share one pool, whose blocks have one size. A layer
that keeps a state takes a block a request, and the block of attention grows until it weighs as much (vllm
`unify_hybrid_kv_cache_specs`, `get_kv_cache_groups`; issues 40691, 28228 and 54662 have logs).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from chunkcalc.frozen import dataclass
from chunkcalc.records import Attention, Delta, Gqa, Mamba2, Mla, Model
from chunkcalc.work import attention
from chunkcalc.work.recurrent import STATE_BYTES, state_elements

BLOCK = 16  # tokens of a block where nothing else sets it
EVEN = 1.25  # kinds whose numbers of layers differ by less share the larger number


class Group(NamedTuple):
    """Layers of one kind.

    layers : how many
    token_bytes : cache of a token in one layer on one GPU; 0 for a state [byte]
    state_bytes : of a request in one layer on one GPU [byte]
    window : tokens that it looks back; 0 for all [token]
    """

    layers: int
    token_bytes: float
    state_bytes: float
    window: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The blocks of a model.

    groups : its kinds of layers
    size : layers of a group; every block holds one page of each [1]
    page_bytes : of one layer's part of a block [byte]
    """

    groups: tuple[Group, ...]
    size: int
    page_bytes: float

    @property
    def states(self) -> bool:
        """Whether some layers keep a state."""
        return any(group.state_bytes for group in self.groups)

    def copies(self, group: Group) -> int:
        """Groups that the layers of a kind make."""
        return math.ceil(group.layers / self.size)

    def tokens(self, group: Group) -> int:
        """Tokens of a block in the layers of a kind [token]."""
        return int(self.page_bytes / group.token_bytes) if group.token_bytes else 0

    def smallest(self) -> int:
        """Tokens of the smallest block [token]."""
        return min(self.tokens(group) for group in self.groups if group.token_bytes)

    def largest(self) -> int:
        """Tokens of the largest block [token]."""
        return max(self.tokens(group) for group in self.groups if group.token_bytes)

    def blocks(self, pool: float) -> int:
        """Blocks that a pool holds.

        Parameters
        ----------
        pool : of one GPU [byte]
        """
        return max(0, int(pool / (self.page_bytes * self.size)))

    def needed(self, tokens: int, budget: int, states: int = 1) -> int:
        """Blocks of one request.

        Parameters
        ----------
        tokens : of its context [token]
        budget : tokens of a step: a window keeps those of the step beside its own [token]
        states : that are kept of a request: one, one a draft, one more where prefixes are cached [1]
        """
        total = 0
        for group in self.groups:
            if group.state_bytes:
                blocks = states
            elif group.window:
                kept = min(group.window - 1 + budget, tokens)
                blocks = math.ceil(kept / self.tokens(group)) + 1
            else:
                blocks = math.ceil(tokens / self.tokens(group))
            total += blocks * self.copies(group)
        return total

    def concurrency(self, pool: float, tokens: int, budget: int, states: int = 1) -> float:
        """Requests of a context that a pool holds at once.

        Parameters
        ----------
        pool : of one GPU [byte]
        tokens, budget, states : as for `needed`
        """
        return self.blocks(pool) / self.needed(tokens, budget, states)

    def counted(self, pool: float) -> int:
        """Tokens as versions before 0.21 print them: blocks shared out over all groups, of the smallest size [token].

        Parameters
        ----------
        pool : of one GPU [byte]
        """
        return self.blocks(pool) // sum(self.copies(group) for group in self.groups) * self.smallest()


def layout(model: Model, kv: str, tp: int, drafts: int = 0) -> Layout | None:
    """The blocks of a model with several kinds of layers; None for one kind, and for kinds that are not described.

    Parameters
    ----------
    model : the model
    kv : KV format
    tp : tensor parallel degree [1]
    drafts : tokens that the model's own layer drafts; that layer attends like the others [1]
    """
    kinds: dict[tuple[float, float, int], int] = {}
    for part in model.layers:
        kind = _kind(part.attention, kv, tp, drafts)
        if kind is None:
            return None
        if kind != (0.0, 0.0, 0):
            kinds[kind] = kinds.get(kind, 0) + part.count
    whole = next((kind for kind in kinds if kind[0] and not kind[2]), None)
    if drafts and whole is not None:
        kinds[whole] += 1
    groups = tuple(Group(layers, *kind) for kind, layers in kinds.items())
    growing = [group for group in groups if group.token_bytes]
    if len(groups) < 2 or not growing:
        return None
    numbers = [group.layers for group in groups]
    size = max(numbers) if max(numbers) < EVEN * min(numbers) else min(numbers)
    widest = max(group.token_bytes for group in growing)
    state = max(group.state_bytes for group in groups)
    page = BLOCK * widest * max(1, math.ceil(state / widest / BLOCK))
    if any(page % group.token_bytes for group in growing):
        return None  # pages of sizes that do not divide each other
    return Layout(groups=groups, size=size, page_bytes=page)


def _kind(kind: Attention, kv: str, tp: int, drafts: int) -> tuple[float, float, int] | None:
    """Bytes of a token, bytes of a state and window of a kind of attention; None where its layout is another."""
    if isinstance(kind, (Delta, Mamba2)):
        state = attention.cache_bytes(kind, kv, tp, 1)
        tail = (state - STATE_BYTES * state_elements(kind) / tp) / (kind.conv - 1)
        return 0.0, float(state + drafts * tail), 0  # the convolution looks back over the drafts as well
    if isinstance(kind, Gqa) and kind.shares_kv:
        return 0.0, 0.0, 0
    if isinstance(kind, Gqa):
        return float(attention.cache_bytes(kind, kv, tp, 1)), 0.0, kind.window or 0
    if isinstance(kind, Mla):
        return float(attention.cache_bytes(kind, kv, tp, 1)), 0.0, 0
    return (0.0, 0.0, 0) if kind.kind == "none" else None
