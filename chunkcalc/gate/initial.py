"""A first chunkcalc.toml from what deployment files say; every guess is called one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from json import dumps  # a text of JSON is one of TOML

from chunkcalc.gate.check import Report

OUTPUT = 512  # tokens of an answer where nothing says how long they are
LIMITS = {"ttft": '"2s"', "tpot": '"50ms"'}


def written(report: Report, given: Mapping[str, str]) -> str:
    """The text of a configuration.

    Parameters
    ----------
    report : of the files, without settings
    given : settings that the user stated, by key
    """
    gone = {id(each) for each in (*report.broken, *report.skipped)}
    live = [each for each in report.deployments if each.status != "disabled" and id(each) not in gone]
    files = len({each.file for each in live})
    rows = [f"# From {len(live)} deployments in {files} files. It is a default for what a file leaves open."]
    rows += [_gpu(report, given)]
    for key in ("model", "engine-version"):
        if key in given:
            rows.append(f"{key} = {dumps(given[key])}")
    rows += ["", "# The load of a replica."]
    lengths = sorted(each.max_model_len for each in live if each.max_model_len)
    if "prompt" in given:
        rows.append(f"prompt = {dumps(given['prompt'])}")
    elif lengths:
        guess = max(1, lengths[0] // 2)
        rows.append(f"prompt = {guess}  # guessed: half of the shortest context that a file states ({lengths[0]:,})")
    else:
        rows.append("# prompt = 4000  # tokens of a prompt: no file says how long they are")
    rows.append(f"output = {dumps(given['output'])}" if "output" in given else f"output = {OUTPUT}  # guessed")
    loads = [f"{key} = {dumps(given[key])}" for key in ("rate", "concurrency") if key in given]
    rows += loads or ["# concurrency = 32  # requests that decode at once, or rate = 3 requests/s"]
    rows += ["", "# What a user must not wait longer for."]
    rows += [f"{key} = {dumps(given[key])}" if key in given else f"# {key} = {LIMITS[key]}" for key in LIMITS]
    rows += [f"itl = {dumps(given['itl'])}"] if "itl" in given else []
    return "\n".join(rows) + "\n"


def _gpu(report: Report, given: Mapping[str, str]) -> str:
    named = Counter(each.gpu for each in report.deployments if each.gpu)
    if "gpu" in given:
        return f"gpu = {dumps(given['gpu'])}"
    if not named:
        return '# gpu = "h100-sxm"  # no file names one'
    gpu, count = named.most_common(1)[0]
    others = f"; others: {', '.join(name for name, _ in named.most_common()[1:4])}" if len(named) > 1 else ""
    return f'gpu = "{gpu}"  # named by {count} of {len(report.deployments)} deployments{others}'
