"""Rewinding files and conversation in the real clients, which then resume the new one (cases 8 and 19)."""

import pytest

from tests.clients.desk import Desk, ended
from tests.clients.script import Scripted, calls, says


def writing(agent: str, name: str) -> Scripted:
    command = f"echo {name} > {name}.txt"
    return calls("Bash", command=command) if agent == "claude" else calls("exec_command", cmd=command)


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_a_rewound_conversation_goes_on_where_the_files_are(agent: str, request: pytest.FixtureRequest) -> None:
    desk: Desk = request.getfixturevalue(agent)
    names = ("alpha", "beta", "gamma")
    for name in names:
        desk.script.on(f"Write {name}", writing(agent, name), says(f"Wrote {name}."))
    first = desk.run(agent, "Write alpha")
    for name in names[1:]:
        resumed(desk, agent, first.session, f"Write {name}")
    (session,) = desk.sessions()
    desk.shiftlog("checkpoints")
    turns = desk.shown("show", session["session_id"])["turns"]
    assert [turn["query_text"] for turn in turns] == [f"Write {name}" for name in names]
    done = desk.shown("rewind", turns[1]["request_id"], "--with-conversation")
    assert {path.name for path in desk.work.iterdir()} == {"alpha.txt"}
    new = done["conversation"]["vendor_session_id"]
    assert done["conversation"]["command"].endswith(new)
    desk.script.on("Go on", says("Going on."))
    resumed(desk, agent, new, "Go on")
    told = desk.script.told("Go on")[-1].text
    assert "Wrote alpha." in told
    assert "Write beta" not in told
    assert "Write gamma" not in told


def resumed(desk: Desk, agent: str, session: str, prompt: str) -> None:
    if agent == "claude":
        done = desk.claude(prompt, "--resume", session)
    else:
        done = ended(desk.start_codex(prompt, resume=session))
    assert done.code == 0, done.out + done.err
