"""What the tests of shells share: a task group for live shells that no service owns."""

from collections.abc import AsyncGenerator

import pytest
from anyio import create_task_group
from anyio.abc import TaskGroup


@pytest.fixture
async def tasks() -> AsyncGenerator[TaskGroup]:
    """A task group that is cancelled after the test."""
    async with create_task_group() as group:
        yield group
        group.cancel_scope.cancel()
