"""What is shown of a session: `verify` compares it with the journal, and `rebuild` brings it back."""

from contextlib import closing
from pathlib import Path

import apsw
import pytest

from tests.journal.harness import Harness, open_harness, tamper
from tests.journal.test_chain import written

SHOWN = {
    "a session's title": "UPDATE sessions SET doc = CAST(replace(CAST(doc AS TEXT), 'Prüfung', 'Forged') AS BLOB)",
    "a session's row": "DELETE FROM turns; DELETE FROM sessions",
    "a session's column": "UPDATE sessions SET agent = 'Another'",
    "a session's activity": "UPDATE sessions SET active_ms = active_ms + 1000",
    "a turn's text": "UPDATE turns SET doc = CAST(json_set(CAST(doc AS TEXT), '$.response', 'forged') AS BLOB)"
    " WHERE ordinal = 2",
    "a document that cannot be read": "UPDATE turns SET doc = CAST('{' AS BLOB)",
    "a session's document that cannot be read": "UPDATE sessions SET doc = CAST('{' AS BLOB)",
    "a turn's status": "UPDATE turns SET status = 'completed'",
    "a turn's row": "DELETE FROM turns WHERE ordinal = 2",
    "a turn's tag": "UPDATE turn_tags SET tag = 'praised' WHERE tag = 'é'",
    "a turn's file": "UPDATE turn_files SET path = 'b.py'",
    "words that are gone": "DELETE FROM found WHERE rowid = (SELECT max(rowid) FROM found_docsize)",
    "words that are others": "DELETE FROM found WHERE rowid = (SELECT id FROM entries WHERE kind = 'dialog');"
    " INSERT INTO found (rowid, text) SELECT id, 'praise and \\ and other' FROM entries WHERE kind = 'dialog'",
    "words without a text": "INSERT INTO found (rowid, text) SELECT max(id) + 1, 'word' FROM entries",
    "a facet": "UPDATE entries SET facet = 'decision' WHERE kind = 'dialog'",
}


async def made(home: Path) -> str:
    async with open_harness(home) as harness:
        session = await written(harness)
        assert [found.ok for found in await harness.verify()] == [True]
    return session


@pytest.mark.parametrize("what", SHOWN)
async def test_what_is_shown_otherwise_than_the_journal_says_is_named_and_can_be_rebuilt(
    tmp_path: Path, what: str
) -> None:
    home = tmp_path / "home"
    session = await made(home)
    with closing(apsw.Connection(str(home / "shiftlog.db"))) as database:
        database.execute(SHOWN[what])
        assert database.total_changes()
    async with open_harness(home) as harness:
        [found] = await harness.verify()
        assert (found.ok, found.kind, found.seq, found.session_id) == (False, "projection", None, session)
        assert "differs from the journal in " in found.note
        await harness.rebuild()
        assert [found.ok for found in await harness.verify()] == [True]


async def test_many_differences_are_not_all_named(tmp_path: Path) -> None:
    home = tmp_path / "home"
    await made(home)
    tamper(home, "UPDATE entries SET facet = 'decision'")
    async with open_harness(home) as harness:
        [found] = await harness.verify()
    assert found.note.endswith(", and more")
    assert found.note.count("the facet of entry") == 5


async def test_a_session_that_grows_erases_and_reopens_is_shown_as_its_journal_says(harness: Harness) -> None:
    session = await written(harness)
    await harness.call("close_session", {"session_id": session})
    await harness.call("resume_session", {"session_id": session, "agent_id": "Codex"})
    await harness.begin(session, query_text="Words with an accent: é, and 検査 without spaces")
    await harness.app.maintenance.erase(session, [5], "private")
    assert [found.kind for found in await harness.verify()] == [None]


@pytest.mark.parametrize("word", ["x" * 200_000, "a" + "ж" * 20_000, "日" * 20_000, "x" * 32_768])
async def test_words_that_are_longer_than_the_index_keeps_are_no_difference(harness: Harness, word: str) -> None:
    session = await written(harness)
    await harness.begin(session, query_text=f"A minified file: {word}")
    assert [found.ok for found in await harness.verify()] == [True]


async def test_totals_that_are_not_the_sums_of_their_sessions_are_named_and_counted_again(tmp_path: Path) -> None:
    home = tmp_path / "home"
    session = await made(home)
    tamper(home, "UPDATE tallies SET input_tokens = input_tokens + 1")
    async with open_harness(home) as harness:
        assert [found.ok for found in await harness.verify(session)] == [True, False]
        [_, found] = await harness.verify()
        assert (found.session_id, found.kind) == ("totals", "projection")
        await harness.rebuild()
        assert [found.ok for found in await harness.verify()] == [True]
