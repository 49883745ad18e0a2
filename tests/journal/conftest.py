"""Fixtures of the journal's tests: a desk with the clock at noon."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.journal.desk import Desk, open_desk


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncGenerator[Desk]:
    async with open_desk(tmp_path / "home") as desk:
        yield desk
