"""Patterns of touched files: the in-memory store must agree with SQLite's GLOB, and both with what people write."""

import apsw
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shiftlog.store.globs import patterns
from shiftlog.store.protocol import Filter
from tests.contract.model_store.filters import path_matches

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
@example(pattern="**/a/**/b", path="a/b")
def test_a_pattern_matches_the_paths_that_sqlite_matches(pattern: str, path: str) -> None:
    found = [db.execute("SELECT ? GLOB ?", (path, each)).fetchone() for each in patterns(pattern)]
    assert path_matches(path, Filter(path=pattern), None) == any(row[0] for row in found if row is not None)


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("src/**/*.py", "src/up.py", True),
        ("src/**/*.py", "src/deep/er/up.py", True),
        ("src/**/*.py", "tests/src/up.py", False),
        ("**/up.py", "up.py", True),
        ("**/up.py", "src/up.py", True),
        ("**/up.py", "src/setup.py", False),
        ("a/**/b/**/c", "a/b/c", True),
        ("a/**/**/c", "a/c", True),
        ("./src/up.py", "src/up.py", True),
        ("src\\up.py", "src/up.py", True),
        ("src/[!a]p.py", "src/up.py", True),
        ("src/[!u]p.py", "src/up.py", False),
        ("app/[id]/*.tsx", "app/[id]/page.tsx", True),
        ("app/[id]/*.tsx", "app/i/page.tsx", True),
        ("app/[id]/*.tsx", "app/x/page.tsx", False),
        ("**/" * 60 + "up.py", "a/" * 60 + "up.py", True),
    ],
)
def test_a_pattern_means_what_people_write_with_it(pattern: str, path: str, fits: bool) -> None:
    assert path_matches(path, Filter(path=pattern), None) is fits


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("/home/me/ws/src/*.py", "src/up.py", True),
        ("/home/me/ws/**", "src/up.py", True),
        ("/home/**/up.py", "src/up.py", True),
        ("/home/me/other/**", "src/up.py", False),
        ("/home/me/ws/**", "/etc/hosts", False),
        ("/etc/*", "/etc/hosts", True),
    ],
)
def test_a_whole_path_is_looked_for_below_the_workspace(pattern: str, path: str, fits: bool) -> None:
    assert path_matches(path, Filter(path=pattern), "/home/me/ws") is fits
    assert path_matches(path, Filter(path=pattern), None) is (fits and path.startswith("/"))
