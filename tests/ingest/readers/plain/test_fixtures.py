"""Every file of the other agents in the shared fixtures gives its reference figures."""

import json
from typing import Any

import pytest

from tests.ingest.readers.codex.rollouts import SHARED
from tests.ingest.readers.plain.conversations import READERS, Found, lines_of_file, lines_of_storage, read_lines

if not SHARED.exists():
    pytest.skip("the shared fixtures are not here", allow_module_level=True)

EXPECTED: dict[str, Any] = json.loads((SHARED / "expected.json").read_text())["files"]
FILES = [name for name in EXPECTED if name.startswith("other/")]


def found_in(name: str, every: int | None = None) -> Found:
    """Read a file, or a session of a storage tree."""
    path, _, session = name.partition("#")
    lines = lines_of_storage(SHARED / path, session) if session else lines_of_file(SHARED / path)
    return read_lines(READERS[EXPECTED[name]["agent"]], lines, every=every, session_id=(SHARED / path).stem)


@pytest.mark.parametrize("name", FILES)
def test_a_file_gives_its_figures(name: str) -> None:
    """Case 4: each file alone."""
    found, wanted = found_in(name).figures(), EXPECTED[name]
    if wanted["sessions"]:
        assert found["sessions"] == wanted["sessions"]
    assert (found["turns"], found["tool_calls"]) == (wanted["turns"], wanted["tool_calls"])
    used = {key: value for key, value in wanted["usage"].items() if value}
    assert {key: value for key, value in found["usage"].items() if value} == used


@pytest.mark.parametrize("name", FILES)
def test_saving_and_restoring_between_lines_changes_nothing(name: str) -> None:
    """A growing file gives what the whole file gives."""
    assert found_in(name, every=1).facts == found_in(name).facts
