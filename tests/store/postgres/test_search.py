"""Search in PostgreSQL: on random texts it finds the same entries as the embedded store, ranked its own way."""

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shiftlog.model.search import And, Expr, Not, Or, parse
from shiftlog.store.postgres import PostgresStore
from shiftlog.store.postgres.words import MOST_OF_A_WORD, MOST_PLACES, findable
from shiftlog.store.protocol import Filter, Store, Unit
from shiftlog.store.sqlite import SqliteStore
from tests.contract import builders as b
from tests.postgres_server import PostgresServer, empty

WORDS = (
    "ant",
    "ants",
    "Bee",
    "naïve",
    "Straße",
    "o'neil",
    "back\\slash",
    "数据库",
    "x_y",
    "🚀",
    "İstanbul",
    "a" * 2100,
)
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
NAMED = (
    "ant",
    "ants",
    "an",
    "BEE",
    "naive",
    "strasse",
    "Straße",
    "o'neil",
    "back\\slash",
    "数据",
    "库",
    "x_y",
    "İ",
    "a" * 2100,
)
named = st.sampled_from(NAMED)
terms: st.SearchStrategy[Expr] = st.one_of(
    named.map(parse),
    named.map(lambda word: parse(f"{word}*")),
    st.tuples(named, named).map(lambda words: parse(f'"{words[0]} {words[1]}"')),
    st.tuples(named, named).map(lambda words: parse(f'"{words[0]} {words[1]}"*')),
)
expressions: st.SearchStrategy[Expr] = st.recursive(
    terms,
    lambda parts: st.one_of(
        st.builds(Not, parts),
        st.builds(And, st.lists(parts, min_size=2, max_size=3).map(tuple)),
        st.builds(Or, st.lists(parts, min_size=2, max_size=3).map(tuple)),
    ),
    max_leaves=6,
)


class Both:
    """The same entries in both stores."""

    def __init__(self, folder: Path, url: str) -> None:
        self._runner = asyncio.Runner()
        self._stores: tuple[Store, Store] = (
            SqliteStore(folder / "shiftlog.db"),
            PostgresStore(url, durability="process"),
        )
        for store in self._stores:
            self._runner.run(store.__aenter__())
        self._numbers = itertools.count()

    def put(self, given: list[list[str]]) -> str:
        """Store a session with some entries for each list, and return the beginning of their names."""
        name = f"n{next(self._numbers)}"
        for store in self._stores:
            for number, each in enumerate(given):
                self._runner.run(b.stored(store, *each, of=b.session(f"{name}-{number}", workspace=f"/{name}")))
        return name

    def found(self, expr: Expr, name: str, unit: Unit) -> tuple[set[tuple[str, int]], set[tuple[str, int]]]:
        """Return the sessions and entries that each of the stores finds."""
        where = Filter(workspace=f"/{name}")

        def of(store: Store) -> set[tuple[str, int]]:
            result = self._runner.run(
                store.read(lambda reader: reader.search(expr, where, unit=unit, limit=1000, most=1000))
            )
            assert len(result.hits) == result.total
            return {(hit.session_id, hit.seq if unit == "entry" else 0) for hit in result.hits}

        return of(self._stores[0]), of(self._stores[1])

    def close(self) -> None:
        for store in self._stores:
            self._runner.run(store.__aexit__(None, None, None))
        self._runner.close()


@pytest.fixture(scope="module")
def both(postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    empty(postgres_server.url())
    made = Both(tmp_path_factory.mktemp("both"), postgres_server.url())
    yield made
    made.close()


@given(
    given=st.lists(st.lists(texts, min_size=1, max_size=4), min_size=1, max_size=3),
    exprs=st.lists(expressions, min_size=4, max_size=4),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_a_search_finds_the_same_in_both_stores(both: Both, given: list[list[str]], exprs: list[Expr]) -> None:
    name = both.put(given)
    for expr in exprs:
        for unit in ("entry", "session"):
            embedded, team = both.found(expr, name, unit)
            assert embedded == team


@pytest.mark.parametrize(
    "text",
    [
        " ".join(f"w{n}" for n in range(MOST_PLACES + 10)) + " far end",
        "often " * (MOST_OF_A_WORD + 5) + "far end",
        "x" * 3_000 + " far end",
        " ".join(f"word{n:06d}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" for n in range(22_000)) + " far end",
    ],
    ids=["many words", "one word often", "a long word", "a long text"],
)
def test_what_a_tsvector_cannot_hold_is_found_all_the_same(both: Both, text: str) -> None:
    assert findable(text).line is not None
    name = both.put([[text, "short end"]])
    for query, count in {'"far end"': 1, "far !short": 1, "end": 2, '"end far"': 0, "!far": 1, "fa*": 1}.items():
        embedded, team = both.found(parse(query), name, "entry")
        assert embedded == team
        assert len(team) == count
