"""The torture cases as remote shells run them, and which of them a transport cannot do."""

from shiftlog.model.shell_errors import ShellEnded
from shiftlog.shell.ports import LiveShell
from tests.shell.torture import CASES, Case
from tests.shell.torture_check import holds

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
                if not await holds(shell, step):
                    return
            except ShellEnded:
                assert step.ending == "may_end"
                return
    finally:
        await shell.close()
