"""The commands `hold` (legal holds) and `retention` (what is erased after some days)."""

import getpass
import sys
from typing import Any

import click

from shiftlog.cli.connecting import ask, json_option
from shiftlog.cli.screen.output import Printer, print_json, when
from shiftlog.model.ids import short_id
from shiftlog.text.figures import count
from shiftlog.text.printable import terminal_line

Facts = dict[str, Any]


@click.group(short_help="Keep sessions from being erased: legal holds.")
def hold() -> None:
    """Put a session or a project on legal hold, lift a hold, and list them.

    What is on hold is not erased, not archived and not removed by retention. Every hold is recorded with its reason,
    and stays in the record when it is lifted.

    \b
    Examples:
      shiftlog hold set last --reason 'case 4711'
      shiftlog hold set --project webshop --reason 'audit 2026'
      shiftlog hold list
      shiftlog hold lift last --reason 'case 4711 is closed'
    """


def _changed(session: str | None, project: str | None, reason: str, *, lift: bool) -> Facts:
    if (session is None) == (project is None):
        raise click.UsageError("Name either a SESSION or a --project.")
    params: Facts = {"reason": reason, "by": getpass.getuser(), "lift": lift}
    if project is not None:
        return ask("hold", {**params, "project": project})
    return ask("hold", params, session=session)


@hold.command("set", short_help="Put a session or project on hold.")
@click.argument("session", required=False)
@click.option("--project", metavar="PROJECT", help="All sessions of a project, now and later: its name or path.")
@click.option("--reason", required=True, metavar="TEXT", help="Reason; it is recorded.")
@json_option
def set_(session: str | None, project: str | None, reason: str, as_json: bool) -> None:
    """Put SESSION, or all sessions of a project, on hold.

    \b
    Examples:
      shiftlog hold set last --reason 'case 4711'
      shiftlog hold set --project webshop --reason 'audit 2026'
    """
    placed = _changed(session, project, reason, lift=False)
    if as_json:
        print_json(placed)
    else:
        Printer().line(("on hold ", "bold"), _line(placed))


@hold.command(short_help="Lift a hold.")
@click.argument("session", required=False)
@click.option("--project", metavar="PROJECT", help="The project whose hold is lifted.")
@click.option("--reason", required=True, metavar="TEXT", help="Reason; it is recorded.")
@json_option
def lift(session: str | None, project: str | None, reason: str, as_json: bool) -> None:
    """Lift the hold on SESSION, or on a project.

    \b
    Example:
      shiftlog hold lift last --reason 'case 4711 is closed'
    """
    lifted = _changed(session, project, reason, lift=True)
    if as_json:
        print_json(lifted)
    else:
        Printer().line(("lifted ", "bold"), _line(lifted))


@hold.command("list", short_help="List holds.")
@click.option("--all", "everything", is_flag=True, help="Lifted ones too.")
@json_option
def list_(everything: bool, as_json: bool) -> None:
    """List the holds in force, oldest first.

    \b
    Example:
      shiftlog hold list --all
    """
    found = ask("holds", {"all": everything})
    if as_json:
        print_json(found)
        return
    printer = Printer()
    for each in found["holds"]:
        printer.line(_line(each))
    if not found["holds"]:
        printer.line("Nothing is on hold.")


def _line(facts: Facts) -> str:
    text = f"{facts['scope']} {facts['name']}  since {when(facts['at'])} by {facts['by']}: {facts['reason']}"
    if "lifted_at" in facts:
        text += f"  (lifted {when(facts['lifted_at'])} by {facts['lifted_by']}: {facts['lifted_because']})"
    return terminal_line(text)


@click.command(short_help="Show or erase what was kept long enough.")
@click.option("--run", is_flag=True, help="Erase it now, as the daemon does once a day.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
def retention(run: bool, yes: bool, as_json: bool) -> int:
    """Show what `[retention]` in config.toml erases next, and what legal holds keep.

    Erasing removes what the entries of a session said, as `shiftlog erase` does: the chain stays and verifies. Only
    sessions that are not open are erased, so many days after their last activity.

    \b
    Examples:
      shiftlog retention
      shiftlog retention --run --yes
    """
    found = ask("retention", {})
    due = [each for each in found["due"] if not each["legal_hold"]]
    if run and due:
        if not yes and not _confirmed(len(due)):
            return 1
        found |= ask("retain", {})
    if as_json:
        print_json(found)
        return 0
    printer = Printer()
    erased = {each["session_id"] for each in found.get("erased", ())}
    for each in found["due"]:
        state = "erased" if each["session_id"] in erased else "on hold" if each["legal_hold"] else "due"
        facts = f"{count(each['entries'], 'entry')}, kept for {each['days']} days"
        printer.line((f"{state:8}", "bold"), terminal_line(f"{short_id(each['session_id'])}  {each['title']}  {facts}"))
    if not found["due"]:
        printer.line("Nothing was kept long enough to be erased.")
    return 0


def _confirmed(sessions: int) -> bool:
    if not sys.stdin.isatty():
        raise click.UsageError("Erasing cannot be undone, and there is no terminal to confirm it. Add --yes.")
    return click.confirm(f"Erase what {count(sessions, 'session')} said, for good?", err=True)
