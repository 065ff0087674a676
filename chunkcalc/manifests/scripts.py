"""Shell scripts as files of their own."""

from __future__ import annotations

import re
from collections.abc import Iterator

from chunkcalc.engines.words import Word
from chunkcalc.manifests.boxes import Box
from chunkcalc.manifests.configs import Configs
from chunkcalc.manifests.containers import Launch, launches
from chunkcalc.manifests.expand import templates
from chunkcalc.manifests.nodes import Node
from chunkcalc.manifests.process import Process
from chunkcalc.manifests.sources import Source

_GRES = re.compile(r"^#SBATCH\s+--(?:gres=gpu|gpus-per-node|gpus)[:=](?:([A-Za-z][\w-]*):)?(\d+)", re.MULTILINE)
_NODES = re.compile(r"^#SBATCH\s+(?:--nodes=|-N\s*)(\d+)", re.MULTILINE)
_VISIBLE = re.compile(r"^\d[\d,]*$")


def of_script(source: Source, text: str, line: int = 1) -> Iterator[tuple[Process, Launch]]:
    """The engines that a script starts, each with what starts it.

    Parameters
    ----------
    source : the file
    text : the script in it
    line : of the file at which it begins
    """
    marks = tuple((match.end(), index + line + 1) for index, match in enumerate(re.finditer("\n", text)))
    node = Node(text, line, "", text, ((0, line), *marks))
    script = Word(text, line)
    holder = Node({"command": Node([node], line, "")}, line, "")
    box = Box(
        (Word("bash"), Word("-c"), script),
        (),
        "",
        {**_slurm(text), **source.given},
        Configs([], source),
        holder,
        prepared=templates,
    )
    gres, nodes = _GRES.search(text), _NODES.search(text)
    for launch in launches(box):
        gpus = int(gres[2]) * (int(nodes[1]) if nodes else 1) if gres else None
        gpu = (Word(gres[1], text.count("\n", 0, gres.start()) + 1),) if gres and gres[1] else ()
        process = Process(
            file=source.path, line=launch.line, command=launch.command, gpu=gpu, gpus=_devices(launch.command) or gpus,
            kind="script",
        )  # fmt: skip
        yield process, launch


def _slurm(text: str) -> dict[str, str]:
    """What Slurm sets for a job."""
    gres, nodes = _GRES.search(text), _NODES.search(text)
    out = {"SLURM_NNODES": nodes[1], "SLURM_JOB_NUM_NODES": nodes[1]} if nodes else {}
    if gres:
        out |= {"SLURM_GPUS_ON_NODE": gres[2], "SLURM_GPUS_PER_NODE": gres[2]}
    return out


def _devices(command: object) -> int | None:
    environment = getattr(command, "environment", {})
    listed = environment.get("CUDA_VISIBLE_DEVICES") or environment.get("DOCKER_GPUS") or ""
    return len(listed.split(",")) if _VISIBLE.match(listed) else None
