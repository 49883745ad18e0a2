"""Live: what is new reaches an open page once, also after a broken connection, and output while it is printed."""

import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.web.server import PageServer, serving
from tests.web.stories import said

Event = dict[str, Any]


@contextmanager
def streaming(server: PageServer, path: str, **headers: str) -> Generator[Iterator[Event]]:
    """Open a stream of events for the time of a with block."""
    with server.client(**headers) as client, client.stream("GET", path) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield _events(answer.iter_lines())


def _events(lines: Iterator[str]) -> Iterator[Event]:
    event: Event = {}
    for line in lines:
        name, _, value = line.partition(": ")
        if line == "" and "data" in event:
            yield event
            event = {}
        elif name in ("id", "event"):
            event[name] = value
        elif name == "data":
            event["data"] = json.loads(value)


def opened(server: PageServer) -> str:
    return str(server.tool("open_session", {"agent": "Codex", "title": "Live"})["session_id"])


def head(server: PageServer, session_id: str) -> int:
    return int(server.json(f"/sessions/{session_id}")["session"]["entry_count"])


def test_each_new_entry_is_told_by_its_seq(server: PageServer) -> None:
    session_id = opened(server)
    at = head(server, session_id)
    with streaming(server, f"/sessions/{session_id}/events?after={at}") as events:
        turn = server.tool("begin_turn", {"session_id": session_id, "query_title": "Go", "query_text": "Go on"})[
            "request_id"
        ]
        first = next(events)
        assert first["id"] == str(at + 1)
        assert first["data"]["kind"] == "turn.begun"
        assert f'id="t-{turn}"' in first["data"]["turn"]
        server.tool(
            "update_turn", {"session_id": session_id, "dialog": [said("model", "decision", "Left <b>first</b>")]}
        )
        second = next(events)
        assert second["id"] == str(at + 2)
        assert "Left &lt;b&gt;first" in second["data"]["html"]


def test_asking_for_the_headers_of_a_stream_opens_none(server: PageServer) -> None:
    session_id = opened(server)
    with server.client() as client:
        for path in ("/events", f"/sessions/{session_id}/events"):
            answer = client.head(path)
            assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
            # The same connection: it waits for as long as a stream keeps it.
            assert client.get("/sessions.json").status_code == 200


def test_coming_back_goes_on_without_loss_or_doubles(server: PageServer) -> None:
    session_id = opened(server)
    at = head(server, session_id)
    server.tool("begin_turn", {"session_id": session_id, "query_title": "Go", "query_text": "Go"})
    seen: list[int] = []
    for _ in range(6):
        last = seen[-1] if seen else at
        with streaming(server, f"/sessions/{session_id}/events?after={at}", **{"Last-Event-ID": str(last)}) as events:
            server.tool("update_turn", {"session_id": session_id, "dialog": [said("model", "observation", "x")] * 3})
            seen.append(int(next(events)["id"]))
            seen.append(int(next(events)["id"]))
    with streaming(server, f"/sessions/{session_id}/events", **{"Last-Event-ID": str(seen[-1])}) as events:
        while seen[-1] < head(server, session_id):
            seen.append(int(next(events)["id"]))
    assert seen == list(range(at + 1, head(server, session_id) + 1))


def test_the_list_hears_of_every_change(server: PageServer) -> None:
    session_id = opened(server)
    with streaming(server, "/events") as events:
        server.tool("begin_turn", {"session_id": session_id, "query_title": "Go", "query_text": "Go"})
        told: list[str] = []
        while session_id not in told:
            told += next(events)["data"]["changed"]


def test_a_list_that_comes_back_hears_at_once_of_what_changed_meanwhile(server: PageServer) -> None:
    session_id = opened(server)
    with streaming(server, "/events?since=never") as events:
        first = next(events)
    server.tool("begin_turn", {"session_id": session_id, "query_title": "Go", "query_text": "Go"})
    with streaming(server, "/events?since=never", **{"Last-Event-ID": first["id"]}) as events:
        again = next(events)
    assert session_id in again["data"]["changed"]
    assert again["id"] != first["id"]


def test_the_output_of_a_running_command_streams(server: PageServer, tmp_path: Path) -> None:
    session_id = opened(server)
    shell = server.tool("open_shell", {"session_id": session_id, "cwd": str(tmp_path)})["shell_id"]
    gate = tmp_path / "gate"
    with streaming(server, f"/sessions/{session_id}/events") as events:
        command = f"echo one; until [ -e {gate} ]; do sleep 0.02; done; echo two; echo oops >&2; sleep 0.6"
        server.tool("run_command", {"shell_id": shell, "command": command, "background": True})
        pieces: list[Event] = []
        finished: Event = {}
        while not finished:
            told = next(events)["data"]
            if "stream" in told:
                pieces.append(told)
                gate.touch()
            elif told["kind"] == "command.finished":
                finished = told
    out = [piece for piece in pieces if piece["stream"] == "stdout"]
    assert [piece["html"] for piece in out] == ["one\n", "two\n"]
    assert out[0]["cursor_before"] is None
    assert out[1]["cursor_before"] == out[0]["cursor"]
    assert [piece["html"] for piece in pieces if piece["stream"] == "stderr"] == ["oops\n"]
    assert "exit 0" in finished["html"]
    command_id = finished["command_id"]
    page = server.json(f"/outputs/{command_id.replace('#', '%23')}")
    assert page["text"] == "one\ntwo\n"
    assert "oops" in server.html(f"/outputs/{command_id.replace('#', '%23')}?stream=stderr")
    html = server.html(f"/sessions/{session_id}")
    assert html.count(f'data-command="{command_id}"') == 1, "start and end are one block"
    server.tool("close_shell", {"shell_id": shell})


def test_streams_end_when_the_server_stops(tmp_path: Path) -> None:
    with serving(tmp_path / "home") as server, server.client() as client, client.stream("GET", "/events") as answer:
        lines = answer.iter_lines()
        assert next(lines).startswith("retry:")
        server.loop.call_soon_threadsafe(server.draining.set)
        try:
            assert list(lines) == [""]
        except httpx.RemoteProtocolError:
            pytest.fail("the stream was cut instead of ended")
