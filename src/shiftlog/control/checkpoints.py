"""Questions about checkpoints: list, compare, restore, remove.

A workspace is named by a shell, a path, or the caller's working directory. `app.workspaces` does the work.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from shiftlog.app.app import App
from shiftlog.control.naming import LAST, named_request
from shiftlog.control.newer import newer_page
from shiftlog.control.questions import Params, Question
from shiftlog.control.shells import PERSON, named_shell
from shiftlog.model.caller import Caller
from shiftlog.model.errors import InvalidParameter, TurnNotFound
from shiftlog.model.shell_errors import NothingToRestore, WorkspaceRequired
from shiftlog.workspace.history import ChangedBy, changes_made
from shiftlog.workspace.ports import Location

Where = dict[str, Any]


async def list_checkpoints(app: App, params: Params, caller: Caller) -> object:
    """List the checkpoints of a workspace, newest first."""
    where, location = await _where(app, params)
    chosen = {name: params[name] for name in ("request_id", "kind", "limit", "cursor") if params.get(name)}
    if "request_id" in chosen:
        chosen["request_id"] = await _turn(app, location, chosen["request_id"])
    found = await app.workspaces.list_checkpoints({**where, **chosen}, caller)
    return {"workspace": location.path, **newer_page(found, "checkpoints", params, "created_at", app.clock.now())}


async def diff(app: App, params: Params, caller: Caller) -> object:
    """Show what changed since a checkpoint, a turn or a command."""
    where, location = await _where(app, params)
    given = dict(params["diff"])
    if given.get("before_turn"):
        given["before_turn"] = await _turn(app, location, given["before_turn"])
    if given.get("paths"):
        given["paths"] = _inside(location, given["paths"])
    return {"workspace": location.path, **await app.workspaces.diff_checkpoint({**where, **given}, caller)}


async def undo(app: App, params: Params, caller: Caller) -> object:
    """Undo the changes of the last commands or turns, or restore a checkpoint; name what was undone."""
    where, location = await _where(app, params)
    how = _how(params, location)
    undone: list[ChangedBy] = []
    if params.get("checkpoint_id"):
        how["checkpoint_id"] = params["checkpoint_id"]
    else:
        undone = await _last_changes(app, where, location, int(params.get("commands", 1)), caller)
        if undone:
            how["checkpoint_id"] = undone[0].checkpoint_id
    restored = await app.workspaces.restore_checkpoint({**where, **how}, replace(caller, client_name=PERSON))
    made = {
        "commands": [one.command_id for one in undone if one.command_id],
        "calls": [one.call_id for one in undone if one.call_id],
        "turns": [one.request_id for one in undone if not one.command_id and not one.call_id],
    }
    return {"workspace": location.path, **made, **restored}


async def rewind(app: App, params: Params, caller: Caller) -> object:
    """Restore the workspace to the beginning of a turn."""
    where, location = await _where(app, params)
    turn = await _turn(app, location, str(params["request_id"]))
    if params.get("with_conversation"):
        from shiftlog.control.rewinding import rewind_both

        given = {**params, "keep": _inside(location, params.get("keep") or ())}
        done = await rewind_both(app, location, turn, given, PERSON)
        return {"workspace": location.path, "request_id": turn, **done}
    how = {**_how(params, location), "before_turn": turn}
    restored = await app.workspaces.restore_checkpoint({**where, **how}, replace(caller, client_name=PERSON))
    return {"workspace": location.path, "request_id": how["before_turn"], **restored}


async def gc(app: App, params: Params, caller: Caller) -> object:
    """Remove checkpoints and outputs beyond their limits."""
    if app.is_read_only and (fault := app.store.fault) is not None:
        raise fault
    shells, workspaces = app.shells, app.workspaces
    app.shell_log.reserve.release()  # removing needs a little room itself; the next record makes it again
    outputs = shells.outputs.sweep()  # first, as packing what is left of checkpoints needs room itself
    checkpoints = await workspaces.gc()
    return {
        "checkpoints_removed": checkpoints,
        "workspaces": len([location for location in await workspaces.log.locations() if location.target is None]),
        "outputs_removed": outputs,
        "output_bytes": shells.outputs.kept_bytes,
    }


def _how(params: Params, location: Location) -> dict[str, Any]:
    how = {name: params[name] for name in ("clean", "dry_run") if params.get(name)}
    return {**how, "paths": _inside(location, params["paths"])} if params.get("paths") else how


def _inside(location: Location, paths: Sequence[str]) -> list[str]:
    """Return paths as the workspace names them; absolute ones must lie in it."""
    found: list[str] = []
    for path in paths:
        if PurePath(path).is_absolute() and not PurePath(path).is_relative_to(location.path):
            raise InvalidParameter.invalid("paths", f"a path inside {location.path}", path)
        found.append(os.path.relpath(path, location.path) if PurePath(path).is_absolute() else path)
    # The workspace itself means everything in it.
    return [] if "." in found else found


async def _where(app: App, params: Params) -> tuple[Where, Location]:
    """Return the workspace that a request means: as the tools name it, and as its records do."""
    if app.is_taking_hooks:
        await app.hooks.settled()
    if params.get("shell_id"):
        shell_id = named_shell(app, str(params["shell_id"]))
        shell = await app.shells.registry.usable(shell_id)
        target = shell.target if shell.transport != "local" else None
        return {"shell_id": shell_id}, Location(target=target, path=shell.workspace or "")
    path = PurePath(str(params.get("workspace") or params["cwd"]))
    locations = {
        location.path: location for location in await app.workspaces.log.locations() if location.target is None
    }
    for above in (path, *path.parents):
        if str(above) in locations:
            return {"workspace": str(above)}, locations[str(above)]
    known = ", ".join(sorted(locations)[:5])
    raise WorkspaceRequired(
        f"no checkpoint of {path} or a directory above it is known",
        hint=f"Name a workspace; these have checkpoints: {known}"
        if known
        else "Checkpoints are taken in shells that name a workspace (shiftlog exec --workspace . -- COMMAND), and in"
        " agents that shiftlog setup has given hooks",
    )


async def _last_changes(app: App, where: Where, location: Location, number: int, caller: Caller) -> list[ChangedBy]:
    """Return the last commands, calls and turns that changed something; an empty list if none did."""
    done = changes_made(await app.workspaces.log.read(location))
    if done:
        compared = await app.workspaces.diff_checkpoint({**where, "checkpoint_id": done[-1].checkpoint_id}, caller)
        if not compared["files_changed"]:
            done = done[:-1]
    if number > len(done) and (done or number > 1):
        one, several = ("command or turn", "commands or turns") if _has_turns(done) else ("command", "commands")
        raise NothingToRestore(
            f"only {len(done)} {one if len(done) == 1 else several} changed files here"
            if done
            else "no command changed files here",
            details={"commands": [one.name for one in done]},
            hint="shiftlog checkpoints lists what can be gone back to; shiftlog undo --to ID goes there",
        )
    return list(done[len(done) - number :]) if done else []


def _has_turns(done: Sequence[ChangedBy]) -> bool:
    return any(one.command_id is None for one in done)


async def _turn(app: App, location: Location, typed: str) -> str:
    """Return the turn of a workspace that a person means: by its id, the beginning of it, or `last`."""
    records = await app.workspaces.log.read(location)
    known = [record.cause.request_id for record in records if record.cause.request_id is not None]
    if typed != LAST:
        return named_request(typed, known)
    if not known:
        raise TurnNotFound("no turn is known in this workspace", hint="shiftlog checkpoints shows the turns")
    return known[-1]


QUESTIONS: dict[str, Question] = {
    "checkpoints": list_checkpoints,
    "diff": diff,
    "undo": undo,
    "rewind": rewind,
    "gc": gc,
}
