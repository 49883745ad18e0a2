"""The table in the documentation: every case of the contract that is served, each with a test that exists."""

import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[2] / "docs" / "dialects" / "mcpserver.md"


def test_the_table_names_a_real_test_for_every_case() -> None:
    rows = re.findall(r"^\| (\d+) [^|]*\| `(\w+\.py)::(\w+)` \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert {int(case) for case, _, _ in rows} == set(range(1, 49))
    for _, file, test in rows:
        assert f"def {test}(" in (HERE / file).read_text(encoding="utf-8"), f"{file}::{test}"
