"""The pages, read as a program reads them: lists, sessions, usage, hand-over, trust and their JSON twins."""

import itertools
import json
import re
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

from shiftlog.ingest.importing.ports import ImportOptions
from shiftlog.web.asking import ask
from shiftlog.web.openapi import description
from tests.ingest.import_app import Claude
from tests.web.server import CLIENT, PageServer, serving
from tests.web.stories import Day, did, said


def test_the_list_shows_what_a_person_looks_for(server: PageServer, day: Day) -> None:
    html = server.html("/")
    for text in (
        "Stop the double charges",
        "ivy",
        "checkout-service",
        "claude-opus-4-5",
        "3 turns",
        "1 of 3 turns failed",
        "1 file",
        "$0.41",
    ):
        assert text in html, text
    assert "Today" in html
    item = next(item for item in server.json("/sessions")["items"] if item["session_id"] == day.session_id)
    assert item["turns"] == 3
    assert item["files"] == 1
    assert item["tokens"] == 8840
    assert item["cost_usd"] == 0.41


def test_a_session_that_must_be_continued_says_by_when_wherever_it_is_shown(server: PageServer) -> None:
    """delx 5: every session listing shows the obligation."""
    session_id = str(server.tool("open_session", {"agent": "Codex", "title": "Unfinished migration"})["session_id"])
    closing = {"session_id": session_id, "succession_policy": "successor_required"}
    deadline = server.tool("close_session", closing)["data"]["successor_deadline"]
    assert server.json(f"/sessions/{session_id}")["session"]["successor_deadline"] == deadline
    for path in ("/sessions?status=awaiting_successor", "/sessions?q=unfinished", f"/sessions/{session_id}"):
        html = server.html(path)
        assert f'to be continued by <time datetime="{deadline}">' in html, path
        assert "overdue" not in html


def test_children_stand_under_their_parent_and_nowhere_else(server: PageServer, day: Day) -> None:
    items = server.json("/sessions")["items"]
    assert day.child_id not in [item["session_id"] for item in items]
    parent = next(item for item in items if item["session_id"] == day.session_id)
    assert [child["session_id"] for child in parent["children"]] == [day.child_id]
    html = server.html("/")
    assert html.count(f'id="s-{day.child_id}"') == 1
    assert html.index(f'id="s-{day.session_id}"') < html.index(f'id="s-{day.child_id}"')


def test_a_family_of_any_size_stands_in_the_list_once(tmp_path: Path) -> None:
    with serving(tmp_path / "home") as server:
        alone = [
            server.tool("open_session", {"agent": "Codex", "title": f"Alone {n}"})["session_id"] for n in range(50)
        ]
        parent = server.tool("open_session", {"agent": "Codex", "title": "Parent"})["session_id"]
        for n in range(150):
            spawned = {"agent": "Codex", "title": f"Child {n}", "parent_session_id": parent}
            server.tool("open_session", spawned)
        found: list[dict[str, Any]] = []
        query: dict[str, str] = {}
        while not found or query["cursor"]:
            page = server.json("/sessions", **query)
            found += page["items"]
            query["cursor"] = page["next_cursor"] or ""
    assert sorted(item["session_id"] for item in found) == sorted([parent, *alone])
    assert [item["children_total"] for item in found if item["session_id"] == parent] == [150]


def test_days_are_those_of_the_person_at_this_machine(server: PageServer, monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime.now(UTC)
    hours = -12 if now.hour < 12 else 14  # so that it is another day there
    server.tool("open_session", {"agent": "Codex", "title": "On which day?"})
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("TZ", f"Etc/GMT{-hours:+}")
        time.tzset()
        html = server.html("/sessions")
    time.tzset()
    there = (now + timedelta(hours=hours)).date()
    assert there != now.date()
    assert f'<time datetime="{there}" data-keep>Today</time>' in html


def test_filters_are_in_the_address(server: PageServer, day: Day) -> None:
    found = server.json("/sessions", agent="Codex", status="closed")
    assert [item["session_id"] for item in found["items"]] == [day.other_id]
    assert found["filters"] == {"agent": "Codex", "status": "closed"}
    html = server.html("/sessions?agent=Codex&status=closed")
    listed = server.html("/sessions?agent=Codex&status=closed&part=1")
    assert "Tidy the changelog" in listed
    assert "Stop the double charges" not in listed
    assert re.search(r'name="agent" value="Codex"', html)


def test_dates_may_be_ages(server: PageServer, day: Day) -> None:
    listed = [item["session_id"] for item in server.json("/sessions", **{"from": "7d"})["items"]]
    assert day.session_id in listed
    assert server.json("/sessions", to="1d")["items"] == []
    assert server.json("/sessions", q="idempotency", **{"from": "2h"})["total"] >= 1
    assert server.json("/usage", **{"from": "7d"})["total"]["sessions"] >= 1
    assert 'aria-current="true" href="/sessions?group=day">7 days' in server.html("/sessions?from=7d")


def test_a_filter_shows_a_child_by_itself_with_its_parent_named(server: PageServer, day: Day) -> None:
    found = server.json("/sessions", agent_id="ivy/scout")
    assert [item["session_id"] for item in found["items"]] == [day.child_id]
    assert f'subagent of <a href="/sessions/{day.session_id}"' in server.html("/sessions?agent_id=ivy/scout")


@pytest.mark.parametrize("kind", ["session", "turn", "entry", "decision"])
def test_search_finds_and_marks(server: PageServer, day: Day, kind: str) -> None:
    found = server.json("/sessions", q="idempotency", kind=kind)
    assert found["total"] >= 1
    assert any("«idempotency»" in item["snippet"] for item in found["items"])
    html = server.html(f"/sessions?q=idempotency&kind={kind}")
    assert "<mark>idempotency</mark>" in html
    assert f"/sessions/{day.session_id}" in html


@pytest.mark.parametrize(
    "query",
    [
        "q=((",
        "kind=nonsense&q=x",
        "status=nonsense",
        "cursor=nonsense",
        "from=nonsense",
        "q=x&cursor=nonsense",
        "turn_status=x&q=y",
        "turn_status=x",
        "kind=nonsense",
    ],
)
def test_a_question_without_sense_is_answered_with_what_is_wrong(server: PageServer, query: str) -> None:
    with server.client(Accept="application/json") as client:
        answer = client.get(f"/sessions?{query}")
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["code"] == "invalid_parameter"
    assert answer.json()["error"]["details"]["parameter"] in query.replace("&", "=").split("=")


def test_a_search_that_makes_no_sense_can_be_corrected_where_it_was_typed(server: PageServer) -> None:
    with server.client() as client:
        answer = client.get("/sessions", params={"q": '"half a <quote>'})
    assert answer.status_code == 400
    assert 'value="&#34;half a &lt;quote&gt;"' in answer.text
    assert "Correct it and search again." in answer.text


@pytest.mark.parametrize("name", ["last", "Codex-20200101T000000Z-nobody"])
def test_who_looks_for_a_session_that_is_not_there_is_told_of_the_list(server: PageServer, name: str) -> None:
    with server.client() as client:
        assert "The list of sessions shows what is there." in client.get(f"/sessions/{name}").text


@pytest.mark.parametrize("text", ["0" * 5_000, "0" * 12 + "9" * 20, "9" * 5_000, "-1", "1.0", "x"])
def test_a_number_that_is_none_is_named_whatever_its_length(server: PageServer, day: Day, text: str) -> None:
    with server.client(Accept="application/json") as client:
        answer = client.get(f"/sessions/{day.session_id}/entries?after={text}")
    assert (answer.status_code, answer.json()["error"]["details"]["parameter"]) == (400, "after")


def test_a_session_page_tells_its_story(server: PageServer, day: Day) -> None:
    html = server.html(f"/sessions/{day.session_id}")
    for text in (
        "Why are orders charged twice?",
        "Find out <strong>why</strong> before",
        "Three customers complained",
        "Retries must carry an idempotency key.",
        "One idempotency key per order",
        "src/payments/client.py",
        "No runner took the job",
        "no_runner",
        "Look for other callers",
        "10:02:41 order 8841 charge accepted",
    ):
        assert text in html, text
    assert re.search(r'class="step reasoning".*?<details><summary>', html), "reasoning is folded"
    assert html.count('class="mark">Decision') + html.count('class="who mark">Decision') >= 2


def test_every_turn_and_entry_has_an_address(server: PageServer, day: Day) -> None:
    html = server.html(f"/sessions/{day.session_id}")
    for turn in day.turns:
        assert f'id="t-{turn}"' in html
        page = server.html(f"/sessions/{day.session_id}/turns/{turn}")
        assert f'id="t-{turn}"' in page
    total = server.json(f"/sessions/{day.session_id}")["session"]["entry_count"]
    for seq in range(1, total + 1):
        document = server.json(f"/sessions/{day.session_id}/entries/{seq}")
        assert document["entry"]["seq"] == seq
        assert document["entry"]["hash"] in server.html(f"/sessions/{day.session_id}/entries/{seq}")


def test_all_entries_can_be_paged_through(server: PageServer, day: Day) -> None:
    seen: list[int] = []
    page: dict[str, Any] = {"next_after": 0}
    while page["next_after"] is not None:
        page = server.json(f"/sessions/{day.session_id}/entries", after=page["next_after"], limit=4)
        seen += [entry["seq"] for entry in page["entries"]]
    assert seen == list(range(1, int(page["total"]) + 1))


def test_a_timeline_leads_from_page_to_page_through_every_turn_once(server: PageServer) -> None:
    session_id = server.tool("open_session", {"agent": "Codex", "title": "Many small turns"})["session_id"]
    for number in range(75):
        named = {"session_id": session_id}
        server.tool("begin_turn", {**named, "query_title": f"Turn {number}", "query_text": "Go"})
        server.tool("finish_turn", {**named, "outcome": "completed", "response": "Done"})
    turns: list[int] = []
    entries: list[int] = []
    query: dict[str, str] = {}
    while True:
        page = server.json(f"/sessions/{session_id}", **query)
        turns += [piece["turn"]["ordinal"] for piece in page["timeline"] if piece["kind"] == "turn"]
        entries += [e["seq"] for piece in page["timeline"] if piece["kind"] == "entries" for e in piece["entries"]]
        if page["next_place"] is None:
            break
        query = {"place": page["next_place"]}
    assert turns == list(range(1, 76))
    assert len(entries) == len(set(entries))
    assert entries[0] == 1


def test_a_timeline_can_begin_at_a_turn(server: PageServer, day: Day) -> None:
    page = server.json(f"/sessions/{day.session_id}", turn=day.turns[1])
    first = next(piece for piece in page["timeline"] if piece["kind"] == "turn")
    assert first["turn"]["request_id"] == day.turns[1]


def test_outline_and_strip_are_of_all_turns_of_a_session_of_thousands(server: PageServer) -> None:
    session_id = server.tool("open_session", {"agent": "Codex", "title": "Thousands"})["session_id"]
    named = {"session_id": session_id}
    for n in range(2_001):
        server.tool("begin_turn", {**named, "query_title": f"Turn {n}", "query_text": f"Do {n}"})
        server.tool("finish_turn", {**named, "outcome": "completed", "response": f"Did {n}"})
    turn = server.tool("begin_turn", {**named, "query_title": "Last", "query_text": "Do the last"})["request_id"]
    child = {"agent": "Codex", "agent_id": "late", "title": "Late helper", "parent_session_id": session_id}
    server.tool("open_session", child)
    server.tool("finish_turn", {**named, "outcome": "failed", "error_message": "It broke"})
    outline = server.json(f"/sessions/{session_id}/outline")
    assert [one["ordinal"] for one in outline["turns"]] == list(range(1, 2_003))
    assert outline["turns"][-1] | {"duration_s": 0} == {
        "request_id": turn, "ordinal": 2_002, "title": "Last", "status": "failed", "errors": 1, "duration_s": 0,
        "begun_at": outline["turns"][-1]["begun_at"],
    }  # fmt: skip
    drawn = server.html(f"/sessions/{session_id}/outline")
    bars = [
        (float(x), float(width)) for x, width in re.findall(r'x="([0-9.]+)" y="0" width="([0-9.]+)" [^>]*room', drawn)
    ]
    assert len(bars) <= 240
    assert all(abs(x + width - after) < 0.05 for (x, width), (after, _) in itertools.pairwise(bars))
    assert abs(sum(bars[-1]) - 1_000) < 0.05, "the whole width leads somewhere"
    assert drawn.count("turn-failed") == 1
    html = server.html(f"/sessions/{session_id}", turn=turn)
    assert html.count('class="subagent"') == 1, "a subagent of a late turn is shown there alone"


def test_a_call_that_returned_nothing_has_no_empty_result(server: PageServer, tmp_path: Path) -> None:
    transcript = Claude()
    transcript.prompt("Look").calls("call-1", "LookAround", where="here").returns("call-1", "").says("Nothing").ends()
    path = tmp_path / f"{transcript.session}.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in transcript.records), encoding="utf-8")
    server.do(server.app.imports.run(ImportOptions(paths=[str(path)], jobs=0)))
    html = server.html(f"/sessions/{transcript.session}")
    assert "LookAround" in html
    assert 'aria-label="Result"' not in html


def test_a_turn_of_many_steps_comes_in_pages(server: PageServer) -> None:
    session_id = server.tool("open_session", {"agent": "Codex", "title": "One large turn"})["session_id"]
    named = {"session_id": session_id}
    turn = server.tool("begin_turn", {**named, "query_title": "Go", "query_text": "Go"})["request_id"]
    for _ in range(2):
        dialog = [said("model", "observation", f"Item {number}") for number in range(100)]
        server.tool("update_turn", {**named, "dialog": dialog, "actions": [did("edit", "Edit", "a.py")]})
    seqs: list[int] = []
    page: dict[str, Any] = {"next_place": ""}
    pages = 0
    while page["next_place"] is not None:
        page = server.json(f"/sessions/{session_id}/turns/{turn}", place=page["next_place"])
        seqs += [entry["seq"] for entry in page["entries"]]
        pages += 1
    assert pages == 2
    assert seqs == sorted(set(seqs))
    assert len(seqs) == page["turn"]["last_seq"] - page["turn"]["begun_seq"] + 1


# Commands and checkpoints


def test_commands_look_like_a_terminal_and_checkpoints_say_what_changed(server: PageServer, tmp_path: Path) -> None:
    session_id = server.tool("open_session", {"agent": "Codex", "title": "Work in a tree"})["session_id"]
    (tmp_path / "notes.txt").write_text("first\n")
    opening = {"session_id": session_id, "cwd": str(tmp_path), "workspace": str(tmp_path)}
    shell = server.tool("open_shell", opening)["shell_id"]
    for command in ("echo second >> notes.txt", "echo third >> notes.txt; echo gone >&2; sh -c 'exit 4'"):
        server.tool("run_command", {"shell_id": shell, "command": command})
    server.tool("close_shell", {"shell_id": shell})
    entries = server.json(f"/sessions/{session_id}/entries")["entries"]
    saved = [entry for entry in entries if entry["kind"] == "checkpoint.saved"]
    if not saved:
        pytest.skip("no git here, so no checkpoints")
    html = server.html(f"/sessions/{session_id}")
    assert html.count('class="step command"') == 1
    assert html.count('class="step command failed"') == 1
    assert "exit 4" in html
    assert re.search(r'class="out err"[^>]*>gone', html)
    opened, before_last, at_the_end = saved
    first, last = opened["body"]["id"], at_the_end["body"]["id"]
    assert f"shiftlog undo --to {last} -w {tmp_path}" in html
    page = server.json(f"/sessions/{session_id}/checkpoints/{before_last['seq']}")
    assert page["since"] == first
    assert "+second" in page["changes"]["patch"]
    shown = server.html(f"/sessions/{session_id}/checkpoints/{before_last['seq']}")
    assert '<span class="add" data-old="" data-new="2">+second' in shown
    assert "first checkpoint" in server.html(f"/sessions/{session_id}/checkpoints/{saved[0]['seq']}"), first
    with server.client() as client:
        assert client.get(f"/sessions/{session_id}/checkpoints/1").status_code == 404
    person = replace(CLIENT, client_name="person")
    asked = {"workspace": str(tmp_path), "checkpoint_id": first}
    server.do(server.app.workspaces.restore_checkpoint(asked, person))
    assert re.search(r'<span class="about">[^<]*by person</span>', server.html(f"/sessions/{session_id}"))


def test_a_session_opened_for_its_shell_alone_is_called_by_what_it_ran(server: PageServer, tmp_path: Path) -> None:
    work = tmp_path / "warehouse"
    work.mkdir()
    called: list[str] = []
    for number, command in enumerate(("echo counted", "")):
        caller = replace(CLIENT, client_id=f"bare-{number}")
        shell = server.do(server.app.shells.open_shell({"cwd": str(work)}, caller))
        if command:
            asked = {"shell_id": shell["shell_id"], "command": command}
            server.do(server.app.shells.commands.run_command(asked, caller))
        html = server.html(f"/sessions/{shell['session_id']}")
        found = re.search(r"<h1>(.*?)</h1>", html)
        assert found is not None
        called.append(found[1])
        assert re.search(rf"""href="/sessions/{shell["session_id"]}"[^>]*>{found[1]}</a>""", server.html("/sessions"))
        assert server.json(f"/sessions/{shell['session_id']}")["session"]["title"] == "shell", "as the journal has it"
    assert called == ["echo counted", "Shell in warehouse"]


# JSON twins


def addresses(day: Day) -> list[str]:
    one = f"/sessions/{day.session_id}"
    return [
        "/sessions", one, f"{one}/turns/{day.turns[0]}", f"{one}/outline", f"{one}/entries", f"{one}/entries/1",
        f"{one}/handover", f"{one}/trust", "/usage",
    ]  # fmt: skip


def test_every_page_has_its_twin_by_ending_and_by_accept(server: PageServer, day: Day) -> None:
    for path in addresses(day):
        by_accept = server.json(path)
        with server.client(Accept="*/*") as client:
            by_ending = client.get(f"{path}.json")
        assert by_ending.headers["content-type"] == "application/json"
        assert by_ending.json().keys() == by_accept.keys(), path
        assert server.html(path).startswith("<!doctype html>")


def test_every_address_of_the_description_is_there(server: PageServer, day: Day) -> None:
    values = {
        "{session_id}": day.other_id,
        "{request_id}": server.json(f"/sessions/{day.other_id}")["timeline"][1]["turn"]["request_id"],
        "{seq}": str(server.json(f"/sessions/{day.other_id}/trust")["receipts"][0]["seq"]),
        "{form}": "md",
    }
    with server.client() as client:
        for path in server.json("/openapi.json")["paths"]:
            for name, value in values.items():
                path = path.replace(name, value)
            path += {"find.json": "?q=tidied", "files.json": "?path=a.py"}.get(path.rpartition("/")[2], "")
            if "{" not in path and "/checkpoints/" not in path and "/undo." not in path:
                assert client.get(path).status_code == 200, path
    assert server.json("/openapi.json") == description()


def test_a_session_that_is_not_there_is_not_found(server: PageServer) -> None:
    with server.client(Accept="application/json") as client:
        answer = client.get("/sessions/Codex-20200101T000000Z-nobody")
        assert answer.status_code == 404
        assert answer.json()["error"]["code"] == "session_not_found"
        assert client.get("/nothing/here").status_code == 404
        assert client.get("/sessions/!").status_code == 400


@pytest.mark.parametrize("path", ["/sessions/1234/handover.md", "/sessions/1234/export.html", "/usage.csv?by=x"])
def test_a_program_that_asks_for_a_file_gets_an_error_that_it_can_read(server: PageServer, path: str) -> None:
    with server.client() as client:
        answer = client.get(path)
        assert set(answer.json()["error"]) >= {"code", "message"}
        page = client.get(path, headers={"Accept": "text/html,*/*"})
    assert page.headers["content-type"].startswith("text/html")


# Hand-over and trust


def test_the_hand_over_shows_capsule_command_and_lineage(server: PageServer, day: Day) -> None:
    path = f"/sessions/{day.session_id}/handover"
    data = server.json(path)
    assert data["session"]["resume_command"] == "claude --resume 11111111-2222-3333-4444-555555555555"
    assert [child["session_id"] for child in data["lineage"]["children"]] == [day.child_id]
    html = server.html(path)
    assert data["session"]["resume_command"] in html
    assert 'class="lineage"' in html
    assert "Look for other callers" in html
    with server.client() as client:
        answer = client.get(f"{path}.md")
    assert answer.text == data["markdown"]
    assert answer.headers["content-type"].startswith("text/markdown")


def test_a_turn_that_was_interrupted_is_drawn_as_such(server: PageServer) -> None:
    session_id = server.tool("open_session", {"agent": "Codex", "title": "Cut off"})["session_id"]
    for n in range(2):
        server.tool("begin_turn", {"session_id": session_id, "query_title": f"Part {n}", "query_text": "Do it"})
    assert "2. Part 1 (in_progress, " in server.html(f"/sessions/{session_id}/outline")
    server.tool("close_session", {"session_id": session_id})
    html = server.html(f"/sessions/{session_id}/outline")
    assert "2. Part 1 (interrupted, " in html
    assert "turn-interrupted" in html


def test_the_hand_over_shows_note_turn_and_endings_and_what_is_only_claimed(server: PageServer) -> None:
    session_id = server.tool("open_session", {"agent": "Codex", "agent_id": "leaver", "title": "Leave well"})[
        "session_id"
    ]
    named = {"session_id": session_id}
    for n in range(90):
        server.tool("begin_turn", {**named, "query_title": f"Part {n} of the work " + "x" * 60, "query_text": "Do it"})
        server.tool("finish_turn", {**named, "outcome": "completed", "response": "Done"})
    turn = server.tool("begin_turn", {**named, "query_title": "Half done", "query_text": "Do it"})["request_id"]
    shell = server.tool("open_shell", named)["shell_id"]
    server.tool("run_command", {"shell_id": shell, "command": "exit_with() { return $1; }; exit_with 7"})
    statement = {"version": 1, "goal": "Leave <b>well</b>", "ttl_days": 1, "written_at": "2020-01-01T00:00:00Z"}
    server.tool("close_session", {**named, "epitaph": "Mind\nthe <i>gap</i>", "capsule": statement})
    html = server.html(f"/sessions/{session_id}/handover")
    for text in (
        'Leave &lt;b&gt;well&lt;/b&gt; <span class="tag">claimed</span>',
        'Mind\nthe &lt;i&gt;gap&lt;/i&gt; <span class="tag">claimed</span>',
        f'Half done <span class="state warn">Interrupted</span> <span class="about">{turn}</span>',
        'exit_with 7</code> <span class="about">exit 7</span>',
        "days ago and is stale.",
    ):
        assert text in html, text
    assert re.search(r"Left out to keep it short: done [1-9][0-9]?\.", html)


def test_a_run_that_failed_says_so_and_why_where_its_session_is_shown(server: PageServer) -> None:
    opened = server.tool("open_session", {"agent": "Codex", "title": "Spawned", "caller": "headless_task"})
    session_id = opened["session_id"]
    assert f"<dt>Run {opened['run_id']}</dt><dd>running</dd>" in server.html(f"/sessions/{session_id}")
    figures = {"returncode": 3, "error": "Out of <memory>\nand more", "input_tokens": 9}
    server.tool("close_session", {"session_id": session_id, **figures})
    html = server.html(f"/sessions/{session_id}")
    assert '<span class="bad">failed</span> <span class="about">exit 3</span>' in html
    note = re.search(r'<p class="step note"[^>]* data-error>.*?</p>', html, re.S)
    assert note is not None
    assert "error <b>Out of &lt;memory&gt;…</b>" in note[0]


def test_trust_says_verified_and_gives_the_receipt(server: PageServer, day: Day) -> None:
    data = server.json(f"/sessions/{day.other_id}/trust")
    assert data["chain"]["ok"] is True
    assert "verified" in server.html(f"/sessions/{day.other_id}/trust")
    [receipt] = data["receipts"]
    with server.client() as client:
        answer = client.get(f"/sessions/{day.other_id}/receipts/{receipt['seq']}.json")
        assert client.get(f"/sessions/{day.other_id}/receipts/1.json").status_code == 404
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.json() == receipt


def test_a_broken_chain_says_where(server: PageServer) -> None:
    session_id = server.tool("open_session", {"agent": "Codex", "title": "To be broken"})["session_id"]
    server.tool("begin_turn", {"session_id": session_id, "query_title": "Go", "query_text": "Go"})

    def tamper(writer: Any) -> None:
        entry = writer.entries(session_id, after=1, until=2)[0]
        key = writer._db.execute("SELECT key FROM journals WHERE id = ?", (session_id,)).fetchone()[0]
        body = json.dumps({**entry.facts, "query_text": "Something else"}).encode()
        writer._db.execute("UPDATE entries SET body = ? WHERE id = ?", (body, (key << 24) + 2))

    server.do(server.app.store.write(tamper))
    data = server.json(f"/sessions/{session_id}/trust")
    assert data["chain"]["ok"] is False
    assert data["chain"]["seq"] == 2
    assert "broken at entry 2" in server.html(f"/sessions/{session_id}/trust")


def test_a_project_whose_name_is_a_path_has_a_page(server: PageServer) -> None:
    for folder in ("/srv/one/twin", "/srv/two/twin"):
        opened = {"agent": "Codex", "title": f"Work in {folder}", "cwd": folder}
        named = {"session_id": server.tool("open_session", opened)["session_id"]}
        server.tool("begin_turn", {**named, "query_title": "Go", "query_text": "Go"})
        server.tool("finish_turn", {**named, "outcome": "completed", "response": "Ok", "usage": {"input_tokens": 1}})
    listed = [row["project"] for row in server.json("/projects")["projects"]]
    assert {"/srv/one/twin", "/srv/two/twin"} <= set(listed)
    [href] = re.findall(r'href="(/projects/[^"]*one[^"]*)"', server.html("/projects"))
    assert [one["title"] for one in server.json(href)["sessions"]] == ["Work in /srv/one/twin"]
    assert len(server.json("/projects/twin")["sessions"]) == 2


def test_a_command_is_one_match_of_a_search_in_its_session(server: PageServer, tmp_path: Path) -> None:
    named = {"session_id": server.tool("open_session", {"agent": "Codex", "title": "Walked"})["session_id"]}
    server.tool("begin_turn", {**named, "query_title": "Go", "query_text": "Go"})
    shell = server.tool("open_shell", {**named, "cwd": str(tmp_path)})["shell_id"]
    for _ in range(2):
        server.tool("run_command", {"shell_id": shell, "command": "echo heron"})
    server.tool("close_shell", {"shell_id": shell})
    found = server.json(f"/sessions/{named['session_id']}/find", q="heron")
    assert len(found["matches"]) == found["total"] == 2


def test_what_is_only_shown_otherwise_is_not_called_a_broken_entry(server: PageServer, tmp_path: Path) -> None:
    named = {"session_id": server.tool("open_session", {"agent": "Codex", "title": "Shown otherwise"})["session_id"]}
    server.tool("close_session", named)
    with apsw.Connection(str(server.home / "shiftlog.db")) as database:
        database.execute("UPDATE sessions SET agent = 'Another' WHERE id = ?", (named["session_id"],))
    html = server.html(f"/sessions/{named['session_id']}/trust")
    assert "shown otherwise" in html
    assert "broken at entry" not in html
    assert "shiftlog rebuild" in html


def test_a_session_that_fails_all_the_time_is_one_line_of_the_first_page(server: PageServer) -> None:
    named = {"session_id": server.tool("open_session", {"agent": "Codex", "title": "Fails always"})["session_id"]}
    for number in range(12):
        server.tool("begin_turn", {**named, "query_title": f"Try {number}", "query_text": "Try"})
        server.tool("finish_turn", {**named, "outcome": "failed", "error_message": "No"})
    failed = server.json("/now")["overview"]["failed"]
    [mine] = [one for one in failed if one["session_id"] == named["session_id"]]
    assert (mine["title"], mine["times"]) == ("Try 11", 12)


def test_a_browser_keeps_the_style_that_each_page_waits_for_until_it_changes(server: PageServer, day: Day) -> None:
    found = re.search(r'href="(/static/style\.css\?v=[0-9a-f]{16})"', server.html("/"))
    assert found is not None
    with server.client() as client:
        assert "immutable" in client.get(found[1]).headers["cache-control"]
        assert client.get("/static/style.css?v=0").headers["cache-control"] == "private, max-age=60"
        assert client.get("/static/page.js").headers["cache-control"] == "private, max-age=60"


def test_what_an_import_notes_of_an_ended_turn_stands_in_it_also_behind_later_turns(server: PageServer) -> None:
    work = server.home.parent / "noted"
    work.mkdir()
    opened = {"agent": "Codex", "title": "Noted late", "cwd": str(work)}
    named = {"session_id": server.tool("open_session", opened)["session_id"]}
    shell = server.tool("open_shell", {**named, "cwd": str(work), "workspace": str(work)})["shell_id"]
    turns: list[str] = []
    for number in range(3):
        turns.append(server.tool("begin_turn", {**named, "query_title": "Go", "query_text": "Go"})["request_id"])
        server.tool("run_command", {"shell_id": shell, "command": f"echo {number} > {number}.txt"})
        server.tool("finish_turn", {**named, "outcome": "completed", "response": "Done"})
    server.tool("close_shell", {"shell_id": shell})
    told = server.html(f"/sessions/{named['session_id']}").split('<article class="turn')[1:]
    noted = [re.findall(r"Files seen to change</span> <span>create <b>(\d)\.txt", turn) for turn in told]
    assert noted == [["0"], ["1"], ["2"]]
    one = server.html(f"/sessions/{named['session_id']}/turns/{turns[1]}")
    assert "Files seen to change" in one


def test_a_bare_shell_is_found_under_the_name_of_what_ran_in_it(server: PageServer, tmp_path: Path) -> None:
    shell = server.tool("open_shell", {"cwd": str(tmp_path)})["shell_id"]
    server.tool("run_command", {"shell_id": shell, "command": "echo zanzibar"})
    server.tool("close_shell", {"shell_id": shell})
    [item] = server.do(ask(server.app, "search", {"text": "zanzibar", "kinds": ["session"]}))["items"]
    assert (item["title"], item["ran"]) == ("shell", "echo zanzibar")
    assert '">echo zanzibar</a>' in server.html("/sessions", q="zanzibar")


def test_a_step_that_changed_a_file_names_the_file_once(server: PageServer) -> None:
    session = server.tool("open_session", {"agent": "Codex", "agent_id": "mole", "title": "Limits"})["session_id"]
    server.tool("begin_turn", {"session_id": session, "query_title": "Raise it", "query_text": "Raise the limit"})
    actions = [
        did("edit", "Raise the limit to 120", "config/limits.env"),
        did("create", "Write config/new.env", "config/new.env"),
    ]
    server.tool("update_turn", {"session_id": session, "actions": actions})
    html = server.html(f"/sessions/{session}")
    steps = re.findall(r'<span class="what">(?:Edit|Create)</span>.*?</div>', html, re.DOTALL)
    assert [step.count(f"config/{name}.env") for step, name in zip(steps, ("limits", "new"), strict=True)] == [1, 1]


def test_the_glimpse_of_a_thought_ends_after_a_whole_word(server: PageServer) -> None:
    session = server.tool("open_session", {"agent": "Codex", "agent_id": "owl", "title": "Thoughts"})["session_id"]
    server.tool("begin_turn", {"session_id": session, "query_title": "Think", "query_text": "Think first"})
    begins = "The second charge always comes 30 seconds after the first, so I should look at how it retries, "
    thought = f"{begins}and its timeouts too"
    server.tool("update_turn", {"session_id": session, "dialog": [said("model", "reasoning", thought)]})
    [glimpse] = re.findall(
        r'class="who">Reasoning</span> <span class="about">(.*?)</span>', server.html(f"/sessions/{session}")
    )
    assert glimpse.endswith("…")
    assert thought.startswith(f"{glimpse.removesuffix('…')} ")


def test_the_palette_tells_when_each_session_was_last_used(server: PageServer, day: Day) -> None:
    # No title has this word: the session is found by what was decided in it.
    sessions = [item for item in server.json("/palette", q="idempotency")["items"] if item["kind"] == "session"]
    assert day.session_id in " ".join(item["href"] for item in sessions)
    listed = server.html("/palette", q="idempotency").partition("<h1>Go to</h1>")[2]
    assert [f'datetime="{item["at"]}"' in listed for item in sessions] == [True] * len(sessions)
