"""A whole day of an agent: its client writes through the bridge, a person reads it back, the next shift goes on."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.story.agents import (
    REVISIONS,
    Agent,
    Refused,
    check_intact,
    read_record,
    said,
    shiftlog,
    shiftlog_json,
)

CAUSE = "Two workers clean the same temp directory"
DECISION = "Give each worker a directory of its own"
USAGE = {"input_tokens": 1200, "cached_input_tokens": 800, "output_tokens": 90, "cost_usd": 0.0125}


def work(agent: Agent, session_id: str) -> dict[str, str]:
    """Live through a day of three turns, the second of which is given up; return their ids by what they were."""
    first = agent.call(
        "begin_turn", session_id=session_id, query_title="Why does the upload test flake?", query_text="Find the cause."
    )["request_id"]
    agent.call(
        "update_turn",
        session_id=session_id,
        dialog=[said("model", "reasoning", "Runs alone it passes"), said("model", "observation", CAUSE)],
        actions=[{"description": "Read the fixture", "type": "web_reference", "status": "completed"}],
        usage=USAGE,
        tags=["flake"],
    )
    agent.call("finish_turn", session_id=session_id, outcome="completed", response=CAUSE)
    second = agent.call("begin_turn", session_id=session_id, query_title="Add a lock", query_text="Lock it.")[
        "request_id"
    ]
    begun = agent.call("begin_turn", session_id=session_id, query_title="No lock", query_text="No, without a lock.")
    assert begun["superseded_request_id"] == second
    agent.call(
        "finish_turn",
        session_id=session_id,
        outcome="completed",
        response="Done, and it no longer flakes in 500 runs",
        design_decisions=[DECISION],
        dialog=[said("model", "decision", DECISION)],
        actions=[
            {"description": "tmp_path instead", "type": "edit", "status": "completed", "file_path": "tests/upload.py"}
        ],
        usage=USAGE,
    )
    return {"first": first, "superseded": second, "last": begun["request_id"]}


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_day_is_recorded_read_back_proved_and_gone_on_with(revision: str, home: Path, tmp_path: Path) -> None:
    with Agent(home, revision=revision) as agent:
        opened = agent.call(
            "open_session", agent="ClaudeCode", agent_id="fixer", title="Mend the upload test", model="opus"
        )
        name = opened["session_id"]
        turns = work(agent, name)
        closed = agent.call("close_session", session_id=name, reason="end of shift", epitaph="Look at CI tomorrow")
        agent.leave()
    kept = tmp_path / "receipt.json"
    kept.write_text(json.dumps(closed["data"]["receipt"]))

    check_what_a_person_reads(home, name, turns)
    report = shiftlog_json(home, "verify", name, "--receipt", str(kept))
    assert (report["ok"], report["receipts_checked"]) == (True, 1)
    assert report["entries_checked"] == closed["data"]["entry_count"] == len(read_record(home))
    assert "intact" in shiftlog(home, "verify", "--receipt", str(kept))

    with Agent(home, revision=revision) as agent:
        with pytest.raises(Refused) as refused:
            agent.call("begin_turn", session_id=name, query_title="Later", query_text="later")
        assert refused.value.error["code"] == "session_closed"
        resumed = agent.call("resume_session", agent_id="fixer")["data"]
        assert resumed["resumed_session_id"] == name
        assert (resumed["state_before"], resumed["resume_mode"]) == ("closed", "reopened")
        assert resumed["lease"]["fence"] > opened["lease"]["fence"]
        handed = json.dumps(resumed["capsule"])
        for text in ("Mend the upload test", DECISION, "tests/upload.py"):
            assert text in handed
        agent.call("begin_turn", session_id=name, query_title="Look at CI", query_text="Is it green?")
        agent.call("finish_turn", session_id=name, outcome="failed", error_message="CI is down")
        agent.call("close_session", session_id=name)

    assert check_intact(home)["sessions_checked"] == 1
    assert shiftlog_json(home, "verify", "--receipt", str(kept))["ok"] is True, "what grew is still what was signed"
    forged = json.loads(kept.read_text()) | {"head_hash": "sha256:" + "0" * 64}
    kept.write_text(json.dumps(forged))
    assert shiftlog_json(home, "verify", "--receipt", str(kept), status=1)["ok"] is False


def check_what_a_person_reads(home: Path, name: str, turns: dict[str, str]) -> None:
    listed = shiftlog_json(home, "sessions", "--agent-id", "fixer")["items"]
    assert [(item["session_id"], item["state"], item["turns"]) for item in listed] == [(name, "closed", 3)]

    shown: dict[str, Any] = shiftlog_json(home, "show", name)
    by_id = {turn["request_id"]: turn for turn in shown["turns"]}
    assert list(by_id) == list(turns.values())
    assert [turn["status"] for turn in shown["turns"]] == ["completed", "failed", "completed"]
    assert by_id[turns["superseded"]]["error_code"] == "superseded"
    contents = by_id[turns["first"]]["contents"]
    assert [item.get("content") or item.get("description") for item in contents] == [
        "Runs alone it passes",
        CAUSE,
        "Read the fixture",
    ]
    page = shiftlog(home, "show", name)
    for text in ("Mend the upload test", CAUSE, DECISION, "tests/upload.py", "superseded"):
        assert text in page

    hits = shiftlog_json(home, "search", "own directory", "--kind", "decision")["items"]
    assert [hit["session_id"] for hit in hits] == [name, name]
    assert all("«" in hit["snippet"] for hit in hits)
    assert "Mend the upload test" in shiftlog(home, "search", "flake*")
    assert "Nothing found" in shiftlog(home, "search", "zeppelin")


def test_both_revisions_tell_the_same_day_in_the_same_words(home: Path) -> None:
    told: list[list[str]] = []
    for revision in REVISIONS:
        with Agent(home, revision=revision) as agent:
            name = agent.call("open_session", agent="Codex", title=f"By {revision}")["session_id"]
            work(agent, name)
            agent.call("close_session", session_id=name)
        told.append([line.kind for line in read_record(home) if line.session_id == name])
    assert told[0] == told[1]


def test_a_session_that_nobody_closed_is_there_for_the_next_shift(home: Path) -> None:
    with Agent(home) as agent:
        name = agent.call("open_session", agent="Codex", agent_id="night", title="Night shift")["session_id"]
        agent.call("begin_turn", session_id=name, query_title="Migrate", query_text="Migrate the table.")
        agent.call("update_turn", session_id=name, blockers=["The replica lags"])
        agent.bridge.process.kill()
    with Agent(home) as agent:
        opened = agent.call("open_session", agent="Codex", agent_id="night", title="Morning shift")
        assert opened["predecessor"]["session_id"] == name
        resumed = agent.call("resume_session", agent_id="night", session_id=name)["data"]
        assert resumed["continuity_signals"]["open_turn"] is True
        assert "The replica lags" in json.dumps(resumed["capsule"])
        agent.call("finish_turn", session_id=name, outcome="completed", response="Migrated")
    check_intact(home)
