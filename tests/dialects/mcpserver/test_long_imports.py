"""Searching an imported session: indexed by the searches themselves, and what is found never changes by that."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from shiftlog.dialects.mcpserver.current import CallContext
from shiftlog.dialects.mcpserver.history import SEPARATOR, turn_text
from shiftlog.dialects.mcpserver.objects import turns_with_items
from shiftlog.dialects.mcpserver.search import matches, parse
from shiftlog.model.caller import LIBRARY
from shiftlog.store.protocol import Reader
from shiftlog.store.sql.grams import GRAM_BATCH
from shiftlog.store.sqlite.search import trigrams as grams
from tests.ingest.import_app import Claude, ImportApp, open_import_app

TURNS = 90
WORDS = 'upload lock Temp ſtraße "quoted" C:\\dir ﬁle 日本語 é qz'.split()
QUERIES = [
    *("upload", "temp", "lock", "q", "qz", "zq", "xq", "ß", "本", "straSSE", "C:\\dir", "e\\d", "nowhere", "turn 42 "),
    *("!said", "!(said || nowhere)", "said !lock", "!upload", '!"always said"', "!nowhere", "qz !本", "!é || xq"),
]


def transcript(app: ImportApp) -> Path:
    random = Random(3)
    claude = Claude()
    for number in range(TURNS):
        claude.prompt(f"turn {number} " + " ".join(random.choices(WORDS, k=3)))
        claude.calls(f"toolu_{number}", command="ls " + random.choice(WORDS)).returns(f"toolu_{number}", "a.py")
        claude.says("This is always said. " + "".join(random.choices(WORDS, k=2)) * random.choice((1, 400)))
        claude.ends()
    return app.write("projects/app/a.jsonl", claude.records)


def indexed(app: ImportApp) -> int:
    with app.harness.database() as database:
        rows: list[Any] = list(database.execute("SELECT seq FROM gram_marks"))
    return rows[0][0] if rows else 0


async def test_an_import_leaves_the_index_of_substrings_to_searches_however_small_its_batches(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        path = transcript(app)
        lines = path.read_bytes().splitlines(keepends=True)
        for end in range(20, len(lines) + 20, 20):
            path.write_bytes(b"".join(lines[:end]))
            await app.take(path)
        (session,) = (await app.sessions()).values()
        assert session.head_seq > GRAM_BATCH
        assert indexed(app) == 0


async def test_searches_index_an_imported_session_step_by_step_and_find_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grams, "MOST_UNREACHED", GRAM_BATCH)
    monkeypatch.setattr(grams, "MOST_CAUGHT_UP", GRAM_BATCH)
    async with open_import_app(tmp_path) as app:
        await app.take(transcript(app))
        (session,) = (await app.sessions()).values()

        def haystacks(reader: Reader) -> list[str]:
            own = SEPARATOR.join((session.title, session.id)).casefold()
            return [own + SEPARATOR + turn_text(*found) for found in turns_with_items(reader, session.id)]

        async def found(text: str) -> int:
            asked = {"text": text, "limit": 0}
            context = CallContext(caller=LIBRARY, workspace="/srv/app")
            answer = await app.harness.app.sessionlog.call("workflow.sessionlog.queryHistory", asked, context)
            assert answer is not None
            await app.harness.app.store.write_bulk(lambda writer: None)  # behind what the store does of its own
            return answer["totalCount"]

        texts = await app.harness.read(haystacks)
        expected = {text: int(any(matches(parse(text), each) for each in texts)) for text in QUERIES}
        assert set(expected.values()) == {0, 1}
        assert session.head_seq > 2 * GRAM_BATCH
        assert indexed(app) == 0
        assert await found("upload") == expected["upload"]
        assert indexed(app) == GRAM_BATCH
        assert {text: await found(text) for text in QUERIES} == expected
        assert session.head_seq - indexed(app) < 2 * GRAM_BATCH
        assert {text: await found(text) for text in QUERIES} == expected
