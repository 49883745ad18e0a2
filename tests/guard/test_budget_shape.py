"""Shaping by a budget: every row of the contract's table, and agreement with a plain implementation of its words."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shiftlog.guard.budget import Budget, read_budget
from shiftlog.guard.budget_text import TextLines, elide_middle, offset_of_line, shape_text

CAP = 30_000


def seq(last: int) -> str:
    return "".join(f"{number}\n" for number in range(1, last + 1))


def budget_of(value: dict[str, object]) -> Budget:
    budget = read_budget(value)
    assert budget is not None
    return budget


TABLE: list[tuple[str, dict[str, object], str, tuple[int, int], bool, str]] = [
    (seq(10), {"keep": {"mode": "head", "n": 2}}, "1\n2\n... 8 lines elided ...", (10, 2), True, "head"),
    (
        seq(10),
        {"keep": {"mode": "head_tail", "head": 2, "tail": 1}},
        "1\n2\n... 7 lines elided ...\n10",
        (10, 3),
        True,
        "head_tail",
    ),
    (
        seq(10),
        {"keep": {"mode": "head_tail", "head": 6, "tail": 6}},
        "1\n2\n3\n4\n5\n6\n7\n8\n9\n10",
        (10, 10),
        False,
        "head_tail",
    ),
    (seq(10), {"keep": {"mode": "tail", "n": 0}}, "... 10 lines elided ...", (10, 0), True, "tail"),
    (seq(10), {"keep": {"mode": "tail", "n": 2}}, "... 8 lines elided ...\n9\n10", (10, 2), True, "tail"),
    (
        seq(20),
        {"grep": {"pattern": "5", "context": 1}},
        "... 3 lines elided ...\n4\n5\n6\n... 7 lines elided ...\n14\n15\n16\n... 4 lines elided ...",
        (20, 6),
        True,
        "grep",
    ),
    (
        seq(20),
        {"grep": {"pattern": "5", "context": 1}, "keep": {"mode": "tail", "n": 2}},
        "... 14 lines elided ...\n15\n16\n... 4 lines elided ...",
        (20, 2),
        True,
        "grep+tail",
    ),
    (seq(20), {"grep": {"pattern": "zzz"}}, "... 20 lines elided ...", (20, 0), True, "grep"),
    (seq(20), {"max_chars": 10}, "1\n2\n3\n... 40 chars elided ...\n19\n20", (20, 20), True, "all"),
    (
        seq(20),
        {"grep": {"pattern": "1"}, "keep": {"mode": "tail", "n": 3}, "max_chars": 20},
        "... 16 lin\n... 35 chars elided ...\nelided ...",
        (20, 3),
        True,
        "grep+tail",
    ),
    ("", {"keep": {"mode": "tail", "n": 2}}, "", (0, 0), False, "tail"),
    ("a\nb", {"grep": {"pattern": "^a$"}}, "a\n... 1 lines elided ...", (2, 1), True, "grep"),
    ("\n", {}, "", (1, 1), False, "all"),
    ("a\n\n", {}, "a\n", (2, 2), False, "all"),
]


@pytest.mark.parametrize(("output", "budget", "text", "counts", "truncated", "mode"), TABLE)
def test_the_rows_of_the_table(
    output: str, budget: dict[str, object], text: str, counts: tuple[int, int], truncated: bool, mode: str
) -> None:
    """Case 29."""
    shaped = shape_text(output, budget_of(budget), CAP)
    assert shaped.text == text
    assert (shaped.report.lines_total, shaped.report.lines_kept) == counts
    assert (shaped.truncated, shaped.report.mode) == (truncated, mode)
    assert (shaped.elided_at is not None) == truncated


@pytest.mark.parametrize("value", [{}, {"keep": {"mode": "all"}}, {"grep": None, "keep": None, "max_chars": None}])
def test_a_budget_that_keeps_everything_is_no_budget(value: dict[str, object]) -> None:
    assert budget_of(value).keeps_everything


@pytest.mark.parametrize(("most", "text"), [(0, ""), (1, ""), (2, "1\n... 1 chars elided ...\n2"), (3, "1\n2")])
def test_the_smallest_character_limits(most: int, text: str) -> None:
    assert shape_text("1\n2\n", budget_of({"max_chars": most}), CAP).text == text


def test_characters_are_code_points_not_bytes() -> None:
    shaped = shape_text("ä€😀" * 10, budget_of({"max_chars": 6}), CAP)
    assert shaped.text == "ä€😀\n... 24 chars elided ...\nä€😀"
    assert shaped.elided_at == len("ä€😀".encode())


@pytest.mark.parametrize(
    ("budget", "offset"),
    [
        ({"keep": {"mode": "head", "n": 2}}, 4),
        ({"keep": {"mode": "tail", "n": 2}}, 0),
        ({"grep": {"pattern": "^1$"}}, 2),
        ({"max_chars": 6}, 3),
        ({"keep": {"mode": "head", "n": 9}, "max_chars": 4}, 2),
        ({"keep": {"mode": "head", "n": 1}, "max_chars": 10}, 2),
    ],
)
def test_the_first_elided_position(budget: dict[str, object], offset: int) -> None:
    assert shape_text(seq(10), budget_of(budget), CAP).elided_at == offset


def reference(output: str, value: dict[str, object], cap: int) -> tuple[str, int, int, bool]:
    """The words of the contract, written down with lists."""
    lines = output.split("\n")
    if lines[-1] == "":
        lines.pop()
    numbers = list(range(len(lines)))
    grep = value.get("grep")
    if isinstance(grep, dict):
        found = [number for number in numbers if re.search(str(grep["pattern"]), lines[number])]  # pyright: ignore[reportUnknownArgumentType]
        context = int(str(grep.get("context", 0)))  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
        numbers = [n for n in numbers if any(abs(n - hit) <= context for hit in found)]
    keep = value.get("keep")
    if isinstance(keep, dict):
        mode = keep["mode"]  # pyright: ignore[reportUnknownVariableType]
        head = keep["n"] if mode == "head" else keep.get("head", 0)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        tail = keep["n"] if mode == "tail" else keep.get("tail", 0)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        last = numbers[max(0, len(numbers) - int(str(tail))) :]  # pyright: ignore[reportUnknownArgumentType]
        numbers = sorted({*numbers[: int(str(head))], *last})  # pyright: ignore[reportUnknownArgumentType]
    pieces: list[str] = []
    expected = 0
    for number in [*numbers, len(lines)]:
        if number > expected:
            pieces.append(f"... {number - expected} lines elided ...")
        if number < len(lines):
            pieces.append(lines[number])
        expected = number + 1
    text = "\n".join(pieces)
    most = value.get("max_chars", cap)
    assert isinstance(most, int)
    cut = len(text) > most
    return elide_middle(text, most), len(lines), len(numbers), cut or len(numbers) < len(lines)


outputs = st.lists(st.sampled_from(["", "a", "b", "ab", "ä€", "xxab😀", "12", "bbbb"]), max_size=30).flatmap(
    lambda lines: st.sampled_from(["\n".join(lines), "".join(f"{line}\n" for line in lines)])
)
counts = st.integers(0, 12)
keeps = st.one_of(
    st.builds(lambda mode, n: {"mode": mode, "n": n}, st.sampled_from(["head", "tail"]), counts),
    st.builds(lambda head, tail: {"mode": "head_tail", "head": head, "tail": tail}, counts, counts),
)
greps = st.builds(
    lambda pattern, context: {"pattern": pattern, "context": context},
    st.sampled_from(["a", "^b", "b$", "^$", "x*", "[^a]", "(?i)AB", "1|2", "\\bab\\b", "."]),
    st.integers(0, 3),
)
budgets = st.fixed_dictionaries({}, optional={"grep": greps, "keep": keeps, "max_chars": st.integers(0, 60)})


@settings(max_examples=400)
@given(output=outputs, value=budgets, block=st.sampled_from([3, 8, 20, 512 * 1024]))
def test_shaping_agrees_with_the_plain_reference(output: str, value: dict[str, object], block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shiftlog.guard.budget_shape.BLOCK_BYTES", block)
        shaped = shape_text(output, budget_of(value), 50)
    got = (shaped.text, shaped.report.lines_total, shaped.report.lines_kept, shaped.truncated)
    assert got == reference(output, value, 50)


@given(output=outputs, line=st.integers(0, 40))
def test_the_offset_of_a_line_is_behind_that_many_line_breaks(output: str, line: int) -> None:
    data = output.encode() * 40
    breaks = [index + 1 for index, byte in enumerate(data) if byte == 10]
    expected = 0 if line == 0 else breaks[line - 1] if line <= len(breaks) else len(data)
    assert offset_of_line(data, line) == expected


def test_a_million_lines_are_shaped_from_both_ends() -> None:
    shaped = shape_text(seq(1_000_000), budget_of({"keep": {"mode": "head_tail", "head": 1, "tail": 1}}), CAP)
    assert shaped.text == "1\n... 999998 lines elided ...\n1000000"
    assert TextLines(seq(1000)).lines_total == 1000
