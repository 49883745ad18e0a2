"""Whether one step of a torture case holds on a live shell: the same check for every target."""

import asyncio

from shiftlog.shell.ports import LiveShell, Terminal
from tests.shell.engine.probe import PATIENCE_S, run
from tests.shell.engine.torture import Step


async def holds(shell: LiveShell, step: Step) -> bool:
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
