"""The torture cases as remote shells run them, and which of them a transport cannot do."""

from anyio.abc import TaskGroup

from shiftlog.model.shell_errors import ShellEnded
from shiftlog.shell.engine.protocol import draw_token
from shiftlog.shell.ports import LiveShell, ShellSpec, Target
from tests.shell.engine.torture import CASES, Case
from tests.shell.engine.torture_check import holds
from tests.shell.remote.left import MARK, stop_marked, until_gone

#: What the transport cannot do, and why; everything else must hold.
CANNOT = {
    "a terminal gets functions and variables": "only cwd and exported variables are carried over ssh and docker",
}
#: A bash with this trap starts processes without end, so it runs where what escapes is noticed and stopped.
ENDLESS = "a debug trap that skips"


def remote_cases() -> list[Case]:
    """Return the cases that must hold on every target."""
    return [case for case in CASES if not case.local and case.name not in CANNOT and case.name != ENDLESS]


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


async def check_endless_case(target: Target, tasks: TaskGroup) -> None:
    """Run the case that starts processes without end: the shell says that it ended, and nothing of it is left."""
    [case] = [case for case in CASES if case.name == ENDLESS]
    mark = draw_token()
    try:
        await check_case(await target.open(ShellSpec(cwd="/", env={MARK: mark}), tasks), case)
        await until_gone(mark)
    finally:
        stop_marked(mark)
