"""Patterns of touched files: what people write with them, and whole paths below a workspace."""

import apsw
import pytest

from shiftlog.store.sqlite.filters import FILTERS

db = apsw.Connection(":memory:")


def path_matches(path: str, pattern: str, workspace: str | None) -> bool:
    """Return True if a file of a session in a workspace fits a pattern."""
    condition, values = FILTERS.path_condition(pattern)
    sql = f"SELECT coalesce({condition}, 0) FROM (SELECT ? AS path) x, (SELECT ? AS workspace) s"
    ((fits,),) = db.execute(sql, (*values, path, workspace)).fetchall()
    return bool(fits)


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
    assert path_matches(path, pattern, None) is fits


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
    assert path_matches(path, pattern, "/home/me/ws") is fits
    assert path_matches(path, pattern, None) is (fits and path.startswith("/"))
