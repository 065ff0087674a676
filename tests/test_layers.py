"""Each file imports only what stands above it in docs/architecture.md."""

import ast
import re
from pathlib import Path

import pytest

import chunkcalc

ROOT = Path(chunkcalc.__file__).parent
DOCS = ROOT.parent / "docs" / "architecture.md"
MOST_BESIDE = 8  # modules beside the folders
ROOMS = {  # heavy libraries and the only files that may import them
    "sympy": {"derivation/symbolic.py", "derivation/notation.py"},
    "scipy": {"answer/learning.py"},
    "numpy": {"scoring/features.py", "answer/learning.py", "grids/points.py"},
    "matplotlib": {"plots/paper.py", "plots/region.py", "plots/states.py"},
    "yaml": {"engines/files.py", "manifests/nodes.py"},
    "pydantic": {"catalog/schema.py"},
    "rich": {"report/lines.py", "cli/progress.py"},
}  # fmt: skip


def order() -> list[str]:
    """Folders in the order of the table."""
    return [match[1] for line in DOCS.read_text().splitlines() if (match := re.match(r"\| `([a-z.]+)` \|", line))]


def imports(path: Path) -> set[str]:
    """Every module that a file imports, at its top or inside a function."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def file_of(module: str) -> str | None:
    """The file of a chunkcalc module."""
    path = ROOT.joinpath(*module.split(".")[1:])
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if module.startswith("chunkcalc.") and candidate.is_file():
            return candidate.relative_to(ROOT).as_posix()
    return None


def folder(name: str) -> str:
    return name.split("/", maxsplit=1)[0] if "/" in name else "."


FILES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py"))
USED = {
    name: {used for module in imports(ROOT / name) if (used := file_of(module)) not in (None, "__init__.py", name)}
    for name in FILES
}


def test_the_table_names_every_folder_once():
    assert sorted(order()) == sorted({folder(name) for name in FILES})


def test_few_modules_stand_beside_the_folders():
    beside = [name for name in FILES if "/" not in name and not name.startswith("__")]
    assert len(beside) <= MOST_BESIDE


def test_no_folder_bears_the_name_of_a_public_function():
    public = {name for name in chunkcalc.__all__ if callable(getattr(chunkcalc, name))}
    assert not public & set(order())


@pytest.mark.parametrize("name", [name for name in FILES if name not in ("__init__.py", "__main__.py")])
def test_imports_point_upwards(name):
    place = order().index(folder(name))
    assert {other for other in USED[name] if order().index(folder(other)) > place} == set()


def test_no_imports_go_in_circles():
    left = {name: {other for other in used if not other.endswith("__init__.py")} for name, used in USED.items()}
    while free := [name for name, used in left.items() if not used & set(left)]:
        for name in free:
            del left[name]
    assert left == {}


@pytest.mark.parametrize("name", FILES)
def test_heavy_libraries_stay_in_their_rooms(name):
    used = {module.split(".")[0] for module in imports(ROOT / name)}
    assert {library for library in used & set(ROOMS) if name not in ROOMS[library]} == set()
    assert "typer" not in used or name.startswith("cli/")


def test_only_the_command_line_prints():
    printing = [name for name in FILES if re.search(r"(?<![\w.])print\(", (ROOT / name).read_text())]
    assert all(name.startswith("cli/") for name in printing)


def test_public_names_are_listed_and_documented():
    assert sorted(chunkcalc.__all__) == sorted(set(chunkcalc.__all__))
    for name in chunkcalc.__all__:
        assert getattr(chunkcalc, name).__doc__


def undocumented(item: ast.FunctionDef) -> list[str]:
    """Arguments that the docstring's parameters do not name."""
    text = ast.get_docstring(item) or ""
    arguments = [a.arg for a in (*item.args.posonlyargs, *item.args.args, *item.args.kwonlyargs)]
    named = re.findall(r"^([\w, ]+) : ", text, re.M)
    return sorted(set(arguments) - {"self", "cls"} - {word for line in named for word in line.split(", ")})


# Folders of formulas and of the public face name every argument, with its unit; elsewhere a sentence does.
NAMED = ("work", "time", "textbook", "traffic", "api")


@pytest.mark.parametrize("name", [name for name in FILES if not name.startswith("cli/")])
def test_public_functions_are_documented(name):
    for node in ast.parse((ROOT / name).read_text()).body:
        for item in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(item, ast.FunctionDef) and not item.name.startswith("_"):
                assert ast.get_docstring(item) or item.name.startswith("__"), item.name
                assert folder(name) not in NAMED or not undocumented(item), item.name
