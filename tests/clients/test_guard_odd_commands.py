"""The guard in the real clients: commands that a wrapper easily spoils tell the model the same with it and without it.

Each command runs in a client whose guard is off and in one whose guard enforces; what both tell their models is
compared, so that the client itself says what is right.
"""

import re
from pathlib import Path

import pytest

from tests.clients.features import tries
from tests.clients.harness import ClientHarness, bodies
from tests.clients.script import says
from tests.clients.test_guard import switch_on
from tests.clients.tools import shell

# Codex reads both streams by pipes of their own, so a moment lies between lines of different streams.
COMMANDS = (
    # Documents, quotes and expansions.
    "cat <<'E'\nline $HOME `x` \"q\"\nE",
    "cat <<E\n$((1 + 1)) $(echo sub)\nE",
    "cat <<-E\n\ttabs are taken off\n\tE",
    "cat <<'A' - <<'B'\nlost\nA\nkept\nB",
    "x='a b'; echo \"$x\" '$x' \\$x",
    "printf '%s\\n' \"a'b\" 'c\"d' 'e\\f' 'it'\\''s'",
    'echo `echo old` $(echo "$(echo deep)") {1..3}',
    "diff <(echo a) <(echo b)",
    "echo # a comment",
    "echo one \\\n  two",
    "echo ünïcødé ✓",
    "printf 'no newline'",
    # Statuses.
    "exit 7",
    "(exit 9)",
    "true | false",
    "set -o pipefail; false | true",
    "set -e; false; echo never",
    "f() { return 4; }; f",
    "no_such_program_x",
    "trap 'echo bye' EXIT; echo hi",
    "trap 'echo caught' TERM; kill -TERM $$; echo after",
    "trap 'echo bye; exit 5' EXIT; exit 2",
    "exec echo replaced",
    # Streams.
    "echo a; sleep 0.2; echo b >&2; sleep 0.2; echo c; sleep 0.2; echo d >&2",
    "{ echo both; echo both too >&2; } 2>&1 | sort",
    "exec 3>&1; echo by three >&3",
    "exec 4>&1 5>&2; echo four >&4; sleep 0.2; echo five >&5",
    'read -r line; echo "status $? line $line"',
    "cat | wc -c",
    "test -t 0 && echo terminal || echo none",
    # Background and time.
    "sleep 0.2 & wait; echo waited",
    "(sleep 0.1; echo late) & wait $!; echo done",
    "echo first; (sleep 0.3; echo never seen > /dev/null) & disown; echo last",
    # What a call leaves to the next one.
    "cd sub && pwd",
    "pwd",
    "cd ..; pwd",
    "cd no-such-place || { sleep 0.2; echo stayed; }; pwd",
    "cd sub; exit 3",
    "pwd",
    "cd ..",
    "export KEPT=1; echo $KEPT",
    'echo "[$KEPT]"',
    "mkdir -p 'a b/c'; cd 'a b/c' && pwd",
    "pwd; cd ../..",
    "umask 077; touch private; stat -c %a private",
    "set -- x y; echo $# $2",
    "shopt -s extglob; echo sub/!(z)",
    # What the user's start files define, in the clients whose shell has it.
    "greet you; shout it",
    "type -t greet shout; declare -f greet",
)  # fmt: skip

START_FILE = "greet() { echo \"hi $1\"; }\nalias shout='echo LOUD'\n"

# Claude Code names no status of 1 for programs such as diff, which it does not see in a rewritten command; and it runs
# commands where `set -e` has no effect.
DIFFERING = {"claude": {"diff <(echo a) <(echo b)", "set -e; false; echo never"}}


def told(harness: ClientHarness, agent: str) -> list[str]:
    """Run the commands in a client and return what its model was told of each."""
    (harness.work / "sub").mkdir()
    (harness.home / ".bashrc").write_text(START_FILE)
    harness.script.on("Go", *(shell(agent, command) for command in COMMANDS), says("Done."))
    done = harness.run(agent, "Go")
    assert done.code == 0, done.out + done.err
    results = harness.script.told("Go")[-1].results
    assert len(results) == len(COMMANDS)
    return [plain(result, harness.root) for result in results]


def plain(text: str, root: Path) -> str:
    """Return a result without what differs from run to run: folders, times, and names of shells and lines in errors."""
    text = text.replace(str(root), "ROOT")
    text = re.sub(r"Chunk ID: \w+|Wall time: [\d.]+ seconds|Original token count: \d+", "", text)
    return re.sub(r"(/\S*/)?(ba)?sh: (-c: )?(eval: )?(line \d+: )?", "sh: ", text).strip()


@tries("odd commands")
@pytest.mark.parametrize("agent", ["claude", "codex", "opencode"])
def test_odd_commands_tell_the_same_with_the_guard_and_without_it(
    agent: str, request: pytest.FixtureRequest, other_harness: ClientHarness
) -> None:
    harness: ClientHarness = request.getfixturevalue(agent)
    other_harness.set_up(agent)
    without = told(other_harness, agent)
    switch_on(harness, agent, "enforce")
    within = told(harness, agent)
    differing = {
        command: (one, other) for command, one, other in zip(COMMANDS, without, within, strict=True) if one != other
    }
    assert set(differing) == DIFFERING.get(agent, set()), differing
    ends = [body["command"] for body in bodies(harness, "command.finished")]
    assert ends == list(COMMANDS)
