"""The hash chain: recomputed by other means, and every kind of damage named with its first bad entry."""

import base64
import hashlib
import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from shiftlog.journal.chain import ChainCheck
from shiftlog.journal.signing.keys import Keys, receipt_from
from shiftlog.model.nouns import Receipt
from tests.journal.harness import SEQ_BITS, Harness, open_harness, row_id, tamper

LONG = "a text that is too long for a row " * 200


async def written(harness: Harness) -> str:
    """Write a session of a dozen entries with short, long, numeric and foreign content."""
    session = await harness.open(title="Prüfung – 検査", tags=["a"], model="m")
    await harness.begin(session, query_text=LONG)
    await harness.update(
        session,
        tags=["é", "\U0001f600"],
        dialog=[{"role": "tool", "category": "tool_result", "content": 'quotes " and \\ and \n'}],
        actions=[{"description": "Edit", "type": "edit", "status": "completed", "file_path": "a.py"}],
        usage={"input_tokens": 10, "cost_usd": 0.1},
    )
    await harness.complete(session)
    await harness.begin(session)
    await harness.fail(session)
    return session


def stored(home: Path, session: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(home / "shiftlog.db")) as database:
        key = database.execute("SELECT key FROM journals WHERE id = ?", (session,)).fetchone()[0]
        return database.execute(
            "SELECT id & ?, kind, at, turn, body, salt, body_hash, hash FROM entries WHERE id >> ? = ? ORDER BY id",
            ((1 << SEQ_BITS) - 1, SEQ_BITS, key),
        ).fetchall()


def spelled(value: object) -> bytes:
    """Write canonical JSON with the standard library: enough where no float needs an exponent."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


async def test_the_chain_is_the_one_of_the_design_computed_with_hashlib_alone(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with open_harness(home) as harness:
        session = await written(harness)
        head = (await harness.session(session)).head_hash
        bodies = [entry.body for entry in await harness.entries(session)]
    prev = hashlib.sha256(session.encode()).digest()
    rows = stored(home, session)
    for body, (seq, kind, at, turn, _, salt, body_hash, digest) in zip(bodies, rows, strict=True):
        assert len(salt) == 16
        assert hashlib.sha256(salt + spelled(body)).digest() == body_hash
        facts = {"seq": seq, "kind": kind, "at": at, "turn": turn, "body_hash": f"sha256:{body_hash.hex()}"}
        prev = hashlib.sha256(prev + spelled(facts)).digest()
        assert prev == digest
    assert head == f"sha256:{prev.hex()}"
    assert [row[0] for row in rows] == list(range(1, len(rows) + 1))


async def test_equal_bodies_have_different_hashes(harness: Harness) -> None:
    session = await harness.open()
    await harness.begin(session)
    item = {"role": "tool", "category": "observation", "content": "same"}
    await harness.update(session, dialog=[item, item])
    *_, one, other = await harness.entries(session)
    assert one.body == other.body
    assert one.body_hash != other.body_hash


async def after(home: Path, session: str, *sql: str, receipts: list[Receipt] | None = None) -> ChainCheck:
    """Return what verify finds after edits in which `{n}` is the row of the nth entry."""
    rows = {f"{n}": row_id(home, session, n) for n in range(1, 30)}
    for statement in sql:
        for name, row in rows.items():
            statement = statement.replace(f"{{{name}}}", str(row))
        tamper(home, statement)
    async with open_harness(home) as harness:
        [found] = await harness.verify(session, receipts=receipts)
        return found


@pytest.fixture
async def closed(tmp_path: Path) -> tuple[Path, str, Receipt]:
    """A state directory whose app is closed, a session in it, and the receipt of the session's close."""
    home = tmp_path / "home"
    async with open_harness(home) as harness:
        session = await written(harness)
        answered = await harness.call("close_session", {"session_id": session})
    return home, session, receipt_from(json.loads(json.dumps(answered)))


Closed = tuple[Path, str, Receipt]


async def test_an_untouched_journal_verifies(closed: Closed) -> None:
    home, session, receipt = closed
    async with open_harness(home) as harness:
        [found] = await harness.verify(session, receipts=[receipt])
    assert found.ok
    assert (found.entries, found.erased, found.seq) == (receipt.seq, 0, None)


@pytest.mark.parametrize(
    ("edits", "kind", "seq"),
    [
        (['UPDATE entries SET body = CAST(\'{"title":"Other"}\' AS BLOB) WHERE id = {1}'], "edited", 1),
        (
            ["UPDATE entries SET body = CAST(replace(CAST(body AS TEXT), 'Edit', 'X') AS BLOB) WHERE id = {6}"],
            "edited",
            6,
        ),
        (["UPDATE entries SET body = CAST('no JSON at all' AS BLOB) WHERE id = {5}"], "edited", 5),
        (["UPDATE entries SET body = CAST('[1, 2]' AS BLOB) WHERE id = {5}"], "edited", 5),
        (["UPDATE entries SET body = NULL, salt = NULL WHERE id = {5}"], "edited", 5),
        (["UPDATE entries SET body = NULL WHERE id = {5}"], "edited", 5),
        (["UPDATE entries SET salt = x'00' WHERE id = {5}"], "edited", 5),
        (["UPDATE entries SET kind = 'action' WHERE id = {5}"], "edited", 5),
        (["UPDATE entries SET kind = 'unheard.of' WHERE id = {5}"], "edited", 5),
        (["UPDATE entries SET at = '2026-07-01T12:00:00.001Z' WHERE id = {4}"], "edited", 4),
        (["UPDATE entries SET at = 'yesterday' WHERE id = {4}"], "edited", 4),
        (["UPDATE entries SET turn = 'req-20260701T120000Z-other' WHERE id = {4}"], "edited", 4),
        (["UPDATE entries SET turn = NULL WHERE id = {4}"], "edited", 4),
        (["UPDATE entries SET body_hash = zeroblob(32) WHERE id = {4}"], "edited", 4),
        (["UPDATE entries SET hash = zeroblob(32) WHERE id = {4}"], "edited", 4),
        (["DELETE FROM entries WHERE id = {1}"], "missing", 1),
        (["DELETE FROM entries WHERE id = {6}"], "missing", 6),
        (["DELETE FROM entries WHERE id >= {6} AND id <= {8}"], "missing", 6),
        (["DELETE FROM entries WHERE id >= {10}"], "truncated", 10),
        (["DELETE FROM entries WHERE id >= {1} AND id < {1} + 100"], "truncated", 1),
        (
            [
                "UPDATE entries SET id = -1 WHERE id = {4}",
                "UPDATE entries SET id = {4} WHERE id = {6}",
                "UPDATE entries SET id = {6} WHERE id = -1",
            ],
            "reordered",
            4,
        ),
        (
            [
                "DELETE FROM entries WHERE id = {5}",
                "UPDATE entries SET id = id - 1 WHERE id = {6}",
                "UPDATE entries SET id = id - 1 WHERE id = {7}",
            ],
            "edited",
            5,
        ),
        (["UPDATE journals SET head_hash = zeroblob(32)"], "edited", 13),
        (["UPDATE journals SET head_seq = 12"], "edited", 13),
        (["DELETE FROM blobs"], "edited", 3),
        (["UPDATE blobs SET data = x'28b52ffd0000'"], "edited", 3),
    ],
    ids=str,
)
async def test_damage_is_named_with_its_first_bad_entry(closed: Closed, edits: list[str], kind: str, seq: int) -> None:
    home, session, receipt = closed
    assert receipt.seq == 13
    found = await after(home, session, *edits)
    assert not found.ok
    assert (found.kind, found.seq) == (kind, seq)


async def test_a_tail_cut_off_with_its_head_shows_only_against_a_receipt_kept_elsewhere(closed: Closed) -> None:
    home, session, receipt = closed
    with closing(sqlite3.connect(home / "shiftlog.db")) as database:
        row = row_id(home, session, 9)
        digest = database.execute("SELECT hash FROM entries WHERE id = ?", (row,)).fetchone()[0]
    tamper(home, "UPDATE journals SET head_seq = 9, head_hash = ? WHERE id = ?", digest, session)
    tamper(home, "DELETE FROM receipts")
    cut = "DELETE FROM entries WHERE id > {9}"
    assert (await after(home, session, cut)).kind == "projection"
    async with open_harness(home) as harness:
        await harness.rebuild()
        assert (await harness.verify(session))[0].ok, "nothing inside the file tells any more"
        [found] = await harness.verify(session, receipts=[receipt])
    assert (found.kind, found.seq) == ("truncated", 10)
    assert "receipt names entry 13" in found.note


async def test_a_journal_written_anew_shows_against_a_receipt(tmp_path: Path) -> None:
    name = "Codex-20260701T120000Z-same"
    receipts: list[Receipt] = []
    for home in (tmp_path / "one", tmp_path / "two"):
        async with open_harness(home) as harness:
            await harness.open(session_id=name)
            answered = await harness.call("close_session", {"session_id": name})
            receipts.append(receipt_from(answered))
            if home.name == "two":
                (home / "keys" / f"{receipts[0].key_id}.pub").write_bytes(
                    (tmp_path / "one" / "keys" / f"{receipts[0].key_id}.pub").read_bytes()
                )
                [found] = await harness.verify(name, receipts=[receipts[0]])
                assert (found.kind, found.seq) == ("edited", receipts[0].seq)


async def test_a_session_that_is_gone_shows_against_its_receipt(closed: Closed, tmp_path: Path) -> None:
    _, session, receipt = closed
    async with open_harness(tmp_path / "empty") as harness:
        [found] = await harness.verify(receipts=[receipt])
    assert (found.session_id, found.kind, found.seq) == (session, "missing", 1)


@pytest.mark.parametrize("change", ["signature", "seq", "at", "head_hash", "key_id"])
async def test_a_forged_receipt_is_named(closed: Closed, change: str) -> None:
    home, session, receipt = closed
    forged = {
        "signature": "AAAA" + receipt.signature[4:],
        "seq": 5,
        "at": receipt.at.replace(year=2020),
        "head_hash": "sha256:" + "0" * 64,
        "key_id": "0123456789abcdef",
    }
    async with open_harness(home) as harness:
        [found] = await harness.verify(session, receipts=[replace(receipt, **{change: forged[change]})])
    assert found.kind == "signature"
    assert found.seq == (5 if change == "seq" else 13)


async def test_a_receipt_forged_inside_the_store_is_named(closed: Closed) -> None:
    home, session, _ = closed
    edit = "UPDATE receipts SET doc = CAST(replace(CAST(doc AS TEXT), '\"seq\":13', '\"seq\":12') AS BLOB)"
    found = await after(home, session, edit)
    assert (found.kind, found.seq) == ("signature", 12)


async def test_damage_comes_before_a_forged_receipt(closed: Closed) -> None:
    home, session, receipt = closed
    tamper(home, "UPDATE entries SET turn = NULL WHERE id = ?", row_id(home, session, 4))
    async with open_harness(home) as harness:
        [found] = await harness.verify(session, receipts=[replace(receipt, signature="x")])
    assert (found.kind, found.seq) == ("edited", 4)


async def test_a_broken_chain_is_not_rebuilt(closed: Closed) -> None:
    home, session, _ = closed
    tamper(home, "UPDATE entries SET turn = NULL WHERE id = ?", row_id(home, session, 4))
    async with open_harness(home) as harness:
        before = await harness.session(session)
        with pytest.raises(ValueError, match="Journal verification failed") as refused:
            await harness.rebuild(session)
        assert getattr(refused.value, "details", {})["first_bad_seq"] == 4
        assert await harness.session(session) == before


async def test_every_session_is_verified_and_each_finding_names_its_own(closed: Closed) -> None:
    home, session, _ = closed
    async with open_harness(home) as harness:
        other = await harness.open(title="Other")
    tamper(home, "DELETE FROM entries WHERE id = ?", row_id(home, other, 1))
    async with open_harness(home) as harness:
        findings = {found.session_id: found for found in await harness.verify()}
    assert findings[session].ok
    assert (findings[other].kind, findings[other].seq) == ("missing", 1)


# Rebuilding


@pytest.mark.parametrize(
    "edit",
    [
        "DELETE FROM turns",
        "UPDATE turns SET status = 'failed'",
        "UPDATE sessions SET doc = CAST(replace(CAST(doc AS TEXT), 'Pr', 'Xr') AS BLOB)",
        "DELETE FROM sessions",
    ],
)
async def test_projections_that_were_lost_or_changed_come_back(closed: Closed, edit: str) -> None:
    home, session, _ = closed
    async with open_harness(home) as harness:
        before = (await harness.session(session), await harness.read(lambda reader: reader.turns(session)))
    tamper(home, edit)
    async with open_harness(home) as harness:
        await harness.rebuild(session)
        assert (await harness.session(session), await harness.read(lambda reader: reader.turns(session))) == before
        assert not (await harness.rebuild(session))[0].changed
        assert (await harness.query(kinds=["turn"], turn_status="completed"))["total"] == 1
        assert (await harness.query(text="foreign || quotes"))["total"] == 1


# Keys and receipts


async def test_a_receipt_is_signed_over_its_canonical_form(closed: Closed) -> None:
    home, _, receipt = closed
    public = Ed25519PublicKey.from_public_bytes((home / "keys" / f"{receipt.key_id}.pub").read_bytes())
    document = {
        "at": "2026-07-01T12:00:00Z",
        "head_hash": receipt.head_hash,
        "key_id": receipt.key_id,
        "seq": 13,
        "session_id": receipt.session_id,
        "test_clock": True,
    }
    public.verify(base64.b64decode(receipt.signature), b"shiftlog-receipt-v1\n" + spelled(document))
    assert receipt.key_id == hashlib.sha256(public.public_bytes_raw()).hexdigest()[:16]


async def test_the_key_is_made_once_and_nobody_else_may_read_it(tmp_path: Path) -> None:
    one, again = Keys.load(tmp_path / "keys"), Keys.load(tmp_path / "keys")
    assert one.key_id == again.key_id
    assert (tmp_path / "keys" / "ed25519").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "keys").stat().st_mode & 0o777 == 0o700
    assert {path.name for path in (tmp_path / "keys").iterdir()} == {f"{one.key_id}.pub", "ed25519"}


async def test_receipts_of_a_key_that_was_replaced_still_verify(closed: Closed) -> None:
    home, session, receipt = closed
    (home / "keys" / "ed25519").write_bytes(Ed25519PrivateKey.generate().private_bytes_raw())
    async with open_harness(home) as harness:
        assert harness.app.keys.key_id != receipt.key_id
        [found] = await harness.verify(session, receipts=[receipt])
    assert found.ok


async def test_a_public_key_that_is_no_key_proves_nothing(closed: Closed) -> None:
    home, _, receipt = closed
    (home / "keys" / f"{receipt.key_id}.pub").write_bytes(b"short")
    async with open_harness(home) as harness:
        assert not harness.app.keys.is_signed(receipt)


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        "x",
        {},
        {"seq": 1},
        {"session_id": "s", "seq": "1", "head_hash": "h", "at": "x", "key_id": "k", "signature": "s"},
    ],
)
def test_what_is_no_receipt_is_refused(document: object) -> None:
    with pytest.raises(ValueError, match=r"receipt|Invalid isoformat"):
        receipt_from(document)


def test_a_receipt_with_a_seq_that_is_no_number_is_refused() -> None:
    document = {
        "session_id": "s",
        "seq": [1],
        "head_hash": "h",
        "at": "2026-07-01T12:00:00Z",
        "key_id": "k",
        "signature": "s",
    }
    with pytest.raises(ValueError, match="integer"):
        receipt_from(document)
