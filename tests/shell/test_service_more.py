"""Budgets, spellings, volume, speed and annotations through the whole service: the longer tables of the contract."""

import asyncio
import subprocess
import time
from pathlib import Path
from statistics import median
from typing import Any, cast

import pytest
from anyio.abc import TaskGroup

from shiftlog.mcp.catalogue import registry_for
from shiftlog.model.entry import Kind
from shiftlog.model.errors import InvalidParameter, SessionNotFound, ShiftlogError
from shiftlog.model.shell_errors import BudgetInvalid, CommandNotRunning, PolicyDenied, PolicyUndecidable, ShellEnded
from shiftlog.shell.engine.local import LocalTarget
from shiftlog.shell.ports import CommandSpec, ShellSpec
from shiftlog.shell.sandbox.detect import detect
from tests.guard.policy.test_table import LETTERS, ROWS
from tests.shell.engine.probe import Remembered
from tests.shell.outputs import budget_rows
from tests.shell.outputs.much import check_much
from tests.shell.rig import CLIENT, ShellRig, shell_rig

LISTED = "name-that-only-a-listing-shows"
TRUES = 1_000
RATIO = 8
QUICK_S = 0.000_15

needs_kernel = pytest.mark.skipif(
    not detect().exec_broker or not detect().landlock_abi, reason="this kernel offers no exec broker or no Landlock"
)


async def test_case_29_every_row_of_the_table_of_budgets(tmp_path: Path) -> None:
    async with shell_rig(tmp_path) as rig:
        for row in budget_rows.ROWS:
            result = await rig.run(row.command, budget=row.budget)
            assert (result["stdout"], result["truncated"]) == (row.text, row.truncated), row
            if row.report is None:
                assert result["budget"] is None, row
            else:
                mode, total, kept = row.report
                assert result["budget"]["stdout"] == {"mode": mode, "lines_total": total, "lines_kept": kept}
                assert result["budget"]["stderr"] == {"mode": mode, "lines_total": 0, "lines_kept": 0}
            stdout = result["output"]["stdout"]
            assert stdout["final_newline"] == row.final_newline, row
            assert stdout["lines"] == (row.lines if row.report is None else row.report[1]), row


async def test_case_22_the_end_of_much_output_leaves_memory_as_it_was(tmp_path: Path) -> None:
    async with shell_rig(tmp_path) as rig:
        await check_much(rig, 64 << 20)


@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_case_22_the_end_of_a_gigabyte_leaves_memory_as_it_was(tmp_path: Path) -> None:
    async with shell_rig(tmp_path) as rig:
        await check_much(rig, 1 << 30)


async def test_case_23_a_command_takes_less_than_a_millisecond(tasks: TaskGroup) -> None:
    """Taken in turns with a bare loop, so that a busy machine slows both.

    The ratio itself is a figure of `python -m bench.shell_engine`; the bound here only notices a new order of size.
    """
    floor, engine = list[float](), list[float]()
    bare = await asyncio.create_subprocess_exec(
        "bash", "--norc", "--noprofile", stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    shell = await LocalTarget().open(ShellSpec(cwd="/"), tasks)
    assert bare.stdin is not None
    assert bare.stdout is not None
    command, sink = CommandSpec(text="true"), Silent()
    try:
        for _ in range(TRUES):
            begun = time.perf_counter()
            bare.stdin.write(b"true\necho done $?\n")
            await bare.stdout.readuntil(b"\n")
            floor.append(time.perf_counter() - begun)
            begun = time.perf_counter()
            running = await shell.start(command, sink)
            await running.ended
            running.recorded()
            engine.append(time.perf_counter() - begun)
    finally:
        await shell.close()
        bare.stdin.close()
        await bare.wait()
    assert median(engine) <= RATIO * median(floor)
    if median(floor) < QUICK_S:
        assert median(engine) < 0.001


class Silent(Remembered):
    """Takes output over and over; nothing is remembered of its ends."""

    def close(self, stream: object) -> None:
        pass


@needs_kernel
@pytest.mark.parametrize(
    ("lists", "column"), [({"deny": ["ls"]}, 1), ({"allow": ["echo", "git"]}, 2)], ids=["deny", "allow"]
)
async def test_case_34_every_spelling_has_its_verdict_and_lists_nothing(
    tmp_path: Path, lists: dict[str, Any], column: int
) -> None:
    async with shell_rig(tmp_path, shell=False) as rig:
        (rig.place / LISTED).touch()
        (rig.place / "f").write_text("x\n", encoding="utf-8")
        for script in ("env.sh", "script.sh"):
            (rig.place / script).write_text("echo from a script\n", encoding="utf-8")
        assert (await rig.open(**lists))["enforcement"] == "syntax+kernel"
        wrong: list[str] = []
        for row in ROWS:
            wrong += await tried(rig, row[0], row[column])
        assert wrong == []


async def tried(rig: ShellRig, text: str, letter: str) -> list[str]:
    """Try one spelling and return what is not as the table says."""
    await rig.run(f"cd {rig.place}; CMD=ls; cmd=(ls .); x=ls")
    wrong: list[str] = []
    refusals: dict[str, type[ShiftlogError]] = {"D": PolicyDenied, "U": PolicyUndecidable}
    started = len(await rig.entries(Kind.COMMAND_STARTED))
    verdict, listing, programs = "", "", list[dict[str, Any]]()
    try:
        result = await rig.run(text, timeout_s=30)
    except (PolicyDenied, PolicyUndecidable) as refusal:
        if not isinstance(refusal, refusals.get(letter, type(None))):
            wrong.append(f"{text}: refused: {refusal.message}")
        if len(await rig.entries(Kind.COMMAND_STARTED)) != started:
            wrong.append(f"{text}: was refused and begun")
    else:
        verdict, listing = result["verdict"], result["stdout"]
        programs = cast("list[dict[str, Any]]", result["programs"] or [])
        if letter not in "AK" or verdict != LETTERS[letter]:
            wrong.append(f"{text}: {verdict}")
    recorded = (await rig.entries(Kind.COMMAND_FINISHED))[-1].facts
    if recorded["verdict"] != LETTERS[letter] or (letter in "DU") != (recorded["state"] == "refused"):
        wrong.append(f"{text}: recorded as {recorded['state']}, {recorded['verdict']}")
    if LISTED in listing:
        wrong.append(f"{text}: listed")
    if any(Path(start["path"]).name == "ls" and start["verdict"] != "denied" for start in programs):
        wrong.append(f"{text}: ls was started")
    return wrong


async def test_annotations_say_what_reads_what_destroys_and_what_reaches_outside(tmp_path: Path) -> None:
    async with shell_rig(tmp_path, shell=False) as rig:
        tools = [tool for tool in registry_for(rig.app).tools if tool.toolset in ("shell", "workspace")]
    assert {tool.name for tool in tools} == {
        *("open_shell", "run_command", "read_output", "send_input", "list_shells", "close_shell"),
        *("create_checkpoint", "list_checkpoints", "diff_checkpoint", "restore_checkpoint"),
    }
    assert {tool.name for tool in tools if tool.read_only} == {
        *("list_shells", "list_checkpoints", "read_output", "diff_checkpoint"),
    }
    assert {tool.name for tool in tools if tool.destructive} == {
        *("run_command", "send_input", "close_shell", "restore_checkpoint"),
    }
    assert {tool.name for tool in tools if tool.open_world} == {"open_shell", "run_command", "send_input"}


SHELL_KEYS = "shell_id session_id implicit_session transport target name state shell cwd workspace sandbox checkpoints \
enforcement enforcement_note kill_scope startup_output created_at".split()
RESULT_KEYS = "shell_id command_id session_id request_id command state exit_code signal duration_ms cwd shell_state \
ended_reason stdout stderr truncated timed_out budget output redactions verdict enforcement enforcement_note \
checkpoint_id state_kept syntax_error recorded hint".split()
STREAM_KEYS = "bytes lines final_newline binary open spool_full sha256 cursor".split()
PAGE_KEYS = (
    "command_id state exit_code stream text from_line lines bytes_total lines_total next_cursor eof budget".split()
)
ROW_KEYS = "shell_id session_id name transport target state ended_reason exit_code cwd workspace sandbox enforcement \
running last_command idle_s created_at".split()


async def test_shells_are_listed_by_every_name_of_their_session(tmp_path: Path) -> None:
    vendor = "e4ee2456-8a54-4492-9915-1904d6b2966a"
    async with shell_rig(tmp_path, shell=False) as rig:
        given = {"agent": "Codex", "title": "Fix", "vendor_session_id": vendor, "model": "gpt-5"}
        session = await rig.app.sessions.open_session(given, CLIENT)
        other = await rig.app.sessions.open_session({"agent": "Codex", "title": "Other"}, CLIENT)
        opened = await rig.open(session_id=vendor)
        await rig.open(session_id=other["session_id"])
        number = session["run_id"]
        for name in (session["session_id"], number, float(number), str(number), vendor, vendor.upper()):
            listed = await rig.shells.list_shells({"session_id": name}, CLIENT)
            assert [row["shell_id"] for row in listed["shells"]] == [opened["shell_id"]], name
        with pytest.raises(SessionNotFound):
            await rig.shells.list_shells({"session_id": "Codex-20260701T120000Z-nothing"}, CLIENT)


async def test_results_have_the_keys_that_the_contract_shows(tmp_path: Path) -> None:
    async with shell_rig(tmp_path, shell=False) as rig:
        assert set(await rig.open()) == set(SHELL_KEYS)
        result = await rig.run("seq 1 10")
        assert set(RESULT_KEYS) <= set(result)
        assert all(list(stream) == STREAM_KEYS for stream in result["output"].values())
        begun = await rig.run("cat", background=True, stdin="open")
        listed = await rig.shells.list_shells({}, CLIENT)
        assert list(listed) == ["shells", "next_cursor"]
        [row] = listed["shells"]
        assert set(row) == set(ROW_KEYS)
        assert row["last_command"].keys() == {"command_id", "command", "state", "exit_code"}
        sent = await rig.send(begun["command_id"], text="x", eof=True)
        assert set(sent) == {*"command_id state bytes_written eof signalled".split()}
        assert (sent["bytes_written"], sent["eof"], sent["signalled"]) == (1, True, None)
        read = set(await rig.read(begun["command_id"], wait_s=5, wait_for="end"))
        assert read - {"exit_code_vouched"} == set(PAGE_KEYS)  # depends on the machine
        closed = await rig.close()
        assert set(closed) == {*"shell_id state already_ended killed kill_scope stopped_commands".split()}


async def test_redirections_of_the_shell_last_for_a_command_and_other_descriptors_stay(tmp_path: Path) -> None:
    async with shell_rig(tmp_path) as rig:
        assert await rig.out("exec >f; echo in the file") == ""
        assert await rig.out("cat f") == "in the file"
        await rig.run("exec 7>g; echo seven >&7")
        assert await rig.out("echo more >&7; cat g") == "seven\nmore"


async def test_a_local_sh_is_a_bash_that_keeps_to_posix_in_copies_and_on_terminals_too(tmp_path: Path) -> None:
    async with shell_rig(tmp_path, shell=False) as rig:
        opened = await rig.open(shell="sh")
        assert opened["shell"] == "sh"
        asked = "export 'a b=1'; set -o | grep posix"
        assert (await rig.out(asked)).split() == ["posix", "on"]
        assert (await rig.out(asked, pty=True)).split()[-2:] == ["posix", "on"]
        begun = await rig.run(asked, background=True)
        assert (await rig.read(begun["command_id"], wait_s=5, wait_for="end"))["text"].split() == ["posix", "on"]
        assert (await rig.open())["shell"] == "bash"


async def screen_with(rig: ShellRig, command_id: str, part: str) -> str:
    """Return the screen of a command once it shows something."""
    page = await rig.read(command_id)
    async with asyncio.timeout(30):
        while part not in page["screen"]:
            page = await rig.read(command_id, cursor=page["next_cursor"], wait_s=1)
    return page["screen"]


async def test_reading_a_command_on_a_terminal_shows_its_screen_while_it_runs(tmp_path: Path) -> None:
    menu = r"printf 'log\n\033[?1049h\033[2J\033[HMENU\033[3;2H1) one\033[5;1H> '; read -r a; printf '\033[?1049l'"
    async with shell_rig(tmp_path) as rig:
        begun = await rig.run(menu, pty=True, background=True)
        assert await screen_with(rig, begun["command_id"], "\n>") == "MENU\n\n 1) one\n\n>"
        await rig.send(begun["command_id"], text="7\n")
        ended = await rig.read(begun["command_id"], wait_s=5, wait_for="end")
        assert (ended["state"], "screen" in ended) == ("finished", False)
        plain = await rig.run("sleep 5", background=True)
        assert set(await rig.read(plain["command_id"])) == set(PAGE_KEYS)


async def test_a_screen_shows_no_secret_that_goes_on_in_the_next_row(tmp_path: Path) -> None:
    token = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6"
    async with shell_rig(tmp_path) as rig:
        said = {f"it is {token}": "it is [REDACTED:github]", f"db_pass: {token[4:]}": "db_pass: [REDACTED:assignment]"}
        for text, shown in said.items():
            begun = await rig.run(f"echo '{text}'; read x", pty=True, cols=20, background=True)
            assert await screen_with(rig, begun["command_id"], "REDACTED") == shown


async def test_a_control_character_typed_at_once_reaches_the_program(tmp_path: Path) -> None:
    async with shell_rig(tmp_path) as rig:
        begun = await rig.run("sleep 60", pty=True, background=True)
        await rig.send(begun["command_id"], text="\x03")
        assert (await rig.read(begun["command_id"], wait_s=10, wait_for="end"))["exit_code"] == 130


async def test_a_fault_in_the_shells_own_budget_opens_no_shell(tmp_path: Path) -> None:
    async with shell_rig(tmp_path, shell=False) as rig:
        with pytest.raises(BudgetInvalid, match=r"^output_budget\.keep\.n is required"):
            await rig.open(output_budget={"keep": {"mode": "tail"}})
        with pytest.raises(InvalidParameter, match=r'unknown argument "output_budget\.keep\.lines"'):
            await rig.open(output_budget={"keep": {"mode": "tail", "lines": 3}})
        assert not rig.shells.registry.live_ids()


async def test_a_directory_whose_name_is_no_text_is_shown_by_its_bytes(tmp_path: Path) -> None:
    async with shell_rig(tmp_path) as rig:
        result = await rig.run(r"mkdir $'\xff'; cd $'\xff'")
        assert (result["cwd"], result["recorded"]) == (f"{rig.place}/\\xff", True)
        assert await rig.out("cd ..; pwd") == str(rig.place)


async def test_arguments_that_are_no_text_are_recorded_by_their_bytes(tmp_path: Path) -> None:
    async with shell_rig(tmp_path, deny=["ls"]) as rig:
        result = await rig.run(r"/bin/echo $'\xff'")
        assert (result["stdout"], result["recorded"]) == ("\\xff", True)
        assert all(start["argv"] == ["/bin/echo", "\\xff"] for start in result.get("programs", ()))


@pytest.mark.parametrize("text", [" \n ", "\n# a remark\n", "# one\n# two", " \\\n ", "\n\t\n"])
async def test_lines_without_a_command_do_nothing(tmp_path: Path, text: str) -> None:
    async with shell_rig(tmp_path) as rig:
        for arguments in ({}, {"pty": True}):
            result = await rig.run(text, **arguments)
            assert (result["state"], result["exit_code"], result["stdout"], result["stderr"]) == ("finished", 0, "", "")
        await rig.run("trap 'true' DEBUG")
        assert (await rig.run(text))["stderr"] == ""


@pytest.mark.parametrize("name", ["eval", ".", "builtin", "unset"])
async def test_a_shell_without_a_builtin_that_the_engine_needs_ends_and_never_reports_wrongly(
    tmp_path: Path, name: str
) -> None:
    async with shell_rig(tmp_path) as rig:
        disabled = await rig.run(f"enable -n {name}")
        if disabled["shell_state"] == "idle":
            assert (await rig.run("echo x"))["shell_state"] == "ended"
        with pytest.raises(ShellEnded):
            await rig.run("echo x")


async def test_a_prompt_is_shown_to_a_reader_who_waited_before_it_came(tmp_path: Path) -> None:
    async with shell_rig(tmp_path) as rig:
        asking = await rig.run("read gate; printf 'Continue? '; read answer", background=True, stdin="open")
        async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
            read = tasks.create_task(rig.read(asking["command_id"], wait_s=60))
            tasks.create_task(rig.send(asking["command_id"], text="go\n"))
        assert (read.result()["text"], read.result()["state"]) == ("Continue? ", "running")
        await rig.send(asking["command_id"], signal="kill")


async def test_input_that_comes_as_the_command_ends_is_told_how_it_ended(tmp_path: Path) -> None:
    async with shell_rig(tmp_path) as rig:
        begun = await rig.run("sleep 0.1; exit 3", background=True, stdin="open")

        async def press() -> None:
            while True:
                await rig.send(begun["command_id"], signal="continue")

        with pytest.raises(CommandNotRunning) as late:
            await press()
        assert late.value.message == f"command {begun['command_id']} is finished"
        assert late.value.details == {"state": "finished"}
