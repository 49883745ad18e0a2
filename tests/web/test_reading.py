"""Reading a session in a real browser: diffs side by side, matches that are walked, the list that keeps its filter."""

import json
import re
from collections.abc import Generator

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from shiftlog.ingest.importing.ports import ImportOptions
from tests.ingest.import_app import Claude
from tests.web.browsing import came_in
from tests.web.server import PageServer

LINES = [
    " def total(prices):",
    "-    return sum(prices)",
    "+    checked(prices)",
    "+    return sum(prices) - 1",
    " # end",
]


@pytest.fixture(scope="module")
def read_id(server: PageServer) -> str:
    """Import a session with a difference, and a word that stands in three of its turns."""
    transcript = Claude(session="4ead0000-0000-4000-8000-00000000000a", letter="e", common={"cwd": "/srv/shop"})
    patch = [{"oldStart": 1, "oldLines": 3, "newStart": 1, "newLines": 4, "lines": LINES}]
    transcript.prompt("Mend the needle")
    transcript.calls("call-1", "Edit", file_path="/srv/shop/src/cart.py", old_string="a", new_string="b")
    transcript.returns("call-1", "Done", toolUseResult={"filePath": "/srv/shop/src/cart.py", "structuredPatch": patch})
    transcript.says("One needle is mended").ends()
    for number in range(30):
        transcript.prompt(f"Part {number}").says("Straw" if number != 20 else "Another needle").ends()
    path = server.home.parent / f"{transcript.session}.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in transcript.records), encoding="utf-8")
    server.do(server.app.imports.run(ImportOptions(paths=[str(path)], jobs=0)))
    found = server.json("/sessions", q="needle")["items"]
    return str(found[0]["session_id"])


@pytest.fixture
def reader(server: PageServer, read_id: str, context: BrowserContext) -> Generator[Page]:
    page, complaints = came_in(context, server, f"/sessions/{read_id}")
    yield page
    assert complaints == []


def test_a_diff_is_shown_side_by_side_and_inline_again(reader: Page) -> None:
    diff = reader.locator("details.diff").first
    lines = diff.locator(".lines > span")
    before = lines.all_inner_texts()
    button = diff.get_by_role("button", name="Side by side")
    button.click()
    expect(button).to_have_attribute("aria-pressed", "true")
    changed = diff.locator(".pair").filter(has=reader.locator(".add"))
    expect(changed).to_have_count(2)
    halves = changed.first.locator(".half")
    expect(halves.first).to_contain_text("return sum(prices)")
    expect(halves.last).to_contain_text("checked(prices)")
    left, right = (halves.nth(number).bounding_box() for number in (0, 1))
    assert left is not None
    assert right is not None
    assert left["y"] == right["y"]
    assert left["x"] + left["width"] <= right["x"]
    expect(changed.last.locator(".half").first).to_have_text("")
    same = diff.locator(".pair").filter(has_text="# end").locator(".half")
    expect(same).to_have_count(2)
    button.focus()
    reader.keyboard.press("Enter")
    expect(button).to_have_attribute("aria-pressed", "false")
    expect(diff.locator(".pair")).to_have_count(0)
    assert lines.all_inner_texts() == before


def test_matches_inside_a_session_are_counted_marked_and_walked_in_a_circle(reader: Page) -> None:
    reader.keyboard.press("/")
    field = reader.get_by_label("Search this session")
    expect(field).to_be_focused()
    field.fill("needle")
    field.press("Enter")
    count = reader.locator("#find-count")
    expect(count).to_have_text(re.compile("^1 of [0-9]+$"))
    total = int((count.text_content() or "0").split()[-1])
    assert total >= 3
    expect(reader.locator("mark[data-found]").first).to_be_in_viewport()
    field.press("Escape")
    for number in range(2, total + 1):
        reader.keyboard.press("n")
        expect(count).to_have_text(f"{number} of {total}")
        expect(reader.locator("mark[data-found]").first).to_be_in_viewport()
    expect(reader.get_by_text("Another needle", exact=True)).to_be_in_viewport()
    reader.keyboard.press("n")
    expect(count).to_have_text(f"1 of {total}")
    reader.keyboard.press("p")
    expect(count).to_have_text(f"{total} of {total}")
    reader.get_by_role("button", name="Previous match").click()
    expect(count).to_have_text(f"{total - 1} of {total}")
    assert "find=needle" in reader.url
    field.fill("")
    expect(reader.locator("mark[data-found]")).to_have_count(0)


def test_a_session_opened_from_a_filtered_list_shows_which_filter_the_list_has(
    reader: Page, server: PageServer, read_id: str
) -> None:
    reader.goto(f"{server.base}/sessions?project=shop")
    reader.locator(".row .title").first.click()
    reader.wait_for_url(re.compile("/sessions/.+"))
    chip = reader.get_by_role("link", name="Remove the filter project shop")
    expect(chip).to_be_visible()
    chip.click()
    reader.wait_for_url(re.compile(r"/sessions\?group=day$"))
    expect(reader.get_by_role("link", name="Remove the filter project shop")).to_have_count(0)


TOP_TURN = """() => {
    const turn = [...document.querySelectorAll("article.turn")].find((one) => one.getBoundingClientRect().bottom > 130);
    return [turn.id, Math.round(turn.getBoundingClientRect().top)];
}"""


def settled(page: Page) -> tuple[str, int]:
    """Return the turn at the top and its distance from there, once they stay the same."""
    before: tuple[str, int] | None = None
    for _ in range(200):
        now = tuple(page.evaluate(TOP_TURN))
        if now == before:
            return now
        before = now
        page.wait_for_timeout(200)
    raise AssertionError("the page never stood still")


def test_back_returns_to_the_place_in_a_session(reader: Page) -> None:
    expect(reader.locator(".switch").first).to_be_visible()  # the scripts have begun
    reader.get_by_role("article", name="Part 24", exact=True).scroll_into_view_if_needed()
    reader.evaluate("scrollBy(0, 300)")
    before = settled(reader)
    reader.get_by_role("link", name="Decisions").click()
    reader.wait_for_url(re.compile("/decisions$"))
    reader.go_back()
    is_back = "([id, top]) => { const now = (TURN)(); return now[0] === id && Math.abs(now[1] - top) < 40; }"
    reader.wait_for_function(is_back.replace("TURN", TOP_TURN), arg=before)
    assert settled(reader)[0] == before[0], "and it stays there"


def test_a_link_of_the_bar_takes_the_focus_without_moving_the_page(reader: Page) -> None:
    expect(reader.locator(".switch").first).to_be_visible()
    reader.get_by_role("article", name="Part 20", exact=True).scroll_into_view_if_needed()
    before = settled(reader)
    reader.get_by_role("link", name="Decisions").focus()
    assert settled(reader) == before


def test_the_palette_takes_what_is_typed_at_once_and_closes_by_one_escape(reader: Page) -> None:
    expect(reader.locator("#palette-button")).to_be_visible()
    reader.keyboard.press("Control+k")
    reader.keyboard.type("usage")
    field = reader.get_by_role("combobox", name="Go to")
    expect(field).to_have_value("usage")
    reader.keyboard.press("Escape")
    expect(field).to_be_hidden()


def test_the_beginning_of_a_pages_name_means_that_page_whatever_else_holds_the_word(
    reader: Page, server: PageServer
) -> None:
    server.tool("open_session", {"agent": "Codex", "title": "Review old decisions"})
    expect(reader.locator("#palette-button")).to_be_visible()
    reader.keyboard.press("Control+k")
    reader.keyboard.type("decisions")
    first = reader.locator(".palette [role=option]").first
    expect(reader.locator(".palette [role=option]", has_text="Review old decisions")).to_be_visible()
    expect(first).to_contain_text("Decisions")
    reader.keyboard.press("Enter")
    reader.wait_for_url(re.compile("/decisions$"))


def test_slash_on_the_page_of_a_file_searches_its_lines(reader: Page, server: PageServer) -> None:
    reader.goto(f"{server.base}/files?project=shop&path=src/cart.py")
    expect(reader.locator("#palette-button")).to_be_visible()
    reader.keyboard.press("/")
    field = reader.get_by_label("Who wrote this line")
    expect(field).to_be_focused()
    reader.keyboard.type("checked(prices)")
    reader.keyboard.press("Enter")
    reader.wait_for_url(re.compile("line=checked"))
    expect(reader.locator(".touch")).to_have_count(1)


def test_the_search_of_a_session_stays_below_the_bar_of_a_narrow_page(reader: Page) -> None:
    reader.set_viewport_size({"width": 768, "height": 780})
    expect(reader.locator(".switch").first).to_be_visible()
    reader.get_by_role("article", name="Part 20", exact=True).scroll_into_view_if_needed()
    settled(reader)
    bar, tools = reader.locator(".top").bounding_box(), reader.locator(".tools").bounding_box()
    assert bar is not None
    assert tools is not None
    assert 0 <= bar["y"] + bar["height"] - tools["y"] + 1 <= 8


def test_on_a_phone_every_field_of_the_acts_is_within_the_page(reader: Page) -> None:
    reader.set_viewport_size({"width": 360, "height": 780})
    reader.locator("details.acts > summary").click()
    fields = reader.locator("details.acts").locator("input:not([type=hidden]), textarea, button:not([hidden])")
    expect(fields.first).to_be_visible()
    for field in fields.all():
        box = field.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 360
