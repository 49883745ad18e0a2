"""Shell tools over the wire: progress, a request that is taken back, a client that vanishes, log messages."""

import shutil
from pathlib import Path
from typing import Any

import anyio
import pytest

from shiftlog.mcp.catalogue import registry_for
from shiftlog.mcp.registry import Selection
from shiftlog.mcp.server import build_server
from shiftlog.model.entry import Kind
from tests.mcp.wire import REVISIONS, connected
from tests.programs import only_in
from tests.shell.rig import shell_rig, until

# A git that waits while a file exists.
HELD_GIT = """#!/bin/sh
if [ -e {hold} ]; then echo >>{entered}; while [ -e {hold} ]; do sleep 0.05; done; fi
exec {git} "$@"
"""

both = pytest.mark.parametrize("revision", REVISIONS)


@both
async def test_case_11_taking_a_request_back_ends_its_command_and_nothing_is_answered(
    tmp_path: Path, revision: str
) -> None:
    async with (
        shell_rig(tmp_path) as harness,
        connected(build_server(registry_for(harness.app)), revision) as peer,
    ):
        command = {"shell_id": harness.shell_id, "command": "sleep 60; touch done"}
        request = peer.request("tools/call", {"name": "run_command", "arguments": command})
        await peer.send(request)
        await until(lambda: harness.shells.registry.shells[harness.shell_id].running)
        await peer.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request["id"]}})
        await until(lambda: harness.shells.registry.shells[harness.shell_id].state == "idle", 5)
        [finished] = await harness.entries(Kind.COMMAND_FINISHED)
        assert (finished.facts["state"], finished.facts["exit_code"]) == ("cancelled", 130)
        answer = await peer.call("run_command", {"shell_id": harness.shell_id, "command": "ls"})
        assert answer["result"]["structuredContent"]["stdout"] == ""


async def test_a_command_goes_on_when_its_client_is_gone(tmp_path: Path) -> None:
    async with shell_rig(tmp_path) as harness:
        server = build_server(registry_for(harness.app))
        async with connected(server, finish_s=0.1) as peer:
            command = {"shell_id": harness.shell_id, "command": "sleep 1; touch done"}
            await peer.send(peer.request("tools/call", {"name": "run_command", "arguments": command}))
            await until(lambda: harness.shells.registry.shells[harness.shell_id].running)
        await until((harness.place / "done").exists, 5)
        await until(lambda: harness.shells.registry.shells[harness.shell_id].state == "idle", 5)
        [finished] = await harness.entries(Kind.COMMAND_FINISHED)
        assert (finished.facts["state"], finished.facts["exit_code"]) == ("finished", 0)


@both
async def test_case_24_output_comes_as_progress_before_the_command_ends(tmp_path: Path, revision: str) -> None:
    async with (
        shell_rig(tmp_path) as harness,
        connected(build_server(registry_for(harness.app)), revision) as peer,
    ):
        command = {"shell_id": harness.shell_id, "command": "echo one; sleep .5; echo two"}
        params = {"name": "run_command", "arguments": command, "_meta": {"progressToken": "p"}}
        await peer.send(peer.request("tools/call", params))
        first = await peer.receive()
        assert first["method"] == "notifications/progress"
        assert first["params"]["message"] == "one\n"
        with anyio.fail_after(10):
            while "id" not in (last := await peer.receive()):
                pass
        assert last["result"]["structuredContent"]["stdout"] == "one\ntwo"


async def test_execkit_sends_log_messages_only_after_a_level_was_set(tmp_path: Path) -> None:
    async with shell_rig(tmp_path, shell=False) as harness:
        server = build_server(registry_for(harness.app), Selection(dialects=("execkit",)))
        async with connected(server) as peer:
            created = await peer.call("session_create", {"transport": "local"})
            session = created["result"]["structuredContent"]["session_id"]
            await peer.call("session_exec", {"session_id": session, "command": "true"})
            await peer.ask("logging/setLevel", {"level": "warning"})
            await peer.call("session_exec", {"session_id": session, "command": "true"})
            failing = {"session_id": session, "command": "echo out; echo err >&2; false"}
            await peer.send(peer.request("tools/call", {"name": "session_exec", "arguments": failing}))
            message = await peer.receive()
            assert message["method"] == "notifications/message"
            assert (message["params"]["level"], message["params"]["logger"]) == ("warning", f"execkit/{session}")
            assert set(message["params"]["data"]) == {"session", "transport", "summary", "transcript"}
            assert message["params"]["data"]["transcript"] == f"$ {failing['command']}\nout\nerr"
            assert (await peer.receive())["result"]["structuredContent"]["exit_code"] == 1


@both
async def test_the_output_of_a_command_is_a_resource(tmp_path: Path, revision: str) -> None:
    async with (
        shell_rig(tmp_path) as harness,
        connected(build_server(registry_for(harness.app)), revision) as peer,
    ):
        ran = await harness.run("seq 1 5; echo late >&2")
        uri = f"shiftlog://commands/{ran['command_id'].replace('#', '%23')}/output"
        whole = (await peer.ask("resources/read", {"uri": uri}))["result"]["contents"][0]
        assert whole["text"] == "1\n2\n3\n4\n5\n\n--- stderr ---\nlate\n"
        part = await peer.ask("resources/read", {"uri": f"{uri}?offset=1&limit=2"})
        assert part["result"]["contents"][0]["text"] == "2\n3\n"
        unknown = await peer.ask("resources/read", {"uri": "shiftlog://commands/dead-1_local%231/output"})
        assert unknown["error"]["message"] == "Resource not found"
        other_digits = await peer.ask("resources/read", {"uri": f"{uri}?offset=\u0663"})
        assert other_digits["error"]["data"]["details"]["parameter"] == "offset"


async def test_an_output_that_is_too_long_for_a_resource_says_where_it_goes_on(tmp_path: Path) -> None:
    async with shell_rig(tmp_path) as harness, connected(build_server(registry_for(harness.app))) as peer:

        async def read(ran: dict[str, Any], query: str = "") -> str:
            uri = f"shiftlog://commands/{ran['command_id'].replace('#', '%23')}/output{query}"
            return (await peer.ask("resources/read", {"uri": uri}))["result"]["contents"][0]["text"]

        ran = await harness.run("seq 1 200000")
        *lines, note = (await read(ran)).splitlines()
        assert lines == [str(n) for n in range(1, len(lines) + 1)]
        assert note.startswith(f"--- stdout goes on: offset={len(lines)}, or read_output with cursor ")
        assert (await read(ran, f"?offset={len(lines)}")).splitlines() == [
            str(n) for n in range(len(lines) + 1, 200_001)
        ]
        assert (await read(ran, "?limit=3")) == "1\n2\n3\n"
        cursor = note.split()[-2]
        page = await harness.read(ran["command_id"], cursor=cursor)
        assert page["text"].startswith(f"{len(lines) + 1}\n")
        ran = await harness.run("printf '%01500000d' 7")
        text = await read(ran)
        assert text.startswith("0" * 1_000_000 + "\n--- stdout goes on: ")


async def test_lines_of_an_output_end_only_where_the_command_ended_them(tmp_path: Path) -> None:
    async with shell_rig(tmp_path) as harness, connected(build_server(registry_for(harness.app))) as peer:
        ran = await harness.run(r"printf 'a\fb\xc2\x85c\nd\n'")
        uri = f"shiftlog://commands/{ran['command_id'].replace('#', '%23')}/output?limit=1"
        shown = (await peer.ask("resources/read", {"uri": uri}))["result"]["contents"][0]["text"]
        assert (shown[0], shown[-1], shown.count("d")) == ("a", "\n", 0)
        assert "b" in shown
        assert "c" in shown


@both
async def test_a_connection_answers_while_begin_turn_waits_for_its_checkpoint(
    tmp_path: Path, revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold, entered, programs = tmp_path / "hold", tmp_path / "entered", tmp_path / "bin"
    programs.mkdir()
    (programs / "git").write_text(HELD_GIT.format(hold=hold, entered=entered, git=shutil.which("git")))
    (programs / "git").chmod(0o755)
    monkeypatch.setenv("PATH", only_in(programs))
    async with (
        shell_rig(tmp_path, workspace=str(tmp_path / "place")) as harness,
        connected(build_server(registry_for(harness.app)), revision) as peer,
    ):
        await harness.run("touch changed")
        turn = {"session_id": harness.session_id, "query_title": "Slow", "query_text": "Slow"}
        hold.touch()
        try:
            begun = peer.request("tools/call", {"name": "begin_turn", "arguments": turn})
            await peer.send(begun)
            await until(entered.exists)
            ping = peer.request("ping")
            listed = peer.request("tools/call", {"name": "list_shells", "arguments": {}})
            await peer.send(ping)
            await peer.send(listed)
            answered = {(await peer.receive())["id"] for _ in range(2)}
            assert answered == {ping["id"], listed["id"]}
        finally:
            hold.unlink()
        last = await peer.receive()
        assert (last["id"], last["result"]["isError"]) == (begun["id"], False)
