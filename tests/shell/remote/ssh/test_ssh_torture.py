"""Every torture case over ssh, in bash and the plain ones in sh."""

import pytest
from anyio.abc import TaskGroup

from shiftlog.shell.ports import ShellSpec, Target
from shiftlog.shell.remote.ssh.targets import SshTargets
from tests.shell.engine.torture import Case
from tests.shell.remote.ssh.server import USER, SshServer
from tests.shell.remote.torture import check_case, check_endless_case, remote_cases


@pytest.fixture
def target(server: SshServer) -> Target:
    values = {"host": "127.0.0.1", "port": server.port, "user": USER}
    return SshTargets(server.settings).find(values)


@pytest.mark.parametrize("case", remote_cases(), ids=lambda case: case.name)
async def test_the_shell_survives_or_says_plainly_that_it_ended(target: Target, case: Case, tasks: TaskGroup) -> None:
    await check_case(await target.open(ShellSpec(cwd="/", env=case.env), tasks), case)


async def test_a_trap_that_starts_processes_without_end_ends_with_its_shell(target: Target, tasks: TaskGroup) -> None:
    await check_endless_case(target, tasks)
