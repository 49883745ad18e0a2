"""The parameters of the native shell tools, and the conventions in which a dialect differs from them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from shiftlog.guard.budgets.spec import BUDGET_SCHEMA, types_of
from shiftlog.model.shell_errors import CommandTooLarge
from shiftlog.params.fields import Boolean, Choice, Field, Given, Integer, ListOf, RawText, Record, Schema, unlisted
from shiftlog.params.wording import SHELL, conflict, must_be

TRANSPORTS = ("local", "ssh", "docker")
SANDBOXES = ("read-only", "workspace-write", "full-access")
SIGNALS = ("interrupt", "terminate", "kill", "hangup", "quit", "stop", "continue", "usr1", "usr2")
MAX_INPUT = 1 << 20
MAX_COMMAND_BYTES = 4 << 20
CONTAINER = r"[A-Za-z0-9][A-Za-z0-9_.-]*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conventions:
    """The conventions of a face: a dialect lowers counts that are too large, shows more, waits for a busy shell."""

    dialect: bool = False
    shown_chars: int = 30_000
    wait_idle_s: float | None = None


NATIVE = Conventions()

NAME = RawText(max_chars=255)

_VARIABLE = RawText(min_chars=0, max_chars=1 << 17)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variables(Field):
    """Environment variables: an object whose values are texts."""

    max_items: int = 128

    def read(self, value: object, path: str) -> dict[str, str]:
        if not isinstance(value, Mapping):
            raise self.wording.wrong(path, "an object of strings", value)
        items = cast(Mapping[object, object], value)
        if len(items) > self.max_items:
            raise self.wording.wrong(path, f"at most {self.max_items} names", len(items), "range")
        one = _VARIABLE.worded(self.wording)
        made: dict[str, str] = {}
        for name, item in items.items():
            at = f"{path}.{name}"
            if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,254}", name):
                expected = "the name of a variable (letters, digits, underscores)"
                raise self.wording.wrong(at, expected, name, "format")
            made[name] = one.read(item, at)
            if "\0" in made[name]:
                raise self.wording.wrong(at, "a string without NUL", item, "format")
        return made

    def type_schema(self) -> Schema:
        return {"type": "object", "additionalProperties": {"type": "string"}}


SHELL_ID = RawText(required=True, max_chars=300, description="From open_shell or list_shells.")
COMMAND_ID = RawText(required=True, max_chars=300, description="From run_command or list_shells.")
BUDGET = Given(
    shape=dict(BUDGET_SCHEMA),
    description="Part of each stream to return; read_output has the rest.",
    examples=({"grep": {"pattern": "(?i)error"}, "keep": {"mode": "tail", "n": 50}},),
)


def like_budget(description: str) -> Given:
    """Return a budget of another tool, described by that of run_command."""
    return Given(shape=types_of(BUDGET_SCHEMA), description=description)


OPEN_SHELL = Record(
    fields={
        "transport": Choice(
            values=TRANSPORTS,
            default="local",
            description="Where. ssh needs host, docker needs container.",
        ),
        "workspace": RawText(
            max_chars=4096,
            description="Absolute path of the project there. Needed for undo (checkpoints) and, locally, for sandbox "
            "workspace-write.",
            examples=("/srv/shop",),
        ),
        "cwd": RawText(
            max_chars=4096,
            description="Existing directory to start in. Default: workspace, else your client's; over ssh the login's, "
            "in docker the container's.",
        ),
        "session_id": RawText(
            numbers=True,
            max_chars=300,
            description="Session that records it: run_id or session_id. Default: the one you opened or resumed, else "
            "a new one.",
        ),
        "sandbox": Choice(
            values=SANDBOXES,
            description="Where commands may write. read-only: a temporary directory only; workspace-write: the "
            "workspace too; full-access: anywhere. The operator decides on the network. Default: the "
            "operator's; a looser one is refused. ssh, docker: leave it out.",
        ),
        "allow": ListOf(
            item=NAME,
            max_items=256,
            description="Only these programs may start, as children too. Default: all that the operator permits.",
            examples=(["git", "pytest"],),
        ),
        "deny": ListOf(
            item=NAME,
            max_items=256,
            description="These may not start, even if allowed: a program, or one with some of its arguments.",
            examples=(["curl", "git push"],),
        ),
        "host": RawText(max_chars=255, description="ssh, required: name, address or alias of the ssh config."),
        "port": Integer(minimum=1, maximum=65535, description="ssh. Default: the alias's, else 22."),
        "user": RawText(max_chars=255, description="ssh, required unless the alias has it."),
        "container": RawText(
            max_chars=255,
            pattern=CONTAINER,
            pattern_says="a container name or id",
            description="docker, required: name or id of a running container.",
        ),
        **unlisted(
            {
                "timeout_s": Integer(
                    minimum=1,
                    maximum=3600,
                    bounds=False,
                    default=120,
                    description="Default time limit of a command, in seconds.",
                ),
                "env": Variables(description="Variables to set."),
                "auto_snapshot": Boolean(
                    default=True, description="Checkpoint before commands that may change the workspace."
                ),
                "password": RawText(max_chars=4096, description="ssh; never stored. Default: keys are tried."),
                "key_path": RawText(
                    max_chars=4096, description="ssh: path of a private key in the operator's key directory."
                ),
                "name": RawText(max_chars=80, description="Label for list_shells."),
                "output_budget": like_budget("Default budget of a command; see budget of run_command."),
                "paths": ListOf(
                    item=NAME, max_items=64, description="Sub-paths to checkpoint. Default: the whole workspace."
                ),
                "fingerprint": RawText(max_chars=255, description="ssh: the host key must be this one, SHA256:…"),
                "checkpoint_ignores": ListOf(
                    item=NAME, max_items=256, description="More gitignore patterns to leave out of checkpoints."
                ),
                "include_ignored": Boolean(default=False, description="Checkpoint what .gitignore excludes, too."),
                "login": Boolean(description="Run profile files. Default: true for ssh, else false."),
                "shell": Choice(
                    values=("auto", "bash", "sh"), default="auto", description="auto: bash, or sh if there is none."
                ),
            }
        ),
    }
).worded(SHELL)

RUN_COMMAND = Record(
    fields={
        "shell_id": SHELL_ID,
        "command": RawText(required=True, description="Bash, one or more lines.", examples=("cd src && pytest -q",)),
        "budget": BUDGET,
        "timeout_s": Integer(
            minimum=1,
            maximum=3600,
            bounds=False,
            description="Seconds. Default: 120; none in background.",
        ),
        "background": Boolean(
            default=False,
            description="Answer at once, state running. Runs in a copy of the shell: its cd is lost.",
        ),
        "stdin": Choice(
            values=("closed", "open"),
            default="closed",
            description="open: send_input feeds it; combine with background.",
        ),
        "input": RawText(
            max_bytes=MAX_INPUT,
            min_chars=0,
            description="Whole stdin, up to 1 MiB; not with stdin open.",
        ),
        "pty": Boolean(
            default=False,
            description="Run it in a terminal, for programs that need one: stdin open, stderr in stdout. Combine with "
            "background.",
        ),
        **unlisted(
            {
                "wait_idle_s": Integer(
                    minimum=0, maximum=600, default=0, description="Seconds to wait for a busy shell."
                ),
                "on_timeout": Choice(
                    values=("interrupt", "keep_running"),
                    default="interrupt",
                    description="keep_running: answer at the limit with state running; the shell stays busy.",
                ),
                "cols": Integer(minimum=1, maximum=500, description="Width of the pty. Default 120."),
                "rows": Integer(minimum=1, maximum=500, description="Height of the pty. Default 40."),
            }
        ),
    }
).worded(SHELL)

SEND_INPUT = Record(
    fields={
        "command_id": COMMAND_ID,
        "text": RawText(
            max_bytes=MAX_INPUT,
            min_chars=0,
            description="For stdin, as it is, up to 1 MiB; end a line with a newline.",
            examples=("yes\n",),
        ),
        "eof": Boolean(default=False, description="Then close stdin."),
        "signal": Choice(
            values=SIGNALS,
            description="interrupt is Ctrl-C, terminate asks it to end, kill forces it; stop only pauses it until "
            "continue.",
        ),
        "sensitive": Boolean(
            default=False, description="For a password: record only its length, and mask it from now on."
        ),
    }
).worded(SHELL)

READ_OUTPUT = Record(
    fields={
        "command_id": COMMAND_ID,
        "stream": Choice(values=("stdout", "stderr"), default="stdout", description="The stream."),
        "cursor": RawText(
            max_chars=128,
            description="Read on from next_cursor, or from output.<stream>.cursor of run_command. Default: the start.",
        ),
        "from_line": Integer(minimum=1, maximum=1 << 53, description="Or read from this line; 1 is the first."),
        "budget": replace(
            BUDGET, description="Or a part of all output so far; not with cursor or from_line.", examples=()
        ),
        "wait_s": Integer(minimum=0, maximum=300, default=0, description="Longest wait in seconds."),
        "wait_for": Choice(
            values=("output", "end"),
            default="output",
            description="What wait_s waits for. output: text after cursor, or any; end: the command's end.",
        ),
        **unlisted(
            {
                "max_chars": Integer(
                    minimum=1, maximum=1_000_000, description="Page size; not with budget. Default 30000."
                ),
            }
        ),
    }
).worded(SHELL)

LIST_SHELLS = Record(
    fields={
        "session_id": RawText(
            numbers=True,
            max_chars=300,
            description="Only this session's: run_id or session_id. Default: all.",
        ),
        "include_ended": Boolean(default=False, description="Also those that ended within 24 hours, and why."),
        "cursor": RawText(max_chars=200, description="next_cursor of the page before."),
        **unlisted({"limit": Integer(minimum=1, maximum=200, default=50, description="Shells per page.")}),
    }
).worded(SHELL)

CLOSE_SHELL = Record(
    fields={
        "shell_id": SHELL_ID,
        **unlisted({"reason": RawText(max_chars=200, description="Why, for the journal. Default: none.")}),
    }
).worded(SHELL)


def read_run_command(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Read the arguments of run_command; reject those that conflict."""
    values = RUN_COMMAND.read(arguments)
    if values.get("input") is not None and values.get("stdin") == "open":
        raise conflict("input", 'stdin: "open"')
    for name in ("cols", "rows"):
        if values.get(name) is not None and not values.get("pty"):
            raise conflict(name, "pty: false")
    size = len(values["command"].encode())
    if size > MAX_COMMAND_BYTES:
        raise CommandTooLarge(
            f"command is {size} bytes; at most {MAX_COMMAND_BYTES}", details={"bytes": size, "max": MAX_COMMAND_BYTES}
        )
    if "\0" in values["command"]:
        raise must_be("command", "text without NUL", "format")
    return values


def read_read_output(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Read the arguments of read_output; reject those that conflict."""
    values = READ_OUTPUT.read(arguments)
    given = [name for name in ("cursor", "from_line", "budget") if values.get(name) is not None]
    if len(given) > 1:
        raise conflict(given[1], given[0])
    if "budget" in given and values.get("max_chars") is not None:
        raise conflict("max_chars", "budget")
    return values
