"""The stores that the contract is checked on: a store that is added here has to pass every test beside this file."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from shiftlog.store.protocol import Store, Writer
from shiftlog.store.sqlite import SqliteStore
from tests.contract.model_store import MemoryStore

T = TypeVar("T")


class SmallWorks(SqliteStore):
    """The embedded store, told that every work is a small one."""

    async def write(self, work: Callable[[Writer], T], *, brief: bool = False, lasting: bool = True) -> T:
        return await super().write(work, brief=True, lasting=lasting)


@pytest.fixture(params=["memory", "sqlite", "sqlite, small works"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    kind = {"sqlite": SqliteStore, "sqlite, small works": SmallWorks}.get(request.param)
    made: Store = MemoryStore() if kind is None else kind(tmp_path / "shiftlog.db", durability="process")
    async with made:
        yield made
