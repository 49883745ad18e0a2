"""Text from outside made safe to print, for each kind of reader."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftlog.text.printable import blanked, cut_line, excerpt, one_line, page_text, terminal_line, terminal_text

ANY_TEXT = st.text(st.characters(exclude_categories=()))


def is_obeyed(character: str) -> bool:
    kind = unicodedata.category(character)
    turns = unicodedata.bidirectional(character) in {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    return (kind in {"Cc", "Cs", "Zl", "Zp"} and character != "\n") or turns


@given(ANY_TEXT)
def test_nothing_that_a_terminal_obeys_is_left(text: str) -> None:
    assert not [character for character in terminal_text(text) if is_obeyed(character)]
    assert "\n" not in terminal_line(text)


@given(st.text(st.characters(categories=("L", "N", "P", "S"))))
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert terminal_text(text) == text


def test_what_was_there_can_still_be_seen() -> None:
    assert terminal_text("\x1b[2J") == "␛[2J"
    assert terminal_text("a\u202eb") == "a<U+202E>b"
    assert terminal_text("a\x7fb\x9bc") == "a␡b<U+009B>c"
    assert terminal_text("one\r\ntwo\rthree\tfour") == "one\ntwo␍three       four"
    assert terminal_text("👩\u200d💻 می\u200cخواهم") == "👩\u200d💻 می\u200cخواهم"


@pytest.mark.parametrize("text", ["می\u200cخواهم", "क\u094d\u200dष", "👩\u200d👧 👍🏽", "10\u202f000\u00a0€ déjà"])
def test_what_other_scripts_are_written_with_is_left_to_them(text: str) -> None:
    assert page_text(text) == text


@pytest.mark.parametrize("text", ["pass\u200dword", "\u200cid", "a\u200d", "é\u200da", "a\u200dé"])
def test_a_joiner_in_plain_words_is_made_visible(text: str) -> None:
    assert "\u200c" not in page_text(text)
    assert "\u200d" not in page_text(text)


def test_visible_names_what_it_replaces() -> None:
    assert page_text("a\u202eb\x1b") == "a⟨U+202E⟩b␛"
    assert page_text("tab\tand\nline, ä 漢 🎉") == "tab\tand\nline, ä 漢 🎉"


def test_a_line_of_a_list_has_no_hidden_characters_and_ends_with_an_ellipsis() -> None:
    assert one_line("a\u200bb\n\tc\u202e\x00d", 20) == "ab c d"
    assert one_line("one two three", 8) == "one two…"


def test_a_blanked_text_has_a_space_for_each_hidden_character() -> None:
    assert blanked("a\u200bb\U000e0041c 👩\u200d💻\n") == "a b c 👩\u200d💻"


@given(ANY_TEXT)
def test_an_excerpt_can_be_encoded_and_is_short(text: str) -> None:
    assert len(excerpt(text).encode()) <= 800
    assert excerpt("\ud800" + "x" * 300) == "?" + "x" * 199


@pytest.mark.parametrize(
    ("line", "most", "shown"),
    [
        ("Fix the login", 13, "Fix the login"),
        ("Fix the login page", 12, "Fix the…"),
        ("Fix the login page", 14, "Fix the login…"),
        ("Internationalisation", 8, "Interna…"),
        ("A internationalisation", 12, "A internati…"),
    ],
)
def test_a_line_is_cut_between_words_unless_that_would_lose_most_of_it(line: str, most: int, shown: str) -> None:
    assert cut_line(line, most) == shown
    assert one_line(line, most) == shown


@given(st.text(), st.integers(2, 40))
def test_a_cut_line_fits(text: str, most: int) -> None:
    assert len(cut_line(text, most)) <= most
