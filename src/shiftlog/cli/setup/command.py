"""`shiftlog setup AGENT`: connects an agent to Shiftlog by entries in the agent's own configuration files.

`agents` has the table of agents, `plan` the edits, `files` writes and restores files, `edit_json` and `edit_toml` edit
text.
"""

import json
from typing import TYPE_CHECKING

import click

from shiftlog.cli.setup.agents import AGENT_FILES
from shiftlog.cli.setup.files import Edited
from shiftlog.cli.setup.plan import PER_CALL, PRINTED, SetupPlan

if TYPE_CHECKING:
    from rich.console import Console


@click.command()
@click.argument("agent", type=click.Choice(list(AGENT_FILES)))
@click.option(
    "--write/--print-only",
    default=False,
    help="Edit the files and keep backups, or only print the entries (default: print).",
)
@click.option("--remove", is_flag=True, help="Remove exactly what --write added, and keep backups.")
@click.option("--toolsets", metavar="NAMES", help="Toolsets to offer, separated by commas.")
@click.option("--dialect", metavar="NAMES", help="Dialects to offer, separated by commas.")
@click.option("--per-call", is_flag=True, help="Add hooks for every tool call, not only for turns (claude, codex).")
@click.option("--watch", is_flag=True, help="Make the daemon import transcripts as they grow.")
@click.option(
    "--home",
    metavar="DIR",
    envvar="SHIFTLOG_HOME",
    show_envvar=True,
    help="State directory for the entry; needed only if it is not the default one.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def setup(
    agent: str, write: bool, remove: bool, per_call: bool, watch: bool, as_json: bool, **given: str | None
) -> None:
    """Connect AGENT to Shiftlog.

    Prints the configuration for AGENT and the files that it belongs to. With --write, edits these files: everything
    else in them stays unchanged, a backup of each file is kept beside it, and a file that is already correct is not
    touched. Claude Code gets a plugin with hooks and skills, Codex, Cursor and Gemini CLI get hooks, OpenCode a plugin.
    With --remove, removes everything that --write added.

    \b
    Examples:
      shiftlog setup claude
      shiftlog setup codex --write
      shiftlog setup claude --remove
    """
    if write and remove:
        raise click.UsageError("--write and --remove do not go together")
    if per_call and agent not in PER_CALL:
        raise click.UsageError(f"--per-call is for {' and '.join(PER_CALL)}")
    plan = SetupPlan.of(agent, per_call=per_call, watch=watch or remove, **given)
    done: list[Edited] = []
    state = PRINTED
    if write or remove:
        done = plan.put() if write else plan.take()
        changed = any(one.state != "unchanged" for one in done)
        state = ("written" if write else "removed") if changed else "unchanged"
    command = plan.agent_file.command_line(plan.entry)
    if as_json:
        click.echo(json.dumps(plan.report(agent, state, done, command), indent=2, ensure_ascii=False))
    elif write or remove:
        _print_done(plan, done, removed=remove)
    else:
        _print_instructions(agent, plan, command)


def _print_instructions(agent: str, plan: SetupPlan, command: str | None) -> None:
    console = _console()
    title = plan.agent_file.title
    if command:
        console.print(f"Run this to give {title} the tools:\n", style="bold")
        console.print(command, style="cyan")
    how = "\nOr, with hooks and skills, make" if plan.files else "\nOr make" if command else f"To connect {title}, make"
    for path, text in plan.contents():
        console.print(f"{how} {path} this, whole:\n", style="bold")
        console.print(text, style="cyan")
        how = "And"
    console.print(f"`shiftlog setup {agent} --write` does it for you and keeps what is there.")
    if plan.note:
        console.print(plan.note)


def _print_done(plan: SetupPlan, done: list[Edited], *, removed: bool) -> None:
    console = _console()
    title = plan.agent_file.title
    changed = [one for one in done if one.state != "unchanged"]
    left = [one for one in changed if one.state == "left"]
    if not changed:
        already = f"{plan.path} is already right; nothing was changed."
        console.print(f"Nothing of ours is in the files of {title}." if removed else already)
        return
    if removed and len(left) == len(changed):
        console.print("What is left of ours was edited, so it was not removed:")
    elif removed:
        console.print(f"{title} is disconnected:", style="green")
    else:
        console.print(f"{title} is connected: {plan.path}", style="green")
    for one in changed:
        console.print(f"  {one.state}: {one.path}")
        for line in one.lines:
            console.print(f"    line {line}", style="yellow")
        if one.backup:
            console.print(f"  The file as it was: {one.backup}")
    if removed:
        console.print(f"Start {title} anew to forget it.")
        return
    console.print(f"Start {title} anew to load it; then shiftlog doctor says what works.")
    if plan.note:
        console.print(plan.note)


def _console() -> "Console":
    from rich.console import Console

    return Console(markup=False, highlight=False, emoji=False, soft_wrap=True)
