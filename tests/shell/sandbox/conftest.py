"""Shells in a sandbox for tests: real bash, started as the engine starts it."""

import os
import shlex
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from shiftlog.shell.sandbox.detect import detect
from shiftlog.shell.sandbox.sandbox import ExecRules, JudgeSpec, Sandbox, SandboxSpec
from shiftlog.shell.sandbox.starts import ProgramStart

JUDGE = "tests.shell.sandbox.judges:NameJudge"


@dataclass
class Ran:
    """What a script did."""

    code: int
    out: str
    err: str
    starts: list[ProgramStart] = field(default_factory=list[ProgramStart])

    def verdicts(self, program: str) -> list[str]:
        return [start.verdict for start in self.starts if start.program == program]


@dataclass
class Shells:
    """Runs scripts in sandboxes; `home` is a place outside the workspace with a file worth keeping."""

    sandbox: Sandbox
    workspace: Path
    state: Path
    home: Path
    base: SandboxSpec
    env: dict[str, str]

    def run(self, script: str, spec: SandboxSpec | None = None, *, shell: str = "bash", timeout: float = 60) -> Ran:
        starts: list[ProgramStart] = []
        launch = self.sandbox.prepare(spec or self.base, starts.append)
        assert launch is not None
        try:
            wrapped = launch.wrap([shell, "-c", script], self.env, str(self.workspace))
            done = subprocess.run(
                wrapped.argv,
                env=wrapped.env,
                pass_fds=wrapped.pass_fds,
                cwd=self.workspace,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout,
                stdin=subprocess.DEVNULL,
                check=False,
            )
            launch.drain()
            return Ran(done.returncode, done.stdout, done.stderr, starts)
        finally:
            launch.close()

    def run_each(self, ways: Mapping[str, str], spec: SandboxSpec, check: str) -> list[str]:
        """Run many ways in one sandbox, each by a bash and in a directory of its own; name those that `check` finds.

        `check` is a condition that sees the way's output as `$said`.
        """
        lines: list[str] = []
        for number, way in enumerate(ways.values()):
            quoted = shlex.quote(way)
            lines.append(
                f"cd {self.workspace}/way{number} && said=$(timeout 20 bash -c {quoted} 2>/dev/null </dev/null)"
            )
            lines.append(f"if {check}; then echo FOUND {number}; fi")
        script = self.workspace / "ways.sh"
        script.write_text("\n".join(lines) + "\n")
        ran = self.run(f". {script}", spec, timeout=110)
        script.unlink()
        names = list(ways)
        found = [names[int(line.split()[1])] for line in ran.out.splitlines() if line.startswith("FOUND ")]
        assert ran.code == 0, ran.err[-2000:]
        return found

    def make_places(self, count: int) -> list[Path]:
        """Make the directories for `run_each`."""
        places = [self.workspace / f"way{number}" for number in range(count)]
        for place in places:
            place.mkdir()
        return places

    def denying(self, *names: str, **changes: object) -> SandboxSpec:
        rules = ExecRules(deny=names, search_path=self.env["PATH"])
        judge = JudgeSpec(factory=JUDGE, options={"deny": list(names)})
        return replace(self.base, rules=rules, judge=judge, **changes)  # pyright: ignore[reportArgumentType]

    def allowing(self, *names: str, **changes: object) -> SandboxSpec:
        rules = ExecRules(allow=names, search_path=self.env["PATH"])
        judge = JudgeSpec(factory=JUDGE, options={"allow": list(names)})
        return replace(self.base, rules=rules, judge=judge, **changes)  # pyright: ignore[reportArgumentType]


@pytest.fixture
def make_shells(tmp_path: Path) -> Iterator[Callable[..., Shells]]:
    """Make sandboxes in this process's thread or in a supervisor process, with or without bubblewrap."""
    made: list[Sandbox] = []

    def make(mode: str = "full-access", *, bwrap: bool = False, process: bool = False, **changes: object) -> Shells:
        machine = detect()
        if bwrap and machine.bwrap is None:
            pytest.skip(machine.why["bwrap"])
        sandbox = Sandbox(replace(machine, supervisor_process=process and machine.supervisor_process), use_bwrap=bwrap)
        made.append(sandbox)
        places = [tmp_path / name for name in ("workspace", "state", "home")]
        for place in places:
            place.mkdir(exist_ok=True)
        workspace, state, home = places
        (home / "keep.txt").write_text("precious\n")
        (state / "secret.key").write_text("private key\n")
        base = SandboxSpec(
            mode=mode,  # pyright: ignore[reportArgumentType]
            state_dir=str(state),
            workspace=str(workspace),
            cwd=str(workspace),
            **changes,  # pyright: ignore[reportArgumentType]
        )
        env = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "OUT": str(home), "STATE": str(state)}
        return Shells(sandbox, workspace, state, home, base, env)

    yield make
    for sandbox in made:
        sandbox.close()


def needs_broker() -> pytest.MarkDecorator:
    """Skip, saying why, where the kernel has no notifications for us."""
    machine = detect()
    return pytest.mark.skipif(not machine.exec_broker, reason=machine.why.get("exec_broker", ""))


def needs_confinement() -> pytest.MarkDecorator:
    """Skip, saying why, where files cannot be confined."""
    machine = detect()
    return pytest.mark.skipif(not machine.landlock_abi, reason=machine.why.get("landlock", ""))
