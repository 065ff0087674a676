"""Two states of the same files: what changes for users."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from chunkcalc.errors import ChunkcalcError
from chunkcalc.frozen import dataclass
from chunkcalc.gate.check import Checked, Options, Report, check_source, merged
from chunkcalc.gate.config import Configs
from chunkcalc.gate.deployed import Deployed
from chunkcalc.manifests.sources import MAX_BYTES, STDIN, SUFFIXES, decode, files, read, shown
from chunkcalc.units import format_duration

MOST_FILES = 10_000
SECONDS = 60  # that git may take


@dataclass(frozen=True, slots=True)
class Row:
    """A deployment before and after; None where it does not exist.

    name : of the deployment
    before, after : its two states
    """

    name: str
    before: Deployed | None
    after: Deployed | None

    def cells(self) -> list[str]:
        """TTFT, TPOT, chunk, KV tokens, batch, verdict: each before -> after."""
        pairs = zip(_values(self.before), _values(self.after), strict=True)
        return [now if was == now else f"{was} -> {now}" for was, now in pairs]


def _values(each: Deployed | None) -> list[str]:
    if each is None:
        return ["-"] * 6
    ttft = tpot = None
    if each.measured and each.answer is not None:
        ttft, tpot = each.answer.expected.ttft_s, each.answer.expected.tpot_s
    elif each.measured and each.steps is not None:
        tpot = each.steps.tpot_s
    chunk = each.answer.chunk if each.answer is not None else each.effective.chunk if each.effective else None
    return [
        format_duration(ttft) if ttft is not None else "-",
        format_duration(tpot) if tpot is not None else "-",
        f"{chunk:,}" if chunk is not None else "-",
        f"{each.kv_tokens:,}" if each.kv_tokens is not None else "-",
        f"{each.batch:,}" if each.batch is not None and each.measured else "-",
        each.verdict or each.status,
    ]


def compare(before: Report, after: Report) -> list[Row]:
    """What changed, in the order of the newer state."""
    left = list(before.deployments)
    out = []
    for now in after.deployments:
        was = next((each for each in left if _key(each) == _key(now)), None)
        was = was or next((each for each in left if (each.file, each.document) == (now.file, now.document)), None)
        was = was or next((each for each in left if each.name and (each.name, each.role) == (now.name, now.role)), None)
        if was is not None:
            left.remove(was)
        row = Row(f"{now.file}: {now.name or now.kind or now.line}", was, now)
        if was is None or _values(was) != _values(now):
            out.append(row)
    out += [Row(f"{was.file}: {was.name or was.kind or was.line}", was, None) for was in left]
    return out


def _key(each: Deployed) -> tuple[str, str, str, str]:
    return each.file, each.name, each.role, each.pointer


def base_report(base: str, options: Options) -> Report:
    """The same paths in another state, checked with the same settings.

    Raises
    ------
    ChunkcalcError : neither a folder nor a revision
    """
    if any(path == STDIN for path in options.paths):
        raise ChunkcalcError("the standard input has no other state", "--diff", "give files or folders")
    folder = Path(base)
    checked = list(_folder(folder, options)) if folder.is_dir() else list(_revision(base, options))
    return merged(checked, options, len(checked))


def _folder(folder: Path, options: Options) -> list[Checked]:
    """A folder with the same files: they keep the names that they have here."""
    configs, out = Configs(options.root, options.config), []
    for name, other in _counterparts(folder, options):
        for path, asked in files([str(other.absolute())], Path("/")):
            relative = Path(name) / path.relative_to(other) if other.is_dir() else Path(name)
            config = configs.of(relative)
            source = read(path, shown(relative, options.root), asked)
            out.append(check_source(source, options, config, configs.relative(config, relative)))
    return out


def _counterparts(folder: Path, options: Options) -> list[tuple[str, Path]]:
    """Each path with what stands for it in the folder: by its path in the repository, or the folder itself."""
    out = []
    for name in options.paths:
        here = (Path.cwd() / name).resolve()
        inside = here.relative_to(options.root) if here.is_relative_to(options.root) else Path(here.name)
        candidates = (folder / inside, folder / name, folder / here.name, folder)
        found = next((path for path in candidates if path.exists() and path.is_dir() == here.is_dir()), None)
        if found is not None:
            out.append((name, found.resolve()))
    if not out:
        hint = "give a folder that holds the same files, or a git revision"
        raise ChunkcalcError(f"'{folder}' holds none of the paths", "--diff", hint)
    return out


def _revision(base: str, options: Options) -> list[Checked]:
    """The files of a git revision; git only lists and prints them."""
    if base.startswith("-") or not base.strip():
        raise ChunkcalcError(
            f"'{base:.60}' is no revision", "--diff", "give a folder, or a revision such as origin/main"
        )
    hint = "give a folder, or a revision such as origin/main (fetched: actions/checkout with fetch-depth: 0)"
    if _git(["rev-parse", "--git-dir"]) is None:
        raise ChunkcalcError("the working folder lies in no git repository", "--diff", "give a folder to compare with")
    found = _git(["rev-parse", "--verify", "--quiet", f"{base}^{{commit}}"])
    if found is None or not found.strip():
        raise ChunkcalcError(f"'{base:.60}' is neither a folder nor a revision", "--diff", hint)
    commit = found.decode().strip()
    listed = _git(["ls-tree", "-r", "-z", "--name-only", commit, "--", *_plain(options.paths)])
    names = [name for name in (listed or b"").decode(errors="replace").split("\0") if name]
    configs, out = Configs(options.root, options.config), []
    for name in names[:MOST_FILES]:
        if Path(name).suffix.lower() not in SUFFIXES and name not in options.paths:
            continue
        data = _git(["show", f"{commit}:./{name}"])
        if data is None:
            continue
        path = Path(name)
        config = configs.of(path)
        source = decode(data[: MAX_BYTES + 1], shown(path, options.root), name in options.paths)
        out.append(check_source(source, options, config, configs.relative(config, path)))
    return out


def _plain(paths: Sequence[str]) -> list[str]:
    return [path if not any(c in path for c in "*?[") else f":(glob){path}" for path in paths]


def _git(words: list[str]) -> bytes | None:
    try:
        with tempfile.TemporaryFile() as errors:
            done = subprocess.run(["git", *words], stdout=subprocess.PIPE, stderr=errors, timeout=SECONDS, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout if done.returncode == 0 else None
