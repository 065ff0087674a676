"""An engine that fields of a resource describe, before anything is started."""

from __future__ import annotations

from chunkcalc.engines.words import Word
from chunkcalc.frozen import dataclass
from chunkcalc.manifests.boxes import Box
from chunkcalc.manifests.configs import Configs
from chunkcalc.manifests.process import Role
from chunkcalc.manifests.scope import Scope

SERVE = ("vllm", "serve")


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """An engine that fields describe.

    box : what runs; None where it cannot be known
    scope : what holds it; None for the value that was read
    model, gpu : names for both, likeliest first
    gpus : of a replica
    role : where the fields say it; None where names and labels tell
    disabled : switched off
    problems : what is not known
    """

    box: Box | None
    scope: Scope | None = None
    model: tuple[Word, ...] = ()
    gpu: tuple[Word, ...] = ()
    gpus: int | None = None
    role: Role | None = None
    replicas: int | None = None
    disabled: bool = False
    problems: tuple[str, ...] = ()


def serving(words: list[Word], scope: Scope, configs: Configs, image: str = "") -> Box:
    """A box that runs `vllm serve` with these words."""
    line = words[0] if words else Word("", scope.node.line, scope.node.pointer)
    return Box(tuple(line.at(part) for part in SERVE), tuple(words), image, {}, configs, scope.node)
