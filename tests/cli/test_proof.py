"""`verify`, `rebuild` and `erase`: a record that somebody changed behind our back, and one that nobody did."""

import json
import os
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shiftlog.model.ids import short_id
from tests.cli.agent import agent
from tests.cli.support import Terminal, closed, on_terminal, recorded_session, shiftlog, write

PRIVATE = [{"role": "model", "category": "reasoning", "content": "a private thought"}]


@contextmanager
def database(home: Path) -> Generator[sqlite3.Connection]:
    """Open the database as somebody would who wants to change the record."""
    shiftlog(home, "daemon", "stop")
    connection = sqlite3.connect(home / "shiftlog.db")
    try:
        yield connection
        connection.commit()
    finally:
        connection.close()


def entry_id(connection: sqlite3.Connection, session_id: str, seq: int) -> int:
    (key,) = connection.execute("SELECT key FROM journals WHERE id = ?", (session_id,)).fetchone()
    return (key << 24) + seq


def broken(home: Path, *arguments: str) -> tuple[str, int]:
    """Return the kind and the place of the one thing that is broken."""
    report = shiftlog(home, "verify", "--json", *arguments, status=1).json()
    assert not report["ok"]
    (finding,) = report["broken"]
    return finding["kind"], finding["seq"]


def test_an_untouched_record_is_intact(demo: Path) -> None:
    assert shiftlog(demo, "verify").out == "intact  1 session, 30 entries.\n"
    report = shiftlog(demo, "verify", "last", "--json").json()
    assert report == {
        "ok": True,
        "sessions_checked": 1,
        "entries_checked": 30,
        "bodies_erased": 0,
        "receipts_checked": 0,
        "broken": [],
    }


def test_an_empty_record_has_nothing_to_verify(home: Path) -> None:
    assert shiftlog(home, "verify").out == "There is no session to verify yet.\n"


def test_a_changed_body_is_found_and_named(home: Path) -> None:
    session_id = recorded_session(home)
    with database(home) as connection:
        connection.execute(
            "UPDATE entries SET body = CAST(replace(body, 'do it', 'stop') AS BLOB) WHERE id = ?",
            (entry_id(connection, session_id, 3),),
        )
        assert connection.total_changes == 1
    done = shiftlog(home, "verify", status=1)
    assert done.out.splitlines()[:2] == [
        f"broken  {session_id}",
        "        edited: entry 3 was changed after it was written",
    ]
    assert broken(home, session_id) == ("edited", 3)


def test_a_removed_entry_is_found(home: Path) -> None:
    session_id = recorded_session(home)
    with database(home) as connection:
        connection.execute("DELETE FROM entries WHERE id = ?", (entry_id(connection, session_id, 3),))
    assert broken(home) == ("missing", 3)


def test_entries_that_changed_places_are_found(home: Path) -> None:
    session_id = recorded_session(home, dialog=PRIVATE)
    with database(home) as connection:
        third, fourth = (entry_id(connection, session_id, seq) for seq in (3, 4))
        for old, new in ((third, -1), (fourth, third), (-1, fourth)):
            connection.execute("UPDATE entries SET id = ? WHERE id = ?", (new, old))
    assert broken(home) == ("reordered", 3)


def test_a_removed_end_is_found_against_a_receipt(home: Path, tmp_path: Path) -> None:
    session_id = recorded_session(home)
    receipt = closed(home, session_id)
    kept = tmp_path / "receipt.json"
    kept.write_text(json.dumps({"data": {"receipt": receipt}}))
    assert "1 receipt met" in shiftlog(home, "verify", session_id, "--receipt", str(kept)).out
    with database(home) as connection:
        last = entry_id(connection, session_id, receipt["seq"])
        connection.execute("DELETE FROM entries WHERE id = ?", (last,))
        (head,) = connection.execute("SELECT hash FROM entries WHERE id = ?", (last - 1,)).fetchone()
        connection.execute(
            "UPDATE journals SET head_seq = head_seq - 1, head_hash = ? WHERE id = ?", (head, session_id)
        )
        connection.execute("DELETE FROM receipts")
    assert broken(home)[0] == "projection"
    shiftlog(home, "rebuild")
    assert shiftlog(home, "verify").status == 0
    assert broken(home, "--receipt", str(kept)) == ("truncated", receipt["seq"])
    assert broken(home, "--receipt", str(kept), "--only-receipts") == ("truncated", receipt["seq"])


def test_a_receipt_of_a_session_that_is_gone_is_a_broken_record(demo: Path, home: Path, tmp_path: Path) -> None:
    kept = tmp_path / "receipt.json"
    kept.write_text(json.dumps(closed(home, recorded_session(home))))
    done = shiftlog(demo, "verify", "--receipt", str(kept), status=1)
    assert "missing: a receipt of " in done.out
    assert broken(demo, "--receipt", str(kept), "--only-receipts") == ("missing", 1)


def test_a_receipt_can_come_through_a_pipe(home: Path) -> None:
    receipt = closed(home, recorded_session(home))
    shiftlog(home, "verify", "--receipt", "-", stdin=json.dumps(receipt))
    forged = {**receipt, "signature": receipt["signature"][::-1]}
    assert shiftlog(home, "verify", "--receipt", "-", status=1, stdin=json.dumps(forged)).out.splitlines()[1:2] == [
        f"        signature: no known key signed the receipt of {receipt['at']} (key {receipt['key_id']})"
    ]


def test_a_receipt_of_another_session_is_refused(home: Path, tmp_path: Path) -> None:
    first, second = recorded_session(home, title="One"), recorded_session(home, title="Two")
    kept = tmp_path / "receipt.json"
    kept.write_text(json.dumps(closed(home, first)))
    done = shiftlog(home, "verify", second, "--receipt", str(kept), status=2)
    assert f"It is of {first}, not of {second}." in done.err
    assert shiftlog(home, "verify", "--receipt", str(kept)).status == 0


@pytest.mark.parametrize(
    ("text", "says"),
    [("{", "it is not JSON"), ("[]", "a receipt is a JSON object"), ("{}", "a receipt has the key 'at'")],
)
def test_what_is_no_receipt_is_refused(demo: Path, tmp_path: Path, text: str, says: str) -> None:
    kept = tmp_path / "receipt.json"
    kept.write_text(text)
    assert f"{kept} is not a receipt: {says}" in shiftlog(demo, "verify", "--receipt", str(kept), status=2).err


def test_only_receipts_needs_receipts(demo: Path) -> None:
    assert "--only-receipts" in shiftlog(demo, "verify", "--only-receipts", status=2).err


def test_rebuilding_changes_nothing_in_a_sound_record(demo: Path) -> None:
    assert shiftlog(demo, "rebuild").out == ("1 session rebuilt from 30 entries.\nNothing had to be corrected.\n")
    assert shiftlog(demo, "rebuild", "last", "--json").json() == {"sessions": 1, "entries": 30, "changed": []}


def test_rebuilding_repairs_what_follows_from_the_journal(home: Path) -> None:
    session_id = recorded_session(home)
    with database(home) as connection:
        connection.execute("UPDATE turns SET doc = CAST(replace(doc, 'It is done', 'It is not') AS BLOB)")
    assert "It is not" in shiftlog(home, "show", session_id).out
    assert f"corrected  {session_id}" in shiftlog(home, "rebuild").out
    assert "It is done" in shiftlog(home, "show", session_id).out


def test_rebuilding_refuses_a_broken_record(home: Path) -> None:
    session_id = recorded_session(home)
    with database(home) as connection:
        connection.execute("DELETE FROM entries WHERE id = ?", (entry_id(connection, session_id, 3),))
    error = shiftlog(home, "rebuild", "--json", status=1).json()["error"]
    assert error["code"] == "journal_tampered"
    assert error["details"]["first_bad_seq"] == 3
    assert "shiftlog verify" in shiftlog(home, "rebuild", status=1).err


def test_erasing_takes_capsules_along_and_keeps_the_chain(home: Path) -> None:
    session_id = recorded_session(home, dialog=PRIVATE)
    capsule = closed(home, session_id)["seq"] - 1
    done = shiftlog(home, "erase", session_id, "--entry", "4", "--reason", "asked to", "--yes")
    assert done.out.splitlines() == [
        f"erased  1 entry of {session_id}",
        f"        with entry {capsule}: capsules that repeated it",
        f"        entry {capsule + 2} says what was erased and why",
        "intact  the chain still verifies",
    ]
    checked = shiftlog(home, "verify").out
    assert checked.startswith("intact  1 session")
    assert checked.endswith("2 bodies were erased on purpose; the chain holds without them.\n")
    assert shiftlog(home, "search", "private").out == "Nothing found.\n"
    assert "asked to" in shiftlog(home, "tail", session_id, "-n", "1").out
    again = shiftlog(home, "erase", session_id, "--entry", "4", "--reason", "asked to", "--yes")
    assert again.out == "These entries were erased before; nothing was changed.\n"


def test_erasing_names_what_successors_were_handed(home: Path) -> None:
    session_id = recorded_session(home, dialog=PRIVATE)
    ended = write(home, "close_session", session_id=session_id, succession_policy="successor_required")["data"]
    given = {"agent_id": ended["agent_id"], "recovery_token": ended["recovery_token"]}
    successor = write(home, "resume_session", **given)["data"]["resumed_session_id"]
    done = shiftlog(home, "erase", session_id, "--entry", "4", "--reason", "asked to", "--yes").out
    assert f"        with entry 2 of {successor}: what it was handed\n" in done
    assert shiftlog(home, "verify").out.startswith("intact  2 sessions")


def test_one_erased_body_is_told_as_one(home: Path) -> None:
    session_id = recorded_session(home, dialog=PRIVATE)
    shiftlog(home, "erase", session_id, "--entry", "4", "--reason", "asked to", "--yes")
    assert shiftlog(home, "verify").out.endswith("1 body was erased on purpose; the chain holds without it.\n")


def test_erasing_as_json_tells_what_went_along(home: Path) -> None:
    session_id = recorded_session(home, dialog=PRIVATE)
    capsule = closed(home, session_id)["seq"] - 1
    erased = shiftlog(home, "erase", "last", "--entry", "4", "--reason", "x", "--yes", "--json").json()
    assert erased["session_id"] == session_id
    assert erased["erased"] == [4, capsule]
    assert erased["derived"] == [capsule]
    assert erased["chain"] == "verified"


def test_erasing_what_is_said_of_a_command_takes_its_output_along(home: Path) -> None:
    shiftlog(home, "exec", "--", "echo a private' 'output")
    shiftlog(home, "exec", "--", "echo a public output")
    private = shiftlog(home, "search", "private", "--json").json()["items"][0]["session_id"]
    said = [json.loads(line) for line in shiftlog(home, "tail", private, "--json").out.splitlines()]
    [seq] = [entry["seq"] for entry in said if entry["entry_kind"] == "command.finished"]
    assert any(b"a private output" in file.read_bytes() for file in (home / "outputs").rglob("*") if file.is_file())
    erase = ("erase", private, "--entry", str(seq), "--reason", "x", "--yes")
    assert "with the output of 1 command" in shiftlog(home, *erase).out
    left = b"".join(file.read_bytes() for file in (home / "outputs").rglob("*") if file.is_file())
    assert b"a private output" not in left
    assert b"a public output" in left
    assert shiftlog(home, *erase, "--json").json()["outputs_removed"] == 0


@pytest.mark.parametrize("left", ["", "; (read x < gate; echo more private' 'output) & "])
def test_erasing_what_is_said_of_a_command_reaches_a_shell_that_still_lives(
    home: Path, tmp_path: Path, left: str
) -> None:
    os.mkfifo(tmp_path / "gate")
    with agent(home) as client:
        shell = client.call("open_shell", cwd=str(tmp_path))
        command = f"echo a private' 'output{left}"
        ran = client.call("run_command", shell_id=shell["shell_id"], command=command)
        said = [json.loads(line) for line in shiftlog(home, "tail", shell["session_id"], "--json").out.splitlines()]
        seqs = [str(entry["seq"]) for entry in said if entry["entry_kind"].startswith("command.")]
        entries = [word for seq in seqs for word in ("--entry", seq)]
        shiftlog(home, "erase", shell["session_id"], *entries, "--reason", "x", "--yes")
        if left:
            (tmp_path / "gate").write_text("\n", encoding="utf-8")
        assert client.call("read_output", command_id=ran["command_id"])["error"]["code"] == "command_not_found"
        assert client.call("list_shells")["shells"][0]["last_command"]["command"] == ""
        assert client.call("run_command", shell_id=shell["shell_id"], command="wait; echo on")["stdout"] == "on"
        client.call("close_shell", shell_id=shell["shell_id"])
    files = b"".join(file.read_bytes() for file in (home / "outputs").rglob("*") if file.is_file())
    assert b"private output" not in files


def test_erasing_needs_a_reason_that_says_something(home: Path) -> None:
    session_id = recorded_session(home, dialog=PRIVATE)
    assert "reason" in shiftlog(home, "erase", session_id, "--entry", "4", "--reason", " ", "--yes", status=2).err
    assert shiftlog(home, "verify", "--json").json()["bodies_erased"] == 0


def test_erasing_asks_first(home: Path) -> None:
    session_id = recorded_session(home, dialog=PRIVATE)
    erase = ("erase", session_id, "--entry", "4", "--reason", "x")
    done = shiftlog(home, *erase, status=2)
    assert "cannot be undone" in done.err
    assert "--yes" in done.err
    named = ("erase", short_id(session_id), *erase[2:])
    with Terminal(home, *named, width=200) as terminal:
        terminal.wait_for(f"Erase what entry 4 of 'Fix the login' ({session_id}) said, for good? [y/N]")
        terminal.press("n\n")
        assert terminal.end() == 1
    assert "Nothing was erased." in terminal.plain
    assert "a private thought" in shiftlog(home, "show", "last").out
    with Terminal(home, *erase) as terminal:
        terminal.wait_for("for good? [y/N]")
        terminal.press("y\n")
        assert terminal.end() == 0
    assert "a private thought" not in shiftlog(home, "show", "last").out


def test_an_entry_that_does_not_exist_is_not_erased(demo: Path) -> None:
    done = shiftlog(demo, "erase", "last", "--entry", "99", "--reason", "x", "--yes", status=2)
    assert "has no entry 99" in done.err


def test_a_quick_check_shows_no_bar(demo: Path) -> None:
    shown = on_terminal(demo, "verify").plain
    assert shown == "intact  1 session, 30 entries.\n"


def test_a_changed_output_is_named(home: Path) -> None:
    shiftlog(home, "exec", "--", "seq 1 2000; echo small >&2")
    assert shiftlog(home, "verify").out.startswith("intact")
    (output,) = (home / "outputs").rglob("*.stdout")
    text = output.read_bytes()
    output.write_bytes(text.replace(b"1000", b"9999"))
    assert broken(home)[0] == "output"
    said = shiftlog(home, "verify", status=1).out
    assert "output: the kept stdout of command " in said
    output.write_bytes(text)
    assert shiftlog(home, "verify").out.startswith("intact")
    (index,) = (home / "outputs").rglob("finished.log")
    index.write_bytes(index.read_bytes().replace(b"small", b"large"))
    assert "output: the kept stderr of command " in shiftlog(home, "verify", status=1).out


def test_what_is_shown_otherwise_than_recorded_is_named_and_rebuilt(home: Path) -> None:
    recorded_session(home)
    with database(home) as connection:
        connection.execute("UPDATE turns SET doc = CAST(replace(CAST(doc AS TEXT), 'It is done', 'It is not') AS BLOB)")
    assert "It is not" in shiftlog(home, "show", "last").out
    said = shiftlog(home, "verify", status=1).out
    assert "projection: what is shown differs from the journal in response of turn " in said
    assert "shiftlog rebuild repairs that" in said
    shiftlog(home, "rebuild")
    assert shiftlog(home, "verify").out.startswith("intact")
    assert "It is done" in shiftlog(home, "show", "last").out
