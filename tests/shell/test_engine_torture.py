"""Every torture case on every target that this machine can offer."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from shiftlog.model.shell_errors import ShellEnded
from shiftlog.shell.local import LocalTarget
from shiftlog.shell.ports import LiveShell, ShellSpec, Target, Terminal
from tests.shell.engine_probe import PATIENCE_S, run
from tests.shell.torture import CASES, Case, Step


@pytest.fixture
def target() -> Target:
    return LocalTarget()


@pytest.fixture
async def shell(target: Target, case: Case) -> AsyncIterator[LiveShell]:
    shell = await target.open(ShellSpec(cwd="/", env=case.env))
    try:
        yield shell
    finally:
        await shell.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_the_shell_survives_or_says_plainly_that_it_ended(shell: LiveShell, case: Case) -> None:
    for step in case.steps:
        try:
            if not await _holds(shell, step):
                return
        except ShellEnded:
            assert step.ending == "may_end"
            return


async def _holds(shell: LiveShell, step: Step) -> bool:
    """Check one step; return whether the shell lives on."""
    terminal = Terminal() if step.terminal else None
    end, sink = await run(shell, step.text, data=step.input, background=step.background, terminal=terminal)
    if end.shell_ended is not None and step.ending == "may_end":
        await asyncio.wait_for(asyncio.shield(shell.ended), PATIENCE_S)
        if end.exit_code is None:
            return False
    if step.out is not None:
        assert sink.out == step.out
    if step.err is not None:
        assert sink.err == step.err
    assert step.err_has in sink.err
    if step.code is not None:
        assert end.exit_code == step.code
    if step.cwd is not None:
        assert end.cwd == step.cwd
    if step.ending == "ends":
        assert end.shell_ended is not None
        await asyncio.wait_for(asyncio.shield(shell.ended), PATIENCE_S)
    if step.ending == "stays":
        assert end.shell_ended is None
    return end.shell_ended is None


def test_there_are_at_least_sixty_cases_and_no_name_twice() -> None:
    assert len(CASES) >= 60
    assert len({case.name for case in CASES}) == len(CASES)
