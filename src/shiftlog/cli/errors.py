"""Errors of the command line: messages, hints and exit statuses.

Commands raise; this module decides what the user or a program sees, and with which status the process ends.
"""

import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import IO, cast

import click

from shiftlog.link import processes
from shiftlog.model.errors import (
    DISK_TROUBLES,
    Category,
    ConfigError,
    InternalError,
    InvalidParameter,
    ShiftlogError,
    StorageError,
)
from shiftlog.model.extras import install_hint
from shiftlog.model.shell_errors import WorkspaceInvalid

OK, FAILED, MISUSED, REFUSED, INTERRUPTED, PIPE_CLOSED = 0, 1, 2, 126, 130, 141

# An invalid request counts as a usage error; 126 is the shell's own status for a command that may not run. All other
# errors are plain failures.
EXIT_STATUSES = {Category.INVALID: MISUSED, Category.DENIED: REFUSED}
# On a command line these differ from the rest of their category: a path to import is an argument, a directory is not.
EXIT_STATUSES_BY_CODE = {
    "command_too_large": FAILED,
    "transcript_not_found": MISUSED,
    "workspace_invalid": FAILED,
    "workspace_required": FAILED,
}

# Hints for users, where an error's own hint tells an agent about its tools.
_REISSUE = "shiftlog token reissue SESSION replaces a lost one"
HINTS: dict[str, str] = {
    "agent_not_entitled": "It is for another agent",
    "checkpoint_not_found": "shiftlog checkpoints lists them",
    "command_not_found": "shiftlog checkpoints and shiftlog show list commands",
    "command_too_large": "Put it in a file and run that",
    "invalid_session_id": "shiftlog sessions lists the ids; `last` is the most recently active one",
    "session_not_found": "shiftlog sessions lists the ids; `last` is the most recently active one",
    "no_resumable_session": "shiftlog sessions lists them; choose one with --agent or --cwd",
    "nothing_to_restore": "shiftlog checkpoints lists the states that can be restored",
    "recovery_token_expired": "shiftlog token reissue SESSION gives a new one",
    "recovery_token_invalid": f"Pass the newest token of the session as it is; {_REISSUE}",
    "recovery_token_mismatch": f"It was issued for another agent, session or state; {_REISSUE}",
    "recovery_token_required": f"Pass the token that the last close or resume gave; {_REISSUE}",
    "recovery_token_used": f"Each resume gives a fresh token; {_REISSUE}",
    "session_held": "Take it over with --on-held take_over, or with --take-over of handover offer",
    "session_sealed": "shiftlog show prints it; it cannot be continued",
    "session_succeeded": "shiftlog lineage shows what continues it",
    "policy_denied": "shiftlog policy check 'COMMAND' explains it word by word",
    "policy_undecidable": "shiftlog policy check 'COMMAND' explains it word by word",
    "shell_busy": "shiftlog watch shows its command; use another shell, or wait",
    "shell_ended": "shiftlog shells lists the live ones",
    "shell_limit": "shiftlog shells --close SHELL ends one",
    "shell_lost": "shiftlog shells lists the live ones",
    "shell_not_found": "shiftlog shells lists them; `last` is the newest",
    "turn_not_found": "shiftlog show SESSION lists the turns",
    "invalid_parameter": "Correct it and try again; --help explains the command",
}


class PipeClosed(Exception):
    """The reader of standard output has gone."""


@contextmanager
def reporting_closed_pipe() -> Generator[None]:
    """Turn a BrokenPipeError into PipeClosed."""
    try:
        yield
    except BrokenPipeError as error:
        raise PipeClosed from error  # click would report an ordinary failure


def run_reporting(command: Callable[[], object], *, as_json: bool) -> int:
    """Run a command, report its error if it raises one, and return the exit status."""
    try:
        return _run(command, as_json)
    except (PipeClosed, BrokenPipeError):
        _redirect_to_null(sys.stdout)
        return PIPE_CLOSED


def _run(command: Callable[[], object], as_json: bool) -> int:
    try:
        status = command()
        sys.stdout.flush()
        return status if isinstance(status, int) else OK
    except SystemExit as ended:  # shell completion ends this way
        return ended.code if isinstance(ended.code, int) else OK
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help(), err=True)
        return MISUSED
    except click.UsageError as error:
        hint = f"{error.ctx.command_path} --help explains it" if error.ctx else "--help explains it"
        return _report(InvalidParameter(error.format_message(), hint=hint), as_json, MISUSED)
    except click.ClickException as error:
        hint = str(getattr(error, "hint", "")) or None
        return _report(StorageError(error.format_message(), hint=hint), as_json, FAILED)
    except (PipeClosed, BrokenPipeError):
        raise
    except ShiftlogError as error:
        return _report(error, as_json, exit_status(error))
    except OSError as error:
        if isinstance(error, FileNotFoundError) and processes.working_directory() is None:
            gone = WorkspaceInvalid("The working directory was removed", hint="Change to one that exists")
            return _report(gone, as_json, exit_status(gone))
        if error.errno not in DISK_TROUBLES:
            return _report(_of_state_file(error) or _defect(error), as_json, FAILED)
        _redirect_to_null(sys.stdout)
        where = f" {error.filename}" if error.filename else ""
        return _report(StorageError(f"Cannot write{where}: {error.strerror}", hint=""), False, FAILED)
    except ModuleNotFoundError as error:
        hint = install_hint(error.name)
        missing = ConfigError(f"This command needs the package {error.name}", hint=hint) if hint else _defect(error)
        return _report(missing, as_json, FAILED)
    except Exception as error:  # noqa: BLE001 - the edge of this face
        return _report(_defect(error), as_json, FAILED)


def exit_status(error: ShiftlogError) -> int:
    """Return the exit status of an error."""
    return EXIT_STATUSES_BY_CODE.get(error.code, EXIT_STATUSES.get(error.category, FAILED))


def _report(error: ShiftlogError, as_json: bool, status: int) -> int:
    """Print an error and return the exit status; if JSON cannot be printed, print it to standard error."""
    try:
        _print_error(error, as_json)
    except OSError as trouble:
        if trouble.errno not in DISK_TROUBLES:
            raise
        _redirect_to_null(sys.stdout if as_json else sys.stderr)
        if as_json:
            return _report(error, False, status)
    return status


def _print_error(error: ShiftlogError, as_json: bool) -> None:
    from shiftlog.cli.screen.output import print_json
    from shiftlog.config.tool_names import TOOL_NAMES
    from shiftlog.text.printable import terminal_line

    if as_json:
        print_json({"error": error.as_dict()})
        return
    hint = error.hint
    speaks_to_an_agent = any(name in (hint or "") for name in (*TOOL_NAMES, "on_held"))
    if error.code in HINTS and (hint == type(error).hint or speaks_to_an_agent):
        hint = HINTS[error.code]
    allowed = error.details.get("allowed")
    if isinstance(allowed, list):
        unsaid = [str(name) for name in cast(list[object], allowed) if str(name) not in error.message]
        hint = f"It is one of {', '.join(unsaid)}" if unsaid else hint
    reason = error.details.get("reason") if isinstance(error, StorageError) else None
    says = f"{error.message}: {reason}" if reason and str(reason) not in error.message else error.message
    for word, colour, text in (("error:", "red", says), ("hint:", "yellow", hint)):
        if text:
            shown = word if os.environ.get("NO_COLOR") else click.style(word, fg=colour)
            click.echo(f"{shown} {terminal_line(text)}", err=True)
        for line in _candidates(error) if word == "error:" else ():
            click.echo(f"  {line}", err=True)


def _candidates(error: ShiftlogError) -> list[str]:
    """Return a line for each candidate of an ambiguous name."""
    from shiftlog.text.printable import terminal_line

    found = cast("list[dict[str, object]]", error.details.get("candidates") or [])
    lines = [f"{item['id']}  {terminal_line(item.get('title', ''))}".rstrip() for item in found if "id" in item]
    total = error.details.get("total")
    return [*lines, f"… and {total - len(lines):,} more"] if isinstance(total, int) and total > len(lines) else lines


def _of_state_file(error: OSError) -> StorageError | None:
    """Return the error for a file of the state directory that cannot be used; None for any other."""
    from shiftlog.link import wire

    name = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else ""
    try:
        is_inside = os.path.abspath(name).startswith(os.path.join(wire.home_path(), ""))  # noqa: PTH100, PTH118
    except wire.WireError:
        return None
    return StorageError(f"{name}: {error.strerror}", hint="Run shiftlog doctor") if is_inside else None


def _defect(error: Exception) -> InternalError:
    import traceback

    traceback.print_exception(error)
    return InternalError(f"{type(error).__name__}: {error}", hint="This is a defect of Shiftlog; please report it")


def _redirect_to_null(stream: IO[str]) -> None:
    """Redirect a broken stream to /dev/null, so that the interpreter does not complain when it flushes."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
