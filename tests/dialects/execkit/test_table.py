"""The table in the documentation: every case of the contract that is served, each with a test that exists."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[2]
PAGE = TESTS.parent / "docs" / "dialects" / "execkit.md"
CASES = set(range(1, 55))


def test_the_table_names_a_real_test_for_every_case() -> None:
    rows = re.findall(r"^\| (\d+) [^|]*\| `([\w/]+\.py)::(\w+)` \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert {int(case) for case, _, _ in rows} == CASES
    for _, file, test in rows:
        assert f"def {test}(" in (TESTS / file).read_text(encoding="utf-8"), f"{file}::{test}"
