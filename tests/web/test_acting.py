"""Acts from the page: only a browser that came by a link of this daemon may act, and each act is a person's."""

import re
from pathlib import Path
from urllib.parse import urlencode

import httpx
import pytest

from tests.web.server import PageServer, token_of
from tests.web.stories import Day


def test_a_program_with_the_token_or_a_cookie_of_before_may_look_but_not_act(server: PageServer, day: Day) -> None:
    from shiftlog.web.door import Door

    form = {"session_id": day.other_id, "note": "I was here"}
    with server.client() as client:
        assert "data-csrf" not in client.get("/").text
        assert client.post("/act/annotate", data={**form, "csrf": "0" * 64}).status_code == 401
    # Who reads the token can sign a cookie, as a daemon before this one did; it came by no link of this one.
    forger = Door(server.token)
    cookie = forger.exchange(forger.issue_code())
    assert cookie is not None
    headers = {"Cookie": f"{forger.cookie_name}={cookie}"}
    with httpx.Client(base_url=server.base, headers=headers) as client:
        page = client.get("/")
        assert page.status_code == 200
        assert "data-csrf" not in page.text
        answer = client.post("/act/annotate", data={**form, "csrf": "0" * 64}, headers={"Accept": "application/json"})
    assert answer.status_code == 401
    assert answer.json()["error"]["message"] == "This browser may only look"


def test_an_act_needs_the_token_of_its_browser_and_comes_from_no_other_page(
    server: PageServer, day: Day, person: httpx.Client
) -> None:
    form = {"session_id": day.other_id, "note": "Not by me"}
    token = token_of(person)
    before = server.json(f"/sessions/{day.other_id}")["session"]["entry_count"]
    assert person.post("/act/annotate", data=form).status_code == 401
    assert person.post("/act/annotate", data={**form, "csrf": "0" * 64}).status_code == 401
    foreign = {"Origin": "http://evil.example"}
    assert person.post("/act/annotate", data={**form, "csrf": token}, headers=foreign).status_code == 403
    assert person.get("/act/annotate").status_code == 405
    assert person.post("/act/nonsense", data={"csrf": token}).status_code == 400
    assert person.post("/act/annotate", content=b"x" * 70_000).status_code == 400
    assert server.json(f"/sessions/{day.other_id}")["session"]["entry_count"] == before


def test_title_tags_star_and_note_are_recorded_as_a_persons(server: PageServer, day: Day, person: httpx.Client) -> None:
    form = {"csrf": token_of(person), "session_id": day.other_id, "back": f"/sessions/{day.other_id}"}
    changes = {"title": "Changelog in order", "add_tags": "starred, release", "note": "Good work"}
    answer = person.post("/act/annotate", data={**form, **changes})
    assert (answer.status_code, answer.headers["location"]) == (303, f"/sessions/{day.other_id}")
    session = server.json(f"/sessions/{day.other_id}")["session"]
    assert (session["title"], session["tags"]) == ("Changelog in order", ["starred", "release"])
    [entry] = server.json(f"/sessions/{day.other_id}/entries", after=session["entry_count"] - 1)["entries"]
    assert (entry["kind"], entry["body"]["by"], entry["body"]["note"]) == ("session.updated", "person", "Good work")
    listed = server.json("/sessions", tag="starred")["items"]
    assert [item["session_id"] for item in listed] == [day.other_id]
    assert "Good work" in server.html(f"/sessions/{day.other_id}")
    person.post("/act/annotate", data={**form, "remove_tags": "starred"})
    assert server.json(f"/sessions/{day.other_id}")["session"]["tags"] == ["release"]
    assert person.post("/act/annotate", data=form).status_code == 400, "nothing would change"
    person.post("/act/annotate", data={**form, "title": "Tidy the changelog", "remove_tags": "release"})


def test_no_act_leads_to_another_site(server: PageServer, day: Day, person: httpx.Client) -> None:
    form = {"csrf": token_of(person), "session_id": day.other_id}
    for number, back in enumerate(("//evil.example/", "https://evil.example/", "/\\evil.example")):
        answer = person.post("/act/annotate", data={**form, "back": back, "note": f"Note {number}"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/")


def test_an_entry_is_erased_only_by_one_who_is_sure_and_gives_a_reason(
    server: PageServer, person: httpx.Client
) -> None:
    session_id = server.tool("open_session", {"agent": "Codex", "title": "Erased in part"})["session_id"]
    server.tool("begin_turn", {"session_id": session_id, "query_title": "Go", "query_text": "My private words"})
    form = {"csrf": token_of(person), "session_id": session_id, "seq": "2"}
    assert "Erase this entry" in person.get(f"/sessions/{session_id}/entries/2").text
    assert person.post("/act/erase", data={**form, "reason": "private"}).status_code == 400
    assert person.post("/act/erase", data={**form, "sure": "yes"}).status_code == 400
    assert person.post("/act/erase", data={**form, "sure": "yes", "reason": "private"}).status_code == 303
    assert server.json(f"/sessions/{session_id}/entries/2")["entry"]["erased"] is True


def test_a_session_is_closed_and_offered_by_a_person(server: PageServer, person: httpx.Client) -> None:
    form = {"csrf": token_of(person)}
    closed = server.tool("open_session", {"agent": "Codex", "title": "To be closed"})["session_id"]
    assert person.post("/act/close", data={**form, "session_id": closed}).status_code == 303
    assert server.json(f"/sessions/{closed}")["session"]["state"] == "closed"
    offered = server.tool("open_session", {"agent": "Codex", "title": "To be offered"})["session_id"]
    page = person.post("/act/offer", data={**form, "session_id": offered, "agent_id": "night-shift"})
    assert page.status_code == 200
    assert re.search(r'<code id="token">\S+</code>', page.text)
    entries = server.json(f"/sessions/{offered}/entries")["entries"]
    [offer] = [entry for entry in entries if entry["kind"] == "handoff.offered"]
    assert offer["body"]["by"] == "person"


def test_only_the_second_turn_is_taken_back_and_the_difference_is_shown_first(
    server: PageServer, person: httpx.Client, tmp_path: Path
) -> None:
    session_id = server.tool("open_session", {"agent": "Codex", "title": "Three turns", "cwd": str(tmp_path)})[
        "session_id"
    ]
    opening = {"session_id": session_id, "cwd": str(tmp_path), "workspace": str(tmp_path)}
    shell = server.tool("open_shell", opening)["shell_id"]
    turns: list[str] = []
    for name in ("one", "two", "three"):
        begun = server.tool("begin_turn", {"session_id": session_id, "query_title": name, "query_text": name})
        turns.append(begun["request_id"])
        server.tool("run_command", {"shell_id": shell, "command": f"echo {name} > {name}.txt"})
        named = {"type": "edit", "description": f"Write {name}", "status": "completed", "file_path": f"{name}.txt"}
        server.tool("update_turn", {"session_id": session_id, "actions": [named]})
        server.tool("finish_turn", {"session_id": session_id, "outcome": "completed", "response": "Done"})
    server.tool("close_shell", {"shell_id": shell})
    path = f"/sessions/{session_id}/turns/{turns[1]}/undo"
    shown = server.json(path)
    if not shown["files"]:
        pytest.skip("no git here, so no checkpoints")
    assert [file["path"] for file in shown["own"]] == ["two.txt"]
    assert "+two" in shown["patch"]
    html = person.get(path).text
    assert "Only what this turn changed" in html
    assert (tmp_path / "two.txt").exists(), "looking changes nothing"
    form = {"csrf": token_of(person), "session_id": session_id, "request_id": turns[1]}
    assert person.post("/act/rewind", data={**form, "only_paths": "yes"}).status_code == 400
    done = person.post("/act/rewind", data={**form, "only_paths": "yes", "paths": "two.txt"})
    assert done.status_code == 303, done.text
    assert sorted(file.name for file in tmp_path.glob("*.txt")) == ["one.txt", "three.txt"]
    entries = server.json(f"/sessions/{session_id}/entries")["entries"]
    [restored] = [entry for entry in entries if entry["kind"] == "checkpoint.restored"]
    assert restored["body"]["cause"]["by"] == "person"
    told = re.split(r'<article class="turn', server.html(f"/sessions/{session_id}"))[1:]
    assert ["Taken back by a person" in turn for turn in told] == [False, True, False]
    # The commands of a turn changed the file: the checkpoints around the turn know how.
    where = {"project": tmp_path.name, "path": "two.txt"}
    [touch] = server.json(f"/files?{urlencode(where)}")["touches"]
    assert [line for line in touch["diffs"][0]["diff"].split("\n") if line.startswith("+")] == ["+++ b/two.txt", "+two"]
    found = server.json(f"/files?{urlencode({**where, 'line': 'two'})}")
    assert [one["request_id"] for one in found["touches"]] == [turns[1]]
    assert server.json(f"/files?{urlencode({**where, 'line': 'three'})}")["touches"] == []


def test_a_turn_that_only_ran_commands_is_taken_back_by_what_its_checkpoints_say(
    server: PageServer, person: httpx.Client, tmp_path: Path
) -> None:
    opened = {"agent": "Codex", "title": "Only commands", "cwd": str(tmp_path)}
    named = {"session_id": server.tool("open_session", opened)["session_id"]}
    shell = server.tool("open_shell", {**named, "cwd": str(tmp_path), "workspace": str(tmp_path)})["shell_id"]
    turns: list[str] = []
    for command in (
        "echo 1 > kept.txt; echo 1 > both.txt",
        "echo 2 > two.txt; echo 2 >> both.txt",
        "echo 3 >> both.txt",
    ):
        begun = server.tool("begin_turn", {**named, "query_title": command[:20], "query_text": command})
        turns.append(begun["request_id"])
        server.tool("run_command", {"shell_id": shell, "command": command})
        server.tool("finish_turn", {**named, "outcome": "completed", "response": "Done"})
    server.tool("close_shell", {"shell_id": shell})
    page = person.get(f"/sessions/{named['session_id']}").text
    path = f"/sessions/{named['session_id']}/turns/{turns[1]}/undo"
    shown = server.json(path)
    if not shown["files"]:
        pytest.skip("no git here, so no checkpoints")
    assert page.count("Take back…") == 3
    own = {file["path"]: file["changed_since"] for file in shown["own"]}
    assert own == {"both.txt": True, "two.txt": False}
    form = {"csrf": token_of(person), **named, "request_id": turns[1], "only_paths": "yes"}
    done = person.post("/act/rewind", data={**form, "paths": "two.txt"})
    assert done.status_code == 303, done.text
    assert sorted(file.name for file in tmp_path.glob("*.txt")) == ["both.txt", "kept.txt"]
    assert (tmp_path / "both.txt").read_text() == "1\n2\n3\n"


def test_a_turn_is_taken_back_where_its_shell_worked(server: PageServer, person: httpx.Client, tmp_path: Path) -> None:
    home, shop = tmp_path / "home", tmp_path / "shop"
    home.mkdir()
    shop.mkdir()
    opened = {"agent": "Codex", "title": "Worked elsewhere", "cwd": str(home)}
    named = {"session_id": server.tool("open_session", opened)["session_id"]}
    shell = server.tool("open_shell", {**named, "cwd": str(shop), "workspace": str(shop)})["shell_id"]
    turn = server.tool("begin_turn", {**named, "query_title": "One", "query_text": "One"})["request_id"]
    server.tool("run_command", {"shell_id": shell, "command": "echo 1 > one.txt"})
    server.tool("finish_turn", {**named, "outcome": "completed", "response": "Done"})
    server.tool("close_shell", {"shell_id": shell})
    shown = server.json(f"/sessions/{named['session_id']}/turns/{turn}/undo")
    assert [file["path"] for file in shown["own"]] == ["one.txt"]
    form = {"csrf": token_of(person), **named, "request_id": turn, "only_paths": "yes", "paths": "one.txt"}
    done = person.post("/act/rewind", data=form)
    assert done.status_code == 303, done.text
    assert not (shop / "one.txt").exists()


def test_tags_are_added_together_and_removed_one_by_one(server: PageServer, person: httpx.Client) -> None:
    named = {"session_id": server.tool("open_session", {"agent": "Codex", "title": "Tagged"})["session_id"]}
    server.tool("begin_turn", {**named, "query_title": "Go", "query_text": "Go"})
    form = {"csrf": token_of(person), **named}
    assert person.post("/act/annotate", data={**form, "add_tags": "one, two"}).status_code == 303
    assert server.json(f"/sessions/{named['session_id']}")["session"]["tags"] == ["one", "two"]
    assert person.post("/act/annotate", data={**form, "remove_tags": "one"}).status_code == 303
    assert server.json(f"/sessions/{named['session_id']}")["session"]["tags"] == ["two"]
