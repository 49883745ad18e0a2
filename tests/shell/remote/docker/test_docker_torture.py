"""Every torture case in a container, and the plain ones in a container that has no bash."""

import pytest
from anyio.abc import TaskGroup

from shiftlog.shell.ports import ShellSpec, Target
from shiftlog.shell.remote.docker.targets import DockerTargets
from shiftlog.shell.remote.settings import DockerSettings
from tests.shell.engine.probe import run
from tests.shell.engine.torture import Case
from tests.shell.remote.docker.engine import IMAGE, Engine
from tests.shell.remote.torture import check_case, check_endless_case, remote_cases


def _target(engine: Engine, container: str) -> Target:
    return DockerTargets(DockerSettings(), engine.environ).find({"container": container})


@pytest.mark.parametrize("case", remote_cases(), ids=lambda case: case.name)
async def test_the_shell_survives_or_says_plainly_that_it_ended(
    engine: Engine, container: str, case: Case, tasks: TaskGroup
) -> None:
    await check_case(await _target(engine, container).open(ShellSpec(cwd="/", env=case.env), tasks), case)


async def test_a_trap_that_starts_processes_without_end_ends_with_its_shell(
    engine: Engine, container: str, tasks: TaskGroup
) -> None:
    await check_endless_case(_target(engine, container), tasks)


async def test_a_container_without_bash_gets_sh_and_says_so(engine: Engine, tasks: TaskGroup) -> None:
    engine.run("plain", f"{IMAGE}-plain")
    shell = await _target(engine, "plain").open(ShellSpec(), tasks)
    try:
        assert shell.kind == "sh"
        end, sink = await run(shell, "cd /tmp; A=1; f() { echo $A; }; f; echo err >&2; false")
        assert (sink.out, sink.err, end.exit_code, end.cwd) == (b"1\n", b"err\n", 1, "/tmp")
        assert (await run(shell, "echo $?; f"))[1].out == b"1\n1\n"
    finally:
        await shell.close()
