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
from shiftlog.mcp.tools import short_answers
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
    answer,
    one_of,
    record,
    said,
)
from shiftlog.mcp.tools.short_answers import shortened, with_detail
from shiftlog.model.caller import Caller
from shiftlog.model.nouns import changed
from shiftlog.shell import requests
from shiftlog.shell.ports import CallCancelled
from shiftlog.shell.requests import NATIVE, Conventions

OPEN_SHELL_TEXT = """\
Open a stateful shell on this machine, on a host over ssh or in a running container.
Call it once before run_command: directory, variables and functions stay. Each call opens another; list_shells finds \
yours again.
It is recorded in your session and lives until close_shell, `exit` or 30 minutes without a running command, even if \
your client goes away. What commands change in the workspace, restore_checkpoint can undo, on hosts and in containers \
too. allow, deny and sandbox only tighten the operator's rules; over ssh and docker a forbidden program is recognised \
only if the command names it.
Returns shell_id, cwd, sandbox, checkpoints. Next: run_command.
Errors: open_failed (check cwd), workspace_invalid (name an existing project), shell_limit (close one), \
session_not_found, session_closed (resume_session), transport_not_allowed, host_not_allowed, container_not_allowed, \
sandbox_not_allowed \
(the operator forbids it), host_key_unknown (ask the operator), ssh_connect_failed, ssh_auth_failed (check host and \
user), container_not_running, docker_unavailable (start it), sandbox_unavailable (another mode)."""

RUN_COMMAND_TEXT = """\
Run a command in a shell and wait for its end, or start it in the background.
For long work use background; read_output reads on, send_input answers or stops it.
It may change or delete whatever rules and sandbox permit. Before it runs, the files of the shell's workspace are \
saved (except ignored, secret and huge ones); restore_checkpoint brings them back. It is recorded in the open turn, \
else in the session. A repeat runs it again; cancelling the call ends it.
Secrets in the output are masked; a stream over 30,000 characters loses its middle (truncated). A non-zero exit_code \
is no error: 124: ended at its time limit (the shell lives); 126: a program in it was refused; 130: cancelled.
Returns stdout, stderr, exit_code, state, cwd, command_id; for a stream that was cut, output.<stream>.cursor for \
read_output.
Errors: shell_busy (wait, or open another), shell_not_found (list_shells), shell_ended, shell_lost \
(open_shell), policy_denied (nothing ran; use another program), policy_undecidable (name programs literally), \
approval_required (a person must approve; then repeat), approval_declined (another way), \
command_too_large (put it in a file), session_closed (resume_session), journal_unavailable (nothing ran)."""

READ_OUTPUT_TEXT = """\
Read a command's output: what run_command cut off, or what a running command has written.
Use it when run_command answered truncated, or for a background command. To run again call run_command.
It reads a page of one stream, up to 30,000 characters, from the start, from_line or cursor; budget selects from the \
whole stream instead. wait_s waits first, then answers with what there is; the command goes on.
Read-only. Output is masked and kept 14 days.
Returns text, state, exit_code, next_cursor, eof; screen of a running pty.
Errors: command_not_found (query_history), cursor_invalid (use from_line 1), output_expired (run it again)."""

SEND_INPUT_TEXT = """\
Send text, end-of-file or a signal to a running command: one or more of them, in this order.
Use it to answer a prompt (run_command with stdin open or pty) or to end a command: interrupt, then kill if it still \
runs. To end the whole shell call close_shell.
The program may do anything with it; a repeat sends it again. Signals reach the command and its children, never the \
shell.
Returns state, bytes_written, signalled; read_output shows the effect.
Errors: command_not_running (read_output), command_not_found (query_history), stdin_closed (run it with stdin open)."""

LIST_SHELLS_TEXT = """\
List the open shells of every session, newest first, each with its running commands and its last one.
Use it to find a shell_id or command_id again; session_id shows only your own. Older commands: query_history. Read-only.
Returns shells, next_cursor.
Errors: session_not_found (omit session_id)."""

CLOSE_SHELL_TEXT = """\
Close a shell and end every process that it started, background ones too.
Use it when its work is done; to end one command call send_input with a signal. It cannot be undone; outputs and \
record stay. A repeat answers already_ended. A session that open_shell made by itself closes too; yours stays open.
Returns state, killed (number of processes), kill_scope (group, over ssh and docker: detached ones may live on).
Errors: shell_not_found (list_shells)."""

_ENFORCEMENT = one_of("none", "syntax", "kernel", "syntax+kernel")
_SHELL_STATE = one_of("opening", "idle", "busy", "ended", "lost")
_STATE = one_of(
    *("queued", "running", "finished", "timed_out", "cancelled", "refused", "syntax_error", "unknown"),
)

OPENED = answer(
    {
        "shell_id": TEXT,
        "session_id": TEXT,
        "cwd": TEXT,
        "sandbox": TEXT,
        "checkpoints": said(OPEN_OBJECT, "enabled, and why not; baseline_id."),
    },
    {
        "implicit_session": said(FLAG, "True: a session was made for this shell and closes with it."),
        "target": TEXT_OR_NULL,
        "workspace": TEXT_OR_NULL,
        "enforcement": said(_ENFORCEMENT, "Program rules hold in the command's text, in the kernel, or both."),
        "enforcement_note": TEXT_OR_NULL,
        "startup_output": said(TEXT, "What profile files printed."),
        "tmp_note": said(TEXT, "What is special about /tmp."),
    },
)
RAN = answer(
    {
        "stdout": TEXT,
        "stderr": TEXT,
        "command_id": TEXT,
        "state": _STATE,
        "duration_ms": {"type": "number"},
        "cwd": said(TEXT, "After the command."),
    },
    {
        "shell_state": said(_SHELL_STATE, "Absent if idle."),
        "truncated": FLAG,
        "redactions": said(NUMBER, "Masked secrets."),
        "exit_code": said(NUMBER_OR_NULL, "Absent while it runs."),
        "exit_code_vouched": said(FLAG, "False: a program in it could have changed exit_code."),
        "checkpoint_id": said(TEXT_OR_NULL, "Restoring it undoes this command."),
        "timed_out": FLAG,
        "signal": TEXT_OR_NULL,
        "ended_reason": TEXT_OR_NULL,
        "budget": said(OBJECT_OR_NULL, "Per stream: lines in all, lines kept."),
        "output": said(
            OPEN_OBJECT,
            "Per stream, if cut, binary or open: bytes, lines, and cursor, where the cut begins; the mark in the text "
            "tells how much is missing.",
        ),
        "verdict": said(TEXT, "Of the policy, unless allowed."),
        "enforcement": _ENFORCEMENT,
        "programs": said(OBJECTS, "Those that were not allowed to start."),
        "state_kept": said(FLAG, "False: it ran in a copy of the shell."),
        "syntax_error": OBJECT_OR_NULL,
        "recorded": said(FLAG, "False: its end could not be recorded."),
        "hint": TEXT_OR_NULL,
    },
)
PAGE = record(
    {
        "command_id": TEXT,
        "state": _STATE,
        "exit_code": NUMBER_OR_NULL,
        "exit_code_vouched": FLAG,
        "stream": TEXT,
        "text": TEXT,
        "from_line": NUMBER,
        "lines": NUMBER,
        "bytes_total": NUMBER,
        "lines_total": NUMBER,
        "next_cursor": said(TEXT_OR_NULL, "Goes on where this page ends, also while it runs; null at eof."),
        "eof": said(FLAG, "True: the command is over and all is read."),
        "budget": OBJECT_OR_NULL,
        "screen": TEXT,
    },
    also=("screen", "exit_code_vouched"),
)
SENT = record({"command_id": TEXT, "state": _STATE, "bytes_written": NUMBER, "eof": FLAG, "signalled": TEXT_OR_NULL})
_LAST = {"type": ["object", "null"], "properties": {"command_id": TEXT, "command": TEXT, "state": _STATE}}
_LISTED = {
    "type": "object",
    "properties": {
        "shell_id": TEXT,
        "session_id": TEXT,
        "state": _SHELL_STATE,
        "target": said(TEXT_OR_NULL, "Host or container."),
        "cwd": TEXT,
        "ended_reason": TEXT_OR_NULL,
        "running": {"type": "array", "items": TEXT, "description": "command_ids."},
        "last_command": _LAST,
    },
}
LISTED = record({"shells": {"type": "array", "items": _LISTED}, "next_cursor": TEXT_OR_NULL})
CLOSED = record(
    {
        "shell_id": TEXT,
        "state": TEXT,
        "already_ended": FLAG,
        "killed": NUMBER,
        "kill_scope": said(one_of("tree", "group"), "group: a process that detached itself may have survived."),
        "stopped_commands": {"type": "array", "items": TEXT},
    }
)


def shell_tools(app: App) -> tuple[Tool, ...]:
    """Return the six shell tools over an app; the service itself is made with the first call."""

    def call(verb: str) -> Run:
        return through(lambda arguments, caller: attrgetter(verb)(app.shells)(arguments, named(caller)))

    tool, handled = partial(native, "shell"), partial(with_handle, app.store)
    return (
        tool(
            "open_shell",
            "Open a shell",
            OPEN_SHELL_TEXT,
            with_detail(requests.OPEN_SHELL, listed=False),
            OPENED,
            shortened(short_answers.OPEN_SHELL, handled(call("open_shell"))),
            open_world=True,
        ),
        tool(
            "run_command",
            "Run a command",
            RUN_COMMAND_TEXT,
            with_detail(requests.RUN_COMMAND),
            RAN,
            shortened(short_answers.RUN_COMMAND, through(partial(run_cancellable, app))),
            destructive=True,
            open_world=True,
        ),
        tool(
            "read_output",
            "Read a command's output",
            READ_OUTPUT_TEXT,
            requests.READ_OUTPUT,
            PAGE,
            call("commands.read_output"),
            read_only=True,
            idempotent=True,
        ),
        tool(
            "send_input",
            "Send input to a command",
            SEND_INPUT_TEXT,
            requests.SEND_INPUT,
            SENT,
            call("commands.send_input"),
            destructive=True,
            open_world=True,
        ),
        tool(
            "list_shells",
            "List shells",
            LIST_SHELLS_TEXT,
            requests.LIST_SHELLS,
            LISTED,
            handled(call("list_shells")),
            read_only=True,
            idempotent=True,
        ),
        tool(
            "close_shell",
            "Close a shell",
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
