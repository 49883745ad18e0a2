"""The torture cases as remote shells run them, and which of them a transport cannot do."""

import asyncio

from shiftlog.model.shell_errors import ShellEnded
from shiftlog.shell.ports import LiveShell, Terminal
from tests.shell.engine_probe import PATIENCE_S, run
from tests.shell.torture import CASES, Case, Step

#: What the transport cannot do, and why; everything else must hold.
CANNOT = {
    "a debug trap that skips": "it starts processes without end, which only a reaper can be trusted to stop",
    "a terminal gets functions and variables": "only cwd and exported variables are carried over ssh and docker",
}


def remote_cases() -> list[Case]:
    """Return the cases that must hold on every target."""
    return [case for case in CASES if not case.local and case.name not in CANNOT]


async def check_case(shell: LiveShell, case: Case) -> None:
    """Run a case to its end and close the shell."""
    try:
        for step in case.steps:
            try:
                if not await _holds(shell, step):
                    return
            except ShellEnded:
                assert step.ending == "may_end"
                return
    finally:
        await shell.close()


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
