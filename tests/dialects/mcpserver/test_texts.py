"""Acceptance cases 45 and 46: text survives both forms, and a stream of YAML is read document by document."""

import json

import pytest

from shiftlog.repl.texts.yaml import load, write
from tests.dialects.mcpserver.log import SESSION, TURN, Log, envelope

PROMPT = "Do: this # that {now} [or] \"never\" 'ever' \\ back\n\n  indented\ttab\n- item\n🚀 ünïcode \u2028 end"

STREAM = f"""\
type: request
payload:
  requestId: c-1
  method: workflow.sessionlog.bootstrap

type: request
payload:
  requestId: c-2
  method: workflow.sessionlog.openSession
  params:
    agent: Codex
    sessionId: {SESSION}
    title: Fix upload

type: request
payload:
  requestId: c-3
  method: workflow.sessionlog.beginTurn
  params:
    requestId: {TURN}
    queryTitle: Fix upload
    queryText: Find why the upload test flakes

type: request
payload:
  requestId: c-4
  method: workflow.sessionlog.updateTurn
  params:
    interpretation: Race in cleanup
    tokenCount: 1250
    tags:
      - bug

type: request
payload:
  requestId: c-5
  method: workflow.sessionlog.appendDialog
  params:
    dialogItems:
      - timestamp: 2026-07-01T11:30:00Z
        role: model
        content: |
          Decision: lock the temp dir.

          Rationale: two workers clean it.
        category: decision

type: request
payload:
  requestId: c-6
  method: workflow.sessionlog.appendActions
  params:
    actions:
      - order: 1
        description: Chose a lock
        type: design_decision
        status: completed
        filePath: ""

type: request
payload:
  requestId: c-7
  method: workflow.sessionlog.completeTurn
  params:
    response: |
      Fixed.

      200 runs green.

type: request
payload:
  requestId: c-8
  method: workflow.sessionlog.queryHistory
  params:
    from: 2026-07-01T00:00:00Z
    limit: 5
"""


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_a_prompt_of_awkward_characters_is_read_back_identical(log: Log, form: str) -> None:
    log.open()
    request = envelope("beginTurn", {"requestId": TURN, "queryTitle": 'A: # {t} "q" \\', "queryText": PROMPT})
    text = json.dumps(request) + "\n" if form == "json" else write(request) + "---\n"
    out = log.run(text).stdout.decode()
    assert ("result" in json.loads(out)["payload"]) if form == "json" else out.startswith("type: result\n")
    turn = log.turn()
    assert (turn["query_text"], turn["query_title"]) == (PROMPT, 'A: # {t} "q" \\')


def test_a_stream_of_yaml_documents_is_answered_one_by_one(log: Log) -> None:
    out = log.run(STREAM).stdout.decode()
    answers = [load(part + "\n").value for part in out.removesuffix("\n\n---\n").split("\n\n---\n")]
    assert [(a["type"], a["payload"]["requestId"]) for a in answers] == [("result", f"c-{n}") for n in range(1, 9)]
    assert answers[7]["payload"]["result"]["sessions"][0]["sessionId"] == SESSION
    (item,) = log.dialog()
    assert item["content"] == "Decision: lock the temp dir.\n\nRationale: two workers clean it.\n"
    assert item["timestamp"] == "2026-07-01T11:30:00Z"
    assert log.turn()["response"] == "Fixed.\n\n200 runs green.\n"
    (action,) = log.actions()
    assert action["file_path"] == ""
