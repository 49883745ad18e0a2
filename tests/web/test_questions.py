"""Ten ordinary questions, each answered in at most three interactions from the first page, in a real browser."""

import asyncio
import json
import re
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from shiftlog.ingest.importing.ports import ImportOptions
from tests.ingest.import_app import Claude
from tests.web.server import CLIENT, PageServer, serving
from tests.web.stories import did, said

MOST = 3
OLD, NEW = "return sum(prices)", "return sum(prices) - discount"


class Hand:
    """A person's hand: each click, key and typed text is one interaction."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.interactions = 0

    def click(self, place: Locator) -> None:
        place.click()
        self.interactions += 1

    def type(self, place: Locator, text: str) -> None:
        """Type a text and send it."""
        place.fill(text)
        place.press("Enter")
        self.interactions += 1

    def find(self, text: str, kind: str) -> None:
        """Open the palette, type, and take the first of a kind: opening and choosing are one interaction each."""
        self.page.keyboard.press("Control+k")
        self.page.get_by_role("combobox", name="Go to").fill(text)
        option = self.page.locator(".palette [role=option]", has=self.page.locator(f".tag:text-is('{kind}')")).first
        self.interactions += 1
        self.click(option)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Generator[PageServer]:
    """Serve a shop's session of three turns, one of them failed, with a subagent and a command that waits."""
    home = tmp_path_factory.mktemp("questions") / "home"
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text('[policy]\nask = ["touch"]\n')
    with serving(home) as server:
        import_cart(server)
        record_shop(server)
        yield server


def import_cart(server: PageServer) -> None:
    """Import a transcript that changed src/cart.py: what the client's own tools did is known with its difference."""
    transcript = Claude(common={"cwd": "/srv/shop"}, letter="c")
    lines = [" def total(prices, discount):", f"-    {OLD}", f"+    {NEW}"]
    patch = [{"oldStart": 1, "oldLines": 2, "newStart": 1, "newLines": 2, "lines": lines}]
    transcript.prompt("Why is the discount ignored in the cart?")
    transcript.calls("call-1", "Edit", file_path="/srv/shop/src/cart.py", old_string=OLD, new_string=NEW)
    transcript.returns("call-1", "Done", toolUseResult={"filePath": "/srv/shop/src/cart.py", "structuredPatch": patch})
    transcript.says("The total never subtracted the discount.").ends()
    path = server.home.parent / f"{transcript.session}.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in transcript.records), encoding="utf-8")
    server.do(server.app.imports.run(ImportOptions(paths=[str(path)], jobs=0)))


def record_shop(server: PageServer) -> None:
    work = server.home.parent / "shop"
    work.mkdir()
    opened = {
        "agent": "ClaudeCode", "agent_id": "ivy", "title": "Fix the cart", "cwd": str(work), "model": "claude-opus-4-5",
        "vendor_session_id": "11111111-2222-3333-4444-666666666666",
    }  # fmt: skip
    named = {"session_id": server.tool("open_session", opened)["session_id"]}
    shell = server.tool("open_shell", {**named, "cwd": str(work), "workspace": str(work)})["shell_id"]
    for title, command in (("Fix the total", "echo 1 > one.txt"), ("Add a banner", "echo 2 > two.txt")):
        server.tool("begin_turn", {**named, "query_title": title, "query_text": title})
        server.tool("run_command", {"shell_id": shell, "command": command})
        decided = ["Discounts apply before tax"] if command.endswith("one.txt") else []
        file = command.rpartition(" ")[2]
        server.tool("update_turn", {**named, "actions": [did("edit", "Write it", file)], "design_decisions": decided})
        usage = {"input_tokens": 5_000, "output_tokens": 200, "cost_usd": 0.25}
        server.tool("finish_turn", {**named, "outcome": "completed", "response": "Done", "usage": usage})
    server.tool("begin_turn", {**named, "query_title": "Ship it", "query_text": "Ship it"})
    child = {
        "agent": "ClaudeCode",
        "agent_id": "ivy/scout",
        "title": "Look for callers",
        "parent_session_id": named["session_id"],
    }
    scout = {"session_id": server.tool("open_session", child)["session_id"]}
    server.tool("begin_turn", {**scout, "query_title": "Search", "query_text": "Search"})
    server.tool("finish_turn", {**scout, "outcome": "completed", "response": "There are two callers."})
    server.tool("run_command", {"shell_id": shell, "command": "echo no such branch >&2; sleep 1.2; (exit 3)"})
    server.tool("update_turn", {**named, "dialog": [said("model", "observation", "The push failed")]})
    waiting = server.app.shells.commands.run_command({"shell_id": shell, "command": "touch released"}, CLIENT)
    asyncio.run_coroutine_threadsafe(waiting, server.loop)


@pytest.fixture
def hand(asked: PageServer, context: BrowserContext) -> Generator[Hand]:
    page = context.new_page()
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(asked.link())
    page.wait_for_url(f"{asked.base}/")
    expect(page.locator("#live")).to_have_text("Live")
    hand = Hand(page)
    yield hand
    assert hand.interactions <= MOST


def open_cart(hand: Hand) -> None:
    hand.click(hand.page.locator(".row .title", has_text="Fix the cart"))
    expect(hand.page.locator(".outlined")).to_be_visible()


def what_did_it_change_in_cart_py_and_why(hand: Hand) -> None:
    hand.find("cart.py", "file")
    expect(hand.page.get_by_text("The total never subtracted the discount.")).to_be_visible()
    expect(hand.page.locator(".lines .add")).to_contain_text(NEW)


def which_command_failed_first(hand: Hand) -> None:
    open_cart(hand)
    hand.click(hand.page.get_by_role("button", name="Next error"))
    expect(hand.page.locator(".at.command")).to_contain_text("no such branch")
    expect(hand.page.locator(".at.command")).to_contain_text("exit 3")


def what_did_this_cost_and_where(hand: Hand) -> None:
    open_cart(hand)
    expect(hand.page.locator(".sums")).to_contain_text("$0.50")
    expect(hand.page.locator("article.turn").first).to_contain_text("$0.25")


def what_waits_for_me(hand: Hand) -> None:
    waiting = hand.page.locator(".asked")
    expect(waiting).to_contain_text("touch released")
    expect(waiting.get_by_role("button", name="Approve once")).to_be_visible()


def what_was_decided_about_tax(hand: Hand) -> None:
    hand.click(hand.page.get_by_role("link", name="Decisions"))
    expect(hand.page.locator(".decisions")).to_contain_text("Discounts apply before tax")


def who_wrote_this_line(hand: Hand) -> None:
    hand.find("cart.py", "file")
    hand.type(hand.page.get_by_label("Who wrote this line"), NEW)
    expect(hand.page.locator(".touch")).to_have_count(1)
    expect(hand.page.locator(".touch")).to_contain_text("ClaudeCode")


def undo_only_the_second_turn(hand: Hand) -> None:
    open_cart(hand)
    turn = hand.page.locator("article.turn", has_text="Add a banner")
    hand.click(turn.get_by_role("link", name="Take back…"))
    expect(hand.page.locator(".lines .add").first).to_contain_text("2")
    hand.click(hand.page.get_by_role("button", name="Take back these files"))
    hand.page.wait_for_url(re.compile("/sessions/[^/]+$"))


def what_did_the_subagent_do(hand: Hand) -> None:
    hand.click(hand.page.locator(".brood summary"))
    hand.click(hand.page.locator(".brood .title"))
    expect(hand.page.locator("#timeline")).to_contain_text("There are two callers.")


def where_did_the_time_go(hand: Hand) -> None:
    open_cart(hand)
    turn = hand.page.locator("article.turn", has_text="Ship it")
    expect(turn.locator(".steps > summary")).to_contain_text("tools")
    expect(turn.locator(".waterfall")).to_be_visible()


def continue_this_in_codex(hand: Hand) -> None:
    open_cart(hand)
    hand.click(hand.page.get_by_role("link", name="Hand-over"))
    expect(hand.page.get_by_role("button", name="Copy as Markdown")).to_be_visible()
    expect(hand.page.locator(".capsule")).to_contain_text("Ship it")


QUESTIONS: list[Callable[[Hand], None]] = [
    what_did_it_change_in_cart_py_and_why,
    which_command_failed_first,
    what_did_this_cost_and_where,
    what_waits_for_me,
    what_was_decided_about_tax,
    who_wrote_this_line,
    what_did_the_subagent_do,
    where_did_the_time_go,
    continue_this_in_codex,
    undo_only_the_second_turn,
]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda one: one.__name__)
def test_an_ordinary_question_is_answered_in_three_interactions(hand: Hand, question: Callable[[Hand], None]) -> None:
    question(hand)


def by_keys(hand: Hand, text: str) -> None:
    """Open the palette, type and take the first line of it, by the keyboard alone; all of it is one interaction."""
    hand.page.keyboard.press("Control+k")
    hand.page.keyboard.type(text)
    first = hand.page.locator(".palette [role=option]").first
    expect(first).to_contain_text(re.compile(re.escape(text), re.IGNORECASE))
    hand.page.keyboard.press("Enter")
    hand.interactions += 1


def press(hand: Hand, key: str, text: str = "") -> None:
    """Press a key, and type a text and send it where there is one."""
    hand.page.keyboard.press(key)
    if text:
        hand.page.keyboard.type(text)
        hand.page.keyboard.press("Enter")
    hand.interactions += 1


def open_cart_by_keys(hand: Hand) -> None:
    by_keys(hand, "Fix the cart")
    expect(hand.page.locator(".outlined")).to_be_visible()


def changed_cart_py_by_keys(hand: Hand) -> None:
    by_keys(hand, "src/cart.py")
    expect(hand.page.get_by_text("The total never subtracted the discount.")).to_be_visible()
    expect(hand.page.locator(".lines .add")).to_contain_text(NEW)


def failed_first_by_keys(hand: Hand) -> None:
    open_cart_by_keys(hand)
    press(hand, "n")
    expect(hand.page.locator(".at.command")).to_contain_text("no such branch")
    expect(hand.page.locator(".at.command a:focus-visible")).to_have_count(1)


def cost_by_keys(hand: Hand) -> None:
    open_cart_by_keys(hand)
    expect(hand.page.locator(".sums")).to_contain_text("$0.50")
    press(hand, "j")
    expect(hand.page.locator("article.turn.current")).to_contain_text("$0.25")


def waits_by_keys(hand: Hand) -> None:
    what_waits_for_me(hand)
    hand.page.keyboard.press("Control+k")
    hand.page.keyboard.type("touch released")
    answers = hand.page.locator(".palette [role=option]", has_text=re.compile("(Approve once|Refuse): touch released"))
    expect(answers).to_have_count(2)
    hand.page.keyboard.press("Escape")
    hand.interactions += 1


def decided_by_keys(hand: Hand) -> None:
    by_keys(hand, "Decisions")
    expect(hand.page.locator(".decisions")).to_contain_text("Discounts apply before tax")


def wrote_this_line_by_keys(hand: Hand) -> None:
    by_keys(hand, "src/cart.py")
    expect(hand.page.locator(".touch").first).to_be_visible()
    press(hand, "/", NEW)
    expect(hand.page.locator(".touch")).to_have_count(1)
    expect(hand.page.locator(".head")).to_contain_text("1 change wrote")


def subagent_by_keys(hand: Hand) -> None:
    open_cart_by_keys(hand)
    by_keys(hand, "Subagent")
    expect(hand.page.locator("#timeline")).to_contain_text("There are two callers.")


def time_by_keys(hand: Hand) -> None:
    open_cart_by_keys(hand)
    turn = hand.page.locator("article.turn", has_text="Ship it")
    expect(turn.locator(".steps > summary")).to_contain_text("tools")
    expect(turn.locator(".waterfall")).to_be_visible()


def continue_by_keys(hand: Hand) -> None:
    hand.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    open_cart_by_keys(hand)
    by_keys(hand, "Hand-over")
    expect(hand.page.locator(".capsule")).to_contain_text("Ship it")
    by_keys(hand, "Copy as Markdown")
    expect(hand.page.get_by_role("button", name="Copied")).to_be_visible()
    assert "Ship it" in hand.page.evaluate("navigator.clipboard.readText()")


def undo_by_keys(hand: Hand) -> None:
    open_cart_by_keys(hand)
    by_keys(hand, "Take back turn 1")
    expect(hand.page.get_by_role("button", name="Take back these files")).to_be_visible()
    by_keys(hand, "Take back these files")
    hand.page.wait_for_url(re.compile("/sessions/[^/]+$"))


BY_KEYS: list[Callable[[Hand], None]] = [
    changed_cart_py_by_keys,
    failed_first_by_keys,
    cost_by_keys,
    waits_by_keys,
    decided_by_keys,
    wrote_this_line_by_keys,
    subagent_by_keys,
    time_by_keys,
    continue_by_keys,
]


@pytest.mark.parametrize("question", BY_KEYS, ids=lambda one: one.__name__)
def test_an_ordinary_question_is_answered_by_the_keyboard_alone(hand: Hand, question: Callable[[Hand], None]) -> None:
    question(hand)


def test_one_turn_alone_is_taken_back_by_the_keyboard_alone(asked: PageServer, hand: Hand) -> None:
    work: Path = asked.home.parent / "shop"
    (work / "one.txt").write_text("1\n")
    undo_by_keys(hand)
    assert not (work / "one.txt").exists()
    (work / "one.txt").write_text("1\n")


# What the focus is on: its name as a screen reader tells it, and whether an eye finds it.
FOCUSED = """() => {
  const one = document.activeElement;
  const label = one.labels?.[0]?.textContent ?? "";
  const name = (one.getAttribute("aria-label") ?? "") || label || one.textContent || one.title || "";
  const box = one.getBoundingClientRect();
  const bar = document.querySelector(".top").getBoundingClientRect().bottom;
  const inBar = one.closest(".top, .skip") !== null;
  const style = getComputedStyle(one);
  return {
    tag: one.tagName,
    name: name.trim().slice(0, 60),
    outlined: style.outlineStyle !== "none" || one.closest(".strip") !== null,
    inSight: box.width > 0 && box.bottom > 0 && box.top < innerHeight && (inBar || box.bottom > bar),
  };
}"""


@pytest.mark.parametrize("path", ["/", "the cart", "/usage", "/projects/shop"])
def test_each_stop_of_the_tab_key_has_a_name_and_is_seen(asked: PageServer, hand: Hand, path: str) -> None:
    if path == "the cart":
        open_cart_by_keys(hand)
        path = hand.page.url.removeprefix(asked.base)
    hand.page.goto(asked.base + path)
    expect(hand.page.locator("#live")).to_have_text("Live")
    stops: list[str] = []
    for _ in range(120):
        hand.page.keyboard.press("Tab")
        found = hand.page.evaluate(FOCUSED)
        if found["tag"] == "BODY":
            break
        stops.append(f"{found['tag']} {found['name']}")
        assert found["name"], f"{found['tag']} after {stops[-2:]} has no name"
        assert found["outlined"], f"the focus on {stops[-1]} is not seen"
        assert found["inSight"], f"the focus on {stops[-1]} is out of sight"
    assert stops[0].endswith("Skip to the content")
    assert len(stops) > 10
    assert hand.page.locator("[tabindex]:not([tabindex='0'], [tabindex='-1'])").count() == 0, (
        "the order is that of the page"
    )


def test_the_second_turn_is_gone_and_the_others_stay(asked: PageServer, hand: Hand) -> None:
    work: Path = asked.home.parent / "shop"
    if (work / "two.txt").exists():  # the question above was asked in another process
        undo_only_the_second_turn(hand)
    assert sorted(file.name for file in work.glob("*.txt")) == ["one.txt"]


def test_a_waiting_command_is_refused_from_the_first_page(asked: PageServer, context: BrowserContext) -> None:
    page = context.new_page()
    page.goto(asked.link())
    page.wait_for_url(f"{asked.base}/")
    page.get_by_role("button", name="Refuse").click()
    expect(page.locator(".asked")).to_have_count(0)
    session = asked.json("/sessions", agent_id="ivy")["items"][0]["session_id"]
    entries = asked.json(f"/sessions/{session}/entries", limit=200)["entries"]
    [decided] = [entry for entry in entries if entry["kind"] == "command.decided"]
    assert (decided["body"]["state"], decided["body"]["by"]) == ("declined", "operator")
    expect(page.locator("h1")).to_have_text("Now")
