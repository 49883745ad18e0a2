"""Writes the plugins for agents and the registry entry from the table in `shiftlog.cli.setup.plugin_files`.

`--check` writes nothing and exits with 1 when a file is not what would be written, or does not belong there, naming it.
"""

import sys
from pathlib import Path

from shiftlog.cli.setup.plugin_files import repository_files

ROOT = Path(__file__).parent.parent


def main() -> int:
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        print("usage: generate_plugins.py [--check]", file=sys.stderr)
        return 2
    files = repository_files()
    stale = [path for path, text in files.items() if not _holds(ROOT / path, text)]
    found = (path.relative_to(ROOT).as_posix() for path in (ROOT / "plugins").rglob("*") if path.is_file())
    strange = sorted(set(found) - set(files))
    if check:
        for path in stale:
            print(f"{path} is stale; run: make docs", file=sys.stderr)
        for path in strange:
            print(f"{path} is not generated; remove it", file=sys.stderr)
        return 1 if stale or strange else 0
    for path in stale:
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(files[path], "utf-8")
        print(f"wrote {path}")
    for path in strange:
        (ROOT / path).unlink()
        print(f"removed {path}")
    return 0


def _holds(path: Path, text: str) -> bool:
    return path.exists() and path.read_text("utf-8") == text


if __name__ == "__main__":
    sys.exit(main())
