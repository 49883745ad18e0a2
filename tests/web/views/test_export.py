"""A session to take away: self-contained HTML, Markdown, and JSON lines that prove themselves."""

import base64
import hashlib
import json
import re

import pytest
from markdown_it import MarkdownIt
from playwright.sync_api import BrowserContext

from shiftlog.model import canonical
from tests.web.server import PageServer
from tests.web.stories import Day


def exported(server: PageServer, session_id: str, form: str) -> str:
    with server.client() as client:
        answer = client.get(f"/sessions/{session_id}/export.{form}")
    assert answer.status_code == 200
    assert f'.{form}"' in answer.headers["content-disposition"]
    return answer.text


def test_html_is_one_file_that_asks_for_nothing(server: PageServer, day: Day) -> None:
    html = exported(server, day.session_id, "html")
    for text in (
        "Why are orders charged twice?",
        "No runner took the job",
        "Retries must carry",
        "Look for other callers",
    ):
        assert text in html
    assert not re.search(r'(src|href)="(?!#)', html), "nothing is loaded and nothing leads out"
    style = re.search(r"<style>(.*?)</style>", html, re.S)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in html


def test_html_opens_from_disk_with_its_own_style(server: PageServer, day: Day, context: BrowserContext) -> None:
    path = server.home.parent / "session.html"
    path.write_text(exported(server, day.session_id, "html"), encoding="utf-8")
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.goto(path.as_uri())
    assert page.locator("article.turn").count() == 3
    assert page.evaluate("getComputedStyle(document.querySelector('.state')).borderRadius") != "0px"
    assert complaints == []


def test_markdown_reads_as_a_report(server: PageServer, day: Day) -> None:
    text = exported(server, day.session_id, "md")
    assert text.startswith("# Stop the double charges\n")
    assert "## 1. Why are orders charged twice?" in text
    assert "**Decision**\n\n> Retries must carry an idempotency key." in text
    assert re.search(r"\*\*Failed\*\*\n\n> .*No runner took the job", text)


def test_markdown_loads_no_image_from_elsewhere(server: PageServer) -> None:
    said = "Look: ![a [b] c](http://127.0.0.1:9/x.png) and #![x][y]\n\n[y]: http://127.0.0.1:9/y.png"
    session_id = server.tool("open_session", {"agent": "Codex", "title": said.partition("\n")[0]})["session_id"]
    server.tool("begin_turn", {"session_id": session_id, "query_title": "T", "query_text": said})
    server.tool("finish_turn", {"session_id": session_id, "outcome": "completed", "response": said})
    html = MarkdownIt("commonmark").render(exported(server, session_id, "md"))
    assert "Look: ![a [b] c]" in html
    assert "<img" not in html


def test_json_lines_hold_the_chain(server: PageServer, day: Day) -> None:
    lines = [json.loads(line) for line in exported(server, day.other_id, "jsonl").splitlines()]
    assert lines[0]["type"] == "session"
    entries = [line for line in lines if line["type"] == "entry"]
    assert [entry["seq"] for entry in entries] == list(range(1, lines[0]["entry_count"] + 1))
    previous = "sha256:" + hashlib.sha256(day.other_id.encode()).hexdigest()
    for entry in entries:
        salt = base64.b64decode(entry["salt"])
        assert canonical.body_hash(salt, canonical.canonical(entry["body"])) == entry["body_hash"]
        expected = canonical.entry_hash(
            previous,
            seq=entry["seq"],
            kind=entry["kind"],
            at=entry["at"],
            turn=entry["request_id"],
            hash_of_body=entry["body_hash"],
        )
        assert expected == entry["hash"]
        previous = entry["hash"]
    assert previous == lines[0]["head_hash"]
    assert [line["type"] for line in lines][-1] == "receipt"


@pytest.mark.parametrize("form", ["pdf", "json.md", ""])
def test_another_format_is_refused(server: PageServer, day: Day, form: str) -> None:
    with server.client(Accept="application/json") as client:
        assert client.get(f"/sessions/{day.session_id}/export.{form}").status_code in (400, 404)
