"""Searching a long session: an index narrows the turns down and never changes what is found."""

import asyncio
from collections.abc import Generator
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shiftlog.dialects.mcpserver.current import CallContext
from shiftlog.dialects.mcpserver.history import SEPARATOR, turn_text
from shiftlog.dialects.mcpserver.objects import turns_with_items
from shiftlog.dialects.mcpserver.search import matches, parse
from shiftlog.model.caller import LIBRARY
from shiftlog.store.postgres import substrings
from shiftlog.store.protocol import Reader
from shiftlog.store.sql.grams import GRAM_BATCH
from shiftlog.store.sqlite.search import trigrams
from tests.journal.harness import Harness, open_harness

SESSION = "Codex-20260701T080000Z-long"
TITLE = "Title b"
TURNS = 150
ALPHABET = 'abkKsſßﬁéÉ"\\ /.\n日🚀'


class Long:
    """A session of many turns, its texts drawn from few letters so that parts of them are everywhere and nowhere."""

    def __init__(self, folder: Path) -> None:
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        self.harness: Harness = self._runner.run(self._stack.enter_async_context(open_harness(folder / "home")))
        self._random = Random(7)
        turns = [self._turn(n) for n in range(TURNS)]
        for start in range(0, TURNS, 30):
            self.do("importRecovery", agent="Codex", sessionId=SESSION, title=TITLE, turns=turns[start : start + 30])
        self.do("importRecovery", agent="Codex", sessionId=SESSION, title=TITLE, turns=[self._open(999)])
        late = [{**turns[n], "response": self._text(9) + "amended"} for n in (3, 70)]
        self.do("importRecovery", agent="Codex", sessionId=SESSION, title=TITLE, turns=late)

    def _text(self, length: int) -> str:
        return "".join(self._random.choices(ALPHABET, k=length)).strip() or "a"

    def _turn(self, n: int) -> dict[str, Any]:
        item = {"role": "model", "category": "reasoning"}
        action = {"type": "edit", "status": "completed"}
        return {
            "requestId": f"req-20260701T080000Z-turn{n}",
            "status": "completed",
            "response": f"The same words, {self._text(6)}",
            "tags": [self._text(4)],
            "processingDialog": [item | {"content": self._text(5) * (2000 if n % 40 == 7 else 1)}],
            "actions": [action | {"description": self._text(7), "filePath": f"src/{n}.py"}],
        }

    def _open(self, n: int) -> dict[str, Any]:
        return {"requestId": f"req-20260701T080000Z-turn{n}", "status": "in_progress", "response": self._text(6)}

    def do(self, method: str, **params: Any) -> Any:
        context = CallContext(caller=LIBRARY, workspace="/work")
        return self._runner.run(self.harness.app.sessionlog.call("workflow.sessionlog." + method, params, context))

    def read(self, work: Any) -> Any:
        return self._runner.run(self.harness.read(work))

    def run(self, work: Any) -> Any:
        return self._runner.run(work)

    def haystacks(self) -> list[str]:
        def everything(reader: Reader) -> list[str]:
            own = SEPARATOR.join((TITLE, SESSION)).casefold()
            return [own + SEPARATOR + turn_text(*found) for found in turns_with_items(reader, SESSION)]

        return self.read(everything)

    def head(self) -> int:
        def seq(reader: Reader) -> int:
            head = reader.head(SESSION)
            return head[0] if head else 0

        return self.read(seq)

    def names(self, *parts: str) -> list[str] | None:
        def named(reader: Reader) -> list[str] | None:
            found = reader.turns_that_may_hold(SESSION, [parts])
            return None if found is None else list(found)

        return self.read(named)

    @property
    def url(self) -> str:
        return self.harness.app.config.store.url

    def unindex(self) -> None:
        if self.url:
            with psycopg.connect(self.url) as team:
                team.execute("DELETE FROM gram_marks; DELETE FROM grams")
            return
        with self.harness.database() as db:
            db.execute("DELETE FROM gram_marks; INSERT INTO grams (grams) VALUES ('delete-all')")

    def indexed(self) -> int:
        question = "SELECT max(seq) FROM gram_marks"
        with psycopg.connect(self.url) if self.url else self.harness.database() as db:
            return next(iter(db.execute(question)))[0] or 0

    def wait_for_index(self) -> None:
        """Search until the store has done the bulk work that searches left to it."""
        for _ in range(100):
            if self.indexed() > self.head() - 2 * GRAM_BATCH:
                return
            self.names("turn77")
            self.run(self.harness.app.store.write_bulk(lambda writer: None))
        raise AssertionError("searches left the session without an index")

    def close(self) -> None:
        self._runner.run(self._stack.aclose())
        self._runner.close()


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Generator[Long]:
    made = Long(tmp_path_factory.mktemp("long"))
    yield made
    made.close()


LETTERS = st.text(st.sampled_from(ALPHABET), min_size=1, max_size=5)
QUOTED = LETTERS.filter(lambda text: '"' not in text and "\n" not in text).map(lambda text: f'"{text}"')
EXPRESSIONS = st.recursive(
    QUOTED
    | st.sampled_from(["turn149", "amended", "src/7.py", "nowhere", "TITLE", "turn1", "same words", "ORDS", "qx", "q"])
    | st.sampled_from(["completed", "FAIL", "progress", "n_p", "model", "reason", "tool", "pending", "ed", "in"]),
    lambda inner: st.one_of(
        inner.map(lambda part: f"!({part})"),
        st.tuples(inner, inner).map(lambda parts: f"({parts[0]} && {parts[1]})"),
        st.tuples(inner, inner).map(lambda parts: f"({parts[0]} || {parts[1]})"),
    ),
    max_leaves=5,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(st.lists(EXPRESSIONS, min_size=3, max_size=8))
def test_a_search_of_a_long_session_finds_what_looking_at_everything_finds(long: Long, expressions: list[str]) -> None:
    haystacks = long.haystacks()
    for text in expressions:
        expected = any(matches(parse(text), haystack) for haystack in haystacks)
        assert long.do("queryHistory", text=text)["totalCount"] == int(expected), text


def test_a_rare_part_leaves_few_turns_in_question(long: Long) -> None:
    assert long.head() > 2 * GRAM_BATCH
    long.wait_for_index()
    assert "req-20260701T080000Z-turn77" in (long.names("turn77") or [])
    assert len(long.names("turn77") or []) < TURNS // 2
    assert len(long.names("query_title") or []) < TURNS // 2


def test_a_part_of_one_or_two_characters_is_looked_for_in_every_entry(long: Long) -> None:
    long.wait_for_index()
    assert "req-20260701T080000Z-turn0" in (long.names("0.") or [])
    assert "req-20260701T080000Z-turn999" in (long.names("99") or [])


def test_a_session_without_an_index_gets_one_from_being_searched(long: Long) -> None:
    long.wait_for_index()
    before = long.names("turn9", "amended")
    long.unindex()
    with pytest.MonkeyPatch.context() as patch:
        for module in (trigrams, substrings):
            patch.setattr(module, "MOST_UNREACHED", GRAM_BATCH)
        assert long.do("queryHistory", text="turn77")["totalCount"] == 1
        assert long.do("queryHistory", text="qx")["totalCount"] == 0
        long.wait_for_index()
        assert long.names("turn77") is not None
    assert long.names("turn9", "amended") == before


def test_what_is_erased_is_no_longer_found_and_the_rest_still_is(long: Long) -> None:
    def said(reader: Reader) -> int:
        entries = reader.entries(SESSION, turn="req-20260701T080000Z-turn42")
        return next(entry.seq for entry in entries if "src/42.py" in str(entry.body))

    assert long.do("queryHistory", text="src/42.py")["totalCount"] == 1
    long.run(long.harness.app.maintenance.erase(SESSION, [long.read(said)], "asked"))
    assert long.do("queryHistory", text="src/42.py")["totalCount"] == 0
    assert long.do("queryHistory", text="src/43.py turn43")["totalCount"] == 1


def test_rebuilding_a_long_session_changes_nothing_that_is_found(long: Long) -> None:
    long.wait_for_index()
    before = long.names("turn9", "amended")
    (done,) = long.run(long.harness.rebuild(SESSION))
    assert done.changed is False
    long.wait_for_index()
    assert long.names("turn9", "amended") == before


def test_erasing_in_the_middle_forgets_only_what_comes_after(long: Long) -> None:
    long.wait_for_index()
    long.run(long.harness.app.maintenance.erase(SESSION, [2 * GRAM_BATCH + 5], "asked"))
    # The session is rebuilt; in PostgreSQL the next search makes its rows again.
    assert long.indexed() == (0 if long.url else 2 * GRAM_BATCH)
    assert long.do("queryHistory", text='!"same words"')["totalCount"] == 1
    assert long.do("queryHistory", text="qx")["totalCount"] == 0
