"""Tokens up to which vLLM runs a step with prompt tokens from a captured graph, by version and flags."""

from __future__ import annotations

from typing import Any

from chunkcalc.engines.reading import Values
from chunkcalc.engines.tables import Table

LARGEST = 512  # tokens of the largest graph where no flag says otherwise
# From here on graphs are captured for twice the tokens of all decodes that may run (pull request 20628), so a
# small --max-num-seqs leaves steps with prompt tokens to the host.
BY_REQUESTS = "0.10.0"
NO_GRAPHS = "NONE"
WITHOUT_PROMPTS = frozenset((NO_GRAPHS, "FULL_DECODE_ONLY"))  # modes in which no step with prompt tokens is captured


def default(table: Table, requests: int, drafts: int) -> int:
    """The largest graph where no flag says otherwise.

    Parameters
    ----------
    table : vLLM at its version
    requests : that run at once on a rank (`max_num_seqs`) [1]
    drafts : speculative tokens per decode and step [token]

    Returns
    -------
    tokens of a step [token]
    """
    return min(LARGEST, 2 * requests * (1 + drafts)) if table.since(BY_REQUESTS) else LARGEST


def captured(values: Values, requests: int, drafts: int) -> int:
    """The largest graph of a command line.

    Parameters
    ----------
    values : as given
    requests : that run at once on a rank [1]
    drafts : speculative tokens per decode and step [token]

    Returns
    -------
    tokens of a step with prompt tokens; 0 where none is captured [token]
    """
    given, config = values.arguments.value, _config(values)
    if _mode(values) in WITHOUT_PROMPTS:
        return 0
    said = (
        *(config.get(name) for name in ("cudagraph_capture_sizes", "max_cudagraph_capture_size")),
        *(given(name) for name in ("cudagraph_capture_sizes", "cuda_graph_sizes", "max_cudagraph_capture_size")),
    )
    sizes = [size for each in said if (size := _most(each)) is not None]
    return sizes[0] if sizes else default(values.table, requests, drafts)


def eager(values: Values) -> bool:
    """Whether a command line leaves every step to the host, decode steps too.

    Parameters
    ----------
    values : as given
    """
    return _mode(values) == NO_GRAPHS


def _config(values: Values) -> dict[str, Any]:
    config = values.arguments.value("compilation_config")
    return config if isinstance(config, dict) else {}


def _mode(values: Values) -> str:
    """The mode of captured graphs as given; eager execution has none."""
    mode = _config(values).get("cudagraph_mode")
    if values.arguments.value("enforce_eager"):
        return NO_GRAPHS
    return mode.upper() if isinstance(mode, str) else ""


def _most(sizes: Any) -> int | None:
    """The largest of one or several sizes; None where there is none."""
    found: list[int] = []
    for size in sizes if isinstance(sizes, list | tuple) else [sizes]:
        text = str(size)
        if not isinstance(size, bool) and text.isdigit():
            found.append(int(text))
    return max(found, default=None)


def flag(table: Table, requests: int, drafts: int, wanted: int) -> tuple[str, ...]:
    """The option that captures steps up to a size; nothing where they are captured anyway.

    Parameters
    ----------
    table : vLLM at its version
    requests : that run at once on a rank [1]
    drafts : speculative tokens per decode and step [token]
    wanted : tokens of a step [token]
    """
    if default(table, requests, drafts) >= wanted:
        return ()
    return ("--max-cudagraph-capture-size" if table.since("0.11.2") else "--cuda-graph-sizes", str(wanted))
