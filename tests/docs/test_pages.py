"""Pages of docs/ name files and tests that exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
_TEST = re.compile(r"`(?:tests/)?([a-z0-9_/]+\.py)::(test_[a-z0-9_]+)`")
_FAULT_TEST = re.compile(r"`([a-z0-9_/]+\.py)(?:::(…)?(test_)?([a-z0-9_]+)(…)?)?`")
_MODULE = re.compile(r"`([a-z0-9_]+(?:/[a-z0-9_]+)+(?:\.py|/))`")
_LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)(?:#[^)]*)?\)")


@cache
def defined(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text("utf-8"))
    return frozenset(n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_names_tests_that_exist(page: Path) -> None:
    folder = ROOT / "tests"
    for name, function in _TEST.findall(page.read_text("utf-8")):
        places = [folder / name, *folder.glob(f"dialects/{page.stem}/**/{name}")]
        found = [place for place in places if place.exists()]
        assert found, f"{page.name} names tests/{name}, which does not exist"
        assert any(function in defined(place) for place in found), f"{page.name} names {function}, which does not exist"


def fault_rows() -> list[list[str]]:
    """Return the rows of the table of faults, each as its cells."""
    text = (ROOT / "docs" / "operations.md").read_text("utf-8").partition("\n## Faults\n")[2]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


@pytest.mark.parametrize("row", fault_rows(), ids=lambda row: row[0])
def test_each_fault_says_all_and_names_a_test_that_exists(row: list[str]) -> None:
    fault, sees, lost, mends, tests = row
    assert all((fault, sees, lost, mends)), fault
    named = _FAULT_TEST.findall(tests)
    assert named, f"{fault}: names no test"
    for name, before, test, words, after in named:
        place = ROOT / "tests" / name
        assert place.exists(), f"{fault}: tests/{name} does not exist"
        pattern = f"{'.*' if before else ''}{test}{words}{'.*' if after else ''}" if words else "test_.*"
        matching = [each for each in defined(place) if each.startswith("test_") and re.fullmatch(pattern, each)]
        assert len(matching) == 1 or (matching and not words), f"{fault}: {name} has {len(matching)} tests {words}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_links_to_pages_that_exist(page: Path) -> None:
    for target in _LINK.findall(page.read_text("utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}, which does not exist"


@pytest.mark.parametrize("name", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_the_way_through_the_code_names_modules_that_exist(name: str) -> None:
    for module in _MODULE.findall((ROOT / name).read_text("utf-8")):
        places = (ROOT / "src" / "shiftlog" / module, ROOT / module)
        assert any(place.exists() for place in places), f"{name} names {module}, which does not exist"
