"""Fixtures of the dialect's tests: a ledger over an app with the clock at noon, and a place for real daemons."""

from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest

from tests.daemon.support import end_daemon
from tests.dialects.nexo.ledger import Ledger, open_ledger
from tests.journal.desk import Desk, open_desk


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncGenerator[Desk]:
    async with open_desk(tmp_path / "home") as desk:
        yield desk


@pytest.fixture
async def ledger(desk: Desk) -> AsyncGenerator[Ledger]:
    async with open_ledger(desk) as ledger:
        yield ledger


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    path = tmp_path_factory.mktemp("h")
    yield path
    end_daemon(path)
