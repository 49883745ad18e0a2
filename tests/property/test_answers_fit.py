"""Whatever is stored and however little room there is: an answer is valid JSON, fits, and leads on to the rest."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftlog.journal.history.cursors import Cursor
from shiftlog.journal.history.fitting import fit, size
from tests.property.sync_harness import SyncHarness, open_sync_harness

LONG_NAME = "x" * 174
TEXTS = ["short", "line\n" * 500, '“quotes” \\ " \x1b[0m é\U0001f600 ' * 80, "x" * 5_000]

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=300) | st.sampled_from(TEXTS),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=10), inner, max_size=6),
    max_leaves=20,
)
ITEMS = st.dictionaries(st.text(min_size=1, max_size=12), VALUES, max_size=8)


@given(
    head=st.dictionaries(st.sampled_from(["session", "session_id", "turn"]), ITEMS, max_size=2),
    items=st.lists(ITEMS, max_size=12),
    total=st.integers(0, 10**9),
    is_last=st.booleans(),
    max_chars=st.integers(500, 5_000),
)
def test_any_answer_fits_and_moves_on(
    head: dict[str, Any], items: list[dict[str, Any]], total: int, is_last: bool, max_chars: int
) -> None:
    question = {"text": "x"}
    rows = [(item, Cursor(after=(2**48 + n, 2**48 + n))) for n, item in enumerate(items)]
    answered = fit(head, rows, question, total=total, is_last=is_last, max_chars=max_chars)
    text = json.dumps(answered, ensure_ascii=False, separators=(",", ":"))
    assert size(answered) <= max_chars
    assert json.loads(text) == answered
    assert answered["total"] == total
    shown = len(answered["items"])
    assert shown >= min(1, len(items))
    if shown < len(items):
        assert answered["next_cursor"] == rows[shown - 1][1].encoded(question)
        assert answered["truncated"] is True
    else:
        wanted = None if is_last or not items else rows[-1][1].encoded(question)
        assert answered["next_cursor"] == wanted
    whole = not answered["truncated"]
    assert whole == ("note" not in answered)
    if whole:
        assert answered["items"] == items
        assert {name: answered[name] for name in head} == head


@pytest.fixture(scope="module")
def archive() -> Iterator[SyncHarness]:
    """An app with sessions and turns that are hard to show: long names, long texts, many of them."""
    with open_sync_harness() as sync:
        sync.run(_fill(sync))
        yield sync


async def _fill(sync: SyncHarness) -> None:
    harness = sync.harness
    for n in range(2):
        session = await harness.open(
            session_id=f"Codex-20260701T12000{n}Z-{LONG_NAME}",
            title="Shard " + "title " * 60,
            tags=[f"tag {m} " + "y" * 150 for m in range(40)],
            agent_id="agent " * 30,
            cwd="/" + "deep/" * 500,
            model="m" * 200,
            context_excerpt="excerpt " * 500,
        )
        for m in range(6):
            await harness.begin(
                session,
                request_id=f"req-20260701T120000Z-{m}-{LONG_NAME}"[:200],
                query_title="Shard " + "question " * 40,
                query_text=TEXTS[m % 4] * 2,
            )
            await harness.update(
                session,
                dialog=[{"role": "tool", "category": "decision", "content": f"Shard {text}"} for text in TEXTS],
                actions=[
                    {"description": "Shard " + "d" * 3_000, "type": "edit", "status": "pending", "file_path": f"{m}/a"}
                ],
                files_modified=[f"{'p' * 400}/{k}" for k in range(10)],
                design_decisions=[f"{k} {text}" for k, text in enumerate(TEXTS)],
            )
            await harness.complete(session, response="Shard " + TEXTS[m % 4] * 2)
        if n == 1:
            await harness.call("close_session", {"session_id": session, "epitaph": "note " * 1_000})


QUESTIONS: list[dict[str, Any]] = [
    {},
    {"kinds": ["turn"]},
    {"kinds": ["entry"]},
    {"kinds": ["decision", "file", "run", "session"]},
    {"text": "shard"},
    {"text": "shard", "kinds": ["turn", "entry"]},
    {"text": "shard", "kinds": ["file"]},
    {"session_id": f"Codex-20260701T120000Z-{LONG_NAME}"},
    {"session_id": 2},
    {
        "session_id": f"Codex-20260701T120000Z-{LONG_NAME}",
        "request_id": f"req-20260701T120000Z-3-{LONG_NAME}"[:200],
    },
]


@pytest.mark.long
@given(
    question=st.sampled_from(QUESTIONS),
    limit=st.integers(1, 200),
    max_chars=st.integers(500, 3_000) | st.integers(3_000, 60_000),
)
def test_every_question_fits_its_room_and_pages_to_its_end(
    archive: SyncHarness, question: dict[str, Any], limit: int, max_chars: int
) -> None:
    asked = {**question, "limit": limit, "max_chars": max_chars}
    pages = archive.run(archive.harness.pages(**asked))
    for page in pages:
        text = json.dumps(page, ensure_ascii=False, separators=(",", ":"))
        assert len(text) <= max_chars
        assert len(page["items"]) <= limit
        assert page["items"] or not page["total"]
    assert sum(len(page["items"]) for page in pages) == pages[0]["total"]


@pytest.mark.parametrize("max_chars", [500, 700, 2_000])
def test_with_little_room_every_turn_of_a_session_is_still_named_once(archive: SyncHarness, max_chars: int) -> None:
    session = archive.run(archive.harness.open(title="Many turns"))
    names = [archive.run(archive.harness.begin(session, query_text="long " * 2_000)) for _ in range(25)]
    pages = archive.run(archive.harness.pages(session_id=session, limit=200, max_chars=max_chars))
    assert [item["request_id"] for page in pages for item in page["items"]] == names
    assert all(size(page) <= max_chars for page in pages)
    assert "query_history" in pages[0]["note"]
