"""The stores that the contract is checked on: a store that is added here has to pass every test beside this file."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shiftlog.store.protocol import Store
from shiftlog.store.sqlite import SqliteStore
from tests.contract.model_store import MemoryStore


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    path = tmp_path / "shiftlog.db"
    made: Store = MemoryStore() if request.param == "memory" else SqliteStore(path, durability="process")
    async with made:
        yield made
