"""Tokens across files and sessions: each response once, in any order; forks and copies share what they copied."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from shiftlog.journal.usage.service import total_usage
from shiftlog.journal.usage.totals import UsageTable, tables_of_sessions, tables_of_tallies
from shiftlog.model.entry import Kind
from shiftlog.store.protocol import Filter
from tests.ingest.import_app import NOW, Claude, Codex, ImportApp, entries_of, open_import_app, usage_of

PARENT = "9a000000-0000-4000-8000-000000000001"
FORK = "9b000000-0000-4000-8000-000000000002"
T1, T2, T3 = (1000, 200, 50, 10, 1050), (2500, 900, 120, 30, 2620), (4000, 2000, 200, 40, 4200)


def claude_example(folder: Path) -> list[Path]:
    """Write the example of 4.1: a session, and the subagent's file that repeats a response of its progress."""
    main = Claude().prompt("Count")
    main.block({"type": "text", "text": "a"}, message="A", request="r1", usage=usage_of(3, 5, 900, 12000))
    main.block({"type": "text", "text": "b"}, message="A", request="r1", usage=usage_of(3, 631, 900, 12000))
    nested: dict[str, Any] = {
        "type": "assistant",
        "uuid": "b0000000-0000-4000-8000-000000000002",
        "timestamp": "2026-03-04T05:00:10.000Z",
        "requestId": "r2",
        "message": {"id": "B", "role": "assistant", "model": "claude-opus-4-6", "usage": usage_of(4, 6, 100, 8000)},
    }
    nested["message"]["content"] = [{"type": "text", "text": "child"}]
    data = {"type": "agent_progress", "agentId": "kid", "prompt": "Go", "message": nested}
    main.add("progress", data=data, parentToolUseID="toolu_1")
    main.block({"type": "text", "text": "c"}, message="C", usage=usage_of(2, 10, 0, 500))
    main.block({"type": "text", "text": "d"}, message="C", request="r3", usage=usage_of(2, 40, 0, 500))
    synthetic: dict[str, Any] = {
        "role": "assistant",
        "model": "<synthetic>",
        "id": "S",
        "usage": usage_of(0, 0, 0, 0),
        "content": [],
    }
    main.add("assistant", message=synthetic)
    child = Claude(letter="b", common={"agentId": "kid", "isSidechain": True}).prompt("Go")
    child.block({"type": "text", "text": "child"}, message="B", request="r2", usage=usage_of(4, 798, 100, 8000))
    own, subagents = folder / f"{main.session}.jsonl", folder / main.session / "subagents" / "agent-kid.jsonl"
    subagents.parent.mkdir(parents=True)
    for path, script in ((own, main), (subagents, child)):
        path.write_text("".join(json.dumps(record) + "\n" for record in script.records), encoding="utf-8")
    return [own, subagents]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_a_response_counts_once_whichever_file_comes_first(order: tuple[int, int], tmp_path: Path) -> None:
    """Case 19, one by one."""
    async with open_import_app(tmp_path) as app:
        paths = claude_example(app.folder)
        for index in order:
            await app.take(paths[index])
        assert await app.used() == (9, 1469, 1000, 20500)
        assert await app.is_sound()


async def test_a_response_counts_once_in_one_run(tmp_path: Path) -> None:
    """Case 19."""
    async with open_import_app(tmp_path) as app:
        claude_example(app.folder)
        report = await app.take()
        assert await app.used() == (9, 1469, 1000, 20500)
        assert report.shown()["totals"]["usage_responses"] == 3


async def test_reports_without_a_request_id_join_in_any_order(tmp_path: Path) -> None:
    blocks = [("m", None, 10), ("m", "r1", 40), ("m", "r2", 7)]
    found: set[tuple[int, ...]] = set()
    for number, order in enumerate(permutations(blocks)):
        async with open_import_app(tmp_path, name=f"home{number}") as app:
            script = Claude().prompt("Go")
            for message, request, output in order:
                text = {"type": "text", "text": f"{request}"}
                script.block(text, message=message, request=request, usage=usage_of(1, output, 0, 0))
            await app.take(app.write(f"{number}.jsonl", script.records))
            found.add(await app.used())
    assert len(found) == 1


@pytest.mark.parametrize("ended", [False, True], ids=["open turn", "turn over"])
async def test_a_response_that_is_told_of_again_later_counts_what_it_has_grown_by(tmp_path: Path, ended: bool) -> None:
    async with open_import_app(tmp_path) as app:
        script = Claude().prompt("Go")
        script.block({"type": "text", "text": "one"}, message="m", request="r", usage=usage_of(3, 5, 90, 1200))
        if ended:
            script.ends()
        await app.take(app.write("grows.jsonl", script.records))
        assert await app.used() == (3, 5, 90, 1200)
        script.block({"type": "text", "text": "two"}, message="m", request="r", usage=usage_of(3, 631, 90, 1200))
        await app.take(app.write("grows.jsonl", script.records))
        assert await app.used() == (3, 631, 90, 1200)
        script.block({"type": "text", "text": "three"}, message="m", request="other", usage=usage_of(1, 1, 0, 0))
        await app.take(app.write("grows.jsonl", script.records))
        assert await app.used() == (4, 632, 90, 1200)
        assert await app.is_sound()


async def test_a_response_whose_entry_was_erased_is_not_counted_once_more(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        script = Claude().prompt("Go")
        script.block({"type": "text", "text": "one"}, message="m", request="r", usage=usage_of(3, 5, 90, 1200))
        await app.take(app.write("erased.jsonl", script.records))
        (session,) = (await app.sessions()).values()
        (counted,) = [entry.seq for entry in await app.entries(session) if entry.kind is Kind.USAGE]
        await app.harness.app.maintenance.erase(session.id, [counted], "test")
        script.block({"type": "text", "text": "two"}, message="m", request="r", usage=usage_of(3, 5, 90, 1200))
        await app.take(app.write("erased.jsonl", script.records))
        assert await app.used() == (0, 0, 0, 0)
        assert await app.is_sound()


def codex_example(app: ImportApp) -> tuple[Path, Path]:
    """Write the example of 4.2: a thread and its fork."""
    first = (1500, 700, 70, 20, 1570)
    parent = Codex(thread=PARENT).turn("t1", "One", "1").tokens(T1, T1).tokens(T1, T1).tokens(T2, first)
    parent.event("token_count", info=None)
    fork = Codex(thread=FORK, started=parent.started.replace(hour=9), meta={"forked_from_id": PARENT})
    fork.lines += [{**line, "timestamp": fork.time()} for line in parent.lines]
    fork.turn("t2", "Two", "2").tokens(T3, (1500, 1100, 80, 10, 1580))
    made = app.write(f"rollout-2026-03-04T06-00-00-{PARENT}.jsonl", parent.lines)
    return made, app.write(f"rollout-2026-03-04T09-00-00-{FORK}.jsonl", fork.lines)


async def totals(app: ImportApp) -> dict[str, int]:
    """Return the tokens of each thread, as input and output together."""
    found: dict[str, int] = {}
    for session in (await app.sessions()).values():
        used = session.usage
        total = used.input_tokens + used.cached_input_tokens + used.output_tokens if used else 0
        found[str(session.vendor_session_id)] = total
    return found


async def test_a_fork_shares_the_totals_that_it_copied(tmp_path: Path) -> None:
    """Cases 20 and 35, the parent first."""
    async with open_import_app(tmp_path) as app:
        parent, fork = codex_example(app)
        await app.take(parent)
        report = await app.take(fork)
        assert await totals(app) == {PARENT: 2620, FORK: 1580}
        session = await app.session(FORK)
        copied = report.shown()["totals"]["copied_records"]
        assert copied == session.shared[0]["records"]
        assert copied > 0
        assert (await app.take(fork)).shown()["totals"]["copied_records"] == 0
        assert [turn.query_text for turn in await app.turns(session)] == ["Two"]
        assert session.forked_from == PARENT
        assert session.shared[0]["turns"] == ["req-20260304T060001Z-t1"]
        shown = await app.harness.query(session_id=session.id)
        (shared,) = shown["session"]["shared_turns"]
        assert (shared["title"], shared["shared"], shown["session"]["turns_total"]) == ("One", True, 1)


async def test_a_fork_alone_has_all_until_its_parent_comes(tmp_path: Path) -> None:
    """Case 20, the fork first and alone."""
    async with open_import_app(tmp_path) as app:
        parent, fork = codex_example(app)
        await app.take(fork)
        assert await totals(app) == {FORK: 4200}
        await app.take(parent)
        assert await totals(app) == {PARENT: 2620, FORK: 1580}
        assert await app.is_sound()


OWN_LINES = 5


@pytest.mark.parametrize("minutes_old", [10, 60])
@pytest.mark.parametrize("with_parent", [True, False])
async def test_a_fork_that_is_met_before_its_own_turn_keeps_to_its_own(
    with_parent: bool, minutes_old: int, tmp_path: Path
) -> None:
    """Case 35, as a watcher meets it: the copies are there first. After half an hour without an own turn they count."""
    async with open_import_app(tmp_path) as app:
        parent, fork = codex_example(app)
        if with_parent:
            await app.take(parent)
        whole = fork.read_text(encoding="utf-8").splitlines(keepends=True)
        fork.write_text("".join(whole[:-OWN_LINES]), encoding="utf-8")
        app.harness.set_time(datetime(2026, 3, 4, 9, minutes_old % 60, tzinfo=UTC) + timedelta(hours=minutes_old // 60))
        await app.take(fork)
        own = ["One"] if minutes_old > 30 and not with_parent else []
        assert [turn.query_text for turn in await app.turns(await app.session(FORK))] == own
        fork.write_text("".join(whole), encoding="utf-8")
        await app.take(fork)
        session = await app.session(FORK)
        assert [turn.query_text for turn in await app.turns(session)] == [*own, "Two"]
        assert await totals(app) == ({PARENT: 2620, FORK: 1580} if with_parent else {FORK: 4200})
        assert [text for text in await app.dialog(session) if text == "1"] == ["1"] * len(own)
        if not own:
            assert session.shared[0]["turns"] == ["req-20260304T060001Z-t1"]
        assert await app.is_sound()


async def test_copied_turns_without_a_start_time_are_told_by_their_ids(tmp_path: Path) -> None:
    """3.5: the first turn whose id is not known in the parent is the fork's own."""
    async with open_import_app(tmp_path) as app:
        for path in codex_example(app):
            lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
            for line in lines:
                line["payload"].pop("started_at", None)
            await app.take(app.write(path.name, lines))
        session = await app.session(FORK)
        assert [turn.query_text for turn in await app.turns(session)] == ["Two"]
        assert await app.dialog(session) == ["2"]
        assert await totals(app) == {PARENT: 2620, FORK: 1580}


async def test_cache_writes_are_read_from_their_parts_where_the_sum_is_missing(tmp_path: Path) -> None:
    """Case 21."""
    async with open_import_app(tmp_path) as app:
        used = usage_of(1, 1, 0, 0, cache_creation={"ephemeral_5m_input_tokens": 70})
        script = Claude().prompt("Go").block({"type": "text", "text": "a"}, message="M", request="r", usage=used)
        await app.take(app.write("a.jsonl", script.records))
        assert (await app.used())[2] == 70


async def test_the_cost_follows_from_the_prices_of_each_class(tmp_path: Path) -> None:
    """Case 22."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    prices = "input = 3.0\ncached_input = 0.3\ncache_creation = 3.75\ncache_creation_1h = 6.0\noutput = 15.0\n"
    (home / "config.toml").write_text(f'[runs.prices."claude-opus-4-6"]\n{prices}', encoding="utf-8")
    async with open_import_app(tmp_path) as app:
        split = {"ephemeral_5m_input_tokens": 600, "ephemeral_1h_input_tokens": 400}
        script = Claude().prompt("Go")
        used = usage_of(9, 1469, 1000, 20500, cache_creation=split)
        script.block({"type": "text", "text": "a"}, message="M", request="r", usage=used)
        await app.take(app.write("a.jsonl", script.records))
        runs = app.harness.app.runs
        shown = await app.harness.read(lambda reader: total_usage(reader, runs, Filter(), ["model"]))
        assert shown["total"]["cost_usd"] == 0.032862
        assert shown["warnings"] == []


ROWS = """
[runs.prices."claude-opus-4-6"]
input = 2.0
cached_input = 0.2
cache_creation = 2.5
cache_creation_1h = 4.0
output = 10.0
fast = 6.0
batch = 0.5
long_over = 200000
long_input = 2.0
long_output = 1.5
"""


@pytest.mark.parametrize(
    ("used", "row", "cost"),
    [
        ({}, "claude-opus-4-6", 2.0 * 0.1 + 10.0 * 0.01),
        ({"speed": "fast"}, "claude-opus-4-6-fast", 6 * (2.0 * 0.1 + 10.0 * 0.01)),
        ({"service_tier": "batch"}, "claude-opus-4-6-batch", 0.5 * (2.0 * 0.1 + 10.0 * 0.01)),
        ({"service_tier": "standard", "speed": "standard"}, "claude-opus-4-6", 0.3),
        ({"cache_read_input_tokens": 100_000}, "claude-opus-4-6", 0.3 + 0.02),
        ({"cache_read_input_tokens": 100_001}, "claude-opus-4-6", 0.4 + 0.15 + 0.0400004),
        (
            {"cache_creation_input_tokens": 1000, "cache_creation": {"ephemeral_1h_input_tokens": 1000}},
            "claude-opus-4-6",
            0.3 + 0.004,
        ),
        ({"service_tier": "priority"}, "claude-opus-4-6-priority", None),
    ],
)
async def test_what_the_vendor_bills_a_response_as_decides_its_price(
    used: dict[str, Any], row: str, cost: float | None, tmp_path: Path
) -> None:
    (tmp_path / "home").mkdir(mode=0o700)
    (tmp_path / "home" / "config.toml").write_text(ROWS, encoding="utf-8")
    async with open_import_app(tmp_path) as app:
        script = Claude().prompt("Go")
        text = {"type": "text", "text": "a"}
        # A line of the stream first, so that the response grows; then one more in the usual service.
        for output in (1, 10_000):
            report = {**usage_of(100_000, output, 0, 0), **used}
            script.block(text, message="M", request="r", usage=report)
        script.block(text, message="N", request="r2", usage=usage_of(1_000_000, 0, 0, 0))
        first, *rest = script.records
        await app.take(app.write("a.jsonl", [first, rest[0]]))
        await app.take(app.write("a.jsonl", script.records))
        runs = app.harness.app.runs
        shown = await app.harness.read(lambda reader: total_usage(reader, runs, Filter(), ["model"]))
        costs = {one["model"]: one["cost_usd"] for one in shown["rows"]}
        long = 4.0  # the last response, of a million tokens
        if row == "claude-opus-4-6":
            assert costs == {row: pytest.approx((cost or 0) + long)}
            assert [one["sessions"] for one in shown["rows"]] == [1]
        else:
            assert costs == {row: cost and pytest.approx(cost), "claude-opus-4-6": long}
        assert [one["model"] for one in shown["warnings"]] == ([] if cost else [row])
        by_session = await app.harness.read(
            lambda reader: tables_of_sessions(reader, runs, Filter(), [["model"]])[0].as_item()
        )
        assert by_session == shown


@pytest.mark.parametrize("until", ["2026-03-05", '"2026-03-05"'])
async def test_a_response_costs_what_was_in_force_when_it_came(until: str, tmp_path: Path) -> None:
    """Case 22, over time: a price that changed between two responses of one session."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text(
        '[runs.prices."claude-opus-4-6"]\ninput = 1.0\noutput = 10.0\n'
        f'[[runs.prices."claude-opus-4-6".earlier]]\nuntil = {until}\ninput = 3.0\noutput = 30.0\n'
        '[[runs.prices."claude-opus-4-6".earlier]]\nuntil = 2026-03-01\ninput = 7.0\noutput = 70.0\n',
        encoding="utf-8",
    )
    async with open_import_app(tmp_path) as app:
        script = Claude().prompt("Go")
        text = {"type": "text", "text": "a"}
        script.block(text, message="M1", request="r1", usage=usage_of(1_000_000, 0, 0, 0))
        script.block(text, message="M2", request="r2", usage=usage_of(1_000_000, 0, 0, 0))
        script.records[-1]["timestamp"] = "2026-03-05T00:00:00.000Z"
        await app.take(app.write("a.jsonl", script.records))
        runs = app.harness.app.runs
        for by, costs in ((["model"], [4.0]), (["day"], [3.0, 1.0])):
            shown = await app.harness.read(lambda reader, by=by: total_usage(reader, runs, Filter(), by))
            assert (shown["total"]["cost_usd"], [row["cost_usd"] for row in shown["rows"]]) == (4.0, costs)


async def test_a_model_without_a_price_costs_an_unknown_amount_and_is_named(tmp_path: Path) -> None:
    """Case 22, second half."""
    async with open_import_app(tmp_path) as app:
        script = Claude().prompt("Go")
        block = {"type": "text", "text": "a"}
        message = {"role": "assistant", "model": "nobody-knows-1", "id": "M", "usage": usage_of(1, 2, 3, 4)}
        script.add("assistant", message={**message, "content": [block]}, requestId="r")
        await app.take(app.write("a.jsonl", script.records))
        runs = app.harness.app.runs
        shown = await app.harness.read(lambda reader: total_usage(reader, runs, Filter(), ["day"]))
        assert shown["total"]["cost_usd"] is None
        assert [(one["code"], one["model"]) for one in shown["warnings"]] == [("unknown_model_price", "nobody-knows-1")]


async def test_a_copy_under_another_session_id_has_only_what_it_added(tmp_path: Path) -> None:
    """Case 36."""
    async with open_import_app(tmp_path) as app:
        first = Claude().prompt("One")
        first.block({"type": "text", "text": "1"}, message="A", request="r1", usage=usage_of(1, 10, 0, 0)).ends()
        app.write("first.jsonl", first.records)
        other = "5e551000-0000-4000-8000-00000000000b"
        second = Claude(session=other, records=[{**record, "sessionId": other} for record in first.records])
        second.prompt("Two").block(
            {"type": "text", "text": "2"}, message="B", request="r2", usage=usage_of(1, 20, 0, 0)
        )
        app.write("second.jsonl", second.records)
        report = await app.take()
        original, copy = await app.session(first.session), await app.session(other)
        assert [turn.query_text for turn in await app.turns(original)] == ["One"]
        assert [turn.query_text for turn in await app.turns(copy)] == ["Two"]
        assert copy.forked_from == original.id
        assert copy.shared[0]["session"] == original.id
        assert await app.used() == (2, 30, 0, 0)
        assert report.shown()["totals"]["copied_records"] == 2
        heads = await app.heads()
        assert entries_of(await app.take(full=True)) == 0
        assert await app.heads() == heads
        assert await app.is_sound()


async def test_the_settled_time_is_the_clock_of_the_import(tmp_path: Path) -> None:
    """Case 10: a quiet turn is completed by time alone, without the file changing."""
    async with open_import_app(tmp_path) as app:
        script = Claude(started=NOW).prompt("Go").says("Done")
        path = app.write("a.jsonl", script.records)
        app.harness.wait(minutes=10)
        await app.take(path)
        session = await app.session(script.session)
        assert [str(turn.status) for turn in await app.turns(session)] == ["in_progress"]
        app.harness.wait(hours=1)
        report = await app.take(path)
        assert report.shown()["bytes_read"] == 0
        assert [str(turn.status) for turn in await app.turns(session)] == ["completed"]
        assert await app.is_sound()


@pytest.mark.parametrize("add_up", [tables_of_tallies, tables_of_sessions])
@pytest.mark.parametrize("by", ["day", "model"])
@pytest.mark.parametrize(
    ("model", "wanted"), [("claude-opus-4-6", [(1, 10)]), ("claude-haiku-4-5", [(2, 20)]), ("x", [])]
)
async def test_usage_of_one_model_is_what_that_model_used_whichever_came_last(
    tmp_path: Path, add_up: Callable[..., list[UsageTable] | None], by: str, model: str, wanted: list[tuple[int, int]]
) -> None:
    made = Claude().prompt("Go")
    made.says("One", message="m1", request="r1", usage=usage_of(1, 10, 0, 0))
    made.says("Two", message="m2", request="r2", usage=usage_of(2, 20, 0, 0))
    made.records[-1]["message"]["model"] = "claude-haiku-4-5"
    async with open_import_app(tmp_path) as app:
        app.write("a.jsonl", made.records)
        await app.take()
        runs = app.harness.app.runs
        tables = await app.harness.read(lambda reader: add_up(reader, runs, Filter(model=model), [[by]]))
    assert tables is not None
    shown = tables[0].as_item()
    assert [(row["input_tokens"], row["output_tokens"]) for row in shown["rows"]] == wanted
    assert (shown["total"]["input_tokens"], shown["total"]["output_tokens"]) == (wanted or [(0, 0)])[0]
    assert all(row["cost_usd"] for row in shown["rows"])


@pytest.mark.parametrize("order", [(0, 1, 3, 2), (0, 2, 3, 1), (1, 3, 0, 2), (2, 0, 1, 3), (3, 2, 1, 0)])
@pytest.mark.parametrize("tells", [True, False])
async def test_forks_of_forks_count_each_total_once_in_any_order(
    tells: bool, order: tuple[int, ...], tmp_path: Path
) -> None:
    """4.2: the family is known from the store, or from the headers that a fork copied; either may come late."""
    threads = [f"9c000000-0000-4000-8000-00000000000{number}" for number in range(4)]
    used = [tuple(count * number for count in T1) for number in range(1, 5)]
    files = [Codex(thread=threads[0]).turn("turn-0", "Q0", "A0").tokens(used[0], T1)]
    for number in range(1, 4):
        above, started = files[-1], files[0].started + timedelta(hours=number)
        fork = Codex(thread=threads[number], started=started, meta={"forked_from_id": above.thread})
        copied = [line for line in above.lines if tells or line["type"] != "session_meta"]
        fork.lines += [{**line, "timestamp": fork.time()} for line in copied]
        files.append(fork.turn(f"turn-{number}", f"Q{number}", f"A{number}").tokens(used[number], T1))
    async with open_import_app(tmp_path) as app:
        for number in order:
            await app.take(app.write(f"rollout-{number}.jsonl", files[number].lines))
        assert await totals(app) == dict.fromkeys(threads, T1[4])
        assert await app.is_sound()


async def test_a_session_of_several_days_uses_tokens_on_each_of_them(tmp_path: Path) -> None:
    """Each response counts on its own day (UTC), in whatever steps its file grew, and at the price of its time."""
    async with open_import_app(tmp_path, now=NOW) as app:
        script = Claude(started=datetime(2026, 3, 4, 23, 59, 50, tzinfo=UTC)).prompt("Count")
        for number in range(4):
            text = {"type": "text", "text": f"{number}"}
            script.block(text, message=f"M{number}", request="r", usage=usage_of(10**number, 1, 0, 0))
            script.started += timedelta(hours=13)
            app.write("a.jsonl", script.records[: 3 if number < 2 else None])
            await app.take()
        runs = app.harness.app.runs
        found = await app.harness.read(lambda reader: total_usage(reader, runs, Filter(), ("day", "model")))
        assert [(row["day"], row["sessions"], row["input_tokens"]) for row in found["rows"]] == [
            ("2026-03-04", 1, 1),
            ("2026-03-05", 0, 10),
            ("2026-03-06", 0, 1100),
        ]
        assert found["total"]["cost_usd"] == pytest.approx(sum(row["cost_usd"] for row in found["rows"]))
        assert await app.is_sound()


async def test_a_later_day_of_a_session_that_nobody_can_price_is_said_to_cost_an_unknown_amount(
    tmp_path: Path,
) -> None:
    """4.3: a model without price costs null, never 0, on whichever days of its session somebody looks."""
    async with open_import_app(tmp_path, now=NOW) as app:
        script = Claude(started=datetime(2026, 3, 4, 23, 0, tzinfo=UTC)).prompt("Count")
        for number, model in enumerate(("claude-opus-4-6", "unpriced", "claude-opus-4-6")):
            answer = {"role": "assistant", "id": f"M{number}", "model": model, "usage": usage_of(10**number, 1, 0, 0)}
            script.add("assistant", requestId="r", message={**answer, "content": [{"type": "text", "text": "1"}]})
            script.started += timedelta(hours=2)
        app.write("a.jsonl", script.records)
        await app.take()
        runs, second = app.harness.app.runs, datetime(2026, 3, 5, tzinfo=UTC)
        where = Filter(started_from=second, to=second + timedelta(days=1))
        found = await app.harness.read(lambda reader: total_usage(reader, runs, where, ("day",)))
        (row,) = found["rows"]
        assert (row["sessions"], row["input_tokens"], row["cost_usd"], row["cost_unknown"]) == (0, 110, None, 1)
        assert found["total"]["cost_unknown"] == 1
        (warning,) = found["warnings"]
        assert (warning["model"], warning["sessions"]) == ("unpriced", 1)


async def test_responses_after_a_run_was_closed_with_its_tokens_are_counted_beside_them(tmp_path: Path) -> None:
    """The launcher's totals hold what came until the run ended; a session that was reopened went on after that."""
    claude = Claude(started=datetime(2026, 3, 4, 5, 0, tzinfo=UTC))
    async with open_import_app(tmp_path, now=claude.started) as app:
        harness = app.harness
        facts: dict[str, Any] = {"agent": "ClaudeCode", "agent_id": "own", "model": "claude-opus-4-6"}
        session_id = await harness.open(**facts, vendor_session_id=claude.session)
        claude.prompt("One").says("Done", message="m1", request="r1", usage=usage_of(10, 20, 0, 0)).ends()
        harness.wait(hours=1)
        await harness.call("close_session", {"session_id": session_id, "input_tokens": 9, "output_tokens": 19})
        harness.wait(days=1)
        await harness.call("resume_session", {"session_id": session_id, "agent_id": "own"})
        claude.started = harness.now()
        claude.prompt("Two").says("Done", message="m2", request="r2", usage=usage_of(100, 200, 30, 4)).ends()
        harness.set_time(NOW)
        await app.take(app.write("a.jsonl", claude.records))
        found = await harness.read(lambda reader: total_usage(reader, harness.app.runs, Filter(), ["day"]))
        used = [(row["day"], row["input_tokens"], row["output_tokens"]) for row in found["rows"]]
        assert used == [("2026-03-04", 9, 19), ("2026-03-05", 100, 200)]
        total = found["total"]
        assert (total["cache_creation_tokens"], total["cached_input_tokens"], total["sessions"]) == (30, 4, 1)
        assert await app.is_sound()
