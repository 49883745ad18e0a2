"""Shells, joined with the journal, the operator's rules and the places where they may live."""

from typing import TYPE_CHECKING

from shiftlog.journal.shell_log import ShellLog
from shiftlog.shell.opening import Opener
from shiftlog.shell.output_keeper import OutputKeeper
from shiftlog.shell.places import LocalPlaces
from shiftlog.shell.service import Shells

if TYPE_CHECKING:
    from shiftlog.app import App

OUTPUTS = "outputs"


def build_shells(app: "App") -> Shells:
    """Join what shells need; nothing is opened or recorded before the first one."""
    log = ShellLog(app.journal, app.sessions, app.continuity, app.redactor)
    shells = Shells(
        journal=log,
        outputs=OutputKeeper(app.home / OUTPUTS, app.redactor, now=app.clock.now),
        opener=Opener(journal=log, places={"local": LocalPlaces(app.environ)}, data=app.home),
        redactor=app.redactor,
        now=app.clock.now,
    )
    app.continuity.live_shells = shells.live_ids
    return shells
