"""Forty tasks in plain words, as a person gives them to an agent, with the calls that solve them.

A value that begins with `$` stands for something the agent knows: `$session`, `$turn`, `$shell`, `$command`, `$token`,
`$workspace`, or, as `$1.command_id`, a key of the answer to an earlier call of the task. `SAMPLES` are what the
reference shows for them. `elsewhere` marks tasks whose target (a host, a container) no test machine has.
"""

from dataclasses import dataclass
from typing import Any, cast

SAMPLES: dict[str, object] = {
    "$session": 1,
    "$turn": "req-20261117T090000Z-fix-the-total",
    "$shell": "4c82-1_local",
    "$command": "4c82-1_local#3",
    "$token": "slr1.eyJh.vik6",
    "$workspace": "/srv/shop",
    "$checkpoint": "9f1c0d2a",
}
_RESULTS: dict[str, object] = {
    "command_id": "4c82-1_local#4",
    "shell_id": "4c82-1_local",
    "request_id": "req-20261117T090000Z-fix-the-total",
    "next_cursor": "eyJhIjoxfQ",
    "cursor": "o1.0.1842",
    "run_id": 1,
}


@dataclass(frozen=True, slots=True)
class Call:
    """One call: a tool and its arguments."""

    tool: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Task:
    """What is asked, and the calls that do it, in order."""

    ask: str
    calls: tuple[Call, ...]
    elsewhere: bool = False


def call(tool: str, /, **arguments: Any) -> Call:
    """Return a call; `from_` stands for the argument `from`."""
    return Call(tool, {name.removesuffix("_"): value for name, value in arguments.items()})


def _task(ask: str, *calls: Call, elsewhere: bool = False) -> Task:
    return Task(ask, calls, elsewhere)


def filled(value: Any, known: dict[str, object]) -> Any:
    """Return a value with what it refers to: of `known`, else a sample of an answer's key."""
    if isinstance(value, dict):
        return {name: filled(part, known) for name, part in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [filled(part, known) for part in cast("list[Any]", value)]
    if not isinstance(value, str) or not value.startswith("$"):
        return value
    return known[value] if value in known else _RESULTS[value.rsplit(".", 1)[-1]]


TASKS: tuple[Task, ...] = (
    # The session
    _task(
        "You are Codex, known as cart-fixer, running on gpt-5.2. Start recording new work: fixing the cart's total.",
        call("open_session", agent="Codex", title="Fix the cart's total", agent_id="cart-fixer", model="gpt-5.2"),
    ),
    _task(
        "You are cart-fixer. Go on with what you were doing yesterday.",
        call("resume_session", agent_id="cart-fixer"),
    ),
    _task(
        "You are cart-fixer. Continue session 1 although another client of yours still holds it; that client must not "
        "write any more.",
        call("resume_session", agent_id="cart-fixer", session_id="$session", on_held="take_over"),
    ),
    _task(
        "You are cart-fixer and have a recovery token. Continue the session that it belongs to.",
        call("resume_session", agent_id="cart-fixer", recovery_token="$token"),
    ),
    _task(
        "You are a ClaudeCode sub-agent that session 1 started. Open your own session for reviewing the patch.",
        call("open_session", agent="ClaudeCode", title="Review the patch", parent_session_id="$session"),
    ),
    _task(
        "Finish for today. The next shift must write the rounding tests; CI is blocked by a missing key.",
        call(
            "close_session",
            session_id="$session",
            reason="end_of_shift",
            capsule={"version": 1, "next": ["Write the rounding tests"], "blockers": ["CI lacks a key"]},
        ),
    ),
    _task(
        "The work is done for good. Close session 1 so that nobody can ever continue it.",
        call("close_session", session_id="$session", succession_policy="closed_without_successor"),
    ),
    _task(
        "Hand session 1 over to the agent called reviewer.",
        call("close_session", session_id="$session", capsule={"version": 1, "handoff_to": "reviewer"}),
    ),
    # Turns
    _task(
        "In session 1 the user asks: Why is the total of the cart wrong? Note the request before you start.",
        call(
            "begin_turn",
            session_id="$session",
            query_title="Why is the total wrong?",
            query_text="Why is the total of the cart wrong?",
        ),
    ),
    _task(
        "Note that you decided to count in cents, because floats lose money.",
        call("update_turn", session_id="$session", design_decisions=["Count in cents, because floats lose money."]),
    ),
    _task(
        "Note that you changed cart.py and that the rounding tests are still to be written.",
        call("update_turn", session_id="$session", files_modified=["cart.py"], next=["Write the rounding tests"]),
    ),
    _task(
        "Plan two steps, reading cart.py and fixing it; then mark the first one as done.",
        call(
            "update_turn",
            session_id="$session",
            actions=[
                {"description": "Read cart.py", "type": "read", "status": "pending", "order": 1},
                {"description": "Fix cart.py", "type": "edit", "status": "pending", "order": 2, "file_path": "cart.py"},
            ],
        ),
        call(
            "update_turn",
            session_id="$session",
            actions=[{"description": "Read cart.py", "type": "read", "status": "completed", "order": 1}],
        ),
    ),
    _task(
        "Leave word that the TTL of the cache must not be raised again, and that clock skew was not the cause.",
        call(
            "update_turn",
            session_id="$session",
            do_not=["Do not raise the TTL of the cache again"],
            refuted=["Clock skew is the cause"],
        ),
    ),
    _task(
        "Report that this request has used 12,000 input and 800 output tokens for 7 cents so far.",
        call(
            "update_turn", session_id="$session", usage={"input_tokens": 12000, "output_tokens": 800, "cost_usd": 0.07}
        ),
    ),
    _task(
        "Record the commit 9f2c1ab on the branch main, with the message: Count in cents.",
        call(
            "update_turn",
            session_id="$session",
            commits=[{"sha": "9f2c1ab", "branch": "main", "message": "Count in cents"}],
        ),
    ),
    _task(
        "The request is done; your answer was: The total is right now.",
        call("finish_turn", session_id="$session", outcome="completed", response="The total is right now."),
    ),
    _task(
        "The request cannot be done, because the tests need a network. Record that.",
        call("finish_turn", session_id="$session", outcome="failed", error_message="The tests need a network."),
    ),
    # History
    _task(
        "Did any agent decide something about rounding before?",
        call("query_history", text="rounding", kinds=["decision"]),
    ),
    _task(
        "What have agents done in the project shop since 16 November 2026?",
        call("query_history", project="shop", from_="2026-11-16"),
    ),
    _task("Which sessions touched src/cart.py?", call("query_history", path="src/cart.py")),
    _task(
        "Show session 1 and then its first turn with everything in it.",
        call("query_history", session_id="$session"),
        call("query_history", session_id="$session", request_id="$1.items.0.request_id"),
    ),
    _task(
        "What did the runs of Codex cost since 10 November 2026?",
        call("query_history", kinds=["run"], agent="Codex", from_="2026-11-10"),
    ),
    _task(
        "List the turns of Codex one by one, beginning with the oldest: the first, then the second.",
        call("query_history", kinds=["turn"], agent="Codex", order="oldest", limit=1),
        call("query_history", kinds=["turn"], agent="Codex", order="oldest", limit=1, cursor="$1.next_cursor"),
    ),
    # Shells and commands
    _task(
        "Open a shell in the project /srv/shop so that its changes can be undone, and list the files there.",
        call("open_shell", workspace="$workspace"),
        call("run_command", shell_id="$1.shell_id", command="ls -l"),
    ),
    _task(
        "Open a shell on the host build.example as the user ci.",
        call("open_shell", transport="ssh", host="build.example", user="ci"),
        elsewhere=True,
    ),
    _task(
        "Open a shell in the running container web, in the directory /app.",
        call("open_shell", transport="docker", container="web", cwd="/app"),
        elsewhere=True,
    ),
    _task(
        "Open a shell for /srv/shop that can write nowhere else and in which curl cannot be started.",
        call("open_shell", workspace="$workspace", sandbox="workspace-write", deny=["curl"]),
    ),
    _task(
        "Run `seq 1 500` in your shell, but see only its last 40 lines.",
        call("run_command", shell_id="$shell", command="seq 1 500", budget={"keep": {"mode": "tail", "n": 40}}),
    ),
    _task(
        "Run `cat build.log` and show only the lines with error, each with two lines around it.",
        call(
            "run_command",
            shell_id="$shell",
            command="cat build.log",
            budget={"grep": {"pattern": "error", "context": 2}},
        ),
    ),
    _task(
        "Start `./build` without waiting for it; then wait up to five minutes for its end and read what it printed.",
        call("run_command", shell_id="$shell", command="./build", background=True),
        call("read_output", command_id="$1.command_id", wait_s=300, wait_for="end"),
    ),
    _task(
        "Run `seq 1 20000`. Its output is cut; read the part that you did not get.",
        call("run_command", shell_id="$shell", command="seq 1 20000"),
        call("read_output", command_id="$1.command_id", cursor="$1.output.stdout.cursor"),
    ),
    _task(
        "Look for Traceback in the errors of a command that has ended, without running it again.",
        call("read_output", command_id="$command", stream="stderr", budget={"grep": {"pattern": "Traceback"}}),
    ),
    _task(
        "Sort the lines b and a with the program sort, without a file.",
        call("run_command", shell_id="$shell", command="sort", input="b\na\n"),
    ),
    _task(
        "Run `./ask`, which asks for a name, and answer Ada.",
        call("run_command", shell_id="$shell", command="./ask", background=True, stdin="open"),
        call("send_input", command_id="$1.command_id", text="Ada\n"),
    ),
    _task(
        "Start `sleep 600` in the background and stop it as Ctrl-C would.",
        call("run_command", shell_id="$shell", command="sleep 600", background=True),
        call("send_input", command_id="$1.command_id", signal="interrupt"),
    ),
    _task(
        "You forgot the name of your shell. Find it and end it with all that it started.",
        call("list_shells"),
        call("close_shell", shell_id="$1.shells.0.shell_id"),
    ),
    # The workspace
    _task(
        "Save the present state of the project under the name: before the refactoring.",
        call("create_checkpoint", shell_id="$shell", label="before the refactoring"),
    ),
    _task(
        "Show as a patch what changed in the project since the present turn began.",
        call("diff_checkpoint", shell_id="$shell", before_turn="$turn", format="patch"),
    ),
    _task(
        "Undo all that the present turn did to the files, but look first at what would change.",
        call("restore_checkpoint", shell_id="$shell", before_turn="$turn", clean=True, dry_run=True),
        call("restore_checkpoint", shell_id="$shell", before_turn="$turn", clean=True),
    ),
    _task(
        "No shell is open. Bring NOTES.md of /srv/shop, and nothing else, back to the state before your last command.",
        call("restore_checkpoint", workspace="$workspace", before_command="$command", paths=["NOTES.md"]),
    ),
)
