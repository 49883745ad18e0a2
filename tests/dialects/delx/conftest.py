"""Fixtures of the close and resume tests: an office whose clock stands at noon, and a state directory for daemons."""

from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest

from tests.daemon.support import end_daemon
from tests.dialects.delx.office import Office
from tests.journal.desk import open_desk


@pytest.fixture
async def office(tmp_path: Path) -> AsyncGenerator[Office]:
    async with open_desk(tmp_path / "home") as desk:
        yield Office(desk)


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    path = tmp_path_factory.mktemp("h")
    yield path
    end_daemon(path)
