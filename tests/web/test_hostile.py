"""A session whose every text holds scripts, terminal codes, turned lines and a megabyte in one line."""

import re
from html.parser import HTMLParser

import pytest

from shiftlog.text.printable import page_text
from shiftlog.web.present.ansi import terminal
from shiftlog.web.present.diffs import diffs
from shiftlog.web.present.texts import folded, markdown
from tests.web.server import PageServer
from tests.web.stories import ANSI, BIDI, HOSTILE, SCRIPT, import_hostile, record_hostile

UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u206f\U000e0000-\U000e007f]")
FORBIDDEN = {"img", "iframe", "object", "embed", "base", "style", "video", "audio", "math", "foreignobject"}
PAGE_BYTES = 1_500_000


@pytest.fixture(scope="module", params=[record_hostile, import_hostile], ids=["recorded", "imported"])
def hostile(server: PageServer, request: pytest.FixtureRequest) -> str:
    return str(request.param(server))


def pages(server: PageServer, session_id: str) -> list[str]:
    turns = [p["turn"]["request_id"] for p in server.json(f"/sessions/{session_id}")["timeline"] if p["kind"] == "turn"]
    entries = server.json(f"/sessions/{session_id}/entries")["entries"]
    by_kind = {(entry["kind"], entry["body"].get("category")): entry["seq"] for entry in entries}
    one = f"/sessions/{session_id}"
    return [
        "/", one, f"{one}?part=1", f"{one}/outline", f"{one}/find?q=hacked",
        f"{one}/entries", f"{one}/handover", f"{one}/trust", "/usage",
        "/sessions?q=hacked", "/sessions?q=hacked&kind=entry", "/sessions?q=hacked&kind=turn",
        "/sessions?agent_id=mallory",
        *(f"{one}/turns/{turn}" for turn in turns),
        *(f"{one}/entries/{seq}" for seq in by_kind.values()),
    ]  # fmt: skip


class Tags(HTMLParser):
    """Collects what a browser would make of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def check(path: str, html: str) -> None:
    """Check that a page holds no markup but its own."""
    assert not UNSEEN.search(html), path
    for tag, attributes in Tags(html).found:
        assert tag not in FORBIDDEN, (path, tag, attributes)
        assert not [name for name in attributes if name.startswith("on") or name == "style"], (path, tag, attributes)
        if tag == "script":
            assert attributes == {"type": "module", "src": "/static/page.js"}, (path, attributes)
        link = attributes.get("href") or attributes.get("src") or "#"
        assert link.startswith(("/", "#", "https:", "http:")), (path, tag, link)
        assert tag == "a" or link.startswith(("/", "#")), (path, tag, link)
    assert "49 javascript" not in html, path


def test_no_page_lets_recorded_text_become_markup_hide_or_flood_it(server: PageServer, hostile: str) -> None:
    for path in pages(server, hostile):
        html = server.html(path)
        check(path, html)
        assert len(html.encode()) < PAGE_BYTES, path
    entries = server.json(f"/sessions/{hostile}/entries")["entries"]
    assert any("A" * 1_000_000 in str(entry["body"]) for entry in entries), "the JSON has all of it"


@pytest.mark.parametrize("form", ["html", "md"])
def test_exports_are_as_safe_and_whole(server: PageServer, hostile: str, form: str) -> None:
    with server.client() as client:
        text = client.get(f"/sessions/{hostile}/export.{form}").text
    assert not UNSEEN.search(text)
    assert "A" * 1_000_000 in text, "what is taken away is whole"
    if form == "html":
        assert "<script" not in text
        check("export", text.replace('<meta http-equiv="Content-Security-Policy"', "<meta").replace("<style>", ""))


def test_an_address_with_scripts_in_it_is_shown_as_text(server: PageServer) -> None:
    nasty = 'x"><script>alert(1)</script><img src=x onerror=alert(2)>'
    for query in ({"q": "x<script>", "agent": nasty}, {"q": nasty}, {"status": nasty}, {"q": "x", "kind": nasty}):
        with server.client() as client:
            check(str(query), client.get("/sessions", params=query).text)
    with server.client() as client:
        check("path", client.get("/" + nasty).text)
        check("session", client.get("/sessions/" + nasty).text)


# The parts that do it


@pytest.mark.parametrize("text", [SCRIPT, ANSI, BIDI, HOSTILE, "\ud800", "a\r\nb", "\x00\x7f\x9b31m"])
def test_visible_text_has_nothing_unseen(text: str) -> None:
    assert not UNSEEN.search(page_text(text))
    page_text(text).encode()


def test_a_terminal_shows_colours_and_drops_what_moves_the_cursor() -> None:
    assert terminal("\x1b[1;31mbad\x1b[0m ok") == '<span class="t-bold t-red">bad</span> ok'
    assert terminal("\x1b]0;title\x07\x1b[2Jclean\x1b[10;5H") == "clean"
    assert terminal("10%\r50%\r100%\ndone") == "100%\ndone"
    assert terminal("\x1b[38;5;196mx\x1b[m<b>") == '<span class="t-red">x</span>&lt;b&gt;'
    assert terminal("\x1b[38mx") == "x"


def test_markdown_has_no_html_images_or_scripts() -> None:
    html = str(markdown(HOSTILE))
    assert "<script" not in html
    assert "<img" not in html
    assert 'href="javascript' not in html
    assert "<strong>bold</strong>" in markdown("**bold**")
    assert 'rel="noreferrer noopener" href="https://example.org"' in markdown("[x](https://example.org)")


def test_long_text_is_folded_by_characters_and_lines() -> None:
    assert folded("x" * 10, 4).left == 6
    cut = folded("\n".join("abc"), lines=2)
    assert (cut.text, cut.left) == ("a\nb", 2)
    assert folded(None).text == ""


def test_a_difference_counts_what_it_changes() -> None:
    [made] = diffs("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n same\n")
    assert (made.path, made.added, made.removed) == ("x", 1, 1)
    assert [row.kind for row in made.rows] == ["hunk", "del", "add", "same"]
    assert sum(one.left for one in diffs("+x\n" * 1000)) == 600
