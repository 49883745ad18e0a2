"""The stores that the contract is checked on: a store that is added here has to pass every test beside this file."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shiftlog.store.protocol import Store
from shiftlog.store.sqlite import SqliteStore


@pytest.fixture(params=["sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    stores: dict[str, Store] = {"sqlite": SqliteStore(tmp_path / "shiftlog.db", durability="process")}
    async with stores[request.param] as made:
        yield made
