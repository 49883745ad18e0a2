"""Code as code: syntax, word-level diffs, outputs, links, task lists and images, all escaped."""

import base64
import json
import re
import time
from pathlib import Path

import pytest

from shiftlog.ingest.importing.ports import ImportOptions
from shiftlog.web.present.ansi import terminal
from shiftlog.web.present.code import code, colour_budget
from shiftlog.web.present.diffs import diffs, is_diff
from shiftlog.web.present.texts import markdown, output
from tests.ingest.import_app import Claude
from tests.web.server import PageServer

PATCH = """diff --git a/src/cart.py b/src/cart.py
index 1..2 100644
--- a/src/cart.py
+++ b/src/cart.py
@@ -10,3 +10,3 @@ def total(items):
 def total(items):
-    return sum(item.price for item in items)
+    return sum(item.price * item.count for item in items)
 # end
"""
PIXEL = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c63f8cf"
        "c0f01f0005000101ff5a4d8c0000000049454e44ae426082"
    )
).decode()


def test_code_is_coloured_and_escaped() -> None:
    shown = code('def f():\n    return "<b>"', "a.py")
    assert '<span class="h-k">def</span>' in shown
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown
    assert code("<script>", None) == "&lt;script&gt;"
    assert code("x = 1", "no-such-language") == "x = 1"


@pytest.mark.parametrize("text", ["x" * 20_000, "a = 1\n" * 4_000, "'" * 5_000, "(" * 9_000, '"""' + "\\" * 3_000])
def test_a_text_made_to_slow_a_lexer_down_stays_plain_in_time(text: str) -> None:
    began = time.monotonic()
    with colour_budget(0.2):
        for language in ("python", "javascript", "bash", "html", "css", "yaml"):
            code(text, language)
    assert time.monotonic() - began < 10


def test_a_page_spends_a_bounded_time_on_colours() -> None:
    with colour_budget(0.0):
        assert code("def f(): pass", "python") == "def f(): pass"


def test_a_diff_has_line_numbers_and_marks_the_words_that_changed() -> None:
    [one] = diffs(PATCH)
    assert (one.path, one.added, one.removed) == ("src/cart.py", 1, 1)
    assert [(row.kind, row.old, row.new) for row in one.rows] == [
        ("hunk", None, None), ("same", 10, 10), ("del", 11, None), ("add", None, 11), ("same", 12, 12),
    ]  # fmt: skip
    added = str(one.rows[3].html)
    assert 'class="w"' in added or ' w"' in added
    assert "sum" in added


def test_lines_that_begin_like_headers_stay_lines_of_their_file() -> None:
    [one] = diffs("--- a/x.sql\n+++ b/x.sql\n@@ -1,2 +1,2 @@\n--- old comment\n+++ new\n same\n")
    assert [row.kind for row in one.rows] == ["hunk", "del", "add", "same"]


def test_several_files_are_told_apart_and_a_long_diff_is_counted() -> None:
    both = diffs(PATCH + PATCH.replace("cart", "list"))
    assert [one.path for one in both] == ["src/cart.py", "src/list.py"]
    long = diffs("--- a/x\n+++ b/x\n@@ -1 +1,500 @@\n" + "+line\n" * 500, most=100)
    assert (len(long[0].rows), long[0].left, long[0].added) == (100, 401, 500)


def test_the_output_of_git_diff_is_a_diff_with_or_without_colours() -> None:
    assert is_diff(PATCH)
    assert 'class="add"' in output("On branch main\n" + PATCH)
    coloured = "".join(f"\x1b[1m{line}\x1b[m\n" for line in PATCH.splitlines())
    assert 'data-new="11"' in output(coloured)
    assert output("nothing --- like +++ a diff") == "nothing --- like +++ a diff"
    assert "<script" not in output(PATCH.replace("item.price", "<script>"))


def test_bare_addresses_become_links_in_text_and_output() -> None:
    said = markdown("See https://example.org/a_(b), or (https://example.org/c). `https://example.org/d`")
    assert 'href="https://example.org/a_(b)"' in said
    assert 'href="https://example.org/c"' in said
    assert said.count("<a ") == 2, "what stands in code is no link"
    assert said.count('rel="noreferrer noopener"') == 2
    shown = terminal('at https://example.org/x?a=1&b="><script>')
    assert '<a rel="noreferrer noopener" href="https://example.org/x?a=1&amp;b=">' in shown
    assert "<script" not in shown
    assert "<a" not in terminal("javascript:alert(1)")


def test_task_lists_tables_and_fences() -> None:
    said = markdown("- [ ] open\n- [x] done\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```python\ndef f(): ...\n```\n")
    assert "☐ open" in said
    assert "☑ done" in said
    assert "<table>" in said
    assert '<span class="h-k">def</span>' in said
    assert 'class="del"' in markdown("```diff\n@@ -1 +1 @@\n-a\n+b\n```")


def test_images_are_shown_from_our_own_origin_or_said_to_be_missing(server: PageServer, tmp_path: Path) -> None:
    sessions: dict[bool, str] = {}
    for keep in (True, False):
        transcript = Claude(session=f"1111111{int(keep)}-2222-4333-8444-555555555555", letter="de"[keep])
        transcript.prompt("Look at this")
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
        transcript.calls("call-1", "Read", file_path="/srv/a.png")
        transcript.returns("call-1", [image]).says("A pixel").ends()
        path = tmp_path / f"{transcript.session}.jsonl"
        path.write_text("".join(json.dumps(record) + "\n" for record in transcript.records), encoding="utf-8")
        server.do(server.app.imports.run(ImportOptions(paths=[str(path)], jobs=0, keep_images=keep)))
        sessions[keep] = transcript.session
    html = server.html(f"/sessions/{sessions[False]}")
    assert "not kept" in html
    assert "<img" not in html
    html = server.html(f"/sessions/{sessions[True]}")
    source = html.partition('<img class="thumb" loading="lazy" src="')[2].partition('"')[0]
    assert source.startswith("/sessions/")
    with server.client() as client:
        answer = client.get(source)
        assert client.get(source.rpartition("/")[0] + "/7").status_code == 404
    assert answer.content == base64.b64decode(PIXEL)
    assert answer.headers["content-type"] == "image/png"
    assert "sandbox" in answer.headers["content-security-policy"]


def test_a_list_of_tasks_that_a_call_writes_is_shown_as_such_and_other_arguments_are_named(
    server: PageServer, tmp_path: Path
) -> None:
    transcript = Claude(common={"cwd": "/srv/shop"}, letter="e")
    todos = [{"content": "Look <b>", "status": "completed"}, {"content": "Mend", "status": "in_progress"}]
    transcript.prompt("Plan it").calls("c1", "TodoWrite", todos=todos).returns("c1", "ok")
    transcript.calls("c2", "Odd", depth=3, names=["a", "b"]).returns("c2", "ok")
    transcript.says("Planned.").ends()
    path = tmp_path / f"{transcript.session}.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in transcript.records), encoding="utf-8")
    server.do(server.app.imports.run(ImportOptions(paths=[str(path)], jobs=0)))
    [session] = server.json("/sessions", project="shop")["items"]
    html = server.html(f"/sessions/{session['session_id']}")
    tasks = re.findall(r'<li class="(completed|in-progress)">(.*?)</li>', html)
    assert [status for status, _ in tasks] == ["completed", "in-progress"]
    assert "Look &lt;b&gt;" in tasks[0][1]
    assert "todos (2)" in html
    assert "depth 3, names (2)" in html


def test_a_link_to_a_file_of_the_agents_machine_is_no_dead_end_and_an_image_is_a_link() -> None:
    html = str(
        markdown("[cart.py:3](src/cart.py#L3) [w](//evil.example) [b](https://b.example/) ![i](http://c.example/x.png)")
    )
    assert re.findall(r'href="([^"]*)"', html) == ["https://b.example/", "http://c.example/x.png"]
    assert '<span title="src/cart.py#L3">cart.py:3</span>' in html
    assert "<img" not in html
    badge = str(markdown("[![ok](http://c.example/ok.svg)](https://ci.example/)"))
    assert re.findall(r'href="([^"]*)"', badge) == ["https://ci.example/"]
