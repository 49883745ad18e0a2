"""Small parts of running a command: what the engine is told, and judgements without secrets."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from shiftlog.model.shell_errors import CommandNotRunning
from shiftlog.shell.guard import CommandJudgement
from shiftlog.shell.ports import CommandSpec, Terminal
from shiftlog.shell.state import Command, Shell


def not_running(command_id: str, state: str) -> CommandNotRunning:
    """Return the error for a command that no longer takes input."""
    return CommandNotRunning(f"command {command_id} is {state}", details={"state": state})


def spec_of(shell: Shell, command: Command, values: Mapping[str, Any], note: bytes) -> CommandSpec:
    """Return what the engine must know to start a command."""
    given = values.get("input")
    return CommandSpec(
        text=values["command"],
        stdin_open=command.stdin_open,
        input=given.encode() if given is not None else None,
        background=command.background,
        terminal=Terminal(cols=values.get("cols", 120), rows=values.get("rows", 40)) if command.terminal else None,
        note=note,
        on_copy=partial(shell.guard.copy_began, command.command_id, command.permitted),
    )


def masked(shell: Shell, judgement: CommandJudgement) -> CommandJudgement:
    """Mask what a refusal, or a question to a person, quotes from the command; also values that the shell learned."""
    if judgement.refusal is not None:
        judgement.refusal.message = shell.mask(judgement.refusal.message)
        judgement.refusal.details = dict(shell.redactor.value(judgement.refusal.details, by_rule=True)[0])
    if not judgement.asks:
        return judgement
    asks = [ask | {name: shell.mask(str(ask[name])) for name in ("program", "message")} for ask in judgement.asks]
    return replace(judgement, asks=asks)
