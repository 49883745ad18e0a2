"""Every test of a client is marked, has a desk of its own, and leaves no daemon behind."""

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.clients.desk import Desk
from tests.clients.installing import PINS, program_of
from tests.clients.model import serving
from tests.clients.script import Script
from tests.daemon.support import end_daemon

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.clients)


@pytest.fixture
def desk(tmp_path_factory: pytest.TempPathFactory) -> Generator[Desk]:
    root = tmp_path_factory.mktemp("c")
    for name in ("home", "work", "state"):
        (root / name).mkdir()
    with serving(Script()) as model:
        yield Desk(root=root, model=model)
        end_daemon(root / "state")


@pytest.fixture
def claude(desk: Desk) -> Desk:
    """A desk whose Claude Code has our plugin."""
    _needs("claude")
    desk.shiftlog("setup", "claude", "--write")
    desk.warm()
    return desk


@pytest.fixture
def codex(desk: Desk) -> Desk:
    """A desk whose Codex has our hooks and our server."""
    _needs("codex")
    desk.write_codex_config()
    desk.shiftlog("setup", "codex", "--write")
    desk.warm()
    return desk


def _needs(name: str) -> None:
    if program_of(name) is None:
        pytest.skip(f"{PINS[name]['title']} is not installed below build/clients; make test-clients installs it")
