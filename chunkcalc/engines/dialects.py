"""What each engine calls its settings and how it behaves: one record per engine, from its table.

Everything that the rest of the package asks about an engine beyond reading its command line stands here: a new
engine is its two tables and its reader.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

from chunkcalc.engines.tables import section
from chunkcalc.records import ENGINE_NAMES, Engine


class Dialect(NamedTuple):
    """The words and the behaviour of one engine (`[dialect]` of its table).

    title : its name in prose
    programs, images : programs, Python modules and container images that start it
    server, serve : how a server starts, before the model; the subcommand that must follow the program
    own_flags : flags, without dashes, that tell it from other engines
    budget : tokens of a step: SGLang's are prompt tokens of all attention ranks
    quoted_budget : the same as reports quote it, where they do so otherwise
    requests, tensor, pipeline, ranks, experts, context : requests at once; GPUs of a tensor parallel group; stages;
        attention ranks; spread experts; longest request
    fraction : name of its share of the memory, without dashes
    cache_type, eight_bit_cache : the format of the KV cache, and its 8-bit value
    chunking, unchunked : what switches chunked prefill on, and its value; the words that switch it off
    mixing, interval : what mixes decodes into prompt steps, or spaces prompt steps out; empty where nothing does
    queued, long_prompt, block : prompt tokens that may wait; most tokens of one prompt in a step; size of a block
    model : flags that name the model
    option_file : flag of the file with its options
    deepep_cap : variable that bounds the tokens of an expert exchange, and its default
    deepep_mode : flag of its mode
    stack : flags, without dashes, that the values of its own chart set by their names in camel case
    budget_per_rank : the budget is of one attention rank
    ranks_share : attention ranks share the GPUs of the tensor parallel group
    file_overrules : the file of options stands above the command line
    alike : `_` and `-` are the same in a file of options
    strict_context : refuses to start where the cache holds no request of the longest context
    reserves_output : a request is admitted with room for its whole answer
    new_tokens : shares and steps by which it keeps room for tokens still to come (`scheduler.NewTokens`)
    balanced_ranks : prompts fall into the same steps of all attention ranks
    polls : looks for new requests every few decode steps only
    experts_everywhere : experts are spread over all GPUs of a stage or none
    logs_steps : what makes it log every step: a flag, or an entry of its option file; empty where nothing does
    bench : its own benchmark
    """

    title: str
    programs: tuple[str, ...]
    images: tuple[str, ...]
    server: tuple[str, ...]
    budget: str
    requests: str
    tensor: str
    pipeline: str
    ranks: str
    experts: str
    context: str
    fraction: str
    own_flags: tuple[str, ...] = ()
    serve: tuple[str, ...] = ()
    quoted_budget: str = ""
    cache_type: str = "--kv-cache-dtype"
    eight_bit_cache: str = "fp8"
    chunking: tuple[str, str] = ("--enable-chunked-prefill", "")
    unchunked: tuple[str, ...] = ()
    mixing: str = ""
    interval: str = ""
    queued: str = ""
    long_prompt: str = ""
    block: str = ""
    model: tuple[str, ...] = ("--model",)
    option_file: str = "--config"
    deepep_cap: tuple[str, int] | None = None
    deepep_mode: str = ""
    stack: tuple[str, ...] = ()
    budget_per_rank: bool = True
    ranks_share: bool = True
    file_overrules: bool = False
    alike: bool = False
    strict_context: bool = False
    reserves_output: bool = False
    new_tokens: tuple[float, ...] | None = None
    balanced_ranks: bool = False
    polls: bool = False
    experts_everywhere: bool = False
    logs_steps: str = ""
    bench: tuple[str, ...] = ("vllm", "bench", "serve", "--backend", "vllm")

    @property
    def quoted(self) -> str:
        """The budget's flag as reports quote it."""
        return self.quoted_budget or self.budget


@cache
def dialect(engine: str) -> Dialect:
    """The words of an engine."""
    return Dialect(**{key: _tuple(value) for key, value in section(engine, "dialect").items()})


@cache
def prototype(engine: str) -> Engine:
    """An engine as it composes and budgets its steps, before version and GPU (`[engine]` of its table)."""
    return replace(Engine(name=engine, version=""), **section(engine, "engine"))  # type: ignore[arg-type]


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def named(name: str) -> tuple[str, ...]:
    """The flags by which engines call a setting, each once."""
    found = (getattr(dialect(engine), name) for engine in ENGINE_NAMES)
    return tuple(
        dict.fromkeys(word for value in found for word in (value if isinstance(value, tuple) else (value,)) if word)
    )


# Words that one engine alone has, or that all share, for those who ask for them by name.
MIXING, INTERVAL = dialect("sglang").mixing, dialect("sglang").interval
TRANSFER = "--kv-transfer-config"  # of vLLM: what passes the KV cache of a unit on
ROLE, NODES, SERVED_NAME = "--disaggregation-mode", "--nnodes", "--served-model-name"
