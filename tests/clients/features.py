"""What Shiftlog promises for agents' own clients, and the results file that a run of the real clients writes.

A test names the promise that it tries with `@tries("…")`. docs/clients.md is made of the results.
"""

import json
from pathlib import Path
from typing import Any

import pytest

RESULTS = Path(__file__).with_name("results.json")
CLIENTS = ("claude", "codex", "gemini", "opencode")

# Each promise by the name that tests use, in the order of the page.
FEATURES = {
    "record": "a run is recorded: session, turns, tool calls",
    "one session": "hooks, our tools and the transcript are one session",
    "subagents": "a subagent works in its child session",
    "restarts": "resuming, forking, clearing and compacting keep or link the session",
    "brief": "a killed client's work is handed over to the next start",
    "transcripts": "everything in its transcript is known, and an import afterwards changes nothing",
    "secrets": "secrets are masked in record, page, brief and, where there is one, the rewound transcript",
    "undo": "a turn can be undone, whatever changed the files",
    "rewind": "files and conversation go back together, and the client resumes",
    "export": "a session restored from the journal is resumed",
    "refuse commands": "guard: a shell command is refused",
    "ask about commands": "guard: what the policy asks about",
    "sandbox": "guard: a shell command runs in our sandbox",
    "refuse files": "guard: a file tool is refused",
    "watch": "guard: watching changes nothing and records the verdicts",
    "twenty commands": "guard: twenty commands run and twenty are refused, in each mode",
    "odd commands": "guard: odd commands tell the model the same with the guard and without it",
    "daemon killed": "the daemon is killed in mid-turn: the client goes on, and nothing of the turn is lost",
    "settings changed": "guard: settings that the agent edits are reported",
    "removal": "switching off and removing leave the user's files as they were",
    "doctor": "doctor says what does not work and how to mend it",
}

Outcome = dict[str, Any]


def tries(feature: str) -> pytest.MarkDecorator:
    """Mark a test as a try of a promise."""
    assert feature in FEATURES, feature
    return pytest.mark.tries(feature)


def client_of(item: pytest.Item) -> str | None:
    """Return the client that a test runs; None if it runs none."""
    callspec: Any = getattr(item, "callspec", None)
    given = callspec.params.get("agent") if callspec is not None else None
    names: list[str] = getattr(item, "fixturenames", [])
    return given or next((name for name in CLIENTS if name in names), None)


def read_results() -> Outcome:
    """Return what earlier runs found, by client and test."""
    return json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}


def is_there(test: str) -> bool:
    """Return True if a test of the results, `file.py::name[parameters]`, is still in its file."""
    file, _, name = test.partition("::")
    source = RESULTS.with_name(file)
    return source.exists() and f"def {name.partition('[')[0]}(" in source.read_text("utf-8")


def write_results(found: dict[str, dict[str, Outcome]], versions: dict[str, str]) -> None:
    """Add what this run found; a client in another version begins anew."""
    known = read_results()
    for client, tests in found.items():
        before = known.get(client, {})
        kept: dict[str, Outcome] = before["tests"] if before.get("version") == versions[client] else {}
        there = {test: outcome for test, outcome in (kept | tests).items() if is_there(test)}
        known[client] = {"version": versions[client], "tests": there}
    RESULTS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", "utf-8")
