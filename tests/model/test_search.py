"""The search expression: its grammar, its errors, and a tokeniser that agrees with SQLite's."""

import unicodedata
from typing import cast

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftlog.model.errors import InvalidParameter
from shiftlog.model.search import (
    MAX_DEPTH,
    MAX_WORDS,
    And,
    Expr,
    Not,
    Or,
    Phrase,
    Word,
    apart,
    line_of,
    matches,
    needle,
    parse,
    positive_terms,
    tokens,
)

A, B, C = Word("a"), Word("b"), Word("c")


@pytest.mark.parametrize(
    ("text", "expr"),
    [
        ("auth", Word("auth")),
        ("Ünïcode", Word("unicode")),
        ("auth*", Word("auth", prefix=True)),
        ('"log in"', Phrase(("log", "in"))),
        ('"log in"*', Phrase(("log", "in"), prefix=True)),
        ('"auth*"', Word("auth")),
        ("a b", And((A, B))),
        ("a&&b", And((A, B))),
        ("a && b c", And((A, B, C))),
        ("a||b", Or((A, B))),
        ("a b || c", Or((And((A, B)), C))),
        ("a || b c", Or((A, And((B, C))))),
        ("(a || b) c", And((Or((A, B)), C))),
        ("a !b", And((A, Not(B)))),
        ("!a b", And((Not(A), B))),
        ("!a || b", Or((Not(A), B))),
        ("!(a b)", Not(And((A, B)))),
        ("! ! a", A),
        ("!(!a)", A),
        ("(a b) c", And((A, B, C))),
        ("a || (b || c)", Or((A, B, C))),
        ('a"b c"', And((A, Phrase(("b", "c"))))),
        ("foo-bar", Phrase(("foo", "bar"))),
        ("snake_case", Phrase(("snake", "case"))),
        ("a.b", Phrase(("a", "b"))),
        ("don't", Phrase(("don", "t"))),
        ("foo-ba*", Phrase(("foo", "ba"), prefix=True)),
        ("src/*.py", Phrase(("src", "py"))),
        ("foo-*", Word("foo")),
        ("wow!", Word("wow")),
        ("a = b", And((A, B))),
        ("a - b", And((A, B))),
        ("a&b", Phrase(("a", "b"))),
        ("and or", And((Word("and"), Word("or")))),
        ("検", Word("検")),
        ("検索*", Phrase(("検", "索"), prefix=True, former=("検索",))),
        ("foo-X検", Phrase(("foo", "x", "検"), former=("foo", "x検"))),
    ],
)
def test_an_expression_is_read_as_the_contract_says(text: str, expr: Expr) -> None:
    assert parse(text) == expr


@pytest.mark.parametrize(
    ("text", "constraint"),
    [
        ("", "required"),
        (" \n ", "required"),
        ('say "hello', "the quote at character 5 is not closed"),
        ("(a", "'(' at character 1 is not closed"),
        ("a b)", "')' at character 4 closes nothing"),
        ("a ||", "a word is expected at the end (character 5)"),
        ("|| a", "a word is expected before '||' (character 1)"),
        ("a && && b", "a word is expected before '&&' (character 6)"),
        ("a ()", "a word is expected before ')' (character 4)"),
        ("a !", "a word is expected after '!' (character 3)"),
        ("a != b", "= holds no letter or digit (character 4)"),
        ("---", "--- holds no letter or digit (character 1)"),
        ("a - && ", "a word is expected at the end (character 8)"),
        ("a && 😀", "😀 holds no letter or digit (character 6)"),
        ('""', '"" holds no letter or digit (character 1)'),
    ],
)
def test_a_wrong_expression_is_refused_naming_the_problem_and_its_place(text: str, constraint: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        parse(text)
    assert caught.value.details["parameter"] == "text"
    assert caught.value.details["constraint"] == constraint


def test_nesting_is_allowed_to_a_depth_and_refused_beyond_it() -> None:
    assert parse("(" * MAX_DEPTH + "a" + ")" * MAX_DEPTH) == A
    for deep in (MAX_DEPTH + 1, 100_000):
        with pytest.raises(InvalidParameter, match="more than 50 parentheses"):
            parse("(" * deep + "a" + ")" * deep)


def test_any_number_of_negations_is_read_without_recursion() -> None:
    assert parse("!" * 100_000 + "a") == A
    assert parse("!" * 100_001 + "a") == Not(A)


def test_groups_side_by_side_do_not_count_as_nesting() -> None:
    groups = parse(" || ".join(["(a b)"] * (MAX_DEPTH * 2)))
    assert groups == Or((And((A, B)),) * (MAX_DEPTH * 2))


def test_too_many_words_are_refused() -> None:
    assert parse("a " * MAX_WORDS) == And((A,) * MAX_WORDS)
    with pytest.raises(InvalidParameter, match="at most 1000 words; character 2001"):
        parse("a " * (MAX_WORDS + 1))


@given(st.text(alphabet=' ab-*"!&|()é', max_size=40))
def test_whatever_is_typed_is_an_expression_or_a_refusal(text: str) -> None:
    try:
        expr = parse(text)
    except InvalidParameter:
        return
    assert matches(expr, text) != matches(Not(expr), text)


def spelled(expr: Expr) -> str:
    match expr:
        case Word(text=text):
            return text
        case Not(part=part):
            return f"!({spelled(part)})"
        case And(parts=parts):
            return " ".join(f"({spelled(part)})" if isinstance(part, Or) else spelled(part) for part in parts)
        case Or(parts=parts):
            return " || ".join(map(spelled, parts))
        case Phrase(words=words):
            return f'"{" ".join(words)}"'


def true_of(expr: Expr, words: set[str]) -> bool:
    match expr:
        case Word(text=text):
            return text in words
        case Not(part=part):
            return not true_of(part, words)
        case And(parts=parts):
            return all(true_of(part, words) for part in parts)
        case Or(parts=parts):
            return any(true_of(part, words) for part in parts)
        case Phrase():
            raise AssertionError("not drawn")


def _grown(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    parts = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return inner.map(Not) | parts.map(And) | parts.map(Or)


EXPRESSIONS: st.SearchStrategy[Expr] = st.recursive(st.sampled_from([A, B, C]), _grown, max_leaves=12)


@given(EXPRESSIONS, st.sets(st.sampled_from("abc")))
def test_precedence_and_parentheses_mean_what_they_say(expr: Expr, words: set[str]) -> None:
    assert matches(parse(spelled(expr)), " ".join(words)) == true_of(expr, words)


@pytest.mark.parametrize(
    ("query", "text", "found"),
    [
        ("cache", "The Cache is cold", True),
        ("cache", "The caches are cold", False),
        ("cache*", "The caches are cold", True),
        ("resume", "Résumé", True),
        ('"is cold"', "cache is\n  COLD", True),
        ('"is cold"', "is it cold", False),
        ('"is co"*', "is cold", True),
        ("foo-bar", "foo_bar", True),
        ("foo-bar", "bar foo", False),
        ("a !b", "a c", True),
        ("a !b", "a b", False),
        ("!b", "", True),
        ("a || b", "x b", True),
        ("(a || b) c", "a b", False),
        ("b", "ab bc", False),
        ("検索", "全文検索機能", True),
        ("索検", "全文検索機能", False),
        ("検索*", "全文検索機能", True),
        ("移", "数据库迁移", True),
        ("第3章", "彼は第3章を読む", True),
        ("3", "第3章", True),
        ("mcp検索", "新しいMCP検索です", True),
        ("한국", "한국어", False),
    ],
)
def test_a_text_matches_by_whole_folded_words(query: str, text: str, found: bool) -> None:
    assert matches(parse(query), text) is found


def test_positive_terms_are_those_outside_a_negation_each_once() -> None:
    expr = parse('a !b "c d" || !(e !f*) a')
    assert positive_terms(expr) == (A, Phrase(("c", "d")), Word("f", prefix=True))


def test_a_needle_is_in_the_line_exactly_where_its_term_matches() -> None:
    line = line_of(["log", "inside"])
    assert needle(Word("log")) in line
    assert needle(Phrase(("log", "in"), prefix=True)) in line
    assert needle(Phrase(("log", "in"))) not in line
    assert needle(Word("side")) not in line


# The tokeniser against SQLite itself


class Index:
    """A real full-text index whose words can be read back."""

    def __init__(self) -> None:
        self._db = apsw.Connection(":memory:")
        self._db.execute("CREATE VIRTUAL TABLE f USING fts5 (t, tokenize = 'unicode61 remove_diacritics 2')")
        self._db.execute("CREATE VIRTUAL TABLE v USING fts5vocab (f, 'instance')")

    def words(self, text: str) -> list[str]:
        self._db.execute("DELETE FROM f")
        self._db.execute("INSERT INTO f (rowid, t) VALUES (1, ?)", (text,))
        return [str(row[0]) for row in self._db.execute("SELECT term FROM v ORDER BY offset")]

    def finds(self, query: str) -> bool:
        return bool(self._db.execute("SELECT 1 FROM f WHERE f MATCH ?", (query,)).fetchall())

    def places(self, text: str) -> list[tuple[str, int, int]]:
        tokenizer = self._db.fts5_tokenizer("unicode61", ["remove_diacritics", "2"])
        data = text.encode()
        found = cast("list[tuple[int, int, str]]", tokenizer(data, apsw.FTS5_TOKENIZE_DOCUMENT, None))
        return [(word, len(data[:start].decode()), len(data[:end].decode())) for start, end, word in found]


@pytest.fixture(scope="module")
def index() -> Index:
    return Index()


def words_of(text: str) -> list[str]:
    return [word for word, _, _ in tokens(text)]


SAMPLES = [
    "The quick-brown fox_jumps over 13 lazy dogs.",
    "straße STRASSE Ünïcödé Ångström naïve façade İstanbul",
    "decomposed: cafe\u0301 n\u0303andu\u0301 a\u0305b x\u0302",
    "Άλφα βήτα ΣΊΣΥΦΟΣ µ ſ ẛ Ǡ ǡ",
    "Ёлка йогурт ПРИВЕТ",
    "日本語のテキスト 中文 한국어",
    "हिन्दी में पाठ",
    "x²+½ ① Ⅷ ٣",
    "git\ue0a0branch 😀smile✅done",
    "a\x00b\tc\u2028d\u00a0e\u200bf",
    "def f(x): return x['key'] != \"é\"",
    "Ꭰ ꭰ Ა 𞤀 Ꞗ ꟹ 𐐀",
]


@pytest.mark.parametrize("text", SAMPLES)
def test_texts_are_split_and_folded_as_sqlite_does(text: str, index: Index) -> None:
    assert words_of(text) == index.words(apart(text))
    assert [place for place in tokens(text) if place[0] not in "日本語のテキスト中文"] == [
        place for place in index.places(text) if place[0] not in ("日本語のテキスト", "中文")
    ]


# Unicode 3.2 is the oldest table at hand; what it knew, FTS5 knows too. Two became marks since.
OLD = [
    chr(code)
    for code in range(0x110000)
    if unicodedata.ucd_3_2_0.category(chr(code)) not in ("Cn", "Cs") and code not in (0x1885, 0x1886)
]


def test_every_character_of_unicode_3_2_is_treated_as_sqlite_does(index: Index) -> None:
    text = "\n".join(f"a{character}b {character}" for character in OLD)
    assert words_of(text) == index.words(apart(text))


@given(st.lists(st.sampled_from([*" -_aAéÉeσς\u0301\u0308\u0305", *OLD[:2000]]), max_size=60).map("".join))
def test_random_texts_are_split_and_folded_as_sqlite_does(text: str) -> None:
    fresh = Index()
    assert tokens(text) == fresh.places(text)
    assert words_of(text) == fresh.words(text)


def test_a_folded_word_folds_to_itself() -> None:
    for character in OLD:
        for word in words_of(f"a{character}"):
            assert words_of(word) == [word]


def test_younger_characters_are_where_the_two_differ(index: Index) -> None:
    assert words_of("fix🤖ed") == ["fix", "ed"]
    assert index.words("fix🤖ed") == ["fix🤖ed"]


WORDS = st.sampled_from(["ab", "abc", "b", "é", "c-d"])
TEXTS = st.lists(WORDS, max_size=6).map(" ".join)


@given(
    TEXTS,
    st.lists(
        st.tuples(WORDS, st.booleans()).map(lambda pair: pair[0] + "*" * pair[1]) | TEXTS.map('"{}"'.format),
        min_size=1,
        max_size=3,
    ),
)
def test_a_term_matches_where_sqlite_finds_it(text: str, queries: list[str]) -> None:
    index = Index()
    index.words(text)
    for query in queries:
        if not query.strip('"'):
            continue
        term = parse(query)
        assert isinstance(term, Word | Phrase)
        words = term.text if isinstance(term, Word) else " ".join(term.words)
        assert matches(term, text) == index.finds(f'"{words}"' + "*" * term.prefix)


def test_a_megabyte_is_matched_against_a_hostile_phrase_in_one_pass() -> None:
    text = "a " * 500_000
    assert not matches(parse('"' + "a " * 900 + 'b"'), text)
    assert matches(parse('"' + "a " * 900 + '"'), text)
