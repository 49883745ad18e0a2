"""Watching a remote shell that owes a report: one that sits at the engine's own words and says nothing is ended.

A command may take as long as it likes; that is the caller's to bound. What is looked for here is a shell that a
command has made unable to say that the command is over.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

from shiftlog.shell.remote import programs as remote_programs

if TYPE_CHECKING:
    from shiftlog.shell.remote.command import InbandCommand
    from shiftlog.shell.remote.shell import InbandShell

#: How long after a command's start the first look is, and then the next ones.
LOOKS_S = (1.5, 1.5, 3.0, 6.0, 15.0)
_AGAIN_S = 0.6
_ASK_S = 2.0


async def watch_silence(shell: InbandShell, command: InbandCommand) -> None:
    """Look now and then; the first time that the shell is found silent it is asked, the second time ended.

    While anything comes unasked, the shell may only be waiting for a slow connection to take its report.
    """
    looks = 0
    for pause_s in itertools.chain(LOOKS_S, itertools.repeat(LOOKS_S[-1])):
        heard = shell.heard
        await asyncio.wait([command.ended], timeout=_AGAIN_S if looks else pause_s)
        if not shell.owes(command):
            return
        try:
            said = await shell.aside.ask(remote_programs.waiting(shell.kept.keeper, shell.pid or 0), _ASK_S)
        except (TimeoutError, ConnectionError):
            continue
        is_silent = said.strip() == b"waiting" and (looks > 0 or shell.heard == heard)
        looks = looks + 1 if is_silent else 0
        if looks == 1:
            shell.ask_report(command)
        elif looks > 1 and shell.owes(command):
            await shell.close("killed")
