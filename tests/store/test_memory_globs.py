"""The in-memory store's path patterns against SQLite's GLOB, which they must agree with."""

import apsw
from hypothesis import example, given
from hypothesis import strategies as st

from shiftlog.store.memory.filters import path_matches
from shiftlog.store.protocol import Filter

db = apsw.Connection(":memory:")


@given(pattern=st.text("ab/*?[]^-!.\\", max_size=8), path=st.text("ab/^-!.\\]", max_size=6))
@example(pattern="[]a]", path="]")
@example(pattern="[^]a]", path="b")
@example(pattern="[b-a]", path="a")
@example(pattern="[a-]", path="-")
@example(pattern="[a--]", path="a")
@example(pattern="[!a]", path="!")
@example(pattern="[a", path="[a")
@example(pattern="*a*a*", path="aaa\n")
def test_a_pattern_matches_the_paths_that_sqlite_matches(pattern: str, path: str) -> None:
    row = db.execute("SELECT ? GLOB ?", (path, pattern)).fetchone()
    assert row is not None
    assert path_matches(path, Filter(path=pattern)) == bool(row[0])
