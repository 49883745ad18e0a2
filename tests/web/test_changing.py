"""What a person looks at and changes in a real browser: an image in full, an erased entry, a hand-over, a rewind."""

import base64
import json
import re
import struct
import zlib
from collections.abc import Generator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from shiftlog.ingest.importing.ports import ImportOptions
from tests.ingest.import_app import Claude
from tests.web.browsing import came_in
from tests.web.server import PageServer

WIDTH, HEIGHT = 900, 600


@pytest.fixture
def page(server: PageServer, context: BrowserContext) -> Generator[Page]:
    page, complaints = came_in(context, server)
    yield page
    assert complaints == []


def png() -> str:
    """Return a grey picture that is larger than its thumbnail."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 0, 0, 0, 0)
    rows = zlib.compress((b"\0" + b"\x80" * WIDTH) * HEIGHT)
    made = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    return base64.b64encode(made).decode()


def kinds(server: PageServer, session_id: str) -> list[str]:
    return [str(entry["kind"]) for entry in server.json(f"/sessions/{session_id}/entries")["entries"]]


def test_an_image_is_shown_in_full_by_a_click_and_back_leads_to_the_session(
    server: PageServer, page: Page, tmp_path: Path
) -> None:
    transcript = Claude(session="1111111a-2222-4333-8444-555555555555", letter="f")
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": png()}}
    transcript.prompt([{"type": "text", "text": "Look at this"}, image]).says("Grey.").ends()
    path = tmp_path / f"{transcript.session}.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in transcript.records), encoding="utf-8")
    server.do(server.app.imports.run(ImportOptions(paths=[str(path)], jobs=0, keep_images=True)))
    page.goto(f"{server.base}/sessions/{transcript.session}")
    thumb = page.get_by_role("img", name=re.compile("^Image 1, png"))
    expect(thumb).to_have_js_property("naturalWidth", WIDTH)
    box = thumb.bounding_box()
    assert box is not None
    assert box["width"] < WIDTH / 2
    thumb.click()
    page.wait_for_url(re.compile("/images/"))
    full = page.locator("img")
    expect(full).to_have_js_property("naturalWidth", WIDTH)
    assert full.evaluate("one => one.clientWidth") == WIDTH
    page.go_back()
    expect(thumb).to_be_in_viewport()


def test_the_checkpoint_after_a_turn_is_bookkeeping_for_the_turn_lists_its_files(
    server: PageServer, page: Page, tmp_path: Path
) -> None:
    session_id = server.tool("open_session", {"agent": "Codex", "title": "Ended quietly"})["session_id"]
    named = {"session_id": session_id}
    shell = server.tool("open_shell", {**named, "cwd": str(tmp_path), "workspace": str(tmp_path)})["shell_id"]
    server.tool("begin_turn", {**named, "query_title": "Write it", "query_text": "Write it"})
    server.tool("run_command", {"shell_id": shell, "command": "echo first > notes.txt"})
    server.tool("finish_turn", {**named, "outcome": "completed", "response": "Written."})
    server.tool("close_shell", {"shell_id": shell})
    after = [
        entry["seq"]
        for entry in server.json(f"/sessions/{session_id}/entries")["entries"]
        if entry["kind"] == "checkpoint.saved" and entry["body"]["kind"] == "end"
    ]
    assert after, "the turn has ended with a checkpoint"
    page.goto(f"{server.base}/sessions/{session_id}")
    expect(page.locator("article.turn").get_by_label("Files of this turn")).to_contain_text("notes.txt")
    row = page.locator(f"#e{after[0]}")
    expect(row).to_be_hidden()
    page.keyboard.press("b")
    expect(row).to_be_visible()
    expect(row).to_contain_text("Checkpoint")


def test_an_entry_is_erased_once_the_person_is_sure(server: PageServer, page: Page) -> None:
    session_id = server.tool("open_session", {"agent": "Codex", "title": "Said too much"})["session_id"]
    server.tool("begin_turn", {"session_id": session_id, "query_title": "Go", "query_text": "My private words"})
    seq = kinds(server, session_id).index("turn.begun") + 1
    page.goto(f"{server.base}/sessions/{session_id}/entries/{seq}")
    body = page.locator("dl.body")
    expect(body).to_contain_text("My private words")
    page.get_by_text("Erase this entry").click()
    page.get_by_label("Reason").fill("private")
    erase = page.get_by_role("button", name=f"Erase entry {seq}")
    erase.click()
    assert page.get_by_label("I am sure").evaluate("one => one.validity.valueMissing"), "the browser asks for the tick"
    assert server.json(f"/sessions/{session_id}/entries/{seq}")["entry"]["erased"] is False
    page.get_by_label("I am sure").check()
    erase.click()
    expect(page.get_by_text("The body was erased.")).to_be_visible()
    expect(body).to_have_count(0)
    page.goto(f"{server.base}/sessions/{session_id}")
    expect(page.locator("article.turn")).to_have_count(1)
    expect(page.get_by_text("My private words")).to_have_count(0)
    expect(page.locator("#chain")).to_contain_text("verified")


def test_a_session_is_handed_over_with_a_token_that_another_agent_takes(server: PageServer, page: Page) -> None:
    session_id = server.tool("open_session", {"agent": "Codex", "title": "For the night shift"})["session_id"]
    page.goto(f"{server.base}/sessions/{session_id}")
    acts = page.locator("details.acts")
    acts.locator("summary").click()
    acts.get_by_label("To agent").fill("night")
    page.once("dialog", lambda dialog: dialog.dismiss())
    acts.get_by_role("button", name="Hand over").click()
    assert server.json(f"/sessions/{session_id}")["session"]["state"] == "open", "the person said no"
    page.once("dialog", lambda dialog: dialog.accept())
    acts.get_by_role("button", name="Hand over").click()
    expect(page.get_by_role("heading", name="The session is offered")).to_be_visible()
    expect(page.get_by_text("shiftlog handover accept --agent-id night TOKEN")).to_be_visible()
    token = page.locator("#token").inner_text()
    page.get_by_role("link", name="Back to the session").click()
    expect(page.locator("#state")).to_have_text("Closed")
    taken = server.tool("resume_session", {"agent_id": "night", "recovery_token": token})
    expect(page.locator("#state")).to_have_text("Continued")
    assert taken["session_id"] != session_id
    page.goto(f"{server.base}/sessions/{taken['session_id']}/handover")
    lineage = page.get_by_role("region", name="Lineage")
    expect(lineage.locator(f'a[href="/sessions/{session_id}"]')).to_be_visible()


def test_all_files_are_rewound_to_where_a_turn_found_them(server: PageServer, page: Page, tmp_path: Path) -> None:
    opening = {"agent": "Codex", "title": "Rewound", "cwd": str(tmp_path)}
    named = {"session_id": server.tool("open_session", opening)["session_id"]}
    shell = server.tool("open_shell", {**named, "cwd": str(tmp_path), "workspace": str(tmp_path)})["shell_id"]
    for name in ("one", "two", "three"):
        server.tool("begin_turn", {**named, "query_title": f"Write {name}", "query_text": "Go"})
        server.tool("run_command", {"shell_id": shell, "command": f"echo {name} > {name}.txt"})
        edit = {"type": "edit", "description": "Write", "status": "completed", "file_path": f"{name}.txt"}
        server.tool("update_turn", {**named, "actions": [edit]})
        server.tool("finish_turn", {**named, "outcome": "completed", "response": "Done"})
    server.tool("close_shell", {"shell_id": shell})
    page.goto(f"{server.base}/sessions/{named['session_id']}")
    page.get_by_role("article", name="Write two").get_by_role("link", name="Take back…").click()
    expect(page.get_by_text("2 files differ from the state before this turn.")).to_be_visible()
    assert (tmp_path / "two.txt").exists(), "looking changes nothing"
    page.get_by_role("button", name="Rewind all 2 files").click()
    page.wait_for_url(f"{server.base}/sessions/{named['session_id']}")
    assert [file.name for file in tmp_path.glob("*.txt")] == ["one.txt"]
    expect(page.locator("article.turn")).to_have_count(3)


def test_the_filter_of_the_usage_fits_on_one_row_of_a_wide_screen(server: PageServer, page: Page) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(f"{server.base}/usage")
    main = page.get_by_role("main")
    boxes = [main.get_by_label("From").bounding_box(), main.get_by_role("link", name="All days").bounding_box()]
    tops, bottoms = [box["y"] for box in boxes if box], [box["y"] + box["height"] for box in boxes if box]
    assert max(tops) < min(bottoms), "they share a row"


def test_a_turn_with_nothing_but_bookkeeping_offers_no_steps(server: PageServer, page: Page) -> None:
    named = {"session_id": server.tool("open_session", {"agent": "Codex", "title": "Said in a word"})["session_id"]}
    server.tool("begin_turn", {**named, "query_title": "Are you there?", "query_text": "Are you there?"})
    usage = {"input_tokens": 900, "output_tokens": 30}
    server.tool("finish_turn", {**named, "outcome": "completed", "response": "Yes", "usage": usage})
    page.goto(f"{server.base}/sessions/{named['session_id']}")
    steps = page.locator("article.turn details.steps")
    expect(page.locator("article.turn").get_by_text("Yes", exact=True)).to_be_visible()
    expect(steps).to_be_hidden()
    page.get_by_label("Bookkeeping").check()
    expect(steps).to_be_visible()
