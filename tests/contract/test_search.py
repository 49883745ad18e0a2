"""Full text: which entries a search finds, what it counts, and what it never shows."""

import pytest

from shiftlog.model.search import parse
from shiftlog.store.protocol import Filter, SearchResult, Store, Unit
from tests.contract import builders as b

TEXTS = (
    "The parser fails on empty input",
    "Fixed the parser; input may be empty",
    "Docs for the lexer",
    "Überprüfung der Eingabe: naïve café",
    "foo-bar and src/app.py",
    "数据库 🚀 launch",
    "",
)


async def search(
    store: Store,
    text: str,
    where: Filter | None = None,
    *,
    unit: Unit = "entry",
    limit: int = 100,
    most: int = 1000,
    facets: list[str] | None = None,
) -> SearchResult:
    expr = parse(text)
    return await store.read(
        lambda reader: reader.search(expr, where or Filter(), unit=unit, limit=limit, most=most, facets=facets)
    )


async def seqs(store: Store, text: str, where: Filter | None = None) -> set[int]:
    return {hit.seq for hit in (await search(store, text, where)).hits}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("parser", {1, 2}),
        ("PARSER", {1, 2}),
        ("lexer", {3}),
        ("absent", set[int]()),
        ("parser empty", {1, 2}),
        ("parser && fails", {1}),
        ("fails lexer", set[int]()),
        ("fails || lexer", {1, 3}),
        ("parser !fails", {2}),
        ("parser && !(fails || fixed)", set[int]()),
        ("(fails || lexer) !input", {3}),
        ("lexer || !the", {3, 4, 5, 6}),
        ("!parser", {3, 4, 5, 6}),
        ("!parser !docs", {4, 5, 6}),
        ("!(parser || docs)", {4, 5, 6}),
        ("!parser || fails", {1, 3, 4, 5, 6}),
        ('"empty input"', {1}),
        ('"input may be"', {2}),
        ('"parser input"', {2}),
        ('"input parser"', set[int]()),
        ("pars*", {1, 2}),
        ("par", set[int]()),
        ('"the par"*', {1, 2}),
        ('"the le"*', {3}),
        ("foo-bar", {5}),
        ("src/app.py", {5}),
        ("app.py/src", set[int]()),
        ("uberprufung", {4}),
        ("naive CAFÉ", {4}),
        ("数据库", {6}),
        ("据库", {6}),
        ("库数", set[int]()),
        ("launch", {6}),
        ("and", {5}),
        ("NEAR", set[int]()),
    ],
)
async def test_a_search_finds_the_entries_whose_text_matches(store: Store, text: str, found: set[int]) -> None:
    await b.stored(store, *TEXTS)
    assert await seqs(store, text) == found


async def test_an_entry_without_text_is_never_found(store: Store) -> None:
    await b.stored(store, "", "word")
    assert await seqs(store, "!nothing") == {2}


async def test_text_is_found_in_the_transaction_that_appends_it(store: Store) -> None:
    def work(writer: b.Writer) -> list[int]:
        b.put(writer, "needle")
        found = writer.search(parse("needle"), Filter(), unit="entry", limit=10, most=10)
        return [hit.seq for hit in found.hits]

    assert await store.write(work) == [1]
    assert await seqs(store, "needle") == {1}


async def test_a_hit_names_session_turn_and_entry_and_scores_above_zero(store: Store) -> None:
    chain = b.Chain()
    items = [chain.indexed("hay"), chain.indexed("needle in hay", turn=b.request_id(1))]

    def work(writer: b.Writer) -> None:
        writer.append(b.session_id("one"), items)
        writer.put_session(b.session())

    await store.write(work)
    (hit,) = (await search(store, "needle")).hits
    assert (hit.session_id, hit.seq, hit.turn) == (b.session_id("one"), 2, b.request_id(1))
    assert hit.score > 0


async def test_the_better_fit_comes_first(store: Store) -> None:
    filler = "one two three four five six seven eight nine ten " * 5
    await b.stored(store, f"{filler} needle", "needle needle needle", f"{filler} nothing")
    found = await search(store, "needle")
    assert [hit.seq for hit in found.hits] == [2, 1]
    assert found.hits[0].score > found.hits[1].score


async def test_limit_keeps_the_best_and_total_counts_all(store: Store) -> None:
    filler = "one two three four five six seven eight nine ten " * 5
    await b.stored(store, f"{filler} needle", "needle needle", f"{filler} needle {filler}")
    found = await search(store, "needle", limit=1)
    assert [hit.seq for hit in found.hits] == [2]
    assert (found.total, found.complete) == (3, True)


async def test_a_search_may_be_kept_to_one_session(store: Store) -> None:
    for name in ("a", "b", "c"):
        await b.stored(store, "needle here", "and needle there", of=b.session(name))
    found = await search(store, "needle", Filter(session_id=b.session_id("b")))
    assert [hit.session_id for hit in found.hits] == [b.session_id("b")] * 2
    assert (await search(store, "needle", Filter(session_id=b.session_id("x")))).hits == []


@pytest.mark.parametrize(
    ("where", "sessions"),
    [
        (Filter(model="opus"), "a"),
        (Filter(tag="bug"), "b"),
        (Filter(path="*.py"), "b"),
        (Filter(project="shiftlog"), "a"),
        (Filter(to=b.at(-1)), ""),
    ],
)
async def test_a_search_may_be_kept_to_sessions_that_meet_a_filter(store: Store, where: Filter, sessions: str) -> None:
    await b.stored(store, "needle", of=b.session("a", model="opus", workspace="/x/shiftlog"))
    turn = b.turn(tags=("bug",), files={"a.py": b.touch()})
    await b.stored(store, "needle", of=b.session("b", model="gpt"), turns=[turn])
    hits = (await search(store, "needle", where, unit="session")).hits
    assert "".join(hit.session_id[-1] for hit in hits) == sessions


async def test_the_units_are_entries_turns_or_sessions_each_once_by_its_best_entry(store: Store) -> None:
    filler = "one two three four five six seven eight nine ten " * 5
    chain = b.Chain()
    items = [
        chain.indexed(text, turn=turn)
        for text, turn in (
            (f"{filler} needle", None),
            (f"{filler} needle", b.request_id(1)),
            ("needle needle", b.request_id(1)),
            (f"{filler} needle", b.request_id(2)),
        )
    ]

    def work(writer: b.Writer) -> None:
        writer.append(b.session_id("one"), items)
        writer.put_session(b.session())

    await store.write(work)
    await b.stored(store, f"{filler} needle {filler}", of=b.session("two"))
    entries = await search(store, "needle")
    assert (entries.total, entries.hits[0].seq) == (5, 3)
    turns = await search(store, "needle", unit="turn")
    assert [(hit.seq, hit.turn) for hit in turns.hits] == [(3, b.request_id(1)), (4, b.request_id(2))]
    assert turns.total == 2
    sessions = await search(store, "needle", unit="session")
    assert [(hit.session_id, hit.seq) for hit in sessions.hits] == [(b.session_id("one"), 3), (b.session_id("two"), 1)]
    assert sessions.total == 2


async def test_only_the_newest_are_ranked_where_more_match_than_most(store: Store) -> None:
    await b.stored(store, *(f"needle {n}" for n in range(6)))
    found = await search(store, "needle", most=4)
    assert {hit.seq for hit in found.hits} == {3, 4, 5, 6}
    assert (found.total, found.complete) == (4, False)


async def test_as_many_matches_as_are_ranked_are_complete(store: Store) -> None:
    await b.stored(store, *(f"needle {n}" for n in range(6)))
    found = await search(store, "needle", most=6)
    assert (found.total, found.complete) == (6, True)


async def test_hidden_sessions_are_never_found_nor_counted(store: Store) -> None:
    await b.stored(store, "needle", of=b.session("seen"))
    await b.stored(store, *(["needle"] * 5), of=b.session("unseen", hidden=True))
    found = await search(store, "needle", most=3)
    assert [hit.session_id for hit in found.hits] == [b.session_id("seen")]
    assert (found.total, found.complete) == (1, True)
    assert (await search(store, "needle", Filter(session_id=b.session_id("unseen")))).total == 0
    assert (await search(store, "!absent")).total == 1


async def test_a_session_that_is_hidden_later_is_no_longer_found(store: Store) -> None:
    await b.stored(store, "needle")
    await store.write(lambda writer: writer.put_session(b.session(hidden=True)))
    assert (await search(store, "needle")).total == 0


async def test_facets_keep_a_search_to_decisions_or_commands(store: Store) -> None:
    chain = b.Chain()
    items = [chain.indexed("needle", facet=facet) for facet in ("decision", None, "command")]

    def work(writer: b.Writer) -> None:
        writer.append(b.session_id("one"), items)
        writer.put_session(b.session())

    await store.write(work)
    assert [hit.seq for hit in (await search(store, "needle", facets=["decision"])).hits] == [1]
    assert (await search(store, "needle", facets=["decision", "command"])).total == 2
    assert (await search(store, "needle", facets=[])).total == 0


async def test_long_text_is_found_by_its_last_word(store: Store) -> None:
    await b.stored(store, "filler " * 20_000 + "needle")
    assert await seqs(store, "needle") == {1}
