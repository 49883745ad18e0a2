"""The parameters of the shell tools, natively; the dialect has a table of its own."""

from shiftlog.guard.budget import BUDGET_SCHEMA
from shiftlog.shell.arguments import Arguments, Enum, Flag, Given, Int, String, StringMap, Strings

TRANSPORTS = ("local", "ssh", "docker")
SANDBOXES = ("read-only", "workspace-write", "full-access")
SIGNALS = ("interrupt", "terminate", "kill", "hangup", "quit", "stop", "continue", "usr1", "usr2")
MAX_INPUT = 1 << 20
CONTAINER = r"[A-Za-z0-9][A-Za-z0-9_.-]*"

SHELL_ID = String(required=True, max_chars=300, description="The shell.")
COMMAND_ID = String(required=True, max_chars=300, description="The command.")
BUDGET = Given(shape=dict(BUDGET_SCHEMA), description="Which part of the output is returned.")
SAME_BUDGET = Given(shape={"type": "object"}, description="As budget in run_command.")

OPEN_SHELL = Arguments(
    fields={
        "transport": Enum(values=TRANSPORTS, description="Where; default local."),
        "session_id": String(max_chars=300, description="Open session to record in; default: yours, else a new one."),
        "name": String(max_chars=80, description="Shown in lists."),
        "cwd": String(max_chars=4096, description="Existing directory; default workspace."),
        "env": StringMap(max_items=128, description="Variables to add."),
        "login": Flag(description="Run profile files; default only for ssh."),
        "shell": Enum(values=("auto", "bash", "sh"), description="Default auto: bash, else sh."),
        "workspace": String(max_chars=4096, description="Absolute path; enables checkpoints."),
        "auto_snapshot": Flag(description="Checkpoint before changes; default true."),
        "paths": Strings(max_items=64, description="Sub-paths to checkpoint; default all."),
        "checkpoint_ignores": Strings(max_items=256, description="Further gitignore patterns."),
        "include_ignored": Flag(description="Checkpoint what .gitignore excludes too."),
        "allow": Strings(max_items=256, description="Only these programs may run."),
        "deny": Strings(max_items=256, description="These programs may not run."),
        "sandbox": Enum(values=SANDBOXES, description="Not looser than the operator's maximum."),
        "output_budget": SAME_BUDGET,
        "timeout_s": Int(minimum=1, maximum=3600, description="Default of its commands; 120."),
        "host": String(max_chars=255, description="ssh: name, address or alias."),
        "port": Int(minimum=1, maximum=65535, description="ssh; default 22."),
        "user": String(max_chars=255, description="ssh user."),
        "password": String(max_chars=4096, description="ssh; never stored."),
        "key_path": String(max_chars=4096, description="ssh key in the operator's key directory."),
        "fingerprint": String(max_chars=255, description="Pinned host key, SHA256:…"),
        "container": String(
            max_chars=255,
            pattern=CONTAINER,
            pattern_says="a container name or id",
            description="docker: running container.",
        ),
    }
)

RUN_COMMAND = Arguments(
    fields={
        "shell_id": SHELL_ID,
        "command": String(required=True, max_chars=1 << 31, description="Shell text, up to 4 MiB."),
        "budget": BUDGET,
        "timeout_s": Int(minimum=1, maximum=3600, description="Default: the shell's."),
        "on_timeout": Enum(values=("interrupt", "keep_running"), description="Default interrupt."),
        "background": Flag(description="Run in a copy of the shell and answer at once."),
        "stdin": Enum(values=("closed", "open"), description="Default closed: end-of-file."),
        "input": String(max_chars=MAX_INPUT, empty=True, description="Text fed to stdin."),
        "pty": Flag(description="Own terminal, in a copy of the shell."),
        "cols": Int(minimum=1, maximum=500, description="With pty; 120."),
        "rows": Int(minimum=1, maximum=500, description="With pty; 40."),
        "wait_idle_s": Int(minimum=0, maximum=600, description="Wait so long for a busy shell."),
    }
)

SEND_INPUT = Arguments(
    fields={
        "command_id": COMMAND_ID,
        "text": String(max_chars=MAX_INPUT, empty=True, description="Text for stdin, written first."),
        "eof": Flag(description="Then end-of-file."),
        "signal": Enum(values=SIGNALS, description="Then this signal."),
        "sensitive": Flag(description="Record only the length of text, and mask it from now on."),
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
        "wait_s": Int(minimum=0, maximum=300, description="Wait so long for wait_for."),
        "wait_for": Enum(values=("output", "end"), description="Default output."),
    }
)

LIST_SHELLS = Arguments(
    fields={
        "session_id": String(max_chars=300, description="Only of this session."),
        "include_ended": Flag(description="Also those that ended in the last 24 hours."),
        "limit": Int(minimum=1, maximum=200, description="Default 50."),
        "cursor": String(max_chars=200, description="next_cursor of the last page."),
    }
)

CLOSE_SHELL = Arguments(
    fields={"shell_id": SHELL_ID, "reason": String(max_chars=200, description="Why, for the record.")}
)
