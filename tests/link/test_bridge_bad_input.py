"""Input that no client should send, through the real bridge to the real daemon."""

import json
import subprocess
import time
from pathlib import Path

import pytest

from shiftlog.link.limits import ANSWER_WAIT_S
from tests.daemon.support import BRIDGE, REAL, Bridge, environment, start_daemon

CALL = b'{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"begin_turn","arguments":%s}}'


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"not json", -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":', -32700),
        (b"\xff\xfe\x00", -32700),
        (b'"text"', -32600),
        (b"[]", -32600),
        (b'{"jsonrpc":"2.0","id":1}', -32600),
        (b'{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
        (b'{"shiftlog":{"retire":1}}', -32600),
    ],
)
def test_a_line_that_is_no_request_is_answered_and_the_bridge_goes_on(line: bytes, code: int, served: Path) -> None:
    with Bridge(served) as bridge:
        bridge.shake_hands()
        bridge.send_bytes(line + b"\n")
        assert bridge.read()["error"]["code"] == code
        assert "result" in bridge.request(2, "ping")
        bridge.close_input()
        began = time.monotonic()
        assert bridge.wait() == 0
        assert time.monotonic() - began < ANSWER_WAIT_S / 2, "an answered refusal is not waited for"


@pytest.mark.parametrize(
    "arguments",
    [
        b'{"session_id":"%s"}' % (b"x" * 10_000_000),
        b'{"session_id":' + b"[" * 5000 + b"]" * 5000 + b"}",
        rb'{"session_id":"\ud800"}',
        rb'{"session_id":"a\u0000b"}',
        b'{"session_id":7.5e300}',
        b'{"no_such_argument":1}',
        b"[]",
        b"null",
    ],
    ids=["10 MB", "deep", "surrogate", "control", "number", "unknown", "list", "null"],
)
def test_arguments_that_make_no_sense_are_refused_and_the_bridge_goes_on(arguments: bytes, served: Path) -> None:
    with Bridge(served) as bridge:
        bridge.shake_hands()
        bridge.send_bytes(CALL % arguments + b"\n")
        answer = bridge.read()
        assert answer["id"] in (9, None)
        assert "error" in answer or answer["result"]["isError"] is True
        assert "result" in bridge.request(2, "ping")


def test_nonsense_alone_ends_with_answers_and_status_zero(home: Path) -> None:
    start_daemon(home, program=REAL)
    done = subprocess.run(
        BRIDGE, env=environment(home), input=b"one\ntwo\n", capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0
    assert [json.loads(line)["error"]["code"] for line in done.stdout.splitlines()] == [-32700, -32700]


def test_flags_that_name_nothing_are_the_answer_to_every_request(home: Path) -> None:
    start_daemon(home, program=REAL)
    with Bridge(home, "--toolsets", "jurnal") as bridge:
        answer = bridge.request(1, "initialize")
    assert answer["error"]["message"].endswith("did you mean 'journal'? The request was not applied.")
    assert "options of `shiftlog mcp`" in answer["error"]["data"]["hint"]
