"""Replay in a real browser: playing, stepping, scrubbing, by mouse and by keys; notifications of the browser."""

import asyncio
import json
import re
import time
from collections.abc import Generator
from typing import Any, cast

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, Page, expect

from tests.web.browsing import RULES, came_in
from tests.web.conftest import PATIENCE_MS
from tests.web.server import CLIENT, PageServer, serving
from tests.web.stories import said

# Keeps what the browser is asked to show, and asks it.
RECORD = """
const Real = Notification;
window.Notification = class extends Real {
  constructor(title, about) {
    super(title, about);
    localStorage.setItem("seen", JSON.stringify([...JSON.parse(localStorage.getItem("seen") ?? "[]"), title]));
  }
};
"""

# Keeps each state of the first prompt on the stage.
WATCH = """
window.typed = new Set();
const stage = document.getElementById("stage");
new MutationObserver(() => {
  const prompt = stage.querySelector(".prompt");
  if (prompt) window.typed.add(prompt.textContent);
}).observe(stage, { subtree: true, characterData: true });
"""


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[PageServer, str]]:
    """Serve a session of two turns with a terminal in the first, and a command between them."""
    home = tmp_path_factory.mktemp("replay") / "home"
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text('[policy]\nask = ["touch"]\n')
    with serving(home) as server:
        work = home.parent / "work"
        work.mkdir()
        opened = server.tool("open_session", {"agent": "Codex", "title": "To be played", "cwd": str(work)})
        named = {"session_id": opened["session_id"]}
        shell = server.tool("open_shell", {**named, "cwd": str(work)})["shell_id"]
        server.tool("begin_turn", {**named, "query_title": "First", "query_text": "Do the first thing"})
        server.tool("update_turn", {**named, "dialog": [said("model", "observation", "I look around")]})
        server.tool("run_command", {"shell_id": shell, "command": "printf 'alpha\\nbeta\\ngamma\\n'"})
        server.tool("finish_turn", {**named, "outcome": "completed", "response": "The first is done"})
        server.tool("run_command", {"shell_id": shell, "command": "echo between"})
        server.tool("begin_turn", {**named, "query_title": "Second", "query_text": "Do the second thing"})
        server.tool("update_turn", {**named, "dialog": [said("model", "observation", "Once more")]})
        server.tool("finish_turn", {**named, "outcome": "failed", "error_message": "It broke"})
        yield server, str(opened["session_id"])


def test_a_session_plays_to_its_end_and_stops_there(played: tuple[PageServer, str], context: BrowserContext) -> None:
    server, session_id = played
    page, complaints = came_in(context, server, f"/sessions/{session_id}/replay")
    stage = page.locator("#stage")
    expect(stage).to_contain_text("Do the first thing")
    assert stage.get_by_text("I look around").is_hidden()
    page.get_by_label("Speed").select_option("64")
    page.get_by_role("button", name="Play").click()
    expect(stage).to_contain_text("It broke")
    expect(page.get_by_role("button", name="Play")).to_be_visible()
    expect(page.get_by_role("slider")).to_have_attribute("aria-valuetext", re.compile("^2 Second"))
    assert complaints == []


def test_a_replay_is_stepped_and_scrubbed_by_keys_and_the_address_keeps_the_turn(
    played: tuple[PageServer, str], context: BrowserContext
) -> None:
    server, session_id = played
    page, complaints = came_in(context, server, f"/sessions/{session_id}/replay")
    stage, slider = page.locator("#stage"), page.get_by_role("slider")
    expect(stage).to_contain_text("Do the first thing")
    page.keyboard.press("ArrowRight")
    expect(stage.get_by_text("I look around")).to_be_visible()
    page.keyboard.press("ArrowRight")
    expect(stage.locator(".term")).to_contain_text("alpha\nbeta\ngamma")
    page.keyboard.press("ArrowLeft")
    expect(stage.locator(".term")).to_be_hidden()
    page.keyboard.press("Shift+ArrowRight")
    expect(stage).to_contain_text("echo between")
    page.keyboard.press("Shift+ArrowRight")
    expect(stage).to_contain_text("Do the second thing")
    expect(page).to_have_url(re.compile(r"replay\?turn=req-.*second"))
    page.keyboard.press(">")
    expect(page.get_by_label("Speed")).to_have_value("8")
    page.keyboard.press("<")
    expect(page.get_by_label("Speed")).to_have_value("4")
    slider.fill("0")
    expect(stage).to_contain_text("Do the first thing")
    expect(slider).to_have_attribute("aria-valuetext", re.compile(r"^1 First · step 1 of "))
    slider.fill(str(int(slider.get_attribute("max") or 0)))
    expect(stage).to_contain_text("It broke")
    page.reload()
    expect(stage).to_contain_text("Do the second thing")
    found: Any = cast(Any, Axe()).run(page, options={"runOnly": RULES})
    assert found.violations_count == 0, found.generate_report()
    assert complaints == []


def test_who_wants_less_motion_sees_each_step_whole(played: tuple[PageServer, str], context: BrowserContext) -> None:
    server, session_id = played
    page, complaints = came_in(context, server, "/")
    page.emulate_media(reduced_motion="reduce")
    page.goto(f"{server.base}/sessions/{session_id}/replay")
    prompt = page.locator("#stage .term .prompt")
    expect(page.locator("#stage")).to_contain_text("Do the first thing")
    page.evaluate(WATCH)
    page.keyboard.press(" ")
    expect(prompt).to_be_visible()
    expect(page.locator("#stage")).to_contain_text("The first is done")
    page.keyboard.press(" ")
    assert set(page.evaluate("[...window.typed]")) <= {prompt.text_content()}
    assert complaints == []


def test_the_scenes_of_a_session_are_its_turns_and_the_commands_between_them(played: tuple[PageServer, str]) -> None:
    server, session_id = played
    scenes = server.json(f"/sessions/{session_id}/replay")["scenes"]
    assert [scene["title"] for scene in scenes] == ["1 First", "Outside of turns: 1 command", "2 Second"]
    empty = server.tool("open_session", {"agent": "Codex", "title": "Empty"})["session_id"]
    assert "There is nothing to play" in server.html(f"/sessions/{empty}/replay")


def test_the_browser_tells_of_what_waits_and_what_failed_once(
    played: tuple[PageServer, str], context: BrowserContext
) -> None:
    server, _ = played
    context.grant_permissions(["notifications"], origin=server.base)
    context.add_init_script(RECORD)
    page, complaints = came_in(context, server, "/")
    page.get_by_label("Notify me when something waits or fails").check()
    wait_for(page, "notify", "1")
    other = context.new_page()  # of two pages one tells
    other.goto(f"{server.base}/usage")
    opened = server.tool("open_session", {"agent": "Codex", "title": "Needs a person", "cwd": str(server.home.parent)})
    named = {"session_id": opened["session_id"]}
    shell = server.tool("open_shell", {**named, "cwd": str(server.home.parent)})["shell_id"]
    waiting = server.app.shells.commands.run_command({"shell_id": shell, "command": "touch x"}, CLIENT)
    asyncio.run_coroutine_threadsafe(waiting, server.loop)
    wait_for(page, "seen", json.dumps(["Waits for you: Needs a person"], separators=(",", ":")))
    server.tool("begin_turn", {**named, "query_title": "Break", "query_text": "Break"})
    server.tool("finish_turn", {**named, "outcome": "failed", "error_message": "Broken"})
    wait_for(page, "seen", json.dumps(["Waits for you: Needs a person", "Failed: Break"], separators=(",", ":")))
    assert complaints == []


def wait_for(page: Page, name: str, wanted: str) -> None:
    """Wait until the browser has stored a value; the page's own policy forbids Playwright to wait inside it."""
    until = time.monotonic() + PATIENCE_MS / 1000
    while (stored := page.evaluate("name => localStorage.getItem(name)", name)) != wanted:
        assert time.monotonic() < until, stored
        page.wait_for_timeout(100)
