"""Shells, joined with the journal, the operator's rules and the places where they may live."""

from typing import TYPE_CHECKING

from shiftlog.app_checkpoint_log import JournalCheckpointLog
from shiftlog.app_workspaces import Workspaces
from shiftlog.journal.shell_log import ShellLog
from shiftlog.shell.opening import Opener
from shiftlog.shell.output_keeper import OutputKeeper
from shiftlog.shell.places import LocalPlaces
from shiftlog.shell.service import Shells
from shiftlog.workspace.checkpoints import Checkpoints

if TYPE_CHECKING:
    from shiftlog.app import App

OUTPUTS = "outputs"


def build_shells(app: "App") -> tuple[Shells, Workspaces]:
    """Join what shells and checkpoints need; nothing is opened or recorded before the first one."""
    log = ShellLog(app.journal, app.sessions, app.continuity, app.redactor)
    shells = Shells(
        journal=log,
        outputs=OutputKeeper(app.home / OUTPUTS, app.redactor, now=app.clock.now),
        opener=Opener(journal=log, places={"local": LocalPlaces(app.environ)}, data=app.home),
        redactor=app.redactor,
        now=app.clock.now,
    )
    records = JournalCheckpointLog(app.store, log)
    workspaces = Workspaces(
        checkpoints=Checkpoints(records, data=str(app.home), now=app.clock.now),
        log=records,
        shell=shells.find,
        live_shells=lambda: [shell for shell in shells.live.values() if shell.is_live],
        open_turn=log.open_turn,
        redactor=app.redactor,
    )
    workspaces.checkpoints.busy = workspaces.busy
    shells.snapshots = workspaces
    app.continuity.live_shells = shells.live_ids
    app.journal.turn_began = workspaces.turn_began
    return shells, workspaces
