"""The native shell tools: their descriptions, output schemas, progress and cancellation.

The shell service does the work. Cancelling a request ends its command; a client that merely vanished does not.
"""

from collections.abc import Mapping
from functools import partial
from operator import attrgetter
from typing import Any

import anyio

from shiftlog.app.app import App
from shiftlog.mcp.calls import client_is_gone, client_name, confirm_with_client, report_progress
from shiftlog.mcp.registry import Run, Tool
from shiftlog.mcp.tools.adapters import native, through, with_handle
from shiftlog.mcp.tools.outputs import (
    FLAG,
    NUMBER,
    NUMBER_OR_NULL,
    OBJECT_OR_NULL,
    OBJECTS,
    OPEN_OBJECT,
    TEXT,
    TEXT_OR_NULL,
    record,
)
from shiftlog.model.caller import Caller
from shiftlog.model.nouns import changed
from shiftlog.shell import requests
from shiftlog.shell.ports import CallCancelled
from shiftlog.shell.requests import NATIVE, Conventions

OPEN_SHELL_TEXT = """\
Open a stateful shell here, on a host over ssh or in a container; then run_command: cwd, variables, functions stay.
It lives until close_shell, its end or an idle limit, also without you. allow, deny, sandbox only tighten the \
operator's rules. Repeats open another.
Errors: open_failed, shell_limit, workspace_invalid, transport_not_allowed, host_not_allowed, \
container_not_allowed, sandbox_not_allowed, host_key_unknown, ssh_auth_failed, container_not_running, \
sandbox_unavailable."""

RUN_COMMAND_TEXT = """\
Run a command in a shell and wait, or begin it with background. More output: read_output; stdin, signals: send_input.
A non-zero exit is a result; a timeout ends the command (124), not the shell; `exit` ends the shell; text that does \
not parse runs nothing. Output is masked, 30,000 characters a stream; restore_checkpoint undoes. Cancelling ends it.
Errors: shell_busy, _not_found, _ended, _lost, policy_denied, _undecidable, approval_required, _declined, \
budget_invalid, session_closed, journal_unavailable."""

READ_OUTPUT_TEXT = """\
Read more of a command's output, verbatim by pages or shaped by a budget; wait for a running one (run_command starts). \
With pty, screen is what its terminal shows now.
Read-only; kept 14 days. Errors: command_not_found, cursor_invalid, output_expired, budget_invalid."""

SEND_INPUT_TEXT = """\
Send text, end-of-file, a signal to a running command, in this order; run_command starts one with stdin open or pty. A \
signal never ends the shell. Recorded; repeats send again.
Errors: command_not_running, command_not_found, stdin_closed."""

LIST_SHELLS_TEXT = """\
List the shells, newest first, and what they run (output: read_output). Read-only. Errors: session_not_found."""

CLOSE_SHELL_TEXT = """\
End a shell and every process it started; for one command use send_input with a signal. Repeats answer already_ended; \
outputs stay. Errors: shell_not_found."""

OPENED = record(
    {
        "shell_id": TEXT,
        "session_id": TEXT,
        "implicit_session": FLAG,
        "transport": TEXT,
        "target": TEXT_OR_NULL,
        "name": TEXT_OR_NULL,
        "state": TEXT,
        "shell": TEXT,
        "cwd": TEXT,
        "workspace": TEXT_OR_NULL,
        "sandbox": TEXT,
        "checkpoints": OPEN_OBJECT,
        "enforcement": TEXT,
        "enforcement_note": TEXT_OR_NULL,
        "kill_scope": TEXT,
        "startup_output": TEXT,
        "created_at": TEXT,
        "tmp_note": TEXT,
    },
    also=("tmp_note",),
)
RAN = record(
    {
        "shell_id": TEXT,
        "command_id": TEXT,
        "session_id": TEXT,
        "request_id": TEXT_OR_NULL,
        "command": TEXT,
        "state": TEXT,
        "exit_code": NUMBER_OR_NULL,
        "signal": TEXT_OR_NULL,
        "duration_ms": {"type": "number"},
        "cwd": TEXT,
        "shell_state": TEXT,
        "ended_reason": TEXT_OR_NULL,
        "stdout": TEXT,
        "stderr": TEXT,
        "truncated": FLAG,
        "timed_out": FLAG,
        "budget": OBJECT_OR_NULL,
        "output": OPEN_OBJECT,
        "redactions": NUMBER,
        "verdict": TEXT,
        "enforcement": TEXT,
        "enforcement_note": TEXT_OR_NULL,
        "checkpoint_id": TEXT_OR_NULL,
        "state_kept": FLAG,
        "syntax_error": OBJECT_OR_NULL,
        "recorded": FLAG,
        "hint": TEXT_OR_NULL,
    }
)
PAGE = record(
    {
        "command_id": TEXT,
        "state": TEXT,
        "exit_code": NUMBER_OR_NULL,
        "stream": TEXT,
        "text": TEXT,
        "from_line": NUMBER,
        "lines": NUMBER,
        "bytes_total": NUMBER,
        "lines_total": NUMBER,
        "next_cursor": TEXT_OR_NULL,
        "eof": FLAG,
        "budget": OBJECT_OR_NULL,
        "screen": TEXT,
    },
    also=("screen",),
)
SENT = record({"command_id": TEXT, "state": TEXT, "bytes_written": NUMBER, "eof": FLAG, "signalled": TEXT_OR_NULL})
LISTED = record({"shells": OBJECTS, "next_cursor": TEXT_OR_NULL})
CLOSED = record(
    {
        "shell_id": TEXT,
        "state": TEXT,
        "already_ended": FLAG,
        "killed": NUMBER,
        "kill_scope": TEXT,
        "stopped_commands": {"type": "array", "items": TEXT},
    }
)


def shell_tools(app: App) -> tuple[Tool, ...]:
    """Return the six shell tools over an app; the service itself is made with the first call."""

    def call(verb: str) -> Run:
        return through(lambda arguments, caller: attrgetter(verb)(app.shells)(arguments, named(caller)))

    tool, handled = partial(native, "shell"), partial(with_handle, app.store)
    return (
        tool("open_shell", OPEN_SHELL_TEXT, requests.OPEN_SHELL, OPENED, handled(call("open_shell"))),
        tool(
            "run_command",
            RUN_COMMAND_TEXT,
            requests.RUN_COMMAND,
            RAN,
            through(partial(run_cancellable, app)),
            destructive=True,
            open_world=True,
        ),
        tool(
            "read_output",
            READ_OUTPUT_TEXT,
            requests.READ_OUTPUT,
            PAGE,
            call("commands.read_output"),
            read_only=True,
            idempotent=True,
        ),
        tool("send_input", SEND_INPUT_TEXT, requests.SEND_INPUT, SENT, call("commands.send_input"), destructive=True),
        tool(
            "list_shells",
            LIST_SHELLS_TEXT,
            requests.LIST_SHELLS,
            LISTED,
            handled(call("list_shells")),
            read_only=True,
            idempotent=True,
        ),
        tool(
            "close_shell",
            CLOSE_SHELL_TEXT,
            requests.CLOSE_SHELL,
            CLOSED,
            call("close_shell"),
            destructive=True,
            idempotent=True,
        ),
    )


async def run_cancellable(
    app: App, arguments: Mapping[str, Any], caller: Caller, conventions: Conventions = NATIVE
) -> dict[str, Any]:
    """Run a command for a request: output is reported as progress, and cancelling the request ends the command."""

    async def report(total: int, newest: str) -> None:
        await report_progress(total, None, newest)

    run = app.shells.commands.run_command
    try:
        return await run(arguments, named(caller), report, conventions, confirm_with_client)
    except CallCancelled as cancelled:
        if not client_is_gone():
            with anyio.CancelScope(shield=True):
                await app.shells.commands.cancel(cancelled.command_id)
        raise


def named(caller: Caller) -> Caller:
    """Return the caller with the name that its client gave itself."""
    return changed(caller, client_name=client_name())
