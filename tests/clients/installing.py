"""Install the pinned clients of `clients.json` below build/ with npm: `python -m tests.clients.installing`.

Each client has a folder of its own; one that is there in its version is left alone. A client that cannot be installed
is named, and its tests are skipped.
"""

import json
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "clients"
INSTALL_S = 900
CPU = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
PINS: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("clients.json").read_text("utf-8"))


def _here(text: str) -> str:
    return text.format(platform=sys.platform, cpu=CPU)


def version_of(name: str) -> str:
    """Return the pinned version of a client."""
    return next(iter(PINS[name]["packages"].values()))


def program_of(name: str) -> list[str] | None:
    """Return the command that starts a client; None if it is not installed in its pinned version."""
    modules = BUILD / name / "node_modules"
    package = next(iter(PINS[name]["packages"]))
    try:
        found = json.loads((modules / package / "package.json").read_text("utf-8"))["version"]
    except (OSError, ValueError, KeyError):
        return None
    programs = [path for pattern in PINS[name]["programs"] for path in sorted(modules.glob(_here(pattern)))]
    lacking = [name for name in map(_here, PINS[name]["packages"]) if not (modules / name).exists()]
    if found != version_of(name) or lacking or not programs:
        return None
    if programs[0].suffix == ".js":
        return [str(modules / _here("node-{platform}-{cpu}") / "bin" / "node"), str(programs[0])]
    return [str(programs[0])]


def install(name: str) -> str | None:
    """Install a client unless it is there; return why that is impossible."""
    if program_of(name) is not None:
        return None
    npm = shutil.which("npm")
    if npm is None:
        return "npm is not installed"
    folder = BUILD / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text('{"private": true}\n')
    packages = [f"{_here(package)}@{version}" for package, version in PINS[name]["packages"].items()]
    options = ["--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
    done = subprocess.run(
        [npm, "install", *options, *packages],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=INSTALL_S,
        check=False,
    )
    if program_of(name) is not None:
        return None
    return (done.stderr.strip().splitlines() or ["npm installed it without its program"])[-1]


def main() -> int:
    for name in PINS:
        problem = install(name)
        says = f"{PINS[name]['title']} {version_of(name)}"
        print(
            f"clients: {says} " + ("is installed" if problem is None else f"cannot be installed: {problem}"), flush=True
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
