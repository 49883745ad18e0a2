"""Fixtures of the close and resume tests: a server whose clock stands at noon, and a state directory for daemons."""

from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest

from tests.daemon.support import end_daemon
from tests.dialects.delx.server import DelxServer
from tests.journal.harness import open_harness


@pytest.fixture
async def server(tmp_path: Path) -> AsyncGenerator[DelxServer]:
    async with open_harness(tmp_path / "home") as harness:
        yield DelxServer(harness)


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    path = tmp_path_factory.mktemp("h")
    yield path
    end_daemon(path)
