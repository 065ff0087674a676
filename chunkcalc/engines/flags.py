"""From an answer back to the engine's flags; reading them gives the same chunk again."""

from __future__ import annotations

import math

from chunkcalc.engines.dialects import dialect
from chunkcalc.engines.readers import reader
from chunkcalc.engines.tables import table
from chunkcalc.engines.writing import Wanted
from chunkcalc.records import Deployment, Workload


def flags(
    deployment: Deployment, workload: Workload, chunk: int, budget: int, queued: int | None = None
) -> tuple[str, ...]:
    """The engine's flags that realise an answer.

    Parameters
    ----------
    deployment : the replica
    workload : its batch becomes the engine's limit of requests in flight
    chunk, budget : prompt tokens and all tokens of a step, per attention rank [token]
    queued : prompt tokens that may wait before requests are turned away [token]

    Returns
    -------
    flag, value, flag, value ...
    """
    engine = deployment.engine
    found = table(engine.name, engine.version)
    requests = max(1, math.ceil(workload.batch / deployment.parallelism.dp))
    wanted = Wanted(deployment, found, chunk, budget, requests, workload.draft_tokens, queued)
    return tuple(word for option in reader(engine.name).written(wanted) for word in option)


def yaml_options(deployment: Deployment) -> tuple[str, ...]:
    """What TensorRT-LLM takes only from its YAML options (`--config`).

    Returns
    -------
    lines of YAML
    """
    if not dialect(deployment.engine.name).file_overrules:
        return ()
    out = ["enable_attention_dp: true"] if deployment.parallelism.dp > 1 else []
    return (*out, "kv_cache_config: {dtype: fp8}") if deployment.precision.kv == "fp8" else tuple(out)
