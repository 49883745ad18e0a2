"""Acceptance cases 43 and 44: no secret reaches a file, whichever way it came."""

import json
from typing import Any

import pytest

from tests.dialects.mcpserver.log import SESSION, TURN, Log, Tools, free_of

KEY = "kq8Zr2VfT0aLm9XwB4cN"
DIALECT = [
    (f"X-Api-Key: {KEY}", "X-Api-Key: [REDACTED]"),
    (f"@{{'X-Api-Key'='{KEY}'}}", "@{'X-Api-Key'='[REDACTED]'}"),
    (f'apiKey: "{KEY}"', 'apiKey: "[REDACTED]"'),
    (f"OPENAI_API_KEY={KEY}", "OPENAI_API_KEY=[REDACTED]"),
    (f"Bearer {KEY}+/=~", "Bearer [REDACTED]"),
    (f"Authorization: Basic {KEY}", "Authorization: Basic [REDACTED]"),
]
PEM_BODY = "MIIEowIBAAKCAQEA7bq1"
OTHERS = [
    ("postgres://u:hunter2@db", "hunter2", "postgres://u:[REDACTED:url_password]@db"),
    (
        f"-----BEGIN RSA PRIVATE KEY-----\n{PEM_BODY}\n-----END RSA PRIVATE KEY-----",
        PEM_BODY,
        "[REDACTED:private_key]",
    ),
    ("AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE", "[REDACTED:provider_key]"),
    ("password: hunter2hunter2", "hunter2hunter2", "password: [REDACTED:password]"),
]
INNOCENT = "9f2c1ab4d5e6f7a8b9c0d1e2f3a4b5c6d7e8f9a0 and e4ee2456-8a54-4492-9915-1904d6b2966a"


def _store(log: Log, way: str, text: str) -> dict[str, Any]:
    """Store a text in one of the ways, and return the turn."""
    log.open()
    log.begin()
    match way:
        case "updateTurn":
            result = log.do("updateTurn", interpretation=text)
        case "appendDialog":
            item = {"role": "model", "category": "reasoning", "content": text}
            result = log.do("appendDialog", dialogItems=[item])
        case "completeTurn":
            result = log.do("completeTurn", response=text)
        case _:
            turn = {"requestId": TURN, "response": text}
            whole = {"sourceType": "Codex", "sessionId": SESSION, "title": "x", "turns": [turn]}
            result = log.do("importRecovery", sessionLog=whole)
    assert result["journal"]["redactions"] >= 1
    return log.turn()


@pytest.mark.parametrize("way", ["updateTurn", "appendDialog", "completeTurn", "importRecovery"])
def test_no_secret_of_the_dialect_reaches_a_file(log: Log, way: str) -> None:
    turn = json.dumps(_store(log, way, "\n".join(text for text, _ in DIALECT)))
    for _, masked in DIALECT:
        assert json.dumps(masked)[1:-1] in turn
    assert free_of(log.home, KEY)


def test_the_wider_classes_are_masked_and_hashes_beside_them_survive(log: Log) -> None:
    turn = _store(log, "updateTurn", "\n".join([*(text for text, _, _ in OTHERS), INNOCENT]))
    for _, _, masked in OTHERS:
        assert masked in turn["interpretation"]
    assert INNOCENT in turn["interpretation"]
    assert free_of(log.home, *(secret for _, secret, _ in OTHERS))


def test_a_refused_value_is_shown_without_its_secret(begun_log: Log) -> None:
    refused = begun_log.error("updateTurn", tokenCount=f"apiKey={KEY}")
    assert KEY not in json.dumps(refused)
    unknown = begun_log.do("queryHistory", **{f"apiKey={KEY}": 1})
    assert KEY not in json.dumps(unknown)
    refused = begun_log.error(f"workflow.sessionlog.apiKey={KEY}")
    assert KEY not in json.dumps(refused)
    assert free_of(begun_log.home, KEY)


def test_no_part_of_a_secret_stays_where_a_name_is_cut(begun_log: Log) -> None:
    long = "x" * 180 + " " + "ghp_" + KEY * 2
    unknown = begun_log.do("queryHistory", **{long: 1})
    assert "ghp_" not in json.dumps(unknown)
    assert unknown["warnings"][0]["param"].startswith("x" * 180)
    refused = begun_log.error(f"workflow.sessionlog.{long}")
    assert "ghp_" not in json.dumps(refused)


def test_a_secret_counts_once_however_often_its_text_is_kept(log: Log) -> None:
    log.open()
    turn = {"agent": "Codex", "sessionId": SESSION, "requestId": TURN}
    with Tools(log) as tools:
        begun = tools.do("sessionlog_begin_turn", **turn, queryTitle=f"apiKey={KEY}")
        replaced = tools.do("sessionlog_replace_section", **turn, section="tags", sectionJson=[f"apiKey={KEY}"])
    assert [made["journal"]["redactions"] for made in (begun, replaced)] == [1, 1]


def test_a_secret_in_the_path_of_a_workspace_is_masked_and_the_workspace_is_still_one(log: Log) -> None:
    key = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
    workspace = str(log.workspace / key)
    with Tools(log) as tools:
        tools.do("sessionlog_open", agent="Codex", sessionId=SESSION, workspacePath=workspace)
        assert tools.do("sessionlog_query", workspacePath=workspace)["totalCount"] == 1
        assert tools.do("sessionlog_query")["totalCount"] == 0
    assert free_of(log.home, key)
