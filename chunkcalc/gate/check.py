"""The whole check: files and settings -> deployments and findings."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from datetime import date
from pathlib import Path
from typing import Literal, NamedTuple

from chunkcalc.errors import ChunkcalcError
from chunkcalc.frozen import dataclass
from chunkcalc.gate.bounds import bounds
from chunkcalc.gate.catalogue import DEFAULT, LEVELS, UNKNOWN
from chunkcalc.gate.comments import Comment, annotated_settings, comments, lenient
from chunkcalc.gate.config import Config, Configs
from chunkcalc.gate.deployed import Deployed, deployed
from chunkcalc.gate.estimates import estimates
from chunkcalc.gate.evaluation import Evaluation
from chunkcalc.gate.exact import exact, misread
from chunkcalc.gate.finding import Finding
from chunkcalc.gate.pools import pools
from chunkcalc.gate.settings import FACTS, Setting, Settings
from chunkcalc.gate.waivers import Waiver, annotated, apply, complaints, configured
from chunkcalc.manifests.find import find
from chunkcalc.manifests.process import BROKEN, SKIPPED, Process
from chunkcalc.manifests.sources import STDIN, Beside, Source, decode, files, read, shown
from chunkcalc.progress import Progress, silent

PARALLEL_FROM = 64  # files from which a second process is worth its start
MOST_WORKERS = 8
MOST_FILES = 100_000
FailOn = Literal["error", "warning", "never"]
Unknown = Literal["warn", "fail", "ignore"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What to check, and by which settings.

    paths : files, folders, globs, or `-`
    root : what reports write paths relative to, and where the search for a configuration ends
    settings : of the command line
    config : a configuration file for all; None to look for the nearest
    waivers : whether waivers count
    given : variables that files leave to their environment
    force_gpu : whether the GPU of the settings counts over what files state
    today : day by which waivers end
    """

    paths: tuple[str, ...]
    root: Path
    settings: Settings = field(default_factory=Settings)
    config: Path | None = None
    waivers: bool = True
    given: Mapping[str, str] = field(default_factory=dict)
    force_gpu: bool = False
    today: date = field(default_factory=date.today)


class Checked(NamedTuple):
    """What was found in one file."""

    deployments: list[Deployed]
    findings: list[Finding]
    waivers: list[Waiver]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was found in all files, in their order.

    deployments, findings : by file, then line
    files : how many were read
    """

    deployments: tuple[Deployed, ...]
    findings: tuple[Finding, ...]
    files: int

    @property
    def unknown(self) -> list[Deployed]:
        """Deployments of which something that was asked could not be evaluated."""
        return [each for each in self.deployments if each.missing and each.status not in ("disabled", SKIPPED)]

    @property
    def skipped(self) -> list[Deployed]:
        """Files of a folder that are no text."""
        return [each for each in self.deployments if each.status == SKIPPED]

    @property
    def broken(self) -> list[Deployed]:
        """Places where a file that mentions an engine cannot be parsed."""
        return [each for each in self.deployments if each.kind == BROKEN]

    def counting(self) -> list[Finding]:
        """Findings that no waiver covers."""
        return [finding for finding in self.findings if finding.waived is None]

    def fails(self, fail_on: FailOn, unknown: Unknown) -> bool:
        """Whether the gate stays shut."""
        if unknown == "fail" and (self.unknown or self.skipped):
            return True
        counted = {"error": LEVELS[:1], "warning": LEVELS[:2], "never": ()}[fail_on]
        return any(finding.level in counted for finding in self.counting())


def check(options: Options, stdin: Callable[[], bytes], progress: Progress = silent) -> Report:
    """Check files.

    Parameters
    ----------
    options : what to check
    stdin : reads the standard input, where `-` is among the paths
    progress : told how many files are checked, of how many

    Raises
    ------
    ChunkcalcError : a path that does not exist, a configuration that cannot be read
    """
    named = files(options.paths, Path.cwd())
    if len(named) > MOST_FILES:
        raise ChunkcalcError(f"more than {MOST_FILES:,} files", "PATH", "name a smaller folder")
    configs = Configs(options.root, options.config)
    jobs = []
    for path, asked in named:
        config = configs.of(path if str(path) != STDIN else Path.cwd() / "stdin")
        jobs.append(_Job(str(path), asked, config, configs.relative(config, path), options))
    data = stdin() if any(job.path == STDIN for job in jobs) else b""
    return merged(_run(jobs, data, progress), options, len(named))


def repository(paths: Sequence[str]) -> Path:
    """The repository that the first path, else the working folder lies in; else that folder."""
    here = Path.cwd()
    first = here
    if paths[0] != "-":
        try:
            first = (here / paths[0]).resolve()
        except (OSError, RuntimeError):  # a link to itself
            first = (here / paths[0]).absolute().parent
    for start in (first, here):
        for folder in (start, *start.parents):
            if (folder / ".git").exists():
                return folder
    return here


class _Job(NamedTuple):
    path: str
    asked: bool
    config: Config
    relative: str
    options: Options


def _run(jobs: Sequence[_Job], data: bytes, progress: Progress) -> list[Checked]:
    def each() -> Iterable[Checked]:
        cores = min(MOST_WORKERS, os.cpu_count() or 1)
        many = [job for job in jobs if job.path != STDIN]
        if len(many) < PARALLEL_FROM or cores < 2 or sys.platform == "win32":
            yield from (_one(job, data) for job in jobs)
            return
        from concurrent.futures import ProcessPoolExecutor  # noqa: PLC0415 - for many files only

        with ProcessPoolExecutor(cores) as pool:
            yield from pool.map(_file, jobs, chunksize=max(1, min(32, len(jobs) // (4 * cores))))

    found = []
    for result in each():
        found.append(result)
        progress(len(found), len(jobs))
    return found


def _file(job: _Job) -> Checked:
    return _one(job, b"")


def _one(job: _Job, data: bytes) -> Checked:
    """One file; whatever goes wrong in it, the others are checked all the same."""
    name = shown(Path(job.path), job.options.root)
    try:
        path = Path(job.path)
        source = decode(data, name, True) if job.path == STDIN else read(path, name, job.asked)
        beside = None if job.path == STDIN else Beside(path.absolute().parent, job.options.root)
        source = source._replace(given=job.options.given, beside=beside)
        return check_source(source, job.options, job.config, job.relative)
    except ChunkcalcError:
        raise
    except Exception as error:  # the last resort, as in cli/main.py
        problem = f"internal error ({type(error).__name__}: {error!s:.80}); please report this file"
        lost = Evaluation(Process(file=name, problems=(problem,), kind="unreadable"), Settings())
        finding = Finding(rule=UNKNOWN, kind="exact", level="error", message=problem, file=name, line=1)
        return Checked([deployed(lost)], [finding], [])


def check_source(source: Source, options: Options, config: Config, relative: str) -> Checked:
    """Check one file."""
    processes = find(source)
    if not processes:
        return Checked([], [], [])
    said, waivers = comments(source.text or "", source.path)
    evaluations: list[Evaluation] = []
    findings: list[Finding] = []
    begins = {line for process in processes for line in (process.line, process.command_line)}
    for waiver in waivers:
        if waiver.head and not begins & set(waiver.lines):
            waiver.lines = ()
    for index, process in enumerate(processes):
        following = next((other.line for other in processes[index + 1 :] if other.line > process.line), None)
        inline = _in_reach(said, process, following, begins)
        notes, wrong = annotated_settings(process.notes, f"annotation {process.file}:{_first_line(process)}")
        own, late = annotated(process)
        waivers += [w for w in own if (w.rule, w.line) not in {(v.rule, v.line) for v in waivers}]
        native, _ = lenient(process.native, "the file's own fields")
        found = Evaluation(process, _layers(options, (notes, inline, config.of(relative), native)))
        evaluations.append(found)
        findings += [misread(found, _first_line(process), problem) for problem in (*wrong, *late)]
    first = evaluations[0]
    findings += [misread(first, comment.line, problem) for comment in said for problem in comment.problems]
    waivers += configured(config.waivers, relative)
    findings += [finding for found in evaluations for finding in _findings(found)]
    findings += pools([found for found in evaluations if not found.process.disabled])
    if options.waivers:
        findings = apply(findings, waivers, options.today, reasons=True)
    return Checked([deployed(found) for found in evaluations], findings, waivers)


def _first_line(process: Process) -> int:
    return min((word.line for word in process.notes.values()), default=process.line)


def _in_reach(said: Sequence[Comment], process: Process, following: int | None, begins: set[int]) -> dict[str, Setting]:
    """What comments say of a process: those above it, those right above it further in, those on its own lines."""
    own, out = {process.line, process.command_line}, dict[str, Setting]()
    for comment in said:
        near = {comment.target, comment.target + 1} if comment.target else set()
        if comment.alone:
            meant = comment.line <= process.line
        elif near & begins:
            meant = bool(near & own)
        else:
            meant = process.line <= comment.line and (following is None or comment.line < following)
        if meant:
            out |= comment.settings
    return out


def _layers(options: Options, layers: Sequence[Mapping[str, Setting]]) -> Settings:
    """Command line, annotations, comments, configuration, the file's own fields: the first that says it counts.

    The GPU, the model and the version of the command line and of the configuration are defaults for what the file
    leaves open; annotations and comments are of the file. A concurrency in one source stands against a rate in a
    lower one.
    """
    notes, inline, config, native = layers
    given = options.settings.values
    stands = {key for key in given if key not in FACTS or (key == "gpu" and options.force_gpu)}
    out = Settings({key: given[key] for key in stands})
    open_facts = Settings(given).defaults().values
    asked = {key: setting for key, setting in open_facts.items() if key in FACTS}
    for layer in (notes, inline, asked, Settings(config).defaults().values, native):
        loaded = out.has_load
        out = out.under({k: v for k, v in layer.items() if not (loaded and k in ("concurrency", "rate"))})
    return out


def _findings(found: Evaluation) -> list[Finding]:
    if found.process.disabled:
        return []
    certain = [*exact(found), *bounds(found)]
    bound = any(finding.kind == "bound" and finding.rule != "CC205" for finding in certain)
    return _together([*certain, *estimates(found, bound)])


def _together(findings: list[Finding]) -> list[Finding]:
    """One fix per flag: that of the worst finding, what its limits ask before what the engine would take anyway."""
    chosen: dict[str, Finding] = {}
    for finding in sorted(findings, key=lambda f: (LEVELS.index(f.level), f.kind != "estimate")):
        if finding.fix is not None and finding.fix.flag and finding.fix.value:
            chosen.setdefault(finding.fix.flag, finding)
    out = []
    for finding in findings:
        fix = finding.fix
        first = chosen.get(fix.flag) if fix is not None else None
        if first is None or fix is None or first is finding or first.fix is None or fix.value == first.fix.value:
            out.append(finding)
        elif finding.rule != DEFAULT:  # a default that another finding replaces is no news
            out.append(replace(finding, fix=None))
    return out


def _whole(waiver: Waiver, options: Options) -> bool:
    """Whether all that a waiver may be about was checked: of a configuration, the folder that it lies in."""
    if waiver.source in ("comment", "annotation"):
        return True
    folder = (options.root / waiver.file).parent
    return any((Path.cwd() / path).is_dir() and folder.is_relative_to((Path.cwd() / path).resolve())
               for path in options.paths)  # fmt: skip


def merged(checked: Sequence[Checked], options: Options, count: int) -> Report:
    """The results of all files together."""
    deployments = [each for result in checked for each in result.deployments]
    findings = [finding for result in checked for finding in result.findings]
    if options.waivers:
        known: dict[tuple[str, int, str], Waiver] = {}
        for waiver in (waiver for result in checked for waiver in result.waivers):
            before = known.setdefault((waiver.file, waiver.line, waiver.rule), waiver)
            before.used = before.used or waiver.used
        judged = [waiver for waiver in known.values() if waiver.used or _whole(waiver, options)]
        findings += complaints(judged, options.today, findings, reasons=True)
    order = {name: index for index, name in enumerate(dict.fromkeys(each.file for each in deployments))}
    findings.sort(key=lambda f: (order.get(f.file, len(order)), f.line, f.rule, f.message))
    return Report(deployments=tuple(deployments), findings=tuple(dict.fromkeys(findings)), files=count)
