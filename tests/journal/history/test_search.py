"""Text search: operators, ranking, snippets, filters and pages that miss and repeat nothing."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftlog.journal.texts import one_line
from tests.journal.harness import Harness

UNSEEN = "\u200b\u200e\u202e\u2066\ufeff\u00ad\U000e0041\x07"


async def say(harness: Harness, session: str, *texts: str, category: str = "observation") -> None:
    """Record dialog items in the open turn."""
    await harness.update(session, dialog=[{"role": "model", "category": category, "content": text} for text in texts])


@pytest.fixture
async def session(harness: Harness) -> str:
    session = await harness.open(title="Plain")
    await harness.begin(session, query_title="Ask", query_text="Ask")
    return session


SAID = [
    "The upload test flakes on Tuesdays",
    "Authentication needs a token from the vault",
    "Authorisation is not authentication",
    "Café au lait in the upload room",
    "log in, then log out",
    "eviction-lock held by shard 7",
]


async def test_a_secret_is_found_as_it_is_stored(harness: Harness, session: str) -> None:
    await say(harness, session, "password=hunter2hunter2", "another")
    for text in ("password=hunter2hunter2", '"password=hunter2hunter2" && !another'):
        answered = await harness.query(text=text, kinds=["entry"])
        assert answered["total"] == 1
        assert "hunter2" not in str(answered)


@pytest.mark.parametrize(
    ("text", "hits"),
    [
        ("upload", {0, 3}),
        ("UPLOAD", {0, 3}),
        ("upload test", {0}),
        ("upload && test", {0}),
        ("upload || eviction", {0, 3, 5}),
        ("upload !tuesdays", {3}),
        ("upload && !(tuesdays || room)", frozenset[int]()),
        ("auth*", {1, 2}),
        ("authen*", {1, 2}),
        ("authori*", {2}),
        ('"log out"', {4}),
        ('"out log"', frozenset[int]()),
        ('"log i"*', {4}),
        ("eviction-lock", {5}),
        ("cafe", {3}),
        ("CAFÉ", {3}),
        ("(upload || token) && (test || vault)", {0, 1}),
        ("7", {5}),
        ("(Cookie: a=b1c2d3) || tuesdays", {0}),
        ("(Authorization: Basic dXNlcjpwYXNz) || room", {3}),
        ("nowhere", frozenset[int]()),
        ("upload\u200b", {0, 3}),
        ("AND", frozenset[int]()),
        ('"', None),
        ("upload &&", None),
        ("(upload", None),
        ("!upload", None),
        ("***", None),
        ("|| upload", None),
    ],
)
async def test_an_expression_finds_the_entries_that_match_it(
    harness: Harness, session: str, text: str, hits: set[int] | None
) -> None:
    await say(harness, session, *SAID)
    if hits is None:
        error = await harness.refusal("query_history", {"text": text})
        assert error.details["parameter"] == "text"
        return
    answered = await harness.query(text=text, kinds=["entry"])
    found = {SAID.index(item["summary"]) for item in answered["items"]}
    assert found == hits
    assert answered["total"] == len(hits)


async def test_each_item_has_score_and_a_snippet_with_the_match_marked(harness: Harness, session: str) -> None:
    await say(harness, session, "x " * 300 + "the eviction lock is held " + "y " * 300)
    for kind in ("session", "turn", "entry"):
        [item] = (await harness.query(text="eviction", kinds=[kind]))["items"]
        assert item["kind"] == kind
        assert item["score"] >= 0
        assert "«eviction»" in item["snippet"]
        assert len(item["snippet"]) <= 160


async def test_matches_are_ranked_best_first(harness: Harness, session: str) -> None:
    await say(harness, session, "shard " + "filler words " * 40, "shard shard", "other")
    items = (await harness.query(text="shard", kinds=["entry"]))["items"]
    assert items[0]["summary"] == "shard shard"
    assert [item["score"] for item in items] == sorted((item["score"] for item in items), reverse=True)


async def test_a_session_or_turn_that_matches_often_is_found_once(harness: Harness, session: str) -> None:
    await say(harness, session, *["shard lock"] * 5)
    other = await harness.open(title="Shard")
    for kind, total in (("session", 2), ("turn", 1), ("entry", 6)):
        assert (await harness.query(text="shard", kinds=[kind]))["total"] == total
    found = {item["session_id"] for item in await harness.items(text="shard")}
    assert found == {session, other}


async def test_every_recorded_text_can_be_found(harness: Harness) -> None:
    session = await harness.open(title="wordtitle", tags=["wordtag"])
    await harness.begin(session, query_title="wordquery", query_text="wordtext", tags=["wordturntag"])
    await harness.update(
        session,
        interpretation="wordinterpretation",
        context_list=["wordcontext"],
        design_decisions=["worddecision"],
        requirements_discovered=["wordrequirement"],
        files_modified=["wordfile.py"],
        blockers=["wordblocker"],
        commits=[{"sha": "a1b2", "message": "wordcommit"}],
        dialog=[{"role": "user", "category": "reasoning", "content": "worddialog"}],
        actions=[{"description": "wordaction", "type": "edit", "status": "failed", "file_path": "wordpath"}],
    )
    await harness.complete(session, response="wordresponse")
    await harness.begin(session)
    await harness.fail(session, error_message="worderror")
    await harness.call("close_session", {"session_id": session, "reason": "wordreason", "epitaph": "wordnote"})
    for word in (
        *("title", "tag", "query", "text", "turntag", "interpretation", "context", "decision", "requirement"),
        *("file", "blocker", "commit", "dialog", "action", "path", "response", "error", "reason", "note"),
    ):
        assert (await harness.query(text=f"word{word}"))["total"] == 1, word


async def test_a_search_keeps_to_the_filters_of_the_turn_it_finds(harness: Harness) -> None:
    session = await harness.open()
    for tag, finish in (("one", harness.complete), ("two", harness.fail)):
        await harness.begin(session, tags=[tag], query_title=f"Shard {tag}")
        await harness.update(session, files_modified=[f"src/{tag}.py", f"docs/{tag}.md"])
        await finish(session)
    assert (await harness.query(text="shard", kinds=["turn"]))["total"] == 2
    for question in ({"turn_status": "failed"}, {"tag": "two"}, {"path": "*two.py"}):
        answered = await harness.query(text="shard", kinds=["turn"], **question)
        assert [item["title"] for item in answered["items"]] == ["Shard two"]
        assert answered["total"] == 1
    assert (await harness.query(text="shard", agent="ClaudeCode"))["total"] == 0
    assert (await harness.query(text="shard", kinds=["turn"], session_id=session))["total"] == 2


async def test_of_the_files_of_a_turn_those_come_first_whose_names_match(harness: Harness) -> None:
    session = await harness.open()
    await harness.begin(session, query_text="Fix auth")
    await harness.update(session, files_modified=["src/auth.py", "docs/a.md", "src/cache.py"])
    found = await harness.items(text="auth", kinds=["file"])
    assert [item["path"] for item in found] == ["src/auth.py", "src/cache.py", "docs/a.md"]


async def test_files_are_found_by_what_their_turn_says_each_of_them_once(harness: Harness) -> None:
    session = await harness.open()
    await harness.begin(session, query_title="Shard the cache")
    await harness.update(session, files_modified=[f"src/{n}.py" for n in range(70)] + ["docs/a.md"])
    await harness.begin(session, query_title="Other")
    await harness.update(session, files_modified=["other.py"])
    pages = await harness.pages(text="shard", kinds=["file"], limit=9)
    paths = [item["path"] for page in pages for item in page["items"]]
    assert len(paths) == len(set(paths)) == 71
    assert {page["total"] for page in pages} == {71}
    assert [item["path"] for item in await harness.items(text="shard", kinds=["file"], path="docs/*")] == ["docs/a.md"]


async def test_runs_and_decisions_are_searched_as_such(harness: Harness) -> None:
    plain, with_run = await harness.open(title="Shard"), await harness.open(title="Shard", model="m")
    await harness.begin(plain, query_title="Shard")
    await say(harness, plain, "Decision: shard by key", category="decision")
    await say(harness, plain, "shard talk")
    runs = (await harness.query(text="shard", kinds=["run"]))["items"]
    assert [run["session_id"] for run in runs] == [with_run]
    [decision] = (await harness.query(text="shard", kinds=["decision"]))["items"]
    assert decision["summary"] == "Decision: shard by key"


@pytest.mark.parametrize("kinds", [["entry"], ["session"], ["turn", "entry"], ["session", "run", "decision"]])
async def test_pages_of_a_search_show_everything_once_while_others_write(harness: Harness, kinds: list[str]) -> None:
    sessions = [await harness.open(title=f"Shard {n}", model="m") for n in range(12)]
    for n, session in enumerate(sessions):
        await harness.begin(session, query_title="Shard " * (n % 4 + 1))
        await say(harness, session, "Decision: shard " + "lock " * (n % 5), category="decision")
    expected = {_name(item) for item in await harness.items(text="shard lock || shard", kinds=kinds, limit=200)}
    seen: list[tuple[Any, ...]] = []
    cursor: dict[str, Any] = {}
    while True:
        page = await harness.query(text="shard lock || shard", kinds=kinds, limit=3, **cursor)
        seen += [_name(item) for item in page["items"]]
        # What is written between two pages changes every score there is.
        await say(harness, sessions[len(seen) % 12], "lock lock lock", "shard " * 20)
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert len(seen) == len(set(seen))
    assert expected <= set(seen)


def _name(item: dict[str, Any]) -> tuple[Any, ...]:
    place = item["seq"] if item["kind"] in ("entry", "decision") else None
    return item["kind"], item["session_id"], item.get("request_id") if item["kind"] == "turn" else None, place


async def test_a_page_of_a_search_can_be_asked_for_again(harness: Harness, session: str) -> None:
    await say(harness, session, *[f"shard {n}" for n in range(9)])
    first = await harness.query(text="shard", kinds=["entry"], limit=3)
    second = await harness.query(text="shard", kinds=["entry"], limit=3, cursor=first["next_cursor"])
    await harness.query(text="shard", kinds=["entry"], limit=3, cursor=second["next_cursor"])
    again = await harness.query(text="shard", kinds=["entry"], limit=3, cursor=first["next_cursor"])
    assert again["items"] == second["items"]


async def test_more_matches_than_are_ranked_are_said_to_be_at_least_so_many(
    harness: Harness, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shiftlog.journal.history.search.RANKED_MOST", 5)
    await say(harness, session, *["shard"] * 8)
    answered = await harness.query(text="shard", kinds=["entry"])
    assert answered["total_is_lower_bound"] is True
    assert (await harness.query(text="plain", kinds=["entry"])).get("total_is_lower_bound") is None


# Characters that nobody sees


async def test_what_cannot_be_seen_is_not_shown_in_summaries_and_snippets(harness: Harness, session: str) -> None:
    await say(harness, session, f"de{UNSEEN}lete shard «now»\nand more")
    [item] = (await harness.query(text="shard", kinds=["entry"]))["items"]
    assert item["summary"] == "de lete shard «now» and more"
    assert "\u202e" not in item["snippet"]
    assert "‹now›" in item["snippet"]


@given(st.text(), st.integers(1, 300))
def test_one_line_is_one_short_line_that_shows_what_it_says(text: str, max_chars: int) -> None:
    line = one_line(text, max_chars)
    assert len(line) <= max_chars
    assert not set(line) & set("\n\r\t\x00\u2028\u202e\u200b\U000e0041")
    assert line == line.strip()
