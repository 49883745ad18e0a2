"""Input that no agent should send: refused with a reason that names the argument, stored nowhere, and life goes on."""

import json
import re
import resource
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.daemon.support import end_daemon, lock_holder
from tests.story.agents import Agent, Answer, Refused, read_record
from tests.story.schemas import LONG_CHARS, Arguments, around, bad_values, input_schemas, positions, valid_arguments

TOOLS = (
    "open_session",
    "begin_turn",
    "update_turn",
    "finish_turn",
    "close_session",
    "resume_session",
    "query_history",
)
NOBODY = "Test-20260101T000000Z-nobody"
NAMED_BY_CODE = {
    "invalid_session_id": "session_id",
    "DELX-1004": "session_id",
    "invalid_request_id": "request_id",
}
INVALID_JSON, INVALID_REQUEST, INVALID_PARAMS = -32700, -32600, -32602


# Nothing in these texts may stop a close: what cannot be kept is replaced.
MENDED = re.compile(r"reason|epitaph|capsule\.(?!handoff_to|version).*")


class Site:
    """One agent with an open turn, whose record must stay as it is."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.agent = Agent(home).__enter__()
        self.session_id = self.agent.call("open_session", agent="Test", title="fuzzed")["session_id"]
        self.agent.call("begin_turn", session_id=self.session_id, query_title="turn", query_text="go on")
        listed = self.agent.ask("tools/list")["result"]["tools"]
        self.schemas = input_schemas(listed)
        assert set(self.schemas) == set(TOOLS)
        self.before = read_record(home)
        self.daemon = lock_holder(home)

    def valid(self, tool: str) -> Arguments:
        """Return arguments that the tool would take."""
        return valid_arguments(tool, self.session_id)

    def refused(self, tool: str, arguments: Arguments) -> Refused:
        """Call a tool that must refuse, and return how it did."""
        with pytest.raises(Refused) as caught:
            self.agent.call(tool, **arguments)
        return caught.value

    def refusal(self, tool: str, arguments: Arguments) -> Answer:
        """Call a tool that must refuse, and return the error."""
        return self.refused(tool, arguments).error

    def check(self) -> None:
        """See that nothing was stored and that the same bridge and daemon go on serving."""
        assert read_record(self.home) == self.before
        assert self.agent.bridge.process.poll() is None
        assert lock_holder(self.home) == self.daemon
        assert self.agent.call("query_history", session_id=self.session_id)["session"]["state"] == "open"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Generator[Site]:
    home = tmp_path_factory.mktemp("h")
    try:
        site = Site(home)
        yield site
        began = time.monotonic()
        site.agent.leave()
        assert time.monotonic() - began < 20, "the bridge waits for answers that nobody owes"
        site.agent.__exit__()
    finally:
        end_daemon(home)


def named(error: Answer) -> str:
    """Return the argument that an error names."""
    found = error.get("param") or error.get("details", {}).get("parameter")
    return str(found or NAMED_BY_CODE.get(error["code"]))


@pytest.mark.parametrize("tool", TOOLS)
def test_a_value_that_may_not_stand_there_is_refused_by_the_name_of_its_place(tool: str, site: Site) -> None:
    tried = 0
    for position in positions(site.schemas[tool]):
        fine = around(position, site.schemas[tool], site.valid(tool))
        for what, value in bad_values(position.schema):
            if tool == "close_session" and what == "surrogate" and MENDED.fullmatch(position.path):
                continue
            error = site.refusal(tool, position.holding(fine, value))
            assert named(error).startswith(position.path if what != "deep" else str(position.steps[0])), (
                position.path,
                what,
            )
            tried += 1
    assert tried > 12
    site.check()


@pytest.mark.parametrize("tool", TOOLS)
def test_an_argument_that_does_not_exist_is_refused_with_the_nearest_that_does(tool: str, site: Site) -> None:
    known = next(iter(site.schemas[tool]["properties"]))
    mistyped = known[:2] + known[1:]
    refused = site.refused(tool, {**site.valid(tool), mistyped: "x"})
    assert named(refused.error) == mistyped
    assert f"did you mean '{known}'?" in json.dumps(refused.said)
    for name in ("", "__proto__", "a\ud800b", "x" * 10_000, "a\x00b"):
        refused = site.refused(tool, {**site.valid(tool), name: "x"})
        assert len(json.dumps(refused.said)) < 5_000
    site.check()


@pytest.mark.parametrize("tool", TOOLS)
def test_an_argument_of_ten_megabytes_is_refused_by_its_name(tool: str, site: Site) -> None:
    text = next(position for position in positions(site.schemas[tool]) if position.is_text)
    error = site.refusal(tool, text.holding(site.valid(tool), "x" * 10_000_000))
    assert named(error) == text.path
    assert len(json.dumps(error)) < 2_000
    site.check()


def test_text_up_to_the_limit_is_taken_and_one_character_more_is_not(site: Site) -> None:
    arguments = {"session_id": site.session_id, "response": "x" * LONG_CHARS}
    assert named(site.refusal("update_turn", arguments)) == "response"
    site.check()


@pytest.mark.parametrize("tool", [tool for tool in TOOLS if tool != "open_session"])
def test_a_handle_that_nothing_has_is_not_found(tool: str, site: Site) -> None:
    for handle in (NOBODY, 4711, "0b57a7e2-7e9b-4a1c-9d8e-2f6f3c1d5a10"):
        error = site.refusal(tool, {**site.valid(tool), "session_id": handle})
        assert error["code"] in ("session_not_found", "DELX-404"), handle
    if "request_id" in site.schemas[tool]["properties"] and tool != "begin_turn":
        asked = {**site.valid(tool), "session_id": site.session_id, "request_id": "req-20260101T000000Z-none"}
        assert site.refusal(tool, asked)["code"] == "turn_not_found"
    site.check()


CALLING = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%s}'
LINES = {
    "invalid JSON": (b"{nonsense", INVALID_JSON),
    "half a message": (b'{"jsonrpc":"2.0","id":1,"method":', INVALID_JSON),
    "not UTF-8": (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', INVALID_JSON),
    "UTF-16": ('{"jsonrpc":"2.0","id":1,"method":"ping"}'.encode("utf-16"), INVALID_JSON),
    "byte order mark": (b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"ping"}', INVALID_JSON),
    "not a number": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"n":NaN}}', INVALID_JSON),
    "endless digits": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"n":' + b"9" * 9000 + b"}}", INVALID_JSON),
    "zero byte": (b"\x00", INVALID_JSON),
    "batch": (b'[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]', INVALID_REQUEST),
    "empty batch": (b"[]", INVALID_REQUEST),
    "deep list": (b"[" * 200_000, INVALID_REQUEST),
    "deep object": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, INVALID_REQUEST),
    "broken id": (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', INVALID_REQUEST),
    "other version": (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', INVALID_REQUEST),
    "huge line": (b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * (65 << 20) + b'"}', INVALID_REQUEST),
    "parameters in a list": (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[1]}', INVALID_PARAMS),
    "tool without a name": (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":{}}}',
        INVALID_PARAMS,
    ),
    "arguments in a list": (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"open_session","arguments":[1]}}',
        INVALID_PARAMS,
    ),
    "unknown tool": (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"open_sesame","arguments":{}}}',
        INVALID_PARAMS,
    ),
}


@pytest.mark.parametrize(("line", "code"), LINES.values(), ids=LINES)
def test_a_line_that_is_no_request_gets_one_error_and_the_next_is_served(line: bytes, code: int, site: Site) -> None:
    site.agent.bridge.send_bytes(line + b"\n")
    answer = site.agent.bridge.read()
    assert answer["error"]["code"] == code
    assert answer["error"]["message"]
    assert answer["id"] in (1, None)
    site.check()


CALL = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": "call",
        "method": "tools/call",
        "params": {
            "name": "update_turn",
            "arguments": {"session_id": NOBODY, "dialog": [{"role": "model", "category": "reasoning", "content": "ü"}]},
        },
    },
    ensure_ascii=False,
).encode()


@st.composite
def spoiled_calls(draw: st.DrawFn) -> bytes:
    """Draw a call to a session that does not exist, with some bytes taken out, put in or changed."""
    line = bytearray(CALL)
    pieces = st.binary(max_size=8) | st.sampled_from([b'"', b"{", b"}", b"[", b"]", b",", b"\\", b"null"])
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(line)))
        end = draw(st.integers(start, min(start + 20, len(line))))
        line[start:end] = draw(pieces)
    return bytes(line).replace(b"\n", b" ")


def lines() -> st.SearchStrategy[bytes]:
    return spoiled_calls() | st.binary(max_size=200).map(lambda data: data.replace(b"\n", b" "))


@given(line=lines())
def test_whatever_bytes_come_each_line_is_answered_once_with_an_error(line: bytes, site: Site) -> None:
    check_line(line, site)


@pytest.mark.soak
@given(line=lines())
@settings(max_examples=20_000)
def test_twenty_thousand_lines_of_whatever_bytes_are_answered_once_each(line: bytes, site: Site) -> None:
    check_line(line, site)


def check_line(line: bytes, site: Site) -> None:
    site.agent.bridge.send_bytes(line + b"\n")
    site.agent.bridge.send({"jsonrpc": "2.0", "id": "after", "method": "ping"})
    answers = [site.agent.bridge.read() for _ in range(1 + owes_an_answer(line))]
    others = [answer for answer in answers if answer["id"] != "after"]
    assert len(answers) - len(others) == 1
    assert all("error" in answer or answer["result"]["isError"] for answer in others)


def owes_an_answer(line: bytes) -> bool:
    """Say whether a line has to be answered: anything but blanks and well-formed notifications."""
    if not line.strip():
        return False
    try:
        message: object = json.loads(line.decode("utf-8"))
    except ValueError:
        return True
    if not isinstance(message, dict):
        return True
    given = cast("dict[str, Any]", message)
    takes = given.get("params") is None or isinstance(given["params"], dict)
    whole = given.get("jsonrpc") == "2.0" and isinstance(given.get("method"), str) and takes
    return not (whole and "id" not in given)


def test_after_all_that_nothing_was_stored(site: Site) -> None:
    site.check()


def test_a_machine_that_is_short_of_something_is_no_defect_and_serves_on(home: Path) -> None:
    with Agent(home) as agent:
        session_id = agent.call("open_session", agent="Codex", title="Tight")["session_id"]
        pid = lock_holder(home)
        assert pid is not None
        usual = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        in_use = sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (in_use + 1, usual[1]))
        with pytest.raises(Refused) as refused:
            agent.call("open_shell", session_id=session_id)
        assert refused.value.error["code"] == "storage_error"
        assert refused.value.error["details"] == {"reason": "Too many open files"}
        resource.prlimit(pid, resource.RLIMIT_NOFILE, usual)
        shell = agent.call("open_shell", session_id=session_id)["shell_id"]
        assert agent.call("run_command", shell_id=shell, command="echo on")["stdout"] == "on"
        assert [one["shell_id"] for one in agent.call("list_shells")["shells"]] == [shell]
