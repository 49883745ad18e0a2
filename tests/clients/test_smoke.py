"""The harness itself: a client runs against the scripted model, reaches our tools and is recorded."""

import pytest

from tests.clients.features import tries
from tests.clients.harness import ClientHarness, bodies
from tests.clients.script import ours, says
from tests.clients.tools import HOOKED, shell

PROMPT, COMMAND = "Make a file", "echo hello > a.txt"


@tries("record")
@pytest.mark.parametrize("agent", HOOKED)
def test_a_client_runs_a_script_and_is_recorded(agent: str, request: pytest.FixtureRequest) -> None:
    harness: ClientHarness = request.getfixturevalue(agent)
    harness.script.on(PROMPT, shell(agent, COMMAND), ours("query_history"), says("Made it."))
    done = harness.run(agent, PROMPT)
    assert done.code == 0, done.out + done.err
    assert (harness.work / "a.txt").read_text() == "hello\n"
    told = harness.script.told(PROMPT)
    assert len(told[-1].results) == 2
    assert '"items"' in told[-1].results[-1]
    (session,) = harness.sessions()
    assert session["title"] == PROMPT
    whole = harness.session(session["session_id"])
    assert whole["session"]["vendor_session_id"] == done.session
    (turn,) = whole["turns"]
    assert (turn["query_text"], turn["status"], turn["response"]) == (PROMPT, "completed", "Made it.")
    made = [body for body in bodies(harness, "dialog") if body.get("category") == "tool_call"]
    assert [COMMAND in str(body) for body in made] == [True, False]
