"""The view of a command's bytes: what the contract's section on output says, at any cut of the input."""

import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shiftlog.shell.outputs.text import LINE_BYTES, TextDecoder


def view(*chunks: bytes) -> tuple[bytes, bool]:
    seen = TextDecoder()
    text = b"".join([seen.feed(chunk) for chunk in chunks])
    return text + seen.finish(), seen.binary


@pytest.mark.parametrize(
    ("raw", "text", "binary"),
    [
        (b"plain\ttext\n", "plain\ttext\n", False),
        (b"a\r\nb", "a\nb", False),
        (b"a\r\r\n", "a\n", False),
        (b"10%\r50%\r100%\n", "100%\n", False),
        (b"10%\r50%\r", "50%", False),
        (b"abc\r\r\rx", "x", False),
        (b"\r\n\r\n", "\n\n", False),
        ("käse €😀\n".encode(), "käse €😀\n", False),
        (b"\xff\xfeA", "\\xff\\xfeA", True),
        (b"a\0b", "a\\x00b", True),
        (b"bell\x07 del\x7f back\x08", "bell\\x07 del\\x7f back\\x08", False),
        ("next\u0085line \u009b31m".encode(), "next\\x85line \\x9b31m", False),
        (b"\xe2\x82", "\\xe2\\x82", True),
        (b"\xed\xa0\x80", "\\xed\\xa0\\x80", True),
        (b"\x1b[31mred\x1b[0m \x1b[38;5;1mx\x1b[K", "red x", False),
        (b"\x1b]0;title\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\b", "alinkb", False),
        (b"\x1b(Ba\x1b7b\x1b=c\x1bMd\x1bcE", "abcdE", False),
        (b"\x1bPq#0;2\x1b\\a\x1b_x\x1b\\b\x1b^y\x1b\\c", "abc", False),
        (b"\x1b]0;open\nnext", "\nnext", False),
        (b"\x1b]0;open \x1b[1mnext", "next", False),
        (b"x\x1b", "x\\x1b", False),
        (b"x\x1b[12", "x\\x1b[12", False),
        (b"x\x1b]12", "x", False),
        (b"\x1b\x1b[1mx", "\\x1bx", False),
        (b"\x1b\nx", "\\x1b\nx", False),
        (b"to\x1b[0mken", "token", False),
    ],
)
def test_what_is_seen_of_raw_bytes(raw: bytes, text: str, binary: bool) -> None:
    assert view(raw) == (text.encode(), binary)


ATOMS = [
    b"a", b"bc", b"\n", b"\n", b"\r", b"\r\n", b"\0", b"\xff", b"\xe2\x82\xac", b"\xe2\x82", b"\x82", b"\xc3",
    b"\x1b", b"\x1b[", b"1;2", b"m", b"\x1b]", b"\x07", b"\x1b\\", b"\\", b"\x18", b"\x1bP", b" ", b"(", b"\xc2\x9c",
    b"\x1b[31m", b"[", b"]",
]  # fmt: skip


@pytest.mark.long
@settings(max_examples=1500)
@given(raw=st.lists(st.sampled_from(ATOMS), max_size=16).map(b"".join), cuts=st.lists(st.integers(0, 40), max_size=6))
def test_the_cut_of_the_input_never_changes_what_is_seen(raw: bytes, cuts: list[int]) -> None:
    places = [0, *sorted(min(cut, len(raw)) for cut in cuts), len(raw)]
    chunks = [raw[start:end] for start, end in pairwise(places)]
    assert view(*chunks) == view(raw)
    assert view(*(raw[index : index + 1] for index in range(len(raw)))) == view(raw)


@settings(max_examples=300)
@given(raw=st.lists(st.sampled_from(ATOMS), max_size=20).map(b"".join))
def test_what_is_seen_is_clean_text(raw: bytes) -> None:
    text = view(raw)[0].decode()
    assert re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", text) is None


@pytest.mark.parametrize("size", [LINE_BYTES - 1, LINE_BYTES, LINE_BYTES + 1, 3 * LINE_BYTES])
@pytest.mark.parametrize("end", [b"\n", b"\rx\n", b"\r\r\n", b"\rx", b"\r", b"\rx\ry\n", b""])
def test_long_lines_are_the_same_at_any_cut(size: int, end: bytes) -> None:
    raw = b"a" * size + end
    whole = view(raw)
    for step in (1000, LINE_BYTES, LINE_BYTES + 1):
        assert view(*(raw[index : index + step] for index in range(0, len(raw), step))) == whole
    assert view(raw[:-1], raw[-1:]) == whole
    kept = size > LINE_BYTES or b"x" not in end
    assert whole[0].startswith(b"aaa") == kept


def test_whole_lines_come_out_at_once_and_the_rest_is_held() -> None:
    seen = TextDecoder()
    assert seen.feed(b"one\ntw") == b"one\n"
    assert seen.held() == b"tw"
    assert seen.holds_line
    assert seen.feed(b"o\n") == b"two\n"
    assert not seen.holds_line


def test_a_released_part_of_a_line_is_not_taken_back() -> None:
    seen = TextDecoder()
    assert seen.feed(b"10%") == b""
    assert seen.release() == b"10%"
    assert seen.feed(b"\r50%") == b"\n"
    assert seen.feed(b"\r100%\nnext\n") == b"100%\nnext\n"


def test_a_released_prompt_goes_on_in_the_same_line() -> None:
    seen = TextDecoder()
    seen.feed(b"Name: ")
    assert seen.release() == b"Name: "
    assert seen.feed(b"bob\r\n") == b"bob\n"


def test_an_unfinished_line_is_held_in_bounded_memory() -> None:
    seen = TextDecoder()
    for _ in range(100):
        seen.feed(b"x" * 10_000)
        assert len(seen.held()) <= LINE_BYTES
