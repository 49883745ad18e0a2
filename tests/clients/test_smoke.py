"""The harness itself: a client runs against the scripted model, reaches our tools and is recorded."""

import pytest

from tests.clients.features import tries
from tests.clients.harness import ClientHarness
from tests.clients.script import calls, ours, says

PROMPT, COMMAND = "Make a file", "echo hello > a.txt"
SHELLS = {"claude": calls("Bash", command=COMMAND), "codex": calls("exec_command", cmd=COMMAND)}


@tries("record")
@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_a_client_runs_a_script_and_is_recorded(agent: str, request: pytest.FixtureRequest) -> None:
    harness: ClientHarness = request.getfixturevalue(agent)
    harness.script.on(PROMPT, SHELLS[agent], ours("query_history"), says("Made it."))
    done = harness.run(agent, PROMPT)
    assert done.code == 0, done.out + done.err
    assert (harness.work / "a.txt").read_text() == "hello\n"
    told = harness.script.told(PROMPT)
    assert [len(each.results) for each in told] == [0, 1, 2]
    assert '"items"' in told[-1].results[-1]
    (session,) = harness.sessions()
    assert session["title"] == PROMPT
    assert done.session in session["session_id"]
