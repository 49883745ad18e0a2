"""Commands that a person must permit: `approvals` lists what is asked, `approve` answers.

Only the operator can answer, and never from inside a shell that Shiftlog opened; the daemon sees to that.
"""

from typing import Any

import click

from shiftlog.cli.asking import ask, json_option
from shiftlog.cli.screen.output import Screen, print_json, since
from shiftlog.text.figures import largest_unit
from shiftlog.text.printable import terminal_line


@click.command(short_help="List commands that wait for your approval.")
@json_option
def approvals(as_json: bool) -> None:
    """List the commands that agents want to run and that the policy's `ask` rules leave to you, oldest first.

    \b
    Example:
      shiftlog approvals
    """
    found = ask("approvals")
    if as_json:
        print_json(found)
        return
    screen = Screen()
    items: list[dict[str, Any]] = found["items"]
    if not items:
        screen.line("Nothing waits for approval.")
        return
    for item in items:
        about = (
            f"  asked {since(item['asked_at'])} ago by the rule {terminal_line(item['entry'])} for {item['shell_id']}"
        )
        screen.item((item["approval_id"], "cyan"), (f"{about}, expires in {_left(item['expires_at'])}", "dim"))
        # Whole, whatever the width: nobody should permit what they have not seen.
        screen.block(item["command"], indent=2, style="bold")
    screen.line(("shiftlog approve ID permits one, shiftlog approve ID --decline refuses it", "dim"))


def _left(expires_at: str) -> str:
    import time
    from datetime import datetime

    return largest_unit(datetime.fromisoformat(expires_at).timestamp() - time.time())


@click.command(short_help="Permit or refuse a command that waits.")
@click.argument("approval_id", metavar="ID")
@click.option("--decline", is_flag=True, help="Refuse it.")
@json_option
def approve(approval_id: str, decline: bool, as_json: bool) -> None:
    """Permit the command that waits under ID, or refuse it with --decline.

    It holds for that shell and that exact text, once, within ten minutes of the question, and is recorded in the
    journal. An id may be shortened to its beginning. Nothing inside a shell that Shiftlog opened can do this.

    \b
    Examples:
      shiftlog approve 3fa91c02
      shiftlog approve 3fa91c02 --decline
    """
    decided = ask("approve", {"approval_id": approval_id, "granted": not decline})
    if as_json:
        print_json(decided)
        return
    screen = Screen()
    granted = decided["state"] == "granted"
    screen.line((f"{decided['state']}  ", "green" if granted else "yellow"), (decided["command"], "bold"))
    holds = f", once, until {decided['expires_at']}" if granted else ""
    screen.line((f"for {decided['shell_id']}{holds}", "dim"))
