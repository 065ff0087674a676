"""The command lines of a fleet's units: what each replica, prefill unit or decode unit is started with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from chunkcalc.answer.composition import other_ways
from chunkcalc.answer.solve import as_composed
from chunkcalc.catalog.lookup import load_model
from chunkcalc.engines.dialects import ROLE, TRANSFER, dialect
from chunkcalc.engines.flags import flags, yaml_options
from chunkcalc.errors import ChunkcalcError
from chunkcalc.frozen import dataclass
from chunkcalc.sizing.fleet import Fleet
from chunkcalc.sizing.shapes import Shape

PROMPTS = 16  # requests that a prefill unit may hold: the next one begins where a step has room
BOTH, PREFILL, DECODE = "both", "prefill", "decode"


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One kind of unit of a fleet.

    role : both, prefill or decode
    units : how many run [1]
    gpu, gpus : of each [1]
    rate : requests that one of them gets [request/s]
    batch : that decode at once on it, on average [1]
    engine, version : that runs
    words : of the command line, the model in it
    options : lines of YAML for an option file, where the engine takes some settings only there
    """

    role: str
    units: int
    gpu: str
    gpus: int
    rate: float
    batch: int
    engine: str
    version: str
    words: tuple[str, ...]
    options: tuple[str, ...] = ()


def launches(found: Fleet) -> list[Launch]:
    """How the chosen shape of a fleet is started.

    Parameters
    ----------
    found : the fleet

    Raises
    ------
    ChunkcalcError : no shape carries the rate, pools of an engine whose connector is not described
    """
    shape = found.chosen
    if shape is None:
        raise ChunkcalcError("no shape carries the rate", "--emit", "loosen a limit, or leave --emit out to see why")
    return list(_units(found, shape))


def _units(found: Fleet, shape: Shape) -> Iterator[Launch]:
    if shape.prefill is None:
        serving = max(1, shape.replicas - found.spare)
        yield _launch(found, shape, BOTH, shape.replicas, shape.tp, shape.pp, found.rate / serving)
        return
    units, tp, pp = shape.prefill
    decodes = shape.replicas - units
    yield _launch(found, shape, PREFILL, units, tp, pp, found.rate / max(1, units - found.spare))
    yield _launch(found, shape, DECODE, decodes, shape.tp, shape.pp, found.rate / max(1, decodes - found.spare))


def _launch(found: Fleet, shape: Shape, role: str, units: int, tp: int, pp: int, rate: float) -> Launch:
    question = replace(found.question, gpu=shape.gpu, tp=tp, pp=pp, rate=rate, budget=shape.budget)
    engine = question.engine
    way = next((way for way in other_ways(as_composed(question).case.deployment.engine, question.draft_tokens)
                if way.words == shape.composition), None)  # fmt: skip
    seen = as_composed(replace(question, **way.changes) if way is not None else question)
    deployment = seen.case.deployment
    own = dialect(engine)
    if role == BOTH:
        given = seen.flags[engine]
    else:
        workload = replace(seen.workload, batch=2 * shape.batch if role == DECODE else PROMPTS)
        given = flags(deployment, workload, shape.chunk, shape.budget)
    name = _checkpoint(str(question.model))
    model = (own.model[0], name) if len(own.model) > 1 else (name,)
    words = [own.programs[0], *own.serve, *model, *given, own.context, str(_context(found))]
    if role != BOTH:
        words += _connector(engine, role)
    options = yaml_options(deployment)
    return Launch(role=role, units=units, gpu=shape.gpu, gpus=tp * pp, rate=rate, batch=shape.batch, engine=engine,
                  version=deployment.engine.version, words=tuple(words), options=options)  # fmt: skip


def _context(found: Fleet) -> int:
    """The longest request that is planned for, to the next 1,024 tokens."""
    question = found.question
    prompt = max(question.prompt, question.prompt_p95 or 0)
    longest = load_model(str(question.model)).record.max_position if isinstance(question.model, str) else 2**31
    return min(longest, -(-2 * (prompt + (question.output or 512)) // 1024) * 1024)


def _checkpoint(name: str) -> str:
    """The Hugging Face id of a model, where it has one."""
    if "/" in name:
        return name
    ids = [alias for alias in load_model(name).record.aliases if "/" in alias]
    return min(ids, key=lambda alias: not re.search("instruct|-it$|chat", alias, re.IGNORECASE), default=name)


def _connector(engine: str, role: str) -> list[str]:
    """What makes a unit pass its KV cache on, or take it."""
    if engine == "vllm":
        part = "kv_producer" if role == PREFILL else "kv_consumer"
        return [TRANSFER, f'{{"kv_connector": "NixlConnector", "kv_role": "{part}"}}']
    if engine == "sglang":
        return [ROLE, role]
    raise ChunkcalcError(f"how pools of {engine} pass their cache on is not described", "--emit",
                         "use vllm or sglang, or write the pools by hand")  # fmt: skip
