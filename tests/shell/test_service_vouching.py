"""Exit codes that a program of the command could have forged are marked: in the answer, the record and its views."""

from pathlib import Path

from shiftlog.model.entry import Kind
from tests.cli.support import shiftlog
from tests.daemon.support import end_daemon
from tests.shell.rig import shell_rig

#: Changes the status that its parent, the shell, is about to report.
FORGE = r"""
import os
shell = os.getppid()
with open(f"/proc/{shell}/maps") as maps, open(f"/proc/{shell}/mem", "r+b", 0) as memory:
    for line in maps:
        bounds = line.split()[0]
        if "[heap]" in line:
            first, last = (int(bound, 16) for bound in bounds.split("-"))
            memory.seek(first)
            held = memory.read(last - first)
            at = held.find(b"TIMEFORMAT=")
            while at >= 0:
                end = held.find(b"+$?,0", at, at + 40)
                if end > 0:
                    memory.seek(first + end)
                    memory.write(b"+0 ")
                at = held.find(b"TIMEFORMAT=", at + 1)
"""


async def test_a_forged_exit_code_is_not_vouched_for(tmp_path: Path) -> None:
    async with shell_rig(tmp_path, sandbox="full-access") as rig:
        (rig.place / "forge.py").write_text(FORGE)
        ran = await rig.run("python3 forge.py; (exit 5)")
        assert ran["exit_code"] == 5 or ran["exit_code_vouched"] is False
        read = await rig.read(ran["command_id"])
        assert read["exit_code"] == 5 or read["exit_code_vouched"] is False
        (ended,) = await rig.entries(Kind.COMMAND_FINISHED)
        assert ended.facts.get("exit_code_vouched") is ran.get("exit_code_vouched")
        refused = await rig.run("if")
        assert refused["state"] == "syntax_error"
        assert "exit_code_vouched" not in refused
        stopped = await rig.run("sleep 60", timeout_s=1)
        assert stopped["exit_code"] == 124
        assert "exit_code_vouched" not in stopped
        session, is_vouched = rig.session_id, "exit_code_vouched" not in ran
    try:
        shown = shiftlog(rig.home, "show", session).out
        exported = shiftlog(rig.home, "export", session, "--format", "md").out
    finally:
        end_daemon(rig.home)
    assert ("not vouched for" not in shown) is is_vouched, shown
    assert ("not vouched for" not in exported) is is_vouched, exported


async def test_a_sandboxed_shell_vouches_for_its_exit_codes(tmp_path: Path) -> None:
    async with shell_rig(tmp_path, workspace=str(tmp_path / "place"), sandbox="workspace-write") as rig:
        (rig.place / "forge.py").write_text(FORGE)
        ran = await rig.run("python3 forge.py; (exit 5)")
        assert ran["exit_code"] == 5
        assert "exit_code_vouched" not in ran
        (ended,) = await rig.entries(Kind.COMMAND_FINISHED)
        assert "exit_code_vouched" not in ended.facts
