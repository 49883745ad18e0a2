"""The results of the shell tools, and the facts that the journal keeps of shells and commands.

Only shapes state into dictionaries; nothing here changes a shell.
"""

import base64
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from shiftlog.guard.budgets.spec import Budget
from shiftlog.guard.budgets.text import elide_middle
from shiftlog.model.shell_errors import ShellEnded, ShellLost
from shiftlog.model.shells import Facts, KnownShell
from shiftlog.model.times import precise
from shiftlog.params.wording import must_be
from shiftlog.shell.outputs.command_output import DEFAULT_CHARS
from shiftlog.shell.outputs.text import TextDecoder
from shiftlog.shell.state import LOST_HINT, Command, Shell, last_listed

EXCERPT_CHARS = 4_000
INPUT_CHARS = 4_000
STARTUP_CHARS = 10_000
SUDO_SAYS = "sudo: a terminal is required"
SUDO_HINT = "sudo -A lets a person type the password"


def opened(shell: Shell) -> dict[str, Any]:
    """Return the result of open_shell, with the output of profile files as text like that of commands."""
    decoder = TextDecoder()
    startup_output = (decoder.feed(shell.live.startup_output) + decoder.finish()).decode()
    return {
        "shell_id": shell.shell_id,
        "session_id": shell.session_id,
        "implicit_session": shell.implicit,
        "transport": shell.transport,
        "target": shell.target,
        "name": shell.name,
        "state": shell.state,
        "shell": shell.live.kind,
        "cwd": shell.mask(shell.cwd),
        "workspace": shell.shown_workspace,
        "sandbox": shell.guard.sandbox,
        "checkpoints": shell.checkpoints,
        "enforcement": shell.guard.enforcement,
        "enforcement_note": shell.guard.note,
        "kill_scope": shell.live.kill_scope,
        "startup_output": elide_middle(shell.mask(startup_output), STARTUP_CHARS),
        "created_at": precise(shell.created_at),
        **({"tmp_note": shell.guard.tmp_note} if shell.guard.tmp_note else {}),
    }


def ran(shell: Shell, command: Command, budget: Budget | None, shown_chars: int = DEFAULT_CHARS) -> dict[str, Any]:
    """Return the result of run_command for a command that is over, still runs or never ran."""
    assert command.output is not None
    shown = command.output.show(budget, shown_chars)
    running = command.is_running
    duration = round((time.perf_counter() - command.began) * 1000, 1) if running else command.duration_ms
    return {
        "shell_id": shell.shell_id,
        "command_id": command.command_id,
        "session_id": command.session_id,
        "request_id": command.request_id,
        "command": command.echo,
        **ending(command),
        "signal": command.signal,
        "duration_ms": duration,
        "cwd": shell.mask(command.cwd),
        "shell_state": shell.state,
        "ended_reason": shell.ended_reason,
        "stdout": shown.stdout,
        "stderr": shown.stderr,
        "truncated": shown.truncated,
        "timed_out": command.state == "timed_out",
        "budget": shown.budget,
        "output": shown.output,
        "redactions": shown.redactions,
        "verdict": command.judgement.verdict,
        "enforcement": shell.guard.enforcement,
        "enforcement_note": shell.guard.note,
        "checkpoint_id": command.checkpoint_id,
        "state_kept": not (command.background or command.terminal),
        "syntax_error": _syntax_error(shell, command),
        "recorded": command.recorded,
        "hint": LOST_HINT if command.state == "unknown" else shown.hint or _hint(shell, command, shown.stderr),
        **_programs(command),
    }


def ending(command: Command) -> dict[str, Any]:
    """Return state and exit code of a command."""
    return {"state": command.state, "exit_code": command.exit_code, **vouching(is_vouched=command.is_vouched)}


def recorded_ending(finished: Mapping[str, Any]) -> dict[str, Any]:
    """Return state and exit code of a command that only the journal has; without a recorded end they are unknown."""
    return {
        "state": str(finished.get("state", "unknown")),
        "exit_code": finished.get("exit_code"),
        **vouching(is_vouched=finished.get("exit_code_vouched") is not False),
    }


def vouching(*, is_vouched: bool) -> dict[str, Any]:
    """Return the mark of an exit code that a program of the command could have changed."""
    return {} if is_vouched else {"exit_code_vouched": False}


def _syntax_error(shell: Shell, command: Command) -> dict[str, object] | None:
    fault = command.judgement.syntax
    return None if fault is None else {"line": fault.line, "column": fault.column, "message": shell.mask(fault.message)}


def _hint(shell: Shell, command: Command, stderr: str) -> str | None:
    """Return a hint if a command failed because sudo had no terminal, or over a path that its sandbox does not show."""
    if not command.exit_code:
        return None
    if shell.askpass is not None and SUDO_SAYS in stderr:
        return SUDO_HINT
    return shell.guard.tmp_hint(stderr, tuple(filter(None, (shell.workspace, shell.cwd))))


def _programs(command: Command) -> dict[str, Any]:
    if command.programs is None:
        return {}
    return {"programs": command.programs, "programs_total": command.programs_total}


def screen(shell: Shell, command: Command) -> dict[str, Any]:
    """Return the masked screen of a running command's terminal, if it has one.

    A secret may continue in the next row, so full rows are joined if there is one; while the program writes, the
    unfinished word is hidden.
    """
    picture = command.running.screen if command.running is not None else None
    if picture is None or not command.is_running or command.output is None:
        return {}
    unfinished = command.output.is_quiet
    plain, joined = picture.text(unfinished=unfinished), picture.text(unfinished=unfinished, joined=True)
    masked = shell.redactor.text(joined, by_rule=True)
    return {"screen": masked.text if masked.count else plain}


def closed(shell: Shell, stopped: Sequence[Command], *, already: bool, killed: int) -> dict[str, Any]:
    """Return the result of close_shell."""
    return {
        "shell_id": shell.shell_id,
        "state": shell.state if shell.state in ("ended", "lost") else "ended",
        "already_ended": already,
        "killed": killed,
        "kill_scope": shell.live.kill_scope,
        "stopped_commands": [command.command_id for command in stopped],
    }


def closed_already(shell_id: str, recorded: KnownShell) -> dict[str, Any]:
    """Return the result of close_shell for a shell of an earlier server."""
    return {
        "shell_id": shell_id,
        "state": (recorded.ended or {}).get("state", "ended"),
        "already_ended": True,
        "killed": 0,
        "kill_scope": recorded.opened.get("kill_scope", "tree"),
        "stopped_commands": [],
    }


def listed(recorded: KnownShell) -> dict[str, Any]:
    """Return a shell of an earlier server as an item of list_shells."""
    opened_as, ended = recorded.opened, recorded.ended or {}
    return {
        "shell_id": recorded.shell_id,
        "session_id": recorded.session_id,
        "name": opened_as.get("name"),
        "transport": opened_as.get("transport"),
        "target": opened_as.get("target"),
        "state": ended.get("state", "ended"),
        "ended_reason": ended.get("reason"),
        "exit_code": ended.get("exit_code"),
        "cwd": ended.get("cwd") or opened_as.get("cwd"),
        "workspace": opened_as.get("workspace"),
        "sandbox": opened_as.get("sandbox"),
        "enforcement": opened_as.get("enforcement"),
        "running": [],
        "last_command": last_listed(recorded.last_command),
        "idle_s": 0,
        "created_at": precise(recorded.opened_at),
    }


def paged(rows: list[dict[str, Any]], limit: int, cursor: str | None) -> dict[str, Any]:
    """Return a page of a list of shells; a cursor names the last item of the page before."""
    start = 0
    if cursor is not None:
        after = _read_cursor(cursor)
        start = next((n for n, row in enumerate(rows) if (row["created_at"], row["shell_id"]) < after), len(rows))
    page = rows[start : start + limit]
    more = start + limit < len(rows)
    return {
        "shells": page,
        "next_cursor": _cursor(page[-1]) if more and page else None,
    }


def _cursor(row: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(f"{row['created_at']} {row['shell_id']}".encode()).decode().rstrip("=")


def _read_cursor(cursor: str) -> tuple[str, str]:
    try:
        text = base64.urlsafe_b64decode(cursor.encode() + b"=" * (-len(cursor) % 4)).decode()
    except ValueError:
        text = ""
    created_at, space, shell_id = text.partition(" ")
    if not space:
        raise must_be("cursor", "the next_cursor of an earlier page", "format")
    return created_at, shell_id


def over_error(
    shell_id: str, ended: Facts, ended_at: datetime | None, last: Facts, why: str = ""
) -> ShellEnded | ShellLost:
    """Return the error for a shell that is over, from the facts of its end and of its last command."""
    if ended.get("state") == "lost":
        return ShellLost(
            f"connection of shell {shell_id} was lost",
            details={"command_id": last.get("command_id"), "fate": last.get("state"), "cwd": ended.get("cwd")},
        )
    reason = ended.get("reason")
    return ShellEnded(
        f"shell {shell_id} ended ({reason}){': ' if why else ''}{why}",
        details={
            "ended_reason": reason,
            "exit_code": ended.get("exit_code"),
            "cwd": ended.get("cwd"),
            "ended_at": precise(ended_at) if ended_at else None,
        },
    )


# Facts for the journal


def opening_facts(shell: Shell) -> dict[str, Any]:
    """Return the facts of an opened shell."""
    return {
        "shell_id": shell.shell_id,
        "transport": shell.transport,
        "target": shell.target,
        "name": shell.name,
        "shell": shell.live.kind,
        "cwd": shell.mask(shell.cwd),
        "workspace": shell.shown_workspace,
        "sandbox": shell.guard.sandbox,
        "enforcement": shell.guard.enforcement,
        "kill_scope": shell.live.kill_scope,
        "implicit_session": shell.implicit,
    }


def starting_facts(shell: Shell, command: Command) -> dict[str, Any]:
    """Return the facts of a command that is about to run."""
    return {
        "command_id": command.command_id,
        "shell_id": shell.shell_id,
        "command": command.text,
        "cwd": shell.mask(command.cwd),
        "verdict": command.judgement.verdict,
        "background": command.background,
        "pty": command.terminal,
        "checkpoint_id": command.checkpoint_id,
        **({"read_only": True} if command.judgement.read_only else {}),
    }


def finishing_facts(shell: Shell, command: Command) -> dict[str, Any]:
    """Return the facts of a command that is over or was refused."""
    facts: dict[str, Any] = {
        "command_id": command.command_id,
        "shell_id": shell.shell_id,
        "command": command.text,
        **ending(command),
        "signal": command.signal,
        "duration_ms": round(command.duration_ms),
        "cwd": shell.mask(command.cwd),
        "verdict": command.judgement.verdict,
        "enforcement": shell.guard.enforcement,
        "checkpoint_id": command.checkpoint_id,
    }
    if shell.ended_reason == "server_stopped":
        facts["interrupted_by"] = shell.ended_reason
    if command.judgement.refusal is not None:
        facts["refusal"] = {"message": command.judgement.refusal.message, **command.judgement.refusal.details}
    if command.judgement.syntax is not None:
        facts["syntax_error"] = _syntax_error(shell, command)
    if command.output is not None:
        shown = command.output.show(None, EXCERPT_CHARS)
        facts |= {"stdout": shown.stdout, "stderr": shown.stderr, "redactions": shown.redactions}
        facts["output"] = {
            name: {key: stream[key] for key in ("bytes", "lines", "binary", "sha256")}
            for name, stream in shown.output.items()
        }
    facts |= _programs(command)
    return facts


def transferred(shell: Shell, command: Command, facts: Facts) -> dict[str, Any]:
    """Return the result of a file transfer."""
    return {
        "shell_id": shell.shell_id,
        "command_id": command.command_id,
        "session_id": command.session_id,
        "target": shell.target,
        "duration_ms": command.duration_ms,
        "checkpoint_id": command.checkpoint_id,
        "recorded": command.recorded,
        "transfer": dict(facts),
    }


def input_facts(shell: Shell, command: Command, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of sent input; for sensitive text only its length."""
    text: str | None = values.get("text")
    shown: dict[str, Any] = {}
    if text is not None:
        shown = (
            {"chars": len(text)} if values.get("sensitive") else {"text": elide_middle(shell.mask(text), INPUT_CHARS)}
        )
    return {
        "command_id": command.command_id,
        "shell_id": shell.shell_id,
        **shown,
        "eof": bool(values.get("eof")),
        "signal": values.get("signal"),
    }


def ending_facts(shell: Shell) -> dict[str, Any]:
    """Return the facts of a shell that is over."""
    return {
        "shell_id": shell.shell_id,
        "state": shell.state,
        "reason": shell.ended_reason,
        "exit_code": shell.exit_code,
        "cwd": shell.mask(shell.cwd),
    }


def unknown_facts(last: Facts) -> dict[str, Any]:
    """Return the facts of a command that ran when its server died."""
    return {
        "command_id": last.get("command_id"),
        "shell_id": last.get("shell_id"),
        "command": last.get("command"),
        "state": "unknown",
        "exit_code": None,
        "cwd": last.get("cwd"),
        "verdict": last.get("verdict"),
        "hint": LOST_HINT,
    }


def left_facts(recorded: KnownShell) -> dict[str, Any]:
    """Return the facts of a shell whose server died: a local one died with it, a remote one is lost."""
    return {
        "shell_id": recorded.shell_id,
        "state": "ended" if recorded.opened.get("transport") == "local" else "lost",
        "reason": "server_stopped",
        "exit_code": None,
        "cwd": (recorded.last_command or {}).get("cwd") or recorded.opened.get("cwd"),
    }
