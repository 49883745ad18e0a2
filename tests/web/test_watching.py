"""A person who watches agents in a real browser: answers what waits, changes a session, and reads its bookkeeping."""

import asyncio
import re
from collections.abc import Generator
from concurrent.futures import Future
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from tests.web.browsing import came_in
from tests.web.server import CLIENT, PageServer, serving


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Generator[PageServer]:
    """Serve a place whose policy asks about `touch`."""
    home = tmp_path_factory.mktemp("watching") / "home"
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text('[policy]\nask = ["touch"]\n')
    with serving(home) as server:
        yield server


@pytest.fixture
def page(watched: PageServer, context: BrowserContext) -> Generator[Page]:
    page, complaints = came_in(context, watched)
    page.set_viewport_size({"width": 1440, "height": 900})
    yield page
    assert complaints == []


def work_on(server: PageServer, title: str) -> tuple[str, str]:
    """Begin a session with a shell and a turn; return the ids of session and shell."""
    work = server.home.parent / "shop"
    work.mkdir(exist_ok=True)
    session_id = server.tool("open_session", {"agent": "Codex", "title": title, "cwd": str(work)})["session_id"]
    shell = server.tool("open_shell", {"session_id": session_id, "cwd": str(work)})["shell_id"]
    server.tool("begin_turn", {"session_id": session_id, "query_title": "Release", "query_text": "Release it"})
    return session_id, shell


def ask_for(server: PageServer, shell: str, command: str) -> Future[Any]:
    """Run a command that waits for an answer."""
    asked = server.app.shells.commands.run_command({"shell_id": shell, "command": command}, CLIENT)
    return asyncio.run_coroutine_threadsafe(asked, server.loop)


def test_a_command_is_approved_where_it_waits_and_the_first_page_hears_of_both(
    watched: PageServer, page: Page, context: BrowserContext
) -> None:
    session_id, shell = work_on(watched, "Cut a release")
    page.goto(f"{watched.base}/sessions")
    expect(page.locator("#live")).to_have_text("Live")
    expect(page.locator("#now .asked")).to_have_count(0)
    beside = context.new_page()
    beside.goto(f"{watched.base}/sessions/{session_id}")
    expect(beside.locator("#live")).to_have_text("Live")
    expect(beside.locator("#waits .asked")).to_have_count(0)
    waiting = ask_for(watched, shell, "touch released && echo it is out")
    expect(page.locator("#now .asked")).to_contain_text("touch released")
    expect(page.locator("#now .asked")).to_contain_text("without an answer refused in")
    question = beside.locator("#waits .asked")
    expect(question).to_contain_text("would start touch")
    page.get_by_role("button", name="Approve once").focus()
    watched.tool("open_session", {"agent": "Codex", "title": "Came meanwhile"})
    expect(page.get_by_role("link", name="Came meanwhile")).to_be_visible()
    expect(page.get_by_role("button", name="Approve once")).to_be_focused()
    question.get_by_role("button", name="Approve once").click()
    beside.wait_for_url(f"{watched.base}/sessions/{session_id}")
    assert waiting.result(60)["exit_code"] == 0
    expect(beside.locator("#waits .asked")).to_have_count(0)
    expect(beside.locator("#timeline").get_by_text("it is out", exact=True)).to_be_visible()
    expect(page.locator("#now .asked")).to_have_count(0)


def test_a_person_renames_stars_tags_notes_and_closes_a_session(watched: PageServer, page: Page) -> None:
    session_id, _ = work_on(watched, "Untitled work")
    page.goto(f"{watched.base}/sessions/{session_id}")
    acts = page.locator("details.acts")

    def act(field: str | None, text: str, button: str) -> None:
        acts.locator("summary").click()
        if field:
            acts.get_by_label(field, exact=True).fill(text)
        acts.get_by_role("button", name=button, exact=True).click()
        page.wait_for_load_state()

    act("Title", "Ship the cart", "Rename")
    expect(page.locator("h1")).to_have_text("Ship the cart")
    act("Tag", "release", "Tag")
    expect(page.locator(".head .tag")).to_have_text(["release"])
    act("Note", "Ask Ivy first", "Add the note")
    expect(page.locator("#timeline")).to_contain_text("Ask Ivy first")
    act(None, "", "Star")
    expect(page.locator(".head .tag", has_text="starred")).to_be_visible()
    page.locator(".chip", has_text="Starred").click()
    page.wait_for_url(re.compile("tag=starred"))
    expect(page.locator(".row .title")).to_have_text(["Ship the cart"])
    page.locator(".row .title").click()
    page.once("dialog", lambda dialog: dialog.dismiss())
    act(None, "", "Close the session")
    assert watched.json(f"/sessions/{session_id}")["session"]["state"] == "open", "the person said no"
    page.keyboard.press("Escape")
    page.reload()
    page.once("dialog", lambda dialog: dialog.accept())
    act(None, "", "Close the session")
    expect(page.locator("#state")).to_have_text("Closed")


def test_a_key_counts_although_the_script_of_the_story_comes_later(watched: PageServer, page: Page) -> None:
    session_id, _ = work_on(watched, "Pressed at once")
    held: list[Route] = []
    page.route("**/session.js*", lambda route: held.append(route))  # noqa: PLW0108 - its parameters are counted
    with page.expect_request("**/session.js*"):
        page.goto(f"{watched.base}/sessions/{session_id}")
    opened = page.locator("#timeline .note", has_text="Session opened")
    page.keyboard.press("b")
    expect(opened).to_be_hidden()
    held[0].continue_()
    expect(opened).to_be_visible()


def test_bookkeeping_the_strip_and_the_time_of_a_turn_are_shown_on_request(watched: PageServer, page: Page) -> None:
    session_id, shell = work_on(watched, "Where did it go")
    named = {"session_id": session_id}
    watched.tool("run_command", {"shell_id": shell, "command": "sleep 1.1; (exit 3)"})
    watched.tool("run_command", {"shell_id": shell, "command": "sleep 0.2"})
    watched.tool("finish_turn", {**named, "outcome": "completed", "response": "Done"})
    watched.tool("begin_turn", {**named, "query_title": "Again", "query_text": "Again"})
    page.goto(f"{watched.base}/sessions/{session_id}")
    opened = page.locator("#timeline .note", has_text="Session opened")
    expect(opened).to_be_hidden()
    page.keyboard.press("b")
    expect(opened).to_be_visible()
    page.keyboard.press("b")
    expect(opened).to_be_hidden()
    first = page.locator("#timeline article.turn").first
    first.locator(".falls > summary").click()
    slow = first.locator(".falls a", has_text="sleep 1.1")
    expect(slow).to_contain_text(re.compile(r"[0-9][.][0-9] s"))
    slow.click()
    expect(first.locator(".step.command.failed")).to_be_in_viewport()
    widths = "[...document.querySelectorAll('.strip .room')].map((one) => Number(one.getAttribute('width')))"
    expect(page.locator(".strip a")).to_have_count(2)
    assert page.evaluate(widths) == [500, 500]
    page.get_by_role("link", name="by time").click()
    expect(page.locator(".overview [aria-current]")).to_have_text("by time")
    assert sum(page.evaluate(widths)) == pytest.approx(1000, abs=1), "the whole width can be clicked"
    page.goto(f"{watched.base}/sessions?group=project")
    expect(page.locator(".day h2", has_text="shop")).to_be_visible()
