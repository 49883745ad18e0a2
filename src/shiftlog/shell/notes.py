"""Notes about a local shell and its commands for the next server; the shell's holder keeps them in memory.

The journal has the rest. Values to mask are in it, so it never goes to disk.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any

import msgspec

from shiftlog.guard.policy.found import Definitions, told_definitions
from shiftlog.guard.policy.operator import OperatorPolicy
from shiftlog.shell.sandbox.spec import Enforcement
from shiftlog.shell.sandbox.supervision import LaunchFacts
from shiftlog.shell.state import Command, Shell

#: The arguments of open_shell that a later server needs.
_GIVEN = (
    "transport allow deny workspace cwd sandbox paths checkpoint_ignores include_ignored auto_snapshot dialect "
    "timeout_s given_budget"
).split()


class ShellNote(msgspec.Struct):
    """One shell; `policy` is the digest of the operator's policy under which it was opened."""

    policy: str
    shell_id: str
    session_id: str
    implicit: bool
    name: str | None
    used_by: str | None
    created_at: datetime
    given: dict[str, Any]
    checkpoints: dict[str, Any]
    learned: list[str]
    functions: list[str]
    aliases: dict[str, str]
    enforcement: Enforcement
    rules_note: str | None
    temp: str | None
    launch: LaunchFacts | None
    askpass: str | None


class CommandNote(msgspec.Struct):
    """One command; `over_at` is when its time is over, in seconds since 1970."""

    command_id: str
    text: str
    cwd: bytes
    request_id: str | None
    checkpoint_id: str | None
    verdict: str
    read_only: bool
    background: bool
    terminal: bool
    started_at: datetime
    over_at: float | None
    keeps_running: bool
    permitted: list[str]
    stdin_open: bool
    client_id: str | None
    call_id: str | None
    after: tuple[list[str], dict[str, str]]
    after_stop: tuple[list[str], dict[str, str]]


_encode = msgspec.json.Encoder().encode
read_shell_note = msgspec.json.Decoder(ShellNote).decode
read_command_note = msgspec.json.Decoder(CommandNote).decode


def policy_digest(policy: OperatorPolicy) -> str:
    """Return the digest of a policy: a shell that was opened under another one is not taken over."""
    texts = [f"{one.name}={getattr(policy, one.name)!r}" for one in fields(policy) if one.name != "given"]
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of open_shell that a note holds."""
    return {name: values[name] for name in _GIVEN if values.get(name) is not None}


def shell_note(shell: Shell, policy: str) -> bytes:
    """Return the note of a shell as it is now."""
    defined = shell.guard.defined
    launcher = shell.guard.launcher
    return _encode(
        ShellNote(
            policy=policy,
            shell_id=shell.shell_id,
            session_id=shell.session_id,
            implicit=shell.implicit,
            name=shell.name,
            used_by=shell.used_by,
            created_at=shell.created_at,
            given=shell.given,
            checkpoints=shell.checkpoints,
            learned=sorted(shell.learned),
            functions=sorted(defined.functions),
            aliases=dict(defined.aliases),
            enforcement=shell.guard.enforcement,
            rules_note=shell.guard.rules_note,
            temp=shell.guard.temp,
            launch=None if launcher is None else launcher.facts,
            askpass=None if shell.askpass is None else shell.askpass.directory,
        )
    )


def command_note(
    shell: Shell, command: Command, values: Mapping[str, Any], call: tuple[str | None, str | None]
) -> bytes:
    """Return the note of a command that is about to start."""
    timeout_s = values.get("timeout_s", None if command.background else shell.timeout_s)
    assert command.started_at is not None
    judgement = command.judgement
    return _encode(
        CommandNote(
            command_id=command.command_id,
            text=command.text,
            cwd=os.fsencode(command.cwd),
            request_id=command.request_id,
            checkpoint_id=command.checkpoint_id,
            verdict=judgement.verdict,
            read_only=judgement.read_only,
            background=command.background,
            terminal=command.terminal,
            started_at=command.started_at,
            over_at=None if timeout_s is None else time.time() + timeout_s,
            keeps_running=values.get("on_timeout") == "keep_running",
            permitted=command.permitted,
            stdin_open=command.stdin_open,
            client_id=call[0],
            call_id=call[1],
            after=_defined(judgement.after),
            after_stop=_defined(judgement.after_stop),
        )
    )


def definitions(defined: tuple[list[str], dict[str, str]]) -> Definitions:
    """Return functions and aliases of a note."""
    return told_definitions(*defined)


def _defined(known: Definitions) -> tuple[list[str], dict[str, str]]:
    return list(known.functions), dict(known.aliases)
