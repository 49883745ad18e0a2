"""Clients in which we install no hooks: our tools are called, and their transcripts make the record."""

import pytest

from tests.clients.features import tries
from tests.clients.harness import ClientHarness
from tests.clients.script import calls, ours, says

SHELLS = {
    "gemini": calls("run_shell_command", command="echo hello > a.txt", description="write"),
    "opencode": calls("bash", command="echo hello > a.txt", description="write"),
}
FOLDERS = {"gemini": ".gemini/tmp", "opencode": ".local/share/opencode"}


@tries("record")
@pytest.mark.parametrize("agent", ["gemini", "opencode"])
def test_a_run_is_recorded_from_its_transcript_and_our_tools_are_called(
    agent: str, request: pytest.FixtureRequest
) -> None:
    harness: ClientHarness = request.getfixturevalue(agent)
    harness.script.on("Make a file", SHELLS[agent], ours("query_history"), says("Made it."))
    done = harness.run(agent, "Make a file")
    assert done.code == 0, done.out + done.err
    assert (harness.work / "a.txt").read_text() == "hello\n", done.out + done.err
    assert "items" in harness.script.told("Make a file")[-1].results[-1]
    report = harness.shown("import", str(harness.home / FOLDERS[agent]), "--full")
    assert report["unknown"] == {}
    (session,) = harness.sessions()
    whole = harness.session(session["session_id"])
    # OpenCode puts a prompt of several words in quotes.
    assert [turn["query_text"].strip('"') for turn in whole["turns"]] == ["Make a file"]
    assert whole["session"]["vendor_session_id"] == done.session
    again = harness.shown("import", str(harness.home / FOLDERS[agent]), "--full")
    assert (again["totals"]["entries"], again["totals"]["unknown_records"]) == (0, 0)
