"""The guard in the real clients: twenty commands that it lets run and twenty that it refuses, in each of its modes."""

import pytest

from tests.clients.features import tries
from tests.clients.harness import ClientHarness, bodies
from tests.clients.script import says
from tests.clients.test_guard import notes, switch_on
from tests.clients.tools import HOOKED, shell

# Each with a part of what it prints.
ALLOWED = (
    ("echo one", "one"),
    ("printf 'two\\n'", "two"),
    ("pwd", "/work"),
    ("ls -1", "seed.txt"),
    ("cat seed.txt", "banana"),
    ("wc -l < seed.txt", "3"),
    ("sed -n 1p seed.txt", "cherry"),
    ("grep -c an seed.txt", "1"),
    ("mkdir -p out && echo made > out/a.txt && cat out/a.txt", "made"),
    ("cp seed.txt copy.txt && ls copy.txt", "copy.txt"),
    ("mv copy.txt moved.txt; ls", "moved.txt"),
    ("touch new; test -e new && echo there", "there"),
    ("for n in 1 2 3; do echo number $n; done", "number 3"),
    ("expr 6 '*' 7", "42"),  # Gemini CLI refuses `$((`
    ('f=seed.txt; cat "$f"', "apple"),
    ("git --version", "git version"),
    ("(cd out && pwd)", "/work/out"),
    ("sort seed.txt | head -1", "apple"),
    ("false || echo recovered", "recovered"),
    ("echo to-stderr >&2", "to-stderr"),
)
REFUSED = (
    "curl --version",
    "/usr/bin/curl --version",
    "env curl --version",
    "nohup curl --version",
    "timeout 5 curl --version",
    "nice -n 5 curl --version",
    "command curl --version",
    "exec curl --version",
    "eval 'curl --version'",
    "bash -c 'curl --version'",
    'sh -c "curl --version"',
    "echo a | curl --version",
    "true && curl --version",
    "false || curl --version",
    "(curl --version)",
    "if true; then curl --version; fi",
    "for n in 1; do curl --version; done",
    "echo $(curl --version)",
    "echo --version | xargs curl",
    "find . -maxdepth 0 -exec curl --version ';'",
)


@tries("twenty commands")
@pytest.mark.parametrize("mode", ["watch", "ask", "enforce"])
@pytest.mark.parametrize("agent", HOOKED)
def test_twenty_commands_run_and_twenty_are_refused(agent: str, mode: str, request: pytest.FixtureRequest) -> None:
    harness: ClientHarness = request.getfixturevalue(agent)
    (harness.work / "seed.txt").write_text("cherry\nbanana\napple\n")
    switch_on(harness, agent, mode)
    commands = [*(command for command, _ in ALLOWED), *REFUSED]
    harness.script.on("Go", *(shell(agent, command) for command in commands), says("Done."))
    done = harness.run(agent, "Go")
    assert done.code == 0, done.out + done.err
    told = harness.script.told("Go")[-1].results
    assert len(told) == len(commands) == 40
    ran, refused = told[: len(ALLOWED)], told[len(ALLOWED) :]
    for (command, part), said in zip(ALLOWED, ran, strict=True):
        assert part in said, (command, said)
    for command, said in zip(REFUSED, refused, strict=True):
        assert ("curl' is denylisted" in said) == (mode != "watch"), (command, said)
    kinds = [note["guard"] for note in notes(harness)]
    assert kinds == (["allow"] * 20 + ["would_deny"] * 20 if mode == "watch" else ["denied"] * 20)
    ends = [body["command"] for body in bodies(harness, "command.finished")]
    assert ends == (commands[: len(ALLOWED)] if mode == "enforce" else [])
