"""The stores that the contract is checked on: a store that is added here has to pass every test beside this file."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shiftlog.store.protocol import Store
from shiftlog.store.sqlite import SqliteStore


@pytest.fixture(params=["sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    async with made(request, tmp_path) as store:
        yield store


def made(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """Return the store that a test is to use, not open yet."""
    if request.param == "sqlite":
        return SqliteStore(tmp_path / "shiftlog.db", durability="process")
    url: str = request.getfixturevalue("postgres_url")
    from shiftlog.store.postgres import PostgresStore

    return PostgresStore(url, durability="process", connections=4)
