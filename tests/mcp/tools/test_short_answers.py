"""Answers are short: what is empty, default or was just sent is left out; `detail: full` brings it; errors help on."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast

import pytest

from shiftlog.mcp.catalogue import registry_for
from shiftlog.mcp.registry import Reply
from shiftlog.mcp.server import build_server
from shiftlog.model.errors import InvalidParameter
from tests.mcp.wire import connected
from tests.shell.rig import CLIENT, ShellRig, shell_rig

pytestmark = pytest.mark.anyio

ADDED_BYTES = 400


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncGenerator[ShellRig]:
    async with shell_rig(tmp_path, shell=False) as rig:
        yield rig


async def say(rig: ShellRig, tool: str, /, **arguments: Any) -> dict[str, Any]:
    found = next(each for each in registry_for(rig.app).tools if each.name == tool)
    reply = await found.run(CLIENT, arguments)
    assert isinstance(reply, Reply)
    return cast("dict[str, Any]", reply.data)


async def begun(rig: ShellRig, **more: Any) -> tuple[int, str]:
    session = (await say(rig, "open_session", agent="Codex", title="t", model="m"))["run_id"]
    shell = await say(rig, "open_shell", session_id=session, workspace=str(rig.place), **more)
    return session, shell["shell_id"]


async def test_a_command_adds_at_most_400_bytes_to_its_output(rig: ShellRig) -> None:
    _, shell = await begun(rig)
    for command in ("echo hello", "python3 -c 'print(1)'", "cat /nowhere", "mkdir -p a/b && touch a/b/c", "true"):
        ran = await say(rig, "run_command", shell_id=shell, command=command)
        size = len(json.dumps(ran, ensure_ascii=False, separators=(",", ":")).encode())
        assert size - len((ran["stdout"] + ran["stderr"]).encode()) <= ADDED_BYTES, command
        assert not ran.keys() & {"command", "shell_id", "session_id", "output", "programs", "budget"}


async def test_detail_full_brings_what_was_left_out(rig: ShellRig) -> None:
    session, shell = await begun(rig)
    brief = await say(rig, "run_command", shell_id=shell, command="echo x")
    full = await say(rig, "run_command", shell_id=shell, command="echo x", detail="full")
    assert full.keys() > brief.keys()
    assert (full["command"], full["shell_id"], full["timed_out"], full["signal"]) == ("echo x", shell, False, None)
    assert full["output"]["stdout"]["sha256"]
    turn = {"session_id": session, "query_title": "t", "query_text": "t"}
    short, whole = await say(rig, "begin_turn", **turn), await say(rig, "begin_turn", **turn, detail="full")
    assert short.keys() == {"request_id", "status", "receipt"}
    assert short["receipt"].keys() == {"code", "seq", "hash"}
    assert whole["receipt"].keys() == {"code", "session_id", "seq", "hash", "redactions"}
    with pytest.raises(InvalidParameter, match="detail"):
        await say(rig, "begin_turn", **turn, detail="everything")


async def test_a_repeat_of_a_write_may_ask_for_more(rig: ShellRig) -> None:
    given = {"agent": "Codex", "title": "t", "idempotency_key": "k"}
    first = await say(rig, "open_session", **given)
    again = await say(rig, "open_session", **given, detail="full")
    assert again["session_id"] == first["session_id"]
    assert again["state"] == "open"


async def test_what_deserves_a_look_is_told(rig: ShellRig) -> None:
    _, shell = await begun(rig, deny=["mkfifo"])
    ran = await say(rig, "run_command", shell_id=shell, command="x=mkfifo; $x pipe")
    assert ran["verdict"] == "deferred"
    assert [program["verdict"] for program in ran["programs"]] == ["denied"], "the only one that was refused"
    cut = await say(rig, "run_command", shell_id=shell, command="seq 1 20000")
    assert cut["truncated"]
    assert cut["output"]["stdout"].keys() == {"bytes", "lines", "cursor"}
    late = await say(rig, "run_command", shell_id=shell, command="sleep 30", timeout_s=1)
    assert (late["timed_out"], late["exit_code"]) == (True, 124)
    begun_ = await say(rig, "run_command", shell_id=shell, command="sleep 30", background=True)
    assert (begun_["state"], begun_["state_kept"]) == ("running", False)


async def test_a_lease_says_what_renews_it_and_what_its_end_means(rig: ShellRig) -> None:
    opened = await say(rig, "open_session", agent="Codex", title="t", agent_id="a")
    assert "connected" in opened["lease"]["note"]
    assert "resume_session" in opened["lease"]["note"]
    resumed = await say(rig, "resume_session", agent_id="a", session_id=opened["session_id"])
    assert resumed["data"]["lease"]["note"] == opened["lease"]["note"]


async def test_the_number_of_the_run_comes_first_and_names_the_session(rig: ShellRig) -> None:
    opened = await say(rig, "open_session", agent="Codex", title="t", model="m")
    assert next(iter(opened)) == "run_id"
    read = await say(rig, "query_history", session_id=opened["run_id"])
    assert read["session"]["session_id"] == opened["session_id"]
    assert "closed_at" not in read["session"], "it is null"
    full = await say(rig, "query_history", session_id=opened["run_id"], detail="full")
    assert full["session"]["closed_at"] is None


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("update_turn", {"session_id": "$session", "next": ["x"]}, "begin_turn"),
    ("finish_turn", {"session_id": "$closed", "outcome": "failed", "error_message": "x"}, "resume_session"),
    ("begin_turn", {"session_id": "$sealed", "query_title": "x", "query_text": "x"}, "query_history"),
    ("begin_turn", {"session_id": 99, "query_title": "x", "query_text": "x"}, "query_history"),
    ("resume_session", {"agent_id": "nobody"}, "open_session"),
    ("resume_session", {"agent_id": "Codex", "session_id": "$sealed"}, "query_history"),
    ("run_command", {"shell_id": "none", "command": "true"}, "list_shells"),
    ("run_command", {"shell_id": "$ended", "command": "true"}, "open_shell"),
    ("run_command", {"shell_id": "$busy", "command": "true"}, "read_output"),
    ("read_output", {"command_id": "none"}, "list_shells"),
    ("send_input", {"command_id": "$over", "text": "x"}, "read_output"),
    ("restore_checkpoint", {"shell_id": "$shell", "checkpoint_id": "ffffffff"}, "list_checkpoints"),
    ("create_checkpoint", {"shell_id": "$bare"}, "open_shell"),
]


async def test_an_error_names_a_call_that_works_as_it_is(rig: ShellRig) -> None:
    session, shell = await begun(rig)
    closed = (await say(rig, "open_session", agent="Codex", title="c"))["session_id"]
    await say(rig, "close_session", session_id=closed)
    sealed = (await say(rig, "open_session", agent="Codex", title="s"))["session_id"]
    await say(rig, "close_session", session_id=sealed, succession_policy="closed_without_successor")
    bare, ended, busy = [(await say(rig, "open_shell", session_id=session))["shell_id"] for _ in range(3)]
    over = (await say(rig, "run_command", shell_id=bare, command="true"))["command_id"]
    await say(rig, "close_shell", shell_id=ended)
    late = await say(rig, "run_command", shell_id=busy, command="sleep 4", timeout_s=1, on_timeout="keep_running")
    assert late["state"] == "running"
    names = {"$session": session, "$closed": closed, "$sealed": sealed, "$shell": shell, "$bare": bare}
    names |= {"$ended": ended, "$busy": busy, "$over": over}
    async with connected(build_server(registry_for(rig.app))) as peer:
        for tool, arguments, helper in REFUSED:
            given = {
                key: names.get(value, value) if isinstance(value, str) else value for key, value in arguments.items()
            }
            result = (await peer.call(tool, given))["result"]
            assert result["isError"], tool
            body = result["structuredContent"]
            details = body["details"] if "details" in body else body["error"]["details"]
            call = details["next_call"]
            assert call["name"] == helper, (tool, call)
            if "<" in json.dumps(call):
                continue  # the agent has to say what the work is
            helped = (await peer.call(call["name"], call["arguments"]))["result"]
            assert not helped["isError"], (tool, call, helped["structuredContent"])


async def test_the_record_of_a_turn_has_commands_input_and_restores_beside_what_the_agent_says(rig: ShellRig) -> None:
    session, shell = await begun(rig)
    turn = (await say(rig, "begin_turn", session_id=session, query_title="t", query_text="t"))["request_id"]
    await say(rig, "run_command", shell_id=shell, command="cat > notes", input="fed by hand")
    await say(rig, "restore_checkpoint", shell_id=shell, clean=True)
    plan = {"description": "A plan", "type": "edit", "status": "pending", "order": 1}
    await say(rig, "update_turn", session_id=session, actions=[plan])
    await say(rig, "update_turn", session_id=session, actions=[{**plan, "status": "completed"}])
    read = await say(rig, "query_history", session_id=session, request_id=turn)
    kinds = [(item["kind"], item.get("type")) for item in read["items"]]
    assert kinds == [
        ("command.input", None),
        ("action", "command"),
        ("checkpoint.restored", None),
        ("action", "edit"),
    ], "a plan of the number of a recorded command leaves that command alone"
    assert read["items"][0]["text"] == "fed by hand"
    assert read["items"][3]["status"] == "completed"
    assert read["total"] == 4
