"""Erasing: the text is gone from every byte of the state directory, the chain still verifies and says so."""

from pathlib import Path
from typing import Any

import pytest

from shiftlog.journal.maintenance import fold
from shiftlog.model.entry import Kind
from shiftlog.model.errors import InvalidParameter
from shiftlog.store.codec.blobs import unpack
from tests.journal.harness import Harness, client, files_holding, open_harness

WORD = "Rumpelstilzchen"
SHORT = f"I am {WORD}"
LONG = f"{WORD} " + "spins straw into gold. " * 400


async def seq_of(harness: Harness, session: str, kind: str, word: str = WORD) -> int:
    """Return the first entry of a kind whose body holds a word."""
    return next(e.seq for e in await harness.entries(session) if e.kind == kind and word in str(e.body))


async def erase(harness: Harness, session: str, *seqs: int, reason: str = "asked for") -> dict[str, Any]:
    return await harness.app.maintenance.erase(session, list(seqs), reason)


async def projections_equal_a_fold(harness: Harness, session: str) -> None:
    entries = await harness.entries(session)
    folded, turns = fold(session, entries)
    assert await harness.session(session) == folded
    assert await harness.read(lambda reader: reader.turns(session)) == list(turns.values())
    assert not (await harness.rebuild(session))[0].changed


async def test_an_erased_body_keeps_the_chain_valid_and_says_so(harness: Harness) -> None:
    session = await harness.open()
    await harness.begin(session)
    await harness.update(session, dialog=[{"role": "user", "category": "observation", "content": f"I am {WORD}"}])
    before = await harness.entries(session)
    seq = await seq_of(harness, session, "dialog")
    answered = await erase(harness, session, seq)
    entries = await harness.entries(session)
    assert answered == {
        "session_id": session,
        "erased": [seq],
        "already_erased": [],
        "elsewhere": {},
        "chain": "verified",
        "seq": entries[-1].seq,
        "hash": entries[-1].hash,
    }
    assert entries[-1].kind is Kind.ERASED
    assert entries[-1].facts["entries"] == [seq]
    assert entries[-1].facts["reason"] == "asked for"
    gone = entries[seq - 1]
    assert (gone.body, gone.salt, gone.hash) == (None, None, before[seq - 1].hash)
    [found] = await harness.verify(session)
    assert found.ok
    assert found.erased == 1
    await projections_equal_a_fold(harness, session)


async def test_an_erased_item_is_shown_as_erased_and_no_longer_found(harness: Harness) -> None:
    session = await harness.open()
    name = await harness.begin(session)
    await harness.update(session, dialog=[{"role": "user", "category": "decision", "content": f"I am {WORD}"}])
    assert (await harness.query(text=WORD))["total"] == 1
    await erase(harness, session, await seq_of(harness, session, "dialog"))
    assert (await harness.query(text=WORD))["total"] == 0
    assert (await harness.query(kinds=["decision"]))["total"] == 0
    [item] = (await harness.query(session_id=session, request_id=name))["items"]
    assert item["erased"] is True
    assert "content" not in item


@pytest.mark.parametrize(
    ("kind", "where", "text"),
    [
        ("session.opened", "title", SHORT),
        ("turn.begun", "query_title", SHORT),
        ("turn.begun", "query_text", SHORT),
        ("turn.begun", "query_text", LONG),
        ("turn.updated", "tags", SHORT),
        ("turn.updated", "design_decisions", SHORT),
        ("turn.updated", "design_decisions", LONG),
        ("turn.updated", "files_modified", SHORT),
        ("dialog", "dialog", SHORT),
        ("dialog", "dialog", LONG),
        ("action", "actions", SHORT),
        ("turn.completed", "response", SHORT),
        ("turn.completed", "response", LONG),
        ("turn.failed", "error_message", SHORT),
        ("turn.failed", "error_message", LONG),
        ("session.closed", "epitaph", SHORT),
        ("session.closed", "epitaph", LONG),
    ],
    ids=lambda value: "long" if value == LONG else None,
)
async def test_the_text_is_gone_from_every_byte_of_the_state_directory(
    tmp_path: Path, kind: str, where: str, text: str
) -> None:
    home = tmp_path / "home"
    async with open_harness(home, environ={"SHIFTLOG_DURABILITY": "full"}) as harness:
        # Names are kept for ever, so these are not made from the text.
        session = await harness.open(
            title=text if where == "title" else "Work",
            session_id="Codex-20260701T120000Z-work",
            idempotency_key="open",
        )
        await harness.begin(
            session,
            request_id="req-20260701T120000Z-ask",
            query_title=text if where == "query_title" else "Ask",
            query_text=text if where == "query_text" else "Ask",
            idempotency_key="begin",
        )
        if where in ("tags", "design_decisions", "files_modified"):
            await harness.update(session, **{where: [text]}, idempotency_key="update")
        if where == "dialog":
            await harness.update(session, dialog=[{"role": "user", "category": "decision", "content": text}])
        if where == "actions":
            await harness.update(session, actions=[{"description": text, "type": "edit", "status": "pending"}])
        if where == "error_message":
            await harness.fail(session, error_message=text)
        else:
            await harness.complete(session, response=text if where == "response" else "Done")
        # Two capsules repeat it, two kept answers show it, and another session names it as its predecessor.
        harness.wait(hours=2)
        await harness.app.sweep()
        await harness.open(title="Successor", idempotency_key="successor")
        await harness.call("resume_session", {"agent_id": "Codex", "session_id": session, "idempotency_key": "resume"})
        epitaph = {"epitaph": text} if where == "epitaph" else {}
        await harness.call("close_session", {"session_id": session, "idempotency_key": "close", **epitaph})
        assert text is LONG or files_holding(home, WORD)
        answered = await erase(harness, session, await seq_of(harness, session, kind))
        assert answered["chain"] == "verified"
        assert all(WORD not in str(entry.body) for entry in await harness.entries(session))
        await projections_equal_a_fold(harness, session)
        assert (await harness.query(text=WORD))["total"] == 0
        assert files_holding(home, WORD) == files_holding(home, WORD.lower()) == []
        with harness.database() as database:
            assert all(WORD not in unpack(bytes(data)) for (data,) in database.execute("SELECT data FROM blobs"))
    assert files_holding(home, WORD) == files_holding(home, WORD.lower()) == []
    async with open_harness(home) as harness:
        assert all(found.ok for found in await harness.verify())
        assert (await harness.query(session_id=session))["session"]["chain"]["status"] == "verified"


async def test_a_long_text_that_another_entry_still_says_stays_there(harness: Harness) -> None:
    session, other = await harness.open(), await harness.open()
    for name in (session, other):
        await harness.begin(name, query_text=LONG)
    await erase(harness, session, await seq_of(harness, session, "turn.begun"))
    assert (await harness.turn(session)).query_text == "[erased]"
    assert (await harness.turn(other)).query_text == LONG
    assert all(found.ok for found in await harness.verify())


async def test_erasing_again_changes_nothing_and_says_so(harness: Harness) -> None:
    session = await harness.open()
    await erase(harness, session, 1)
    rows = harness.rows()
    answered = await erase(harness, session, 1, 1)
    assert (answered["erased"], answered["already_erased"]) == ([], [1])
    assert harness.rows() == rows


async def test_a_session_whose_opening_is_erased_can_still_be_worked_in(harness: Harness) -> None:
    session = await harness.open(title=WORD, agent_id="fixer")
    await erase(harness, session, 1)
    now = await harness.session(session)
    assert (now.title, now.agent, now.agent_id) == ("[erased]", "Codex", "fixer")
    assert await harness.begin(session)
    await projections_equal_a_fold(harness, session)


async def test_a_session_whose_opening_is_erased_keeps_its_names_its_run_and_its_links(harness: Harness) -> None:
    vendor, parent = "e4ee2456-8a54-4492-9915-1904d6b2966a", await harness.open()
    given = {"agent_id": "fixer", "vendor_session_id": vendor, "parent_session_id": parent}
    words = {"title": WORD, "model": WORD, "caller": WORD, "context_excerpt": WORD, "tags": [WORD]}
    session = await harness.open(**given, **words, backend="codex", resonance_tier="bajo")
    before = (await harness.session(session)).run
    assert before is not None
    await erase(harness, session, 1)
    now = await harness.session(session)
    assert (now.agent_id, now.vendor_session_id, now.parent_session_id) == ("fixer", vendor, parent)
    assert now.run is not None
    assert (now.run.alias, now.run.backend, now.run.resonance_tier) == (before.alias, "codex", "bajo")
    assert WORD not in str(now)
    for name in (before.alias, vendor):
        assert (await harness.query(session_id=name))["session"]["session_id"] == session
    await projections_equal_a_fold(harness, session)


async def test_erasing_how_a_session_was_opened_never_loosens_it(harness: Harness) -> None:
    session = await harness.open(client("one"), agent_id="fixer", exclusive=True)
    await erase(harness, session, 1)
    turn = {"session_id": session, "query_title": "x", "query_text": "x"}
    assert (await harness.refusal("begin_turn", turn, client("two"))).code == "lease_lost"
    await harness.call("close_session", {"session_id": session}, client("one"))
    other = await harness.refusal("resume_session", {"agent_id": "Codex", "session_id": session}, client("two"))
    assert other.code == "agent_not_entitled"
    resumed = await harness.call("resume_session", {"agent_id": "fixer"}, client("one"))
    assert resumed["data"]["resumed_session_id"] == session


async def test_a_session_whose_closing_note_is_erased_can_still_be_resumed(harness: Harness) -> None:
    session = await harness.open()
    await harness.call("close_session", {"session_id": session, "reason": "done", "epitaph": WORD})
    await erase(harness, session, await seq_of(harness, session, "session.closed"))
    closing = (await harness.session(session)).closing
    assert closing is not None
    assert (closing.reason, closing.reason_class, closing.note) == ("[erased]", "completed", None)
    resumed = await harness.call("resume_session", {"agent_id": "Codex"})
    assert resumed["data"]["resume_mode"] == "reopened"


async def test_erasing_that_a_session_was_continued_does_not_let_it_be_continued_again(harness: Harness) -> None:
    session = await harness.open()
    closed = await harness.call("close_session", {"session_id": session, "succession_policy": "successor_required"})
    given = {"agent_id": "Codex", "recovery_token": closed["data"]["recovery_token"]}
    successor = (await harness.call("resume_session", given))["data"]["resumed_session_id"]
    await erase(harness, session, await seq_of(harness, session, "session.updated", word=successor))
    refused = await harness.refusal("resume_session", {"agent_id": "Codex", "session_id": session})
    assert (refused.code, refused.details["successor_session_id"]) == ("session_succeeded", successor)


async def test_what_successors_were_handed_of_it_is_erased_with_it(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with open_harness(home, environ={"SHIFTLOG_DURABILITY": "full"}) as harness:
        chain = [await harness.open(agent_id="alpha")]
        await harness.begin(chain[0])
        await harness.update(
            chain[0], dialog=[{"role": "model", "category": "decision", "content": f"Decision: {WORD}"}]
        )
        await harness.complete(chain[0])
        for _ in range(3):
            ended = {"session_id": chain[-1], "succession_policy": "successor_required", "idempotency_key": "close"}
            token = (await harness.call("close_session", ended))["data"]["recovery_token"]
            given = {"agent_id": "alpha", "recovery_token": token, "idempotency_key": f"resume {len(chain)}"}
            chain.append((await harness.call("resume_session", given))["data"]["resumed_session_id"])
            if len(chain) == 3:
                await harness.begin(chain[-1], query_title="Own work")
                await harness.complete(chain[-1])
        answered = await erase(harness, chain[0], await seq_of(harness, chain[0], "dialog"))
        assert list(answered["elsewhere"]) == chain[1:]
        for session in chain[1:]:
            assert (await harness.entries(session))[-1].facts["entries"] == answered["elsewhere"][session]
            await projections_equal_a_fold(harness, session)
        assert all(found.ok for found in await harness.verify())
    assert files_holding(home, WORD) == []


async def test_what_a_turn_was_cleared_of_does_not_come_back_when_the_clearing_is_erased(harness: Harness) -> None:
    session = await harness.open()
    await harness.begin(session)
    await harness.update(session, tags=[WORD], token_count=7)
    await harness.update(session, clear=["tags"], response="x", token_count=9)
    cleared, said = [await seq_of(harness, session, "turn.updated", word=word) for word in ("clear", "response")]
    await erase(harness, session, cleared, said)
    turn = await harness.turn(session)
    assert (turn.tags, turn.response, turn.token_count) == ((), "", 9)
    await projections_equal_a_fold(harness, session)


async def test_the_fence_survives_the_erasure_of_its_grants(harness: Harness) -> None:
    session = await harness.open()
    await harness.call("resume_session", {"agent_id": "Codex"})
    grants = [entry.seq for entry in await harness.entries(session) if entry.kind is Kind.LEASE_TAKEN]
    await erase(harness, session, *grants)
    assert (await harness.session(session)).fence == 2


@pytest.mark.parametrize("seq", [0, -1, 3, 2**40])
async def test_an_entry_that_does_not_exist_is_refused_and_nothing_is_erased(harness: Harness, seq: int) -> None:
    session = await harness.open()
    rows = harness.rows()
    with pytest.raises(InvalidParameter, match=f"has no entry {seq}"):
        await erase(harness, session, 1, seq)
    assert harness.rows() == rows
    assert (await harness.session(session)).title == "Fix upload"


async def test_the_note_of_an_erasure_cannot_be_erased(harness: Harness) -> None:
    session = await harness.open()
    seq = (await erase(harness, session, 1))["seq"]
    with pytest.raises(InvalidParameter, match="is itself the note of an erasure"):
        await erase(harness, session, seq)


async def test_the_reason_of_an_erasure_is_masked_like_any_other_text(harness: Harness) -> None:
    session = await harness.open()
    await erase(harness, session, 1, reason="it held password=hunter2hunter2")
    assert "hunter2" not in str([entry.body for entry in await harness.entries(session)])


async def test_a_receipt_from_before_the_erasure_still_fits(harness: Harness) -> None:
    session = await harness.open(title=WORD)
    await harness.call("close_session", {"session_id": session})
    await erase(harness, session, 1)
    receipts = await harness.read(lambda reader: reader.receipts(session))
    [found] = await harness.verify(session, receipts=receipts)
    assert found.ok


async def test_erasing_in_a_broken_journal_is_refused(harness: Harness) -> None:
    session = await harness.open()
    await harness.begin(session)
    with harness.database() as database:
        database.execute("UPDATE entries SET turn = 'x' WHERE kind = 'turn.begun'")
    rows = harness.rows()
    with pytest.raises(ValueError, match="Journal verification failed"):
        await erase(harness, session, 1)
    assert harness.rows() == rows


async def test_erasing_how_a_session_was_closed_never_loosens_it(harness: Harness) -> None:
    session = await harness.open()
    note = {"epitaph": WORD, "succession_policy": "closed_without_successor"}
    await harness.call("close_session", {"session_id": session, **note})
    await erase(harness, session, await seq_of(harness, session, "session.closed"))
    assert (await harness.session(session)).state == "sealed"
    await harness.refusal("resume_session", {"agent_id": "ClaudeCode", "session_id": session})
