"""The commands `checkpoints` (list), `diff` (compare), `undo` and `rewind` (restore) and `gc` (clean up).

The workspace is found from the working directory. Restoring first saves the files that it overwrites.
"""

import os
from pathlib import Path
from typing import Any

import click

from shiftlog.cli.connecting import (
    ask,
    complete_shell,
    filters,
    json_option,
    limit_option,
    options,
    since_option,
)
from shiftlog.cli.screen.output import Column, Printer, print_json, since
from shiftlog.cli.screen.paging import paged
from shiftlog.cli.screen.patches import print_patch
from shiftlog.text.figures import count, size
from shiftlog.text.printable import terminal_text

Item = dict[str, Any]

KINDS = ("manual", "auto", "open", "turn", "end", "safety")
PATCH_CHARS = 1_000_000
SHOWN_ID = 12
MARKS = {"added": "A", "modified": "M", "deleted": "D", "type_changed": "T", "mode_changed": "m"}
STYLES = {"A": "green", "D": "red"}
DONE = {"written": "written back", "created": "brought back", "deleted": "removed", "mode": "mode set back"}

_COLUMNS = (
    Column("CHECKPOINT", lambda checkpoint: (checkpoint["checkpoint_id"][:SHOWN_ID], "cyan")),
    Column("", lambda checkpoint: ("*" if checkpoint["current"] else "", "bold green")),
    Column("TAKEN", lambda checkpoint: f"{since(checkpoint['created_at'])} ago", right=True),
    Column("KIND", "kind"),
    Column("FILES", "files_changed", right=True),
    Column("TURN", lambda checkpoint: (checkpoint["request_id"] or "", "dim"), spare=2),
    Column("BEFORE COMMAND", lambda checkpoint: (checkpoint["command_id"] or "", "dim"), spare=1),
    Column("LABEL", "label", cut=True),
)

shell_option = click.option(
    "--shell", metavar="ID", shell_complete=complete_shell, help="The workspace of this live shell, local or remote."
)
paths_option = click.option("--path", "paths", metavar="PATH", multiple=True, help="Only this path. Repeatable.")
# Options that name another workspace than the one around the working directory.
workspace_options = options(
    shell_option,
    click.option("--workspace", "-w", metavar="DIR", help="Workspace (default: the one around the working directory)."),
)
restore_options = options(
    click.option("--dry-run", "-n", is_flag=True, help="Only show what would change."),
    click.option("--keep-new", is_flag=True, help="Keep files created since (default: save and remove them)."),
    paths_option,
    workspace_options,
)


def _target(workspace: str | None, shell: str | None) -> Item:
    if workspace and shell:
        raise click.UsageError("A workspace and --shell cannot be combined.")
    if shell:
        return {"shell_id": shell}
    return {"cwd": str(Path.cwd()), **({"workspace": str(Path(workspace).resolve())} if workspace else {})}


def _paths(paths: tuple[str, ...], workspace: str | None, shell: str | None) -> list[str]:
    """Return absolute paths, based on the named workspace or the working directory; unchanged for a shell."""
    if shell:
        return list(paths)
    base = Path(workspace).resolve() if workspace else Path.cwd()
    return [os.path.normpath(base / path) for path in paths]


@click.command(short_help="List the saved states of a workspace.")
@click.argument("workspace", required=False)
@shell_option
@click.option("--turn", metavar="TURN", help="Only checkpoints of this turn.")
@click.option("--kind", type=click.Choice(KINDS), help="Only checkpoints of this kind.")
@since_option("Taken at this time or later")
@limit_option(200, default=50)
@json_option
def checkpoints(
    workspace: str | None,
    shell: str | None,
    turn: str | None,
    kind: str | None,
    limit: int,
    as_json: bool,
    **given: str | None,
) -> None:
    """List the checkpoints of WORKSPACE (default: the one around the working directory), the newest first.

    A star marks the current state of the workspace. FILES counts the changes since the checkpoint before. Kinds:
    `auto` was taken before a command or a tool call, `turn` at the start of a turn, `end` at its end, `open` when a
    shell was opened, `safety` before a restore, `manual` on request.

    \b
    Examples:
      shiftlog checkpoints
      shiftlog checkpoints --since 2h
      shiftlog checkpoints ~/src/webshop --kind manual
    """
    asked = {**_target(workspace, shell), **filters(**given), "request_id": turn, "kind": kind, "limit": limit}
    found = ask("checkpoints", asked)
    if as_json:
        print_json(found)
        return
    rows: list[Item] = found["checkpoints"]
    with paged() as printer:
        printer.line((found["workspace"], "bold"))
        printer.table(_COLUMNS, rows, nothing="No checkpoint matches.")
        if found["next_cursor"]:
            printer.line((f"The newest {count(len(rows), 'checkpoint')}; --limit shows more", "dim"))


@click.command(short_help="Show what changed since a checkpoint.")
@click.argument("checkpoint_id", required=False, metavar="[CHECKPOINT]")
@click.option("--turn", "before_turn", metavar="TURN", help="Since the start of this turn, or of the `last` one.")
@click.option("--command", "before_command", metavar="ID", help="Since the state before this command.")
@click.option("--to", metavar="CHECKPOINT", help="Up to this checkpoint (default: up to the current files).")
@click.option("--patch", "-p", is_flag=True, help="Show the changed lines.")
@paths_option
@workspace_options
@json_option
def diff(
    patch: bool, paths: tuple[str, ...], workspace: str | None, shell: str | None, as_json: bool, **states: str | None
) -> None:
    """Show the changes in a workspace since CHECKPOINT, since a turn or since a command.

    Without any of them, shows what a plain `shiftlog undo` would revert. CHECKPOINT is an id, or its first 4 or more
    characters. Secrets in patches are masked.

    \b
    Examples:
      shiftlog diff
      shiftlog diff 9f1c --patch
      shiftlog diff --turn last --patch --path src
    """
    asked: Item = {name: value for name, value in states.items() if value is not None}
    if paths:
        asked["paths"] = _paths(paths, workspace, shell)
    if patch:
        asked |= {"format": "patch", "budget": {"max_chars": PATCH_CHARS}}
    found = ask("diff", {**_target(workspace, shell), "diff": asked})
    if as_json:
        print_json(found)
        return
    with paged() as printer:
        _print_diff(printer, found, patch)


def _print_diff(printer: Printer, found: Item, patch: bool) -> None:
    if not found["files_changed"]:
        printer.line("Nothing changed.")
        return
    if patch and found["patch"]:
        print_patch(printer, found["patch"])
    for file in () if patch else found["files"]:
        mark = MARKS.get(file["status"], "?")
        lines = "binary" if file["binary"] else f"+{file['insertions'] or 0} -{file['deletions'] or 0}"
        printer.line((f"{mark}  ", STYLES.get(mark, "yellow")), terminal_text(file["path"]), (f"  {lines}", "dim"))
    if found["truncated"]:
        printer.line(("Cut; --path narrows it down", "yellow"))
    added = sum(file["insertions"] or 0 for file in found["files"])
    removed = sum(file["deletions"] or 0 for file in found["files"])
    until = f"to {found['to'][:SHOWN_ID]}" if found["to"] else "to now"
    total = f"{count(found['files_changed'], 'file')} changed, +{added} -{removed}"
    printer.line((f"{total}, from {found['from'][:SHOWN_ID]} {until}", "dim"))


@click.command(short_help="Revert the file changes of the last commands or turns.")
@click.argument("commands", type=click.IntRange(1, 10_000), metavar="[N]", default=1)
@click.option("--to", metavar="CHECKPOINT", help="Restore this checkpoint instead; this also reverts an undo.")
@restore_options
@json_option
def undo(commands: int, to: str | None, as_json: bool, **options: Any) -> None:
    """Revert the file changes of the last N commands or turns in a workspace (default: 1).

    A turn of an agent with hooks counts as one, whatever changed the files in it. Only commands and turns that changed
    files count. Overwritten and removed files are saved in a safety checkpoint first,
    whose id is printed. Files that no checkpoint holds (ignored, secret, too large) are never touched. Another undo
    goes further back.

    \b
    Examples:
      shiftlog undo --dry-run
      shiftlog undo 3
      shiftlog undo --to 9f1c --path src
    """
    done = ask("undo", {**_restoring(**options), "commands": commands, "checkpoint_id": to})
    if as_json:
        print_json(done)
        return
    printer = Printer()
    for name in reversed([*(f"turn {turn}" for turn in done["turns"]), *done["calls"], *done["commands"]]):
        printer.line(("would undo  " if done["dry_run"] else "undone  ", "bold"), name)
    _print_restored(printer, done)


@click.command(short_help="Restore the files as they were before a turn.")
@click.argument("turn")
@click.option("--with-conversation", is_flag=True, help="Also write a conversation that ends before TURN, to resume.")
@click.option("--force", is_flag=True, help="With --with-conversation: also take back what others changed since.")
@click.option("--keep", metavar="PATH", multiple=True, help="With --with-conversation: leave PATH. Repeatable.")
@restore_options
@json_option
def rewind(
    turn: str, with_conversation: bool, force: bool, keep: tuple[str, ...], as_json: bool, **options: Any
) -> None:
    """Restore the files of a workspace to their state at the start of TURN.

    TURN is a request id, as `shiftlog show` and `shiftlog checkpoints` list it, the beginning of one, or `last` for the
    newest turn in this workspace. Overwritten and removed files are saved in a safety checkpoint first.

    With --with-conversation a new transcript of Claude Code or Codex ends before TURN too; the old one stays as it is.
    The command that resumes it is printed. If another program or person changed files since, nothing happens without
    --force or --keep.

    \b
    Examples:
      shiftlog rewind last --dry-run
      shiftlog rewind last --with-conversation
      shiftlog rewind req-20260131T090000Z-fix-the-login-1
    """
    if not with_conversation and (force or keep):
        raise click.UsageError("--force and --keep belong to --with-conversation")
    if with_conversation and (options["paths"] or options["keep_new"]):
        raise click.UsageError("--with-conversation takes all files back; --keep leaves some")
    asked: Item = {"request_id": turn, "with_conversation": with_conversation, "force": force}
    asked["keep"] = _paths(keep, options["workspace"], options["shell"])
    done = ask("rewind", {**_restoring(**options), **asked})
    if as_json:
        print_json(done)
        return
    printer = Printer()
    printer.line(("would rewind  " if done["dry_run"] else "rewound  ", "bold"), f"to before {done['request_id']}")
    _print_restored(printer, done)
    if with_conversation:
        _print_conversation(printer, done["conversation"], dry_run=done["dry_run"])


def _print_conversation(printer: Printer, about: Item, *, dry_run: bool) -> None:
    left = count(len(about["turns_left"]), "turn")
    if dry_run:
        printer.line(f"The new conversation would end before {left}.")
        return
    printer.line(f"{count(about['turns'], 'turn')} kept, {left} left out of the new conversation. Go on with:")
    printer.line((f"  {about['command']}", "cyan"))
    if about["masked"]:
        printer.line((f"{count(about['masked'], 'part')} of it are masked: the journal never held them.", "yellow"))


def _restoring(
    *, dry_run: bool, keep_new: bool, paths: tuple[str, ...], workspace: str | None, shell: str | None
) -> Item:
    """Return the parameters of a restore."""
    params: Item = {**_target(workspace, shell), "dry_run": dry_run, "clean": not keep_new}
    return {**params, "paths": _paths(paths, workspace, shell)} if paths else params


def _print_restored(printer: Printer, done: Item) -> None:
    printer.line((done["workspace"], "dim"))
    for change in done["changes"]:
        printer.line(f"  {DONE.get(change['action'], change['action']):<13}  ", terminal_text(change["path"]))
    if done["changes_truncated"]:
        printer.line(("  … and more", "dim"))
    left: Item = done["left_in_place"]
    if left["count"]:
        printer.line(
            f"  {count(left['count'], 'newer file')} left in place: ", terminal_text(", ".join(left["paths"][:5]))
        )
    verb = "would change" if done["dry_run"] else "changed"
    printer.line(f"{count(done['files_changed'], 'file')} {verb}.")
    if done["safety_checkpoint_id"] and not done["dry_run"] and done["files_changed"]:
        safety = done["safety_checkpoint_id"][:SHOWN_ID]
        printer.line((f"What it was before is kept: shiftlog undo --to {safety} brings it back", "dim"))


@click.command(short_help="Remove old checkpoints and outputs.")
@json_option
def gc(as_json: bool) -> None:
    """Remove automatic checkpoints and command outputs that exceed the limits of the policy.

    Manual checkpoints and those of unfinished sessions stay. The daemon does this periodically by itself. The limits
    are `checkpoints_auto`, `spool_days` and `spool_total_bytes` in [policy.limits].

    \b
    Example:
      shiftlog gc
    """
    done = ask("gc")
    if as_json:
        print_json(done)
        return
    printer = Printer()
    places = count(done["workspaces"], "workspace")
    printer.line(f"{count(done['checkpoints_removed'], 'checkpoint')} of {places} removed.")
    kept = size(done["output_bytes"])
    printer.line(f"{count(done['outputs_removed'], 'output')} of commands removed, {kept} kept.")
