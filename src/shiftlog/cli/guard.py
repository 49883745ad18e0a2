"""`shiftlog guard`: switches the operator's rules for the tools that agents bring themselves on and off."""

from pathlib import Path
from typing import Any

import click

from shiftlog.cli.connecting import ask, json_option, open_client
from shiftlog.cli.screen.output import Printer, print_json
from shiftlog.cli.shells.commands import SANDBOXES
from shiftlog.model.agents import AGENTS as KINDS
from shiftlog.model.errors import ShiftlogError
from shiftlog.text.printable import terminal_line

MODES = ("watch", "ask", "enforce")
AGENTS = tuple(agent.name for agent in KINDS.values() if agent.hooks)
# What each client obeys, as tested with the version that `docs/guard.md` names.
OBEYS = {
    "claude": "shell commands: refused, asked about, run in the sandbox; file tools: refused",
    "codex": "shell commands: refused, run in the sandbox (what the policy asks about is refused); apply_patch:"
    " refused; input to running commands: held by the sandbox alone",
    "gemini": "shell commands: refused, run in the sandbox (what the policy asks about is refused); file tools:"
    " refused; no hook runs in a folder that it does not trust",
    "cursor": "shell commands: refused, run in the sandbox (what the policy asks about is refused); Write and Delete:"
    " refused; by its documentation, not tried with the program itself",
    "opencode": "shell commands: refused, run in the sandbox (what the policy asks about is refused); file tools:"
    " refused",
}
Item = dict[str, Any]


@click.command(short_help="Hold agents' own tools to the policy.")
@click.argument("action", type=click.Choice(("on", "off", "status")), default="status")
@click.option("--agent", "agents", type=click.Choice(AGENTS), multiple=True, help="Only this agent. Repeatable.")
@click.option("--mode", type=click.Choice(MODES), help="With on: what the guard does (default: enforce).")
@click.option("--sandbox", type=click.Choice(SANDBOXES), help="With on: the sandbox (default: workspace-write).")
@json_option
def guard(action: str, agents: tuple[str, ...], mode: str | None, sandbox: str | None, as_json: bool) -> None:
    """Switch the guard for agents' own shell and file tools on or off, or show it.

    \b
    Modes:
      watch    record what the policy would say
      ask      refuse what the policy denies, and let the client ask about the rest of it
      enforce  the same, and run commands in the sandbox, where the kernel holds the rules

    The agent needs our hooks (`shiftlog setup`). A program that an agent started cannot switch the guard. In enforce
    mode a call is refused if the hook fails or the daemon cannot be reached; `off` works without the daemon too.

    \b
    Examples:
      shiftlog guard on --mode watch
      shiftlog guard on --agent claude --sandbox workspace-write
      shiftlog guard off
    """
    if action != "on" and (mode or sandbox):
        raise click.UsageError("--mode and --sandbox belong to `shiftlog guard on`")
    if action == "status":
        found: Item = ask("guard", {})
    else:
        wanted = {"mode": (mode or "enforce") if action == "on" else "off", "sandbox": sandbox, "agents": list(agents)}
        found = _switched(wanted, is_off=action == "off")
    if as_json:
        print_json(found)
        return
    printer = Printer()
    for agent in found["agents"]:
        if not agents or agent["agent"] in agents:
            _print_agent(printer, agent)


def _switched(wanted: Item, *, is_off: bool) -> Item:
    """Ask the daemon to switch; switching off also works where it cannot be reached."""
    try:
        client = open_client()
    except ShiftlogError as error:
        if not is_off:
            raise
        from shiftlog.control.guard import switch_off_alone
        from shiftlog.link import wire

        found = switch_off_alone(Path(wire.home_path()), wanted["agents"])
        click.echo(terminal_line(f"The daemon cannot be reached: {error.message}"), err=True)
        click.echo("The guard was switched off without it.", err=True)
        return found
    with client:
        return client.call("guard_switch", {name: value for name, value in wanted.items() if value is not None})


def _print_agent(printer: Printer, agent: Item) -> None:
    style = {"enforce": "green", "ask": "yellow", "watch": "cyan"}.get(agent["mode"], "dim")
    sandbox = f"  sandbox {agent['sandbox']}" if agent["mode"] == "enforce" else ""
    printer.line((f"{agent['title']:<12}  ", "bold"), (agent["mode"], style), sandbox)
    if agent["mode"] != "off":
        printer.line((f"  obeys: {OBEYS[agent['agent']]}", "dim"))
    if agent["mode"] != "off" and not agent["hooks_installed"]:
        printer.line(
            ("  no hooks installed, so nothing is guarded: ", "yellow"), f"shiftlog setup {agent['agent']} --write"
        )
    for path in agent["changed"]:
        printer.line(
            ("  guard_changed: ", "red"), terminal_line(path), " is not as it was when the guard was switched on"
        )
