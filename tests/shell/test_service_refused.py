"""Commands that never run, or not yet: what is recorded and can be read of them, and what waiting may not change."""

import asyncio
import os
import shutil
import signal
import time
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from shiftlog.model.entry import Kind
from shiftlog.model.errors import InvalidParameter, SessionClosed
from shiftlog.model.shell_errors import (
    ApprovalDeclined,
    ApprovalRequired,
    CursorInvalid,
    OpenFailed,
    PolicyDenied,
    PolicyUndecidable,
    ShellBusy,
    ShellEnded,
    ShellLimit,
    WorkspaceInvalid,
)
from shiftlog.shell.ports import CallCancelled
from shiftlog.shell.requests import NATIVE
from tests.shell.rig import CLIENT, ShellRig, shell_rig, until


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncGenerator[ShellRig]:
    async with shell_rig(tmp_path) as rig:
        yield rig


async def test_what_a_syntax_error_says_is_read_and_shaped_like_any_output(rig: ShellRig) -> None:
    result = await rig.run("echo 'abc", budget={"grep": {"pattern": "zzz"}})
    assert result["stderr"] == "... 1 lines elided ..."
    assert result["budget"]["stderr"] == {"mode": "grep", "lines_total": 1, "lines_kept": 0}
    asked = result["command_id"]
    first = await rig.read(asked, stream="stderr", max_chars=12)
    rest = await rig.read(asked, stream="stderr", cursor=first["next_cursor"])
    assert first["text"] == "syntax error"
    assert (first["text"] + rest["text"]).endswith("is never closed\n")
    assert (rest["eof"], rest["bytes_total"]) == (True, result["output"]["stderr"]["bytes"])
    with pytest.raises(CursorInvalid):
        await rig.read(asked, stream="stderr", cursor="o1.1.0.deadbeef")


async def test_commands_that_never_ran_are_actions_of_the_open_turn(tmp_path: Path) -> None:
    async with shell_rig(tmp_path, deny=["ls"]) as rig:
        named = {"session_id": rig.session_id, "query_title": "Look", "query_text": "Look around"}
        turn = (await rig.app.sessions.begin_turn(named, CLIENT))["request_id"]
        with pytest.raises(PolicyDenied):
            await rig.run("ls")
        assert (await rig.run("echo 'abc"))["request_id"] == turn
        ends = await rig.entries(Kind.COMMAND_FINISHED)
        assert [(entry.turn, entry.facts["state"]) for entry in ends] == [(turn, "refused"), (turn, "syntax_error")]
        actions = await rig.entries(Kind.ACTION)
        assert [(entry.facts["description"], entry.facts["status"]) for entry in actions] == [
            ("ls", "failed"),
            ("echo 'abc", "failed"),
        ]


async def test_a_closed_session_takes_no_refusal_either(tmp_path: Path) -> None:
    async with asyncio.timeout(4), shell_rig(tmp_path, deny=["ls"]) as rig:  # and keeps nothing from ending
        await rig.run("read x", background=True, stdin="open")
        await rig.app.continuity.close_session({"session_id": rig.session_id}, CLIENT)
        count = len(await rig.entries())
        for text in ("ls", "echo 'abc"):
            with pytest.raises(SessionClosed):
                await rig.run(text)
        assert len(await rig.entries()) == count


@pytest.mark.parametrize("size", [1 << 20, (1 << 20) + 1])
async def test_input_is_measured_in_bytes(rig: ShellRig, size: int) -> None:
    text = "é" * (size // 2) + "e" * (size % 2)
    begun = await rig.run("cat > /dev/null", background=True, stdin="open")
    if size <= 1 << 20:
        assert await rig.out("wc -c", input=text) == str(size)
        assert (await rig.send(begun["command_id"], text=text))["bytes_written"] == size
        return
    for asked in (rig.run("wc -c", input=text), rig.send(begun["command_id"], text=text)):
        with pytest.raises(InvalidParameter, match="at most 1048576 bytes"):
            await asked


async def test_a_secret_that_a_cut_would_split_is_masked_first(rig: ShellRig) -> None:
    token = "ghp_" + "a1B2" * 9
    begun = await rig.run("cat", background=True, stdin="open")
    await rig.send(begun["command_id"], text="x" * 1985 + " " + token + " " + "y" * 3000)
    [entry] = await rig.entries(Kind.COMMAND_INPUT)
    assert token[:12] not in entry.facts["text"]


async def test_a_workspace_with_a_nul_in_its_name_cannot_be_used(rig: ShellRig) -> None:
    with pytest.raises(WorkspaceInvalid):
        await rig.open(workspace="/a\0b")


async def test_a_declined_command_is_recorded_as_refused(tmp_path: Path) -> None:
    async with shell_rig(tmp_path, settings='[policy]\nask = ["touch"]\n') as rig:

        async def no(question: str) -> bool:
            return False

        with pytest.raises(ApprovalDeclined):
            await rig.shells.commands.run_command(
                {"shell_id": rig.shell_id, "command": "touch f"}, CLIENT, None, NATIVE, no
            )
        [entry] = await rig.entries(Kind.COMMAND_FINISHED)
        assert (entry.facts["state"], entry.facts["verdict"]) == ("refused", "asked")
        assert entry.facts["refusal"]["message"] == "approval declined"


async def test_an_approval_outlives_a_shell_that_was_busy(tmp_path: Path) -> None:
    async with shell_rig(tmp_path, settings='[policy]\nask = ["touch"]\n') as rig:
        rig.shells.approvals.wait_s = 0.05
        with pytest.raises(ApprovalRequired) as required:
            await rig.run("touch f")
        await rig.shells.approvals.decide(str(required.value.details["approval_id"]), granted=True, by="operator")
        begun = await rig.run("cat", stdin="open", timeout_s=1, on_timeout="keep_running")
        with pytest.raises(ShellBusy):
            await rig.run("touch f")
        await rig.send(begun["command_id"], eof=True)
        assert (await rig.run("touch f", wait_idle_s=5))["exit_code"] == 0
        with pytest.raises(ApprovalRequired):
            await rig.run("touch f")


async def test_a_command_that_waited_starts_and_is_judged_where_the_shell_stands_then(tmp_path: Path) -> None:
    there = tmp_path / "place" / "there"
    async with shell_rig(tmp_path, allow=["echo", "mkdir", "sleep", "pwd"]) as rig:
        first = asyncio.ensure_future(rig.run(f"mkdir {there}; sleep .5; cd {there}; f() {{ echo from f; }}"))
        await until(lambda: rig.shells.registry.shells[rig.shell_id].running)
        second = asyncio.ensure_future(rig.run("g() { f; }; f; pwd", wait_idle_s=5))
        third = asyncio.ensure_future(rig.run("f; pwd", wait_idle_s=5))
        aside = asyncio.ensure_future(rig.run("pwd", background=True, wait_idle_s=5))
        assert (await first)["exit_code"] == 0
        assert (await second)["stdout"] == f"from f\n{there}"
        assert (await third)["stdout"] == f"from f\n{there}"
        assert (await aside)["cwd"] == str(there)
        started = {entry.facts["command"]: entry.facts["cwd"] for entry in await rig.entries(Kind.COMMAND_STARTED)}
        assert started["f; pwd"] == str(there)


async def test_a_shell_idles_from_the_end_of_its_last_background_command_on(rig: ShellRig) -> None:
    shell = rig.shells.registry.shells[rig.shell_id]
    begun = await rig.run("cat", background=True, stdin="open")
    shell.idle_since = time.monotonic() - 5000
    await rig.send(begun["command_id"], eof=True)
    await rig.read(begun["command_id"], wait_s=5, wait_for="end")
    assert (await rig.shells.list_shells({}, CLIENT))["shells"][0]["idle_s"] < 60


async def test_background_commands_that_begin_at_once_do_not_pass_the_limit(tmp_path: Path) -> None:
    async with shell_rig(tmp_path, settings="[policy.limits]\nbackground = 3\n") as rig:
        asked = [rig.run("sleep 30", background=True) for _ in range(8)]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert sum(isinstance(answer, dict) for answer in answers) == 3
        assert sum(isinstance(answer, ShellLimit) for answer in answers) == 5


async def test_a_path_that_the_caller_gives_does_not_choose_the_shell(tmp_path: Path) -> None:
    fake = tmp_path / "bin" / "bash"
    fake.parent.mkdir()
    fake.write_text('#!/bin/sh\ntouch "$0.ran"\n')
    fake.chmod(0o755)
    async with shell_rig(tmp_path, env={"PATH": str(fake.parent)}) as rig:
        assert await rig.out("echo $PATH $BASH") == f"{fake.parent} {shutil.which('bash')}"
        assert not fake.with_name("bash.ran").exists()


@pytest.mark.parametrize(
    ("lists", "env", "refusal"),
    [
        ({"deny": ["ls"]}, {"GIT_CONFIG_VALUE_0": "!ls /"}, PolicyDenied),
        ({"deny": ["ls"]}, {"PS4": "$(ls)"}, PolicyDenied),
        ({"deny": ["ls"]}, {"A": "1", "PAGER": "ls"}, PolicyDenied),
        ({"allow": ["git"]}, {"LD_PRELOAD": "x.so"}, PolicyUndecidable),
        ({"allow": ["git"]}, {"GIT_SSH_COMMAND": "nc -i x"}, PolicyUndecidable),
        ({"deny": ["ls"]}, {"A": "$(date)", "B": "it's; ls", "PATH": "/x", "PAGER": "less"}, None),
        ({}, {"PAGER": "ls", "LD_PRELOAD": "x.so"}, None),
    ],
)
async def test_where_only_text_is_checked_variables_of_a_shell_start_no_denied_program(
    tmp_path: Path, lists: dict[str, list[str]], env: dict[str, str], refusal: type[Exception] | None
) -> None:
    async with shell_rig(tmp_path, shell=False) as rig:
        rules = rig.shells.opener.policy
        values = {"transport": "docker", "container": "c", "env": env, **lists}
        if refusal is None:
            (await rules.guard(values)).close()
            return
        with pytest.raises(refusal):
            await rules.guard(values)


async def test_a_shell_that_ends_while_it_starts_says_so_in_the_words_of_open_failed(tmp_path: Path) -> None:
    (tmp_path / ".bash_profile").write_text("exit 7\n")
    async with shell_rig(tmp_path, shell=False) as rig:
        with pytest.raises(OpenFailed) as failed:
            await rig.open(env={"HOME": str(tmp_path)}, login=True)
        reason = failed.value.details["reason"]
        assert failed.value.message == f"shell could not be started: {reason}"
        assert failed.value.details["stderr"] == ""


async def test_every_command_that_a_dead_server_left_running_becomes_unknown(rig: ShellRig) -> None:
    named = {"session_id": rig.session_id, "query_title": "Build", "query_text": "Build it"}
    turn = (await rig.app.sessions.begin_turn(named, CLIENT))["request_id"]
    journal, shell_id = rig.shells.journal, "dead-1_local"
    await journal.shell_opened(rig.session_id, {"shell_id": shell_id, "transport": "local", "cwd": "/"})
    facts = [
        {"shell_id": shell_id, "command_id": f"{shell_id}#{number}", "command": f"sleep {number}", "cwd": "/"}
        for number in (1, 2, 3, 4)
    ]
    for one in facts:
        await journal.command_started(rig.session_id, one, CLIENT, waited_for=False)
    for one in (facts[3], facts[1]):
        await journal.command_finished(rig.session_id, turn, {**one, "state": "finished", "exit_code": 0})
    await rig.shells.recover()
    ends = {str(entry.facts["command_id"]): entry for entry in await rig.entries(Kind.COMMAND_FINISHED)}
    left = [ends[f"{shell_id}#{number}"] for number in (1, 3)]
    assert [(entry.facts["state"], entry.facts["exit_code"], entry.turn) for entry in left] == [
        ("unknown", None, turn)
    ] * 2
    listed = (await rig.shells.list_shells({"include_ended": True}, CLIENT))["shells"]
    [row] = [row for row in listed if row["shell_id"] == shell_id]
    assert (row["ended_reason"], row["last_command"]["command_id"]) == ("server_stopped", f"{shell_id}#4")
    assert row["last_command"]["state"] == "finished"


async def test_refusals_and_faults_repeat_no_secret_that_the_shell_has_learned(tmp_path: Path) -> None:
    async with shell_rig(tmp_path, deny=["ls"]) as rig:
        await rig.run("export DB_PASSWORD=tr0ub4dor-and-3")
        with pytest.raises(PolicyDenied) as denied:
            await rig.run("/x/tr0ub4dor-and-3/ls")
        assert "tr0ub4dor" not in f"{denied.value.message}{denied.value.details}"
        broken = await rig.run("cat <<tr0ub4dor-and-3\nx")
        assert "[REDACTED:learned]" in broken["syntax_error"]["message"]
        assert "tr0ub4dor" not in str(broken)
        assert "tr0ub4dor" not in str([entry.facts for entry in await rig.entries(Kind.COMMAND_FINISHED)])


async def test_the_label_of_a_checkpoint_is_masked_before_it_is_kept(tmp_path: Path) -> None:
    token = "ghp_" + "a1B2" * 9
    async with shell_rig(tmp_path, workspace=str(tmp_path / "place")) as rig:
        saved = await rig.app.workspaces.create_checkpoint({"shell_id": rig.shell_id, "label": f"with {token}"}, CLIENT)
        assert saved["label"] == "with [REDACTED:github]"
        listed = await rig.app.workspaces.list_checkpoints({"shell_id": rig.shell_id}, CLIENT)
        assert listed["checkpoints"][0]["label"] == saved["label"]


@pytest.mark.parametrize("how", [{}, {"background": True}, {"pty": True}])
async def test_a_request_taken_back_while_its_command_begins_leaves_the_shell_free(
    rig: ShellRig, how: dict[str, bool]
) -> None:
    shell = rig.shells.registry.shells[rig.shell_id]
    for turns in range(0, 60, 3):
        asked = asyncio.ensure_future(rig.run("sleep 30", **how))
        for _ in range(turns):
            await asyncio.sleep(0)
        asked.cancel()
        try:
            begun = (await asked)["command_id"]
        except CallCancelled as taken_back:
            begun = taken_back.command_id
        except asyncio.CancelledError:
            continue
        await rig.shells.commands.cancel(begun)
        await until(lambda: shell.state == "idle" and not shell.running)
    started = {str(entry.facts["command_id"]) for entry in await rig.entries(Kind.COMMAND_STARTED)}
    ended = {str(entry.facts["command_id"]) for entry in await rig.entries(Kind.COMMAND_FINISHED)}
    assert started <= ended


async def test_a_shell_that_was_killed_says_so_to_whoever_comes_next(rig: ShellRig) -> None:
    shell = rig.shells.registry.shells[rig.shell_id]
    assert shell.live.pid is not None
    os.kill(shell.live.pid, signal.SIGKILL)
    [answer] = await asyncio.gather(rig.run("echo hi"), return_exceptions=True)
    if isinstance(answer, ShellEnded):
        answer = {"ended_reason": answer.details["ended_reason"]}
    assert isinstance(answer, dict)
    assert answer["ended_reason"] == "killed"
    with pytest.raises(ShellEnded, match=r"ended \(killed\)"):
        await rig.run("echo hi")
    assert not shell.running


@pytest.mark.parametrize("text", ["ulimit -n 5", "ulimit -n 7", "ulimit -n 9; exec 3</dev/null 4</dev/null"])
async def test_a_shell_that_may_open_no_more_files_is_ended_instead_of_failing_commands(
    rig: ShellRig, text: str
) -> None:
    assert (await rig.run(text))["exit_code"] == 0
    for _ in range(2):
        with pytest.raises(ShellEnded, match=r"ended \(killed\): it may open too few files .*ulimit -n"):
            await rig.run("echo hi")


async def test_a_shell_with_few_files_left_still_runs_commands(rig: ShellRig) -> None:
    await rig.run("ulimit -n 9")
    assert await rig.out("echo $(echo hi) | cat") == "hi"
