"""The native shell tools: what they say of themselves, and how a call becomes progress, an answer or a cancellation.

The work is the shell service's. A request that is taken back ends its command; a client that merely vanished does not.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio

from shiftlog.app import App
from shiftlog.mcp.calls import client_is_gone, client_name, confirm_with_client, report_progress
from shiftlog.mcp.native_outputs import OBJECTS, OPEN_OBJECT, Schema, flag, listing, number, record, text
from shiftlog.mcp.registry import Reply, Run, Tool
from shiftlog.model.caller import Caller
from shiftlog.model.fields import Record
from shiftlog.model.nouns import changed
from shiftlog.shell import requests
from shiftlog.shell.arguments import Arguments
from shiftlog.shell.live import NATIVE, Manner
from shiftlog.shell.running import CallCancelled

OPEN_SHELL_TEXT = """\
Open a stateful shell on this machine, a host over ssh or a running container. Use it once; then run_command as often \
as you like: cwd, variables, functions and options stay.
Recorded in a session (yours, else a new one that closes with its last shell). The shell lives until close_shell, its \
end or an idle limit, also when you disconnect. allow, deny, sandbox only tighten the operator's rules. Repeats open \
another shell. Returns shell_id, which rules hold, and checkpoints (with workspace).
Errors: invalid_parameter, budget_invalid, open_failed, shell_limit, workspace_invalid, transport_not_allowed, \
host_not_allowed, host_key_unknown, ssh_connect_failed, ssh_auth_failed, ssh_key_not_permitted, container_not_allowed, \
container_not_running, docker_unavailable, sandbox_not_allowed, sandbox_unavailable, session_not_found, \
session_closed, journal_unavailable."""

RUN_COMMAND_TEXT = """\
Run a command in a shell and wait for it, or begin it with background. For more of its output use read_output, for \
its stdin or a signal send_input.
Recorded before it runs. A non-zero exit is a normal result; on timeout the command ends (124) and the shell stays; \
`exit` ends the shell. Text that does not parse runs nothing. Output is masked, cut at 30,000 characters a stream; \
budget keeps what you need. checkpoint_id undoes it with restore_checkpoint. Cancelling the request ends it.
Errors: shell_busy, shell_not_found, shell_ended, shell_lost, policy_denied, policy_undecidable, approval_required, \
approval_declined, budget_invalid, command_too_large, shell_limit, journal_unavailable, invalid_parameter."""

READ_OUTPUT_TEXT = """\
Read more of a command's output, verbatim by pages, or shaped again by a budget; wait for a running one. To run \
something use run_command.
Read-only; pages joined give the stream exactly. Kept 14 days, also after a restart.
Errors: command_not_found, cursor_invalid, output_expired, budget_invalid, invalid_parameter."""

SEND_INPUT_TEXT = """\
Send text, end-of-file or a signal to a running command, in this order. The command needs stdin open or a pty for \
text; a signal never ends the shell. To start a command use run_command.
Recorded; with sensitive only the length. Each repeat sends again.
Errors: command_not_running, command_not_found, stdin_closed, journal_unavailable, invalid_parameter."""

LIST_SHELLS_TEXT = """\
List the shells, newest first, and what they are doing. For one command's output use read_output.
Read-only. Errors: invalid_parameter."""

CLOSE_SHELL_TEXT = """\
Close a shell: end it and every process it started, within 5 s. Use it when the work is done; to end one command use \
send_input with a signal.
Repeats answer already_ended. Outputs stay readable. Errors: shell_not_found, invalid_parameter."""

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
    }
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

Service = Callable[[Mapping[str, Any], Caller], Awaitable[dict[str, Any]]]


def shell_tools(app: App) -> tuple[Tool, ...]:
    """Return the six shell tools over an app; the service itself is made with the first call."""

    def tool(
        name: str, title: str, description: str, params: Arguments, output: Schema, run: Run, **kind: bool
    ) -> Tool:
        return Tool(
            name=name,
            toolset="shell",
            title=title,
            description=description,
            params=Record(fields={}),
            input_schema=params.schema(),
            output=output,
            run=run,
            read_only=kind.get("read_only", False),
            destructive=kind.get("destructive", False),
            idempotent=kind.get("idempotent", False),
            open_world=kind.get("open_world", False),
        )

    return (
        tool("open_shell", "Open shell", OPEN_SHELL_TEXT, requests.OPEN_SHELL, OPENED, _call(app, "open_shell")),
        tool(
            "run_command",
            "Run command",
            RUN_COMMAND_TEXT,
            requests.RUN_COMMAND,
            RAN,
            _running(app),
            destructive=True,
            open_world=True,
        ),
        tool(
            "read_output",
            "Read output",
            READ_OUTPUT_TEXT,
            requests.READ_OUTPUT,
            PAGE,
            _call(app, "read_output"),
            read_only=True,
            idempotent=True,
        ),
        tool(
            "send_input",
            "Send input",
            SEND_INPUT_TEXT,
            requests.SEND_INPUT,
            SENT,
            _call(app, "send_input"),
            destructive=True,
        ),
        tool(
            "list_shells",
            "List shells",
            LIST_SHELLS_TEXT,
            requests.LIST_SHELLS,
            LISTED,
            _call(app, "list_shells"),
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
    async def run(caller: Caller, arguments: dict[str, Any]) -> Reply:
        service: Service = getattr(app.shells, verb)
        return Reply(data=await service(arguments, named(caller)))

    return run


def _running(app: App) -> Run:
    async def run(caller: Caller, arguments: dict[str, Any]) -> Reply:
        return Reply(data=await run_cancellable(app, arguments, caller))

    return run


async def run_cancellable(
    app: App, arguments: Mapping[str, Any], caller: Caller, manner: Manner = NATIVE
) -> dict[str, Any]:
    """Run a command for a request: its output is told as progress, and taking the request back ends the command."""
    try:
        return await app.shells.run_command(arguments, named(caller), report_output, manner, confirm_with_client)
    except CallCancelled as cancelled:
        if not client_is_gone():
            with anyio.CancelScope(shield=True):
                await app.shells.cancel(cancelled.command_id)
        raise


async def report_output(total: int, newest: str) -> None:
    """Tell the newest output of a command."""
    await report_progress(total, None, newest)


def named(caller: Caller) -> Caller:
    """Return the caller with the name that its client gave itself."""
    return changed(caller, client_name=client_name())
