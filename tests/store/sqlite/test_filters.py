"""Search expressions in FTS5's language against the model's own idea of what they match."""

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftlog.model.search import And, Expr, Not, Or, Phrase, Word, apart, matches, parse
from shiftlog.store.filters import Filter
from shiftlog.store.sqlite.filters import FILTERS, match_expression
from shiftlog.store.sqlite.migrate import migrate

WORDS = ("ant", "bee", "cat", "ants")
words = st.sampled_from(WORDS)
terms: st.SearchStrategy[Expr] = st.one_of(
    st.builds(Word, words, st.booleans()),
    st.builds(Phrase, st.tuples(words, words), st.booleans()),
)
expressions: st.SearchStrategy[Expr] = st.recursive(
    terms,
    lambda parts: st.one_of(
        st.builds(Not, parts),
        st.builds(And, st.lists(parts, min_size=2, max_size=3).map(tuple)),
        st.builds(Or, st.lists(parts, min_size=2, max_size=3).map(tuple)),
    ),
    max_leaves=8,
)


@given(expr=expressions, texts=st.lists(st.lists(words, min_size=1, max_size=5).map(" ".join), min_size=1, max_size=6))
def test_an_expression_matches_in_fts5_what_the_model_says(expr: Expr, texts: list[str]) -> None:
    db = apsw.Connection(":memory:")
    db.execute("CREATE VIRTUAL TABLE found USING fts5 (text)")
    db.executemany("INSERT INTO found (rowid, text) VALUES (?, ?)", enumerate(texts))
    text, negated = match_expression(expr)
    found = {row[0] for row in db.execute("SELECT rowid FROM found WHERE found MATCH ?", (text,))}
    everything = set(range(len(texts)))
    assert (everything - found if negated else found) == {n for n in everything if matches(expr, texts[n])}


def test_runs_of_chinese_that_were_indexed_as_one_word_are_still_found_whole() -> None:
    db = apsw.Connection(":memory:")
    db.execute("CREATE VIRTUAL TABLE found USING fts5 (text)")
    texts = ["数据库迁移", apart("数据库迁移"), "第3章 数据库迁移计划"]
    db.executemany("INSERT INTO found (rowid, text) VALUES (?, ?)", enumerate(texts))

    def found(query: str) -> list[int]:
        text, _ = match_expression(parse(query))
        return [row[0] for row in db.execute("SELECT rowid FROM found WHERE found MATCH ?", (text,))]

    assert found("数据库迁移") == [0, 1]
    assert found("数据库*") == [0, 1, 2]
    assert found("迁移") == [1]
    assert found("第3章") == [2]


@pytest.mark.parametrize(
    ("where", "index"),
    [
        (Filter(turn_status="failed"), "turns_failed"),
        (Filter(states=frozenset({"awaiting_successor"})), "sessions_awaiting"),
        (Filter(tag="starred"), "sessions_tagged"),
    ],
)
def test_few_sessions_among_many_are_found_by_an_index_of_their_own(where: Filter, index: str) -> None:
    db = apsw.Connection(":memory:")
    migrate(db)
    clauses, values = FILTERS.of_sessions(where)
    sql = f"SELECT s.id FROM sessions s WHERE {' AND '.join(clauses)} ORDER BY s.active_ms DESC, s.key DESC LIMIT 10"
    plan = [str(row[3]) for row in db.execute(f"EXPLAIN QUERY PLAN {sql}", values)]
    assert any(index in step for step in plan), plan


def test_turns_that_failed_lately_are_read_in_the_order_of_their_index() -> None:
    db = apsw.Connection(":memory:")
    migrate(db)
    clauses, values = FILTERS.of_turns(Filter(turn_status="failed"))
    sql = (
        "SELECT t.doc FROM turns t JOIN sessions s ON s.key = t.session_key"
        f" WHERE {' AND '.join(clauses)} ORDER BY t.begun_ms DESC, t.key DESC LIMIT 10"
    )
    plan = [str(row[3]) for row in db.execute(f"EXPLAIN QUERY PLAN {sql}", values)]
    assert any("turns_failed" in step for step in plan), plan
    assert not any("TEMP B-TREE" in step for step in plan), plan
