"""Search expressions in FTS5's language against the model's own idea of what they match."""

import apsw
from hypothesis import given
from hypothesis import strategies as st

from shiftlog.model.search import And, Expr, Not, Or, Phrase, Word, matches
from shiftlog.store.sqlite.filters import match_expression

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
