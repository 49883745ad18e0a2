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
from shiftlog.store.postgres import reader as reader_module
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

    def results(self, expr: Expr, name: str, *, most: int) -> list[tuple[set[tuple[str, int]], bool]]:
        """Return what each store finds among the newest matches, and whether that is all."""
        where = Filter(workspace=f"/{name}")
        found: list[tuple[set[tuple[str, int]], bool]] = []
        for store in self._stores:
            result = self._runner.run(
                store.read(lambda reader: reader.search(expr, where, unit="entry", limit=most, most=most))
            )
            found.append(({(hit.session_id, hit.seq) for hit in result.hits}, result.complete))
        return found

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


# Characters of many kinds: cases that fold to several letters, marks, scripts without spaces, signs, what JSON escapes.
ODD = "aAbZ09 ıİßẞŉǰΐςΣ́̈­\u200b\u0000\t\n_-.'\"\\*:&|!<>()%数据库カタ한글กขאב🚀🇩🇪ﬁ①²ªº"
odd_texts = st.text(alphabet=ODD, min_size=1, max_size=12)


odd_queries = st.lists(
    st.tuples(st.sampled_from(("", "!", "|| ", "&& ")), odd_texts, st.sampled_from(("{}", '"{}"', "{}*", '"{}"*'))),
    min_size=1,
    max_size=3,
).map(lambda parts: " ".join(sign + form.format(text.replace('"', "")) for sign, text, form in parts))


@given(given=st.lists(odd_texts, min_size=1, max_size=6), asked=st.lists(odd_queries, min_size=1, max_size=6))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_odd_characters_are_found_the_same_in_both_stores(both: Both, given: list[str], asked: list[str]) -> None:
    name = both.put([given])
    for query in (*asked, *(text.replace('"', "") for text in given)):
        try:
            expr = parse(query)
        except ValueError:
            continue  # not an expression
        embedded, team = both.found(expr, name, "entry")
        assert embedded == team, query


def test_windows_of_the_newest_sessions_change_nothing_in_what_is_found(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Words that are everywhere are answered from few sessions, rare ones from all; the newest matches count."""
    monkeypatch.setattr(reader_module, "FIRST_WINDOW", 1)
    monkeypatch.setattr(reader_module, "WINDOW_GROWTH", 2)
    name = both.put([["rare common"], *([f"common number{n}"] * 2 for n in range(12))])
    for query, count in {"common": 25, "rare": 1, "number3": 2, "!common": 0, "common && !rare": 24}.items():
        embedded, team = both.found(parse(query), name, "entry")
        assert embedded == team
        assert len(team) == count
    few = both.results(parse("common"), name, most=3)
    assert few[0] == few[1]
    assert few[1] == ({(b.session_id(f"{name}-{n}"), seq) for n, seq in ((12, 1), (12, 2), (11, 2))}, False)
