"""The budget of a capsule: never exceeded, kept by dropping and cutting in the order of the contract."""

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftlog.journal.continuity.capsule.budget import DROPPED, ESSENTIAL, clipped
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


def test_lists_are_dropped_in_order_and_no_further_than_needed() -> None:
    diary = full_diary()
    whole = diary.capsule(budget_bytes=64_000)
    uncut = 0
    for budget in range(2000, size(whole) + 50, 13):
        capsule = diary.capsule(budget_bytes=budget)
        truncated = capsule["truncated"]
        assert size(capsule) <= budget
        dropped = {name: len(whole[name]) - len(capsule[name]) for name in (*DROPPED, *ESSENTIAL)}
        known = {name: whole["truncated"].get(name, 0) for name in dropped}
        assert {name: truncated.get(name, 0) - known[name] for name in dropped} == dropped
        if "cut" in truncated:
            continue
        uncut += 1
        for earlier, later in pairwise(DROPPED):
            assert not dropped[later] or not capsule[earlier]
        for name in (*DROPPED, *ESSENTIAL):
            assert capsule[name] == whole[name][dropped[name] :]
        assert not any(dropped[name] for name in ESSENTIAL)
        last = next((name for name in reversed(DROPPED) if dropped[name]), None)
        if last is not None:
            fuller = {**capsule, last: whole[last][dropped[last] - 1 :]}
            fuller["truncated"] = {**truncated, last: truncated[last] - 1}
            assert size(fuller) > budget - len(f'"{last}":1,')
    assert uncut > 500


def test_of_the_essential_lists_the_oldest_items_of_all_go_first() -> None:
    diary = full_diary()
    whole = diary.capsule(budget_bytes=64_000)
    capsule = diary.capsule(budget_bytes=3600)
    names = [name for name in ESSENTIAL if whole[name]]
    kept = {name: [item["seq"] for item in capsule[name]] for name in names}
    gone = {item["seq"] for name in names for item in whole[name]} - {seq for seqs in kept.values() for seq in seqs}
    assert gone
    assert all(len(seqs) > 2 for seqs in kept.values())
    assert max(gone) < min(seq for seqs in kept.values() for seq in seqs[:-1])


def test_what_long_texts_cost_is_given_back_in_the_order_of_the_lists() -> None:
    diary = Diary()
    for n in range(60):
        turn, _ = diary.begin(f"Step {n}")
        diary.act(turn, "edit", path=f"src/file_{n}.py")
        diary.complete(turn, "ok")
    diary.begin("Read this log", "log line\n" * 5000)
    capsule = diary.capsule(budget_bytes=6000)
    assert capsule["truncated"] == {"done": 60 - len(capsule["done"]), "cut": {"open_turn": 1}}
    assert len(capsule["files_touched"]) == 60
    assert 0 < len(capsule["done"]) < 60
    assert texts(capsule["done"])[-1] == "Step 59: ok"


def test_one_long_text_is_cut_and_does_not_cost_the_lists() -> None:
    diary = Diary()
    turn, _ = diary.begin("Reproduce")
    diary.complete(turn, "ok")
    diary.begin("Read this log", "log line\n" * 5000)
    capsule = diary.capsule()
    assert capsule["open_turn"]["query_text"] == "log line\n" * 20 + "…"
    assert texts(capsule["done"]) == ["Reproduce: ok"]
    assert capsule["truncated"] == {"cut": {"open_turn": 1}}


def test_of_the_essential_lists_the_newest_item_stays_and_the_statement_is_the_newest() -> None:
    diary = Diary()
    turn, _ = diary.begin("Work")
    for n in range(60):
        diary.act(turn, f"{n}: " + "long " * 100, status="pending")
        diary.add(turn, blockers=[f"{n}: " + "wall " * 100])
    statement = {"version": "1", "next": "Guard eviction"}
    capsule = diary.capsule(statement, budget_bytes=2000)
    assert size(capsule) <= 2000
    assert capsule["next"][0] == {"text": "Guard eviction", "basis": "claimed", "seq": None}
    assert capsule["blockers"][-1]["text"].startswith("59: wall")
    assert capsule["truncated"]["next"] == 62 - len(capsule["next"])
    diary.write(Kind.CAPSULE_SAVED, {"statement": statement})
    assert diary.capsule(budget_bytes=2000)["next"][0]["text"] == "Guard eviction"
    for n in range(60):
        diary.act(turn, f"{n}: " + "late " * 100, status="pending")
    assert diary.capsule(budget_bytes=2000)["next"][-1]["text"].startswith("59: late")
    assert diary.capsule(budget_bytes=2000)["next"][0]["text"] != "Guard eviction"
    assert capsule["truncated"]["blockers"] == 60 - len(capsule["blockers"])


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
    assert smallest["goal"]["text"] == wide[:20] + "…"
    for budget in (2000, 8000, 64_000):
        capsule = diary.capsule(statement, budget_bytes=budget)
        assert size(capsule) <= budget
        assert all(capsule[name] for name in ("goal", "open_turn", *ESSENTIAL))
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
LISTS = ("done", "next", "blockers", "do_not", "refuted", "decisions")


@given(HISTORIES, BUDGETS)
def test_a_capsule_keeps_its_budget_and_what_must_stay(history: History, budget: int) -> None:
    capsule = history.capsule(budget_bytes=budget)
    whole = history.capsule(budget_bytes=100_000_000)
    assert size(capsule) <= budget
    assert capsule["budget_bytes"] == budget
    assert capsule["goal"]["text"]
    assert (capsule["open_turn"] is None) == (whole["open_turn"] is None)
    for name in ESSENTIAL:
        assert bool(capsule[name]) == bool(whole[name])
    for name in (*DROPPED, *ESSENTIAL):
        assert capsule["truncated"].get(name, 0) - whole["truncated"].get(name, 0) == len(whole[name]) - len(
            capsule[name]
        )
    cut = capsule["truncated"].get("cut", {})
    for name in (*DROPPED, *ESSENTIAL):
        assert cut.get(name, 0) == sum(item not in whole[name] for item in capsule[name])
    if size({**whole, "budget_bytes": budget}) <= budget:
        assert {**whole, "budget_bytes": budget} == capsule


@given(HISTORIES, BUDGETS)
def test_the_same_journal_gives_the_same_capsule(history: History, budget: int) -> None:
    first, second = (json.dumps(history.capsule(budget_bytes=budget)) for _ in range(2))
    assert first == second


@given(HISTORIES, BUDGETS)
def test_every_item_cites_an_entry_that_says_so_and_the_newest_are_kept(history: History, budget: int) -> None:
    capsule = history.capsule(budget_bytes=budget)
    whole = history.capsule(budget_bytes=100_000_000)
    for name in LISTS:
        for item in capsule[name]:
            head = item["text"].removesuffix("…")
            assert any(text.startswith(head) for text in history.said[item["seq"]])
            if not item["text"].endswith("…"):
                assert item["text"] in history.said[item["seq"]]
        ages = sorted(item["seq"] for item in whole[name])
        assert sorted(item["seq"] for item in capsule[name]) == ages[len(ages) - len(capsule[name]) :]
