"""Check the shape of src: one meaning per class name, folders and modules of a readable size, plain docstrings.

Prints each finding and exits with 1 if there is one. The limits are those of CONTRIBUTING.md.
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "shiftlog"
MOST_MODULES = 22
MOST_LINES = 500
# Words that make a reader decode a sentence; HOUSE_STYLE in CONTRIBUTING.md says what to write instead.
RIDDLES = re.compile(
    r"\b(somebody|nobody|whoever|anybody|everybody|what is no|tell whether|say whether)\b", re.IGNORECASE
)


def main() -> int:
    modules = {path: ast.parse(path.read_text("utf-8")) for path in sorted(SOURCE.rglob("*.py"))}
    findings = [*_class_names(modules), *_sizes(modules), *_docstrings(modules)]
    for finding in findings:
        print(finding, file=sys.stderr)
    return 1 if findings else 0


def _class_names(modules: dict[Path, ast.Module]) -> Iterator[str]:
    """Name each class name that two classes share; a leading underscore does not tell them apart."""
    homes: defaultdict[str, list[str]] = defaultdict(list)
    for path, tree in modules.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                homes[node.name.lstrip("_")].append(f"{_shown(path)}:{node.lineno}")
    for name, places in sorted(homes.items()):
        if len(places) > 1:
            yield f"class {name} stands for several things: {', '.join(places)}"


def _sizes(modules: dict[Path, ast.Module]) -> Iterator[str]:
    folders: defaultdict[Path, int] = defaultdict(int)
    for path in modules:
        folders[path.parent] += 1
        lines = len(path.read_text("utf-8").splitlines())
        if lines > MOST_LINES:
            yield f"{_shown(path)} has {lines} lines; split it ({MOST_LINES} at the most)"
    for folder, count in folders.items():
        if count > MOST_MODULES:
            yield f"{_shown(folder)} has {count} modules; make packages of it ({MOST_MODULES} at the most)"


def _docstrings(modules: dict[Path, ast.Module]) -> Iterator[str]:
    for path, tree in modules.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node) or ""
                if found := RIDDLES.search(text):
                    name = getattr(node, "name", "the module")
                    yield f'{_shown(path)}:{getattr(node, "lineno", 1)} the docstring of {name} says "{found[0]}"'


def _shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


if __name__ == "__main__":
    sys.exit(main())
