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
from shiftlog.mcp.tools.adapters import through, with_handle
from shiftlog.mcp.tools.outputs import OBJECTS, OPEN_OBJECT, Schema, flag, listing, number, record, text
from shiftlog.model.caller import Caller
from shiftlog.model.nouns import changed
from shiftlog.params.fields import Record
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

OPENED: Schema = record(
    {
        "shell_id": text(),
        "session_id": text(),
        "implicit_session": flag(),
        "transport": text(),
        "target": text(null=True),
        "name": text(null=True),
        "state": text(),
        "shell": text(),
        "cwd": text(),
        "workspace": text(null=True),
        "sandbox": text(),
        "checkpoints": OPEN_OBJECT,
        "enforcement": text(),
        "enforcement_note": text(null=True),
        "kill_scope": text(),
        "startup_output": text(),
        "created_at": text(),
    }
)
RAN: Schema = record(
    {
        "shell_id": text(),
        "command_id": text(),
        "session_id": text(),
        "request_id": text(null=True),
        "command": text(),
        "state": text(),
        "exit_code": number(null=True),
        "signal": text(null=True),
        "duration_ms": {"type": "number"},
        "cwd": text(),
        "shell_state": text(),
        "ended_reason": text(null=True),
        "stdout": text(),
        "stderr": text(),
        "truncated": flag(),
        "timed_out": flag(),
        "budget": {"type": ["object", "null"]},
        "output": OPEN_OBJECT,
        "redactions": number(),
        "verdict": text(),
        "enforcement": text(),
        "enforcement_note": text(null=True),
        "checkpoint_id": text(null=True),
        "state_kept": flag(),
        "syntax_error": {"type": ["object", "null"]},
        "recorded": flag(),
        "hint": text(null=True),
    }
)
PAGE: Schema = record(
    {
        "command_id": text(),
        "state": text(),
        "exit_code": number(null=True),
        "stream": text(),
        "text": text(),
        "from_line": number(),
        "lines": number(),
        "bytes_total": number(),
        "lines_total": number(),
        "next_cursor": text(null=True),
        "eof": flag(),
        "budget": {"type": ["object", "null"]},
        "screen": text(),
    },
    also=("screen",),
)
SENT: Schema = record(
    {"command_id": text(), "state": text(), "bytes_written": number(), "eof": flag(), "signalled": text(null=True)}
)
LISTED: Schema = record({"shells": OBJECTS, "next_cursor": text(null=True)})
CLOSED: Schema = record(
    {
        "shell_id": text(),
        "state": text(),
        "already_ended": flag(),
        "killed": number(),
        "kill_scope": text(),
        "stopped_commands": listing(text()),
    }
)


def shell_tools(app: App) -> tuple[Tool, ...]:
    """Return the six shell tools over an app; the service itself is made with the first call."""

    def tool(name: str, title: str, description: str, params: Record, output: Schema, run: Run, **kind: Any) -> Tool:
        return Tool(
            name=name,
            toolset="shell",
            title=title,
            description=description,
            params=params,
            output=output,
            run=run,
            **kind,
        )

    return (
        tool(
            "open_shell",
            "Open shell",
            OPEN_SHELL_TEXT,
            requests.OPEN_SHELL,
            OPENED,
            with_handle(app.store, _call(app, "open_shell")),
        ),
        tool(
            "run_command",
            "Run command",
            RUN_COMMAND_TEXT,
            requests.RUN_COMMAND,
            RAN,
            through(partial(run_cancellable, app)),
            destructive=True,
            open_world=True,
        ),
        tool(
            "read_output",
            "Read output",
            READ_OUTPUT_TEXT,
            requests.READ_OUTPUT,
            PAGE,
            _call(app, "commands.read_output"),
            read_only=True,
            idempotent=True,
        ),
        tool(
            "send_input",
            "Send input",
            SEND_INPUT_TEXT,
            requests.SEND_INPUT,
            SENT,
            _call(app, "commands.send_input"),
            destructive=True,
        ),
        tool(
            "list_shells",
            "List shells",
            LIST_SHELLS_TEXT,
            requests.LIST_SHELLS,
            LISTED,
            with_handle(app.store, _call(app, "list_shells")),
            read_only=True,
            idempotent=True,
        ),
        tool(
            "close_shell",
            "Close shell",
            CLOSE_SHELL_TEXT,
            requests.CLOSE_SHELL,
            CLOSED,
            _call(app, "close_shell"),
            destructive=True,
            idempotent=True,
        ),
    )


def _call(app: App, verb: str) -> Run:
    return through(lambda arguments, caller: attrgetter(verb)(app.shells)(arguments, named(caller)))


async def run_cancellable(
    app: App, arguments: Mapping[str, Any], caller: Caller, conventions: Conventions = NATIVE
) -> dict[str, Any]:
    """Run a command for a request: output is reported as progress, and cancelling the request ends the command."""
    try:
        return await app.shells.commands.run_command(
            arguments, named(caller), report_output, conventions, confirm_with_client
        )
    except CallCancelled as cancelled:
        if not client_is_gone():
            with anyio.CancelScope(shield=True):
                await app.shells.commands.cancel(cancelled.command_id)
        raise


async def report_output(total: int, newest: str) -> None:
    """Report the newest output of a command as progress."""
    await report_progress(total, None, newest)


def named(caller: Caller) -> Caller:
    """Return the caller with the name that its client gave itself."""
    return changed(caller, client_name=client_name())
