"""Acceptance cases 1 to 6 and what else the wire promises: one answer a request, in its form, in order."""

import json
from typing import Any

import pytest

from shiftlog.repl.texts.yaml import load
from tests.dialects.mcpserver.log import SESSION, TURN, Call, Log, envelope, lines

BOOTSTRAP: Call = ("bootstrap", {})


def yaml_answers(text: str) -> list[dict[str, Any]]:
    """Read a stream of YAML answers: each a document without a blank line inside, a blank line, `---`."""
    assert text.endswith("\n\n---\n")
    documents = text.removesuffix("\n\n---\n").split("\n\n---\n")
    assert all("\n\n" not in document for document in documents)
    return [load(document + "\n").value for document in documents]


def test_ten_json_lines_get_ten_json_lines_with_the_same_ids_in_the_same_order(log: Log) -> None:
    done = log.run(lines([BOOTSTRAP] * 10))
    answers = [json.loads(line) for line in done.stdout.decode().splitlines()]
    assert [answer["payload"]["requestId"] for answer in answers] == [f"c-{n}" for n in range(1, 11)]
    assert done.returncode == 0


def test_a_request_as_json_and_as_yaml_has_equal_results_each_in_its_own_form(log: Log) -> None:
    log.open()
    log.begin()
    request = envelope("updateTurn", {}, "c-2")
    as_json = log.run(json.dumps(request) + "\n").stdout.decode()
    as_yaml = log.run(
        f"type: request\npayload:\n  requestId: c-2\n  method: {request['payload']['method']}\n  params: {{}}\n---\n"
    ).stdout.decode()
    assert as_json.count("\n") == 1
    assert json.loads(as_json) == yaml_answers(as_yaml)[0]


def test_yaml_ended_by_the_end_of_input_is_answered(log: Log) -> None:
    done = log.run("type: request\npayload:\n  requestId: c-1\n  method: workflow.sessionlog.bootstrap")
    assert yaml_answers(done.stdout.decode()) == [
        {"type": "result", "payload": {"requestId": "c-1", "result": {"initialized": True}}}
    ]
    assert done.returncode == 0


def test_what_is_no_request_is_refused_by_its_code_and_the_loop_goes_on(log: Log) -> None:
    sent = [
        "{a:1}",
        "[]",
        '{"type":"x","payload":{}}',
        '{"type":"request","payload":{"requestId":"q1"}}',
        json.dumps(envelope("workflow.sessionlog.nothing", {})),
        json.dumps(envelope("bootstrap", {})),
    ]
    done = log.run("\n".join(sent) + "\n")
    answers = [json.loads(line)["payload"] for line in done.stdout.decode().splitlines()]
    assert [answer.get("code", "result") for answer in answers] == [
        "invalid_envelope",
        "unsupported_batch_envelope",
        "invalid_envelope",
        "invalid_envelope",
        "method_not_found",
        "result",
    ]
    assert [answer["requestId"] for answer in answers] == ["unknown", "unknown", "unknown", "q1", "c-1", "c-1"]
    assert done.returncode == 0


def test_plain_text_is_refused_as_yaml(log: Log) -> None:
    (answer,) = yaml_answers(log.run("hello there\n---\n").stdout.decode())
    assert answer["type"] == "error"
    assert answer["payload"] == {
        "requestId": "unknown",
        "code": "invalid_envelope",
        "message": "Invalid request envelope: a mapping is expected",
        "retryable": False,
        "details": {"reason": "a mapping is expected"},
    }


def test_a_readable_request_id_is_echoed_though_the_type_is_unknown(log: Log) -> None:
    done = log.run('{"type":"question","payload":{"requestId":"q9","method":"x"}}\n')
    assert json.loads(done.stdout)["payload"]["requestId"] == "q9"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('{"type":"request","payload":{"requestId":"q7","method":}}\n', "q7"),
        ("type: request\npayload:\n  requestId: q8\n  method: [\n---\n", "q8"),
        ("type: request\npayload:\n  'requestId': 'q 9'\n  method: [\n---\n", "q 9"),
        ("type: request\npayload: [\n---\n", "unknown"),
        ("type: request\npayload:\n  requestId: build #7 of 9 # today\n  method: [\n---\n", "build"),
        ("type: request\npayload:\n  requestId: build#7 of 9 # today\n  method: [\n---\n", "build#7 of 9"),
        ("type: request\npayload:\n  requestId: 'it''s'\n  method: [\n---\n", "it's"),
        ("type: request\npayload:\n  requestId: &id q10\n  method: x\n  params: {a: *id}\n---\n", "q10"),
        ("payload:\n  params:\n    requestId: req-1\n  requestId: c-1\n  method: [\n---\n", "c-1"),
        ('{"payload":{"params":{"text":"requestId: x","requestId":"req-1"},"requestId":"c-1"\n\n', "c-1"),
    ],
)
def test_a_request_id_is_read_from_text_that_nobody_can_parse(log: Log, text: str, name: str) -> None:
    out = log.run(text).stdout.decode()
    answer = json.loads(out) if out.startswith("{") else yaml_answers(out)[0]
    assert answer["payload"]["requestId"] == name
    assert answer["payload"]["code"] == "invalid_envelope"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('{"type":"request","requestId":"q1","method":"x"}\n', "q1"),
        ('{"type":"question","requestId":"q2","payload":{}}\n', "q2"),
        ('{"type":"request","payload":[{"requestId":"q3"}]}\n', "q3"),
        ('{"type":"request","payload":{"requestId":1.50,"method":"x"}}\n', "1.50"),
        ("type: request\npayload:\n  requestId: 1e3\n  method: x\n---\n", "1e3"),
        ('{"type":"request","payload":{"method":"x","params":{"requestId":"req-20260701T080005Z-a"}}}\n', "unknown"),
    ],
)
def test_a_misplaced_request_id_or_one_that_is_no_string_is_echoed_as_it_is_spelled(
    log: Log, text: str, name: str
) -> None:
    out = log.run(text).stdout.decode()
    answer = json.loads(out) if out.startswith("{") else yaml_answers(out)[0]
    assert (answer["payload"]["code"], answer["payload"]["requestId"]) == ("invalid_envelope", name)


def test_bootstrap_answers_exactly_one_key_every_time(log: Log) -> None:
    assert log.results(*[BOOTSTRAP] * 3) == [{"initialized": True}] * 3


def test_a_hello_is_answered_with_version_and_capabilities(log: Log) -> None:
    sent = '{"type":"hello","payload":{"protocolVersion":"1.0","capabilities":[],"metadata":{}}}'
    assert json.loads(log.run(sent + "\n").stdout) == {
        "type": "hello",
        "payload": {"protocolVersion": "1.0", "capabilities": ["workflow.sessionlog", "json-line", "yaml"]},
    }


def test_a_batch_is_refused_in_the_words_of_the_contract(log: Log) -> None:
    payload = json.loads(log.run('{"type":"batch","payload":{"requestId":"b1","requests":[]}}\n').stdout)["payload"]
    assert payload == {
        "requestId": "b1",
        "code": "unsupported_batch_envelope",
        "message": "Batch envelopes are not supported by agent-stdio. "
        "Send one request envelope per YAML document, separated by '---'.",
        "retryable": False,
        "details": {
            "unsupportedType": "batch",
            "supportedEnvelopeTypes": ["hello", "request"],
            "supportedMultiRequestShape": "YAML stream with one envelope per document separated by '---'.",
        },
    }


def test_a_line_of_nine_mib_is_refused_and_the_next_line_is_answered(log: Log) -> None:
    big = json.dumps(envelope("bootstrap", {"filler": "x" * (9 << 20)}, "big"))
    done = log.run(big + "\n" + json.dumps(envelope("bootstrap", {})) + "\n")
    first, second = (json.loads(line)["payload"] for line in done.stdout.decode().splitlines())
    assert (first["code"], first["requestId"]) == ("invalid_envelope", "big")
    assert first["details"] == {"reason": "larger than 8 MiB"}
    assert second["result"] == {"initialized": True}


def test_an_answer_comes_before_the_input_ends(log: Log) -> None:
    with log.live() as live:
        for n in range(3):
            assert live.ask("bootstrap", {}, f"live-{n}")["result"] == {"initialized": True}


def test_unknown_parameters_are_ignored_and_named(log: Log) -> None:
    opened = log.do("openSession", sessionId=SESSION, TITLE="Any case", sourceType="Codex", colour="red")
    assert opened["warnings"] == [{"code": "ignored_param", "param": "colour"}]
    log.begin(TURN)
    items = [{"role": "model", "category": "decision", "content": "x", "mood": "good"}]
    appended = log.do("appendDialog", dialogItems=items)
    assert appended["warnings"] == [{"code": "ignored_param", "param": "dialogItems[0].mood"}]
    assert log.do("currentSession", colour="red")["warnings"] == [{"code": "ignored_param", "param": "colour"}]


def test_a_usage_error_ends_with_status_2(log: Log) -> None:
    assert log.run("", "--no-such-option").returncode == 2
    assert log.run("", "--workspace-path", str(log.workspace / "nowhere")).returncode == 2
