"""Shaping by a budget: every row of the contract's table, and agreement with a plain implementation of its words."""

import re
import time
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shiftlog.guard.budgets.spec import Budget, read_budget
from shiftlog.guard.budgets.text import TextLines, elide_middle, offset_of_line, shape_text

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


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A budget as plain values."""

    pattern: str | None
    context: int
    mode: str | None
    head: int
    tail: int
    max_chars: int | None

    def as_budget(self) -> Budget:
        value: dict[str, object] = {"max_chars": self.max_chars}
        if self.pattern is not None:
            value["grep"] = {"pattern": self.pattern, "context": self.context}
        if self.mode == "head_tail":
            value["keep"] = {"mode": self.mode, "head": self.head, "tail": self.tail}
        elif self.mode is not None:
            value["keep"] = {"mode": self.mode, "n": self.head if self.mode == "head" else self.tail}
        return budget_of(value)


def reference(output: str, asked: Asked, cap: int) -> tuple[str, int, int, bool]:
    """The words of the contract, written down with lists."""
    lines = output.split("\n")
    if lines[-1] == "":
        lines.pop()
    numbers = list(range(len(lines)))
    if asked.pattern is not None:
        found = [number for number in numbers if re.search(asked.pattern, lines[number])]
        numbers = [number for number in numbers if any(abs(number - hit) <= asked.context for hit in found)]
    if asked.mode is not None:
        head = asked.head if asked.mode != "tail" else 0
        tail = asked.tail if asked.mode != "head" else 0
        numbers = sorted({*numbers[:head], *numbers[max(0, len(numbers) - tail) :]})
    pieces: list[str] = []
    expected = 0
    for number in [*numbers, len(lines)]:
        if number > expected:
            pieces.append(f"... {number - expected} lines elided ...")
        if number < len(lines):
            pieces.append(lines[number])
        expected = number + 1
    text = "\n".join(pieces)
    most = cap if asked.max_chars is None else asked.max_chars
    half = most // 2
    dropped = len(numbers) < len(lines) or len(text) > most
    if len(text) > most:
        marker = f"\n... {len(text) - 2 * half} chars elided ...\n"
        text = text[:half] + marker + text[-half:] if half else ""
    return text, len(lines), len(numbers), dropped


def joined(lines: list[str], last_ends: bool) -> str:
    return "".join(f"{line}\n" for line in lines) if last_ends else "\n".join(lines)


outputs = st.builds(
    joined, st.lists(st.sampled_from(["", "a", "b", "ab", "ä€", "xxab😀", "12", "bbbb"]), max_size=30), st.booleans()
)
asks = st.builds(
    Asked,
    pattern=st.sampled_from([None, "a", "^b", "b$", "^$", "x*", "[^a]", "(?i)AB", "1|2", "\\bab\\b", "."]),
    context=st.integers(0, 3),
    mode=st.sampled_from([None, "head", "tail", "head_tail"]),
    head=st.integers(0, 12),
    tail=st.integers(0, 12),
    max_chars=st.none() | st.integers(0, 60),
)


@settings(max_examples=400)
@given(output=outputs, asked=asks, block=st.sampled_from([3, 8, 20, 512 * 1024]))
def test_shaping_agrees_with_the_plain_reference(output: str, asked: Asked, block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shiftlog.guard.budgets.shape.BLOCK_BYTES", block)
        shaped = shape_text(output, asked.as_budget(), 50)
    got = (shaped.text, shaped.report.lines_total, shaped.report.lines_kept, shaped.truncated)
    assert got == reference(output, asked, 50)


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


def test_many_hits_with_a_wide_context_cost_hardly_more_than_without() -> None:
    text = seq(50_000)
    spent: list[float] = []
    for context in (0, 1000):
        begun = time.process_time()
        shaped = shape_text(text, budget_of({"grep": {"pattern": "9", "context": context}, "max_chars": 10}), CAP)
        spent.append(time.process_time() - begun)
    assert shaped.report.lines_kept == 50_000
    assert spent[1] < 10 * spent[0], "stepping over the context of each hit took thirty times as long"


def test_the_echo_of_a_long_command_is_cut_in_the_middle() -> None:
    """Case 20: the text that results show of a command."""
    command = ": '" + "x" * 1_048_576 + "'; echo ok"
    shown = elide_middle(command, 2000)
    assert shown == command[:1000] + f"\n... {len(command) - 2000} chars elided ...\n" + command[-1000:]
    assert elide_middle("echo ok", 2000) == "echo ok"
