"""The parameters of the native shell tools, and the conventions in which a dialect differs from them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from shiftlog.guard.budgets.spec import BUDGET_SCHEMA
from shiftlog.model.shell_errors import CommandTooLarge
from shiftlog.params.fields import Boolean, Choice, Field, Given, Integer, ListOf, RawText, Record, Schema
from shiftlog.params.wording import SHELL, conflict, must_be

TRANSPORTS = ("local", "ssh", "docker")
SANDBOXES = ("read-only", "workspace-write", "full-access")
SIGNALS = ("interrupt", "terminate", "kill", "hangup", "quit", "stop", "continue", "usr1", "usr2")
MAX_INPUT = 1 << 20
MAX_COMMAND_BYTES = 4 << 20
CONTAINER = r"[A-Za-z0-9][A-Za-z0-9_.-]*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conventions:
    """How a face treats requests: a dialect lowers counts that are too large, shows more, waits for a busy shell."""

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


SHELL_ID = RawText(required=True, max_chars=300, description="The shell.")
COMMAND_ID = RawText(required=True, max_chars=300, description="The command.")
BUDGET = Given(shape=dict(BUDGET_SCHEMA), description="Part returned: grep (linear-time), keep, max_chars.")
SAME_BUDGET = Given(shape={"type": "object"}, description="As in run_command.")

OPEN_SHELL = Record(
    fields={
        "transport": Choice(values=TRANSPORTS, description="Where; default local."),
        "session_id": RawText(numbers=True, max_chars=300, description="Default: yours, else new."),
        "name": RawText(max_chars=80, description="Label."),
        "cwd": RawText(max_chars=4096, description="Default workspace."),
        "env": Variables(description="Variables to add."),
        "login": Boolean(description="Profile files; default for ssh."),
        "shell": Choice(values=("auto", "bash", "sh"), description="Default auto."),
        "workspace": RawText(max_chars=4096, description="Path; enables checkpoints."),
        "auto_snapshot": Boolean(description="Default true."),
        "paths": ListOf(item=NAME, max_items=64, description="Sub-paths to checkpoint."),
        "checkpoint_ignores": ListOf(item=NAME, max_items=256, description="Further gitignore patterns."),
        "include_ignored": Boolean(description="Checkpoint ignored files too."),
        "allow": ListOf(item=NAME, max_items=256, description="Only these programs."),
        "deny": ListOf(item=NAME, max_items=256, description="Not these programs."),
        "sandbox": Choice(values=SANDBOXES, description="Only tightens."),
        "output_budget": SAME_BUDGET,
        "timeout_s": Integer(minimum=1, maximum=3600, bounds=False, description="Of its commands; 120."),
        "host": RawText(max_chars=255, description="ssh: name or alias."),
        "port": Integer(minimum=1, maximum=65535, description="ssh; default 22."),
        "user": RawText(max_chars=255, description="ssh user."),
        "password": RawText(max_chars=4096, description="ssh; never stored."),
        "key_path": RawText(max_chars=4096, description="ssh; in the key directory."),
        "fingerprint": RawText(max_chars=255, description="ssh; SHA256:…"),
        "container": RawText(
            max_chars=255,
            pattern=CONTAINER,
            pattern_says="a container name or id",
            description="docker.",
        ),
    }
).worded(SHELL)

RUN_COMMAND = Record(
    fields={
        "shell_id": SHELL_ID,
        "command": RawText(required=True, description="Shell text."),
        "budget": BUDGET,
        "timeout_s": Integer(minimum=1, maximum=3600, bounds=False, description="Default: the shell's."),
        "on_timeout": Choice(values=("interrupt", "keep_running"), description="Default interrupt."),
        "background": Boolean(description="Answer at once; runs in a copy."),
        "stdin": Choice(values=("closed", "open"), description="Default closed."),
        "input": RawText(max_bytes=MAX_INPUT, min_chars=0, description="Text fed to stdin."),
        "pty": Boolean(description="Own terminal; runs in a copy."),
        "cols": Integer(minimum=1, maximum=500, description="With pty; 120."),
        "rows": Integer(minimum=1, maximum=500, description="With pty; 40."),
        "wait_idle_s": Integer(minimum=0, maximum=600, description="For a busy shell."),
    }
).worded(SHELL)

SEND_INPUT = Record(
    fields={
        "command_id": COMMAND_ID,
        "text": RawText(max_bytes=MAX_INPUT, min_chars=0, description="For stdin."),
        "eof": Boolean(description="Then end-of-file."),
        "signal": Choice(values=SIGNALS, description="Then this signal."),
        "sensitive": Boolean(description="Mask text from now on."),
    }
).worded(SHELL)

READ_OUTPUT = Record(
    fields={
        "command_id": COMMAND_ID,
        "stream": Choice(values=("stdout", "stderr"), description="Default stdout."),
        "cursor": RawText(max_chars=128, description="Where to read on."),
        "from_line": Integer(minimum=1, maximum=1 << 53, description="First line, from 1."),
        "budget": SAME_BUDGET,
        "max_chars": Integer(minimum=1, maximum=1_000_000, description="Page size; 30000."),
        "wait_s": Integer(minimum=0, maximum=300, description="0..300."),
        "wait_for": Choice(values=("output", "end"), description="Default output."),
    }
).worded(SHELL)

LIST_SHELLS = Record(
    fields={
        "session_id": RawText(numbers=True, max_chars=300, description="Only its shells."),
        "include_ended": Boolean(description="Also of the last 24 hours."),
        "limit": Integer(minimum=1, maximum=200, description="Default 50."),
        "cursor": RawText(max_chars=200, description="next_cursor."),
    }
).worded(SHELL)

CLOSE_SHELL = Record(fields={"shell_id": SHELL_ID, "reason": RawText(max_chars=200, description="Why.")}).worded(SHELL)


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
