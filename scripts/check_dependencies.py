"""Compare what `src` imports with what pyproject.toml declares, both ways; exit with 1 and name each difference."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).parent.parent
# Import names of extras that the development environment need not have installed.
OPTIONAL = {"watchfiles": "watchfiles"}
# Needed by a module of another library that src imports: uvicorn's protocol, which does not declare it.
INDIRECT = {"httptools"}


def main() -> int:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project.get("optional-dependencies", {})
    declared = {_name(line) for group in (project["dependencies"], *extras.values()) for line in group}
    imported = _imported()
    faults = [
        f"{path} imports {name}, which pyproject.toml does not declare"
        for name, path in imported.items()
        if name not in declared
    ]
    faults += [
        f"pyproject.toml declares {name}, which src does not import"
        for name in sorted(declared - set(imported) - INDIRECT)
    ]
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


def _imported() -> dict[str, str]:
    """Return the distributions whose modules src imports, each with one module that does."""
    homes = packages_distributions()
    found: dict[str, str] = {}
    for path in sorted((ROOT / "src").rglob("*.py")):
        for module in _modules(ast.parse(path.read_text("utf-8"))):
            if module not in sys.stdlib_module_names and module != "shiftlog":
                distribution = OPTIONAL.get(module) or homes.get(module, [module])[0]
                found.setdefault(_name(distribution), path.relative_to(ROOT).as_posix())
    return found


def _modules(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
    return {name.partition(".")[0] for name in names}


def _name(requirement: str) -> str:
    """Return the normalised name of a distribution, without extras and bounds."""
    return re.sub(r"[-_.]+", "-", re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]).lower()


if __name__ == "__main__":
    sys.exit(main())
