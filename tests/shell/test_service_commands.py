"""Commands in a shell as agents see them: the shell half of the contract's acceptance cases, on a real bash."""

import asyncio
import os
import signal
import subprocess
import sys
import time
import unicodedata
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

import pytest

from shiftlog.model.entry import Kind
from shiftlog.model.errors import InvalidParameter, LeaseLost, SessionClosed
from shiftlog.model.limits import ENDED_SHELLS_MOST
from shiftlog.model.shell_errors import (
    BudgetInvalid,
    CommandNotFound,
    CommandNotRunning,
    CommandTooLarge,
    CursorInvalid,
    ShellBusy,
    ShellEnded,
    ShellLimit,
    ShellNotFound,
    StdinClosed,
)
from shiftlog.shell.ports import CallCancelled
from tests.shell.rig import CLIENT, ShellRig, shell_rig, until


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncGenerator[ShellRig]:
    async with shell_rig(tmp_path) as rig:
        yield rig


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


async def test_case_1_cwd_variables_and_functions_stay(rig: ShellRig) -> None:
    await rig.run("cd /tmp; export A=1; f(){ echo $A; }")
    result = await rig.run("f; pwd")
    assert result["stdout"] == "1\n/tmp"
    assert result["cwd"] == "/tmp"


async def test_case_2_streams_are_split_and_a_non_zero_exit_is_a_result(rig: ShellRig) -> None:
    result = await rig.run("echo out; echo err >&2; false")
    assert (result["stdout"], result["stderr"], result["exit_code"], result["state"]) == ("out", "err", 1, "finished")
    assert result["recorded"]
    assert result["state_kept"]


async def test_case_3_a_virtual_environment_never_pollutes_output(rig: ShellRig) -> None:
    await rig.run(f"{sys.executable} -m venv --without-pip v")
    await rig.run("source v/bin/activate")
    assert await rig.out("echo hi") == "hi"
    assert await rig.out("deactivate; echo hi") == "hi"


async def test_case_6_exit_ends_the_shell_and_says_so(rig: ShellRig) -> None:
    result = await rig.run("echo bye; exit 3")
    assert (result["stdout"], result["exit_code"]) == ("bye", 3)
    assert (result["shell_state"], result["ended_reason"]) == ("ended", "exited")
    with pytest.raises(ShellEnded) as ended:
        await rig.run("true")
    assert ended.value.details["exit_code"] == 3


async def test_case_7_set_e_and_exec_end_the_shell(rig: ShellRig) -> None:
    result = await rig.run("set -e; false")
    assert (result["exit_code"], result["shell_state"]) == (1, "ended")
    await rig.open()
    result = await rig.run("exec printf x")
    assert (result["stdout"], result["exit_code"], result["shell_state"]) == ("x", 0, "ended")


async def test_case_8_a_timeout_ends_the_command_and_the_shell_keeps_its_state(rig: ShellRig) -> None:
    await rig.run("A=7")
    start = time.monotonic()
    result = await rig.run("echo p; sleep 60", timeout_s=1)
    assert time.monotonic() - start < 30
    assert (result["exit_code"], result["timed_out"], result["stdout"]) == (124, True, "p")
    assert result["state"] == "timed_out"
    assert await rig.out("echo $A") == "7"


async def test_case_9_a_child_that_ignores_interrupts_is_ended_all_the_same(rig: ShellRig) -> None:
    await rig.run("A=7")
    start = time.monotonic()
    result = await rig.run("""bash -c "trap '' INT; echo p; sleep 60" """, timeout_s=1)
    assert time.monotonic() - start < 30
    assert (result["exit_code"], result["stdout"], result["shell_state"]) == (124, "p", "idle")
    assert await rig.out("echo $A") == "7"


async def test_case_10_a_loop_in_the_shell_itself_is_interrupted(rig: ShellRig) -> None:
    await rig.run("A=7")
    result = await rig.run("while :; do :; done", timeout_s=1)
    assert (result["exit_code"], result["shell_state"]) == (124, "idle")
    assert await rig.out("echo $A") == "7"


async def test_case_11_a_cancelled_command_does_not_go_on(rig: ShellRig) -> None:
    running = asyncio.ensure_future(rig.run("sleep 60; touch done"))
    await until(lambda: rig.shells.registry.shells[rig.shell_id].running)
    running.cancel()
    with pytest.raises(CallCancelled) as cancelled:
        await running
    await rig.shells.commands.cancel(cancelled.value.command_id)
    assert rig.shells.registry.shells[rig.shell_id].state == "idle"
    [finished] = await rig.entries(Kind.COMMAND_FINISHED)
    assert (finished.facts["state"], finished.facts["exit_code"]) == ("cancelled", 130)
    assert await rig.out("ls") == ""


async def test_case_12_closing_ends_what_runs(rig: ShellRig) -> None:
    running = asyncio.ensure_future(rig.run("sleep 5; touch f"))
    await until(lambda: rig.shells.registry.shells[rig.shell_id].running)
    start = time.monotonic()
    closed = await rig.close()
    assert time.monotonic() - start < 5
    assert closed["stopped_commands"] == [f"{rig.shell_id}#1"]
    assert (await running)["state"] == "cancelled"
    assert not (rig.place / "f").exists()
    again = await rig.close()
    assert again["already_ended"]


async def test_case_13_closing_ends_the_whole_tree(rig: ShellRig) -> None:
    text = await rig.out("nohup sleep 999 >/dev/null 2>&1 & echo $!; setsid sleep 998 >/dev/null 2>&1 & echo $!")
    pids = [int(pid) for pid in text.split()]
    assert all(map(alive, pids))
    await rig.close()
    await until(lambda: not any(map(alive, pids)), 5)


async def test_case_14_background_commands_answer_at_once_and_can_be_waited_for(rig: ShellRig) -> None:
    begun = await rig.run("for i in 1 2 3; do echo $i; sleep .2; done", background=True)
    assert (begun["state"], begun["exit_code"], begun["state_kept"]) == ("running", None, False)
    assert await rig.out("echo meanwhile") == "meanwhile"
    page = await rig.read(begun["command_id"], wait_s=10, wait_for="end")
    assert (page["text"], page["eof"], page["exit_code"], page["state"]) == ("1\n2\n3\n", True, 0, "finished")


async def test_case_15_a_command_may_run_on_after_its_answer(rig: ShellRig) -> None:
    result = await rig.run("sleep 3; echo x", timeout_s=1, on_timeout="keep_running")
    assert (result["state"], result["shell_state"], result["exit_code"]) == ("running", "busy", None)
    page = await rig.read(result["command_id"], wait_s=10, wait_for="end")
    assert page["text"] == "x\n"
    assert rig.shells.registry.shells[rig.shell_id].state == "idle"


async def test_case_16_stdin_is_closed_unless_asked_for(rig: ShellRig) -> None:
    result = await rig.run("cat")
    assert (result["stdout"], result["exit_code"]) == ("", 0)
    begun = await rig.run("cat", background=True, stdin="open")
    sent = await rig.send(begun["command_id"], text="hi\n", eof=True)
    assert (sent["bytes_written"], sent["eof"]) == (3, True)
    page = await rig.read(begun["command_id"], wait_s=10, wait_for="end")
    assert (page["text"], page["exit_code"]) == ("hi\n", 0)


async def test_case_17_a_signal_ends_the_command_and_never_the_shell(rig: ShellRig) -> None:
    begun = await rig.run("sleep 60", background=True)
    await rig.send(begun["command_id"], signal="interrupt")
    page = await rig.read(begun["command_id"], wait_s=1, wait_for="end")
    assert (page["state"], page["exit_code"]) == ("finished", 130)
    assert rig.shells.registry.shells[rig.shell_id].state == "idle"
    with pytest.raises(CommandNotRunning):
        await rig.send(begun["command_id"], signal="interrupt")


async def test_case_18_a_terminal_only_on_request(rig: ShellRig) -> None:
    assert (await rig.run("test -t 1"))["exit_code"] == 1
    result = await rig.run("test -t 1", pty=True)
    assert (result["exit_code"], result["state_kept"]) == (0, False)


@pytest.mark.parametrize("text", ["one line", "one\ntwo\n", ""])
async def test_input_on_a_terminal_is_typed_and_then_ended(rig: ShellRig, text: str) -> None:
    result = await rig.run("tr a-z A-Z; echo; echo over", input=text, pty=True, timeout_s=10)
    assert (result["state"], result["stdout"].splitlines()[-1]) == ("finished", "over")
    assert all(line.upper() in result["stdout"] for line in text.splitlines())


async def test_end_of_file_after_an_unfinished_line_ends_the_input_of_a_terminal(rig: ShellRig) -> None:
    begun = await rig.run("cat", background=True, pty=True)
    await rig.send(begun["command_id"], text="half a line", eof=True)
    page = await rig.read(begun["command_id"], wait_s=10, wait_for="end")
    assert (page["state"], page["exit_code"]) == ("finished", 0)


async def test_case_19_a_busy_shell_says_so_or_is_waited_for(rig: ShellRig) -> None:
    first = asyncio.ensure_future(rig.run("sleep 1"))
    await until(lambda: rig.shells.registry.shells[rig.shell_id].running)
    with pytest.raises(ShellBusy) as busy:
        await rig.run("true")
    assert busy.value.details["command_id"] == f"{rig.shell_id}#1"
    assert await rig.out("echo after", wait_idle_s=5) == "after"
    assert (await first)["exit_code"] == 0


async def test_case_20_a_command_of_a_megabyte_runs_and_its_echo_is_cut(rig: ShellRig) -> None:
    start = time.monotonic()
    result = await rig.run(f": '{'x' * (1 << 20)}'\necho ok")
    assert time.monotonic() - start < 30  # half a second; time that grows with the square would take hours
    assert result["stdout"] == "ok"
    assert len(result["command"]) < 2_100
    with pytest.raises(CommandTooLarge):
        await rig.run("x" * ((4 << 20) + 1))


async def test_case_21_binary_output_is_shown_printable_and_cut(rig: ShellRig) -> None:
    result = await rig.run("head -c 300 /dev/urandom")
    stdout = result["output"]["stdout"]
    assert (stdout["bytes"], stdout["binary"]) == (300, True)
    assert not [char for char in result["stdout"] if unicodedata.category(char) == "Cc" and char not in "\t\n"]
    assert len(result["stdout"]) < 1_100


async def test_case_24_output_is_told_while_the_command_runs(rig: ShellRig) -> None:
    told: list[tuple[str, bool]] = []

    async def progress(total: int, newest: str) -> None:
        told.append((newest, (rig.place / "second").exists()))

    command = "echo one; sleep .5; touch second; echo two; sleep .5; echo three"
    await rig.shells.commands.run_command({"shell_id": rig.shell_id, "command": command}, CLIENT, progress)
    assert told[0] == ("one\n", False)


async def test_progress_grows_with_each_message_also_when_a_held_line_is_shown(rig: ShellRig) -> None:
    told: list[tuple[int, str]] = []

    async def progress(total: int, newest: str) -> None:
        told.append((total, newest))

    command = "printf 'one\\ntwo'; sleep 2.5"
    await rig.shells.commands.run_command({"shell_id": rig.shell_id, "command": command}, CLIENT, progress)
    assert [newest for _, newest in told] == ["one\n", "two"]
    assert told[0][0] < told[1][0]


async def test_case_25_unknown_arguments_are_named_and_nothing_is_opened(rig: ShellRig) -> None:
    before = rig.shells.registry.live_ids()
    with pytest.raises(InvalidParameter) as refused:
        await rig.open(cwdd="/")
    assert refused.value.details["parameter"] == "cwdd"
    assert refused.value.details["problem"] == "unknown"
    assert refused.value.message == 'unknown argument "cwdd"'
    with pytest.raises(InvalidParameter, match=r"budget\.keep\.lines"):
        await rig.run("true", budget={"keep": {"mode": "tail", "lines": 3}})
    with pytest.raises(InvalidParameter, match=r'^argument "command" must be a string that is not empty$'):
        await rig.run("")
    assert rig.shells.registry.live_ids() == before


async def test_case_27_and_28_a_faulty_budget_is_named_before_anything_runs(rig: ShellRig) -> None:
    with pytest.raises(BudgetInvalid, match=r"budget\.keep\.n"):
        await rig.run("touch f", budget={"keep": {"mode": "tail"}})
    for pattern, says in (("[", "not valid"), ("a(?=b)", "look")):
        with pytest.raises(BudgetInvalid, match=says):
            await rig.run("touch f", budget={"grep": {"pattern": pattern}})
    assert not (rig.place / "f").exists()


async def test_case_30_a_budget_of_the_call_replaces_the_one_of_the_shell(tmp_path: Path) -> None:
    async with shell_rig(tmp_path, output_budget={"keep": {"mode": "tail", "n": 1}}) as rig:
        assert await rig.out("seq 1 3") == "... 2 lines elided ...\n3"
        assert await rig.out("seq 1 3", budget={"max_chars": 5}) == "1\n2\n3"


async def test_case_31_and_32_output_is_paged_and_shaped_again_without_running(rig: ShellRig) -> None:
    result = await rig.run("seq 1 100000")
    pages: list[str] = []
    cursor: str | None = None
    while True:
        page = await rig.read(result["command_id"], **({"cursor": cursor} if cursor else {}))
        pages.append(page["text"])
        cursor = page["next_cursor"]
        if page["eof"]:
            break
    assert "".join(pages) == "".join(f"{n}\n" for n in range(1, 100_001))
    found = await rig.read(result["command_id"], budget={"grep": {"pattern": "^77777$"}})
    assert "77777" in found["text"]
    assert found["budget"]["lines_total"] == 100_000
    with pytest.raises(CursorInvalid):
        await rig.read(result["command_id"], cursor="nonsense")


async def test_case_33_a_child_left_behind_writes_into_no_other_command(rig: ShellRig) -> None:
    result = await rig.run("(until [ -e go ]; do sleep 0.05; done; echo late; touch gone) &")
    assert result["output"]["stdout"]["open"]
    assert await rig.out("touch go; until [ -e gone ]; do sleep 0.05; done; echo clean") == "clean"
    assert (await rig.read(result["command_id"], wait_s=3, wait_for="end"))["text"] == "late\n"


async def test_case_42_a_printed_token_is_masked_everywhere(rig: ShellRig) -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    result = await rig.run(f"printf '%s%s\\n' ghp_ {token[4:]}")
    assert result["stdout"].startswith("[REDACTED:")
    assert result["redactions"] == 1
    page = await rig.read(result["command_id"])
    assert token not in page["text"]
    for path in rig.home.rglob("*"):
        if path.is_file():
            assert token.encode() not in path.read_bytes(), path


async def test_case_43_source_code_is_not_masked(rig: ShellRig) -> None:
    (rig.place / "a.ts").write_text("password: string;\ntoken = get_token()\n")
    result = await rig.run("cat a.ts")
    assert (result["stdout"], result["redactions"]) == ("password: string;\ntoken = get_token()", 0)


async def test_commands_are_recorded_and_are_actions_of_the_open_turn(rig: ShellRig) -> None:
    named = {"session_id": rig.session_id}
    turn = await rig.app.sessions.begin_turn({**named, "query_title": "Build", "query_text": "Build it"}, CLIENT)
    result = await rig.run("false")
    assert result["request_id"] == turn["request_id"]
    started, finished, action = await rig.entries(Kind.COMMAND_STARTED, Kind.COMMAND_FINISHED, Kind.ACTION)
    assert started.facts["command"] == "false"
    assert (finished.facts["exit_code"], finished.turn) == (1, turn["request_id"])
    assert (action.facts["description"], action.facts["status"]) == ("false", "failed")


async def test_a_session_that_ended_takes_no_further_command_until_it_is_resumed(rig: ShellRig) -> None:
    named = {"session_id": rig.session_id}
    begun = await rig.run("read x", background=True, stdin="open")
    await rig.app.continuity.close_session(named, CLIENT)
    count = len(await rig.entries())
    for arguments in ({}, {"background": True}):
        with pytest.raises(SessionClosed) as refused:
            await rig.run("touch f", **arguments)
        assert refused.value.details["state"] == "closed"
    assert not (rig.place / "f").exists()
    assert len(await rig.entries()) == count
    await rig.send(begun["command_id"], eof=True)
    assert (await rig.read(begun["command_id"], wait_s=5, wait_for="end"))["exit_code"] == 1
    await rig.app.continuity.resume_session({"agent_id": "ClaudeCode", **named}, CLIENT)
    assert await rig.out("touch f; ls") == "f"


async def test_who_lost_the_session_to_another_runs_no_command_in_its_shells(rig: ShellRig) -> None:
    other = replace(CLIENT, client_id="client-two")
    ran = {"shell_id": rig.shell_id, "command": "echo beside"}
    assert (await rig.shells.commands.run_command(ran, other))["stdout"] == "beside"
    taking = {"session_id": rig.session_id, "agent_id": "ClaudeCode", "on_held": "take_over"}
    await rig.app.continuity.resume_session(taking, other)
    with pytest.raises(LeaseLost):
        await rig.run("touch f")
    assert not (rig.place / "f").exists()
    assert (await rig.shells.commands.run_command(ran, other))["stdout"] == "beside"


async def test_sensitive_input_is_recorded_by_its_length_and_masked_from_then_on(rig: ShellRig) -> None:
    begun = await rig.run('read -r x; echo "got $x"', background=True, stdin="open")
    await rig.send(begun["command_id"], text="correct horse\n", sensitive=True)
    page = await rig.read(begun["command_id"], wait_s=5, wait_for="end")
    assert page["text"] == "got [REDACTED:learned]\n"
    [entry] = await rig.entries(Kind.COMMAND_INPUT)
    assert entry.facts["chars"] == 14
    assert "text" not in entry.facts


async def test_a_value_assigned_to_a_secret_name_is_masked_in_that_shell(rig: ShellRig) -> None:
    await rig.run("export DB_PASSWORD=tr0ub4dor-3xyz")
    assert await rig.out("echo tr0ub4dor-3xyz") == "[REDACTED:learned]"


async def test_a_directory_in_a_variable_that_shells_keep_it_in_is_no_secret(rig: ShellRig) -> None:
    (rig.place / "part1").mkdir()
    for name in ("PWD", "OLDPWD", "pwd"):
        result = await rig.run(f"{name}={rig.place}/part1 true; cd {rig.place}/part1; pwd")
        assert (result["stdout"], result["cwd"]) == (f"{rig.place}/part1", f"{rig.place}/part1")
    await rig.run("pwd=tr0ub4dor-3xyz")
    assert await rig.out("echo tr0ub4dor-3xyz") == "[REDACTED:learned]"


async def test_a_short_or_plain_value_of_a_secret_name_teaches_nothing(rig: ShellRig) -> None:
    result = await rig.run("TOKEN=return; PASSWORD=short1; export API_SECRET='Qw3rty uiop'; echo return short1")
    assert result["stdout"] == "return short1"
    assert await rig.out("echo return; echo Qw3rty uiop") == "return\n[REDACTED:learned]"


async def test_what_does_not_exist_or_does_not_fit_is_said_so(rig: ShellRig) -> None:
    with pytest.raises(ShellNotFound):
        await rig.shells.commands.run_command({"shell_id": "dead-1_local", "command": "true"}, CLIENT)
    with pytest.raises(CommandNotFound):
        await rig.read("dead-1_local#1")
    begun = await rig.run("sleep 30", background=True)
    with pytest.raises(StdinClosed):
        await rig.send(begun["command_id"], text="x")
    with pytest.raises(InvalidParameter, match="cannot be used with"):
        await rig.run("cat", input="x", stdin="open")
    with pytest.raises(InvalidParameter, match='argument "cols" cannot be used'):
        await rig.run("true", cols=80)
    with pytest.raises(InvalidParameter, match='argument "timeout_s" must be an integer of 1 to 3600'):
        await rig.run("true", timeout_s=4000)
    with pytest.raises(InvalidParameter, match='argument "host" cannot be used with'):
        await rig.open(host="example")
    await rig.send(begun["command_id"], signal="kill")


async def test_shells_are_limited_and_a_closed_one_makes_room(rig: ShellRig) -> None:
    rig.shells.limits = type(rig.shells.limits)(shells=1)
    first = rig.shell_id
    with pytest.raises(ShellLimit):
        await rig.open()
    await rig.close(first)
    await rig.open()


async def test_an_implicit_session_ends_with_its_last_shell(rig: ShellRig) -> None:
    await rig.close()

    async def state() -> str:
        session = await rig.app.store.read(lambda reader: reader.session(rig.session_id))
        assert session is not None
        return str(session.state)

    for _ in range(100):
        if await state() == "closed":
            break
        await asyncio.sleep(0.05)
    assert await state() == "closed"


async def test_a_shell_opens_in_the_one_session_that_the_client_holds(tmp_path: Path) -> None:
    async with shell_rig(tmp_path, shell=False) as rig:
        opened = await rig.app.sessions.open_session({"agent": "Codex", "title": "Mine"}, CLIENT)
        shell = await rig.open()
        assert (shell["session_id"], shell["implicit_session"]) == (opened["session_id"], False)


async def test_case_26_after_a_restart_shells_are_over_and_their_output_is_still_there(tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text(
        "import asyncio, os, sys\n"
        "from pathlib import Path\n"
        "from tests.shell.rig import shell_rig\n"
        "async def main():\n"
        "    async with shell_rig(Path(sys.argv[1])) as rig:\n"
        "        await rig.run('echo kept')\n"
        "        begun = await rig.run('echo begun; sleep 60', background=True)\n"
        "        await rig.read(begun['command_id'], wait_s=5)\n"
        "        print(rig.shell_id, flush=True)\n"
        "        await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    server = subprocess.Popen(  # noqa: ASYNC220 - it is killed before anything is awaited
        [sys.executable, str(script), str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert server.stdout is not None
    shell_id = server.stdout.readline().strip()
    server.send_signal(signal.SIGKILL)
    server.wait()
    server.stdout.close()
    async with shell_rig(tmp_path, shell=False) as rig:
        await rig.shells.recover()
        listed = await rig.shells.list_shells({"include_ended": True}, CLIENT)
        [row] = listed["shells"]
        assert (row["shell_id"], row["state"], row["ended_reason"]) == (shell_id, "ended", "server_stopped")
        assert (await rig.read(f"{shell_id}#1"))["text"] == "kept\n"
        unknown = await rig.read(f"{shell_id}#2")
        assert (unknown["text"], unknown["state"], unknown["exit_code"]) == ("begun\n", "unknown", None)
        with pytest.raises(ShellEnded):
            await rig.shells.commands.run_command({"shell_id": shell_id, "command": "true"}, CLIENT)


async def test_a_closed_shell_keeps_no_commands_in_memory_and_its_outputs_are_read_from_disk(rig: ShellRig) -> None:
    ids = [(await rig.run(f"echo {number}"))["command_id"] for number in range(3)]
    shell = rig.shells.registry.shells[rig.shell_id]
    await rig.close()
    await shell.released.wait()
    assert len(shell.commands) <= 1
    assert [(await rig.read(command_id))["text"] for command_id in ids] == ["0\n", "1\n", "2\n"]


async def test_of_many_ended_shells_only_the_newest_stay_in_memory_and_the_journal_answers_for_the_others(
    rig: ShellRig,
) -> None:
    first = await rig.run("echo first")
    registry = rig.shells.registry
    opened = [rig.shell_id]
    await rig.close()
    for _ in range(ENDED_SHELLS_MOST + 3):
        opened.append((await rig.open())["shell_id"])
        ended = registry.shells[opened[-1]]
        await rig.close(opened[-1])
        await asyncio.wait_for(ended.released.wait(), 5)
    await until(lambda: len(registry.shells) <= ENDED_SHELLS_MOST)
    assert list(registry.shells) == opened[-ENDED_SHELLS_MOST:]
    assert (await rig.read(first["command_id"]))["text"] == "first\n"
    with pytest.raises(ShellEnded):
        await rig.shells.commands.run_command({"shell_id": opened[0], "command": "true"}, CLIENT)
    listed = await rig.shells.list_shells({"include_ended": True}, CLIENT)
    assert {row["shell_id"] for row in listed["shells"]} == set(opened)
