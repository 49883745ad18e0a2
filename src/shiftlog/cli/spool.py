"""`shiftlog spool`: events and calls that wait for the daemon, the outcome of a queued call, and failed ones."""

import click

from shiftlog.cli.connecting import ask, json_option
from shiftlog.cli.screen.output import Printer, print_json
from shiftlog.model.errors import InvalidParameter
from shiftlog.text.figures import count
from shiftlog.text.printable import terminal_line


@click.command(short_help="Show waiting and rejected events and calls.")
@click.argument("item", required=False, metavar="[ID]")
@json_option
def spool(item: str | None, as_json: bool) -> int:
    """Show the events of hooks and the calls of client scripts that wait for the daemon or were set aside.

    ID is the id that a queued call got as its answer; with it, the command prints the outcome: `persisted`,
    `unchanged`, still `queued`, or `set_aside` with the reason. Outcomes are kept for a day.

    \b
    Examples:
      shiftlog spool
      shiftlog spool 0f3a…
    """
    answer = ask("spool", {"id": item} if item else {})
    if item and answer["receipt"] is None:
        raise InvalidParameter.invalid("id", "the id of a request that was queued within a day", item)
    if as_json:
        print_json(answer)
        return 0
    printer = Printer()
    if item:
        receipt = answer["receipt"]
        session = f" in {receipt['session_id']}, entry {receipt['seq']}" if receipt.get("session_id") else ""
        printer.line(terminal_line(f"{receipt['code']}{session}{_because(receipt)}"))
        return 0
    waiting = answer["waiting"]
    printer.line(f"{count(waiting['events'], 'file')} of events and {count(waiting['calls'], 'queued call')} waiting")
    for one in answer["set_aside"]:
        what, at = one.get("event") or one.get("kind") or "item", one.get("at") or "an unknown time"
        printer.item(terminal_line(f"set aside: {what} {one.get('id')} of {at}{_because(one)}"))
    return 0


def _because(item: dict[str, object]) -> str:
    return f": {item['reason']}" if item.get("reason") else ""
