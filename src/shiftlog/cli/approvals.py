"""The commands `approvals` (list pending approvals) and `approve` (decide one).

Only the operator can decide, and never from a shell that Shiftlog opened; the daemon enforces that.
"""

from typing import Any

import click

from shiftlog.cli.connecting import ask, json_option
from shiftlog.cli.screen.output import Printer, print_json, since
from shiftlog.text.figures import largest_unit
from shiftlog.text.printable import terminal_line


@click.command(short_help="List commands that wait for your approval.")
@json_option
def approvals(as_json: bool) -> None:
    """List the commands of agents that wait for your approval, because an `ask` rule of the policy matches them.

    The oldest comes first.

    \b
    Example:
      shiftlog approvals
    """
    found = ask("approvals")
    if as_json:
        print_json(found)
        return
    printer = Printer()
    items: list[dict[str, Any]] = found["items"]
    if not items:
        printer.line("Nothing waits for approval.")
        return
    for item in items:
        about = (
            f"  asked {since(item['asked_at'])} ago by the rule {terminal_line(item['entry'])} for {item['shell_id']}"
        )
        printer.item((item["approval_id"], "cyan"), (f"{about}, expires in {_left(item['expires_at'])}", "dim"))
        # Printed in full at any width: an approval must cover only what was seen.
        printer.block(item["command"], indent=2, style="bold")
    printer.line(("shiftlog approve ID permits one, shiftlog approve ID --decline refuses it", "dim"))


def _left(expires_at: str) -> str:
    import time
    from datetime import datetime

    return largest_unit(datetime.fromisoformat(expires_at).timestamp() - time.time())


@click.command(short_help="Approve or decline a waiting command.")
@click.argument("approval_id", metavar="ID")
@click.option("--decline", is_flag=True, help="Decline it.")
@json_option
def approve(approval_id: str, decline: bool, as_json: bool) -> None:
    """Approve the waiting command ID, or decline it with --decline.

    An approval covers one run of exactly this text in this shell, within ten minutes of the request. The journal
    records it. ID may be shortened to its first characters. This command is refused inside a shell of Shiftlog.

    \b
    Examples:
      shiftlog approve 3fa91c02
      shiftlog approve 3fa91c02 --decline
    """
    decided = ask("approve", {"approval_id": approval_id, "granted": not decline})
    if as_json:
        print_json(decided)
        return
    printer = Printer()
    granted = decided["state"] == "granted"
    printer.line((f"{decided['state']}  ", "green" if granted else "yellow"), (decided["command"], "bold"))
    holds = f", once, until {decided['expires_at']}" if granted else ""
    printer.line((f"for {decided['shell_id']}{holds}", "dim"))
