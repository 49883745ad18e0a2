"""What the exec broker costs: thousands of starts of /bin/true from one bash, bare and supervised, in turns.

Run with `python -m bench.broker [STARTS]`. Every start has arguments of its own. The bare loop has no kernel rule.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time

from bench.tables import print_table
from shiftlog.guard.policy.lists import ShellRules, entries
from shiftlog.shell.sandbox.judging import exec_rules, judge_spec
from shiftlog.shell.sandbox.sandbox import Sandbox, SandboxSpec

STARTS = 5000
ROUNDS = 10


def main(starts: int = STARTS) -> None:
    """Measure and print."""
    sandbox = Sandbox()
    if not sandbox.capabilities.exec_broker:
        print(f"bench: no exec broker here: {sandbox.capabilities.why}")
        return
    with tempfile.TemporaryDirectory() as workspace, tempfile.TemporaryDirectory() as state:
        rules = ShellRules(
            deny=entries(("shutdown", "curl", "git push --force"), "operator", "deny"),
            path=os.environ.get("PATH", "/usr/bin:/bin"),
        )
        lists, judge = exec_rules(rules), judge_spec(rules)
        ways = {
            "bare bash": None,
            "workspace-write": SandboxSpec(mode="workspace-write", state_dir=state, cwd=workspace, workspace=workspace),
            "full-access, deny list": SandboxSpec(
                mode="full-access", state_dir=state, cwd=workspace, rules=lists, judge=judge
            ),
        }
        rounds: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(ROUNDS):  # in turns and by the median, so that a busy moment of the machine falls on nobody
            for name, spec in ways.items():
                rounds[name].append(_measure(sandbox, spec, workspace, starts // ROUNDS))
    sandbox.close()
    spans = {name: statistics.median(times) * ROUNDS for name, times in rounds.items()}
    bare = spans["bare bash"]
    rows = [
        [
            name,
            f"{span:.2f} s",
            f"{span / starts * 1000:.3f} ms",
            f"{(span - bare) / starts * 1000:.3f} ms",
            f"{span / bare:.2f}×",
        ]
        for name, span in spans.items()
    ]
    header = ["how", f"{starts} starts", "each", "added", "÷ bare"]
    print_table("Starting programs: /bin/true in a loop", header, rows)


def _measure(sandbox: Sandbox, spec: SandboxSpec | None, cwd: str, starts: int) -> float:
    """Time the loop inside the shell, so that opening the sandbox is not counted."""
    script = f'read -r; for ((i = 0; i < {starts}; i++)); do /bin/true "$i"; done; echo "$i"'
    command, environment, fds = ["bash", "-c", script], dict(os.environ), ()
    launch = None if spec is None else sandbox.prepare(spec)
    if launch is not None:
        wrapped = launch.wrap(command, environment, cwd)
        command, environment, fds = wrapped.argv, wrapped.env, wrapped.pass_fds
    with subprocess.Popen(
        command, env=environment, pass_fds=fds, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as shell:
        assert shell.stdin is not None
        assert shell.stdout is not None
        if launch is not None:
            launch.started()
            while launch.shell_pid is None and shell.poll() is None:
                time.sleep(0.01)
        begun = time.perf_counter()
        shell.stdin.write(b"go\n")
        shell.stdin.flush()
        answer = shell.stdout.readline()
        span = time.perf_counter() - begun
    if launch is not None:
        launch.drain()
        launch.close()
    if answer.strip() != str(starts).encode():
        raise RuntimeError(f"the loop did not finish: {answer!r}")
    return span


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else STARTS)
