"""Snippets: which stretch is shown, how it is marked, and that it is always one short line."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftlog.journal.history.snippets import MIN_CHARS, snippet
from shiftlog.model.search import matches, parse, positive_terms, tokens


def test_a_short_text_is_shown_whole_with_its_matches_marked() -> None:
    assert snippet("Lock the cache, then evict", parse("cache evict")) == "Lock the «cache», then «evict»"


def test_the_match_is_shown_with_whole_words_around_it() -> None:
    text = "one two three four five six seven needle eight nine ten eleven twelve thirteen"
    assert snippet(text, parse("needle"), max_chars=40) == "…six seven «needle» eight nine ten…"


def test_the_stretch_with_the_most_distinct_terms_wins() -> None:
    text = "cache " * 20 + "filler " * 50 + "the cache evicts here " + "filler " * 50
    assert "the «cache» «evicts» here" in snippet(text, parse("cache evict*"))


def test_of_equal_stretches_the_earliest_is_shown() -> None:
    text = "first needle " + "filler " * 100 + "second needle"
    assert snippet(text, parse("needle")).startswith("first «needle» filler")


def test_matches_too_far_apart_are_not_shown_together() -> None:
    text = "cache " + "x " * 70 + "evict " + "x " * 70
    shown = snippet(text, parse("cache evict"), max_chars=150)
    assert shown.startswith("«cache» x x")
    assert shown.count("«") == 1
    assert snippet(text, parse("cache evict"), max_chars=250).count("«") == 2


def test_a_phrase_is_marked_as_one_and_its_words_alone_are_not() -> None:
    text = "in the log; log the change; log in"
    assert snippet(text, parse('"log in"')) == "in the log; log the change; «log in»"


def test_overlapping_matches_are_marked_once() -> None:
    assert snippet("a b c d", parse('"a b c" "b c d"')) == "«a b c d»"


def test_negated_terms_are_not_marked() -> None:
    assert snippet("cache and lock", parse("cache !evict !(x lock)")) == "«cache» and lock"


def test_folded_matches_are_marked_in_the_spelling_of_the_text() -> None:
    assert snippet("Le CAFÉ cafe\u0301 est fermé", parse("cafe")) == "Le «CAFÉ» «cafe\u0301» est fermé"


def test_line_breaks_and_controls_become_single_spaces() -> None:
    shown = snippet("a\n\n  b\tneedle\x1b[31m\u202ered\u2028end", parse("needle"))
    assert shown == "a b «needle» [31m red end"


def test_marks_of_the_text_cannot_pass_for_matches() -> None:
    assert snippet("«needle» «other»", parse("needle")) == "‹«needle»› ‹other›"


def test_without_a_match_the_beginning_is_shown() -> None:
    assert snippet("short text", parse("!absent")) == "short text"
    assert snippet("word " * 100, parse("!absent"), max_chars=20) == "word word word word…"
    assert snippet("", parse("absent")) == ""


def test_a_match_longer_than_the_snippet_is_cut_inside_its_marks() -> None:
    assert snippet("x" * 500, parse("x*"), max_chars=20) == "«" + "x" * 15 + "…»"


def test_a_room_too_small_to_show_anything_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 20"):
        snippet("text", parse("text"), max_chars=MIN_CHARS - 1)


WORDS = st.sampled_from(["a", "b", "ab", "é", "Ünï", "x-y", "«", "\n", "long" * 20, "日本", "a" * 300])
TEXTS = st.lists(st.tuples(WORDS, st.sampled_from([" ", "  ", "-", "", "\n"])), max_size=60).map(
    lambda pairs: "".join(word + gap for word, gap in pairs)
)
QUERIES = st.lists(
    st.sampled_from(["a", "b", "a*", '"a b"', "x-y", "e", "long*", '"b a"*', "!b", "|| b", "日本*"]),
    min_size=1,
    max_size=4,
).map(lambda terms: " ".join(terms).removeprefix("|| "))


@given(TEXTS, QUERIES, st.integers(min_value=MIN_CHARS, max_value=200))
def test_a_snippet_is_one_bounded_line_that_shows_a_match_where_there_is_one(
    text: str, query: str, max_chars: int
) -> None:
    expr = parse(query)
    shown = snippet(text, expr, max_chars=max_chars)
    assert len(shown) <= max_chars
    assert len(shown.splitlines()) <= 1
    marked = re.findall("«([^«»]*)»", shown)
    assert shown.count("«") == shown.count("»") == len(marked)
    terms = positive_terms(expr)
    assert bool(marked) == any(matches(term, text) for term in terms)
    for stretch in marked:
        assert stretch.endswith("…") or any(matches(term, stretch) for term in terms)


@given(TEXTS, QUERIES)
def test_a_snippet_with_room_for_all_marks_every_match(text: str, query: str) -> None:
    expr = parse(query)
    shown = snippet(text, expr, max_chars=100_000)
    assert [word for word, _, _ in tokens(shown)] == [word for word, _, _ in tokens(text)]
    unmarked = " cut ".join(re.split("«[^«»]*»", shown))
    assert not any(matches(term, unmarked) for term in positive_terms(expr))


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("needle " * 150_000, "needle other"),
        ("a " * 500_000, '"' + "a " * 500 + '"'),
        ("ab " * 330_000, "a* ab* b*"),
        ("x" * 1_000_000, "x*"),
        ("é " * 500_000, "e"),
        ("word " * 200_000, " ".join(f"word{n}" for n in range(900)) + " || word"),
    ],
)
def test_a_megabyte_is_searched_in_one_pass(text: str, query: str) -> None:
    shown = snippet(text, parse(query))
    assert "«" in shown
    assert len(shown) <= 160
