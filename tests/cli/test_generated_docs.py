"""The generated docs: that a stale file is named and written anew. `make check-docs` checks the real ones."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
SCRIPT = Path("scripts") / "generate_docs.py"


def generate(root: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(root / SCRIPT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.long
def test_a_stale_file_is_named_and_written_anew(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    for folder in ("scripts", "tests/guard/policy", "tests/exam", "tests/clients"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    generate(tmp_path)
    configuration = tmp_path / "docs" / "configuration.md"
    text = configuration.read_text()
    configuration.write_text(text.replace("| `http.port` |", "| `http.prt` |"))
    (tmp_path / "docs" / "reference" / "cli.md").unlink()
    results = tmp_path / "tests" / "clients" / "results.json"
    results.write_text(results.read_text().replace('"passed"', '"failed"', 1))
    done = generate(tmp_path, "--check")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "docs/reference/cli.md is stale; run: make docs",
        "docs/configuration.md is stale; run: make docs",
        "docs/clients.md is stale; run: make docs",
    ]
    assert not (tmp_path / "docs" / "reference" / "cli.md").exists()
    assert generate(tmp_path).returncode == 0
    assert configuration.read_text() == text


def test_an_argument_that_is_none_is_refused() -> None:
    assert generate(ROOT, "--chek").returncode == 2
