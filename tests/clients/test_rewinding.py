"""Rewinding files and conversation in the real clients, which then resume the new one (cases 8 and 19)."""

import pytest

from tests.clients.features import tries
from tests.clients.harness import ClientHarness, ended
from tests.clients.script import Scripted, calls, says


def writing(agent: str, name: str) -> Scripted:
    command = f"echo {name} > {name}.txt"
    return calls("Bash", command=command) if agent == "claude" else calls("exec_command", cmd=command)


@tries("rewind")
@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_a_rewound_conversation_goes_on_where_the_files_are(agent: str, request: pytest.FixtureRequest) -> None:
    harness: ClientHarness = request.getfixturevalue(agent)
    names = ("alpha", "beta", "gamma")
    for name in names:
        harness.script.on(f"Write {name}", writing(agent, name), says(f"Wrote {name}."))
    first = harness.run(agent, "Write alpha")
    for name in names[1:]:
        resumed(harness, agent, first.session, f"Write {name}")
    (session,) = harness.sessions()
    harness.shiftlog("checkpoints")
    turns = harness.shown("show", session["session_id"])["turns"]
    assert [turn["query_text"] for turn in turns] == [f"Write {name}" for name in names]
    done = harness.shown("rewind", turns[1]["request_id"], "--with-conversation")
    assert {path.name for path in harness.work.iterdir()} == {"alpha.txt"}
    new = done["conversation"]["vendor_session_id"]
    assert done["conversation"]["command"].endswith(new)
    harness.script.on("Go on", says("Going on."))
    resumed(harness, agent, new, "Go on")
    told = harness.script.told("Go on")[-1].text
    assert "Wrote alpha." in told
    assert "Write beta" not in told
    assert "Write gamma" not in told


def resumed(harness: ClientHarness, agent: str, session: str, prompt: str) -> None:
    if agent == "claude":
        done = harness.claude(prompt, "--resume", session)
    else:
        done = ended(harness.start_codex(prompt, resume=session))
    assert done.code == 0, done.out + done.err
