"""What is printed: JSON without terminal controls, tables that fit."""

import json
import unicodedata

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from shiftlog.cli.screen.output import Column, Part, json_text
from shiftlog.cli.screen.tables import laid_out
from shiftlog.text.printable import terminal_line

ANY_TEXT = st.text(st.characters(exclude_categories=()))
HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp.exe\u2066\ufeff\r\x00\U000e0041\ud800"


def is_obeyed(character: str) -> bool:
    kind = unicodedata.category(character)
    turns = unicodedata.bidirectional(character) in {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    return (kind in {"Cc", "Cs", "Zl", "Zp"} and character != "\n") or turns


@given(
    st.recursive(st.none() | st.booleans() | st.integers() | ANY_TEXT, st.lists) | st.dictionaries(ANY_TEXT, ANY_TEXT)
)
def test_json_is_harmless_and_means_the_same(document: object) -> None:
    text = json_text(document)
    assert not [character for character in text if is_obeyed(character)]
    assert json.loads(text) == document


def test_json_keeps_letters_readable() -> None:
    assert json_text("Größe 大", indent=None) == '"Größe 大"'
    assert json.loads(json_text(HOSTILE)) == HOSTILE


COLUMNS = (
    Column("SESSION"),
    Column("STATE"),
    Column("AGENT", spare=2),
    Column("PROJECT", spare=1),
    Column("TURNS", right=True),
    Column("TITLE", cut=True),
)
CELL = st.text(st.characters(exclude_categories=("Cs",)), max_size=60)
ROWS = st.lists(st.tuples(st.from_regex(r"[A-Za-z0-9-]{1,60}", fullmatch=True), *[CELL] * 5), max_size=5)


def plain(parts: "list[Part] | tuple[Part, ...]") -> str:
    return "".join(part if isinstance(part, str) else part[0] for part in parts)


def lines(rows: "list[tuple[str, ...]]", width: int | None) -> list[str]:
    return [plain(tuple(line)) for line in laid_out(COLUMNS, rows, width)]


@given(ROWS, st.integers(20, 200))
def test_the_first_column_is_never_cut_and_the_rest_fits_where_it_can(rows: list[tuple[str, ...]], width: int) -> None:
    shown = lines(rows, width)
    for row in rows:
        assert any(line.startswith(row[0]) for line in shown)
    second = [line for line in shown if line.startswith("  ")]
    assert max(map(cell_len, second or shown)) <= width


@given(ROWS)
def test_without_a_width_every_cell_stands_there_whole(rows: list[tuple[str, ...]]) -> None:
    shown = lines(rows, None)
    assert len(shown) == len(rows) + 1
    for row, line in zip(rows, shown[1:], strict=True):
        assert all(terminal_line(cell) in line for cell in row)
        assert line == line.rstrip()


ROW = ("Tester-20260131T090000Z-x", "closed", "alice", "webshop", "12", "Make the login page work again")


def test_a_wide_terminal_shows_all_of_a_table() -> None:
    assert lines([ROW], 120) == [
        "SESSION                    STATE   AGENT  PROJECT  TURNS  TITLE",
        "Tester-20260131T090000Z-x  closed  alice  webshop     12  Make the login page work again",
    ]


def test_a_narrower_one_cuts_the_title_and_leaves_columns_out() -> None:
    assert lines([ROW], 80)[1] == ("Tester-20260131T090000Z-x  closed  alice  webshop     12  Make the login page…")
    assert lines([ROW], 70)[1] == "Tester-20260131T090000Z-x  closed  webshop     12  Make the login…"
    assert lines([ROW], 60)[1] == "Tester-20260131T090000Z-x  closed     12  Make the login…"


def test_a_narrow_one_gives_each_row_a_second_line() -> None:
    assert lines([ROW], 46) == [
        "SESSION",
        "  STATE   PROJECT  TURNS  TITLE",
        "Tester-20260131T090000Z-x",
        "  closed  webshop     12  Make the login page…",
    ]


def test_a_very_narrow_one_leaves_more_out_and_still_cuts() -> None:
    row = (ROW[0], "awaiting_successor", *ROW[2:])
    assert lines([row], 40)[3] == "  awaiting_successor     12  Make the…"
    assert lines([row], 30)[3] == "  awaiting_successor  Make…"
    assert lines([row], 24)[3] == "  Make the login page…"
    assert lines([row], 3)[3] == "  Make…"


def test_of_several_columns_that_may_be_cut_the_widest_are_so_that_figures_stay() -> None:
    columns = (Column("DAY"), *(Column(name, cut=True) for name in ("AGENT", "PROJECT")), Column("COST", right=True))
    row = ("2026-01-31", "nightly-fixer", "/srv/checkouts/" + "deep/" * 8 + "webshop", "$12.50")
    shown = [plain(tuple(line)) for line in laid_out(columns, [row], 60)]
    assert shown[1] == "2026-01-31  nightly-fixer  /srv/checkouts/deep/deep…  $12.50"
    narrow = [plain(tuple(line)) for line in laid_out(columns, [row], 34)]
    assert narrow[2:] == ["2026-01-31", "  nightly-fi…  /srv/check…  $12.50"]


TITLE_FIRST = (
    Column("TITLE", cut=True, least=28),
    Column("STATE"),
    Column("AGENT", spare=2),
    Column("ACTIVE", right=True),
    Column("ID"),
)
LISTED = ("Make the login page work again after the upgrade", "suspended", "alice", "12 min ago", "71963fd2")


def test_a_list_that_begins_with_titles_cuts_them_between_words_and_keeps_the_id() -> None:
    for width in (60, 80, 120):
        header, row = (plain(tuple(line)) for line in laid_out(TITLE_FIRST, [LISTED], width))
        assert header.startswith("TITLE")
        assert row.endswith("12 min ago  71963fd2")
        assert cell_len(row) <= width
    assert [plain(tuple(line)) for line in laid_out(TITLE_FIRST, [LISTED], 60)][1].startswith(
        "Make the login page work…  "
    )
    narrow = [plain(tuple(line)) for line in laid_out(TITLE_FIRST, [LISTED], 30)]
    assert narrow[2] == "Make the login page work…"
