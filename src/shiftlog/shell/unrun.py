"""Commands that never run: refused by a rule, not readable as bash, or cancelled while they waited.

Each of them is recorded and can be read like one that ran; its output is empty, or says why it did not run.
"""

import anyio

from shiftlog.model.caller import Caller
from shiftlog.model.errors import ShiftlogError, StorageError
from shiftlog.model.shell_errors import JournalUnavailable, ShellLimit
from shiftlog.shell import results
from shiftlog.shell.outputs.keeper import OutputKeeper
from shiftlog.shell.ports import ShellJournal
from shiftlog.shell.state import Command, CommandState, Shell

CANCELLED_EXIT = 130


async def refuse(journal: ShellJournal, outputs: OutputKeeper, shell: Shell, command: Command, caller: Caller) -> None:
    """Record a command that a rule or its syntax forbids, and raise why; a syntax error is in its stderr instead."""
    syntax, refusal = command.judgement.syntax, command.judgement.refusal
    said = f"{syntax.stderr}\n" if syntax is not None else ""
    _end(outputs, shell, command, "refused" if syntax is None else "syntax_error", said)
    command.exit_code = None if syntax is None else 2
    try:
        await _record(journal, shell, command, caller)
    except BaseException as error:
        command.end()
        shell.forget(command.command_id)
        if isinstance(error, StorageError | LookupError):
            raise unavailable(error) from None
        raise
    command.end()
    if refusal is not None:
        raise refusal


def cancel(journal: ShellJournal, outputs: OutputKeeper, shell: Shell, command: Command, caller: Caller) -> None:
    """Record a command that waited and will not run, in the shell's own tasks: its request may be over already."""
    _end(outputs, shell, command, "cancelled", "")
    command.exit_code = CANCELLED_EXIT
    if shell.released.is_set():
        command.recorded = False
        command.end()
    else:
        shell.tasks.start_soon(_record_cancelled, journal, shell, command, caller)


async def _record_cancelled(journal: ShellJournal, shell: Shell, command: Command, caller: Caller) -> None:
    try:
        with anyio.CancelScope(shield=True):  # a server that stops waits for it
            await _record(journal, shell, command, caller)
    except (ShiftlogError, LookupError):
        command.recorded = False
    finally:
        command.end()


def _end(outputs: OutputKeeper, shell: Shell, command: Command, state: CommandState, said: str) -> None:
    command.state, command.is_queued = state, False
    command.output = outputs.begin(command.command_id, shell.learned)
    if said:
        command.output.write("stderr", said.encode())
    command.output.finish()
    shell.commands[command.command_id] = shell.last = command


async def _record(journal: ShellJournal, shell: Shell, command: Command, caller: Caller) -> None:
    facts = results.finishing_facts(shell, command)
    command.request_id = await journal.command_refused(shell.session_id, facts, caller)


def unavailable(error: Exception) -> JournalUnavailable:
    """Return the error for a command that was not run because it could not be recorded."""
    cause = error.message if isinstance(error, ShiftlogError) else type(error).__name__
    reason = error.details.get("reason", cause) if isinstance(error, ShiftlogError) else cause
    return JournalUnavailable("the journal cannot be written", details={"cause": reason})


def limit_reached(limit: int, kind: str) -> ShellLimit:
    """Return the error for one more shell or command than the operator allows."""
    return ShellLimit(f"limit reached ({limit})", details={"limit": limit, "kind": kind})
