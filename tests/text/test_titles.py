"""Titles as people read them: without signs of Markdown, and a bare shell by what ran in it."""

import pytest

from shiftlog.text.titles import shown_title


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("## Mend **dates**", "Mend dates"),
        ("**Fix** the `parser` of *dates*", "Fix the parser of dates"),
        ("See [the importer](http://x.example/y) first", "See the importer first"),
        ("![logo](logo.png) is gone", "logo is gone"),
        ("> quoted ~~twice~~ once", "quoted twice once"),
    ],
)
def test_a_title_is_shown_without_the_signs_of_markdown(given: str, shown: str) -> None:
    assert shown_title(given) == shown


@pytest.mark.parametrize(
    "title",
    ["a * b * c", "2**3 and 4**5", "*.py and *.js", "__init__.py and __main__.py", "#12 is open", "**unfinished", ""],
)
def test_what_is_no_markdown_stays_as_it_is(title: str) -> None:
    assert shown_title(title) == title


def test_a_session_opened_for_its_shell_alone_is_named_by_what_it_ran() -> None:
    assert shown_title("shell", "make test") == "make test"
    assert shown_title("shell") == "shell"
    assert shown_title("shell script", "make test") == "shell script"


def test_a_long_row_of_signs_is_read_in_a_moment() -> None:
    title = "*a" * 2_000 + "[" * 2_000 + "`x" * 2_000
    assert shown_title(title).endswith("x")
