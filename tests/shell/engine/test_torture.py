"""Every torture case on every target that this machine can offer."""

from collections.abc import AsyncIterator

import pytest
from anyio.abc import TaskGroup

from shiftlog.model.shell_errors import ShellEnded
from shiftlog.shell.engine.local import LocalTarget
from shiftlog.shell.ports import LiveShell, ShellSpec, Target
from tests.shell.engine.torture import CASES, Case
from tests.shell.engine.torture_check import holds


@pytest.fixture
def target() -> Target:
    return LocalTarget()


@pytest.fixture
async def shell(target: Target, case: Case, tasks: TaskGroup) -> AsyncIterator[LiveShell]:
    shell = await target.open(ShellSpec(cwd="/", env=case.env), tasks)
    try:
        yield shell
    finally:
        await shell.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_the_shell_survives_or_says_plainly_that_it_ended(shell: LiveShell, case: Case) -> None:
    for step in case.steps:
        try:
            if not await holds(shell, step):
                return
        except ShellEnded:
            assert step.ending == "may_end"
            return


def test_there_are_at_least_sixty_cases_and_no_name_twice() -> None:
    assert len(CASES) >= 60
    assert len({case.name for case in CASES}) == len(CASES)
