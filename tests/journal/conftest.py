"""Fixtures of the journal's tests: a harness with the clock at noon."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.journal.harness import Harness, open_harness


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncGenerator[Harness]:
    async with open_harness(tmp_path / "home") as harness:
        yield harness
