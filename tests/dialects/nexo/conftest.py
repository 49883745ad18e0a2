"""Fixtures of the dialect's tests: a ledger over an app with the clock at noon, and a place for real daemons."""

from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest

from tests.daemon.support import end_daemon
from tests.dialects.nexo.ledger import Ledger, open_ledger
from tests.journal.harness import Harness, open_harness


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncGenerator[Harness]:
    async with open_harness(tmp_path / "home") as harness:
        yield harness


@pytest.fixture
async def ledger(harness: Harness) -> AsyncGenerator[Ledger]:
    async with open_ledger(harness) as ledger:
        yield ledger


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    path = tmp_path_factory.mktemp("h")
    yield path
    end_daemon(path)
