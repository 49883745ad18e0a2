"""Checkpoints for people: `checkpoints` lists, `diff` compares, `undo` and `rewind` go back, `gc` clears away.

A workspace is found from the directory one stands in. Going back saves what it overwrites first.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from shiftlog.cli.asking import ask, json_option
from shiftlog.cli.screen.output import Column, Part, Screen, print_json, since
from shiftlog.cli.shells.commands import complete_shell
from shiftlog.text.figures import count, size
from shiftlog.text.printable import terminal_text

F = TypeVar("F", bound=Callable[..., Any])
Item = dict[str, Any]

KINDS = ("manual", "auto", "open", "turn", "safety")
PATCH_CHARS = 1_000_000
SHOWN_ID = 12
MARKS = {"added": "A", "modified": "M", "deleted": "D", "type_changed": "T", "mode_changed": "m"}
STYLES = {"A": "green", "D": "red", "+": "green", "-": "red", "@": "cyan"}
DONE = {"written": "written back", "created": "brought back", "deleted": "removed", "mode": "mode set back"}

_COLUMNS = (
    Column("CHECKPOINT"),
    Column("", right=False),
    Column("TAKEN", right=True),
    Column("KIND"),
    Column("FILES", right=True),
    Column("TURN", spare=2),
    Column("BEFORE COMMAND", spare=1),
    Column("LABEL", cut=True),
)


def place_options(command: F) -> F:
    """Add the options that name a workspace otherwise than by the directory one stands in."""
    command = click.option("--workspace", "-w", metavar="DIR", help="The workspace; by default the one around here.")(
        command
    )
    return click.option(
        "--shell",
        metavar="ID",
        shell_complete=complete_shell,
        help="The workspace of this live shell, also a remote one.",
    )(command)


def restore_options(command: F) -> F:
    """Add what every way back understands."""
    options = (
        click.option("--dry-run", "-n", is_flag=True, help="Only say what would change."),
        click.option("--keep-new", is_flag=True, help="Leave files that came since; else they are saved and removed."),
        click.option("--path", "paths", metavar="PATH", multiple=True, help="Only this path. May be repeated."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _place(workspace: str | None, shell: str | None) -> Item:
    if workspace and shell:
        raise click.UsageError("A workspace and --shell cannot both be given.")
    if shell:
        return {"shell_id": shell}
    return {"cwd": str(Path.cwd()), **({"workspace": str(Path(workspace).resolve())} if workspace else {})}


def _paths(paths: tuple[str, ...], workspace: str | None, shell: str | None) -> list[str]:
    """Return paths as the daemon finds them: from here, from the named workspace, or as they are in a shell's."""
    if shell:
        return list(paths)
    base = Path(workspace).resolve() if workspace else Path.cwd()
    return [os.path.normpath(base / path) for path in paths]


@click.command(short_help="List the saved states of a workspace.")
@click.argument("workspace", required=False)
@click.option(
    "--shell", metavar="ID", shell_complete=complete_shell, help="The workspace of this live shell, also a remote one."
)
@click.option("--turn", metavar="TURN", help="Only those of this turn.")
@click.option("--kind", type=click.Choice(KINDS), help="Only those of this kind.")
@click.option("--limit", type=click.IntRange(1, 200), metavar="N", default=50, show_default=True, help="How many.")
@json_option
def checkpoints(
    workspace: str | None, shell: str | None, turn: str | None, kind: str | None, limit: int, as_json: bool
) -> None:
    """List the checkpoints of WORKSPACE, or of the one around here, the newest first.

    A star marks where the workspace stands. FILES counts what changed since the checkpoint before. `auto` ones were
    taken before a command, `turn` ones when a turn opened, `safety` ones before somebody went back.

    \b
    Examples:
      shiftlog checkpoints
      shiftlog checkpoints ~/src/webshop --kind manual
    """
    params = {**_place(workspace, shell), "request_id": turn, "kind": kind, "limit": limit}
    found = ask("checkpoints", {name: value for name, value in params.items() if value is not None})
    if as_json:
        print_json(found)
        return
    screen = Screen()
    rows: list[Item] = found["checkpoints"]
    screen.line((found["workspace"], "bold"))
    if not rows:
        screen.line("No checkpoint fits.")
        return
    screen.table(_COLUMNS, map(_row, rows))
    if found["next_cursor"]:
        screen.line((f"The newest {count(len(rows), 'checkpoint')}; --limit shows more", "dim"))


def _row(checkpoint: Item) -> list[Part]:
    return [
        (checkpoint["checkpoint_id"][:SHOWN_ID], "cyan"),
        ("*" if checkpoint["current"] else "", "bold green"),
        f"{since(checkpoint['created_at'])} ago",
        checkpoint["kind"],
        str(checkpoint["files_changed"]),
        (checkpoint["request_id"] or "", "dim"),
        (checkpoint["command_id"] or "", "dim"),
        checkpoint["label"],
    ]


@click.command(short_help="Show what changed since a checkpoint.")
@click.argument("checkpoint", required=False)
@click.option("--turn", metavar="TURN", help="Since this turn opened; `last` is the newest.")
@click.option("--command", "command_id", metavar="ID", help="Since before this command.")
@click.option("--to", metavar="CHECKPOINT", help="Up to this checkpoint; else up to the files as they are.")
@click.option("--patch", "-p", is_flag=True, help="Show the changed lines.")
@click.option("--path", "paths", metavar="PATH", multiple=True, help="Only this path. May be repeated.")
@place_options
@json_option
def diff(
    checkpoint: str | None,
    turn: str | None,
    command_id: str | None,
    to: str | None,
    patch: bool,
    paths: tuple[str, ...],
    workspace: str | None,
    shell: str | None,
    as_json: bool,
) -> None:
    """Show what changed in a workspace since CHECKPOINT, since a turn or since a command.

    Without any of them it is what a plain undo of the newest change would take back. CHECKPOINT is an id or its
    beginning, of 4 characters or more. Secrets in patches are masked.

    \b
    Examples:
      shiftlog diff
      shiftlog diff 9f1c --patch
      shiftlog diff --turn last --patch --path src
    """
    asked: Item = {"checkpoint_id": checkpoint, "before_turn": turn, "before_command": command_id, "to": to}
    if paths:
        asked["paths"] = _paths(paths, workspace, shell)
    if patch:
        asked |= {"format": "patch", "budget": {"max_chars": PATCH_CHARS}}
    given = {name: value for name, value in asked.items() if value is not None}
    found = ask("diff", {**_place(workspace, shell), "diff": given})
    if as_json:
        print_json(found)
        return
    screen = Screen()
    if not found["files_changed"]:
        screen.line("Nothing changed.")
        return
    if patch:
        _print_patch(screen, found["patch"] or "")
    else:
        for file in found["files"]:
            screen.line(*_file_line(file))
    if found["truncated"]:
        screen.line(("Cut; --path narrows it down", "yellow"))
    added = sum(file["insertions"] or 0 for file in found["files"])
    removed = sum(file["deletions"] or 0 for file in found["files"])
    until = f"to {found['to'][:SHOWN_ID]}" if found["to"] else "to now"
    total = f"{count(found['files_changed'], 'file')} changed, +{added} -{removed}"
    screen.line((f"{total}, from {found['from'][:SHOWN_ID]} {until}", "dim"))


def _file_line(file: Item) -> list[Part]:
    mark = MARKS.get(file["status"], "?")
    lines = "binary" if file["binary"] else f"+{file['insertions'] or 0} -{file['deletions'] or 0}"
    return [(f"{mark}  ", STYLES.get(mark, "yellow")), terminal_text(file["path"]), (f"  {lines}", "dim")]


def _print_patch(screen: Screen, patch: str) -> None:
    for line in patch.splitlines():
        heading = line.startswith(("diff --git", "--- ", "+++ ", "index "))
        screen.line((line, "bold" if heading else STYLES.get(line[:1], "")))


@click.command(short_help="Take back what the last commands changed.")
@click.argument("commands", type=click.IntRange(1, 10_000), metavar="[N]", default=1)
@click.option("--to", metavar="CHECKPOINT", help="Go to this checkpoint instead; also how an undo is undone.")
@restore_options
@place_options
@json_option
def undo(
    commands: int,
    to: str | None,
    dry_run: bool,
    keep_new: bool,
    paths: tuple[str, ...],
    workspace: str | None,
    shell: str | None,
    as_json: bool,
) -> None:
    """Take back what the last N commands changed in the files of a workspace (by default the last one).

    Only commands that changed something count. Everything that is overwritten or removed is saved in a safety
    checkpoint first, which is named at the end; files that no checkpoint holds (ignored, secret, too large) are never
    touched. Repeating it goes further back.

    \b
    Examples:
      shiftlog undo --dry-run
      shiftlog undo 3
      shiftlog undo --to 9f1c --path src
    """
    params: Item = {**_place(workspace, shell), "commands": commands, "checkpoint_id": to}
    done = ask("undo", {**params, **_restoring(dry_run, keep_new, _paths(paths, workspace, shell))})
    if as_json:
        print_json(done)
        return
    screen = Screen()
    for command_id in reversed(done["commands"]):
        screen.line(("would undo  " if dry_run else "undone  ", "bold"), command_id)
    _print_restored(screen, done)


@click.command(short_help="Go back to before a turn.")
@click.argument("turn")
@restore_options
@place_options
@json_option
def rewind(
    turn: str,
    dry_run: bool,
    keep_new: bool,
    paths: tuple[str, ...],
    workspace: str | None,
    shell: str | None,
    as_json: bool,
) -> None:
    """Bring the files of a workspace back to what they were when TURN opened.

    TURN is a request id, as `shiftlog show` and `shiftlog checkpoints` list them, or `last` for the newest turn in
    this workspace. What is overwritten or removed is saved in a safety checkpoint first.

    \b
    Examples:
      shiftlog rewind last --dry-run
      shiftlog rewind req-20260131T090000Z-fix-the-login-1
    """
    params: Item = {**_place(workspace, shell), "request_id": turn}
    done = ask("rewind", {**params, **_restoring(dry_run, keep_new, _paths(paths, workspace, shell))})
    if as_json:
        print_json(done)
        return
    screen = Screen()
    screen.line(("would rewind  " if dry_run else "rewound  ", "bold"), f"to before {done['request_id']}")
    _print_restored(screen, done)


def _restoring(dry_run: bool, keep_new: bool, paths: list[str]) -> Item:
    return {"dry_run": dry_run, "clean": not keep_new, **({"paths": paths} if paths else {})}


def _print_restored(screen: Screen, done: Item) -> None:
    screen.line((done["workspace"], "dim"))
    for change in done["changes"]:
        screen.line(f"  {DONE.get(change['action'], change['action']):<13}  ", terminal_text(change["path"]))
    if done["changes_truncated"]:
        screen.line(("  … and more", "dim"))
    left: Item = done["left_in_place"]
    if left["count"]:
        screen.line(
            f"  {count(left['count'], 'newer file')} left in place: ", terminal_text(", ".join(left["paths"][:5]))
        )
    verb = "would change" if done["dry_run"] else "changed"
    screen.line(f"{count(done['files_changed'], 'file')} {verb}.")
    if done["safety_checkpoint_id"] and not done["dry_run"] and done["files_changed"]:
        safety = done["safety_checkpoint_id"][:SHOWN_ID]
        screen.line((f"What it was before is kept: shiftlog undo --to {safety} brings it back", "dim"))


@click.command(short_help="Remove old checkpoints and outputs.")
@json_option
def gc(as_json: bool) -> None:
    """Remove automatic checkpoints and outputs of commands beyond what the policy's limits keep.

    Manual checkpoints stay, as do those of turns of open sessions. The daemon does this by itself now and then; the
    limits are `checkpoints_auto`, `spool_days` and `spool_total_bytes` in [policy.limits].

    \b
    Example:
      shiftlog gc
    """
    done = ask("gc")
    if as_json:
        print_json(done)
        return
    screen = Screen()
    places = count(done["workspaces"], "workspace")
    screen.line(f"{count(done['checkpoints_removed'], 'checkpoint')} of {places} removed.")
    kept = size(done["output_bytes"])
    screen.line(f"{count(done['outputs_removed'], 'output')} of commands removed, {kept} kept.")
