"""The table in the documentation: every case of the contract on transcripts, each with a test that says so."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "transcripts.md"
CASES = set(range(1, 56))


def docstrings(file: str) -> dict[str, str]:
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {function.name: ast.get_docstring(function) or "" for function in functions}


def test_the_table_names_a_real_test_for_every_case() -> None:
    rows = re.findall(r"^\| (\d+) [^|]*\| `([\w/]+\.py)::(\w+)` \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert {int(case) for case, _, _ in rows} == CASES
    for case, file, test in rows:
        said = docstrings(file).get(test)
        assert said is not None, f"{file}::{test}"
        assert re.search(rf"\b{case}\b", said.partition("\n")[0]), f"{file}::{test} does not name case {case}"
