"""The page in a real browser: the way in, finding, reading, keys, live, usage, hand-over, trust; pictures of each."""

import json
import re
from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, Dialog, Page, Route, expect

from tests.web.browsing import RULES, came_in
from tests.web.server import PageServer
from tests.web.stories import Day, import_hostile, record_hostile, record_long, said

WIDTHS = {"phone": (360, 780), "tablet": (768, 1024), "desktop": (1440, 900), "wall": (2560, 1440)}


@pytest.fixture
def page(server: PageServer, day: Day, context: BrowserContext) -> Generator[Page]:
    """Return a page that came in by a link; at the end nothing may have been refused or have failed on it."""
    page, complaints = came_in(context, server)
    yield page
    assert complaints == []


def test_a_link_opens_the_list_and_leaves_no_working_code_behind(
    server: PageServer, day: Day, context: BrowserContext
) -> None:
    link = server.link()
    page = context.new_page()
    page.goto(link)
    page.wait_for_url(f"{server.base}/")
    expect(page.locator(".row").get_by_role("link", name="Stop the double charges")).to_be_visible()
    assert page.evaluate("document.cookie") == "", "no script sees the cookie"
    fresh = context.browser
    assert fresh is not None
    other = fresh.new_context()
    answer = other.new_page().goto(link)
    assert answer is not None
    assert answer.status == 401
    other.close()


def test_sessions_are_filtered_and_found_with_everything_in_the_address(
    page: Page, server: PageServer, day: Day
) -> None:
    page.locator("#filters > summary").click()
    page.get_by_label("Status").select_option("closed")
    page.wait_for_url(re.compile("status=closed"))
    expect(page.locator(".row .title")).to_have_text(["Tidy the changelog"])
    assert page.url == f"{server.base}/sessions?status=closed"
    page.get_by_role("button", name="Save filter").click()
    page.locator(".row .title").click()
    page.wait_for_url(re.compile(day.other_id))
    expect(page.locator(".row .title")).to_have_text(["Tidy the changelog"])
    page.get_by_role("link", name="Remove the filter status closed").or_(page.locator(".top nav a").first).first.click()
    page.wait_for_url(re.compile("/sessions"))
    expect(page.locator("#saved .chip")).to_have_text(["closed"])
    page.goto(f"{server.base}/")
    page.keyboard.press("/")
    page.keyboard.type("idempotency")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("q=idempotency"))
    expect(page.locator("mark").first).to_have_text("idempotency")
    page.reload()
    expect(page.get_by_label("Search everything")).to_have_value("idempotency")
    page.locator(".result a").first.click()
    page.wait_for_url(re.compile(f"/sessions/{day.session_id}"))
    expect(page.locator("#find-text")).to_have_value("idempotency")


def test_the_list_changes_while_it_is_looked_at(page: Page, server: PageServer) -> None:
    expect(page.locator("#live")).to_have_text("Live")
    server.tool("open_session", {"agent": "Codex", "title": "Came while looking"})
    expect(page.get_by_role("link", name="Came while looking")).to_be_visible()


class Held:
    """Requests for some addresses that wait until the test lets them go."""

    def __init__(self, page: Page, pattern: str) -> None:
        self._page = page
        self._routes: list[Route] = []
        page.route(pattern, self._hold)

    def _hold(self, route: Route) -> None:
        self._routes.append(route)

    def first(self) -> Route:
        """Return the first of them, once it came."""
        for _ in range(1_000):
            if self._routes:
                return self._routes[0]
            self._page.wait_for_timeout(10)
        raise AssertionError("no such request came")


def test_the_list_hears_of_what_happened_before_it_could_listen(page: Page, server: PageServer) -> None:
    expect(page.locator("#live")).to_have_text("Live")
    held = Held(page, "**/events*")
    page.goto(f"{server.base}/sessions")
    stream = held.first()
    server.tool("open_session", {"agent": "Codex", "title": "Came before the stream"})
    stream.continue_()
    expect(page.get_by_role("link", name="Came before the stream")).to_be_visible()


def test_a_session_is_walked_by_keyboard(page: Page, server: PageServer, day: Day) -> None:
    page.goto(f"{server.base}/sessions/{day.session_id}")
    expect(page.locator("#live")).to_have_text("Live")
    page.keyboard.press("j")
    expect(page.locator(f"[id='t-{day.turns[0]}']")).to_have_class(re.compile("current"))
    page.keyboard.press("j")
    expect(page.locator(f"[id='t-{day.turns[1]}']")).to_have_class(re.compile("current"))
    page.keyboard.press("k")
    expect(page.locator(f"[id='t-{day.turns[0]}']")).to_have_class(re.compile("current"))
    page.keyboard.press("n")
    expect(page.locator(f"[id='t-{day.turns[1]}']")).to_have_class(re.compile(r"\bat\b"))
    expect(page.locator(f"[id='t-{day.turns[1]}']")).to_be_in_viewport()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keys")).to_be_hidden()


def test_the_next_error_is_found_inside_folded_steps(page: Page, server: PageServer) -> None:
    session_id = server.tool("open_session", {"agent": "Codex", "title": "Hidden error"})["session_id"]
    named = {"session_id": session_id}
    items = [said("model", "observation", f"Item {number}") for number in range(150)]
    failing = {"type": "edit", "description": "Could not write", "status": "failed"}
    for number in range(6):
        server.tool("begin_turn", {**named, "query_title": f"Turn {number}", "query_text": "Go"})
        server.tool("update_turn", {**named, "dialog": items, "actions": [failing] if number == 4 else []})
        server.tool("finish_turn", {**named, "outcome": "completed", "response": "Done"})
    page.goto(f"{server.base}/sessions/{session_id}")
    story = page.locator("#timeline").get_by_text("Could not write")
    expect(story).to_have_count(0)
    expect(page.locator("#live")).to_have_text("Live")
    page.keyboard.press("n")
    expect(story).to_be_in_viewport()


def test_the_next_error_is_found_however_many_folded_turns_lie_between(page: Page, server: PageServer) -> None:
    session_id = server.tool("open_session", {"agent": "Codex", "title": "Far error"})["session_id"]
    named = {"session_id": session_id}
    items = [said("model", "observation", f"Item {number}") for number in range(45)]
    for number in range(70):
        server.tool("begin_turn", {**named, "query_title": f"Turn {number}", "query_text": "Go"})
        server.tool("update_turn", {**named, "dialog": items})
        outcome = {"outcome": "completed", "response": "Done"}
        failed = {"outcome": "failed", "error_message": "Broke here"}
        server.tool("finish_turn", {**named, **(failed if number in (1, 69) else outcome)})
    page.goto(f"{server.base}/sessions/{session_id}")
    expect(page.locator("#live")).to_have_text("Live")
    for number in (1, 69):
        page.keyboard.press("n")
        expect(page.get_by_role("article", name=f"Turn {number}", exact=True)).to_have_class(re.compile(r"\bat\b"))


def test_a_deep_link_leads_to_an_entry_in_a_folded_turn(page: Page, server: PageServer) -> None:
    session_id = record_long(server, 1_000)
    page.goto(f"{server.base}/sessions/{session_id}#e700")
    expect(page.locator("#e700")).to_be_in_viewport()


def test_what_is_new_appears_once_and_in_its_turn(page: Page, server: PageServer) -> None:
    session_id = server.tool("open_session", {"agent": "Codex", "title": "Followed"})["session_id"]
    named = {"session_id": session_id}
    page.goto(f"{server.base}/sessions/{session_id}")
    expect(page.locator("#live")).to_have_text("Live")
    turn = server.tool("begin_turn", {**named, "query_title": "Watch me", "query_text": "Watch **me**"})["request_id"]
    article = page.locator(f"[id='t-{turn}']")
    expect(article.get_by_role("heading")).to_have_text("Watch me")
    server.tool(
        "update_turn",
        {**named, "dialog": [said("model", "observation", "First thing"), said("model", "decision", "Go left")]},
    )
    expect(article.get_by_text("First thing")).to_be_visible()
    expect(article.get_by_text("Go left")).to_be_visible()
    page.context.set_offline(True)
    server.tool("update_turn", {**named, "dialog": [said("model", "observation", "While you were away")]})
    page.context.set_offline(False)
    server.tool("finish_turn", {**named, "outcome": "completed", "response": "All done"})
    expect(article.get_by_text("All done")).to_be_visible()
    expect(article.get_by_text("While you were away")).to_have_count(1)
    expect(article.get_by_text("First thing")).to_have_count(1)
    before = unfolded(page)
    page.reload()
    expect(page.locator(f"[id='t-{turn}']").get_by_text("All done")).to_be_visible()
    assert unfolded(page) == before, "live and loaded show the same"


def test_the_head_and_the_number_of_steps_are_those_of_now(page: Page, server: PageServer) -> None:
    named = {"session_id": server.tool("open_session", {"agent": "Codex", "title": "Counted"})["session_id"]}
    page.goto(f"{server.base}/sessions/{named['session_id']}")
    expect(page.locator("#live")).to_have_text("Live")
    server.tool("begin_turn", {**named, "query_title": "Count", "query_text": "Count"})
    steps = page.locator("details.steps > summary")
    for number, says in ((1, "1 step"), (2, "2 steps")):
        server.tool("update_turn", {**named, "dialog": [said("model", "observation", f"Thing {number}")]})
        expect(steps).to_have_text(re.compile(rf"^{says}\b"))
    server.tool("update_turn", {**named, "tags": ["no-step"]})
    server.tool("close_session", {**named, "succession_policy": "successor_required"})
    head = page.locator(".head > .line")
    expect(head).to_contain_text("to be continued by")
    expect(steps).to_have_text(re.compile(r"^2 steps\b"))
    before = head.inner_text()
    page.reload()
    expect(head).to_have_text(re.compile("to be continued by"))
    assert head.inner_text() == before, "live and loaded show the same"
    expect(steps).to_have_text(re.compile(r"^2 steps\b"))


def test_an_open_turn_is_interrupted_while_nobody_works_in_its_session(page: Page, server: PageServer) -> None:
    session_id = server.tool("open_session", {"agent": "Codex", "agent_id": "stopped", "title": "Stopped"})[
        "session_id"
    ]
    named = {"session_id": session_id}
    turn = server.tool("begin_turn", {**named, "query_title": "Half done", "query_text": "Do it"})["request_id"]
    server.tool("update_turn", {**named, "dialog": [said("model", "observation", "Begun")]})
    page.goto(f"{server.base}/sessions/{session_id}")
    expect(page.locator("#live")).to_have_text("Live")
    article = page.locator(f"[id='t-{turn}']")
    expect(article.locator(".state")).to_have_text("In progress")
    server.tool("close_session", named)
    expect(article.locator(".state")).to_have_text("Interrupted")
    expect(article.get_by_text("Begun")).to_have_count(1)
    before = unfolded(page)
    page.reload()
    expect(article.locator(".state")).to_have_text("Interrupted")
    assert unfolded(page) == before, "live and loaded show the same"
    with server.client() as client:
        assert "*interrupted · " in client.get(f"/sessions/{session_id}/export.md").text
    server.tool("resume_session", {"agent_id": "stopped"})
    expect(article.locator(".state")).to_have_text("In progress")


def test_steps_that_are_loaded_while_news_come_are_shown_once_and_none_is_lost(page: Page, server: PageServer) -> None:
    session_id = server.tool("open_session", {"agent": "Codex", "title": "Busy"})["session_id"]
    turn = server.tool("begin_turn", {"session_id": session_id, "query_title": "Go", "query_text": "Go"})["request_id"]

    def note(text: str, times: int = 1) -> None:
        dialog = [said("model", "observation", text)] * times
        server.tool("update_turn", {"session_id": session_id, "request_id": turn, "dialog": dialog})

    note("Before", 210)
    expect(page.locator("#live")).to_have_text("Live")
    events, pages = Held(page, "**/events*"), Held(page, "**/turns/*place=*")
    page.goto(f"{server.base}/sessions/{session_id}")
    stream = events.first()
    article = page.locator(f"[id='t-{turn}']")
    note("Loaded and told")
    article.locator("a[data-more-steps]").scroll_into_view_if_needed()
    steps = pages.first()
    answer = steps.fetch()
    note("Told while loading")
    stream.continue_()
    # The first of the two is at hand, and waits for what is being loaded.
    head = server.json(f"/sessions/{session_id}")["session"]["entry_count"]
    expect(page.locator("body")).to_have_attribute("data-head", re.compile(f"{head - 1}|{head}"))
    steps.fulfill(response=answer)
    expect(article.get_by_text("Told while loading")).to_have_count(1)
    expect(article.get_by_text("Loaded and told")).to_have_count(1)
    server.tool("close_session", {"session_id": session_id})
    expect(page.locator("#state")).to_have_text("Closed")


def test_more_tabs_are_open_than_a_browser_has_connections(server: PageServer, day: Day, page: Page) -> None:
    hide = """Object.defineProperty(document, "hidden", {get: () => true});
        document.dispatchEvent(new Event("visibilitychange"))"""
    for _ in range(8):
        tab = page.context.new_page()
        tab.goto(f"{server.base}/sessions/{day.session_id}", timeout=10_000)
        expect(tab.locator("#live")).to_have_text("Live")
        tab.evaluate(hide)


def unfolded(page: Page) -> list[str]:
    """Return the words of a whole timeline."""
    page.evaluate("document.querySelectorAll('#timeline details').forEach((one) => (one.open = true))")
    # How long a turn took is told once it is loaded anew.
    told = "#timeline .steps > summary > .about, #timeline .falls"
    page.evaluate("told => document.querySelectorAll(told).forEach((one) => one.remove())", told)
    return page.locator("#timeline").inner_text().split()


def test_a_running_command_prints_onto_the_page(page: Page, server: PageServer, tmp_path: Path, pictures: Path) -> None:
    session_id = server.tool("open_session", {"agent": "Codex", "title": "A shell at work"})["session_id"]
    server.tool("begin_turn", {"session_id": session_id, "query_title": "Build it", "query_text": "Build it"})
    shell = server.tool("open_shell", {"session_id": session_id, "cwd": str(tmp_path)})["shell_id"]
    gate = tmp_path / "gate"
    page.goto(f"{server.base}/sessions/{session_id}")
    expect(page.locator("#live")).to_have_text("Live")
    command = f"echo compiling; until [ -e {gate} ]; do sleep 0.05; done; echo broken >&2; sh -c 'exit 3'"
    server.tool("run_command", {"shell_id": shell, "command": command, "background": True})
    block = page.locator(".command")
    expect(block.get_by_text("Running", exact=True)).to_be_visible()
    expect(block.locator(".out").first).to_have_text("compiling")
    page.screenshot(path=pictures / "running.png")
    gate.touch()
    expect(block.get_by_text("exit 3")).to_be_visible()
    expect(block.locator(".err")).to_contain_text("broken")
    expect(page.locator(".command")).to_have_count(1)
    block.get_by_role("link", name=re.compile("whole stdout")).click()
    expect(page.locator("pre.out")).to_contain_text("compiling")
    server.tool("close_shell", {"shell_id": shell})


def test_a_turn_that_ends_while_it_is_looked_at_can_be_taken_back_at_once(
    page: Page, server: PageServer, tmp_path: Path
) -> None:
    opened = {"agent": "Codex", "title": "Watched to its end", "cwd": str(tmp_path)}
    named = {"session_id": server.tool("open_session", opened)["session_id"]}
    shell = server.tool("open_shell", {**named, "cwd": str(tmp_path), "workspace": str(tmp_path)})["shell_id"]
    page.goto(f"{server.base}/sessions/{named['session_id']}")
    expect(page.locator("#live")).to_have_text("Live")
    server.tool("begin_turn", {**named, "query_title": "Write it", "query_text": "Write it"})
    server.tool("run_command", {"shell_id": shell, "command": "echo 1 > one.txt"})
    server.tool("finish_turn", {**named, "outcome": "completed", "response": "Done"})
    turn = page.locator("article.turn")
    expect(turn.get_by_text("Done")).to_be_visible()
    expect(turn.get_by_role("link", name="Take back…")).to_be_visible()
    file = turn.locator(".files a").first
    before = file.get_attribute("href") if file.count() else None
    page.reload()
    expect(turn.get_by_role("link", name="Take back…")).to_be_visible()
    if before is not None:
        assert file.get_attribute("href") == before, "live and loaded show the same"
    server.tool("close_shell", {"shell_id": shell})


def test_ten_thousand_entries_are_loaded_as_they_are_needed(page: Page, server: PageServer) -> None:
    session_id = record_long(server)
    entries = int(server.json(f"/sessions/{session_id}")["session"]["entry_count"])
    assert entries > 9_500
    page.goto(f"{server.base}/sessions/{session_id}")
    expect(page.locator("article.turn").first).to_be_visible()
    assert page.locator("article.turn").count() < 60
    assert page.evaluate("document.getElementsByTagName('*').length") < 8_000
    page.locator("details.steps > summary").nth(3).click()
    expect(page.locator("article.turn").nth(3).get_by_text("Step 100:")).to_be_attached()
    for _ in range(10):
        page.keyboard.press("G")
        if page.locator("a[data-next]").count() == 0:
            break
    expect(page.locator("article.turn")).to_have_count(entries // 192)


def test_subagents_unfold_inside_the_turn_that_spawned_them(page: Page, server: PageServer, day: Day) -> None:
    page.goto(f"{server.base}/sessions/{day.session_id}")
    turn = page.locator(f"[id='t-{day.turns[1]}']")
    turn.locator("details.subagent > summary > .what").click()
    expect(turn.get_by_text("There are two callers.")).to_be_visible()


def test_the_capsule_is_copied_as_markdown(page: Page, server: PageServer, day: Day) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{server.base}/sessions/{day.session_id}/handover")
    page.get_by_role("button", name="Copy as Markdown").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert (
        page.evaluate("navigator.clipboard.readText()")
        == server.json(f"/sessions/{day.session_id}/handover")["markdown"]
    )
    expect(page.locator(".resume code")).to_have_text("claude --resume 11111111-2222-3333-4444-555555555555")


def test_the_chain_is_checked_and_receipts_and_exports_are_taken_home(page: Page, server: PageServer, day: Day) -> None:
    page.goto(f"{server.base}/sessions/{day.other_id}")
    expect(page.locator("#chain")).to_contain_text("verified")
    page.get_by_role("link", name=re.compile("^Trust")).click()
    with page.expect_download() as receipt:
        page.get_by_role("link", name="Download").click()
    assert json.loads(receipt.value.path().read_text())["session_id"] == day.other_id
    page.get_by_text("Export").click()
    with page.expect_download() as file:
        page.get_by_role("link", name="HTML file").click()
    assert "Tidied." in file.value.path().read_text()


@pytest.mark.parametrize("record", [record_hostile, import_hostile])
def test_a_hostile_session_runs_nothing(page: Page, server: PageServer, record: Any) -> None:
    session_id = record(server)
    dialogs: list[str] = []

    def dismiss(dialog: Dialog) -> None:
        dialogs.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", dismiss)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    for path in ("/", f"/sessions/{session_id}", f"/sessions/{session_id}/handover", "/sessions?q=hacked"):
        page.goto(server.base + path)
        page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
        expect(page.locator("main")).to_be_visible()
        assert page.evaluate("typeof window.hacked") == "undefined"
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
    assert dialogs == []
    assert all(url.startswith(server.base) for url in asked)


def looks(day: Day) -> dict[str, str]:
    one = f"/sessions/{day.session_id}"
    return {
        "list": "/",
        "search": "/sessions?q=idempotency",
        "session": one,
        "entry": f"{one}/entries/3",
        "journal": f"{one}/entries",
        "handover": f"{one}/handover",
        "trust": f"/sessions/{day.other_id}/trust",
        "usage": "/usage",
        "outline": f"{one}/outline",
        "replay": f"{one}/replay",
        "now": "/now",
        "projects": "/projects",
        "project": "/projects/checkout-service",
        "file": "/files?path=src/payments/client.py",
        "decisions": "/decisions",
        "palette": "/palette?q=charges",
        "subagents apart": "/sessions?from=7d",
        "list by project": "/sessions?group=project",
        "missing": "/sessions/Codex-20200101T000000Z-nobody",
    }


MAIN = ("list", "session", "usage")
SOON = {("phone", "dark"), ("desktop", "light")}
LOOKED_AT = [
    pytest.param(width, scheme, marks=[] if (width, scheme) in SOON else pytest.mark.long)
    for width in WIDTHS
    for scheme in ("light", "dark")
]
LOOKS = looks(Day(session_id="", turns=("", "", ""), child_id="", other_id=""))


@pytest.mark.parametrize(("width", "scheme"), LOOKED_AT)
def test_main_pages_fit_and_are_usable_by_everybody(
    server: PageServer, day: Day, context: BrowserContext, pictures: Path, width: str, scheme: str
) -> None:
    for name in MAIN:
        check_look(server, day, context, pictures, name, width, scheme)


@pytest.mark.parametrize("name", [name for name in LOOKS if name not in MAIN])
def test_other_pages_fit_and_are_usable_by_everybody(
    server: PageServer, day: Day, context: BrowserContext, pictures: Path, name: str
) -> None:
    check_look(server, day, context, pictures, name, "desktop", "light")


def check_look(
    server: PageServer, day: Day, context: BrowserContext, pictures: Path, name: str, width: str, scheme: str
) -> None:
    """Look at a page in one width and scheme: it fits, it keeps the rules, and a picture of it is kept."""
    page = context.new_page()
    page.set_viewport_size({"width": WIDTHS[width][0], "height": WIDTHS[width][1]})
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce")
    page.goto(server.link())
    page.wait_for_url(f"{server.base}/")
    page.goto(server.base + looks(day)[name])
    page.evaluate("document.querySelectorAll('details:not(.menu)').forEach((one) => (one.open = true))")
    page.screenshot(path=pictures / f"{name}-{width}-{scheme}.png")
    for button in page.get_by_role("button", name="Apply").all():
        assert button.evaluate("one => one.clientHeight") < 50, "its word stays on one line"
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0, f"{name} is {wide} px too wide"
    if width != "wall":
        found: Any = cast(Any, Axe()).run(page, options={"runOnly": RULES})
        assert found.violations_count == 0, f"{name}: {found.generate_report()}"
    page.close()
