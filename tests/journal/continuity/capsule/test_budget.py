"""The budget of a capsule: never exceeded, kept by dropping and cutting in the order of the contract."""

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftlog.journal.continuity.capsule.budget import (
    FACTS,
    FEW,
    GIT_BYTES,
    KEYS,
    LISTS,
    MANY,
    SAID,
    Aged,
    clipped,
    fitted,
    folded_files,
    refitted,
)
from shiftlog.journal.continuity.capsule.build import build_capsule
from shiftlog.model.entry import Kind
from tests.journal.continuity.capsule.diary import CLOSE, HISTORIES, Diary, History, size, texts


def test_a_text_is_cut_to_its_encoded_bytes_at_a_character() -> None:
    assert clipped("a" * 83, 80) == "a" * 83
    assert clipped("a" * 84, 80) == "a" * 80 + "…"
    assert clipped("é" * 42, 80) == "é" * 40 + "…"
    assert clipped("日" * 100, 80) == "日" * 26 + "…"
    assert clipped("\n" * 100, 80) == "\n" * 40 + "…"
    assert clipped("\x1b" * 100, 80) == "\x1b" * 13 + "…"


def test_five_hundred_turns_fit_the_smallest_budget_with_goal_and_next() -> None:
    diary = Diary()
    for n in range(500):
        turn, _ = diary.begin(f"Step {n}")
        diary.complete(turn, f"result {n}")
    diary.begin("The open one")
    capsule = diary.capsule(budget_bytes=2000)
    assert size(capsule) <= 2000
    assert capsule["goal"]["text"] == "Fix the cache bug"
    assert texts(capsule["next"]) == ["The open one"]
    assert capsule["truncated"] == {"done": 500 - len(capsule["done"])}
    assert texts(capsule["done"])[-1] == "Step 499: result 499"
    assert len(capsule["done"]) > 5


def full_diary() -> Diary:
    diary = Diary()
    turn, _ = diary.begin("x" * 300)
    diary.write(Kind.SESSION_CLOSED, {"note": "Almost there. " * 30})
    for n in range(25):
        other, _ = diary.begin(f"Step {n}")
        diary.complete(other, "ok")
        diary.say(turn, f"Decision number {n} {'of many ' * n}")
        diary.say(turn, f"Do not take step {n}" + "!" * 50)
        diary.say(turn, f"Refuted: guess {n}" + "?" * 50)
        diary.act(turn, f"Try {n}", status="pending", path=f"src/file_{n}.py")
        diary.add(turn, commits=[{"sha": f"c0ffee{n:04}"}])
        diary.write(Kind.CHECKPOINT_SAVED, {"id": f"{n:08}", "label": None})
        diary.write(Kind.SHELL_OPENED, {"shell_id": f"s{n}", "cwd": f"/srv/{n}"})
        diary.write(Kind.COMMAND_STARTED, {"shell_id": f"s{n}", "command_id": f"s{n}#1", "command": "make"})
    return diary


COUNTED = [name for name in LISTS if name != "files_touched"]


@pytest.mark.long
def test_lists_shrink_in_the_order_of_the_contract_and_no_further_than_needed() -> None:
    diary = full_diary()
    whole = diary.capsule(budget_bytes=64_000)
    uncut = 0
    for budget in range(2000, size(whole) + 50, 13):
        capsule = diary.capsule(budget_bytes=budget)
        truncated = capsule["truncated"]
        assert size(capsule) <= budget
        dropped = {name: len(whole[name]) - len(capsule[name]) for name in COUNTED}
        known = {name: whole["truncated"].get(name, 0) for name in COUNTED}
        assert {name: truncated.get(name, 0) - known[name] for name in COUNTED} == dropped
        assert all(capsule[name] for name in COUNTED if whole[name])
        if "cut" in truncated:
            continue
        uncut += 1
        assert all(len(capsule[name]) >= min(3, len(whole[name])) for name in FACTS)
        assert all(len(capsule[name]) >= min(10, len(whole[name])) for name in SAID)
        for earlier, later in pairwise((*FACTS, *SAID)):
            least = 3 if earlier in FACTS else 10
            assert not dropped[later] or len(capsule[earlier]) <= max(least, 0) or len(whole[earlier]) <= least
        assert not dropped["next"]
    assert uncut > 50


def test_files_beyond_the_most_changed_are_shown_as_their_folders() -> None:
    diary = Diary()
    turn, _ = diary.begin("Rename it everywhere")
    for n in range(400):
        for _ in range(1 + (n >= 390)):
            diary.act(turn, f"edit {n}", path=f"src/part_{n % 40}/inner/file_{n}.py")
    whole = diary.capsule(budget_bytes=64_000)
    assert len(whole["files_touched"]) == 400
    capsule = diary.capsule(budget_bytes=8_000)
    files = [item for item in capsule["files_touched"] if "files" not in item]
    folders = [item for item in capsule["files_touched"] if "files" in item]
    assert {item["path"] for item in files} == {f"src/part_{n % 40}/inner/file_{n}.py" for n in range(390, 400)}
    assert [item["changes"] for item in files] == [2] * 10
    assert (sum(item["files"] for item in folders), sum(item["changes"] for item in folders)) == (390, 390)
    assert [item["path"] for item in folders] == ["src/"]
    assert "files_touched" not in capsule["truncated"]


def test_folders_of_few_files_keep_their_names() -> None:
    files: list[Aged] = [(n, {"path": f"{name}/f{n}.py", "changes": 1}) for n in range(12) for name in ("a/b", "c")]
    folded = [item for _, item in folded_files(files) if isinstance(item, dict) and "files" in item]
    assert {str(item["path"]) for item in folded} == {"a/b/", "c/"}
    assert folded_files([(n, {"path": f"f{n}.py", "changes": 1}) for n in range(11)])[0][1] == {
        "path": "./",
        "changes": 1,
        "files": 1,
    }


def test_two_thousand_turns_leave_goal_next_open_turn_ten_done_and_ten_files() -> None:
    diary = Diary()
    for n in range(2000):
        turn, _ = diary.begin(f"Step {n}: make part {n} of the importer faster without changing what it writes")
        diary.act(turn, "edit", path=f"src/importer/part_{n % 300}.py")
        diary.say(turn, f"Decision: batch {n} is read before it is parsed")
        diary.complete(turn, "It is done. " * 30)
    turn, _ = diary.begin("Read the batches ahead", "Read two batches ahead of the parser, no more.")
    diary.act(turn, "Write the reader", status="pending", path="src/importer/ahead.py")
    capsule = diary.capsule(budget_bytes=8_000)
    assert size(capsule) <= 8_000
    assert [text.partition(":")[0] for text in texts(capsule["done"])][-10:] == [f"Step {n}" for n in range(1990, 2000)]
    assert len([item for item in capsule["files_touched"] if "files" not in item]) == 10
    assert capsule["open_turn"]["query_text"] == "Read two batches ahead of the parser, no more."
    assert texts(capsule["next"]) == ["Read the batches ahead", "Write the reader"]
    assert capsule["goal"]["text"] == "Fix the cache bug"


def test_one_long_text_is_cut_and_does_not_cost_the_lists() -> None:
    diary = Diary()
    turn, _ = diary.begin("Reproduce")
    diary.complete(turn, "ok")
    diary.begin("Read this log", "log line\n" * 5000)
    capsule = diary.capsule()
    assert capsule["open_turn"]["query_text"] == "log line\n" * 20 + "…"
    assert texts(capsule["done"]) == ["Reproduce: ok"]
    assert capsule["truncated"] == {"cut": {"open_turn": 1}}


def test_what_an_agent_claimed_goes_last() -> None:
    diary = Diary()
    turn, _ = diary.begin("Work")
    for n in range(60):
        diary.act(turn, f"{n}: " + "long " * 100, status="pending")
        diary.add(turn, blockers=[f"{n}: " + "wall " * 100])
    statement = {"version": "1", "next": "Guard eviction", "done": ["one", "two", "three", "four"]}
    capsule = diary.capsule(statement, budget_bytes=2000)
    assert size(capsule) <= 2000
    assert capsule["next"][0] == {"text": "Guard eviction", "basis": "claimed", "seq": None}
    assert texts(capsule["done"])[-1] == "four"
    assert capsule["truncated"]["next"] == 62 - len(capsule["next"])
    diary.write(Kind.CAPSULE_SAVED, {"statement": statement})
    for n in range(60):
        diary.act(turn, f"{n}: " + "late " * 100, status="pending")
    assert diary.capsule(budget_bytes=2000)["next"][0]["text"] == "Guard eviction"
    assert texts(diary.capsule(budget_bytes=8000)["done"]) == ["one", "two", "three", "four"]


def test_of_claimed_plans_the_first_step_is_kept_longest() -> None:
    diary = Diary()
    diary.begin("Work")
    plans = ["First drain the queue", *(f"Then step {n} {'of many ' * 20}" for n in range(40))]
    statement = {"version": "1", "next": plans, "blockers": "The replica lags"}
    capsule = diary.capsule(statement, budget_bytes=2000)
    assert capsule["truncated"]["next"] > 0
    assert [text.partition(" of ")[0] for text in texts(capsule["next"])][:2] == [*plans[:1], "Then step 0"]
    whole = diary.capsule(statement, budget_bytes=64_000)
    assert texts(refitted(whole, 2000, {})["next"])[0] == plans[0]


def test_everything_at_its_limit_still_fits_the_smallest_budget() -> None:
    wide = "\U0001f600" * 4000
    diary = Diary(wide[:500])
    turn = "req-20260701T100000Z-" + "t" * 179
    diary.write(Kind.TURN_BEGUN, {"query_title": wide[:500], "query_text": '"' * 100_000}, turn)
    diary.write(Kind.USAGE, dict.fromkeys(("input_tokens", "output_tokens", "reasoning_tokens"), 2**53 - 1), turn)
    diary.write(Kind.SHELL_OPENED, {"shell_id": "s", "cwd": "/" + "\x1b" * 4000})
    for n in range(200):
        diary.say(turn, f"Do not {n} {wide}")
        diary.say(turn, f"Refuted: {n} {wide}")
        diary.say(turn, f"Decision: {n} {wide}")
        diary.write(Kind.CHECKPOINT_SAVED, {"id": "c" * 64, "label": wide})
    diary.write(Kind.SESSION_CLOSED, {"note": wide * 5})
    statement = {
        "version": "1.0",
        **dict.fromkeys(("goal", "done", "next", "blockers", "do_not", "refuted"), wide),
        "receipts": [wide[:500]] * 20,
        "written_by": wide[:200],
        "handoff_to": wide[:200],
        "written_at": "1990-01-01T00:00:00Z",
    }
    smallest = diary.capsule(statement, budget_bytes=2000)
    assert smallest["usage"] is None
    assert smallest["truncated"]["cut"]["goal"] == 1
    assert smallest["goal"]["text"] == wide[:10] + "…"
    for budget in (2000, 8000, 64_000):
        capsule = diary.capsule(statement, budget_bytes=budget)
        assert size(capsule) <= budget
        assert all(capsule[name] for name in ("goal", "open_turn", "next", "blockers", "do_not", "refuted"))
        assert capsule["open_turn"]["request_id"] == turn


def test_a_budget_below_the_smallest_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 2000 bytes"):
        Diary().capsule(budget_bytes=1999)


def test_fifty_thousand_entries_are_gathered_in_one_pass() -> None:
    diary = Diary()
    turn, seq = diary.begin("Work")
    body = {"role": "model", "category": "decision"}
    entry = diary.entries[-1]
    many = (
        replace(entry, seq=seq + n, kind=Kind.DIALOG, body={**body, "content": f"Decision {n} " + "x" * 100})
        for n in range(1, 50_001)
    )
    capsule: Any = build_capsule(diary.session, [diary.turns[turn]], many, statement=None, budget_bytes=2000, now=CLOSE)
    assert size(capsule) <= 2000
    assert capsule["truncated"]["decisions"] == 50_000 - len(capsule["decisions"])
    assert capsule["decisions"][-1]["seq"] == seq + 50_000


BUDGETS = st.integers(min_value=2000, max_value=64_000) | st.sampled_from([2000, 2100, 8000])
CITED = ("done", "next", "blockers", "do_not", "refuted", "decisions")


def strings(value: Any) -> Iterator[str]:
    """Return every text in a part of a capsule, at any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        inside = cast("dict[str, Any]", value).values() if isinstance(value, dict) else cast("list[Any]", value)
        for item in inside:
            yield from strings(item)


def with_states(capsule: dict[str, Any]) -> dict[str, Any]:
    """Return a capsule whose files all say how they stand in git."""
    files = [{**item, "git": "committed"} if "git" in item else item for item in capsule["files_touched"]]
    return {**capsule, "files_touched": files}


@given(HISTORIES, BUDGETS)
def test_a_capsule_keeps_its_budget_and_what_must_stay(history: History, budget: int) -> None:
    capsule = history.capsule(budget_bytes=budget)
    whole = history.capsule(budget_bytes=100_000_000)
    assert size(with_states(capsule)) <= budget
    assert capsule["budget_bytes"] == budget
    assert capsule["goal"]["text"]
    assert (capsule["open_turn"] is None) == (whole["open_turn"] is None)
    for name in LISTS:
        assert bool(capsule[name]) == bool(whole[name])
    for name in COUNTED:
        assert capsule["truncated"].get(name, 0) - whole["truncated"].get(name, 0) == len(whole[name]) - len(
            capsule[name]
        )
    cut = capsule["truncated"].get("cut", {})
    for name in COUNTED:
        known = set(strings(whole[name]))
        assert cut.get(name, 0) == sum(text not in known for text in strings(capsule[name]))
    room = GIT_BYTES * len(whole["files_touched"])
    if size({**whole, "budget_bytes": budget}) + room <= budget:
        assert {**whole, "budget_bytes": budget} == capsule


def sized(name: str, sizes: list[int]) -> list[Aged]:
    """Return a list of a capsule with one item for each size of its text."""
    made: list[Aged] = []
    for seq, length in enumerate(sizes):
        text = f"{seq} " + "x" * length
        item: Any = {"text": text, "basis": "recorded", "seq": seq}
        if name == "receipts":
            item = text
        elif name == "files_touched":
            item = {"path": f"src/{seq % 7}/{text}", "changes": 1 + seq % 3, "last_type": "edit", "git": None}
        elif name == "checkpoints":
            item = {"id": f"{seq:040}", "created_at": "2026-07-01T10:00:00Z", "label": text}
        made.append((seq, item))
    return made


# Few kinds of lengths, so that lists are long and texts are too.
SIZES = st.tuples(st.integers(0, 60), st.sampled_from([5, 60, 150, 400, 3000])).map(lambda pair: [pair[1]] * pair[0])
ALL_SIZES = st.fixed_dictionaries(dict.fromkeys(LISTS, SIZES))


@given(ALL_SIZES, st.sampled_from([5, 500, 4000]), BUDGETS)
def test_a_capsule_of_any_sizes_shrinks_in_the_order_of_the_contract(
    sizes: dict[str, list[int]], goal: int, budget: int
) -> None:
    """Facts to three, then what was said to ten, then texts to 200 bytes, then lists to three, then texts to 80."""
    lists = {name: sized(name, lengths) for name, lengths in sizes.items()}
    fixed = {"origin": "auto", "budget_bytes": budget}
    told: Any = {"goal": {"text": "g" * goal, "basis": "recorded"}, "open_turn": {"query_text": "q" * goal}}
    singles = {name: told.get(name) for name in KEYS if name not in {*fixed, *LISTS, "truncated"}}
    capsule: Any = fitted(fixed, singles, lists, omitted={}, budget_bytes=budget)
    assert size(with_states(capsule)) <= budget
    assert all(capsule[name] for name in told)
    assert all(bool(capsule[name]) == bool(lists[name]) for name in LISTS)
    longest = max(size(text) - 2 for text in strings({**capsule, "checkpoints": [], "origin": ""}))
    shown = {name: len(capsule[name]) for name in LISTS}
    if "cut" not in capsule["truncated"] and any(shown[name] < len(lists[name]) for name in SAID):
        assert all(shown[name] <= FEW for name in FACTS)
        assert all("files" in item for item in capsule["files_touched"][:-MANY])
    if any(shown[name] < min(len(lists[name]), MANY) for name in SAID):
        assert longest <= 200 + len("…".encode())
    if any(shown[name] < min(len(lists[name]), FEW) for name in LISTS if name != "files_touched"):
        assert longest <= 80 + len("…".encode())


@given(HISTORIES, BUDGETS)
def test_the_same_journal_gives_the_same_capsule(history: History, budget: int) -> None:
    first, second = (json.dumps(history.capsule(budget_bytes=budget)) for _ in range(2))
    assert first == second


@given(HISTORIES, BUDGETS)
def test_every_item_cites_an_entry_that_says_so_and_the_newest_are_kept(history: History, budget: int) -> None:
    capsule = history.capsule(budget_bytes=budget)
    whole = history.capsule(budget_bytes=100_000_000)
    for name in CITED:
        for item in capsule[name]:
            head = item["text"].removesuffix("…")
            assert any(text.startswith(head) for text in history.said[item["seq"]])
            if not item["text"].endswith("…"):
                assert item["text"] in history.said[item["seq"]]
        # What was claimed goes last of its list, however old it is; the rest by age.
        ages = sorted((item["basis"] == "claimed", item["seq"]) for item in whole[name])
        kept = sorted((item["basis"] == "claimed", item["seq"]) for item in capsule[name])
        assert kept == ages[len(ages) - len(kept) :]
