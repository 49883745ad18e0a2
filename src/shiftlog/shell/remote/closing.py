"""Ends what a remote shell started, and watches for a shell that can no longer report the end of its command.

Everything in the shell's session is killed until nothing is found there; processes that left the session stay.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Collection
from typing import TYPE_CHECKING

from shiftlog.shell.engine import protocol
from shiftlog.shell.engine.command import SIGNAL_NUMBERS
from shiftlog.shell.remote.control import ControlShell
from shiftlog.shell.remote.programs import KeeperReply, waiting

if TYPE_CHECKING:
    from shiftlog.shell.remote.command import RemoteCommand
    from shiftlog.shell.remote.shell import RemoteShell

#: The times of the checks on a command: the first after its start, each next one after the one before.
LOOKS_S = (1.5, 1.5, 3.0, 6.0, 15.0)
_AGAIN_S = 0.6
_ASK_S = 2.0
_KILL = int(SIGNAL_NUMBERS["kill"])
_ROUNDS = 10
_PAUSE_S = 0.05


async def kill_session(control: ControlShell, kept: KeeperReply, terminals: Collection[int]) -> int:
    """Kill the processes of the shell's sessions and their descendants; return how many there were.

    The keeper stays to tidy up, unless processes are left after the first round: they start new ones faster than they
    can be listed, and only a signal to the whole group reaches all of them at once.
    """
    killed: set[int] = set()
    spared = {kept.keeper, kept.session}
    for number in range(_ROUNDS):
        found = (await control.table(_ASK_S)).sessions({kept.session, *terminals}, [kept.keeper])
        victims = {one.pid for one in found if one.pid not in spared}
        if not victims:
            break
        if number:
            groups = {-one.group for one in found if one.group > 1}
            await control.kill(_KILL, groups, _ASK_S)
            await control.ask(f"sleep {_PAUSE_S} 2>/dev/null", _ASK_S)
        else:
            await control.kill(_KILL, victims, _ASK_S)
        killed |= victims
    return len(killed)


async def tidy(control: ControlShell, kept: KeeperReply, stuck: Collection[int]) -> None:
    """Kill channel programs that did not end by themselves, and remove the private directory."""
    if stuck:
        table = await control.table(_ASK_S)
        await control.kill(_KILL, [one.pid for one in table.sessions(stuck, stuck)], _ASK_S)
    await control.ask(f"rm -rf {protocol.quote(kept.directory)}", _ASK_S)


async def watch_silence(shell: RemoteShell, command: RemoteCommand) -> None:
    """Check now and then whether the shell waits for its next line although it owes a report.

    The first time, request the report again; the second time, end the shell. While anything else arrives, a slow
    connection may only be holding the report up. How long a command may take is the caller's to limit.
    """
    looks = 0
    for pause_s in itertools.chain(LOOKS_S, itertools.repeat(LOOKS_S[-1])):
        heard = shell.heard
        await asyncio.wait([command.ended], timeout=_AGAIN_S if looks else pause_s)
        if not shell.owes(command):
            return
        try:
            said = await shell.control.ask(waiting(shell.kept.keeper, shell.pid or 0), _ASK_S)
        except (TimeoutError, ConnectionError):
            continue
        is_silent = said.strip() == b"waiting" and (looks > 0 or shell.heard == heard)
        looks = looks + 1 if is_silent else 0
        if looks == 1:
            shell.ask_report(command)
        elif looks > 1 and shell.owes(command):
            await shell.close("killed")
