"""The parameters of the native shell tools, and the conventions in which a dialect differs from them."""

from dataclasses import dataclass

from shiftlog.guard.budgets.spec import BUDGET_SCHEMA
from shiftlog.params.arguments import Arguments, Enum, Flag, Given, Int, SessionRef, String, StringMap, Strings

TRANSPORTS = ("local", "ssh", "docker")
SANDBOXES = ("read-only", "workspace-write", "full-access")
SIGNALS = ("interrupt", "terminate", "kill", "hangup", "quit", "stop", "continue", "usr1", "usr2")
MAX_INPUT = 1 << 20
CONTAINER = r"[A-Za-z0-9][A-Za-z0-9_.-]*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conventions:
    """How a face treats requests: a dialect lowers counts that are too large, shows more, waits for a busy shell."""

    dialect: bool = False
    shown_chars: int = 30_000
    wait_idle_s: float | None = None


NATIVE = Conventions()

SHELL_ID = String(required=True, max_chars=300, description="The shell.")
COMMAND_ID = String(required=True, max_chars=300, description="The command.")
BUDGET = Given(shape=dict(BUDGET_SCHEMA), description="Part returned: grep (linear-time), keep, max_chars.")
SAME_BUDGET = Given(shape={"type": "object"}, description="As in run_command.")

OPEN_SHELL = Arguments(
    fields={
        "transport": Enum(values=TRANSPORTS, description="Where; default local."),
        "session_id": SessionRef(max_chars=300, description="Default: yours, else new."),
        "name": String(max_chars=80, description="Label."),
        "cwd": String(max_chars=4096, description="Default workspace."),
        "env": StringMap(max_items=128, description="Variables to add."),
        "login": Flag(description="Profile files; default for ssh."),
        "shell": Enum(values=("auto", "bash", "sh"), description="Default auto."),
        "workspace": String(max_chars=4096, description="Path; enables checkpoints."),
        "auto_snapshot": Flag(description="Default true."),
        "paths": Strings(max_items=64, description="Sub-paths to checkpoint."),
        "checkpoint_ignores": Strings(max_items=256, description="Further gitignore patterns."),
        "include_ignored": Flag(description="Checkpoint ignored files too."),
        "allow": Strings(max_items=256, description="Only these programs."),
        "deny": Strings(max_items=256, description="Not these programs."),
        "sandbox": Enum(values=SANDBOXES, description="Only tightens."),
        "output_budget": SAME_BUDGET,
        "timeout_s": Int(minimum=1, maximum=3600, bounds=False, description="Of its commands; 120."),
        "host": String(max_chars=255, description="ssh: name or alias."),
        "port": Int(minimum=1, maximum=65535, description="ssh; default 22."),
        "user": String(max_chars=255, description="ssh user."),
        "password": String(max_chars=4096, description="ssh; never stored."),
        "key_path": String(max_chars=4096, description="ssh; in the key directory."),
        "fingerprint": String(max_chars=255, description="ssh; SHA256:…"),
        "container": String(
            max_chars=255,
            pattern=CONTAINER,
            pattern_says="a container name or id",
            description="docker.",
        ),
    }
)

RUN_COMMAND = Arguments(
    fields={
        "shell_id": SHELL_ID,
        "command": String(required=True, description="Shell text."),
        "budget": BUDGET,
        "timeout_s": Int(minimum=1, maximum=3600, bounds=False, description="Default: the shell's."),
        "on_timeout": Enum(values=("interrupt", "keep_running"), description="Default interrupt."),
        "background": Flag(description="Answer at once; runs in a copy."),
        "stdin": Enum(values=("closed", "open"), description="Default closed."),
        "input": String(max_bytes=MAX_INPUT, empty=True, description="Text fed to stdin."),
        "pty": Flag(description="Own terminal; runs in a copy."),
        "cols": Int(minimum=1, maximum=500, description="With pty; 120."),
        "rows": Int(minimum=1, maximum=500, description="With pty; 40."),
        "wait_idle_s": Int(minimum=0, maximum=600, description="For a busy shell."),
    }
)

SEND_INPUT = Arguments(
    fields={
        "command_id": COMMAND_ID,
        "text": String(max_bytes=MAX_INPUT, empty=True, description="For stdin."),
        "eof": Flag(description="Then end-of-file."),
        "signal": Enum(values=SIGNALS, description="Then this signal."),
        "sensitive": Flag(description="Mask text from now on."),
    }
)

READ_OUTPUT = Arguments(
    fields={
        "command_id": COMMAND_ID,
        "stream": Enum(values=("stdout", "stderr"), description="Default stdout."),
        "cursor": String(max_chars=128, description="Where to read on."),
        "from_line": Int(minimum=1, maximum=1 << 53, description="First line, from 1."),
        "budget": SAME_BUDGET,
        "max_chars": Int(minimum=1, maximum=1_000_000, description="Page size; 30000."),
        "wait_s": Int(minimum=0, maximum=300, description="0..300."),
        "wait_for": Enum(values=("output", "end"), description="Default output."),
    }
)

LIST_SHELLS = Arguments(
    fields={
        "session_id": SessionRef(max_chars=300, description="Only its shells."),
        "include_ended": Flag(description="Also of the last 24 hours."),
        "limit": Int(minimum=1, maximum=200, description="Default 50."),
        "cursor": String(max_chars=200, description="next_cursor."),
    }
)

CLOSE_SHELL = Arguments(fields={"shell_id": SHELL_ID, "reason": String(max_chars=200, description="Why.")})
