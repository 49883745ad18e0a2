"""Tokens of a rollout, and forks whose files begin with a copy of their parent."""

import pytest

from shiftlog.facts.transcript import Note, SessionOpened, TurnBegun, UsageFact
from shiftlog.ingest.readers.codex import reader as codex
from tests.ingest.readers.codex.rollouts import (
    THREAD,
    Reading,
    epoch,
    event,
    key_of,
    line,
    meta,
    read,
    said,
    started,
    tokens,
    used,
)

T1, T2, T3 = (1000, 200, 50, 10, 1050), (2500, 900, 120, 30, 2620), (4000, 2000, 200, 40, 4200)
L2, L3 = (1500, 700, 70, 20, 1570), (1500, 1100, 80, 10, 1580)
FORK = "01900000-0000-7000-8000-00000000000f"


def parent() -> Reading:
    """Read thread P of the contract's example."""
    return read(
        meta(), started(1, "a", started_at=epoch(1)), tokens(2, T1, T1), tokens(3, T1, T1), tokens(4, T2, L2),
        event(5, "token_count", info=None), event(6, "task_complete", turn_id="a"),
    )  # fmt: skip


def copied_lines() -> list[bytes]:
    """Return the part of fork F that is a copy, stamped with the fork's time."""
    return [
        meta(100, id=FORK, forked_from_id=THREAD), meta(100), started(100, "a", started_at=epoch(1)),
        line(100, "turn_context", {"model": "gpt-5"}), event(100, "user_message", message="old"), said(100, "older"),
        tokens(100, T1, T1), tokens(100, T1, T1), tokens(100, T2, L2), event(100, "task_complete", turn_id="a"),
    ]  # fmt: skip


def own_lines() -> list[bytes]:
    """Return what F adds."""
    return [started(101, "b", started_at=epoch(101)), event(101, "user_message", message="new"), tokens(102, T3, L3)]


def test_equal_totals_count_once_and_the_family_counts_once() -> None:
    """Case 20: P then F."""
    first, fork = parent(), read(*copied_lines(), *own_lines())
    assert [fact.vendor["total_tokens"] for fact in first.of(UsageFact)] == [1050, 1570]
    assert [(fact.copied, fact.vendor["total_tokens"]) for fact in fork.of(UsageFact)] == [
        (True, 1050),
        (True, 1570),
        (False, 1580),
    ]
    known = {key_of(fact) for fact in first.of(UsageFact)}
    fresh = [fact for fact in fork.of(UsageFact) if key_of(fact) not in known]
    assert used([*first.of(UsageFact), *fresh])["total_tokens"] == 4200
    assert used(fork.of(UsageFact)) == {
        "input_tokens": 4000,
        "cached_input_tokens": 2000,
        "output_tokens": 200,
        "reasoning_output_tokens": 40,
        "total_tokens": 4200,
    }


def test_classes_exclude_each_other() -> None:
    """Input that was neither read from nor written to a cache."""
    total = {
        "input_tokens": 100,
        "cached_input_tokens": 30,
        "cache_write_input_tokens": 20,
        "output_tokens": "7",
        "reasoning_output_tokens": -4,
        "total_tokens": 107,
    }
    info = {"total_token_usage": total}
    fact = read(meta(), event(1, "token_count", info=info)).of(UsageFact)[0]
    assert (fact.input_tokens, fact.cached_input_tokens, fact.cache_creation_tokens) == (50, 30, 20)
    assert (fact.output_tokens, fact.reasoning_tokens, fact.rule) == (7, 0, "first")


def test_without_a_last_usage_the_growth_of_the_total_counts() -> None:
    """Never below nothing."""
    found = read(meta(), tokens(1, T1, None), tokens(2, T2, None), tokens(3, (100, 0, 0, 0, 100), None))
    assert [fact.vendor["total_tokens"] for fact in found.of(UsageFact)] == [1050, 1570, 0]


def test_other_shapes_and_empty_totals_say_nothing() -> None:
    """They are counted as lines."""
    found = read(meta(), event(1, "token_count", info={"prompt": 1}), tokens(2, (0, 0, 0, 0, 0), None))
    assert found.of(UsageFact) == []
    assert found.reader.counts.counted == 2


def test_the_model_is_that_of_the_last_context() -> None:
    """Also within copied lines."""
    found = read(meta(), tokens(1, T1, T1), line(2, "turn_context", {"model": "m2"}), tokens(3, T2, L2))
    assert [fact.model for fact in found.of(UsageFact)] == [None, "m2"]
    assert {fact.model for fact in read(*copied_lines(), *own_lines()).of(UsageFact)} == {"gpt-5"}


def test_settings_change_the_model_from_the_next_context_on() -> None:
    settings = event(2, "thread_settings_applied", thread_settings={"model": "m2"})
    contexts = [line(second, "turn_context", {"model": model}) for second, model in ((1, "m1"), (4, "m2"))]
    found = read(meta(), contexts[0], settings, tokens(3, T1, T1), contexts[1], tokens(5, T2, L2))
    assert [fact.model for fact in found.of(UsageFact)] == ["m1", "m2"]


def test_a_fork_has_only_its_own_turns() -> None:
    """Case 35: copied lines make no entries, shared turns are noted."""
    for every in (None, 1):
        found = read(*copied_lines(), *own_lines(), every=every)
        assert found.turns == [("new", "in_progress", None)]
        assert found.dialog == []
        assert found.of(SessionOpened)[0].forked_from == THREAD
        notes = [note.body for note in found.of(Note) if note.kind == "shared"]
        assert notes == [{"shared": {"session": THREAD, "turns": ["req-20260301T100001Z-a"], "records": 9}}]
        assert found.reader.counts.counted_names["copied"] == 9


def test_a_fork_without_an_own_turn_is_all_its_own() -> None:
    """Nothing is treated as copied."""
    for every in (None, 1):
        found = read(*copied_lines(), every=every)
        assert found.turns == [("old", "completed", None)]
        assert found.dialog == [("model", "observation", "older")]
        assert "copied" not in found.reader.counts.counted_names
        assert found.reader.counts.lines == 10


def test_a_turn_started_in_the_second_of_the_fork_is_its_own() -> None:
    """Whole seconds are compared."""
    lines = [meta(100, id=FORK, forked_from_id=THREAD, timestamp="2026-03-01T10:01:40.900Z"), meta(0)]
    found = read(*lines, started(100, "b", started_at=epoch(100)))
    assert [begun.vendor_turn_id for begun in found.of(TurnBegun)] == ["b"]


def test_the_family_is_the_root_of_the_forks() -> None:
    """As far as copied headers tell it."""
    found = read(
        meta(100, id="f2", forked_from_id="f1"), meta(100, id="f1", forked_from_id="root"), meta(100, id="root"),
        started(101, "b", started_at=epoch(101)), tokens(102, T1, T1),
    )  # fmt: skip
    assert found.of(UsageFact)[0].key[:2] == ("use", "root")


def test_lines_before_the_own_ordinals_are_copies() -> None:
    """A spawned thread of numbered lines says where its own begin."""
    found = read(
        meta(id="child", parent_thread_id=THREAD, subagent_history_start_ordinal=5),
        line(1, "event_msg", {"type": "task_started", "turn_id": "a"}, ordinal=3),
        line(2, "event_msg", {"type": "task_started", "turn_id": "b"}, ordinal=5),
    )  # fmt: skip
    assert [begun.vendor_turn_id for begun in found.of(TurnBegun)] == ["b"]


def test_a_suffix_of_another_rollout_shares_its_prefix_by_reference() -> None:
    """`history_base` names it."""
    base = {"thread_id": "r0", "end_ordinal_exclusive": 40}
    found = read(meta(history_mode="paginated", history_base=base), started(1, "b"))
    assert found.of(SessionOpened)[0].forked_from == "r0"
    assert [note.body for note in found.of(Note)] == [{"shared": {"session": "r0", "until_ordinal": 40}}]
    assert len(found.turns) == 1
    reverted = read(meta(history_base={"thread_id": THREAD, "end_ordinal_exclusive": 9}))
    assert reverted.of(SessionOpened)[0].forked_from is None


def test_a_fork_that_only_refers_to_its_parent_has_no_copies() -> None:
    """Its tokens still belong to the family."""
    base = {"thread_id": THREAD, "end_ordinal_exclusive": 40}
    found = read(meta(id=FORK, forked_from_id=THREAD, history_base=base), started(1, "b"), tokens(2, T3, L3))
    assert [(fact.key[1], fact.copied) for fact in found.of(UsageFact)] == [(THREAD, False)]
    assert "copied" not in found.reader.counts.counted_names


def test_too_long_a_copy_stays_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was not held cannot be read again, also not after a restore."""
    monkeypatch.setattr(codex, "MAX_HELD_BYTES", 600)
    for every in (None, 1):
        found = read(*copied_lines(), every=every)
        assert found.turns == []
        assert found.reader.counts.counted_names["copied"] == 9
