"""Ending what a remote shell started: everything in its session is killed until nothing is found, then tidied up.

Only the group of a session can be reached there, not a tree: what left the session and its parents stays.
"""

from __future__ import annotations

from collections.abc import Collection

from shiftlog.shell.engine import words as framing
from shiftlog.shell.engine.command import SIGNAL_NUMBERS
from shiftlog.shell.remote.aside import Aside
from shiftlog.shell.remote.programs import Kept

_ASK_S = 2.0
_KILL = int(SIGNAL_NUMBERS["kill"])
_ROUNDS = 10
_PAUSE_S = 0.05


async def kill_session(aside: Aside, kept: Kept, terminals: Collection[int]) -> int:
    """Kill what is in the shell's sessions or descends from them, and return how many processes that were.

    The keeper stays to tidy up, unless something is left after the first time: that starts new processes faster than
    they can be listed, and only a signal to its whole group reaches all of them at once, those being made too.
    """
    killed: set[int] = set()
    spared = {kept.keeper, kept.session}
    for number in range(_ROUNDS):
        found = (await aside.table(_ASK_S)).sessions({kept.session, *terminals}, [kept.keeper])
        victims = {one.pid for one in found if one.pid not in spared}
        if not victims:
            break
        if number:
            groups = {-one.group for one in found if one.group > 1}
            await aside.kill(_KILL, groups, _ASK_S)
            await aside.ask(f"sleep {_PAUSE_S} 2>/dev/null", _ASK_S)
        else:
            await aside.kill(_KILL, victims, _ASK_S)
        killed |= victims
    return len(killed)


async def tidy(aside: Aside, kept: Kept, stuck: Collection[int]) -> None:
    """End the programs of lines that did not go by themselves, and remove the private directory."""
    if stuck:
        table = await aside.table(_ASK_S)
        await aside.kill(_KILL, [one.pid for one in table.sessions(stuck, stuck)], _ASK_S)
    await aside.ask(f"rm -rf {framing.quote(kept.directory)}", _ASK_S)
