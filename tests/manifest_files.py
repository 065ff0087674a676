"""The manifests of tests/manifests with what must be found in them."""

import json
from datetime import date
from pathlib import Path

from chunkcalc.gate.check import Options, Report, check_source, merged
from chunkcalc.gate.config import Config
from chunkcalc.gate.settings import Settings, parsed
from chunkcalc.manifests.find import find
from chunkcalc.manifests.sources import Source, read

FOLDER = Path(__file__).parent / "manifests"
ENDING = ".expected.json"
TODAY = date(2026, 11, 30)
FIELDS = ("document", "pointer", "engine", "engine_version", "model_as_written", "gpus", "tp", "pp", "dp", "ep",
          "role", "max_num_seqs", "max_model_len")  # fmt: skip


def manifests() -> list[Path]:
    """Every manifest."""
    return sorted(path for path in FOLDER.glob("*/*") if not path.name.endswith(ENDING))


def expected(path: Path) -> list[dict[str, object]]:
    """What must be found in a manifest."""
    return json.loads(path.with_name(path.name + ENDING).read_text())


def options(**settings: str) -> Options:
    """A check with settings of the command line."""
    given = Settings(parsed({key.replace("_", "-"): value for key, value in settings.items()}, "test", "test"))
    return Options(paths=(), root=Path("/"), settings=given, today=TODAY)


def check_text(text: str, name: str = "example.sh", **settings: str) -> Report:
    """The report of a text as a file."""
    asked = options(**settings)
    return merged([check_source(Source(name, text, "", True), asked, Config(), name)], asked, 1)


def extracted(path: Path) -> list[dict[str, object]]:
    """What is found in a manifest, as `expected` writes it."""
    asked = options()
    source = read(path, path.name, True)
    processes = find(source)
    report = merged([check_source(source, asked, Config(), path.name)], asked, 1)
    out = []
    for process, each in zip(processes, report.deployments, strict=True):
        given = each.budget is not None and each.budget.source == "given"
        out.append(
            {
                **{name: getattr(each, name) for name in FIELDS},
                "gpu": str(process.gpu[0]) if process.gpu else None,
                "budget": [each.budget.flag, each.budget.value, each.budget.line] if given and each.budget else None,
                "disabled": process.disabled,
                "problems": list(process.problems),
            }
        )
    return out
